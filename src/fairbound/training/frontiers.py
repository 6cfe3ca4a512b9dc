"""The frontier: fit models for a sequence of bounds, which share the model without limits, and price each bound.

A linear model reaches each bound from its looser neighbour, at the narrowest bandwidth at once.  A network reaches it
from the model without limits, as in a fit of its own.  (From its neighbour it would be trained further with every
bound.  That gains accuracy on the training rows, none on others, and makes strict bounds look better than they are.)  A
model that keeps a strict bound also keeps every looser one.  So if the stricter model is clearly more accurate, it
replaces the looser one.

Prices.  The multipliers y price the *loss*.  The Lagrangian contains y_j(c_j − bound_j), so tightening the bound β of a
constraint by one unit costs Σ_j y_j · ∂(c_j − bound_j)/∂β.  For the row δ·r_a − r_b ≤ 0 of a ratio δ that is y·r_a.
The price in *accuracy* is a difference quotient along the frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fairbound._model_settings import Effort
from fairbound.fairness import Constraint, ConstraintSystem, resolve_measure
from fairbound.training.archive import Objective
from fairbound.training.chunks import Floats
from fairbound.training.continuation import Continuation, HistoryCallback
from fairbound.training.fitting import Solver, by_mini_batches, suitable_threads, trains_all_layers
from fairbound.training.problem import TrainingProblem
from fairbound.training.result import TrainingResult, assess_now, choose_status

CLEARLY = 5e-4
"""A difference in accuracy beyond this is more than a few rows of chance."""


@dataclass(frozen=True)
class FrontierPoint:
    """One bound and the model that keeps it.

    Attributes
    ----------
    bound : float
    result : TrainingResult
    parameters : array
        Flat vector; `Frontier.use` writes it into the problem's model.
    loss_price : float
        Increase of the loss per unit of tightening, from the multipliers; 0 if the bound is not active.
    accuracy_price : float or None
        Loss of accuracy per unit of tightening, from the next stricter point; None at the strictest.
    """

    bound: float
    result: TrainingResult
    parameters: Floats
    loss_price: float
    accuracy_price: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, for tables and JSON."""
        found = self.result.assessment
        return {
            "bound": self.bound,
            "status": self.result.status.value,
            "kept": found.kept,
            "accuracy": found.accuracy,
            "gain": found.gain,
            "loss": found.loss,
            "measured": found.measured,
            "loss_price": self.loss_price,
            "accuracy_price": self.accuracy_price,
        }


@dataclass(frozen=True)
class Frontier:
    """The points of a frontier, from the loosest bound to the strictest."""

    points: tuple[FrontierPoint, ...]
    problem: TrainingProblem

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def use(self, point: FrontierPoint) -> None:
        """Write a point's parameters into the problem's model."""
        self.problem.assign(point.parameters)


def frontier(
    problem: TrainingProblem,
    X: Any,
    bounds: Sequence[float],
    *,
    position: int = 0,
    loss_weights: Any = None,
    objective: Objective = "accuracy",
    effort: Effort | None = None,
    precision: DTypeLike | None = None,
    callback: HistoryCallback | None = None,
    generator: Any = None,
) -> Frontier:
    """Fit models for several bounds of one of the problem's constraints; the other constraints stay unchanged.

    Parameters
    ----------
    problem : TrainingProblem
    X : array of shape (n, ...)
    bounds : sequence of float
        Bounds, in any order.
    position : int
        Position of the constraint whose bound varies.
    loss_weights, objective, effort, precision, callback, generator
        As for `fit`, but mini-batches, if `effort` asks for them, train the model without limits only.  Each result has
        its own history and counts of passes.  Those of the loosest bound, which is fitted first, include the free
        phase.
    """
    constraints = problem.system.constraints
    if not 0 <= position < len(constraints):
        raise ValueError(f"position={position}: the problem has {len(constraints)} constraints.")
    if not len(bounds):
        raise ValueError("bounds is empty: give at least one bound.")
    swept = constraints[position]
    stricter_is_larger = resolve_measure(swept.measure).larger_is_stricter
    ordered = sorted({float(bound) for bound in bounds}, reverse=not stricter_is_larger)
    series = FitSeries(
        problem,
        X,
        loss_weights=loss_weights,
        objective=objective,
        effort=effort,
        precision=precision,
        callback=callback,
        generator=generator,
    )
    path = [series.fit(_with_bound(constraints, position, bound)) for bound in ordered]
    for index in range(len(path) - 2, -1, -1):  # from the strictest down, so that a model may replace several
        path[index] = series.better(path[index], path[index + 1])
    return Frontier(_add_prices(ordered, path, position), problem)


