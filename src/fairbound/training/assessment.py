"""Assess a model on all rows: loss, accuracy, and the measures, both exact (from decisions) and by surrogate.

A limit is *kept* if `Constraint.keeps` accepts its measured value, which is computed from counts of decisions.  A model
is *degenerate* if it is no more accurate than a constant prediction that keeps the limits, or if it is almost one.
Such a model keeps almost any limit, but it hardly uses its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness import Cells, ConstraintSystem, LimitValues, RowFunction
from fairbound.training.chunks import Floats
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep, cell_sums

ROUNDING = 1e-12

CLEARLY_VIOLATED = 1e-6
"""A violation of c̄ above this cannot be a rounding error."""

HANDFUL = 5
"""If at most this many rows do not get the most common decision, a model is nearly constant; see `near_constant`."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """Exact and surrogate measures of one model on all rows; expensive ones are computed on first access.

    Attributes
    ----------
    objective, loss : float
        The loss with and without regularisers.
    accuracy : float
        Share of the rows predicted correctly, weighted by `loss_weights`.
    constant_accuracy : float
        Accuracy of the best constant prediction.
    rival_accuracy : float
        The same among the constants that keep the limits; −inf if none does.
    counts : array of shape (K, 2·O)
        Sums over cells of the rows selected for each outcome, and of those not selected.
    sums : array of shape (P, K, O)
        Sums of surrogates over cells.
    known : tuple of ConstraintSystem and LimitValues, optional
        A system and the values of its limits, if training has already computed them from these sums.
    exact_sums : array of shape (P, K, 2·O), optional
        The sums by which limits are judged, if these are not about the decisions of the model only.
    """

    objective: float
    loss: float
    accuracy: float
    constant_accuracy: float
    rival_accuracy: float
    counts: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    system: ConstraintSystem = field(repr=False)
    known: tuple[ConstraintSystem, LimitValues] | None = field(default=None, repr=False)
    exact_sums: Floats | None = field(default=None, repr=False)

    @property
    def surrogate(self) -> Floats:
        """Return c, the constraint values by surrogate, of shape (m,)."""
        return self._judged.surrogate

    @property
    def exact(self) -> Floats:
        """Return c̄, the constraint values of the decisions, of shape (m,)."""
        return self._judged.exact

    @property
    def violations(self) -> tuple[Floats, Floats]:
        """Return the distance of each entry of c, and of c̄, from its interval."""
        return self._judged.beyond

    @property
    def surrogate_violation(self) -> float:
        """Return the ℓ1 violation of the constraints by surrogate."""
        return float(self.violations[0].sum())

    @cached_property
    def exact_violation(self) -> float:
        """Return the ℓ1 violation of the constraints by the decisions."""
        return float(self.violations[1].sum())

    @cached_property
    def kept(self) -> bool:
        """Return whether the decisions keep every limit."""
        if self.exact_violation > CLEARLY_VIOLATED:
            # This is quick, and is also true if a reserve is missed: a reserve (`margin=`) tightens the rows of c̄, but
            # not the bounds that the measured values are compared with.
            return False
        return self._judged.kept

    @property
    def gain(self) -> float:
        """Return the accuracy minus that of the best constant prediction; 0 if they differ by rounding only."""
        gain = self.accuracy - self.constant_accuracy
        return gain if abs(gain) > ROUNDING else 0.0

    @property
    def counted_accuracy(self) -> float:
        """Return the accuracy with the weights that rows have in the limits; `accuracy` uses those of the loss."""
        cells = self.system.cells
        labels = np.arange(cells.n_cells) % cells.n_labels
        if cells.n_labels == 2:
            right = np.where(labels == 1, self.counts[:, 0], self.counts[:, 1])
        else:
            right = self.counts[np.arange(cells.n_cells), labels]
        return float(right.sum() / cells.totals.sum())

    @cached_property
    def minority_decisions(self) -> float:
        """Return the number of rows that do not get the most common decision; weights are scaled to mean 1."""
        cells = self.system.cells
        total = float(cells.totals.sum())
        by_class = self.counts.sum(axis=0)
        commonest = float(by_class[: cells.n_labels].max())  # with two classes: rows selected, and rows not selected
        return (total - commonest) * int(cells.sizes.sum()) / total

    @cached_property
    def near_constant(self) -> bool:
        """Return whether all but a few rows get the same decision.

        Let r be the number of rows that do not have the most common label.  "A few" means at most 5 rows, but no more
        than 5% of r; or 1% of r, if that is more.
        """
        cells = self.system.cells
        if cells.n_labels == 1:
            return False
        by_label = cells.sizes.reshape(-1, cells.n_labels).sum(axis=0)
        rarer = int(by_label.sum() - by_label.max())
        return self.minority_decisions <= max(min(HANDFUL, 0.05 * rarer), 0.01 * rarer)

    @property
    def degenerate(self) -> bool:
        """Return whether a constant keeps the limits and is as accurate, or the model is nearly such a constant."""
        if self.rival_accuracy == -math.inf:
            return False
        return self.accuracy <= self.rival_accuracy + ROUNDING or (self.system.n_rows > 0 and self.near_constant)

    @property
    def measured(self) -> list[float]:
        """Return the measured value of each constraint, such as a ratio or a difference, by the decisions."""
        return self._judged.measured

    @cached_property
    def _judged(self) -> LimitValues:
        if self.known is not None and self.known[0] is self.system:
            return self.known[1]
        return self.system.judge(self.sums, self.judged_sums)

    @property
    def judged_sums(self) -> Floats:
        """Return the sums by which limits are judged."""
        return self.counts if self.exact_sums is None else self.exact_sums

    @property
    def measured_surrogate(self) -> list[float]:
        """Return the measured value of each constraint by surrogate."""
        return self.system.measured(self.sums)

    @property
    def rates(self) -> dict[str, dict[Any, Any]]:
        """Return the selection rate of each group of each grouping; with several classes, one for each class."""
        return _selection_rates(self.system.cells, self.counts)

    def under(self, system: ConstraintSystem) -> Assessment:
        """Return the assessment for the first limits only; `system` is compiled from these."""
        return replace(self, system=system, sums=self.sums[: len(system.surrogates)], known=None)


def assess(problem: TrainingProblem, rows: Rows, sweep: Sweep, objective: float) -> Assessment:
    """Assess the module from a sweep over all rows."""
    shares = problem.constant_accuracies(rows)
    return Assessment(
        objective=objective,
        loss=sweep.loss,
        accuracy=sweep.accuracy,
        constant_accuracy=max(shares),
        rival_accuracy=max((shares[each] for each in problem.system.kept_constants), default=-math.inf),
        counts=problem.exact(rows, sweep),
        exact_sums=None if sweep.exact is None else problem.exact_sums(rows, sweep),
        sums=cell_sums(sweep.sums[: len(problem.system.surrogates)], rows, problem.cells.n_cells),
        system=problem.system,
        known=None if sweep.judged is None else (problem.system, sweep.judged),
    )


def history_columns(found: Assessment, multipliers: Floats | None = None) -> dict[str, Any]:
    """Return the values of a model as columns of the history: some for the whole model, some for each limit.

    The columns of a limit are its measured value, its violation (the sum over its rows) and its multiplier (the sum of
    the absolute values).  Without limits the violations are None.
    """
    system = found.system
    limited = system.n_rows > 0
    columns = {
        "loss": found.loss,
        "accuracy": found.accuracy,
        "surrogate_violation": found.surrogate_violation if limited else None,
        "exact_violation": found.exact_violation if limited else None,
        "kept": found.kept if limited else None,
    }
    if not limited:
        return columns
    _, beyond = found.violations
    of_rows = np.array([row.constraint for row in system.rows], dtype=np.int64)
    for position, (text, measured) in enumerate(zip(system.texts, found.measured, strict=True)):
        own = of_rows == position
        columns[text] = measured
        columns[f"violation of {text}"] = float(beyond[own].sum())
        if multipliers is not None:
            columns[f"multiplier of {text}"] = float(np.abs(multipliers[: len(own)][own]).sum())
    return columns


GapSums = tuple[Floats, Floats]
"""Sums over cells of the surrogates φ, and of |φ − ŷ|, both of shape (P, K, O)."""


def gap_sums(functions: Sequence[RowFunction], cells: Cells, logits: NDArray[Any]) -> GapSums:
    """Return the sums from which `surrogate_gaps` are computed, over the rows of `cells`, whose logits are given."""
    if not functions:
        return np.zeros(0), np.zeros(0)
    y = cells.labels if cells.targets is None else cells.targets
    values = [each.values(logits, y).astype(np.float64) for each in functions]
    apart = [np.abs(value - each.exact(logits, y)) for value, each in zip(values, functions, strict=True)]
    return tuple(np.stack([cells.sums(each) for each in part]) for part in (values, apart))  # type: ignore[return-value]


def surrogate_gaps(system: ConstraintSystem, sums: GapSums, counts: Floats) -> list[tuple[float, float]]:
    """Return, for each limit, the largest |c̄ − c| over its rows, and the bound on it from Theorem 1.

    `counts` are the sums of decisions over cells, (K, 2·O).  The bound is inf for rates that are not affine in the
    cell sums.
    """
    if not system.n_rows:
        return [(0.0, 0.0)] * len(system.constraints)
    bounds = system.gap_bound(*sums)
    gaps = np.abs(system.exact(counts) - system.values(sums[0]))
    found = [(0.0, 0.0)] * len(system.constraints)
    for row, gap, bound in zip(system.rows, gaps.tolist(), bounds.tolist(), strict=True):
        before = found[row.constraint]
        found[row.constraint] = max(before[0], gap), max(before[1], bound)
    return found


def _selection_rates(cells: Cells, counts: Floats) -> dict[str, dict[Any, Any]]:
    """Return the selection rate of each group from `counts`, the sums of decisions over cells of shape (K, 2·O)."""
    sizes = cells.totals.reshape(-1, cells.n_labels).sum(axis=1)  # (A,)
    selected = counts[:, : len(cells.outcomes)].reshape(-1, cells.n_labels, len(cells.outcomes)).sum(axis=1)  # (A, O)
    rates = {}
    for grouping in cells.groupings:
        groups = grouping.membership[:-1]
        by_group = (groups @ selected / (groups @ sizes)[:, None]).tolist()
        values = [row[0] if len(row) == 1 else dict(zip(cells.classes, row, strict=True)) for row in by_group]
        rates[grouping.name] = dict(zip(grouping.groups, values, strict=True))
    return rates
