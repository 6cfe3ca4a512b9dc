"""Multipliers at a given model: those of the rows at their limits that balance the gradient of the objective best.

The multipliers of single steps jump with every row that changes sides; these do not.
"""

from __future__ import annotations

import torch
from scipy.optimize import nnls
from torch import Tensor

from fairbound.training.assessment import Assessment
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

NEAR = 5e-3
"""Half a point of a rate: the least objective found need not lie at the limit to the last row."""


def balancing_multipliers(problem: TrainingProblem, rows: Rows, found: Assessment) -> Tensor:
    """Return y ≥ 0 (signed by side) that minimises ‖g + Jᵀy‖ over the rows of c̄ near their bounds.

    `found` assesses the module as it stands.  Costs one pass with gradients.
    """
    here, exact = problem.evaluate(rows), found.exact
    to_upper, to_lower = (here.upper - exact).abs(), (exact - here.lower).abs()
    at_upper = (to_upper <= NEAR) & (to_upper <= to_lower)  # of two near sides, the nearer
    at_lower = (to_lower <= NEAR) & ~at_upper
    multipliers = torch.zeros_like(exact)
    active = torch.nonzero(at_upper | at_lower).flatten()
    if len(active):
        signs = torch.where(at_upper[active], 1.0, -1.0).to(torch.float64)
        slopes = (signs[:, None] * here.J.rows[active]) @ here.J.basis
        solution, _ = nnls(slopes.T.numpy(), -here.g.numpy())
        multipliers[active] = signs * torch.from_numpy(solution)
    return multipliers
