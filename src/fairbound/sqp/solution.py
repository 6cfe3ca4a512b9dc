"""What `QuasiNewtonSQP` returns: one record for each iteration, the solution, and what the next solve may take over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fairbound.sqp.kkt import KKTResiduals
from fairbound.sqp.status import Status


@dataclass(frozen=True)
class IterationRecord:
    """What one iteration saw and did; values belong to the point before the step.

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
    """What one solve learns for the next: multipliers, penalty, and the memory of H."""

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