@dataclass(frozen=True)
class SeriesPoint:
    """One set of constraints of a series, with the model found for it as flat parameters.

    The model may have been found for a stricter set; then `multipliers` are 0.  `result` describes the model, and has
    the passes of the fit for this set.
    """

    problem: TrainingProblem
    result: TrainingResult
    parameters: Floats
    multipliers: Floats


class FitSeries:
    """Fits under several sets of constraints.  They share the model without limits, which is trained at once.

    The parameters are those of `frontier`.  A `neighbour` keeps limits near those of the first fit.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        X: Any,
        *,
        loss_weights: Any = None,
        objective: Objective = "accuracy",
        effort: Effort | None = None,
        precision: DTypeLike | None = None,
        callback: HistoryCallback | None = None,
        generator: Any = None,
        neighbour: Floats | None = None,
    ) -> None:
        effort = effort or Effort()
        solver: Solver = "stochastic" if effort.solver == "stochastic" else "quasi-newton"
        self.problem, self.objective, self.solver = problem, objective, solver
        with self._threads():
            batches = by_mini_batches(problem, solver, generator)
            self.state = state = Continuation(problem, X, loss_weights, effort, callback, precision=precision)
            self._dtype, self._rows = problem.model.dtype, state.rows
            self._last = [] if neighbour is None else [neighbour]
            try:
                if batches is not None:
                    batches(state).find_free_model(effort.passes)
                else:
                    state.find_free_model()
            finally:
                # Also on an interrupt, leave the best model found in the problem.
                state.assign_best(problem)
            state.history = []

    def fit(self, constraints: Sequence[Constraint]) -> SeriesPoint:
        """Fit a model under these constraints, and leave it in the problem.

        The passes of the free phase are counted in the first fit.
        """
        state, problem = self.state, self.problem.with_constraints(constraints)
        assert state.free_w is not None
        with self._threads():
            state.own(problem).model.set_precision(self._dtype)  # the last fit may have ended in a higher precision
            state.rows, state.w = self._rows, state.free_w.copy()
            try:
                state.keep_limits(
                    problem,
                    self.objective,
                    neighbour=self._last[-1] if self._last else None,
                    all_layers=trains_all_layers(problem, self.solver),
                )
            finally:
                state.assign_best(problem)
            result = state.result(problem, solver=self.solver)
            if result.assessment.kept and not result.assessment.degenerate:
                self._last = [state.w]
            point = SeriesPoint(problem, result, state.w, state.multipliers)
            state.forget_counts()
            return point

    def better(self, point: SeriesPoint, stricter: SeriesPoint) -> SeriesPoint:
        """Return the point, with the model of a stricter set if that is clearly more accurate and keeps this set, too.

        A difference of a few rows is chance.
        """
        found, other = point.result.assessment, stricter.result.assessment
        if not other.kept or (found.kept and found.accuracy >= other.accuracy - CLEARLY):
            return point
        replaced = self._judged(point, stricter.parameters)
        if not replaced.result.assessment.kept:
            return point
        # The model keeps a stricter bound, so that this one is not active.
        return replace(replaced, multipliers=np.zeros_like(point.multipliers))

    def between(self, looser: SeriesPoint, stricter: SeriesPoint, share: float) -> SeriesPoint:
        """Return the model at this share of the straight line from one model to another, in the space of parameters.

        It is judged by the constraints of the series' own problem, and left in the problem.  Its record has the history
        and the passes of both fits.
        """
        one, other = looser.result, stricter.result
        both = replace(
            one,
            history=[*other.history, *one.history],
            evaluations=other.evaluations + one.evaluations,
            value_evaluations=other.value_evaluations + one.value_evaluations,
            stopped=other.stopped or one.stopped,
        )
        point = replace(looser, problem=self.problem, result=both)
        return self._judged(point, looser.parameters + share * (stricter.parameters - looser.parameters))

    def _judged(self, point: SeriesPoint, parameters: Floats) -> SeriesPoint:
        """Return the point with other parameters, which a solve for other limits has found; its passes stay."""
        with self._threads():
            point.problem.assign(parameters)
            assessment = assess_now(point.problem, self.state.rows)
        result = replace(
            point.result,
            assessment=assessment,
            final=assessment,
            # The model may be optimal under other limits, but its optimality here was not checked.
            status=choose_status(assessment, converged=False, locally_infeasible=False),
            conflicts=[],
            # The multipliers price other limits.
            multipliers=None,
            kkt=None,
        )
        return replace(point, result=result, parameters=point.problem.current())

    def _threads(self) -> AbstractContextManager[None]:
        return suitable_threads(self.problem)


def _with_bound(constraints: tuple[Constraint, ...], position: int, bound: float) -> list[Constraint]:
    return [
        constraint.with_bound(bound) if index == position else constraint
        for index, constraint in enumerate(constraints)
    ]


def _add_prices(bounds: list[float], path: list[SeriesPoint], position: int) -> tuple[FrontierPoint, ...]:
    points = []
    accuracy_prices = prices_in_accuracy(bounds, [each.result.assessment.accuracy for each in path])
    for bound, here, accuracy_price in zip(bounds, path, accuracy_prices, strict=True):
        price = loss_price(here.problem.system, position, here.multipliers, here.result.assessment.counts)
        points.append(FrontierPoint(bound, here.result, here.parameters, price, accuracy_price))
    return tuple(points)


def prices_in_accuracy(bounds: Sequence[float], accuracies: Sequence[float]) -> list[float | None]:
    """Return the loss of accuracy per unit of tightening, from each bound to the next stricter one; None at the last.

    A rise is the chance of a few rows, and no price: a clearly better model has taken the place of a looser one.

    >>> prices_in_accuracy([0.25, 0.5, 0.75], [0.75, 0.875, 0.625])
    [0.0, 1.0, None]
    """
    steps = zip(pairwise(bounds), pairwise(accuracies), strict=True)
    return [*(max(a - b, 0.0) / abs(other - one) for (one, other), (a, b) in steps), None]


def loss_price(system: ConstraintSystem, position: int, multipliers: Floats, counts: Floats) -> float:
    """Return the increase of the loss per unit by which one constraint's bound is tightened.

    That is Σ_j y_j · ∂(c_j − bound_j)/∂β, negated if a smaller β is stricter.  The rows are linear in the bound β, so
    the difference quotient of two constraint systems is the exact derivative.
    """
    constraint = system.constraints[position]
    if isinstance(constraint.bound, tuple) or constraint.bound is None:
        raise ValueError(f"{constraint}: a price belongs to a single bound, not to a pair.")
    measure = resolve_measure(constraint.measure)
    tighter = 1.0 if measure.larger_is_stricter else -1.0
    # Move towards the middle of the permitted range, so that the moved bound is valid.
    step = -1e-3 if constraint.bound > 0.5 * min(measure.largest, 1.0) else 1e-3
    moved = ConstraintSystem.build(
        _with_bound(system.constraints, position, constraint.bound + step), system.cells, threshold=system.threshold
    )
    if moved.n_rows != system.n_rows:
        return 0.0  # a ratio of 0 limits nothing and has no rows
    change = moved.exact(counts) - system.exact(counts)
    with np.errstate(invalid="ignore"):  # a side may have no bound
        upper, lower = (np.nan_to_num(a - b) for a, b in ((moved.upper, system.upper), (moved.lower, system.lower)))
    slope = np.where(multipliers > 0, change - upper, change - lower) / step
    return tighter * float(multipliers @ slope)
