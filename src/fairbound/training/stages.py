"""The phases of a fit by whole passes over the rows.

    free      minimise the loss without limits; if that model keeps them, the fit is finished
    coarse    approach the limits by surrogates, from a small scale to the full one
    exact     at full scale, with the exact measures as values and the derivatives of the surrogate (`whole_pass`)
    repair    if no model keeps the limits yet: find the nearest one that does, whatever its loss
    accurate  maximise accuracy under the same limits; the loss may exceed the least one found by a slack

Each phase is a solve by `QuasiNewtonSQP` that starts at the last solution.  Every point that it evaluates after the
free phase is assessed by its decisions, which needs no further pass over the rows.  The result is chosen among the
points that keep every limit (`candidates`), and is checked again in double precision.  Prices come from the multipliers
at the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from fairbound.fairness import Constraint, ConstraintSystem, DecisionSurrogate, SmoothedStep
from fairbound.sqp import LineSearch, QuasiNewtonSQP, kkt_residuals, least_squares_multipliers
from fairbound.training.assessment import Assessment
from fairbound.training.candidates import Candidate, Candidates
from fairbound.training.effort import Phase
from fairbound.training.problem import TrainingProblem
from fairbound.training.random_search import (
    search_kept_model,
    search_least_error,
    search_least_objective,
    suits_random_search,
)
from fairbound.training.state import FitState
from fairbound.training.whole_pass import (
    WholePassProblem,
    at_scale,
    band_fraction,
    half_row_margin,
    scale_fractions,
)

RESTART_FRACTION = 0.15
"""Least fraction of the full scale at which a restart begins."""

RESTART_DISTANCE = 0.3
"""Distance of a restart from the best model, relative to the size of its parameters."""

RESTART_GAIN = 1e-3
"""Two successive restarts that lower the objective by less than this fraction are the last ones."""

SMOOTH_FRACTIONS, ROUND_FRACTIONS, FEW_ROUNDS = (0.1, 0.3, 1.0), (1.0, 0.3), 2
"""Fractions of the full scale in `follow_error`, and in the rounds of the accurate phase, in turn.  Efforts with few
rounds do without `follow_error`, and begin with the smaller scale: at the full one, a single round hardly moves a model
under limits on many groups."""

WORTHWHILE_GAIN = 2e-4
"""A round of the accurate phase that gains less accuracy than this was in vain."""

LIMITED_SHARE = 0.98
"""Share of the slack that a solve may use, since a model that ends beyond the slack by rounding cannot be chosen."""

BISECTIONS = 8
"""Points that `return_excess_accuracy` tries."""

BAND = 0.5
"""Share of the free model's selection rate, and of its rejection rate, that `search_in_band` leaves to every group."""

NEAR = 5e-3
"""Distance from a bound at which a constraint is active, or two rows if that is more: models end near their limits."""

NEAREST = QuasiNewtonSQP(max_iterations=4, line_search=LineSearch(rounding=1e-3))
"""Finds the nearest point that keeps the limits, in `assess_nearest`."""

Objective = Literal["loss", "accuracy"]


def find_free_optimum(state: FitState) -> None:
    """Minimise the loss without limits, unless the phase has no iterations."""
    judged = Candidates(judge=state.judge)
    watch = judged.offer if state.judge is not None else None  # the judge may prefer a point on the way
    if state.effort.free.iterations:
        solution = state.solve("free", WholePassProblem(state.base, state.rows, watch=watch), state.effort.free)
        state.kkt = None if solution is None else solution.kkt
        state.free_is_solved = True
    state.free_points = [] if judged.judged is None else [judged.judged[1].w]
    state.assess_free()


