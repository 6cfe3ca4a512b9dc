"""The training loop of the stochastic solver.

The loop returns the best iterate, not the last one.  The best iterate has the least objective among those whose
decisions keep every limit.  If there is none, it is the one with the least exact violation, except the starting point.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fairbound.fairness import distinct_texts
from fairbound.sqp import Evaluation, Status, StepRecord, StochasticSQP
from fairbound.training.archive import Archive
from fairbound.training.assessment import Assessment, assess
from fairbound.training.batches import FullBatch, StratifiedBatches
from fairbound.training.constants import constant_models
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.result import TrainingResult, assess_now, choose_status, name_conflicts
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep


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
    rows, best, history = batches.rows, Archive("loss"), []
    record: StepRecord | None = None
    converged, full = False, isinstance(batches, FullBatch)
    try:
        for epoch in range(epochs):
            for batch in batches:
                found, parameters = list[tuple[Evaluation, Sweep]](), problem.current()

                def closure(batch: Rows | Batch = batch, found: list[tuple[Evaluation, Sweep]] = found) -> Evaluation:
                    found.append(problem.evaluate_with_sweep(batch))
                    return found[-1][0]

                record = optimizer.step(closure)
            assert record is not None
            if full:
                # Assess the starting point of the step, because its sweep is known; this saves a pass over the rows.
                assessment = assess(problem, rows, found[0][1], found[0][0].f)
            else:
                assessment, parameters = assess_now(problem, rows), problem.current()
            if assessment.kept or not full or epoch:
                # Untrained random weights may have the least violation, but they are useless.
                best.offer(parameters, assessment)
            history.append(_history_row(epoch, problem, assessment, record))
            converged = full and record.kkt.largest <= tolerance and assessment.kept
            if converged or (callback is not None and callback(history[-1])):
                break
        final, last = assess_now(problem, rows), problem.current()
        best.offer(last, final)
    finally:
        # Also on an interrupt, leave the best model found in the module.
        if best.kept or best.nearest:
            problem.assign(best.choice().w)
    assert record is not None
    chosen = assess_now(problem, rows)
    # Optimality was checked at the start of the last step.  If an earlier model is better, its optimality is unknown.
    converged = converged and any(np.array_equal(best.choice().w, each) for each in (parameters, last))
    infeasible = record.locally_infeasible and not chosen.kept and not constant_is_feasible(problem, rows)
    status = choose_status(chosen, converged, infeasible)
    return TrainingResult(
        status=status,
        assessment=chosen,
        parameters=problem.current(),
        iterations=history,
        conflicts=name_conflicts(problem, record.multipliers, chosen) if status is Status.INFEASIBLE else (),
        multipliers=record.multipliers,
        seconds=time.perf_counter() - started,
        final=final,
    )


def constant_is_feasible(problem: TrainingProblem, rows: Rows) -> bool:
    """Return whether a constant prediction keeps every limit, so that the limits are feasible."""
    before, kept = problem.current(), False
    for constant in constant_models(problem, rows):
        problem.assign(constant)
        kept = kept or assess_now(problem, rows).kept
    problem.assign(before)
    return kept


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
