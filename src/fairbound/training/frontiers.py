"""The frontier: fit models for a sequence of bounds, which share the model without limits, and price each bound.

A linear model reaches each bound from its looser neighbour, at the narrowest bandwidth at once.  A network reaches it
from the model without limits, as in a fit of its own.  (From its neighbour it would be trained further with every
bound.  That gains accuracy on the training rows, none on others, and makes strict bounds look better than they are.)

Prices.  The multipliers y price the *loss*.  The Lagrangian contains y_j(c_j − bound_j), so tightening the bound β of a
constraint by one unit costs Σ_j y_j · ∂(c_j − bound_j)/∂β.  For the row δ·r_a − r_b ≤ 0 of a ratio δ that is y·r_a.
The price in *accuracy* is a difference quotient along the frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairbound._model_settings import Effort
from fairbound.fairness import Constraint, ConstraintSystem, resolve_measure
from fairbound.training.archive import Objective
from fairbound.training.assessment import Assessment
from fairbound.training.chunks import Floats
from fairbound.training.continuation import Continuation
from fairbound.training.fitting import Solver, by_mini_batches, suitable_threads, trains_all_layers
from fairbound.training.problem import TrainingProblem
from fairbound.training.result import TrainingResult, assess_now, choose_status


@dataclass(frozen=True)
class FrontierPoint:
    """One bound and the model that keeps it.

    Attributes
    ----------
    bound : float
    result : TrainingResult
    loss_price : float
        Increase of the loss per unit of tightening, from the multipliers; 0 if the bound is not active.
    accuracy_price : float or None
        Loss of accuracy per unit of tightening, from the next stricter point; None at the strictest.
    """

    bound: float
    result: TrainingResult
    loss_price: float
    accuracy_price: float | None


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
        self.problem.assign(point.result.parameters)


def frontier(
    problem: TrainingProblem, X: Any, bounds: Sequence[float], *, position: int = 0, **options: Any
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
    **options
        `loss_weights`, `objective`, `effort`, `precision`, `callback` and `generator`, as for `fit`.  Mini-batches, if
        `effort` asks for them, train the model without limits only.  Each result has its own history and counts of
        passes.  Those of the loosest bound, which is fitted first, include the free phase.
    """
    constraints = problem.system.constraints
    if not 0 <= position < len(constraints):
        raise ValueError(f"position={position}: the problem has {len(constraints)} constraints.")
    if not len(bounds):
        raise ValueError("bounds is empty: give at least one bound.")
    stricter_is_larger = resolve_measure(constraints[position].measure).larger_is_stricter
    ordered = sorted({float(bound) for bound in bounds}, reverse=not stricter_is_larger)
    series = FitSeries(problem, X, **options)
    results = [series.fit(_with_bound(constraints, position, bound)) for bound in ordered]
    prices = prices_in_accuracy(ordered, [each.assessment.accuracy for each in results])
    points = []
    for bound, each, price in zip(ordered, results, prices, strict=True):
        assert each.multipliers is not None
        points.append(FrontierPoint(bound, each, loss_price(each.assessment, position, each.multipliers), price))
    return Frontier(tuple(points), problem)


class FitSeries:
    """Fits under several sets of constraints.  They share the model without limits, which is trained at once.

    The options are those of `fit`.  A `neighbour` keeps limits near those of the first fit.  Without `priced`, results
    have no multipliers.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        X: Any,
        *,
        objective: Objective = "accuracy",
        effort: Effort | None = None,
        generator: Any = None,
        neighbour: Floats | None = None,
        priced: bool = True,
        **options: Any,
    ) -> None:
        effort = effort or Effort()
        solver: Solver = "stochastic" if effort.solver == "stochastic" else "quasi-newton"
        self.problem, self.objective, self.solver = problem, objective, solver
        self._neighbour, self._priced = neighbour, priced
        with suitable_threads(problem):
            batches = by_mini_batches(problem, solver, generator)
            self.state = state = Continuation(problem, X, effort=effort, **options)
            self._dtype, self._rows = problem.model.dtype, state.rows
            with state.leaving_the_best(problem):
                if batches is not None:
                    batches(state).find_free_model(effort.passes)
                else:
                    state.find_free_model()
            state.history = []

    def fit(self, constraints: Sequence[Constraint]) -> TrainingResult:
        """Fit a model under these constraints, and leave it in the problem.

        The passes of the free phase are counted in the first fit.
        """
        state, problem = self.state, self.problem.with_constraints(constraints)
        assert state.free_w is not None
        with suitable_threads(problem):
            state.own(problem).model.set_precision(self._dtype)  # the last fit may have ended in a higher precision
            state.rows, state.w = self._rows, state.free_w.copy()
            with state.leaving_the_best(problem):
                all_layers = trains_all_layers(problem, self.solver)
                state.keep_limits(
                    problem, self.objective, neighbour=self._neighbour, priced=self._priced, all_layers=all_layers
                )
            result = state.result(problem, solver=self.solver)
        if result.assessment.kept and not result.assessment.degenerate:
            self._neighbour = result.parameters
        state.forget_counts()
        return result

    def along(self, looser: Floats, stricter: Floats, share: float) -> Floats:
        """Return the parameters at this share of the line from one model to another; a threshold follows its quota."""
        return self.state.follow_quota(self.state.own(self.problem), looser + share * (stricter - looser))

    def between(self, looser: TrainingResult, stricter: TrainingResult, share: float) -> TrainingResult:
        """Return the model at this share of the straight line from one model to another, in the space of parameters.

        It is judged by the constraints of the series' own problem, and left in the problem.  Its record has the history
        and the passes of both fits.  Its optimality was not checked, and the multipliers price other limits.
        """
        with suitable_threads(self.problem):
            self.problem.assign(self.along(looser.parameters, stricter.parameters, share))
            assessment = assess_now(self.problem, self.state.rows)
        return replace(
            looser,
            status=choose_status(assessment, converged=False, locally_infeasible=False),
            assessment=assessment,
            parameters=self.problem.current(),
            iterations=[*stricter.iterations, *looser.iterations],
            conflicts=(),
            multipliers=None,
            kkt_residual=None,
            passes=stricter.passes + looser.passes,
            value_passes=stricter.value_passes + looser.value_passes,
            stopped=stricter.stopped or looser.stopped,
        )


def _with_bound(constraints: tuple[Constraint, ...], position: int, bound: float) -> list[Constraint]:
    return [
        constraint.with_bound(bound) if index == position else constraint
        for index, constraint in enumerate(constraints)
    ]


def prices_in_accuracy(bounds: Sequence[float], accuracies: Sequence[float]) -> list[float | None]:
    """Return the loss of accuracy per unit of tightening, from each bound to the next stricter one; None at the last.

    A rise is the chance of the training rows, and no price.

    >>> prices_in_accuracy([0.25, 0.5, 0.75], [0.75, 0.875, 0.625])
    [0.0, 1.0, None]
    """
    steps = zip(pairwise(bounds), pairwise(accuracies), strict=True)
    return [*(max(a - b, 0.0) / abs(other - one) for (one, other), (a, b) in steps), None]


def loss_price(assessment: Assessment, position: int, multipliers: Floats) -> float:
    """Return the increase of the loss per unit by which one constraint's bound is tightened, at an assessed model.

    That is Σ_j y_j · ∂(c_j − bound_j)/∂β, negated if a smaller β is stricter.  The rows are linear in the bound β, so
    the difference quotient of two constraint systems is the exact derivative.
    """
    system, counts = assessment.system, assessment.judged_sums
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
