"""What a model does on all rows, by its own decisions: the exact measures, beside the surrogate ones.

*Kept* is decided by `Constraint.keeps` from the measured value of each limit, which comes from counts of decisions.
*Degenerate* means no more accurate than the best constant prediction, or a constant but for a handful of rows: such a
model keeps almost any limit, and says almost nothing.
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
"""Rows decided otherwise than the rest that still make a constant, unless they are many for the rarer labels."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """Exact and surrogate measures of one model on all rows; what costs something is worked out when asked for.

    Attributes
    ----------
    objective, loss : float
        With and without regularisers.
    accuracy : float
        Share of the rows predicted right, by loss weight.
    constant_accuracy : float
        The accuracy of the best constant prediction, which satisfies any ratio.
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
        """c, of shape (m,)."""
        return self.system.values(self.sums)

    @cached_property
    def exact(self) -> Tensor:
        """c̄, of shape (m,)."""
        return self.system.exact(self.counts)

    @property
    def surrogate_violation(self) -> float:
        """ℓ1 norm of what lies beyond the bounds, by surrogate."""
        return violation(self.surrogate, self.system.lower, self.system.upper)

    @property
    def exact_violation(self) -> float:
        """ℓ1 norm of what lies beyond the bounds, by decisions."""
        return violation(self.exact, self.system.lower, self.system.upper)

    @cached_property
    def kept(self) -> bool:
        """Whether every limit is kept by the decisions themselves."""
        return all(limit.keeps(value) for limit, value in zip(self.system.constraints, self.measured, strict=True))

    @property
    def gain(self) -> float:
        """Accuracy beyond the best constant prediction; 0 where they differ by rounding alone."""
        gain = self.accuracy - self.constant_accuracy
        return gain if abs(gain) > ROUNDING else 0.0

    @cached_property
    def decided_otherwise(self) -> float:
        """Number of rows outside the commonest decision; where rows have weights, of rows of mean weight."""
        cells = self.system.cells
        total = float(cells.totals.sum())
        by_class = self.counts.sum(dim=0)
        commonest = float(by_class[: cells.n_labels].max())  # of two classes: those selected, and those not
        return (total - commonest) * len(cells) / total

    @cached_property
    def near_constant(self) -> bool:
        """Whether only a handful of rows are decided otherwise than the rest.

        A handful is at most 5 rows and 5% of the rows of rarer labels, or 1% of these where they are many.
        """
        cells = self.system.cells
        by_label = torch.bincount(cells.labels, minlength=cells.n_labels)
        rarer = int(by_label.sum() - by_label.max())
        return self.decided_otherwise <= max(min(HANDFUL, 0.05 * rarer), 0.01 * rarer)

    @property
    def degenerate(self) -> bool:
        """Whether the model is no more accurate than a constant, or under limits next to one."""
        return self.gain <= 0 or (self.system.n_rows > 0 and self.near_constant)

    @cached_property
    def measured(self) -> list[float]:
        """One number per constraint: the ratio or difference reached by the decisions."""
        return self.system.measured(self.counts.expand(max(1, len(self.system.steps)), -1, -1))

    @property
    def measured_surrogate(self) -> list[float]:
        """The same by surrogate."""
        return self.system.measured(self.sums)

    @property
    def rates(self) -> dict[str, dict[Any, Any]]:
        """Selection rate of each group of each grouping; with several classes, one for each class."""
        return _selection_rates(self.system.cells, self.counts)


def assess(problem: TrainingProblem, rows: Rows, sweep: Sweep, objective: float) -> Assessment:
    """Assess the model from a sweep over all rows."""
    decisions = decide(sweep.logits, problem.threshold)
    return Assessment(
        objective=objective,
        loss=sweep.loss,
        accuracy=float(rows.loss_weights @ (decisions == rows.labels).to(torch.float64)),
        constant_accuracy=float(rows.class_weights.max()),
        counts=problem.count(rows, decisions),
        sums=cell_sums(sweep.sums[: len(problem.system.steps)], rows, problem.cells.n_cells),
        system=problem.system,
    )


def _selection_rates(cells: Cells, counts: Tensor) -> dict[str, dict[Any, Any]]:
    """Return the selected share of each group, from sums of decisions over cells of shape (K, 2·O)."""
    sizes = cells.totals.reshape(-1, cells.n_labels).sum(dim=1)  # (A,)
    selected = counts[:, : len(cells.outcomes)].unflatten(0, (-1, cells.n_labels)).sum(dim=1)  # (A, O)
    rates = {}
    for grouping in cells.groupings:
        groups = grouping.membership[:-1]
        by_group = (groups @ selected / (groups @ sizes)[:, None]).tolist()
        values = [row[0] if len(row) == 1 else dict(zip(cells.classes, row, strict=True)) for row in by_group]
        rates[grouping.name] = dict(zip(grouping.groups, values, strict=True))
    return rates
