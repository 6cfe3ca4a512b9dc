"""Assess a model on all rows: loss, accuracy, and the measures, both exact (from decisions) and by surrogate.

A limit is *kept* if `Constraint.keeps` accepts its measured value, which is computed from counts of decisions.  A model
is *degenerate* if it is no more accurate than the best constant prediction, or decides alike for all but a few rows.
Such a model keeps almost any limit, but it hardly uses its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import Cells, ConstraintSystem, decide
from fairbound.sqp import violation
from fairbound.training.problem import TrainingProblem, cell_sums
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep

ROUNDING = 1e-12

HANDFUL = 5
"""A model that decides at most this many rows differently from the rest is nearly constant; see `near_constant`."""


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
    counts : Tensor of shape (K, 2·O)
        Sums over cells of the rows selected for each outcome, and of those not selected.
    sums : Tensor of shape (P, K, O)
        Sums of surrogates over cells.
    """

    objective: float
    loss: float
    accuracy: float
    constant_accuracy: float
    counts: Tensor = field(repr=False)
    sums: Tensor = field(repr=False)
    system: ConstraintSystem = field(repr=False)

    @cached_property
    def surrogate(self) -> Tensor:
        """Return c, the constraint values by surrogate, of shape (m,)."""
        return self.system.values(self.sums)

    @cached_property
    def exact(self) -> Tensor:
        """Return c̄, the constraint values of the decisions, of shape (m,)."""
        return self.system.exact(self.counts)

    @property
    def surrogate_violation(self) -> float:
        """Return the ℓ1 violation of the constraints by surrogate."""
        return violation(self.surrogate, self.system.lower, self.system.upper)

    @property
    def exact_violation(self) -> float:
        """Return the ℓ1 violation of the constraints by the decisions."""
        return violation(self.exact, self.system.lower, self.system.upper)

    @cached_property
    def kept(self) -> bool:
        """Return whether the decisions keep every limit."""
        return all(limit.keeps(value) for limit, value in zip(self.system.constraints, self.measured, strict=True))

    @property
    def gain(self) -> float:
        """Return the accuracy minus that of the best constant prediction; 0 if they differ by rounding only."""
        gain = self.accuracy - self.constant_accuracy
        return gain if abs(gain) > ROUNDING else 0.0

    @cached_property
    def minority_decisions(self) -> float:
        """Return the number of rows that do not get the most common decision; weights are scaled to mean 1."""
        cells = self.system.cells
        total = float(cells.totals.sum())
        by_class = self.counts.sum(dim=0)
        commonest = float(by_class[: cells.n_labels].max())  # of two classes: those selected, and those not
        return (total - commonest) * len(cells) / total

    @cached_property
    def near_constant(self) -> bool:
        """Return whether all but a few rows get the same decision.

        Let r be the number of rows that do not have the most common label.  *A few* means at most max(min(5, 5% of r),
        1% of r) rows.
        """
        cells = self.system.cells
        by_label = torch.bincount(cells.labels, minlength=cells.n_labels)
        rarer = int(by_label.sum() - by_label.max())
        return self.minority_decisions <= max(min(HANDFUL, 0.05 * rarer), 0.01 * rarer)

    @property
    def degenerate(self) -> bool:
        """Return whether the model is no more accurate than a constant or, under limits, nearly constant."""
        return self.gain <= 0 or (self.system.n_rows > 0 and self.near_constant)

    @cached_property
    def measured(self) -> list[float]:
        """Return the measured value of each constraint, such as a ratio or a difference, by the decisions."""
        return self.system.measured(self.counts.expand(max(1, len(self.system.surrogates)), -1, -1))

    @property
    def measured_surrogate(self) -> list[float]:
        """Return the measured value of each constraint by surrogate."""
        return self.system.measured(self.sums)

    @property
    def rates(self) -> dict[str, dict[Any, Any]]:
        """Return the selection rate of each group of each grouping; with several classes, one for each class."""
        return _selection_rates(self.system.cells, self.counts)


def assess(problem: TrainingProblem, rows: Rows, sweep: Sweep, objective: float) -> Assessment:
    """Assess the module from a sweep over all rows."""
    decisions = decide(sweep.logits, problem.threshold)
    return Assessment(
        objective=objective,
        loss=sweep.loss,
        accuracy=float(rows.loss_weights @ (decisions == rows.labels).to(torch.float64)),
        constant_accuracy=float(rows.class_weights.max()),
        counts=problem.count(rows, decisions),
        sums=cell_sums(sweep.sums[: len(problem.system.surrogates)], rows, problem.cells.n_cells),
        system=problem.system,
    )


def _selection_rates(cells: Cells, counts: Tensor) -> dict[str, dict[Any, Any]]:
    """Return the selection rate of each group from `counts`, the sums of decisions over cells of shape (K, 2·O)."""
    sizes = cells.totals.reshape(-1, cells.n_labels).sum(dim=1)  # (A,)
    selected = counts[:, : len(cells.outcomes)].unflatten(0, (-1, cells.n_labels)).sum(dim=1)  # (A, O)
    rates = {}
    for grouping in cells.groupings:
        groups = grouping.membership[:-1]
        by_group = (groups @ selected / (groups @ sizes)[:, None]).tolist()
        values = [row[0] if len(row) == 1 else dict(zip(cells.classes, row, strict=True)) for row in by_group]
        rates[grouping.name] = dict(zip(grouping.groups, values, strict=True))
    return rates
