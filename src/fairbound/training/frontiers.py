"""The frontier: what each bound costs, from one call, each model started from its neighbour.

Bounds are visited from the loosest to the strictest.  A model that keeps a strict bound keeps every looser one too, so
where the stricter is also more accurate it takes the looser's place: none on the frontier is dominated by a stricter
one.

Prices.  A multiplier y of a row prices the *loss*: tightening the bound by one unit costs Σ_j y_j · ∂(c_j − bound_j)
(y·r_a for the row δ·r_a − r_b ≤ 0).  The price in *accuracy* is a difference along the frontier.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import Constraint, ConstraintSystem, resolve_measure
from fairbound.training.effort import Effort, Phase
from fairbound.training.problem import TrainingProblem
from fairbound.training.stages import Objective, confirm, find_free_optimum, reach_limits
from fairbound.training.state import FitState, Progress
from fairbound.training.threads import suitable_threads
from fairbound.training.trainer import TrainingResult, assess_now, choose_status

FRONTIER_EFFORT = Effort(coarse=Phase(15, window=3))
"""A neighbour is near: shorter phases than a fit from the free optimum."""


@dataclass(frozen=True)
class FrontierPoint:
    """One bound and the model that keeps it.

    Attributes
    ----------
    bound : float
    result : TrainingResult
    parameters : Tensor
        Flat; `Frontier.use` writes them into the module.
    loss_price : float
        Loss per unit by which the bound is tightened, from the multipliers; 0 where the bound does not bind.
    accuracy_price : float or None
        Accuracy per unit of tightening, from the next stricter point; None at the last.
    """

    bound: float
    result: TrainingResult
    parameters: Tensor
    loss_price: float
    accuracy_price: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for tables and JSON."""
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
    """Points from the loosest bound to the strictest."""

    points: tuple[FrontierPoint, ...]
    problem: TrainingProblem

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def use(self, point: FrontierPoint) -> None:
        """Write a point's parameters into the module."""
        self.problem.assign(point.parameters)


def frontier(
    problem: TrainingProblem,
    X: Any,
    bounds: Sequence[float],
    *,
    position: int = 0,
    loss_weights: Any = None,
    objective: Objective = "loss",
    effort: Effort = FRONTIER_EFFORT,
    callback: Progress | None = None,
) -> Frontier:
    """Fit models for several bounds of one of the problem's constraints; the others stay as they are.

    Parameters
    ----------
    problem : TrainingProblem
    X : array of shape (n, ...)
    bounds : sequence of float
        In any order.
    position : int
        Which of the problem's constraints the bounds are for.
    loss_weights, objective, effort, callback
        As for `fit`.  Each point's result has its own history and passes; the first one's passes include those of the
        free optimum.
    """
    constraints = problem.system.constraints
    if not 0 <= position < len(constraints):
        raise ValueError(f"position={position}: the problem has {len(constraints)} constraints.")
    if not len(bounds):
        raise ValueError("bounds is empty: give at least one bound.")
    swept = constraints[position]
    stricter_is_larger = resolve_measure(swept.measure).larger_is_stricter
    ordered = sorted({float(bound) for bound in bounds}, reverse=not stricter_is_larger)
    sets = [_with_bound(constraints, position, bound) for bound in ordered]
    path = follow_path(
        problem, X, sets, loss_weights=loss_weights, objective=objective, effort=effort, callback=callback
    )
    return Frontier(_priced(ordered, path, position), problem)


@dataclass(frozen=True)
class PathPoint:
    """One set of constraints on a path, how it went, and the flat parameters that keep them.

    The result is that of the solve that found the model, which may have been for a stricter set; `multipliers` are
    those of the solve for this set.
    """

    problem: TrainingProblem
    result: TrainingResult
    parameters: Tensor
    multipliers: Tensor


