"""The parameters of the classifier: allowed values, names for the parameters of its limits, and what `verbose=` prints.

A limit is a frozen dataclass with a `name`.  Its fields have names such as `constraints__disparate_impact__bound`.  A
name that occurs again gets a number, `disparate_impact_2`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, Self, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from fairbound._errors import InputError, argument
from fairbound._words import did_you_mean
from fairbound.fairness import Cells, Constraint, as_constraints
from fairbound.training import Effort, Processes

Callback = Callable[[dict[str, Any]], bool | None]

ALLOWED: dict[str, list[Any]] = {
    "objective": [StrOptions({"accuracy", "loss"})],
    "solver": [StrOptions({"auto", "quasi-newton", "stochastic"})],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "epochs": [Interval(Integral, 1, None, closed="left"), None],
    "constraint_share": [Interval(Real, 0, 1, closed="right"), None],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "early_stopping": ["boolean"],
    "threshold": [Interval(Real, 0, 1, closed="neither")],
    "l2": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "confidence": [Interval(Real, 0.5, 1, closed="left"), None],
    "margin": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"}), None],
    "calibration_size": [Interval(Real, 0, 1, closed="neither")],
    "sensitive_as_input": ["boolean"],
    "groups": [StrOptions({"each", "intersection", "both"})],
    "missing_groups": [StrOptions({"ignore", "group"})],
    "small_groups": [StrOptions({"error", "warn", "merge"})],
    "min_group_size": [Interval(Integral, 1, None, closed="left")],
    "no_group_worse": ["boolean", str],
    "constraint_weight": [StrOptions({"same", "none"}), "array-like"],
    "ensemble": ["boolean"],
    "correction": [StrOptions({"columns", "groups", "both"})],
    "preprocessing": [StrOptions({"auto"}), HasMethods(["fit", "transform"]), None],
    "max_categories": [Interval(Integral, 2, None, closed="left")],
    "forecast": ["boolean"],
    "effort": [Effort, None],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "distributed": [StrOptions({"auto", "off"})],
    "verbose": ["verbose"],
}
"""Allowed values by parameter, in scikit-learn's form.  Other parameters are checked where they are used."""


AUTO = 2 / 3
"""The probability that `margin="auto"` asks for: the limits are twice as likely to hold on new rows as to break."""


def as_callbacks(stated: Any) -> list[Callback]:
    """Return the callbacks as a list."""
    several = isinstance(stated, Iterable) and not callable(stated) and getattr(stated, "ndim", 1) > 0
    listed = [] if stated is None else list(stated) if several else [stated]
    for each in listed:
        if not callable(each):
            raise TypeError(f"callbacks= has {each!r}: give functions that take a row of the history, a dictionary.")
    return listed


def one_callback(
    stated: Any, progress: ProgressPrinter, columns: Callable[[], dict[str, Any]] | None = None
) -> Callback:
    """Return a callback that adds columns to a row of the history, prints it, and calls all stated callbacks."""
    callbacks = as_callbacks(stated)
    if columns is None and not progress.verbose and len(callbacks) == 1:
        return callbacks[0]  # there is nothing to add to its rows

    def each(row: dict[str, Any]) -> bool:
        if columns is not None:
            row.update(columns())
        progress(row)
        said = [callback(row) for callback in callbacks]  # call all of them, whatever the first ones return
        return any(said)

    return each


def allow_only(params: Any, allowed: Mapping[str, Sequence[Any]], problem: str, remedy: str) -> None:
    """Raise an error if a parameter has a value that is not allowed; `problem` and `remedy` are templates."""
    for name, values in allowed.items():
        value = getattr(params, name)
        if not any(value is each or (isinstance(value, str) and value == each) for each in values):
            raise InputError(problem, remedy, name=name, value=value)


def check_early_stopping(params: Any, eval_set: Any) -> None:
    """Raise an error for `early_stopping` without validation rows, or with `confidence`."""
    if params.early_stopping and eval_set is None:
        raise ValueError(
            "early_stopping=True chooses the model by its loss on validation rows: give them to fit, "
            "eval_set=(X, y, groups)."
        )
    if params.early_stopping and params.confidence is not None:
        raise ValueError(
            "early_stopping=True does not work with confidence=, which chooses the model by its calibration rows: "
            "leave one of them out."
        )


def check_margin(params: Any) -> None:
    """Raise an error for `margin` with a parameter that chooses the model in another way."""
    if params.margin is not None and params.confidence is not None:
        raise InputError(
            "{margin=value} does not work with {confidence=level}, which itself tightens the limits as much as needed.",
            "Leave one of them out.",
            value=params.margin,
            level=params.confidence,
        )
    if params.margin is not None and params.early_stopping:
        raise InputError(
            "{margin=value} does not work with {early_stopping=True}, which chooses the model by validation rows.",
            "Leave one of them out.",
            value=params.margin,
        )


