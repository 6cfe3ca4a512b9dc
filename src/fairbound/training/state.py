"""The state of a fit: where the module stands, what has been seen so far, and one solve after the other from there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairbound._registry import lookup
from fairbound.sqp import IterationRecord, LineSearch, QuasiNewtonSQP, Solution, Status, WarmStart
from fairbound.training.assessment import Assessment
from fairbound.training.candidates import Candidate, Candidates
from fairbound.training.constants import constant_models
from fairbound.training.effort import Effort, Phase, choose_effort, is_small
from fairbound.training.phases import PHASES
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import as_matrix
from fairbound.training.trainer import History, TrainingResult, assess_now, choose_status, name_conflicts
from fairbound.training.whole_pass import WholePass

Progress = Callable[[dict[str, Any]], bool | None]


class FitState:
    """What the stages of a fit share.

    Attributes
    ----------
    w : Tensor
        Where the next solve starts.
    candidates : Candidates
        The models that may be returned.
    multipliers : Tensor of shape (m,)
    free : Assessment or None
        What the model without limits does.
    history : list of dict
    evaluations, value_evaluations : int
        Passes over all rows with and without gradients.
    least_loss : float or None
        The least loss of a model that keeps the limits, by its own objective; None where none does.
    learnt : WarmStart or None
        Curvature and penalty of the last solve.
    stopped : bool
        Whether the callback has asked to stop.
    converged_at : float or None
        The objective of the last solve for the loss, if it converged.
    """

    def __init__(
        self, problem: TrainingProblem, X: Any, loss_weights: Any, effort: Effort | None, callback: Progress | None
    ) -> None:
        self.started = time.perf_counter()
        n_rows, n_parameters = len(problem.cells), problem.n_parameters
        self.effort = choose_effort(n_rows, n_parameters) if effort is None else effort
        self.callback = callback
        if is_small(n_rows, n_parameters):
            # With few rows a decision that rounding moves is a step in the measures; double precision costs little.
            problem.module.to(torch.float64)
        self.inputs = as_matrix(X, len(problem.cells), torch.float64)
        self.rows = problem.rows(self.inputs, loss_weights=loss_weights)
        self.base = problem.with_constraints(())
        self.w = problem.current()
        self.constants = constant_models(problem, self.rows)
        self.history: History = []
        self.evaluations, self.value_evaluations = 0, 0
        self.candidates = Candidates()
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        self.free: Assessment | None = None
        self.least_loss: float | None = None
        self.stopped = False
        self.learnt: WarmStart | None = None
        self.converged_at: float | None = None

    def begin(self, problem: TrainingProblem, slack: float) -> Assessment:
        """Start towards the limits of `problem`; the point at hand and every constant are the first candidates."""
        self.candidates = Candidates(slack)
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        for constant in self.constants:
            self.candidates.offer_constant(constant, self.assess(problem, constant))
        start = self.assess(problem, self.w)
        self.candidates.offer(self.w, start)
        return start

    def restart(self, w: Tensor) -> None:
        """Take the next solve to another point; what was learnt elsewhere is forgotten there."""
        if not torch.equal(w, self.w):
            self.w, self.learnt = w, None

    def assess(self, problem: TrainingProblem, w: Tensor) -> Assessment:
        """Assess a point, by one pass without gradients."""
        self.value_evaluations += 1
        problem.assign(w)
        return assess_now(problem, self.rows)

    def solve(self, name: str, whole: WholePass, phase: Phase, *, warm: bool = False) -> Solution | None:
        """Run one phase from w, and write the history as it goes; None once the callback has asked to stop.

        A warm start takes over the curvature and the penalty that the last solve has learnt.
        """
        if self.stopped:
            return None
        progress = _Progress(phase)

        def each(record: IterationRecord, w: Tensor) -> bool:
            self.w = w  # for an interrupt
            return self.log(name, record.as_dict() | whole.seen()) or not progress.pays(record)

        solver = QuasiNewtonSQP(
            tolerance=self.effort.tolerance,
            max_iterations=phase.iterations,
            memory=40,
            follow=2.0,
            line_search=LineSearch(rounding=phase.rounding),
            stall=0.0,
        )
        solution = solver.solve(whole, self.w, each, warm_start=self.learnt if warm else None)
        self.w, self.learnt = solution.w, solution.warm_start
        self.evaluations += whole.evaluations
        self.value_evaluations += whole.value_evaluations
        self.converged_at = solution.f if solution.status is Status.CONVERGED else None
        return solution

    def log(self, phase: str, row: dict[str, Any]) -> bool:
        """Write a row of the history; True if the caller wants to stop."""
        lookup(PHASES, phase, "phase")
        self.history.append({"phase": phase, **row})
        if self.callback is not None and self.callback(self.history[-1]):
            self.stopped = True
        return self.stopped

    def settle(self, problem: TrainingProblem) -> None:
        """Leave the best found in the module."""
        if self.candidates.ranked() or self.candidates.nearest:
            self.w = self.candidates.choice().w
        problem.assign(self.w)

    def use_double_precision(self, problem: TrainingProblem) -> None:
        """Take the module and its inputs to double precision."""
        if problem.parameters[0].dtype is not torch.float64:
            problem.module.to(torch.float64)
            self.rows = replace(self.rows, X=self.inputs[self.rows.positions])

    def result(self, problem: TrainingProblem, chosen: Candidate, *, by_loss: bool, solver: str) -> TrainingResult:
        """What `fit` returns, with the choice in the module."""
        problem.assign(chosen.w)
        self.w = chosen.w
        # All phases have been tried: where none found a model that keeps the limits, none was found.
        in_vain = not chosen.assessment.kept and not self.stopped
        # A more accurate model within the slack is not the one whose optimality was checked.
        converged = self.converged_at is not None and (
            chosen.assessment.objective <= self.converged_at + self.effort.tolerance
        )
        status = choose_status(chosen.assessment, converged and by_loss, in_vain)
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
            free=self.free,
            least_loss=self.least_loss,
        )


class _Progress:
    """Tells whether a solve still pays: the best merit falls enough over a window of iterations.

    The penalty moves, and merits at different penalties do not compare: all are taken at the latest one.
    """

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.seen: list[tuple[float, float]] = []

    def pays(self, record: IterationRecord) -> bool:
        self.seen.append((record.f, record.violation))
        if len(self.seen) <= max(self.phase.window, self.phase.least):
            return True
        merits = [f + record.penalty * violation for f, violation in self.seen]
        best = min(merits)
        return min(merits[: -self.phase.window]) - best > self.phase.progress * max(abs(best), 1e-12)
