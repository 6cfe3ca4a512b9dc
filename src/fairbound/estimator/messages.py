"""Sentences about a fit: its outcome, and advice that depends on limits and status."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import ForecastWarning, LimitWarning, Message
from fairbound._words import probability_text
from fairbound.fairness import Constraint, resolve_measure
from fairbound.sqp import Status
from fairbound.training import Effort, RateSupport, TrainingResult

if TYPE_CHECKING:
    from fairbound.estimator.objectives import Reached
    from fairbound.estimator.result import FitResult

CLEARLY_UNLIKELY = 1 / 3
"""A fit warns if the forecast probability that its limits hold on new rows is below this."""

OPTIMALITY = {
    Status.CONVERGED: "the conditions of a local optimum hold",
    Status.FEASIBLE: "the best model found, not proven to be a local optimum",
}
"""A detail of the two good statuses.  Exact measures change in jumps of one row, so the second is the usual one."""

NEARLY_ALL = 0.99
"""Decisions are nearly constant if at least this share of the rows has the same one."""

ERASED = 0.1
"""A class is erased if it is decided for fewer rows than this share of the rows with its label."""

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
    decided : array of shape (classes,)
        Rows decided for each class.
    labelled : array of shape (classes,)
        Rows labelled as each class.
    stopped : bool
        Whether a callback or an interrupt ended the fit.
    ran_out : bool
        Whether the iterations that the user allowed ran out.
    handfuls : tuple of RateSupport
        Limited rates that are computed from only a few selected rows.
    erased : tuple of int
        Of several classes those that, because of the limits, are hardly ever decided.
    """

    constraints: tuple[Constraint, ...]
    classes: tuple[Hashable, ...]
    decided: NDArray[np.int64]
    labelled: NDArray[np.int64]
    stopped: bool
    ran_out: bool
    handfuls: tuple[RateSupport, ...] = ()
    erased: tuple[int, ...] = ()

    def message(self, result: TrainingResult, reached: Reached | None = None) -> str:
        """Return what was reached, in a sentence or two."""
        if result.status in OPTIMALITY:
            return self._reached(result, reached)
        if not self.constraints and result.status is Status.DEGENERATE:
            return "The result is no better than a constant prediction."
        if self.stopped and result.status in (Status.MAX_ITERATIONS, Status.INFEASIBLE):
            return "The fit was stopped before every limit was kept; the model nearest to the limits is returned."
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
        return [*found, *self._erasures(), *map(str, self.handfuls)]

    def _erasures(self) -> list[str]:
        return [
            f"Class {self.classes[each]!r} is the label of {int(self.labelled[each]):,} rows, but the decision for "
            f"{int(self.decided[each]):,}: the limits are kept by hardly ever deciding for it."
            for each in self.erased
        ]

    def handful_warning(self) -> str:
        """Return the warning for a model that keeps the limits by selecting almost nobody in some groups."""
        told = " ".join([*self._erasures(), *map(str, self.handfuls)][:LISTED])
        return (
            f"The model keeps {self._limits()}, but by selecting almost nobody: {told} Such a rate says little about "
            "other rows. Loosen the limits, or limit the selection rate from below."
        )

    def warn(self, record: FitResult, stacklevel: int) -> None:
        """Warn if a limit is not kept or not certified, or if the model is of little use."""
        told = None
        if not record.kept:
            missed = "; ".join(f"{each.limit} (reached {each.reached:.4f})" for each in record.limits if not each.kept)
            told = f"The model does not keep every limit on the training rows: {missed}. {record.message}"
        elif record.certified is False:
            told = f"The model is not certified. {record.message}"
        elif self.constraints and record.status is Status.DEGENERATE:
            told = self.degenerate_warning()
        elif self.handfuls or self.erased:
            told = self.handful_warning()
        if told is not None:
            warnings.warn(told, LimitWarning, stacklevel=stacklevel)
        elif is_unlikely(record):
            warnings.warn(_unlikely(record), ForecastWarning, stacklevel=stacklevel)

    def degenerate_warning(self) -> str:
        """Return the warning for a model that keeps the limits and is no better than a constant."""
        positive = f" (the positive label is {self.classes[1]!r})" if len(self.classes) == 2 else ""
        return (
            f"The model keeps {self._limits()}, but predicts no better than a constant, or is almost one: "
            f"{' '.join([f'{self._decisions()}{positive}.', *self._erasures(), self._advice()])}"
        )

    def _reached(self, result: TrainingResult, reached: Reached | None) -> str:
        if reached is not None:
            said = "The model is trained." if not self.constraints else "All limits are kept on the training rows."
            return f"{said} {reached.in_words}"
        accuracy = f"{result.assessment.accuracy:.2%}"
        if not self.constraints:
            return f"The model is trained. Accuracy {accuracy}."
        free = "" if result.free is None else f"{result.free.accuracy:.2%}"
        compared = f" ({free} without limits)" if free not in ("", accuracy) else ""
        return f"All limits are kept on the training rows. Accuracy there {accuracy}{compared}."

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
        rows, positives = float(self.labelled.sum()), float(self.labelled[-1])
        if len(self.classes) == 2 and int(self.decided.argmax()) == 1:
            ceiling = 1.0 - float(f"{0.5 * (rows - positives) / rows:.1g}")
            return f'Loosen the limits, or add a ceiling such as "selection_rate <= {ceiling:g}".'
        # Half of the share of positive labels: a floor above that share would cost more than it brings.
        floor = 0.5 * (positives / rows if len(self.classes) == 2 else float(self.labelled.min()) / rows)
        return f'Loosen the limits, or add a floor such as "selection_rate >= {floor:.1g}".'


def is_unlikely(record: FitResult) -> bool:
    """Return whether the limits are unlikely to hold on new rows, or clearly less likely than `margin=` asked for."""
    forecast, margin = record.forecast, record.margin
    if forecast is None or not forecast.limits:
        return False
    return forecast.chance < CLEARLY_UNLIKELY or (margin is not None and margin.falls_short(forecast))


def _unlikely(record: FitResult) -> Message:
    """Return the warning for limits that are less likely to hold on new rows than a user expects."""
    assert record.forecast is not None
    remedy: str | Message = Message("Give {margin='auto'} to train with a margin.")
    if record.margin is not None:
        remedy = (
            f"The margin was to give {probability_text(record.margin.probability)}: give more rows or fewer columns, "
            "or loosen the limits."
        )
    return Message(
        "The model keeps the limits on its training rows, but on new rows they hold with a probability of {holds} "
        "only. {remedy}",
        remedy=remedy,
        holds=probability_text(record.forecast.chance),
    )


def erased_classes(
    decided: NDArray[np.int64], labelled: NDArray[np.int64], free: NDArray[np.float64] | None
) -> tuple[int, ...]:
    """Return those of several classes that are decided for few of the rows with their label, but not without limits.

    `free` are the sums of decisions over cells of the model without limits, in weights (K, 2·O).
    """
    if free is None or len(labelled) == 2:
        return ()
    before = free[:, : len(labelled)].sum(axis=0)
    share, share_before = decided / decided.sum(), before / before.sum()
    least = ERASED * labelled / labelled.sum()
    return tuple(np.flatnonzero((share < least) & (share_before >= least)).tolist())


def has_run_out(history: Sequence[dict[str, Any]], effort: Effort | None) -> bool:
    """Return whether a solve used all iterations that the user's `effort` allows."""
    return effort is not None and any(row.get("iteration", 0) >= effort.iterations for row in history)
