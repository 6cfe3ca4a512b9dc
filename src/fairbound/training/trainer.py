"""The training loop of the stochastic solver.

The loop returns the best iterate, not the last one.  The best iterate has the least objective among those whose
decisions keep every limit.  If there is none, it is the one with the least exact violation, except the starting point.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fairbound.fairness import distinct_texts
from fairbound.sqp import Evaluation, Status, StepRecord, StochasticSQP
from fairbound.training.assessment import Assessment, assess
from fairbound.training.batches import FullBatch, StratifiedBatches
from fairbound.training.chunks import Floats
from fairbound.training.constants import constant_models
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.result import TrainingResult, assess_now, choose_status, name_conflicts
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep


class BestIterate:
    """The best parameters so far."""

    def __init__(self) -> None:
        self.parameters: Floats | None = None
        self.assessment: Assessment | None = None

    def offer(self, parameters: Floats, assessment: Assessment) -> bool:
        """Store a candidate if it is better, and return whether it is.

        Candidates that keep the limits come first, by objective; then the others, by violation.
        """
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
            self.parameters, self.assessment = parameters.copy(), assessment
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
    """Train for some epochs, and leave the best model in the module.

    Parameters
    ----------
    problem : TrainingProblem
    batches : FullBatch or StratifiedBatches
    optimizer : StochasticSQP
        Built with `problem.parameters`.
    epochs : int
    tolerance : float
        With full batches: stop when the limits are kept and the largest KKT residual is at most this.
    callback : function of one history row, optional
        Called after every epoch; return True to stop.
    """
    if epochs < 1:
        raise ValueError(f"epochs={epochs!r}: must be at least 1.")
    own = {id(parameter) for parameter in problem.parameters}
    if own != {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}:
        raise ValueError(
            "The optimiser does not have the parameters of the problem's module: "
            "build it with StochasticSQP(problem.parameters, ...)."
        )
    started = time.perf_counter()
    rows, best, history = batches.rows, BestIterate(), []
    record: StepRecord | None = None
    converged = False
    try:
        for epoch in range(epochs):
            for batch in batches:
                closure = _RecordingClosure(problem, batch)
                record = optimizer.step(closure)
            assert record is not None
            if isinstance(batches, FullBatch):
                # Assess the starting point of the step, because its sweep is known; this saves a pass over the rows.
                assessment = assess(problem, rows, closure.sweep, closure.objective)
                parameters = closure.parameters
            else:
                assessment, parameters = assess_now(problem, rows), problem.current()
            untrained = isinstance(batches, FullBatch) and epoch == 0
            if assessment.kept or not untrained:
                # Untrained random weights may have the least violation, but they are useless.
                best.offer(parameters, assessment)
            history.append(_history_row(epoch, problem, assessment, record))
            converged = isinstance(batches, FullBatch) and record.kkt.largest <= tolerance and assessment.kept
            if converged or (callback is not None and callback(history[-1])):
                break
        final = assess_now(problem, rows)
        best.offer(problem.current(), final)
    finally:
        # Also on an interrupt, leave the best model found in the module.
        if best.parameters is not None:
            problem.assign(best.parameters)
    assert best.assessment is not None
    assert record is not None
    # Optimality was checked at the start of the last step.  If an earlier model is better, its optimality is unknown.
    converged = converged and best.assessment in (assessment, final)
    infeasible = record.locally_infeasible and not best.assessment.kept and not constant_is_feasible(problem, rows)
    status = choose_status(best.assessment, converged, infeasible)
    multipliers = record.multipliers
    conflicts = name_conflicts(problem, multipliers, best.assessment) if status is Status.INFEASIBLE else []
    return TrainingResult(
        status, best.assessment, final, history, conflicts, multipliers, time.perf_counter() - started
    )


class _RecordingClosure:
    """The closure of one optimiser step; stores the first evaluation, which is at the starting point of the step."""

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


def constant_is_feasible(problem: TrainingProblem, rows: Rows) -> bool:
    """Return whether a constant prediction keeps every limit, so that the limits are feasible."""
    before = problem.current()
    try:
        for constant in constant_models(problem, rows):
            problem.assign(constant)
            if assess_now(problem, rows).kept:
                return True
        return False
    finally:
        problem.assign(before)


def _history_row(epoch: int, problem: TrainingProblem, assessment: Assessment, record: StepRecord) -> dict[str, Any]:
    step = {key: value for key, value in record.as_dict().items() if key not in ("violation", "f")}
    return {
        "epoch": epoch,
        "objective": assessment.objective,
        "loss": assessment.loss,
        "accuracy": assessment.accuracy,
        "surrogate_violation": assessment.surrogate_violation,
        "exact_violation": assessment.exact_violation,
        "kept": assessment.kept,
        **dict(zip(distinct_texts(problem.system.constraints), assessment.measured, strict=True)),
        **step,
    }
