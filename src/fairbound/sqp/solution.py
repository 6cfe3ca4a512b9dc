"""Results of the solvers: optimality residuals, the status, records of single steps, the solution and warm starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import torch
from scipy.optimize import nnls
from torch import Tensor

from fairbound.sqp.problem import Evaluation, violations

# --- optimality ------------------------------------------------------------------------------------------------------

# Residuals of the optimality (KKT) conditions of min f(w) subject to lower ≤ c(w) ≤ upper.
#
# With multipliers y (positive on the upper side, negative on the lower side) and s = max(1, ‖g‖∞):
#
#     stationarity     ‖g + Jᵀy‖∞ / s
#     violation        max over rows of (distance of c from its interval) / max(1, |nearest bound|)
#     complementarity  max over rows of |y| · (slack of c at the bound that the sign of y refers to) / s
#
# If that bound is infinite, the complementarity of the row is |y| / s.


@dataclass(frozen=True)
class KKTResiduals:
    """Scaled residuals of the three conditions; the solvers compare `largest` with their tolerance."""

    stationarity: float
    violation: float
    complementarity: float

    @property
    def largest(self) -> float:
        """Return the largest of the three residuals."""
        return max(self.stationarity, self.violation, self.complementarity)

    def as_dict(self) -> dict[str, float]:
        """Return the residuals as plain numbers, for tables and JSON."""
        return asdict(self)


def kkt_residuals(evaluation: Evaluation, y: Tensor) -> KKTResiduals:
    """Return the residuals at the point of `evaluation` with the multipliers `y` of shape (m,).

    Examples
    --------
    The minimiser of ½w² subject to w ≥ 1 is w = 1, with the multiplier −1.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> at_optimum = Evaluation(f=0.5, g=one, c=one, J=torch.ones(1, 1), lower=one, upper=one * torch.inf)
    >>> kkt_residuals(at_optimum, -one).largest
    0.0
    """
    if y.shape != evaluation.c.shape:
        raise ValueError(f"kkt_residuals: y has shape {tuple(y.shape)}, but c has {tuple(evaluation.c.shape)}.")
    g, c, lower, upper = evaluation.g, evaluation.c, evaluation.lower, evaluation.upper
    scale = max(1.0, float(g.abs().max())) if g.numel() else 1.0
    gradient = g + evaluation.J.transpose_product(y) if c.numel() else g
    stationarity = float(gradient.abs().max()) / scale if g.numel() else 0.0
    if not c.numel():
        return KKTResiduals(stationarity, 0.0, 0.0)
    nearest = torch.where(c > upper, upper, torch.where(c < lower, lower, torch.zeros_like(c)))
    scaled_violations = violations(c, lower, upper) / nearest.abs().clamp_min(1.0)
    bound = torch.where(y > 0, upper, lower)
    slack = torch.where(y > 0, upper - c, c - lower).clamp_min(0.0)
    products = torch.where(torch.isfinite(bound), y.abs() * slack, y.abs())
    # 0 · inf is NaN: a zero multiplier is complementary, whatever the slack.
    products = torch.where(y == 0, torch.zeros_like(products), products)
    return KKTResiduals(stationarity, float(scaled_violations.max()), float(products.max()) / scale)


def least_squares_multipliers(here: Evaluation, c: Tensor, near: Tensor | float) -> Tensor:
    """Return the multipliers y of the active constraints that minimise ‖g + Jᵀy‖; all others are 0.

    A constraint is active if its value in `c` is within `near` of a bound.  `c` may differ from `here.c`; it may hold
    exact values, for example.  The multiplier is ≥ 0 at the upper bound and ≤ 0 at the lower one, so this is a
    non-negative least-squares problem in |y|.  It changes less between similar points than the multipliers of one QP.
    """
    to_upper, to_lower = (here.upper - c).abs(), (c - here.lower).abs()
    at_upper = (to_upper <= near) & (to_upper <= to_lower)  # if both bounds are near, take the nearer
    at_lower = (to_lower <= near) & ~at_upper
    multipliers = torch.zeros_like(c)
    active = torch.nonzero(at_upper | at_lower).flatten()
    if len(active):
        signs = torch.where(at_upper[active], 1.0, -1.0).to(torch.float64)
        slopes = (signs[:, None] * here.J.rows[active]) @ here.J.basis
        solution, _ = nnls(slopes.T.numpy(), -here.g.numpy())
        multipliers[active] = signs * torch.from_numpy(solution)
    return multipliers


# --- status ----------------------------------------------------------------------------------------------------------

# A solve that does not converge raises no exception: the caller gets the best point found and its status.


class Status(Enum):
    """How a solve ended.

    Examples
    --------
    >>> Status.CONVERGED.value
    'converged'
    >>> Status("infeasible").message
    'No solution was found that keeps all limits; the one that violates them least is returned.'
    """

    CONVERGED = "converged"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    MAX_ITERATIONS = "max_iterations"
    DEGENERATE = "degenerate"

    @property
    def message(self) -> str:
        """Return a sentence for the user."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "All limits are kept, and the conditions of a local optimum hold.",
    Status.FEASIBLE: "All limits are kept. This is the best point found.",
    Status.INFEASIBLE: "No solution was found that keeps all limits; the one that violates them least is returned.",
    Status.MAX_ITERATIONS: "The solver reached its iteration limit before all limits were kept; allow more iterations.",
    Status.DEGENERATE: "The limits are kept, but the result is no better than a constant prediction.",
}


