"""Least-squares multipliers at a given model, from which the prices of the limits are computed.

The multipliers of a single QP with exact values jump whenever a row changes its decision.  These are more stable.
"""

from __future__ import annotations

import torch
from scipy.optimize import nnls
from torch import Tensor

from fairbound.training.assessment import Assessment
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

NEAR = 5e-3
"""Distance from a bound at which a constraint counts as active.  The best model found need not lie exactly on it."""


def least_squares_multipliers(problem: TrainingProblem, rows: Rows, found: Assessment) -> Tensor:
    """Return the multipliers y of the active constraints that minimise ‖g + Jᵀy‖; all others are 0.

    A constraint is active if c̄ is within `NEAR` of a bound.  Its multiplier is ≥ 0 at the upper bound and ≤ 0 at the
    lower one, so this is a non-negative least-squares problem in |y|.

    Parameters
    ----------
    found : Assessment
        Of the module's current parameters.
    """
    here, exact = problem.evaluate(rows), found.exact
    to_upper, to_lower = (here.upper - exact).abs(), (exact - here.lower).abs()
    at_upper = (to_upper <= NEAR) & (to_upper <= to_lower)  # if both bounds are near, take the nearer
    at_lower = (to_lower <= NEAR) & ~at_upper
    multipliers = torch.zeros_like(exact)
    active = torch.nonzero(at_upper | at_lower).flatten()
    if len(active):
        signs = torch.where(at_upper[active], 1.0, -1.0).to(torch.float64)
        slopes = (signs[:, None] * here.J.rows[active]) @ here.J.basis
        solution, _ = nnls(slopes.T.numpy(), -here.g.numpy())
        multipliers[active] = signs * torch.from_numpy(solution)
    return multipliers