def reach_limits(
    state: FitState, problem: TrainingProblem, objective: Objective, points: Sequence[Tensor] = ()
) -> None:
    """Find the best model under the limits of `problem`, starting from `state.w`, the free model.

    `points` were trained for the limits by mini-batches.  They compete, and the search starts from the last of them.
    """
    start = state.begin(problem, math.inf if objective == "accuracy" else state.effort.loss_slack)
    for point in (*points, *state.free_points):
        state.candidates.offer(point, state.assess(problem, point))
    finished = start.kept and not points  # the free model keeps the limits
    few = suits_random_search(state, problem)
    if not finished:
        if points:
            state.move_to(points[-1])
        approach(state, problem, state.effort.coarse)
        if not state.limits_cost_nothing():
            solve_exact(state, problem, state.effort.exact)
        if few:
            search_least_objective(state, problem)
        elif not points:
            restart_near_best(state, problem)
        if not state.candidates.useful():
            search_in_band(state, problem)
        if not state.candidates.kept:
            restore_feasibility(state, problem)
    if not state.candidates.kept:
        return
    if objective == "accuracy":
        seek_most_accurate(state, problem)
    elif not finished and state.accuracy_lost() > state.effort.worth:
        if few:
            search_least_error(state, problem, state.effort.loss_slack)
        seek_accuracy_in_rounds(state, problem)
        return_excess_accuracy(state, problem)
    if not finished:
        compute_prices(state, problem)


def restart_near_best(state: FitState, problem: TrainingProblem) -> None:
    """Approach the limits again from random points near the best model, until that no longer lowers the objective.

    At small scales all starting points lead to the same solution, so nothing is gained by starting there again.  At
    larger scales there are many local minima, and the best ones lie close together.
    """
    coarse, exact = (_hurried(phase) for phase in (state.effort.coarse, state.effort.exact))
    in_vain = 0
    for start in range(1, state.effort.starts):
        before = state.candidates.least_objective
        state.move_to(random_point_near(state.candidates.leading().w, seed=start))
        approach(state, problem, coarse, RESTART_FRACTION)
        solve_exact(state, problem, exact)
        after = state.candidates.least_objective
        gained = after < before - RESTART_GAIN * abs(after)
        in_vain = 0 if gained else in_vain + 1
        if in_vain == 2 and state.candidates.kept:
            break


