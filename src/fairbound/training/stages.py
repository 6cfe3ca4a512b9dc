"""The stages of a fit by whole passes: a model that keeps every limit exactly, in seconds, with nothing to tune.

    free      the optimum without limits; if it keeps them, it is the answer
    coarse    towards the limits on the gentle slope of a surrogate at a fraction of its scale, to a good branch
    exact     at full scale, with the exact measures of the decisions as values and the surrogate's slopes (`limits`)
    repair    where no model keeps the limits yet: the nearest within them, whatever its loss
    accurate  more accurate decisions under the same limits, with the loss held within a slack of the least found

Each stage is a solve by `QuasiNewtonSQP` that starts where the last one ended.  Every point that the last ones visit is
assessed by its own decisions, for free, and the answer is chosen among those that keep every limit (`candidates`),
checked once more in double precision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from fairbound.fairness import Constraint, SmoothedStep, Step, resolve_surrogate
from fairbound.fairness.measures import resolve_measure
from fairbound.training.candidates import Candidate, Candidates
from fairbound.training.effort import Phase
from fairbound.training.limits import WholePass
from fairbound.training.prices import balancing_multipliers
from fairbound.training.problem import TrainingProblem
from fairbound.training.state import FitState

Objective = Literal["loss", "accuracy"]


def find_free_optimum(state: FitState) -> None:
    """Go to the optimum without limits."""
    state.solve("free", WholePass(state.base, state.rows), state.effort.free)
    state.free = state.assess(state.base, state.w)


def reach_limits(state: FitState, problem: TrainingProblem, objective: Objective) -> None:
    """Go from where the module stands to the best model under the limits of `problem`."""
    start = state.begin(problem, math.inf if objective == "accuracy" else state.effort.loss_slack)
    if not start.kept:
        approach(state, problem)
        solve_exact(state, problem, state.effort.exact)
        if not state.candidates.kept:
            restore_feasibility(state, problem)
    if not state.candidates.kept:
        return
    if objective == "accuracy":
        seek_most_accurate(state, problem)
    elif not start.kept and accuracy_lost(state) > state.effort.worth:
        seek_accuracy(state, problem, state.candidates.least(), state.effort.loss_slack, state.effort.accurate)


def approach(state: FitState, problem: TrainingProblem) -> None:
    """Go towards the limits at a fraction of the surrogate's scale."""
    gentle = at_scale(problem, state.effort.coarseness)
    state.solve("coarse", WholePass(gentle, state.rows), state.effort.coarse)


def solve_exact(state: FitState, problem: TrainingProblem, phase: Phase) -> None:
    """Solve with the exact measures as values, the slopes of the surrogate, and an aim half a row inside the limits."""
    whole = WholePass(problem, state.rows, exact=True, margin=half_a_row(problem), watch=state.candidates.offer)
    solution = state.solve("exact", whole, phase)
    if solution is not None:
        state.multipliers = solution.multipliers
    if state.candidates.kept:
        least = state.candidates.least()
        problem.assign(least.w)
        state.multipliers = balancing_multipliers(problem, state.rows, least.assessment)
        state.evaluations += 1


def restore_feasibility(state: FitState, problem: TrainingProblem) -> None:
    """Where no model has kept the limits: go to the nearest within them, whatever its loss, and on from there.

    With few rows the slopes at full scale are those of a handful of rows, and the loss pulls out of the limits by more
    than a violation of a row or two weighs; so the slopes become gentler, the aim lies farther inside, and the loss
    waits.  What is found goes back to the limits themselves.
    """
    for coarseness, half_rows in ((1.0, 4.0), (0.4, 16.0), (0.16, 64.0)):
        assert state.candidates.nearest is not None
        state.w = state.candidates.nearest.w
        whole = WholePass(
            at_scale(problem, coarseness),
            state.rows,
            exact=True,
            margin=half_rows * half_a_row(problem),
            anchor=state.w,
            watch=state.candidates.offer,
        )
        state.solve("repair", whole, state.effort.repair)
        if state.candidates.kept:
            state.w = state.candidates.least().w
            solve_exact(state, problem, state.effort.exact)
            return


