"""Results of the solvers: records of single steps, the solution, and the warm start for a next solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fairbound.sqp.kkt import KKTResiduals
from fairbound.sqp.status import Status


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
        Whether the QP had to violate rows, and whether no direction reduces the violation to first order.
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

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, for tables and JSON; each KKT residual is an entry `kkt_...`."""
        values = {name: value for name, value in vars(self).items() if name != "kkt"}
        values.update({f"kkt_{name}": value for name, value in self.kkt.as_dict().items()})
        return values


@dataclass(frozen=True)
class WarmStart:
    """State that a solve passes to the next one: multipliers, penalty, and the pairs of H.

    The solver uses the penalty and H.  It computes the multipliers anew in each QP; they are there for the caller.
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
        The last point if the solve converged, else the best one: the feasible point with the least objective or, if no
        point was feasible, the one with the least violation.
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
        `IterationRecord.as_dict()` of each iteration.
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
