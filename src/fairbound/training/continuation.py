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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse

from fairbound._journal import digest
from fairbound._model_settings import Effort
from fairbound._sharing import gathered
from fairbound._words import lookup
from fairbound.sqp import IterationRecord, KKTResiduals, QuasiNewtonSQP, Solution, Status, solve_qp
from fairbound.training.archive import Archive, Judge, Objective
from fairbound.training.assessment import Assessment
from fairbound.training.constants import constant_models
from fairbound.training.phases import PHASES
from fairbound.training.problem import TrainingProblem
from fairbound.training.quota import at_quota
from fairbound.training.result import History, TrainingResult, assess_now, choose_status, name_conflicts
from fairbound.training.rows import Rows
from fairbound.training.smoothed import MOST_DENSE, Array, SmoothedProgram, bandwidths, tightened
from fairbound.training.stage import Stage, last_layer

HistoryCallback = Callable[[dict[str, Any]], bool | None]

SPARE_ROWS, SPARE_SHARE = 2.0, 0.1
"""A limit may have two rows to spare when the fit ends, plus 10% of √n: a fifth of the standard error of a count."""

RUNGS, NARROWER = 3, 3.0
"""Solves that meet the limits; the second and third only where no model keeps them, each at a third of the
bandwidth: the gap is smaller there, and jumps less from point to point."""

NEWTON = QuasiNewtonSQP(tolerance=1e-6, stall=1e-4, patience=1)
"""Newton steps converge quadratically: a step that gains less than 1e-4 of the merit is the last useful one."""

QUASI_NEWTON = QuasiNewtonSQP(tolerance=1e-5, stall=5e-4, patience=10, memory=40)
"""BFGS steps gain unevenly: a solve ends after ten that gain less than 0.05% each."""


