"""`QuasiNewtonSQP`: full evaluations, limited-memory BFGS of the Lagrangian, line search on the ℓ1 merit function.

One iteration at w:

    1. solve the elastic QP with H for d and y; raise ρ if necessary     `qp`, `steering`
    2. stop if the KKT residuals with y are small                        `optimality`
    3. w⁺ = w + change along d, with a second-order correction           `line_search`
    4. update H with s = w⁺ − w and ∇L(w⁺, y) − ∇L(w, y)                 `lbfgs`

The full step is usually accepted, so it is evaluated with derivatives at once.  Then most iterations need one
evaluation only.  After an iteration that rejected the full step, the next full step is first evaluated without
derivatives.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fairbound.sqp.dense import DenseHessian
from fairbound.sqp.lbfgs import LimitedMemoryBFGS
from fairbound.sqp.line_search import SearchResult, search
from fairbound.sqp.optimality import KKTResiduals, kkt_residuals
from fairbound.sqp.problem import Array, Evaluation, NotFiniteError, Problem
from fairbound.sqp.solution import IterationRecord, Solution, Status
from fairbound.sqp.steering import SteeredStep, steered_step

LEAST_PENALTY = 1e-3
"""ρ does not fall below this, so that it need not rise by many powers of ten when a limit becomes active."""

FLATTEST = 1e-6
"""Least eigenvalue of a matrix of second derivatives, relative to the largest: flat directions get bounded steps."""

Callback = Callable[[IterationRecord, Array], bool | None]


@dataclass(frozen=True)
class QuasiNewtonSQP:
    """Deterministic SQP with limited-memory BFGS.

    Parameters
    ----------
    tolerance : float
        Largest scaled KKT residual at which the solve has converged, and scaled violation of a feasible point.
    max_iterations : int
        Largest number of iterations.
    memory : int
        Pairs of the limited-memory BFGS matrix.
    stall : float
        An iteration makes progress if it lowers the merit function by more than this fraction of its size.
    patience : int
        End the solve after this many successive iterations without progress, or at locally infeasible points.

    Examples
    --------
    Minimise (w − 2)² subject to w² ≤ 1.

    >>> from fairbound.sqp.problem import Evaluation
    >>> class Parabola:
    ...     def initial_point(self):
    ...         return np.array([0.5])
    ...     def values(self, w):
    ...         return (w.item() - 2) ** 2, w**2
    ...     def evaluate(self, w):
    ...         return Evaluation(*self.values(w)[:1], 2 * (w - 2), w**2, 2 * w[None], [-math.inf], [1.0])
    >>> solution = QuasiNewtonSQP().solve(Parabola())
    >>> solution.w, solution.multipliers, solution.status
    (array([1.]), array([1.]), <Status.CONVERGED: 'converged'>)
    """

    tolerance: float = 1e-8
    max_iterations: int = 500
    memory: int = 20
    stall: float = 1e-14
    patience: int = 10

    def __post_init__(self) -> None:
        for name in ("max_iterations", "memory", "patience"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1):
                raise ValueError(f"QuasiNewtonSQP({name}={value!r}): must be a whole number of at least 1.")
        if not 0.0 < self.tolerance < math.inf:
            raise ValueError(f"QuasiNewtonSQP(tolerance={self.tolerance!r}): must be a finite number above 0.")

    def solve(
        self,
        problem: Problem,
        w0: ArrayLike | None = None,
        callback: Callback | None = None,
        *,
        warm_start: Solution | None = None,
    ) -> Solution:
        """Solve a problem.

        Parameters
        ----------
        problem : Problem
            The nonlinear program.
        w0 : array of shape (n,), optional
            Starting point; `problem.initial_point()` by default.
        callback : callable, optional
            Called with each `IterationRecord` and the current w before the step; a true return value ends the solve.
        warm_start : Solution, optional
            That of a nearby problem with the same variables.  Its multipliers, its penalty and its BFGS matrix are
            taken.
        """
        start = problem.initial_point() if w0 is None else w0
        w = np.array(start, dtype=np.float64)
        if w.ndim != 1:
            raise ValueError(f"QuasiNewtonSQP.solve: the start must be a flat vector, got the shape {w.shape}.")
        run = _Run(self, problem, w, callback)
        if warm_start is not None:
            run.resume(warm_start)
        return run.solve()


class _Run:
    """The state of one solve."""

    def __init__(self, options: QuasiNewtonSQP, problem: Problem, w: Array, callback: Callback | None) -> None:
        self.options, self.problem, self.callback = options, problem, callback
        self.w = w
        self.evaluations, self.value_evaluations = 0, 0
        self.here = self._evaluate(w)
        self.ahead: Evaluation | None = None  # at the full step of the present iteration
        self.full_steps = True  # whether the last full step was accepted
        self.penalty = 1.0
        self.second_derivatives = getattr(problem, "hessian", None)
        self.y: Array = np.zeros(len(self.here.c))
        self.hessian: LimitedMemoryBFGS | DenseHessian = LimitedMemoryBFGS(options.memory)
        self.hessian.reset(self._first_scale())
        self.history: list[IterationRecord] = []
        self.best: tuple[Array, IterationRecord] | None = None

    def _first_scale(self) -> float:
        """Return the initial scale of H: the free step −g/‖g‖ has length 1, unless the gradient is almost zero."""
        norm = float(np.linalg.norm(self.here.g))
        return norm if norm > 1e-3 else 1.0

    def resume(self, warm_start: Solution) -> None:
        self.penalty = warm_start.penalty
        if len(warm_start.multipliers) == len(self.y):
            self.y = warm_start.multipliers
        if isinstance(warm_start.hessian, LimitedMemoryBFGS) and warm_start.w.shape == self.w.shape:
            self.hessian = copy.copy(warm_start.hessian)

    def solve(self) -> Solution:
        options = self.options
        without_progress = infeasible = iteration = 0  # the first two count successive iterations
        while True:
            if self.second_derivatives is not None:
                self.hessian = DenseHessian(self.second_derivatives(self.w, self.y), FLATTEST)
            steered = self._lower_penalty(steered_step(self.here, self.hessian, self.penalty))
            self.penalty, self.y = steered.solution.penalty, steered.solution.y
            kkt = kkt_residuals(self.here, self.y)
            converged = kkt.largest <= options.tolerance
            infeasible = infeasible + 1 if steered.locally_infeasible else 0
            out_of_patience = max(without_progress, infeasible) >= options.patience
            ends = converged or out_of_patience or iteration >= options.max_iterations
            found = SearchResult(np.zeros_like(self.w), 0.0, corrected=False) if ends else self._search(steered)
            if self._record(iteration, kkt, steered, found) or ends:
                return self._finish(converged=converged, stalled=out_of_patience)
            iteration += 1
            if found.accepted:
                without_progress = 0 if self._advance(found, steered) else without_progress + 1
            elif isinstance(self.hessian, LimitedMemoryBFGS) and self.hessian.pairs:
                # No length along the step lowers the merit function: restart from a multiple of the identity.
                self.hessian.reset(self._first_scale())
                without_progress += 1
            else:
                # Without pairs, a restart would repeat the step.
                without_progress = options.patience

    def _lower_penalty(self, steered: SteeredStep) -> SteeredStep:
        """Return the same step with half the penalty, if that is at least twice the largest multiplier.

        A large ρ makes the merit function stiff and the steps short.  The step of a QP that is not elastic does not
        depend on ρ, as long as ρ exceeds all multipliers.
        """
        solution = steered.solution
        wanted = max(2.0 * float(np.abs(solution.y).max(initial=0.0)), LEAST_PENALTY)
        if solution.elastic or not solution.y.size or solution.penalty <= 2.0 * wanted:
            return steered
        return replace(steered, solution=replace(solution, penalty=max(wanted, 0.5 * solution.penalty)))

    def _evaluate(self, w: Array) -> Evaluation:
        self.evaluations += 1
        return self.problem.evaluate(w)

    def _search(self, steered: SteeredStep) -> SearchResult:
        """Search along a step; `ahead` is the evaluation at the full step, if it was taken with derivatives."""
        self.ahead = None
        first = self._look_ahead if self.full_steps else self._values
        found = search(self._values, self.w, self.here, steered.core, steered.solution, first=first)
        self.full_steps = found.is_full_step
        return found

    def _look_ahead(self, w: Array) -> tuple[float, Array]:
        try:
            self.ahead = self._evaluate(w)
        except NotFiniteError:
            return math.inf, self.here.c  # overflow only means that the step is too long: the search shortens it
        return self.ahead.f, self.ahead.c

    def _values(self, w: Array) -> tuple[float, Array]:
        self.value_evaluations += 1
        f, c = self.problem.values(w)
        return float(f), np.asarray(c, dtype=np.float64)

    def _is_feasible(self, record: IterationRecord) -> bool:
        return record.kkt.violation <= self.options.tolerance

    def _rank(self, record: IterationRecord) -> tuple[bool, float, float]:
        """Return a sort key: feasible points first, by objective; then the others, by violation and objective."""
        return (False, 0.0, record.f) if self._is_feasible(record) else (True, record.violation, record.f)

    def _advance(self, found: SearchResult, steered: SteeredStep) -> bool:
        """Move w, update H, and return whether the merit function fell."""
        before, y, change = self.here, steered.solution.y, found.change
        self.w = self.w + change
        self.here = self.ahead if self.ahead is not None and found.is_full_step else self._evaluate(self.w)
        if isinstance(self.hessian, LimitedMemoryBFGS):
            old = before.g + before.J.transpose_product(y)
            new = self.here.g + self.here.J.transpose_product(y)
            self.hessian.update(change, new - old)
        fall = before.f - self.here.f + self.penalty * (before.violation - self.here.violation)
        size = abs(before.f) + self.penalty * before.violation
        return fall > self.options.stall * size

    def _record(self, iteration: int, kkt: KKTResiduals, steered: SteeredStep, found: SearchResult) -> bool:
        """Append to the history, and return whether the callback asks to stop."""
        record = IterationRecord(
            iteration=iteration,
            f=self.here.f,
            violation=self.here.violation,
            kkt=kkt,
            penalty=self.penalty,
            step_length=found.length,
            step_norm=float(np.linalg.norm(found.change)),
            corrected=found.corrected,
            elastic=steered.solution.elastic,
            locally_infeasible=steered.locally_infeasible,
            evaluations=self.evaluations,
            value_evaluations=self.value_evaluations,
            multipliers=self.y,
        )
        self.history.append(record)
        if self.best is None or self._rank(record) < self._rank(self.best[1]):
            self.best = self.w, record
        return self.callback is not None and bool(self.callback(record, self.w))

    def _finish(self, *, converged: bool, stalled: bool) -> Solution:
        assert self.best is not None
        w, record = (self.w, self.history[-1]) if converged else self.best
        if converged:
            status = Status.CONVERGED
        elif self._is_feasible(record):
            status = Status.FEASIBLE
        else:
            status = Status.INFEASIBLE if stalled else Status.MAX_ITERATIONS
        return Solution(
            w=w,
            multipliers=record.multipliers,
            f=record.f,
            status=status,
            kkt=record.kkt,
            evaluations=self.evaluations,
            value_evaluations=self.value_evaluations,
            penalty=self.penalty,
            hessian=self.hessian,
            history=self.history,
        )
