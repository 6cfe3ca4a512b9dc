"""The loop: batches in, steps of the optimiser, a history table, and the best model that keeps its limits.

Kept is the iterate of least objective among those that keep every limit in the exact measure, never simply the last;
where there is none, the one of least exact violation after the first step, and the status says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import distinct_texts
from fairbound.sqp import Evaluation, Status, StepRecord, StochasticSQP
from fairbound.training.assessment import Assessment, assess
from fairbound.training.batches import FullBatch, StratifiedBatches
from fairbound.training.constants import constant_models
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep

History = list[dict[str, Any]]


@dataclass(frozen=True)
class TrainingResult:
    """How training went.  The module holds the parameters that `assessment` speaks of.

    Attributes
    ----------
    status : Status
    assessment : Assessment
        Of the model returned.
    final : Assessment
        Of the last iterate, which need not be the one returned.
    history : list of dict
        One row per epoch.
    conflicts : list of str
        Where no model keeps all limits: the rows that pull hardest against each other.
    multipliers : Tensor of shape (m,), or None
        Of the last step, with the sign that pushes (positive: upper side).  None where the model was trained for
        stricter limits than these, which its multipliers do not price.
    seconds : float
    solver : str
        "stochastic" or "quasi-newton".
    evaluations, value_evaluations : int
        Passes over all rows with and without gradients, where the solver makes whole passes.
    stopped : bool
        Whether a callback ended the solve.
    free : Assessment or None
        Of the model without limits, where one was found on the way.
    least_loss : float or None
        The least loss found under the limits; the model returned may have more, for the sake of accuracy.
    """

    status: Status
    assessment: Assessment
    final: Assessment
    history: History = field(repr=False)
    conflicts: list[str]
    multipliers: Tensor | None = field(repr=False)
    seconds: float
    solver: str = "stochastic"
    evaluations: int = 0
    value_evaluations: int = 0
    stopped: bool = False
    free: Assessment | None = field(default=None, repr=False)
    least_loss: float | None = None

    @property
    def message(self) -> str:
        """The status in a sentence, with the rows that conflict."""
        if self.conflicts:
            return self.status.message + " In conflict: " + "; ".join(self.conflicts) + "."
        return self.status.message


class BestIterate:
    """Remembers the parameters to return."""

    def __init__(self) -> None:
        self.parameters: Tensor | None = None
        self.assessment: Assessment | None = None

    def offer(self, parameters: Tensor, assessment: Assessment) -> bool:
        """Take a candidate if it is better: kept before not kept, then by objective or by violation."""
        held = self.assessment
        if held is None:
            better = True
        elif assessment.kept != held.kept:
            better = assessment.kept
        elif assessment.kept:
            better = assessment.objective < held.objective
        else:
            better = assessment.exact_violation < held.exact_violation
        if better:
            self.parameters, self.assessment = parameters.clone(), assessment
        return better


def train(
    problem: TrainingProblem,
    batches: FullBatch | StratifiedBatches,
    optimizer: StochasticSQP,
    *,
    epochs: int = 500,
    tolerance: float = 1e-6,
    callback: Callable[[dict[str, Any]], bool | None] | None = None,
) -> TrainingResult:
    """Run epochs of steps, and leave the best model in the module.

    Parameters
    ----------
    problem : TrainingProblem
    batches : FullBatch or StratifiedBatches
    optimizer : StochasticSQP
        On the parameters of the problem's module.
    epochs : int
    tolerance : float
        Full batches only: stop when the optimality conditions hold to this and the limits are kept.
    callback : function of one history row, optional
        Called after every epoch; return True to stop.
    """
    if epochs < 1:
        raise ValueError(f"epochs={epochs!r}: must be at least 1.")
    own = {id(parameter) for parameter in problem.parameters}
    if own != {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}:
        raise ValueError(
            "The optimiser is not on the parameters of the problem's module: "
            "build it with StochasticSQP(problem.parameters, ...)."
        )
    started = time.perf_counter()
    rows, best, history = batches.rows, BestIterate(), []
    record: StepRecord | None = None
    converged = False
    try:
        for epoch in range(epochs):
            for batch in batches:
                look = _Look(problem, batch)
                record = optimizer.step(look)
            assert record is not None
            if isinstance(batches, FullBatch):
                # The sweep of the step tells what its starting point does: no further pass over the rows.
                assessment, parameters = assess(problem, rows, look.sweep, look.objective), look.parameters
            else:
                assessment, parameters = assess_now(problem, rows), problem.current()
            untrained = isinstance(batches, FullBatch) and epoch == 0
            if assessment.kept or not untrained:
                # Weights drawn at random may violate the limits least, but nobody asked for them.
                best.offer(parameters, assessment)
            history.append(_history_row(epoch, problem, assessment, record))
            converged = isinstance(batches, FullBatch) and record.kkt.largest <= tolerance and assessment.kept
            if converged or (callback is not None and callback(history[-1])):
                break
        final = assess_now(problem, rows)
        best.offer(problem.current(), final)
    finally:
        # Also on an interrupt: what was found so far stays in the module.
        if best.parameters is not None:
            problem.assign(best.parameters)
    assert best.assessment is not None
    assert record is not None
    # Optimality was checked at the last point but one; an earlier one may be better, but is not what was checked.
    converged = converged and best.assessment in (assessment, final)
    in_vain = record.locally_infeasible and not best.assessment.kept and not constant_keeps(problem, rows)
    status = choose_status(best.assessment, converged, in_vain)
    conflicts = name_conflicts(problem, record.multipliers, best.assessment) if status is Status.INFEASIBLE else []
    return TrainingResult(
        status, best.assessment, final, history, conflicts, record.multipliers, time.perf_counter() - started
    )


class _Look:
    """The closure of one step: evaluates, and remembers the first evaluation, at the point the step starts from."""

    def __init__(self, problem: TrainingProblem, batch: Rows | Batch) -> None:
        self.problem, self.batch = problem, batch
        self.parameters = problem.current()
        self._first: tuple[Evaluation, Sweep] | None = None

    def __call__(self) -> Evaluation:
        evaluation, sweep = self.problem.evaluate_with_sweep(self.batch)
        if self._first is None:
            self._first = (evaluation, sweep)
        return evaluation

    @property
    def objective(self) -> float:
        assert self._first is not None
        return self._first[0].f

    @property
    def sweep(self) -> Sweep:
        assert self._first is not None
        return self._first[1]


def assess_now(problem: TrainingProblem, rows: Rows) -> Assessment:
    """Assess the module as it stands, by one pass without gradients."""
    sweep = problem.sweep(rows, gradients=False)
    value, _ = problem.regularize(rows, sweep)
    return assess(problem, rows, sweep, sweep.loss + value)


def constant_keeps(problem: TrainingProblem, rows: Rows) -> bool:
    """Tell whether a constant prediction of the module keeps every limit, so that they cannot be called infeasible."""
    before = problem.current()
    try:
        for constant in constant_models(problem, rows):
            problem.assign(constant)
            if assess_now(problem, rows).kept:
                return True
        return False
    finally:
        problem.assign(before)


def choose_status(assessment: Assessment, converged: bool, locally_infeasible: bool) -> Status:
    """The outcome in one word."""
    if not assessment.kept:
        return Status.INFEASIBLE if locally_infeasible else Status.MAX_ITERATIONS
    if assessment.degenerate:
        return Status.DEGENERATE
    return Status.CONVERGED if converged else Status.FEASIBLE


def name_conflicts(problem: TrainingProblem, multipliers: Tensor, assessment: Assessment) -> list[str]:
    """One row for each constraint that takes part: rows beyond their bounds, and rows that hold against them.

    A row holds if it is at its bound, within half a point of a rate, or if its multiplier says so.  The hardest first.
    """
    system, exact = problem.system, assessment.exact
    beyond = torch.maximum(exact - system.upper, system.lower - exact)
    size = multipliers.abs()
    pulls = (
        size > 1e-3 * size.max() if len(size) and float(size.max()) > 0 else torch.zeros_like(size, dtype=torch.bool)
    )
    named: dict[int, int] = {}
    for j in torch.argsort(beyond, descending=True).tolist():
        if (beyond[j] > -5e-3 or pulls[j]) and system.rows[j].constraint not in named:
            named[system.rows[j].constraint] = j
    return [system.rows[j].text for j in named.values()]


def _history_row(epoch: int, problem: TrainingProblem, assessment: Assessment, record: StepRecord) -> dict[str, Any]:
    steps = {key: value for key, value in record.as_dict().items() if key not in ("multipliers", "violation", "f")}
    return {
        "epoch": epoch,
        "objective": assessment.objective,
        "loss": assessment.loss,
        "accuracy": assessment.accuracy,
        "surrogate_violation": assessment.surrogate_violation,
        "exact_violation": assessment.exact_violation,
        "kept": assessment.kept,
        **dict(zip(distinct_texts(problem.system.constraints), assessment.measured, strict=True)),
        **steps,
    }
