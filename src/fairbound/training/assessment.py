"""What a model does on all rows, by its own decisions: the exact measures, beside the surrogate ones.

*Kept* means that no row of c̄ exceeds its bounds by more than 1e-12, which is rounding: c̄ comes from counts of
decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import Cells, decide
from fairbound.sqp.merit import violation
from fairbound.training.problem import TrainingProblem, cell_sums
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep

KEPT_TOLERANCE = 1e-12
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Assessment:
    """Exact and surrogate measures of one model on all rows.

    Attributes
    ----------
    objective, loss : float
        With and without regularisers.
    accuracy : float
        Share of the rows predicted right, by loss weight.
    constant_accuracy : float
        The accuracy of the best constant prediction, which satisfies any ratio.
    surrogate, exact : Tensor of shape (m,)
        c and c̄.
    surrogate_violation, exact_violation : float
        ℓ1 norm of what lies beyond the bounds.
    worst_row : float
        The largest amount by which a row of c̄ lies beyond its bounds; negative when all are inside.
    measured, measured_surrogate : list of float
        One number per constraint: the ratio or difference reached, by decisions and by surrogate.
    rates : dict
        Selection rate of each group of each grouping; with several classes, one for each class.
    """

    objective: float
    loss: float
    accuracy: float
    constant_accuracy: float
    surrogate: Tensor
    exact: Tensor
    surrogate_violation: float
    exact_violation: float
    worst_row: float
    measured: list[float]
    measured_surrogate: list[float]
    rates: dict[str, dict[Any, Any]]

    @property
    def kept(self) -> bool:
        """Whether every limit is kept by the decisions themselves."""
        return self.worst_row <= KEPT_TOLERANCE

    @property
    def gain(self) -> float:
        """Accuracy beyond the best constant prediction; 0 where they differ by rounding alone."""
        gain = self.accuracy - self.constant_accuracy
        return gain if abs(gain) > ROUNDING else 0.0


def assess(problem: TrainingProblem, rows: Rows, sweep: Sweep, objective: float) -> Assessment:
    """Assess the model from a sweep over all rows."""
    system, cells = problem.system, problem.cells
    counts = problem.exact(rows, sweep)
    S = cell_sums(sweep.sums[: len(system.steps)], rows, cells.n_cells)
    surrogate, exact = system.values(S), system.exact(counts)
    right = decide(sweep.logits, problem.threshold) == rows.labels
    shares = torch.bincount(rows.labels, rows.loss_weights, minlength=cells.n_labels)
    beyond = torch.maximum(exact - system.upper, system.lower - exact)
    return Assessment(
        objective=objective,
        loss=sweep.loss,
        accuracy=float(rows.loss_weights[right].sum()),
        constant_accuracy=float(shares.max()),
        surrogate=surrogate,
        exact=exact,
        surrogate_violation=violation(surrogate, system.lower, system.upper),
        exact_violation=violation(exact, system.lower, system.upper),
        worst_row=float(beyond.max()) if len(beyond) else float("-inf"),
        measured=system.measured(counts.expand(max(1, len(system.steps)), -1, -1)),
        measured_surrogate=system.measured(S),
        rates=_selection_rates(cells, counts),
    )


def _selection_rates(cells: Cells, counts: Tensor) -> dict[str, dict[Any, Any]]:
    """Return the selected share of each group, from sums of decisions over cells of shape (K, O)."""
    sizes = cells.totals.reshape(-1, cells.n_labels).sum(dim=1)  # (A,)
    selected = counts.unflatten(0, (-1, cells.n_labels)).sum(dim=1)  # (A, O)
    rates = {}
    for grouping in cells.groupings:
        groups = grouping.membership[:-1]
        by_group = (groups @ selected / (groups @ sizes)[:, None]).tolist()
        values = [row[0] if len(row) == 1 else dict(zip(cells.classes, row, strict=True)) for row in by_group]
        rates[grouping.name] = dict(zip(grouping.groups, values, strict=True))
    return rates
