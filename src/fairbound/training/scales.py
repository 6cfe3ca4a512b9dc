"""The scales of a fit: from one at which the slopes mean something to that of the limits themselves.

A surrogate has its slope on a band of margins of width 1/scale.  With few rows, or a model that is sure of itself,
almost no row lies in the band at full scale: the Jacobian is then the noise of a handful of rows.  So the first scale
is chosen from the margins of the free model, wide enough that half of every cell's rows lie in the band, and sharpened
step by step.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from fairbound.fairness import Constraint, resolve_measure, resolve_surrogate
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

SHARE = 0.5
"""Share of every cell's rows that lie in the band of the first scale."""

GENTLEST = 0.02
"""The least first scale, as a fraction of the full one; on probabilities and a scale of 50 the band is all of them."""


def scale_fractions(first: float, sharpening: float) -> list[float]:
    """Return fractions of the full scale from `first` to 1, each at most `sharpening` times the last.

    >>> [round(fraction, 3) for fraction in scale_fractions(0.1, 2.5)]
    [0.1, 0.215, 0.464, 1.0]
    """
    if first >= 1.0:
        return [1.0]
    count = math.ceil(math.log(1.0 / first) / math.log(sharpening) - 1e-9)
    return [first ** (1.0 - position / count) for position in range(count + 1)]


def band_fraction(problem: TrainingProblem, rows: Rows, logits: Tensor, count: float = math.inf) -> float:
    """Return the fraction of the full scale at which enough rows of every cell lie in the band of the surrogates.

    Enough is `count` rows, or half of the cell where that is fewer.
    """
    fraction = 1.0
    for step in problem.system.steps:
        if not step.surrogate.bounded:
            continue
        distance = step.margins(logits).abs().amin(dim=1).to(torch.float64)
        cells = [distance[start:stop] for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
        width = max(_width(each, count) for each in cells if len(each))
        if width > 0.0:
            fraction = min(fraction, 0.5 / (width * step.surrogate.scale))
    return max(fraction, GENTLEST)


def _width(distance: Tensor, count: float) -> float:
    """Half the width of the band that holds `count` rows of a cell, or a share of them where that is fewer."""
    place = int(min(count, SHARE * len(distance)))
    return float(distance.kthvalue(max(place, 1)).values)


def at_scale(problem: TrainingProblem, fraction: float) -> TrainingProblem:
    """The same limits with bounded surrogates at a fraction of their scale."""
    if fraction == 1.0:
        return problem
    return problem.with_constraints([_rescaled(constraint, fraction) for constraint in problem.system.constraints])


def _rescaled(constraint: Constraint, fraction: float) -> Constraint:
    measure = resolve_measure(constraint.measure)
    surrogate = measure.default_surrogate if constraint.surrogate is None else resolve_surrogate(constraint.surrogate)
    if not surrogate.bounded:
        return constraint
    return replace(constraint, surrogate=replace(surrogate, scale=fraction * surrogate.scale))