def _hurried(phase: Phase) -> Phase:
    """Return a phase that ends sooner, for restarts: the first start has been followed closely enough."""
    return replace(phase, progress=10.0 * phase.progress, window=max(phase.window // 2, 1))


def random_point_near(w: Tensor, seed: int) -> Tensor:
    """Return w plus normal noise, with a standard deviation of `RESTART_DISTANCE` times the root mean square of w."""
    noise = torch.randn(len(w), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return w + RESTART_DISTANCE * float(w.square().mean().sqrt()) * noise


def approach(
    state: FitState,
    problem: TrainingProblem,
    phase: Phase,
    least_fraction: float = 0.0,
    judged_by: ConstraintSystem | None = None,
) -> None:
    """Approach the limits by surrogates of increasing scale, each solve started from the last solution.

    The first scale is at least `least_fraction` of the full one.  `judged_by` as in `WholePassProblem`.
    """
    problem.assign(state.w)
    first = state.effort.coarseness
    if first is None:
        first = band_fraction(problem, state.rows)
        state.value_evaluations += 1
    for fraction in scale_fractions(max(first, least_fraction), state.effort.sharpening):
        if state.limits_cost_nothing():
            break
        # The decisions of a point, and so its rank among the candidates, do not depend on the scale.
        at_fraction = WholePassProblem(
            at_scale(problem, fraction), state.rows, watch=state.candidates.offer, judged_by=judged_by
        )
        # At a small scale the surrogate may be kept and the limit not: then only a larger scale leads further.
        until, enough = state.limits_cost_nothing, state.free_objective
        state.solve("coarse", at_fraction, phase, warm=True, until=until, enough=enough)


def solve_exact(
    state: FitState, problem: TrainingProblem, phase: Phase, judged_by: ConstraintSystem | None = None
) -> None:
    """Solve with exact values and surrogate derivatives; the bounds are tightened by half the weight of a row."""
    exact = WholePassProblem(
        problem,
        state.rows,
        exact=True,
        margin=half_row_margin(problem),
        watch=state.candidates.offer,
        judged_by=judged_by,
    )
    solution = state.solve("exact", exact, phase, until=state.limits_cost_nothing)
    if solution is not None:
        state.multipliers = solution.multipliers[: len(state.multipliers)]


def search_in_band(state: FitState, problem: TrainingProblem) -> None:
    """Approach the limits again with every group's selection rate kept away from 0 and 1, for the time being.

    A ratio limit is the row δ·r_a − r_b ≤ 0.  Its violation shrinks with the rates, so with rare positives and many
    groups a solve may end at a model that selects almost nobody.  Rates in a band rule that out.  The models found
    compete by the limits as asked.  Columns without a limit have no band.
    """
    rate = 0.0 if state.free_w is None else state.assess(problem, state.free_w).selected_share
    if problem.cells.n_labels > 2 or not 0.0 < rate < 1.0:
        return
    columns = tuple(dict.fromkeys(block.grouping.name for block in problem.system.blocks))
    band = Constraint((BAND * rate, 1.0 - BAND * (1.0 - rate)), measure="selection_rate", columns=columns)
    state.return_to_free()
    within = problem.with_constraints([*problem.system.constraints, band])
    approach(state, within, state.effort.coarse, judged_by=problem.system)
    solve_exact(state, within, state.effort.exact, judged_by=problem.system)
    state.converged_at = None  # the conditions were those of the problem with the band


def compute_prices(state: FitState, problem: TrainingProblem) -> None:
    """Compute the multipliers at the model with the least objective, and its residuals of the surrogate problem."""
    least = state.candidates.least()
    problem.assign(least.w)
    here = problem.evaluate(state.rows)
    state.evaluations += 1
    near = (4.0 * half_row_margin(problem)).clamp_min(NEAR)
    state.multipliers = least_squares_multipliers(here, least.assessment.exact, near)
    state.kkt = kkt_residuals(here, state.multipliers)


def restore_feasibility(state: FitState, problem: TrainingProblem) -> None:
    """Find a model that keeps the limits, whatever its loss, and continue the exact phase from there.

    With few rows, derivatives at full scale come from a few rows only, and a violation by a row may cost less than the
    loss that it saves.  So small random changes come first, then the nearest feasible point at smaller scales.
    """
    search_kept_model(state, problem)
    for coarseness, half_rows in ((1.0, 4.0), (0.4, 16.0), (0.16, 64.0)):
        if state.candidates.kept:
            break
        assert state.candidates.nearest is not None
        state.w = state.candidates.nearest.w
        nearest = WholePassProblem(
            at_scale(problem, coarseness),
            state.rows,
            exact=True,
            margin=half_rows * half_row_margin(problem),
            anchor=state.w,
            watch=state.candidates.offer,
        )
        state.solve("repair", nearest, state.effort.repair)
    if state.candidates.kept:
        state.w = state.candidates.least().w
        solve_exact(state, problem, state.effort.exact)


def seek_most_accurate(state: FitState, problem: TrainingProblem) -> None:
    """Maximise accuracy within the loss slack, then with 2, 4 and 8 times the slack, until that gains almost nothing.

    A limit on the loss is needed: without it the margins grow, the derivatives of the surrogate vanish, and the search
    stops too early.
    """
    state.candidates.slack = state.effort.loss_slack
    seek_accuracy_in_rounds(state, problem)
    state.candidates.slack = math.inf
    for slack in (2.0, 4.0, 8.0):
        start = state.candidates.choice()
        seek_accuracy(state, problem, start.w, slack * state.effort.loss_slack, state.effort.most_accurate)
        if state.candidates.choice().assessment.accuracy - start.assessment.accuracy < WORTHWHILE_GAIN:
            break


def seek_accuracy(
    state: FitState,
    problem: TrainingProblem,
    start: Tensor,
    slack: float,
    phase: Phase,
    fraction: float = 1.0,
    *,
    exact: bool = True,
) -> None:
    """Minimise the smoothed error under the same limits; the objective may exceed the least one by `slack`.

    The derivatives of error and limits are taken at a fraction of the full scale.  Without `exact`, so are the values.
    """
    step = SmoothedStep()
    surrogate = DecisionSurrogate(replace(step, scale=fraction * step.scale), "probability", problem.threshold)
    least = state.candidates.least_objective
    by_error = WholePassProblem(
        at_scale(problem, fraction, surrogate),
        state.rows,
        exact=exact,
        margin=half_row_margin(problem) if exact else 0.0,
        error=surrogate,
        loss_limit=least + LIMITED_SHARE * slack * abs(least),
        watch=state.candidates.offer,
    )
    converged_at = state.converged_at
    state.w = start
    state.solve("accurate", by_error, phase, until=state.candidates.suffice)
    state.converged_at = converged_at  # the status is about the optimality of the loss, not of the error


def follow_error(state: FitState, problem: TrainingProblem) -> None:
    """Minimise the smoothed error under limits on surrogates, from a small scale to the full one.

    Exact values jump at the rows of every limited group, and a solve ends at the first jumps, near its start.  Values
    of surrogates are smooth, and at a small scale nearly all rows have a slope, so that the solve goes on past the many
    local minima of the full scale.  A constant has no slope: if it is the best model so far, start from the free model.
    """
    best, phase = state.candidates.choice(), state.effort.accurate
    state.w = state.free_w if best.assessment.degenerate and state.free_w is not None else best.w
    patient = replace(phase, iterations=2 * phase.iterations)
    for fraction in SMOOTH_FRACTIONS:
        if not state.candidates.suffice():
            seek_accuracy(state, problem, state.w, state.effort.loss_slack, patient, fraction, exact=False)


def seek_accuracy_in_rounds(state: FitState, problem: TrainingProblem) -> None:
    """Follow the smoothed error, then run `seek_accuracy` with exact values until a round gains almost nothing.

    The first round starts where the smoothed error led, the others at the best model.  They alternate between two
    scales, and each has a new BFGS matrix, which helps where the last one got stuck.  A round in vain may have ended a
    few rows beyond a limit, so the nearest point within counts, too.  All end at the accuracy without limits.
    """
    many = state.effort.accurate_rounds > FEW_ROUNDS
    if many:
        follow_error(state, problem)
    point = state.w if many else state.candidates.choice().w
    fractions = ROUND_FRACTIONS if many else ROUND_FRACTIONS[::-1]
    for turn in range(state.effort.accurate_rounds):
        if state.candidates.suffice():
            return
        enough = state.candidates.choice().assessment.accuracy + WORTHWHILE_GAIN
        seek_accuracy(state, problem, point, state.effort.loss_slack, state.effort.accurate, fractions[turn % 2])
        if state.candidates.choice().assessment.accuracy < enough:
            assess_nearest(state, problem, state.w)
        point = (best := state.candidates.choice()).w
        if many and best.assessment.accuracy < enough:
            return


def return_excess_accuracy(state: FitState, problem: TrainingProblem) -> None:
    """If the choice is more accurate than the model without limits, move it towards the least objective.

    More accuracy than without limits is not asked for, and costs a larger loss.  Without this step, a strict limit
    could lead to a more accurate model than a loose one, which the model without limits keeps.
    """
    chosen, least, enough = state.candidates.choice(), state.candidates.least(), state.candidates.enough
    if chosen.assessment.accuracy <= enough:
        return
    shares = 0.0, 1.0  # of the way to the least objective: enough accuracy, and too little
    for _ in range(BISECTIONS):
        middle = 0.5 * sum(shares)
        found = assess_nearest(state, problem, torch.lerp(chosen.w, least.w, middle))
        shares = (middle, shares[1]) if found.kept and found.accuracy >= enough else (shares[0], middle)


def assess_nearest(state: FitState, problem: TrainingProblem, w: Tensor) -> Assessment:
    """Offer w or, if it violates a limit, the nearest point that keeps them; return the assessment of that point.

    Between two points at a limit, the straight line may leave it by a few rows.
    """
    found = state.assess(problem, w)
    state.candidates.offer(w, found)
    if found.kept or state.stopped:
        return found
    nearest = WholePassProblem(
        problem, state.rows, exact=True, margin=half_row_margin(problem), anchor=w, watch=state.candidates.offer
    )
    solution = NEAREST.solve(nearest, w)
    state.evaluations += nearest.evaluations
    state.value_evaluations += nearest.value_evaluations
    return state.assess(problem, solution.w)


def confirm(state: FitState, problem: TrainingProblem) -> Candidate:
    """Return the first of the ranked candidates whose decisions keep the limits in double precision."""
    if state.candidates.kept:
        state.least_loss = state.candidates.least().assessment.loss
    state.use_double_precision(problem)
    ranked, confirmed = state.candidates.ranked(), Candidates(state.candidates.slack, enough=state.candidates.enough)
    for held in ranked or [state.candidates.choice()]:
        confirmed.offer(held.w, state.assess(problem, held.w))
        if confirmed.kept:
            break
    state.candidates = confirmed
    if ranked and not confirmed.kept:
        # In double precision every candidate violates a limit, by the decisions of one or two rows: repair the best.
        state.w = ranked[0].w
        solve_exact(state, problem, state.effort.repair)
    return state.candidates.choice()
