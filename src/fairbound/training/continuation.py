"""The fit by whole passes: one continuation in the bandwidth, for the loss and then for the error.

    free       min loss; if the decisions keep the limits, the fit is finished
    limits     min F(·; h, 0) under c(·; h), for h from wide to narrow, each solve from the last solution
    accuracy   min F(·; h, m) under the same limits, for the same h but the first
    exact      the same on all rows; then the bounds are moved by the gap c̄ − c, until the decisions keep the limits

F, c, h and m are those of `smoothed`.  Every point that a solve evaluates is offered to the archive, which chooses the
model.  A network's last layer is linear in its features.  So the whole continuation runs on that layer, with exact
second derivatives; then all layers are trained once, at the narrowest bandwidth, and the last layer meets the limits.
Many rows: the continuation runs on a sample, and its last steps on all rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound._model_settings import Effort
from fairbound._words import lookup
from fairbound.sqp import IterationRecord, KKTResiduals, QuasiNewtonSQP, Solution, Status, WarmStart, solve_qp
from fairbound.training.archive import Archive, Judge, Objective
from fairbound.training.assessment import Assessment
from fairbound.training.constants import constant_models
from fairbound.training.last_layer import last_layer
from fairbound.training.phases import PHASES
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.smoothed import MOST_DENSE, Array, SmoothedProgram, bandwidths, tightened
from fairbound.training.trainer import History, TrainingResult, assess_now, choose_status, name_conflicts

HistoryCallback = Callable[[dict[str, Any]], bool | None]

SPARE_ROWS, SPARE_SHARE = 2.0, 0.1
"""A limit may have two rows to spare when the fit ends, plus 10% of √n: a fifth of the standard error of a count."""


NEWTON = QuasiNewtonSQP(tolerance=1e-6, stall=1e-5, patience=1, follow=2.0)
"""Newton steps converge quadratically: a step that gains less than 1e-5 of the merit is the last useful one."""

QUASI_NEWTON = QuasiNewtonSQP(tolerance=1e-5, stall=5e-4, patience=10, memory=40, follow=2.0)
"""BFGS steps gain unevenly: a solve ends after ten that gain less than 0.05% each."""


@dataclass(frozen=True)
class Stage:
    """Parameters that are trained, on given rows: those of the whole module, or of its last layer.

    `lift` returns the parameters of the whole module.
    """

    problem: TrainingProblem
    rows: Rows
    lift: Callable[[Tensor], Tensor] = lambda w: w


class Continuation:
    """A fit in progress.

    Attributes
    ----------
    w : Tensor
        Parameters of the whole module, from which the next solve starts.
    archive : Archive
    free : Assessment or None
        Assessment of the model without limits; `free_w` has its parameters.
    multipliers : Tensor of shape (m,)
        Those of the last solve for the loss, which are prices.
    kkt : KKTResiduals or None
        The residuals of that solve.
    history : list of dict
    evaluations, value_evaluations : int
        Passes over all rows with and without gradients.
    stopped : bool
        Whether the callback has asked to stop.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        X: Any,
        loss_weights: Any,
        effort: Effort | None,
        callback: HistoryCallback | None,
        judge: Judge | None = None,
        precision: torch.dtype | None = None,
    ) -> None:
        self.effort = Effort() if effort is None else effort
        self.callback, self.judge = callback, judge
        self.precision = problem.parameters[0].dtype if precision is None else precision
        if problem.n_parameters <= MOST_DENSE:
            problem.module.to(self.precision)
        if isinstance(X, Rows):
            self.rows: Rows = X.in_double() if problem.parameters[0].dtype is torch.float64 else X
            problem.check_rows(self.rows)
        else:
            self.rows = problem.rows(X, loss_weights=loss_weights)
        self.base = problem.with_constraints(())
        self.w = problem.current()
        self.constants = constant_models(problem, self.rows)
        self.archive = Archive()
        self.free: Assessment | None = None
        self.free_w: Tensor | None = None
        self.free_points: list[Tensor] = []
        self.multipliers = torch.zeros(0, dtype=torch.float64)
        self.kkt: KKTResiduals | None = None
        self.optima: list[Tensor] = []
        self.free_optima: list[Tensor] = []
        self.stopped = False
        self._samples: dict[int, Rows] = {}
        self.forget_counts()

    def forget_counts(self) -> None:
        """Begin a new history, new counts of passes and a new time, for the next fit of a series."""
        self.history: History = []
        self.evaluations = self.value_evaluations = 0
        self.started = time.perf_counter()

    # The phases, in their order.

    def find_free_model(self) -> None:
        """Minimise the loss without limits, on a sample of many rows first."""
        path = Archive(judge=self.judge)
        for rows in dict.fromkeys((self._sample(self.rows), self.rows)) if self.effort.free else ():
            watch = path.offer if self.judge is not None and rows is self.rows else None
            solution = self.solve("free", Stage(self.base, rows), 1.0, watch=watch)
            self.kkt = None if solution is None else solution.kkt
        self.free_points, self.free_optima = [held.w for held in path.kept], self.optima
        self.assess_free()

    def assess_free(self) -> None:
        """Take `w` as the model without limits, and assess it."""
        self.free, self.free_w = self.assess(self.base, self.w), self.w.clone()

    def keep_limits(
        self,
        problem: TrainingProblem,
        objective: Objective,
        *,
        points: Sequence[Tensor] = (),
        neighbour: Tensor | None = None,
        all_layers: bool = True,
    ) -> None:
        """Find the best model under the limits of `problem`, starting from `w`, the model without limits.

        `points` were trained for the limits already.  They compete, and the search starts from the last of them.  A
        `neighbour` keeps nearby limits; a linear model starts there, at the narrowest bandwidth.  Without `all_layers`,
        only the last layer of a network is trained.
        """
        free = self._begin(problem, objective, points)
        if free.kept and not points and not (problem.system.n_rows and free.near_constant):
            self._use_precision(problem, objective)
            return
        self.w = points[-1] if points else self.w
        whole = Stage(problem, self.rows)
        linear = self._last_layer(whole)
        widths = bandwidths(linear.problem, linear.rows)
        if neighbour is not None and linear is whole:
            self.w, widths = neighbour, widths[-1:]
        mixture = self.effort.mixture if objective == "accuracy" else 0.0
        part, warm = replace(linear, rows=self._sample(linear.rows)), None
        for width in widths:
            solution = self.solve("limits", part, width, warm=warm)
            if solution is not None:
                warm, self.multipliers, self.kkt = (
                    solution.warm_start,
                    torch.from_numpy(solution.multipliers),
                    solution.kkt,
                )
        for width in widths[1:] or widths if mixture else ():
            warm = _start(self.solve("accuracy", part, width, mixture, warm=warm), warm)
        if linear is not whole and all_layers:
            warm = _start(self.solve("accuracy" if mixture else "limits", whole, widths[-1], mixture), warm)
            warm = warm and replace(warm, hessian=None)  # the next solves are of the last layer alone
        self._use_precision(problem, objective)
        self._meet_limits(self._last_layer(Stage(problem, self.rows)), widths[-1], mixture, warm)

    def _begin(self, problem: TrainingProblem, objective: Objective, points: Sequence[Tensor]) -> Assessment:
        """Offer the constants, the points, and the free phase to a new archive; return the assessment of `w`."""
        self.archive = Archive(objective, self.judge, math.inf if self.free is None else self.free.accuracy)
        self.multipliers = torch.zeros(problem.system.n_rows, dtype=torch.float64)
        self.optima = self.free_optima.copy()  # if the free optimum keeps the limits, it is optimal under them
        for constant in self.constants:
            self.archive.offer_constant(constant, self.assess(problem, constant))
        for point in (*points, *self.free_points):
            self.archive.offer(point, self.assess(problem, point))
        found = self.assess(problem, self.w)
        self.archive.offer(self.w, found)
        return found

    def _use_precision(self, problem: TrainingProblem, objective: Objective) -> None:
        """Convert module and rows to the precision of the result; assess the best models again, as it judges them."""
        if problem.parameters[0].dtype is not self.precision:
            problem.module.to(self.precision)
            self.rows = self.rows.in_double() if self.precision is torch.float64 else self.rows
            multipliers = self.multipliers
            self._begin(problem, objective, [held.w for held in self.archive.kept])
            self.multipliers = multipliers

    def _meet_limits(self, stage: Stage, width: float, mixture: float, warm: WarmStart | None) -> None:
        """Solve on all rows; then move the bounds by the gap until the decisions keep the limits with few to spare.

        A move takes one quadratic program, with the derivatives at the solution, and one pass that counts decisions.
        """
        solution = self.solve("exact", stage, width, mixture, warm=warm)
        if solution is None or not stage.problem.system.n_rows:
            return
        start = self.local(stage)
        here = SmoothedProgram(stage.problem, stage.rows, width, mixture).evaluate(start)
        self.evaluations += 1
        metric = solution.warm_start.hessian
        assert metric is not None
        row = stage.problem.system.change_by_a_row.numpy()
        few = SPARE_ROWS * row + SPARE_SHARE * np.sqrt(row)  # a group of n rows moves by 1/n with a row
        gap, spare = np.zeros(len(row)), np.full(len(row), 0.5)
        step, active, inside = np.zeros_like(start), solution.multipliers != 0.0, None
        for _ in range(self.effort.touches):
            self.w = stage.lift(torch.from_numpy(start + step))
            stage.problem.assign(torch.from_numpy(start + step))
            found = assess_now(stage.problem, stage.rows)
            self.value_evaluations += 1
            self.archive.offer(self.w, found)
            room = np.minimum(found.exact.numpy() - here.lower, here.upper - found.exact.numpy())
            if found.kept and not bool((room[active] > few[active]).any()):
                return
            # The gap jumps by the rows near the boundary.  Where it led from one side of a limit to the other, a mean
            # of two does not go back and forth between them.
            before, inside = inside, room >= 0.0
            turned = np.zeros(len(row), dtype=bool) if before is None else inside != before
            measured = found.exact.numpy() - here.c - here.J.product(step)
            gap = np.where(turned, 0.5 * (gap + measured), measured)
            moved = solve_qp(here.g, metric, here.c + gap, here.J, *tightened(here.lower, here.upper, spare * row))
            step, active = moved.d, moved.y != 0.0
            spare = np.where(inside, 0.5, 2.0 * spare + 0.5)

    # Solves.

    def solve(
        self,
        name: str,
        stage: Stage,
        width: float,
        mixture: float = 0.0,
        *,
        warm: WarmStart | None = None,
        watch: Callable[[Tensor, Assessment], None] | None = None,
    ) -> Solution | None:
        """Solve one smoothed program from `w` and record its history; None if the callback has asked to stop."""
        if self.stopped:
            return None
        if watch is None and name != "free" and not stage.rows.halves:  # decisions on a sample prove nothing
            watch = lambda w, found: self.archive.offer(stage.lift(w), found)  # noqa: E731
        program = SmoothedProgram(stage.problem, stage.rows, width, mixture, watch)

        def after_iteration(record: IterationRecord, w: Array) -> bool:
            self.w = stage.lift(torch.from_numpy(w))  # an interrupt leaves this point in the module
            if self.callback is not None:
                self.base.assign(self.w)  # callbacks see the model of their row, not the last trial
            return self.log(name, record.as_dict() | program.history_columns(w, record.multipliers))

        solver = replace(NEWTON if program.hessian else QUASI_NEWTON, max_iterations=self.effort.iterations)
        solution = solver.solve(program, self.local(stage), after_iteration, warm_start=warm)
        self.w = stage.lift(torch.from_numpy(solution.w))
        if not stage.rows.halves:  # passes over a sample do not count
            self.evaluations += program.evaluations
            self.value_evaluations += program.value_evaluations
        if solution.status is Status.CONVERGED:
            self.optima.append(self.w.clone())
        return solution

    def local(self, stage: Stage) -> Array:
        """Return the parameters of the stage at `w`."""
        self.base.assign(self.w)
        return stage.problem.current().numpy()

    def log(self, phase: str, row: dict[str, Any]) -> bool:
        """Append a row to the history and return whether the callback has asked to stop."""
        lookup(PHASES, phase, "phase")
        self.history.append({"phase": phase, **row})
        asked = self.callback is not None and bool(self.callback(self.history[-1]))
        if self.base.passes.any(asked):
            self.stopped = True
            self.base.passes.stop()
        return self.stopped

    def assess(self, problem: TrainingProblem, w: Tensor) -> Assessment:
        """Assess a point in one pass without gradients."""
        self.value_evaluations += 1
        problem.assign(w)
        return assess_now(problem, self.rows)

    def _sample(self, rows: Rows) -> Rows:
        """Return a sample of many rows, drawn by a fixed seed, with small cells whole; the rows themselves if few."""
        sizes = torch.tensor(rows.sizes)
        total = int(sizes.sum())
        size = max(self.effort.sample, total // 20)
        if total <= 2 * size:
            return rows
        if id(rows) not in self._samples:
            counts = (sizes * (size / total)).ceil().to(torch.int64).clamp_min(size // (4 * len(sizes)))
            self._samples[id(rows)] = rows.sample(torch.minimum(counts, sizes), torch.Generator().manual_seed(0))
        return self._samples[id(rows)]

    def _last_layer(self, whole: Stage) -> Stage:
        """Return the stage of the last layer at `w`; that of the whole module if it has none of its own."""
        whole.problem.assign(self.w)
        found = last_layer(whole.problem, whole.rows)
        return whole if found is None else Stage(*found)

    # The end of a fit.

    def assign_best(self, problem: TrainingProblem) -> None:
        """Write the best candidate into the module, or `w` if there is none yet."""
        if self.archive.ranked() or self.archive.nearest:
            self.w = self.archive.choice().w
        problem.assign(self.w)

    def result(self, problem: TrainingProblem, *, solver: str) -> TrainingResult:
        """Write the chosen model into the module, and return the result of the fit."""
        chosen = self.archive.choice()
        found = self.assess(problem, chosen.w)
        self.w = problem.current()  # rounded to the precision of the module
        # If the callback did not stop the fit, all phases have run, and none of them kept the limits.
        infeasible = not found.kept and not self.stopped
        converged = any(torch.equal(chosen.w, each) for each in self.optima)
        return TrainingResult(
            status=choose_status(found, converged, infeasible),
            assessment=found,
            final=found,
            history=self.history,
            conflicts=name_conflicts(problem, self.multipliers, found) if infeasible else [],
            multipliers=self.multipliers,
            seconds=time.perf_counter() - self.started,
            solver=solver,
            evaluations=self.evaluations,
            value_evaluations=self.value_evaluations,
            stopped=self.stopped,
            free=self.free,
            least_loss=self.archive.least_loss,
            kkt=self.kkt,
            free_parameters=self.free_w,
        )


def _start(solution: Solution | None, before: WarmStart | None) -> WarmStart | None:
    return before if solution is None else solution.warm_start