def check_frontier(params: Any) -> None:
    """Raise an error if a frontier is asked for with `confidence`, `margin`, or several processes."""
    for name in ("confidence", "margin"):
        if getattr(params, name) is not None:
            raise InputError(
                "A frontier is trained without {name}, but {given}.",
                "Set it to None, and call fit with the bound that you choose.",
                name=name,
                given=argument(name, getattr(params, name)),
            )
    if params.distributed == "auto" and Processes.present() is not None:
        raise InputError(
            "A frontier is trained in one process, but this is one of several.",
            "Call fit for each bound, or use {distributed='off'} for the rows of this process alone.",
        )


def checked_resume(params: Any, resume: Any) -> Any:
    """Return `resume`; raise an error if the seed is drawn anew, because such a fit cannot be repeated."""
    if resume is not None and params.random_state is None:
        raise InputError(
            "{resume=} repeats a fit from its beginning, but with {random_state=None} each fit draws another seed.",
            "Give {random_state=} a number.",
        )
    return resume


def stated_batches(params: Any) -> dict[str, Any]:
    """Return those of `batch_size`, `epochs` and `constraint_share` that are set."""
    stated = {name: getattr(params, name) for name in ("batch_size", "epochs", "constraint_share")}
    return {name: value for name, value in stated.items() if value is not None}


def stated_solver(params: Any) -> Any:
    """Return the solver; "auto" becomes "stochastic" if a parameter of mini-batches is set."""
    stated = stated_batches(params)
    if stated and params.solver == "quasi-newton":
        name, value = next(iter(stated.items()))
        raise InputError(
            "{stated} is for mini-batches, but {solver='quasi-newton'} makes passes over all rows.",
            "Use {solver='stochastic'}, or leave out {name}.",
            stated=argument(name, value),
            name=argument(name),
        )
    return "stochastic" if stated else params.solver


def stated_probability(margin: float | str | None) -> float | None:
    """Return the probability that `margin=` asks for."""
    return AUTO if margin == "auto" else None if margin is None else float(margin)


def stated_effort(params: Any) -> Effort | None:
    """Return the effort with the parameters of mini-batches that are set; None leaves the choice to `fit`."""
    stated = stated_batches(params)
    if not stated:
        return params.effort
    return replace(params.effort or Effort(), **stated)


def class_weights(params: Any, cells: Cells) -> NDArray[np.float64]:
    """Return the weight of each class in the loss, an array of shape (classes,)."""
    classes = list(cells.classes)
    if params.class_weight is None:
        return np.ones(len(classes))
    if isinstance(params.class_weight, Mapping):
        _check_class_weights(params.class_weight, classes)
        return np.array([float(params.class_weight.get(each, 1.0)) for each in classes])
    # "balanced", as in scikit-learn; an entry may stand for several rows.
    counts = None if cells.counts is None else np.asarray(cells.counts)
    rows = np.bincount(cells.of_rows(np.asarray(cells.labels)), counts, minlength=len(classes))
    found: NDArray[np.float64] = rows.sum() / (len(classes) * rows)
    return found


def _check_class_weights(stated: Mapping[Any, Any], classes: Sequence[Any]) -> None:
    for label, weight in stated.items():
        if label not in classes:
            raise ValueError(f"class_weight= has a weight for {label!r}, but the classes of y are {classes}.")
        if not (isinstance(weight, Real) and 0 <= float(weight) < float("inf")):
            raise ValueError(f"class_weight= has {weight!r} for {label!r}: it must be a finite number, at least 0.")


def readable_constraints(stated: Any) -> tuple[Constraint, ...]:
    """Return the limits, or none if they cannot be read: `fit` raises the error, not `get_params`."""
    try:
        return as_constraints(stated)
    except (TypeError, ValueError):
        return ()


def object_names(objects: Sequence[Any]) -> list[str]:
    """Return a unique name for each object.

    >>> from types import SimpleNamespace as Thing
    >>> object_names([Thing(name="a"), Thing(name="b"), Thing(name="a")])
    ['a', 'b', 'a_2']
    """
    names: list[str] = []
    for each in objects:
        name, count = each.name, 1
        while name in names:
            count += 1
            name = f"{each.name}_{count}"
        names.append(name)
    return names


def nested_parameters(prefix: str, objects: Sequence[Any]) -> dict[str, Any]:
    """Return every object, and every field of every object, by its parameter name."""
    found: dict[str, Any] = {}
    for name, each in zip(object_names(objects), objects, strict=True):
        found[f"{prefix}__{name}"] = each
        found |= {f"{prefix}__{name}__{field.name}": getattr(each, field.name) for field in fields(each)}
    return found


