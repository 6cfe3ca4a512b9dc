"""The frontier: what each bound costs, from one call, each model started from its neighbour.

Bounds are visited from the loosest to the strictest.  A model that keeps a strict bound keeps every looser one too, so
where the stricter is also more accurate it takes the looser's place: none on the frontier is dominated by a stricter
one.

Prices.  A multiplier y of a row prices the *loss*: tightening the bound by one unit costs Σ_j y_j · ∂(c_j − bound_j)
(y·r_a for the row δ·r_a − r_b ≤ 0).  The price in *accuracy* is a difference along the frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import Constraint, ConstraintSystem
from fairbound.fairness.measures import resolve_measure
from fairbound.training.assessment import Assessment
from fairbound.training.candidates import Candidate, Candidates
from fairbound.training.fit import Effort, Objective, Phase, Progress, Way
from fairbound.training.problem import TrainingProblem
from fairbound.training.trainer import TrainingResult, assess_now

FRONTIER_EFFORT = Effort(coarse=Phase(15, window=5))
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
        As for `fit`.  Each history row names its bound.
    """
    constraints = problem.system.constraints
    if not 0 <= position < len(constraints):
        raise ValueError(f"position={position}: the problem has {len(constraints)} constraints.")
    if not len(bounds):
        raise ValueError("bounds is empty: give at least one bound.")
    swept = constraints[position]
    stricter_is_larger = resolve_measure(swept.measure).larger_is_stricter
    ordered = sorted({float(bound) for bound in bounds}, reverse=not stricter_is_larger)
    problems = [problem.with_constraints(_with_bound(constraints, position, bound)) for bound in ordered]

    way = Way(problem, X, loss_weights, effort, callback)
    way.free()
    found: list[tuple[Candidates, Tensor, bool, int]] = []
    for each in problems:
        before = len(way.history)
        way.limit(each, objective)
        way.settle(each)
        found.append((way.candidates, way.multipliers, way.converged, before))
    results: list[TrainingResult] = []
    chosen: list[Candidate] = []
    for each, (candidates, multipliers, converged, start) in zip(problems, found, strict=True):
        way.candidates, way.multipliers, way.converged = candidates, multipliers, converged
        chosen.append(way.confirm(each))
        result = way.result(each, chosen[-1], objective, "quasi-newton")
        stop = next((s for *_, s in found if s > start), len(way.history))
        results.append(replace(result, history=way.history[start:stop]))
    _let_stricter_replace(problems, results, chosen, way)
    return Frontier(_priced(ordered, problems, results, chosen, position), problem)


def _with_bound(constraints: tuple[Constraint, ...], position: int, bound: float) -> list[Constraint]:
    return [
        constraint.with_bound(bound) if index == position else constraint
        for index, constraint in enumerate(constraints)
    ]


def _let_stricter_replace(
    problems: list[TrainingProblem], results: list[TrainingResult], chosen: list[Candidate], way: Way
) -> None:
    """From the strictest down: a stricter model that is more accurate serves the looser bound, too."""
    for index in range(len(problems) - 2, -1, -1):
        stricter = chosen[index + 1]
        worse = not chosen[index].assessment.kept or chosen[index].assessment.accuracy < stricter.assessment.accuracy
        if stricter.assessment.kept and worse:
            problems[index].assign(stricter.w)
            assessment: Assessment = assess_now(problems[index], way.rows)
            if assessment.kept:
                chosen[index] = Candidate(stricter.w, assessment)
                results[index] = replace(results[index], assessment=assessment, status=results[index + 1].status)


def _priced(
    bounds: list[float],
    problems: list[TrainingProblem],
    results: list[TrainingResult],
    chosen: list[Candidate],
    position: int,
) -> tuple[FrontierPoint, ...]:
    points = []
    for index, (bound, result) in enumerate(zip(bounds, results, strict=True)):
        accuracy_price = None
        if index + 1 < len(bounds):
            fall = result.assessment.accuracy - results[index + 1].assessment.accuracy
            accuracy_price = fall / abs(bounds[index + 1] - bound)
        price = loss_price(problems[index].system, position, result.multipliers, result.assessment.counts)
        points.append(FrontierPoint(bound, result, chosen[index].w, price, accuracy_price))
    return tuple(points)


def loss_price(system: ConstraintSystem, position: int, multipliers: Tensor, counts: Tensor) -> float:
    """Loss per unit by which one constraint's bound is tightened: Σ_j y_j · ∂(c_j − bound_j)/∂bound.

    The rows are linear in the bound, so a difference of two compiled systems is the derivative.
    """
    constraint = system.constraints[position]
    if isinstance(constraint.bound, tuple) or constraint.bound is None:
        raise ValueError(f"{constraint}: a price belongs to a single bound, not to a pair.")
    tighter = 1.0 if resolve_measure(constraint.measure).larger_is_stricter else -1.0
    # A step into the permitted range: from below at its upper end.
    step = -1e-3 if constraint.bound > 0.5 else 1e-3
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
