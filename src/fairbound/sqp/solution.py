"""What the solvers return: a record of each step, and of a whole solve its solution and what the next may take over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fairbound.sqp.kkt import KKTResiduals
from fairbound.sqp.status import Status


@dataclass(frozen=True)
class StepRecord:
    """What one step of `StochasticSQP` saw and did; all values belong to the point *before* the step.

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
        Whether the QP violated rows at a price, and whether no direction reduces the violation.
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
        """Plain numbers and lists, for tables and JSON; the KKT residuals are spread out."""
        values = {name: value for name, value in vars(self).items() if name not in {"kkt", "multipliers"}}
        values.update({f"kkt_{name}": value for name, value in self.kkt.as_dict().items()})
        values["multipliers"] = self.multipliers.tolist()
        return values


@dataclass(frozen=True)
class IterationRecord:
    """What one iteration of `QuasiNewtonSQP` saw and did; values belong to the point before the step.

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
        """Plain numbers, for tables and JSON; the KKT residuals are spread out."""
        values = {name: value for name, value in vars(self).items() if name != "kkt"}
        values.update({f"kkt_{name}": value for name, value in self.kkt.as_dict().items()})
        return values


@dataclass(frozen=True)
class WarmStart:
    """What one solve learns for the next: multipliers, penalty, and the memory of H.

    The solver itself takes over penalty and H; each QP finds its multipliers anew, so these are for the caller.
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
        The point: the last one if it converged, else the best one seen (of those that keep the limits the one with the
        least objective; if none does, the one that violates them least).
    multipliers : Tensor of shape (m,)
        Positive on the upper side, negative on the lower side.
    f : float
        Objective at w.
    status : Status
        How it ended.
    kkt : KKTResiduals
        Scaled residuals of the optimality conditions at w.
    iterations, evaluations, value_evaluations : int
        Numbers of iterations, of evaluations with derivatives, and of evaluations of values only.
    penalty : float
        Last ρ.
    history : list of dict
        One row for each iteration.
    warm_start : WarmStart
        For a solve of a nearby problem.
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