# --- solution --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepRecord:
    """Record of one step of `StochasticSQP`; all values belong to the point *before* the step.

    Attributes
    ----------
    iteration : int
        Counted from 0.
    f, violation : float
        Objective and ℓ1 violation.
    kkt : KKTResiduals
        Scaled residuals of the optimality conditions, with the multipliers of this step's QP.
    penalty, merit_parameter, ratio_parameter : float
        ρ, τ and ξ after their updates.
    step_length, learning_rate, step_norm : float
        α, β and ‖d‖; the parameters moved by α d.
    elastic, locally_infeasible : bool
        `elastic`: a multiplier of the QP is at its bound ρ, so a row may be violated.  `locally_infeasible`: no
        direction reduces the violation to first order.
    multipliers : Tensor of shape (m,)
        y of the QP, positive on the upper side, negative on the lower side.
    """

    iteration: int
    f: float
    violation: float
    kkt: KKTResiduals
    penalty: float
    merit_parameter: float
    ratio_parameter: float
    step_length: float
    learning_rate: float
    step_norm: float
    elastic: bool
    locally_infeasible: bool
    multipliers: Tensor

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, for tables and JSON; each KKT residual is an entry `kkt_...`."""
        values = {name: value for name, value in vars(self).items() if name not in {"kkt", "multipliers"}}
        values.update({f"kkt_{name}": value for name, value in self.kkt.as_dict().items()})
        values["multipliers"] = self.multipliers.tolist()
        return values


@dataclass(frozen=True)
class IterationRecord:
    """Record of one iteration of `QuasiNewtonSQP`; all values belong to the point *before* the step.

    `step_length` is 0 and `corrected` False in the last record of a solve, which takes no step.
    """

    iteration: int
    f: float
    violation: float
    kkt: KKTResiduals
    penalty: float
    step_length: float
    step_norm: float
    corrected: bool
    elastic: bool
    locally_infeasible: bool
    evaluations: int
    value_evaluations: int
    multipliers: Tensor

    def as_dict(self) -> dict[str, Any]:
        """Return a copy of `row`."""
        return dict(self.row)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The plain numbers without the multipliers, for tables; each KKT residual is an entry `kkt_...`."""
        values = {name: value for name, value in vars(self).items() if name not in ("kkt", "multipliers")}
        values.update({f"kkt_{name}": value for name, value in self.kkt.as_dict().items()})
        return values


@dataclass(frozen=True)
class WarmStart:
    """State that a solve passes to the next one: multipliers, penalty, and the pairs of H.

    The solver uses the penalty and H.  Each QP computes new multipliers; the stored ones are for the caller.
    """

    multipliers: Tensor
    penalty: float
    hessian: dict[str, Any]


@dataclass(frozen=True)
class Solution:
    """Result of a solve.

    Attributes
    ----------
    w : Tensor of shape (n,)
        The last point if the solve converged, else the best one.  The best is the feasible point with the least
        objective; if no point was feasible, it is the one with the least violation.
    multipliers : Tensor of shape (m,)
        Positive on the upper side, negative on the lower side.
    f : float
        Objective at w.
    status : Status
        How the solve ended.
    kkt : KKTResiduals
        Scaled residuals of the optimality conditions at w.
    iterations, evaluations, value_evaluations : int
        Numbers of iterations, of evaluations with derivatives, and of evaluations of values only.
    penalty : float
        Last ρ.
    history : list of dict
        `IterationRecord.row` of each iteration.
    warm_start : WarmStart
        Warm start for a nearby problem.
    """

    w: Tensor
    multipliers: Tensor
    f: float
    status: Status
    kkt: KKTResiduals
    iterations: int
    evaluations: int
    value_evaluations: int
    penalty: float
    history: list[dict[str, Any]]
    warm_start: WarmStart
