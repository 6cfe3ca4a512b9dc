"""The parameters of the classifier: records, names for those of its limits, checks, and what `verbose=` prints.

A limit is a frozen dataclass with a `name`.  Its fields have names such as `constraints__disparate_impact__bound`.  A
name that occurs again gets a number, `disparate_impact_2`.  Those of a record are named as in `groups__min_size`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fairbound._errors import InputError, InputTypeError
from fairbound._journal import digest
from fairbound._model_settings import Base, Callback, Confidence, Groups, Loss, Training
from fairbound._settings import Settings, check_parameter, check_settings, declared_settings, nested_parameters
from fairbound._words import did_you_mean
from fairbound.evaluation import AUTO
from fairbound.fairness import Cells, Constraint, Quota, as_constraints, without_quota
from fairbound.training import Passes
from fairbound.training import present_processes as found_processes

if TYPE_CHECKING:
    from fairbound.training import Processes


class Parameters(Protocol):
    """The checked parameters of a classifier, as a fit uses them: each record is one."""

    constraints: tuple[Constraint, ...]
    hidden: Sequence[int]
    module: Any
    base: Base
    objective: Any
    loss: Loss
    threshold: float
    select: Quota | None
    pos_label: Any
    margin: Any
    confidence: Any
    sensitive_columns: Any
    groups: Groups
    encoder: Any
    training: Training
    random_state: Any
    callbacks: Any
    verbose: int


def checked(estimator: Any) -> Any:
    """Return a copy of the estimator with its parameters as `Parameters`; raise an error for one that is not allowed.

    `hidden` is then the widths, and `module` the user's own network, if it is one; `select` is the quota among the
    constraints.
    """
    check_settings(estimator)
    if isinstance(estimator.constraints, Iterator):
        raise TypeError("constraints= is an iterator, which can be read only once: give a list or a tuple.")
    found = copy.copy(estimator)
    found.constraints, found.select = without_quota(as_constraints(estimator.constraints))
    found.groups, found.loss = Groups.of(estimator.groups), Loss.of(estimator.loss)
    found.training, found.base = Training.of(estimator.training), Base.of(estimator.base)
    found.confidence = None if estimator.confidence is None else Confidence.of(estimator.confidence)
    own = callable(estimator.hidden)
    found.hidden, found.module = ((), estimator.hidden) if own else (estimator.hidden, None)
    encoder = estimator.encoder
    known = encoder is None or (isinstance(encoder, str) and encoder == "auto")
    if not (known or (hasattr(encoder, "fit") and hasattr(encoder, "transform"))):
        raise InputTypeError(
            "{encoder=value} must be auto, None, or a transformer with fit and transform.", value=encoder
        )
    return found


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
        if columns is not None and "eval accuracy" not in row:  # a row from a journal has them
            row.update(columns())
        progress(row)
        said = [callback(row) for callback in callbacks]  # call all of them, whatever the first ones return
        return any(said)

    return each


def present_processes(estimator: Any) -> Processes | None:
    """Return the processes that share a fit, if there are several."""
    return found_processes() if Training.of(estimator.training).distributed == "auto" else None


def check_early_stopping(params: Parameters, eval_set: Any) -> None:
    """Raise an error for `early_stopping` without validation rows."""
    if params.training.early_stopping and eval_set is None:
        raise InputError(
            "{training.early_stopping=True} chooses the model by its loss on validation rows.",
            "Give them to fit, {eval_set=}(X, y, groups).",
        )
    if params.training.early_stopping and not isinstance(params.objective, str):
        raise InputError(
            "{training.early_stopping=True} needs the gains of validation rows, too.",
            "Name the columns of X that have them, as in {objective='profit(gain)'}.",
        )


def settled_seed(stated: Any, passes: Passes) -> Any:
    """Return the random state of a fit; if none is stated, draw a seed, or take that of the fit that is resumed."""
    if stated is not None:
        return stated
    return passes.remember(lambda: digest("seed"), lambda: check_random_state(None).randint(2**31 - 1))


def stated_probability(margin: float | str | None) -> float | None:
    """Return the probability that `margin=` asks for."""
    return AUTO if margin == "auto" else None if margin is None else float(margin)


def check_shared(params: Parameters) -> None:
    """Raise an error for an encoder that cannot learn from the rows of several processes."""
    if not (params.encoder is None or type(params.encoder).__name__ in ("str", "TableEncoder")):
        raise InputError(
            "{encoder=} needs all rows in one process, but several processes share this fit.",
            "Leave it out, or fit in one process with {training.distributed='off'}.",
        )


def class_weights(stated: Any, cells: Cells) -> NDArray[np.float64]:
    """Return the weight of each class in the loss, an array of shape (classes,)."""
    classes = list(cells.classes)
    if stated is None:
        return np.ones(len(classes))
    if isinstance(stated, Mapping):
        _check_class_weights(stated, classes)
        return np.array([float(stated.get(each, 1.0)) for each in classes])
    # "balanced", as in scikit-learn.
    rows = cells.rows_by_class(cells.labels)
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


def limit_parameters(prefix: str, objects: Sequence[Any]) -> dict[str, Any]:
    """Return every object, and every field of every object, by its parameter name."""
    found: dict[str, Any] = {}
    for name, each in zip(object_names(objects), objects, strict=True):
        found[f"{prefix}__{name}"] = each
        found |= {f"{prefix}__{name}__{field.name}": getattr(each, field.name) for field in fields(each)}
    return found


def with_parameters(prefix: str, objects: Sequence[Any], changes: Mapping[str, Any]) -> list[Any]:
    """Return the objects with some fields changed; the keys of `changes` have no prefix."""
    names, result = object_names(objects), list(objects)
    known = limit_parameters(prefix, objects)
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
    """`get_params` and `set_params` that also know the parameters of each limit and of each record.

    A plain value such as `groups="both"` becomes a record as soon as one of its other settings is set.
    """

    constraints: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also those of limits, records and other estimators."""
        params: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return params
        limits = limit_parameters("constraints", readable_constraints(self.constraints))
        return {**params, **nested_parameters(self._records()), **nested_parameters(params), **limits}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, such as `constraints__disparate_impact__bound=0.9` or `groups__min_size=20`."""
        limits = {key: value for key, value in params.items() if key.startswith("constraints__")}
        for key in sorted(params.keys() - limits, key=lambda each: "__" in each):  # whole parameters first
            name, nested, rest = key.partition("__")
            check_parameter(name, self.get_params(deep=False), self)
            setattr(self, name, self._changed(name, rest, params[key]) if nested else params[key])
        if limits:
            changes = {key.removeprefix("constraints__"): value for key, value in limits.items()}
            self.constraints = with_parameters("constraints", readable_constraints(self.constraints), changes)
        return self

    def _changed(self, name: str, key: str, value: Any) -> Any:
        """Return the value of a parameter with one of its own parameters changed."""
        held = getattr(self, name)
        if not (hasattr(held, "get_params") and key in held.get_params()):
            held = self._records().get(name, held)
        if not hasattr(held, "set_params"):
            raise ValueError(f"Invalid parameter {name}__{key}: {name}={held!r} has no parameters of its own.")
        return held.set_params(**{key: value})

    def _records(self) -> dict[str, Settings]:
        """Return the parameters that are records, or that stand for one."""
        found: dict[str, Settings] = {}
        kind: Any = type(self)
        for name, declared in declared_settings(kind).items():
            value = getattr(self, name)
            if declared.record is not None and value is not None:
                try:
                    found[name] = declared.record.of(value)
                except (TypeError, ValueError):  # `fit` raises the error, not `get_params`
                    continue
        return found


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
