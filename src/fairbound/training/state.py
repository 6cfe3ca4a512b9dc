"""The state that the phases of a fit share: the current point, the candidates, the history and the counters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fairbound._words import lookup
from fairbound.sqp import IterationRecord, KKTResiduals, LineSearch, QuasiNewtonSQP, Solution, Status, WarmStart
from fairbound.training.assessment import Assessment
from fairbound.training.candidates import Candidate, Candidates, Judge, constant_models
from fairbound.training.effort import PHASES, Effort, Phase, choose_effort, is_small
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.trainer import History, TrainingResult, assess_now, choose_status, name_conflicts
from fairbound.training.whole_pass import WholePassProblem

HistoryCallback = Callable[[dict[str, Any]], bool | None]


class FitState:
    """The state of a fit.

    Attributes
    ----------
    w : Tensor
        Starting point of the next solve.
    candidates : Candidates
        Models that may be returned.
    multipliers : Tensor of shape (m,)
    free : Assessment or None
        Assessment of the model without limits.
    free_w : Tensor or None
        Parameters of the model without limits.
    free_is_solved : bool
        Whether the model without limits was found by whole passes (not only by mini-batches).
    free_points : list of Tensor
        With a judge: points of the free phase, which may be the choice if they keep the limits.
    history : list of dict
    evaluations, value_evaluations : int
        Passes over all rows with and without gradients.
    least_loss : float or None
        Loss of the model with the least objective that keeps the limits; None if no model does.
    warm_start : WarmStart or None
        BFGS matrix and penalty of the last solve.
    stopped : bool
        Whether the callback has asked to stop.
    converged_at : float or None
        Objective of the last solve, if it converged.  Solves that minimise the error do not count.
    kkt : KKTResiduals or None
        Residuals of the surrogate problem at the model with the least objective.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        X: Any,
        loss_weights: Any,
        effort: Effort | None,
        callback: HistoryCallback | None,
        judge: Judge | None = None,
    ) -> None:
        self.judge = judge
        self.free_points: list[Tensor] = []
        self.started = time.perf_counter()
        n_rows, n_parameters = problem.n_rows, problem.n_parameters
        self.effort = choose_effort(n_rows, n_parameters) if effort is None else effort
        self.callback = callback
        if is_small(n_rows, n_parameters):
            # With few rows, one decision changed by rounding makes the measures jump; double precision costs little.
            problem.module.to(torch.float64)
        if isinstance(X, Rows):
            self.rows: Rows = X.in_double() if problem.parameters[0].dtype is torch.float64 else X
            problem.check_rows(self.rows)
        else:
            self.rows = problem.rows(X, loss_weights=loss_weights)
        self.base = problem.with_constraints(())
        self.w = problem.current()
        self.constants = constant_models(problem, self.rows)
        self.history: History = []
        self.evaluations, self.value_evaluations = 0, 0
        self.candidates = Candidates()
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        self.free: Assessment | None = None
        self.free_w: Tensor | None = None
        self.free_is_solved = False
        self.least_loss: float | None = None
        self.stopped = False
        self.warm_start: WarmStart | None = None
        self._when_free: dict[str, Any] = {}
        self.converged_at: float | None = None
        self.kkt: KKTResiduals | None = None

    def assess_free(self) -> None:
        """Take `w` as the model without limits, and assess it."""
        self.free, self.free_w = self.assess(self.base, self.w), self.w.clone()
        self._when_free = {"warm_start": self.warm_start, "converged_at": self.converged_at, "kkt": self.kkt}

    def return_to_free(self) -> None:
        """Start the next solve at the model without limits, as if it had just been found."""
        assert self.free_w is not None
        self.w, self.least_loss = self.free_w.clone(), None
        vars(self).update(self._when_free)

    def forget_counts(self) -> None:
        """Begin a new history, new counts of passes and a new time, for the next fit of a series."""
        self.history, self.evaluations, self.value_evaluations = [], 0, 0
        self.started = time.perf_counter()

    def begin(self, problem: TrainingProblem, slack: float) -> Assessment:
        """Reset the candidates for the limits of `problem` to `w` and the constants; return the assessment of `w`."""
        # With infinite slack, accuracy is the objective.  Otherwise the accuracy of the free model is enough.
        enough = math.inf if self.free is None or math.isinf(slack) else self.free.accuracy
        self.candidates = Candidates(slack, self.judge, enough)
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        for constant in self.constants:
            self.candidates.offer_constant(constant, self.assess(problem, constant))
        start = self.assess(problem, self.w)
        self.candidates.offer(self.w, start)
        return start

    def move_to(self, w: Tensor) -> None:
        """Start the next solve at `w`; discard the warm start if it belongs to another point."""
        if not torch.equal(w, self.w):
            self.w, self.warm_start = w, None

    def assess(self, problem: TrainingProblem, w: Tensor) -> Assessment:
        """Assess a point in one pass without gradients."""
        self.value_evaluations += 1
        problem.assign(w)
        return assess_now(problem, self.rows)

    def solve(
        self,
        name: str,
        problem: WholePassProblem,
        phase: Phase,
        *,
        warm: bool = False,
        until: Callable[[], bool] | None = None,
        enough: float = -math.inf,
    ) -> Solution | None:
        """Run one phase from w and record its history; return None if the callback has already asked to stop.

        With `warm`, the solve starts with the BFGS matrix and the penalty of the last solve.  With `until`, it ends
        after the first iteration at which that is true.  It also ends at a point that violates none of its constraints
        and has an objective of at most `enough`.
        """
        if self.stopped:
            return None
        progress = _ProgressCheck(phase)

        def after_iteration(record: IterationRecord, w: Tensor) -> bool:
            self.w = w  # an interrupt leaves this point in the module
            if self.callback is not None:
                problem.problem.assign(w)  # callbacks see the model of their row, not the last trial
            stop = self.log(name, record.row | problem.history_columns(w, record.multipliers))
            reached = record.violation <= 0.0 and record.f <= enough
            return stop or reached or (until is not None and until()) or not progress.update(record)

        solver = QuasiNewtonSQP(
            tolerance=self.effort.tolerance,
            max_iterations=phase.iterations,
            memory=40,
            follow=2.0,
            line_search=LineSearch(rounding=phase.rounding),
            stall=0.0,
        )
        solution = solver.solve(problem, self.w, after_iteration, warm_start=self.warm_start if warm else None)
        self.w, self.warm_start = solution.w, solution.warm_start
        self.evaluations += problem.evaluations
        self.value_evaluations += problem.value_evaluations
        self.converged_at = solution.f if solution.status is Status.CONVERGED else None
        return solution

    @property
    def free_objective(self) -> float:
        """Return the objective of the model without limits if whole passes have found it, else −inf.

        A solve under limits need not go below this value.  A linear model cannot.  The training of a network without
        limits ended there because more iterations gained little.  If a limit led to further training, a strict limit
        could look better than a loose one.
        """
        return self.free.objective if self.free_is_solved and self.free is not None else -math.inf

    def limits_cost_nothing(self) -> bool:
        """Return whether a model that keeps the limits is as good as the one without, in objective and accuracy."""
        free = self.free
        return (
            self.free_is_solved
            and free is not None
            and any(
                held.assessment.objective <= free.objective and held.assessment.accuracy >= free.accuracy
                for held in self.candidates.kept
            )
        )

    def accuracy_lost(self) -> float:
        """Return the accuracy of the free model minus that of the most accurate model under the limits.

        It is infinite if the free model is not known.
        """
        free = math.inf if self.free is None else self.free.accuracy
        return free - max(held.assessment.accuracy for held in self.candidates.kept)

    def log(self, phase: str, row: dict[str, Any]) -> bool:
        """Append a row to the history and return whether the callback has asked to stop."""
        lookup(PHASES, phase, "phase")
        self.history.append({"phase": phase, **row})
        asked = self.callback is not None and bool(self.callback(self.history[-1]))
        if self.base.passes.any(asked):
            self.stopped = True
            self.base.passes.stop()
        return self.stopped

    def assign_best(self, problem: TrainingProblem) -> None:
        """Write the best candidate into the module, or `w` if there is none yet."""
        if self.candidates.ranked() or self.candidates.nearest:
            self.w = self.candidates.choice().w
        problem.assign(self.w)

    def use_double_precision(self, problem: TrainingProblem) -> None:
        """Convert the module and its inputs to double precision."""
        if problem.parameters[0].dtype is not torch.float64:
            problem.module.to(torch.float64)
            self.rows = self.rows.in_double()

    def result(self, problem: TrainingProblem, chosen: Candidate, *, by_loss: bool, solver: str) -> TrainingResult:
        """Write the chosen model into the module, and return the result of the fit."""
        problem.assign(chosen.w)
        self.w = chosen.w
        # If the callback did not stop the fit, all phases have run, and none of them found a model that keeps the
        # limits.
        infeasible = not chosen.assessment.kept and not self.stopped
        # Optimality was checked at the converged point.  A more accurate model within the slack may have a larger
        # objective, and then it is not optimal.
        converged = self.converged_at is not None and (
            chosen.assessment.objective <= self.converged_at + self.effort.tolerance
        )
        status = choose_status(chosen.assessment, converged and by_loss, infeasible)
        conflicts = name_conflicts(problem, self.multipliers, chosen.assessment) if infeasible else []
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
            kkt=self.kkt,
            free_parameters=self.free_w,
        )


class _ProgressCheck:
    """Checks whether the best merit value still falls enough over a window of iterations.

    The penalty changes from iteration to iteration, and merit values with different penalties cannot be compared.  So
    all of them are computed with the latest penalty.
    """

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.points: list[tuple[float, float]] = []

    def update(self, record: IterationRecord) -> bool:
        """Add an iteration and return whether the solve still makes progress."""
        self.points.append((record.f, record.violation))
        if len(self.points) <= max(self.phase.window, self.phase.least):
            return True
        merits = [f + record.penalty * violation for f, violation in self.points]
        best = min(merits)
        return min(merits[: -self.phase.window]) - best > self.phase.progress * max(abs(best), 1e-12)
