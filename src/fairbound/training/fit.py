"""The way to the limit: a model that keeps every limit exactly, in seconds, with nothing to tune.

    free      the optimum without limits; if it keeps them, it is the answer
    coarse    towards the limits on the gentle slope of a surrogate at a fraction of its scale, to a good branch
    exact     at full scale, with the exact measures of the decisions as values and the surrogate's slopes (`limits`)
    accurate  more accurate decisions under the same limits, with the loss held within a slack of the least found

Each phase is a solve by `QuasiNewtonSQP` that starts where the last one ended.  Every point that the last two visit is
assessed by its own decisions, for free, and the answer is chosen among those that keep every limit (`candidates`),
checked once more in double precision.  Data too large for whole passes go by `StochasticSQP` in place of the first two
phases.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from scipy.optimize import nnls
from torch import Tensor

from fairbound._registry import lookup
from fairbound.fairness import Constraint, SmoothedStep, Step, resolve_surrogate
from fairbound.fairness.measures import resolve_measure
from fairbound.sqp import IterationRecord, LineSearch, QuasiNewtonSQP, Solution, Status, StochasticSQP
from fairbound.training.batches import StratifiedBatches
from fairbound.training.candidates import Candidate, Candidates
from fairbound.training.effort import Effort, Phase
from fairbound.training.limits import WholePass
from fairbound.training.phases import PHASES
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import as_matrix
from fairbound.training.trainer import History, TrainingResult, assess_now, choose_status, name_conflicts, train

Objective = Literal["loss", "accuracy"]
Solver = Literal["auto", "quasi-newton", "stochastic"]
Progress = Callable[[dict[str, Any]], bool | None]

WHOLE_PASS_LIMIT = 2e10
"""Rows times parameters up to which whole passes are the default."""


def fit(
    problem: TrainingProblem,
    X: Any,
    *,
    loss_weights: Any = None,
    objective: Objective = "loss",
    solver: Solver = "auto",
    effort: Effort | None = None,
    callback: Progress | None = None,
    generator: torch.Generator | None = None,
) -> TrainingResult:
    """Train the problem's module to the optimum under its limits.

    The module is left in double precision: the answer is checked there, and rounding moves decisions.

    Parameters
    ----------
    problem : TrainingProblem
    X : array of shape (n, ...)
        Inputs, in the order of the problem's cells.
    loss_weights : array of shape (n,), optional
    objective : {"loss", "accuracy"}
        What is best under the limits: the loss, which keeps probabilities meaningful (and accuracy, among models within
        5% of the least loss), or accuracy alone.
    solver : {"auto", "quasi-newton", "stochastic"}
        Whole passes, or mini-batches first; by default whichever suits the size of data and model.
    effort : Effort, optional
    callback : function of one history row, optional
        Called at every iteration; return True to stop early with the best found.
    generator : torch.Generator, optional
        Source of the mini-batches; a fixed one by default.
    """
    lookup({"loss": None, "accuracy": None}, objective, "objective")
    lookup({"auto": None, "quasi-newton": None, "stochastic": None}, solver, "solver")
    way = Way(problem, X, loss_weights, effort or Effort(), callback)
    if solver == "auto":
        solver = choose_solver(len(way.rows), problem.n_parameters)
    try:
        if solver == "quasi-newton":
            way.free()
        else:
            way.sample(problem, generator or torch.Generator().manual_seed(0))
        way.limit(problem, objective, coarse=solver == "quasi-newton")
    finally:
        # Also on an interrupt: what was found so far stays in the module.
        way.settle(problem)
    return way.result(problem, way.confirm(problem), objective, solver)


def choose_solver(n_rows: int, n_parameters: int) -> Solver:
    """Whole passes while a pass takes no more than about a minute of one core; mini-batches beyond."""
    return "quasi-newton" if n_rows * n_parameters <= WHOLE_PASS_LIMIT else "stochastic"


class Way:
    """The state of a fit: where the module stands, and what has been seen on the way there."""

    def __init__(
        self, problem: TrainingProblem, X: Any, loss_weights: Any, effort: Effort, callback: Progress | None
    ) -> None:
        self.started = time.perf_counter()
        self.effort, self.callback = effort, callback
        self.inputs = as_matrix(X, len(problem.cells), torch.float64)
        self.rows = problem.rows(self.inputs, loss_weights=loss_weights)
        self.base = problem.with_constraints(())
        self.w = problem.current()
        self.history: History = []
        self.evaluations, self.value_evaluations = 0, 0
        self.candidates = Candidates()
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        self.free_accuracy = 0.0
        self.stopped = False
        self.converged_at: float | None = None  # the objective of the last solve for the loss, if it converged

    def free(self) -> None:
        """Go to the optimum without limits."""
        self._solve("free", WholePass(self.base, self.rows), self.effort.free)
        self.base.assign(self.w)
        self.free_accuracy = assess_now(self.base, self.rows).accuracy

    def sample(self, problem: TrainingProblem, generator: torch.Generator) -> None:
        """Go near the limits by mini-batches, with the constraints on a fixed subset."""
        size = min(self.effort.batch_size, len(self.rows))
        batches = StratifiedBatches(self.rows, size, constraints="subset", generator=generator)
        optimizer = StochasticSQP.from_paper(problem.parameters)
        try:
            result = train(
                problem, batches, optimizer, epochs=self.effort.epochs, callback=partial(self._log, "sample")
            )
        finally:
            self.w = problem.current()  # also on an interrupt: the best that `train` has found
        self.free_accuracy = result.assessment.accuracy

    def limit(self, problem: TrainingProblem, objective: Objective, *, coarse: bool = True) -> None:
        """Go from where the module stands to the limits of `problem`."""
        self.candidates = Candidates(math.inf if objective == "accuracy" else self.effort.loss_slack)
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        problem.assign(self.w)
        start = assess_now(problem, self.rows)
        self.candidates.offer(self.w, start)
        if not start.kept:
            if coarse:
                self._solve(
                    "coarse", WholePass(_at_scale(problem, self.effort.coarseness), self.rows), self.effort.coarse
                )
            self._solve_exact(problem, self.effort.exact)
            if not self.candidates.kept:
                self._insist(problem)
        if self.candidates.kept:
            cost = self.free_accuracy - max(held.assessment.accuracy for held in self.candidates.kept)
            if objective == "accuracy":
                self._solve_most_accurate(problem)
            elif cost > self.effort.worth and not start.kept:
                self._solve_accurate(problem, self.candidates.least(), self.effort.loss_slack, self.effort.accurate)

    def settle(self, problem: TrainingProblem) -> None:
        """Leave the best found in the module."""
        if self.candidates.kept or self.candidates.nearest:
            self.w = self.candidates.choice().w
        problem.assign(self.w)

    def confirm(self, problem: TrainingProblem) -> Candidate:
        """The first of the ranked candidates whose decisions keep the limits in double precision."""
        if problem.parameters[0].dtype is not torch.float64:
            problem.module.to(torch.float64)
            self.rows = replace(self.rows, X=self.inputs[self.rows.positions])
        ranked, confirmed = self.candidates.ranked(), Candidates(self.candidates.slack)
        for held in ranked or [self.candidates.choice()]:
            problem.assign(held.w)
            confirmed.offer(held.w, assess_now(problem, self.rows))
            if confirmed.kept:
                break
        self.candidates = confirmed
        if ranked and not confirmed.kept:
            # Every candidate was a row short in double precision: repair the best one there.
            self.w = ranked[0].w
            self._solve_exact(problem, self.effort.repair)
        return self.candidates.choice()

    def result(self, problem: TrainingProblem, chosen: Candidate, objective: Objective, solver: str) -> TrainingResult:
        """What `fit` returns, with the choice in the module."""
        problem.assign(chosen.w)
        self.w = chosen.w
        # All phases have been tried: where none found a model that keeps the limits, none was found.
        in_vain = not chosen.assessment.kept and not self.stopped
        # A more accurate model within the slack is not the one whose optimality was checked.
        converged = self.converged_at is not None and (
            chosen.assessment.objective <= self.converged_at + self.effort.tolerance
        )
        status = choose_status(chosen.assessment, converged and objective == "loss", in_vain)
        conflicts = name_conflicts(problem, self.multipliers, chosen.assessment) if in_vain else []
        return TrainingResult(
            status=status,
            assessment=chosen.assessment,
            final=chosen.assessment,
            history=self.history,
            conflicts=conflicts,
            multipliers=self.multipliers,
            seconds=time.perf_counter() - self.started,
            solver=solver,
            evaluations=self.evaluations,
            value_evaluations=self.value_evaluations,
            stopped=self.stopped,
        )

    def _solve_exact(self, problem: TrainingProblem, phase: Phase) -> None:
        """With the exact measures as values, the slopes of the surrogate, and an aim half a row inside the limits."""
        whole = WholePass(problem, self.rows, exact=True, margin=half_a_row(problem), watch=self.candidates.offer)
        solution = self._solve("exact", whole, phase)
        if solution is not None:
            self.multipliers = solution.multipliers
        if self.candidates.kept:
            self.multipliers = self._prices(problem)

    def _insist(self, problem: TrainingProblem) -> None:
        """Where no model has kept the limits: the nearest within them, whatever its loss, and on from there.

        With few rows the slopes at full scale are those of a handful of rows, and the loss pulls out of the limits by
        more than a violation of a row or two weighs; so the slopes become gentler, the aim lies farther inside, and the
        loss waits.  What is found goes back to the limits themselves.
        """
        for coarseness, half_rows in ((1.0, 4.0), (0.4, 16.0), (0.16, 64.0)):
            assert self.candidates.nearest is not None
            self.w = self.candidates.nearest.w
            whole = WholePass(
                _at_scale(problem, coarseness),
                self.rows,
                exact=True,
                margin=half_rows * half_a_row(problem),
                anchor=self.w,
                watch=self.candidates.offer,
            )
            self._solve("repair", whole, self.effort.repair)
            if self.candidates.kept:
                self.w = self.candidates.least().w
                self._solve_exact(problem, self.effort.exact)
                return

    def _prices(self, problem: TrainingProblem) -> Tensor:
        """Multipliers at the least objective found: those of the rows at their limits that balance its gradient best.

        The multipliers of single steps jump with every row that changes sides; these do not.
        """
        least = self.candidates.least()
        problem.assign(least.w)
        self.evaluations += 1
        here = problem.evaluate(self.rows)
        near = 5e-3  # half a point of a rate: the least objective found need not lie at the limit to the last row
        found = least.assessment.exact
        to_upper, to_lower = (here.upper - found).abs(), (found - here.lower).abs()
        at_upper = (to_upper <= near) & (to_upper <= to_lower)  # of two near sides, the nearer
        at_lower = (to_lower <= near) & ~at_upper
        multipliers = torch.zeros_like(found)
        active = torch.nonzero(at_upper | at_lower).flatten()
        if len(active):
            signs = torch.where(at_upper[active], 1.0, -1.0).to(torch.float64)
            slopes = (signs[:, None] * here.J.rows[active]) @ here.J.basis
            solution, _ = nnls(slopes.T.numpy(), -here.g.numpy())
            multipliers[active] = signs * torch.from_numpy(solution)
        return multipliers

    def _solve_most_accurate(self, problem: TrainingProblem) -> None:
        """Go on for accuracy alone, in rounds that each allow twice the loss, until a round wins next to nothing.

        Without any limit on the loss the margins grow, the slopes of the step vanish, and the search stops early.
        """
        start = self.candidates.least()
        for slack in (1.0, 2.0, 4.0, 8.0):
            before = max(held.assessment.accuracy for held in self.candidates.kept)
            self._solve_accurate(problem, start, slack * self.effort.loss_slack, self.effort.most_accurate)
            start = max(self.candidates.kept, key=lambda held: held.assessment.accuracy)
            if slack > 1.0 and start.assessment.accuracy - before < 0.1 * self.effort.worth:
                break

    def _solve_accurate(self, problem: TrainingProblem, start: Candidate, slack: float, phase: Phase) -> None:
        """Seek more accurate decisions under the same limits, with the loss held near the least that keeps them."""
        step = Step(SmoothedStep(), "probability", problem.threshold)
        least = self.candidates.least_objective
        self.w = start.w
        whole = WholePass(
            problem.with_constraints(problem.system.constraints, further_steps=[step]),
            self.rows,
            exact=True,
            margin=half_a_row(problem),
            error=step,
            loss_limit=least + slack * abs(least),
            watch=self.candidates.offer,
        )
        converged_at = self.converged_at  # of the loss, which is what the status speaks of
        self._solve("accurate", whole, phase)
        self.converged_at = converged_at

    def _log(self, phase: str, row: dict[str, Any]) -> bool:
        """Write a row of the history; True if the caller wants to stop."""
        lookup(PHASES, phase, "phase")
        self.history.append({"phase": phase, **row})
        if self.callback is not None and self.callback(self.history[-1]):
            self.stopped = True
        return self.stopped

    def _solve(self, name: str, whole: WholePass, phase: Phase) -> Solution | None:
        """One phase: from self.w, with the history written as it goes."""
        if self.stopped:
            return None
        paying = _Paying(phase)

        def each(record: IterationRecord, w: Tensor) -> bool:
            self.w = w  # for an interrupt
            return self._log(name, record.as_dict() | whole.seen()) or not paying.still(record)

        solver = QuasiNewtonSQP(
            tolerance=self.effort.tolerance,
            max_iterations=phase.iterations,
            memory=40,
            follow=2.0,
            line_search=LineSearch(rounding=phase.rounding),
            stall=0.0,
        )
        solution = solver.solve(whole, self.w, each)
        self.w = solution.w
        self.evaluations += whole.evaluations
        self.value_evaluations += whole.value_evaluations
        self.converged_at = solution.f if solution.status is Status.CONVERGED else None
        return solution


class _Paying:
    """Whether a solve still pays: the best merit falls enough over a window of iterations.

    The penalty moves, and merits at different penalties do not compare: all are taken at the latest one.
    """

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.seen: list[tuple[float, float]] = []

    def still(self, record: IterationRecord) -> bool:
        self.seen.append((record.f, record.violation))
        if len(self.seen) <= max(self.phase.window, self.phase.least):
            return True
        merits = [f + record.penalty * violation for f, violation in self.seen]
        best = min(merits)
        return min(merits[: -self.phase.window]) - best > self.phase.progress * max(abs(best), 1e-12)


def half_a_row(problem: TrainingProblem) -> Tensor:
    """Half of what a single row of the data can change each row of c̄ by."""
    if not problem.system.n_rows:
        return torch.zeros(0, dtype=torch.float64)
    halves = 0.5 * problem.cells.totals[None, :, None].expand(
        len(problem.system.steps), -1, len(problem.cells.outcomes)
    )
    _, derivative = problem.system.values_and_derivative(halves)
    return 0.5 * problem.cells.smallest_weight * derivative.abs().flatten(1).amax(dim=1)


def _at_scale(problem: TrainingProblem, factor: float) -> TrainingProblem:
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
