"""The outcome of a fit in sentences: what was reached, and advice that depends on the limits and on how it ended."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from torch import Tensor

from fairbound._words import did_you_mean
from fairbound.fairness import Constraint, as_constraints, resolve_measure
from fairbound.sqp import Status
from fairbound.training import Effort, Phase, RateSupport, TrainingResult

OPTIMALITY = {
    Status.CONVERGED: "the conditions of a local optimum hold",
    Status.FEASIBLE: "the best model found, not proven to be a local optimum",
}
"""A detail of the two good statuses.  Decisions are counted row by row, so the second is the usual one."""

NEARLY_ALL = 0.99
"""Decisions are nearly constant if at least this share of the rows has the same one."""

LISTED = 5
"""The most limits that a sentence names."""


@dataclass(frozen=True)
class FitFacts:
    """The facts that the sentences about a fit depend on.

    Attributes
    ----------
    constraints : tuple of Constraint
    classes : tuple
        The labels; of two labels the positive one is last.
    decided : Tensor of shape (classes,)
        Rows decided for each class.
    labelled : Tensor of shape (classes,)
        Rows labelled as each class.
    stopped : bool
        Whether a callback or an interrupt ended the fit.
    ran_out : bool
        Whether the iterations that the user allowed ran out.
    handfuls : tuple of RateSupport
        Limited rates that are computed from only a handful of selected rows.
    """

    constraints: tuple[Constraint, ...]
    classes: tuple[Hashable, ...]
    decided: Tensor
    labelled: Tensor
    stopped: bool
    ran_out: bool
    handfuls: tuple[RateSupport, ...] = ()

    def message(self, result: TrainingResult) -> str:
        """Return what was reached, in a sentence or two."""
        if result.status in OPTIMALITY:
            return self._reached(result)
        if not self.constraints and result.status is Status.DEGENERATE:
            return "The result is no better than a constant prediction."
        if self.stopped and result.status in (Status.MAX_ITERATIONS, Status.INFEASIBLE):
            return "The fit was ended before every limit was kept; of the models seen, the nearest is returned."
        if result.status is Status.DEGENERATE:
            return f"The limits are kept, but the result is no better than a constant prediction: {self._decisions()}."
        return result.message

    def notes(self) -> list[str]:
        """Return further remarks on the decisions."""
        found = []
        if self.stopped:
            found.append("The fit was stopped early; this is the best model found until then.")
        rows = int(self.decided.sum())
        if self._share >= NEARLY_ALL and int(self.labelled.max()) < NEARLY_ALL * rows:
            found.append(f"The decisions are {'' if self._share == 1 else 'nearly '}constant: {self._decisions()}.")
        return [*found, *map(str, self.handfuls)]

    def handful_warning(self, estimator: str) -> str:
        """Return the warning for a model that keeps the limits by selecting almost nobody in some groups."""
        told = " ".join(map(str, self.handfuls[:LISTED]))
        return (
            f"{estimator} keeps {self._limits()}, but by selecting almost nobody: {told} Such a rate says little about "
            "other rows. Loosen the limits, or limit the selection rate from below."
        )

    def degenerate_warning(self, estimator: str) -> str:
        """Return the warning for a model that keeps the limits and is no better than a constant."""
        positive = f" (the positive label is {self.classes[1]!r})" if len(self.classes) == 2 else ""
        return (
            f"{estimator} keeps {self._limits()}, but predicts no better than a constant, which any ratio allows: "
            f"{self._decisions()}{positive}. {self._advice()}"
        )

    def _reached(self, result: TrainingResult) -> str:
        accuracy = f"{result.assessment.accuracy:.2%}"
        if not self.constraints:
            return f"The model is trained. Accuracy {accuracy}."
        free = "" if result.free is None else f"{result.free.accuracy:.2%}"
        compared = f" ({free} without limits)" if free not in ("", accuracy) else ""
        return f"All limits are kept. Accuracy {accuracy}{compared}."

    @property
    def _share(self) -> float:
        return float(self.decided.max() / self.decided.sum())

    def _decisions(self) -> str:
        rows, most = int(self.decided.sum()), int(self.decided.max())
        label = self.classes[int(self.decided.argmax())]
        return f"every row is decided {label!r}" if most == rows else f"{most:,} of {rows:,} rows are decided {label!r}"

    def _limits(self) -> str:
        texts = [str(each) for each in self.constraints]
        more = f" and {len(texts) - LISTED} more limits" if len(texts) > LISTED else ""
        return ", ".join(texts[:LISTED]) + more

    def _advice(self) -> str:
        if self.stopped:
            return "The fit was stopped early: let it run to its end."
        if self.ran_out:
            return "The allowed number of iterations was reached: a larger effort may find a better model."
        bounded = any(resolve_measure(each.measure).comparison == "value" for each in self.constraints)
        if bounded or self._share < NEARLY_ALL:
            return "Loosen the limits."
        if len(self.classes) == 2 and int(self.decided.argmax()) == 1:
            return 'Loosen the limits, or add a ceiling such as "selection_rate <= 0.9".'
        return 'Loosen the limits, or add a floor such as "selection_rate >= 0.1".'


def count_rows(classes: Tensor, n_classes: int) -> Tensor:
    """Return how many rows have each class."""
    return torch.bincount(classes, minlength=n_classes)


def has_run_out(history: Sequence[dict[str, Any]], effort: Effort | None) -> bool:
    """Return whether a phase used all iterations that the user's `effort` allows."""
    if effort is None:
        return False
    for phase, rows in groupby(history, key=lambda row: row.get("phase")):
        allowed = getattr(effort, str(phase), None)
        if isinstance(allowed, Phase) and len(list(rows)) >= allowed.iterations:
            return True
    return False


# --- parameters ------------------------------------------------------------------------------------------------------

# The parameters of the classifier: allowed values, and names for the parameters of its limits.
#
# A limit is a frozen dataclass with a `name`.  Its fields have names such as `constraints__disparate_impact__bound`.
# A name that occurs again gets a number, `disparate_impact_2`.


ALLOWED: dict[str, list[Any]] = {
    "objective": [StrOptions({"loss", "cross_entropy", "accuracy"})],
    "solver": [StrOptions({"auto", "quasi-newton", "stochastic"})],
    "threshold": [Interval(Real, 0, 1, closed="neither")],
    "l2": [Interval(Real, 0, None, closed="left")],
    "confidence": [Interval(Real, 0.5, 1, closed="left"), None],
    "calibration_size": [Interval(Real, 0, 1, closed="neither")],
    "sensitive_as_input": ["boolean"],
    "groups": [StrOptions({"each", "intersection", "both"})],
    "missing_groups": [StrOptions({"ignore", "group"})],
    "small_groups": [StrOptions({"error", "warn", "merge"})],
    "min_group_size": [Interval(Integral, 1, None, closed="left")],
    "constraint_weight": [StrOptions({"same", "none"}), "array-like"],
    "ensemble": ["boolean"],
    "correction": [StrOptions({"columns", "groups", "both"})],
    "preprocessing": [StrOptions({"auto"}), HasMethods(["fit", "transform"]), None],
    "max_categories": [Interval(Integral, 2, None, closed="left")],
    "effort": [Effort, None],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
"""Allowed values by parameter, in scikit-learn's form.  Other parameters are checked where they are used."""


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
