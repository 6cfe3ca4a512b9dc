"""The result of training: its status, its assessment, and the limits that conflict."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from fairbound.sqp import Status
from fairbound.training.assessment import Assessment, assess
from fairbound.training.chunks import Floats
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

History = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """What a solver says about a fit, in plain values: a part of the results of training and of an estimator.

    Attributes
    ----------
    status : Status
    conflicts : tuple of str
        If no model was found that keeps every limit: the comparisons that are hardest to keep together.
    solver : str
        "stochastic" or "quasi-newton".
    passes : int
        Passes over the training rows with gradients, if the solver makes whole passes.
    value_passes : int
        Passes without gradients.
    seconds : float
        The time of the whole fit.  That of an estimator has also encoding, the base and the forecast.
    least_loss : float or None
        The least loss found under the limits.  The returned model may have up to 5% more, and better accuracy.
    kkt_residual : float or None
        The largest residual of the optimality conditions at the model with that loss, for the problem with surrogates
        in place of decisions (see "The solver" in the documentation).  None if it was not computed.
    iterations : list of dict
        The numbers of each iteration, or epoch.
    """

    status: Status
    conflicts: tuple[str, ...] = ()
    solver: str = "stochastic"
    passes: int = 0
    value_passes: int = 0
    seconds: float
    least_loss: float | None = None
    kkt_residual: float | None = None
    iterations: History = field(default_factory=list, repr=False)

    def facts(self) -> dict[str, Any]:
        """Return the fields of this part of a result."""
        return {each.name: getattr(self, each.name) for each in fields(FitRecord)}


@dataclass(frozen=True, kw_only=True)
class TrainingResult(FitRecord):
    """The result of training: a `FitRecord`, and the model, whose problem has these parameters.

    Attributes
    ----------
    assessment : Assessment
        Assessment of the returned model.
    parameters : array
        Flat parameters of the returned model.
    multipliers : array of shape (m,), or None
        Positive at upper bounds, negative at lower ones.  None for a model between two others, whose multipliers are
        prices of their limits.
    stopped : bool
        Whether a callback ended the solve.
    free : Assessment or None
        Assessment of the model without limits, if the fit trained one.
    final : Assessment or None
        From `train`: the assessment of the last iterate, which need not be the returned model.
    free_parameters : array or None
        Flat parameters of the model without limits.
    """

    assessment: Assessment
    parameters: Floats = field(repr=False)
    multipliers: Floats | None = field(repr=False)
    stopped: bool = False
    free: Assessment | None = field(default=None, repr=False)
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


def name_conflicts(problem: TrainingProblem, multipliers: Floats, assessment: Assessment) -> tuple[str, ...]:
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
    return tuple(system.rows[j].text for j in named.values())