class Continuation:
    """A fit in progress.

    Attributes
    ----------
    w : array
        Parameters of the whole model, from which the next solve starts.
    archive : Archive
    free : Assessment or None
        Assessment of the model without limits; `free_w` has its parameters.
    multipliers : array of shape (m,)
        Those of the last solve for the loss, which are prices.
    kkt : KKTResiduals or None
        The residuals of that solve.
    cheapest : array or None
        Its end, the model of the least loss under the limits.
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
        *,
        loss_weights: Any = None,
        effort: Effort | None = None,
        callback: HistoryCallback | None = None,
        judge: Judge | None = None,
        precision: DTypeLike | None = None,
    ) -> None:
        self.effort = effort or Effort()
        self.callback, self.judge = callback, judge
        self.precision = problem.model.dtype if precision is None else np.dtype(precision)
        if problem.n_parameters <= MOST_DENSE:
            problem.model.set_precision(self.precision)
        if isinstance(X, Rows):
            self.rows: Rows = X.in_double() if problem.model.dtype == np.float64 else X
            problem.check_rows(self.rows)
        else:
            self.rows = problem.rows(X, loss_weights=loss_weights)
        self.given, self._linear = problem, problem.model.linear
        problem = self.own(problem)
        self.base = problem.with_constraints(())
        self.w = problem.current()
        self.constants = constant_models(problem, self.rows)
        self.archive = Archive()
        self.free: Assessment | None = None
        self.free_w: Array | None = None
        self.free_points: list[Array] = []
        self.multipliers = np.zeros(0)
        self.kkt: KKTResiduals | None = None
        self.cheapest: Array | None = None
        self.optima: list[Array] = []
        self.free_optima: list[Array] = []
        self.stopped = False
        self._samples: WeakKeyDictionary[Rows, Rows] = WeakKeyDictionary()
        self.identity = self._identify() if problem.passes.recorded else b""
        self.forget_counts()

    def own(self, problem: TrainingProblem) -> TrainingProblem:
        """Return the problem with a `LinearModel` in place of a module that is one linear layer."""
        return problem if self._linear is None else problem.with_model(self._linear)

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
            archive = path if self.judge is not None and rows is self.rows else None
            solution = self.solve("free", Stage(self.base, rows), 1.0, archive=archive)
            self.kkt = None if solution is None else solution.kkt
        self.free_points, self.free_optima = [held.w for held in path.kept], self.optima
        self.assess_free()

    def assess_free(self) -> None:
        """Take `w` as the model without limits, and assess it."""
        self.free, self.free_w = self.assess(self.base, self.w), self.w.copy()

    def keep_limits(
        self,
        problem: TrainingProblem,
        objective: Objective,
        *,
        points: Sequence[Array] = (),
        neighbour: Array | None = None,
        priced: bool = True,
        all_layers: bool = True,
    ) -> None:
        """Find the best model under the limits of `problem`, starting from `w`, the model without limits.

        `points` were trained for the limits already.  They compete, and the search starts from the last of them.  A
        `neighbour` is the solution of nearby limits, or of nearby rows; a linear model starts there, at the narrowest
        bandwidth.  Then the least loss under the limits is found only if they are `priced`.  Without `all_layers`, only
        the last layer of a network is trained.
        """
        problem = self.own(problem)
        free = self._begin(problem, objective, points)
        # Under limits a fit aims at costs, if there are any, also where the model of the least loss keeps the limits:
        # else a stricter limit would have less cost.
        staked = problem.cells.targets is not None and objective == "accuracy"
        if free.kept and not points and not (problem.system.n_rows and (staked or free.near_constant)):
            self._use_precision(problem, objective)
            return
        self.w = points[-1] if points else self.w
        whole = Stage(problem, self.rows)
        linear = last_layer(whole, self.w)
        widths = bandwidths(linear.problem, linear.rows)
        mixture = self.effort.mixture if objective == "accuracy" else 0.0
        part, warm = replace(linear, rows=self._sample(linear.rows)), None
        if neighbour is None or linear is not whole:
            for width in widths:
                warm = self._solve_for_loss(part, width, warm)
            for width in (widths[1:] or widths) if mixture else ():
                warm = self.solve("accuracy", part, width, mixture, warm=warm) or warm
        else:
            if priced:
                self.w = neighbour if self.cheapest is None else self.cheapest
                self._solve_for_loss(part, widths[-1], None)
            self.w = neighbour
        if linear is not whole and all_layers:
            warm = self.solve("accuracy" if mixture else "limits", whole, widths[-1], mixture) or warm
        self._use_precision(problem, objective)
        self._meet_limits(last_layer(Stage(problem, self.rows), self.w), widths[-1], mixture, warm)

    def _solve_for_loss(self, stage: Stage, width: float, warm: Solution | None) -> Solution | None:
        """Minimise the loss under the smoothed limits, and take the multipliers as prices."""
        solution = self.solve("limits", stage, width, warm=warm)
        if solution is not None:
            self.multipliers, self.kkt, self.cheapest = solution.multipliers, solution.kkt, self.w
        return solution or warm

    def _begin(self, problem: TrainingProblem, objective: Objective, points: Sequence[Array]) -> Assessment:
        """Offer the constants, the points, and the free phase to a new archive; return the assessment of `w`."""
        self.archive = Archive(objective, self.judge, math.inf if self.free is None else self.free.accuracy)
        self.multipliers = np.zeros(problem.system.n_rows)
        self.optima = self.free_optima.copy()  # if the free optimum keeps the limits, it is optimal under them
        for constant in self.constants if problem.system.quota is None else ():
            self.archive.offer_constant(constant, self.assess(problem, constant))
        for point in (*points, *self.free_points):
            point = self.follow_quota(problem, point)
            self.archive.offer(point, self.assess(problem, point))
        self.w = self.follow_quota(problem, self.w)
        found = self.assess(problem, self.w)
        self.archive.offer(self.w, found)
        if problem.system.quota is not None and not points:
            self.free = found  # a model without limits has the quota, too
        return found

    def follow_quota(self, problem: TrainingProblem, w: Array) -> Array:
        """Return the parameters with the threshold that a quota asks for; unchanged without a quota."""
        share = problem.system.quota
        if share is None:
            return w
        stage = last_layer(Stage(problem, self.rows), w)
        return stage.lift(at_quota(stage, stage.local(w), share))

    def _use_precision(self, problem: TrainingProblem, objective: Objective) -> None:
        """Convert model and rows to the precision of the result; assess the best models again, as it judges them."""
        if problem.model.dtype != self.precision:
            problem.model.set_precision(self.precision)
            self.rows = self.rows.in_double() if self.precision == np.float64 else self.rows
            multipliers = self.multipliers
            self._begin(problem, objective, [held.w for held in self.archive.kept])
            self.multipliers = multipliers

    def _meet_limits(self, stage: Stage, width: float, mixture: float, warm: Solution | None) -> None:
        """Solve on all rows and touch the limits; if no decisions keep them, again at narrower bandwidths."""
        for _ in range(RUNGS):
            solution = self.solve("exact", stage, width, mixture, warm=warm)
            if solution is None or not stage.problem.system.n_rows:
                return
            if self._touch_limits(stage, width, mixture, solution):
                return
            warm, width = solution, width / NARROWER

    def _touch_limits(self, stage: Stage, width: float, mixture: float, solution: Solution) -> bool:
        """Move the bounds by the gap until decisions keep the limits with few rows to spare; return if any keep them.

        A move takes one quadratic program, with the derivatives at the solution, and one pass that counts decisions.
        The gap jumps by the rows near the threshold.  So once there is a point on either side of the limits, the line
        between the last two is halved instead: it crosses the limits row by row.
        """
        start = stage.problem.model.inside(stage.local(self.w))
        program = SmoothedProgram(stage.problem, stage.rows, width, mixture)
        here = program.evaluate(start)
        self.evaluations += 1
        row = stage.problem.system.change_by_a_row
        few = SPARE_ROWS * row + SPARE_SHARE * np.sqrt(row)  # a group of n rows moves by 1/n with a row
        step, active, spare = np.zeros_like(start), solution.multipliers != 0.0, np.full(len(row), 0.5)
        inside: Array | None = None
        outside: Array | None = None
        least = math.inf
        share = stage.problem.system.quota
        for _ in range(self.effort.touches):
            if share is not None:
                step = at_quota(stage, start + step, share) - start
            self.w = stage.lift(start + step)
            found = self.assess(stage.problem, start + step, stage.rows)
            self.archive.offer(self.w, found)
            if found.exact_violation > least:  # of means, which have no bounds, the moves may diverge
                self.w = stage.lift(start)
                return inside is not None
            least = math.inf if stage.problem.system.bounded else found.exact_violation
            room = np.minimum(found.exact - here.lower, here.upper - found.exact)
            near, crossed = (room <= few)[active], inside is not None and outside is not None
            if found.kept and (near.all() or (crossed and near.any())):
                return True
            inside, outside = (step, outside) if found.kept else (inside, step)
            if inside is not None and outside is not None:
                step = 0.5 * (inside + outside)
                continue
            gap = found.exact - here.c - here.J.product(step)
            bounds = tightened(here.lower, here.upper, spare * row)
            moved = solve_qp(here.g, solution.hessian, here.c + gap, here.J, *bounds)
            step, active = moved.d, moved.y != 0.0
            spare = np.where(room >= 0.0, 0.5, 2.0 * spare + 0.5)
        return inside is not None

    # Solves.

    def solve(
        self,
        name: str,
        stage: Stage,
        width: float,
        mixture: float = 0.0,
        *,
        warm: Solution | None = None,
        archive: Archive | None = None,
    ) -> Solution | None:
        """Solve one smoothed program from `w` and record its history; None if the callback has asked to stop.

        This is the step that a killed run repeats.  On all rows under limits, every point is offered to the archive.
        """
        if self.stopped:
            return None
        proving = not stage.rows.halves and stage.problem.system.quota is None  # a sample, or another threshold, is not
        if archive is None and name != "free" and proving:
            archive = self.archive
        watch = None if archive is None else lambda w, found: archive.offer(stage.lift(w), found)
        program = SmoothedProgram(stage.problem, stage.rows, width, mixture, watch)
        solver = replace(NEWTON if program.hessian else QUASI_NEWTON, max_iterations=self.effort.iterations)
        first, held = len(self.history), archive or Archive()

        def after_iteration(record: IterationRecord, w: Array) -> bool:
            self.w = stage.lift(w)  # an interrupt leaves this point in the model
            if self.callback is not None:
                self.given.assign(self.w)  # callbacks see the model of their row, not the last trial
            return self.log(name, record.as_dict() | program.history_columns(w, record.multipliers))

        def run() -> dict[str, Any]:
            start = stage.problem.model.inside(stage.local(self.w))
            found.append(solver.solve(program, start, after_iteration, warm_start=warm))
            return {"solution": found[0].plain(), "history": self.history[first:], "held": held.plain()}

        def replay(values: dict[str, Any]) -> None:
            found.append(Solution.restored(values["solution"]))
            self.given.assign(stage.lift(found[0].w))
            for row in values["history"]:
                self.log(name, row)
            held.restore(**values["held"])

        def key() -> bytes:
            settings = name, width, mixture, bool(stage.rows.halves), system.lower, system.upper, system.constraints
            return digest(self.identity, self.w, *settings)

        system, found = stage.problem.system, list[Solution]()
        stage.problem.passes.remember(key, run, replay)
        solution = found[0]
        self.w = stage.lift(solution.w)
        if not stage.rows.halves:  # passes over a sample do not count
            self.evaluations += solution.evaluations
            self.value_evaluations += solution.value_evaluations
        if solution.status is Status.CONVERGED:
            self.optima.append(self.w.copy())
        return solution

    def log(self, phase: str, row: dict[str, Any]) -> bool:
        """Append a row to the history and return whether the callback has asked to stop."""
        lookup(PHASES, phase, "phase")
        self.history.append({"phase": phase, **row})
        asked = self.callback is not None and bool(self.callback(self.history[-1]))
        if self.base.passes.any(asked):
            self.stopped = True
            self.base.passes.stop()
        return self.stopped

    def assess(self, problem: TrainingProblem, w: Array, rows: Rows | None = None) -> Assessment:
        """Assess a point in one pass without gradients."""
        self.value_evaluations += 1
        problem.assign(w)

        return assess_now(problem, self.rows if rows is None else rows)

    # The journal.

    def _identify(self) -> bytes:
        """Return a digest of the rows, the model, the loss and the settings, by which a journal recognises the fit."""
        problem, draw = self.base, np.random.default_rng(0)
        z = draw.normal(size=(64, len(problem.cells.outcomes)))
        losses = problem.loss.values(z, draw.integers(problem.cells.n_labels, size=len(z)))
        settings = problem.regularizers, problem.threshold, problem.chunk_rows, self.effort, self.precision
        read = [digest(np.array(self.rows.offsets), self.rows.cell_of_segment)]
        for chunk in self.rows.chunks(problem.chunk_rows):
            X = (chunk.X.data, chunk.X.indices, chunk.X.indptr) if issparse(chunk.X) else (chunk.X,)
            read.append(digest(*X, chunk.labels, chunk.loss_weights, chunk.cell_weights))
        everywhere = b"".join(gathered(digest(*read), self.rows.processes))
        return digest(everywhere, problem.passes.others, problem.model.digest(), losses, settings)

    def _sample(self, rows: Rows) -> Rows:
        """Return a sample of many rows, drawn by a fixed seed, with small cells whole; the rows themselves if few."""
        sizes = np.array(rows.sizes)
        total = int(sizes.sum())
        size = max(self.effort.sample, total // 20)
        if total <= 2 * size:
            return rows
        if rows not in self._samples:
            counts = np.maximum(np.ceil(sizes * (size / total)).astype(np.int64), size // (4 * len(sizes)))
            self._samples[rows] = rows.sample(np.minimum(counts, sizes), np.random.default_rng(0).permutation)
        return self._samples[rows]

    # The end of a fit.

    @contextmanager
    def leaving_the_best(self, problem: TrainingProblem) -> Iterator[None]:
        """Finally write the best candidate into the model, or `w` if there is none yet; also on an interrupt."""
        try:
            yield
        finally:
            if self.archive.ranked() or self.archive.nearest:
                self.w = self.archive.choice().w
            if self._linear is not None:
                problem.model.set_precision(self._linear.dtype)
            problem.assign(self.w)

    def result(self, problem: TrainingProblem, *, solver: str) -> TrainingResult:
        """Return the result of the fit, whose model is in the problem."""
        chosen = self.archive.choice()
        found = self.assess(problem, chosen.w)
        # If the callback did not stop the fit, all phases have run, and none of them kept the limits.
        infeasible = not found.kept and not self.stopped
        converged = any(np.array_equal(chosen.w, each) for each in self.optima)
        return TrainingResult(
            status=choose_status(found, converged, infeasible),
            assessment=found,
            parameters=problem.current(),  # rounded to the precision of the model
            iterations=self.history,
            conflicts=name_conflicts(problem, self.multipliers, found) if infeasible else (),
            multipliers=self.multipliers,
            seconds=time.perf_counter() - self.started,
            solver=solver,
            passes=self.evaluations,
            value_passes=self.value_evaluations,
            stopped=self.stopped,
            free=self.free,
            least_loss=self.archive.least_loss,
            kkt_residual=None if self.kkt is None else self.kkt.largest,
            free_parameters=self.free_w,
        )