def accuracy_lost(state: FitState) -> float:
    """How much less accurate than the free model the most accurate one under the limits is."""
    free = 0.0 if state.free is None else state.free.accuracy
    return free - max(held.assessment.accuracy for held in state.candidates.kept)


def seek_most_accurate(state: FitState, problem: TrainingProblem) -> None:
    """Go on for accuracy alone, in rounds that each allow twice the loss, until a round wins next to nothing.

    Without any limit on the loss the margins grow, the slopes of the step vanish, and the search stops early.
    """
    start = state.candidates.least()
    for slack in (1.0, 2.0, 4.0, 8.0):
        before = max(held.assessment.accuracy for held in state.candidates.kept)
        seek_accuracy(state, problem, start, slack * state.effort.loss_slack, state.effort.most_accurate)
        start = max(state.candidates.kept, key=lambda held: held.assessment.accuracy)
        if slack > 1.0 and start.assessment.accuracy - before < 0.1 * state.effort.worth:
            break


def seek_accuracy(state: FitState, problem: TrainingProblem, start: Candidate, slack: float, phase: Phase) -> None:
    """Seek more accurate decisions under the same limits, with the loss held near the least that keeps them."""
    step = Step(SmoothedStep(), "probability", problem.threshold)
    least = state.candidates.least_objective
    state.w = start.w
    whole = WholePass(
        problem.with_constraints(problem.system.constraints, further_steps=[step]),
        state.rows,
        exact=True,
        margin=half_a_row(problem),
        error=step,
        loss_limit=least + slack * abs(least),
        watch=state.candidates.offer,
    )
    converged_at = state.converged_at  # of the loss, which is what the status speaks of
    state.solve("accurate", whole, phase)
    state.converged_at = converged_at


def confirm(state: FitState, problem: TrainingProblem) -> Candidate:
    """Return the first of the ranked candidates whose decisions keep the limits in double precision."""
    state.use_double_precision(problem)
    ranked, confirmed = state.candidates.ranked(), Candidates(state.candidates.slack)
    for held in ranked or [state.candidates.choice()]:
        confirmed.offer(held.w, state.assess(problem, held.w))
        if confirmed.kept:
            break
    state.candidates = confirmed
    if ranked and not confirmed.kept:
        # Every candidate was a row short in double precision: repair the best one there.
        state.w = ranked[0].w
        solve_exact(state, problem, state.effort.repair)
    return state.candidates.choice()


def half_a_row(problem: TrainingProblem) -> Tensor:
    """Half of what a single row of the data can change each row of c̄ by."""
    if not problem.system.n_rows:
        return torch.zeros(0, dtype=torch.float64)
    halves = 0.5 * problem.cells.totals[None, :, None].expand(
        len(problem.system.steps), -1, len(problem.cells.outcomes)
    )
    _, derivative = problem.system.values_and_derivative(halves)
    return 0.5 * problem.cells.smallest_weight * derivative.abs().flatten(1).amax(dim=1)


def at_scale(problem: TrainingProblem, factor: float) -> TrainingProblem:
    """The same limits with bounded surrogates at a fraction of their scale."""
    if factor == 1.0:
        return problem
    return problem.with_constraints([_rescaled(constraint, factor) for constraint in problem.system.constraints])


def _rescaled(constraint: Constraint, factor: float) -> Constraint:
    measure = resolve_measure(constraint.measure)
    surrogate = measure.default_surrogate if constraint.surrogate is None else resolve_surrogate(constraint.surrogate)
    if not surrogate.bounded:
        return constraint
    return replace(constraint, surrogate=replace(surrogate, scale=factor * surrogate.scale))
