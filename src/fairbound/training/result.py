"""The result of training: its status, its assessment, and the limits that conflict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound.sqp import KKTResiduals, Status
from fairbound.training.assessment import Assessment, assess
from fairbound.training.chunks import Floats
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

History = list[dict[str, Any]]


@dataclass(frozen=True)
class TrainingResult:
    """The result of training; the model holds the parameters that `assessment` describes.

    Attributes
    ----------
    status : Status
    assessment : Assessment
        Assessment of the returned model.
    parameters : array
        Flat parameters of the returned model.
    history : list of dict
        One row per epoch or iteration.
    conflicts : list of str
        If no model keeps all limits: the limits that exclude each other.
    multipliers : array of shape (m,), or None
        Positive at upper bounds, negative at lower ones.  None for a model between two others, whose multipliers are
        prices of their limits.
    seconds : float
    solver : str
        "stochastic" or "quasi-newton".
    evaluations, value_evaluations : int
        Passes over all rows with and without gradients, if the solver makes whole passes.
    stopped : bool
        Whether a callback ended the solve.
    free : Assessment or None
        Assessment of the model without limits, if the fit trained one.
    least_loss : float or None
        The least loss found under the limits; the returned model may have a larger loss and be more accurate.
    kkt : KKTResiduals or None
        Residuals of the optimality conditions at the model with the least loss.  They are those of the surrogate
        problem at full scale, with the multipliers that make the gradient smallest.  None if they were not computed.
    final : Assessment or None
        From `train`: the assessment of the last iterate, which need not be the returned model.
    free_parameters : array or None
        Flat parameters of the model without limits.
    """

    status: Status
    assessment: Assessment
    parameters: Floats = field(repr=False)
    history: History = field(repr=False)
    conflicts: list[str]
    multipliers: Floats | None = field(repr=False)
    seconds: float
    solver: str = "stochastic"
    evaluations: int = 0
    value_evaluations: int = 0
    stopped: bool = False
    free: Assessment | None = field(default=None, repr=False)
    least_loss: float | None = None
    kkt: KKTResiduals | None = None
    final: Assessment | None = None
    free_parameters: Floats | None = field(default=None, repr=False)

    @property
    def message(self) -> str:
        """Return the status in a sentence, with the limits that conflict."""
        if self.conflicts:
            return self.status.message + " In conflict: " + "; ".join(self.conflicts) + "."
        return self.status.message


def assess_now(problem: TrainingProblem, rows: Rows) -> Assessment:
    """Assess the model at its current parameters, in one pass without gradients."""
    sweep = problem.sweep(rows, gradients=False)
    value, _ = problem.regularize(rows, sweep)
    return assess(problem, rows, sweep, sweep.loss + value)


def choose_status(assessment: Assessment, converged: bool, locally_infeasible: bool) -> Status:
    """Return the status of a fit that ended with this assessment."""
    if not assessment.kept:
        return Status.INFEASIBLE if locally_infeasible else Status.MAX_ITERATIONS
    if assessment.degenerate:
        return Status.DEGENERATE
    return Status.CONVERGED if converged else Status.FEASIBLE


def name_conflicts(problem: TrainingProblem, multipliers: Floats, assessment: Assessment) -> list[str]:
    """Return the constraints that conflict, one row for each, the most violated first.

    A constraint takes part if one of its rows is violated, is within 0.005 of its bound, or has a multiplier that is
    not negligible.
    """
    system, exact = problem.system, assessment.exact
    excess = np.maximum(exact - system.upper, system.lower - exact)
    size = np.abs(multipliers)
    has_multiplier = size > 1e-3 * size.max(initial=0.0)
    named: dict[int, int] = {}
    for j in np.argsort(-excess, kind="stable").tolist():
        if (excess[j] > -5e-3 or has_multiplier[j]) and system.rows[j].constraint not in named:
            named[system.rows[j].constraint] = j
    return [system.rows[j].text for j in named.values()]
