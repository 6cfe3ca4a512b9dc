"""Results of the solvers: the status, records of single steps, and the solution, from which a nearby solve may start.

A solve that does not converge raises no exception: the caller gets the best point found and its status.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from fairbound.sqp.dense import DenseHessian
from fairbound.sqp.lbfgs import LimitedMemoryBFGS
from fairbound.sqp.optimality import KKTResiduals
from fairbound.sqp.problem import Array


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


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record of one step; all values belong to the point *before* the step.

    Attributes
    ----------
    iteration : int
        Counted from 0.
    f, violation : float
        Objective and ℓ1 violation.
    kkt : KKTResiduals
        Scaled residuals of the optimality conditions, with the multipliers of this step's QP.
    penalty : float
        ρ after its update.
    step_length : float
        α; the parameters moved by α d.
    step_norm : float
        ‖d‖, in `IterationRecord` the length of the change of w.
    elastic, locally_infeasible : bool
        `elastic`: a multiplier of the QP is at its bound ρ, so a row may be violated.  `locally_infeasible`: no
        direction reduces the violation to first order.
    multipliers : ndarray of shape (m,)
        y of the QP, positive on the upper side, negative on the lower side.
    """

    iteration: int
    f: float
    violation: float
    kkt: KKTResiduals
    penalty: float
    step_length: float
    step_norm: float
    elastic: bool
    locally_infeasible: bool
    multipliers: Array

    def as_dict(self) -> dict[str, Any]:
        """Return the plain numbers without the multipliers, for tables; each KKT residual is an entry `kkt_...`."""
        values = {name: value for name, value in vars(self).items() if name not in ("kkt", "multipliers")}
        return values | {f"kkt_{name}": value for name, value in self.kkt.as_dict().items()}


@dataclass(frozen=True, kw_only=True)
class StepRecord(Record):
    """Record of one step of `StochasticSQP`: also τ and ξ after their updates, and β."""

    merit_parameter: float
    ratio_parameter: float
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class IterationRecord(Record):
    """Record of one iteration of `QuasiNewtonSQP`; the last one of a solve takes no step: its `step_length` is 0."""

    corrected: bool
    evaluations: int
    value_evaluations: int


@dataclass(frozen=True)
class Solution:
    """Result of a solve, and the start of the solve of a nearby problem.

    Attributes
    ----------
    w : ndarray of shape (n,)
        The last point if the solve converged, else the best one.  The best is the feasible point with the least
        objective; if no point was feasible, it is the one with the least violation.
    multipliers : ndarray of shape (m,)
        Positive on the upper side, negative on the lower side.
    f : float
        Objective at w.
    status : Status
        How the solve ended.
    kkt : KKTResiduals
        Scaled residuals of the optimality conditions at w.
    evaluations, value_evaluations : int
        Numbers of evaluations with derivatives, and of evaluations of values only.
    penalty : float
        Last ρ.
    hessian : LimitedMemoryBFGS or DenseHessian
        Last H.
    history : list of IterationRecord
        One for each iteration, and one for the last point.
    """

    w: Array
    multipliers: Array
    f: float
    status: Status
    kkt: KKTResiduals
    evaluations: int
    value_evaluations: int
    penalty: float
    hessian: LimitedMemoryBFGS | DenseHessian
    history: list[IterationRecord]

    def plain(self) -> dict[str, Any]:
        """Return numbers and arrays from which `restored` makes the same solution, without its history."""
        of: dict[str, Any] = {
            "status": self.status.value,
            "kkt": self.kkt.as_dict(),
            "hessian": self.hessian.plain(),
            "history": [],
        }
        return vars(self) | of

    @classmethod
    def restored(cls, values: dict[str, Any]) -> Solution:
        """Return the solution whose `plain` values these are."""
        kind: Any = DenseHessian if "matrix" in values["hessian"] else LimitedMemoryBFGS
        hessian, kkt = kind.restored(**values["hessian"]), KKTResiduals(**values["kkt"])
        return cls(**values | {"status": Status(values["status"]), "kkt": kkt, "hessian": hessian})

    @property
    def iterations(self) -> int:
        """Return the number of steps."""
        return self.history[-1].iteration
