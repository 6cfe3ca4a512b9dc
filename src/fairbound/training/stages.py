"""The stages of a fit by whole passes: a model that keeps every limit exactly, in seconds, with nothing to tune.

    free      the optimum without limits; if it keeps them, it is the answer
    coarse    towards the limits by surrogates from a gentle scale to the full one, each until it no longer pays
    exact     at full scale: exact measures of the decisions as values, slopes of the surrogate (`whole_pass`)
    repair    where no model keeps the limits yet: the nearest within them, whatever its loss
    accurate  more accurate decisions under the same limits, with the loss held within a slack of the least found

Each stage is a solve by `QuasiNewtonSQP` that starts where the last one ended.  Every point that the last ones visit is
assessed by its own decisions, for free, and the answer is chosen among those that keep every limit (`candidates`),
checked once more in double precision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from fairbound.fairness import SmoothedStep, Step
from fairbound.training.assessment import Assessment
from fairbound.training.candidates import Candidate, Candidates
from fairbound.training.effort import Phase
from fairbound.training.prices import balancing_multipliers
from fairbound.training.problem import TrainingProblem
from fairbound.training.scales import at_scale, band_fraction, scale_fractions
from fairbound.training.state import FitState
from fairbound.training.whole_pass import WholePass

Objective = Literal["loss", "accuracy"]


def find_free_optimum(state: FitState) -> None:
    """Go to the optimum without limits."""
    state.solve("free", WholePass(state.base, state.rows), state.effort.free)
    state.free = state.assess(state.base, state.w)


def reach_limits(state: FitState, problem: TrainingProblem, objective: Objective) -> None:
    """Go from where the module stands to the best model under the limits of `problem`."""
    start = state.begin(problem, math.inf if objective == "accuracy" else state.effort.loss_slack)
    if not start.kept:
        for point in starting_points(state):
            state.restart(point)
            approach(state, problem)
            solve_exact(state, problem, state.effort.exact)
        if not state.candidates.kept:
            restore_feasibility(state, problem)
    if not state.candidates.kept:
        return
    if not start.kept:
        price_limits(state, problem)
    if objective == "accuracy":
        seek_most_accurate(state, problem)
    elif not start.kept and accuracy_lost(state) > state.effort.worth:
        seek_accuracy_in_rounds(state, problem)


def starting_points(state: FitState) -> list[Tensor]:
    """Return the point at hand and, for small problems, points about it and about zero, drawn from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    size = float(state.w.square().mean().sqrt())
    drawn = [
        size * torch.randn(len(state.w), generator=generator, dtype=torch.float64)
        for _ in range(state.effort.starts - 1)
    ]
    return [state.w, *(point + state.w if position % 2 else point for position, point in enumerate(drawn))]


def approach(state: FitState, problem: TrainingProblem) -> None:
    """Go towards the limits by scales from gentle to full, each until it no longer pays, each from the last one."""
    problem.assign(state.w)
    first = state.effort.coarseness
    if first is None:
        first = band_fraction(problem, state.rows, problem.sweep(state.rows, gradients=False).logits)
        state.value_evaluations += 1
    for fraction in scale_fractions(first, state.effort.sharpening):
        watch = partial(_offer_under, problem, state)
        whole = WholePass(at_scale(problem, fraction), state.rows, watch=watch)
        state.solve("coarse", whole, state.effort.coarse, warm=True)


def _offer_under(problem: TrainingProblem, state: FitState, w: Tensor, found: Assessment) -> None:
    """Offer a point that was assessed at another scale; its decisions are the same."""
    state.candidates.offer(w, replace(found, system=problem.system))


def solve_exact(state: FitState, problem: TrainingProblem, phase: Phase) -> None:
    """Solve with the exact measures as values, the slopes of the surrogate, and an aim half a row inside the limits."""
    whole = WholePass(problem, state.rows, exact=True, margin=half_a_row(problem), watch=state.candidates.offer)
    solution = state.solve("exact", whole, phase)
    if solution is not None:
        state.multipliers = solution.multipliers


def price_limits(state: FitState, problem: TrainingProblem) -> None:
    """Take the multipliers at the least objective found."""
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
            break


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
    state.w = start.w
    state.solve("accurate", whole, phase)
    state.converged_at = converged_at


def seek_accuracy_in_rounds(state: FitState, problem: TrainingProblem) -> None:
    """Seek accuracy from the best model so far, again and again, until a round wins next to nothing.

    Each round learns its curvature anew where the last one got stuck.
    """
    for _ in range(state.effort.accurate_rounds):
        start = state.candidates.choice()
        seek_accuracy(state, problem, start, state.effort.loss_slack, state.effort.accurate)
        if state.candidates.choice().assessment.accuracy - start.assessment.accuracy < 0.1 * state.effort.worth:
            return


def confirm(state: FitState, problem: TrainingProblem) -> Candidate:
    """Return the first of the ranked candidates whose decisions keep the limits in double precision."""
    if state.candidates.kept:
        state.least_loss = state.candidates.least().assessment.loss
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
