"""Helpers of the fairness tests: a limit for every measure, random rows with full cells, finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairbound.fairness import CONSTRAINTS, MEASURES, Constraint, Measure

COMPARING = [name for name, measure in MEASURES.items() if measure.comparison != "value"]
RATE_NAMES = [name for name, measure in MEASURES.items() if measure.comparison == "value"]

# A bound of each kind that means something for every measure of that kind.
BOUNDS: dict[str, Any] = {"ratio": 0.8, "difference": 0.1, "covariance": 0.05, "value": (0.2, 0.7)}


def limit(measure: str | Measure, bound: Any = None, **options: Any) -> Constraint:
    """A limit on a measure, with a bound that suits its kind of comparison unless one is given."""
    known = MEASURES[measure] if isinstance(measure, str) else measure
    bound = BOUNDS[known.comparison] if bound is None else bound
    if known.name in CONSTRAINTS:
        return CONSTRAINTS[known.name](bound, **options)
    return Constraint(bound, measure=measure, **options)


def ways_to_compare(name: str, reference: Any) -> list[dict[str, Any]]:
    """The options with which a measure can be compared: pairwise, overall, with a reference; or by group."""
    measure = MEASURES[name]
    if measure.comparison == "value":
        return [{}, {"group": reference}]
    if measure.comparison == "covariance":
        return [{}]
    return [{}, *([{"against": "overall"}] if measure.overall else []), {"reference": reference}]


def full_cells(rng: np.random.Generator, n: int, groups: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Random groups and labels of n rows, with at least one row in every cell."""
    first = np.array([(g, y) for g in range(groups) for y in range(labels)])
    rest = np.stack([rng.integers(groups, size=n - len(first)), rng.integers(labels, size=n - len(first))], axis=1)
    rows = rng.permutation(np.concatenate([first, rest]))
    return rows[:, 0], rows[:, 1]


def central_differences(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float) -> np.ndarray:
    """Derivative of a function of a tensor, of shape (*output, *x.shape), entry by entry."""
    columns = []
    for entry in range(x.size):
        shift = np.zeros_like(x).reshape(-1)
        shift[entry] = step
        shift = shift.reshape(x.shape)
        columns.append((function(x + shift) - function(x - shift)) / (2 * step))
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(*stacked.shape[:-1], *x.shape)