def with_parameters(prefix: str, objects: Sequence[Any], changes: Mapping[str, Any]) -> list[Any]:
    """Return the objects with some fields changed; the keys of `changes` have no prefix."""
    names, result = object_names(objects), list(objects)
    known = nested_parameters(prefix, objects)
    by_object: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        if f"{prefix}__{key}" not in known:
            hint = did_you_mean(f"{prefix}__{key}", known)
            raise ValueError(
                f"Invalid parameter {prefix}__{key!s}: there is no such limit, or it has no such parameter.{hint} "
                f"Limits: {', '.join(names) or 'none'}."
            )
        name, _, field = key.partition("__")
        if field:
            by_object.setdefault(name, {})[field] = value
        else:
            result[names.index(name)] = value
    for name, values in by_object.items():
        position = names.index(name)
        result[position] = replace(result[position], **values)
    return result


class NamedParameters(BaseEstimator):
    """`get_params` and `set_params` that also know the parameters of each limit."""

    constraints: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also those of each limit, as `constraints__disparate_impact__bound`."""
        params = super().get_params(deep=deep)
        return (
            {**params, **nested_parameters("constraints", readable_constraints(self.constraints))} if deep else params
        )

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of a limit, such as `constraints__disparate_impact__bound=0.9`."""
        prefix = "constraints__"
        nested = {key.removeprefix(prefix): value for key, value in params.items() if key.startswith(prefix)}
        super().set_params(**{key: value for key, value in params.items() if not key.startswith(prefix)})
        if nested:
            self.constraints = with_parameters("constraints", readable_constraints(self.constraints), nested)
        return self


# --- all rows at once ------------------------------------------------------------------------------------------------

NEED_ALL_ROWS: dict[str, tuple[Any, ...]] = {
    "base": (None,),
    "confidence": (None,),
    "margin": (None,),
    "early_stopping": (False,),
    "warm_start": (False,),
}
"""Parameters that need all rows in the memory of one process, and the values that do not."""


def check_shared(params: Any, **given: Any) -> None:
    """Raise an error if a parameter or argument needs all rows in one process; for a fit of several processes."""
    allow_only(
        params,
        NEED_ALL_ROWS,
        "{name}={value!r} needs all rows in one process, but this fit is shared by several.",
        "Leave it out, or fit in one process with {distributed='off'}.",
    )
    if not (isinstance(params.constraint_weight, str) and given.pop("constraint_weight", None) is None):
        raise InputError(
            "{constraint_weight=} with an array needs a fit in one process.", "Use 'same' or 'none', or leave it out."
        )
    if not isinstance(params.random_state, int | np.integer):
        raise InputError(
            "{random_state=value} draws another seed in every process.", "Give a number.", value=params.random_state
        )
    if not (params.preprocessing is None or isinstance(params.preprocessing, str)):
        raise InputError(
            "{preprocessing=} with a transformer learns from the rows of one process, but this fit is shared by "
            "several.",
            "Use {preprocessing='auto'}, or transform the rows before the fit and use {preprocessing=None}.",
        )
    for name, value in given.items():
        if value is not None:
            raise InputError("{name}= needs a fit in one process.", "Leave it out.", name=name)


# --- verbose= ---------------------------------------------------------------------------------------------------------


class ProgressPrinter:
    """A callback that writes one line for each phase, or for each iteration.

    Parameters
    ----------
    verbose : int
        0 writes nothing, 1 a line for each phase, 2 a line for each iteration.
    stream : text stream, optional
        Output; standard output by default.
    """

    def __init__(self, verbose: int, stream: TextIO | None = None) -> None:
        self.verbose, self.stream = int(verbose), stream
        self.last: dict[str, Any] = {}

    def __call__(self, row: dict[str, Any]) -> None:
        """Process a row of the history."""
        if self.verbose > 1:
            self._write(row)
        elif self.verbose == 1 and self.last and self.last.get("phase") != row.get("phase"):
            self._write(self.last)
        self.last = row

    def close(self) -> None:
        """Write the line of the last phase."""
        if self.verbose == 1 and self.last:
            self._write(self.last)

    def _write(self, row: dict[str, Any]) -> None:
        number = row.get("iteration", row.get("epoch", 0))
        loss = row.get("f", row.get("objective", float("nan")))
        violation = row.get("violation", row.get("exact_violation", float("nan")))
        watched = "".join(
            f"  {name} {value:.4f}" for name, value in row.items() if name.startswith("eval ") and value == value
        )
        stream = self.stream or sys.stdout
        stream.write(
            f"{row.get('phase', ''):<9} {number:>4}  objective {loss:.6f}  violation {violation:.2e}{watched}\n"
        )
        stream.flush()