def follow_path(
    problem: TrainingProblem,
    X: Any,
    constraint_sets: Sequence[Sequence[Constraint]],
    *,
    loss_weights: Any = None,
    objective: Objective = "loss",
    effort: Effort = FRONTIER_EFFORT,
    callback: Progress | None = None,
) -> list[PathPoint]:
    """Fit models under each set of constraints, from the loosest to the strictest, each from its neighbour.

    Whoever keeps a later set must keep the earlier ones: a stricter model that is more accurate replaces a looser one.
    """
    problems = [problem.with_constraints(constraints) for constraints in constraint_sets]
    with suitable_threads(len(problem.cells), problem.n_parameters):
        state = FitState(problem, X, loss_weights, effort, callback)
        parts = []
        try:
            find_free_optimum(state)
            state.history = []
            for each in problems:
                reach_limits(state, each, objective)
                state.settle(each)
                parts.append(_take_part(state))
        finally:
            # Also on an interrupt: what was found so far stays in the module.
            state.settle(problem)
        path = []
        for each, part in zip(problems, parts, strict=True):
            vars(state).update(part)
            state.started += time.perf_counter()
            chosen = confirm(state, each)
            result = state.result(each, chosen, by_loss=objective == "loss", solver="quasi-newton")
            path.append(PathPoint(each, result, chosen.w, state.multipliers))
        _let_stricter_replace(path, state)
        return path


def _take_part(state: FitState) -> dict[str, Any]:
    """Return what belongs to the bound just reached, its start relative to now; the next bound begins at zero."""
    names = ("candidates", "multipliers", "converged_at", "history", "evaluations", "value_evaluations", "stopped")
    now = time.perf_counter()
    part = {name: getattr(state, name) for name in names} | {"started": state.started - now}
    state.history, state.evaluations, state.value_evaluations, state.started = [], 0, 0, now
    return part


def _with_bound(constraints: tuple[Constraint, ...], position: int, bound: float) -> list[Constraint]:
    return [
        constraint.with_bound(bound) if index == position else constraint
        for index, constraint in enumerate(constraints)
    ]


def _let_stricter_replace(path: list[PathPoint], state: FitState) -> None:
    """From the strictest down: a stricter model that is more accurate serves the looser set, too."""
    for index in range(len(path) - 2, -1, -1):
        here, stricter = path[index], path[index + 1]
        found, other = here.result.assessment, stricter.result.assessment
        if other.kept and (not found.kept or found.accuracy < other.accuracy):
            here.problem.assign(stricter.parameters)
            assessment = assess_now(here.problem, state.rows)
            if assessment.kept:
                # Optimal under the stricter set, if anywhere.
                status = choose_status(assessment, converged=False, locally_infeasible=False)
                # The record is that of the solve that found the model; its multipliers are those of other limits.
                result = replace(
                    stricter.result,
                    assessment=assessment,
                    final=assessment,
                    status=status,
                    conflicts=[],
                    multipliers=None,
                )
                path[index] = replace(here, result=result, parameters=stricter.parameters)


def _priced(bounds: list[float], path: list[PathPoint], position: int) -> tuple[FrontierPoint, ...]:
    points = []
    for index, (bound, here) in enumerate(zip(bounds, path, strict=True)):
        accuracy_price = None
        if index + 1 < len(bounds):
            fall = here.result.assessment.accuracy - path[index + 1].result.assessment.accuracy
            accuracy_price = fall / abs(bounds[index + 1] - bound)
        price = loss_price(here.problem.system, position, here.multipliers, here.result.assessment.counts)
        points.append(FrontierPoint(bound, here.result, here.parameters, price, accuracy_price))
    return tuple(points)


def loss_price(system: ConstraintSystem, position: int, multipliers: Tensor, counts: Tensor) -> float:
    """Loss per unit by which one constraint's bound is tightened: Σ_j y_j · ∂(c_j − bound_j)/∂bound.

    The rows are linear in the bound, so a difference of two compiled systems is the derivative.
    """
    constraint = system.constraints[position]
    if isinstance(constraint.bound, tuple) or constraint.bound is None:
        raise ValueError(f"{constraint}: a price belongs to a single bound, not to a pair.")
    measure = resolve_measure(constraint.measure)
    tighter = 1.0 if measure.larger_is_stricter else -1.0
    # A step into the permitted range: from below at its upper end.
    step = -1e-3 if constraint.bound > 0.5 * min(measure.largest, 1.0) else 1e-3
    moved = ConstraintSystem.build(
        _with_bound(system.constraints, position, constraint.bound + step), system.cells, threshold=system.threshold
    )
    if moved.n_rows != system.n_rows:
        return 0.0  # a ratio of 0 limits nothing and has no rows
    change = moved.exact(counts) - system.exact(counts)
    upper = torch.nan_to_num(moved.upper - system.upper)
    lower = torch.nan_to_num(moved.lower - system.lower)
    slope = torch.where(multipliers > 0, change - upper, change - lower) / step
    return tighter * float(multipliers @ slope)
