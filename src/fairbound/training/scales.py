"""The homotopy in the scale of the surrogates: from a small scale, where many rows have a slope, to the full scale.

A surrogate φ(scale · t) has a slope only on a band of margins t of width about 1/scale.  With few rows, or a model
whose probabilities are near 0 and 1, almost no row lies in the band at full scale.  Then the Jacobian is noise from a
few rows.  So the first scale is chosen from the margins of the free model, such that half of the rows of every cell lie
in the band.  It is then increased step by step, each solve started from the last solution.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from fairbound.fairness import Constraint, resolve_measure, resolve_surrogate
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

BAND_SHARE = 0.5
"""Share of the rows of every cell that lie in the band at the first scale."""

SMALLEST_FIRST_FRACTION = 0.02
"""Least fraction of the full scale to start with.  At a full scale of 50 the band then holds all probabilities."""


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
    """Return the fraction of the full scale at which enough rows of every cell lie in the band of each surrogate.

    Enough means `count` rows, or half of the cell if that is less.  The band |t| ≤ width has scale · width = ½ at the
    returned fraction, since it reaches half of 1/scale to either side.
    """
    fraction = 1.0
    for each in problem.system.surrogates:
        if not each.surrogate.bounded:
            continue
        distance = each.margins(logits).abs().amin(dim=1).to(torch.float64)
        cells = [distance[start:stop] for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
        width = max(_width(each, count) for each in cells if len(each))
        if width > 0.0:
            fraction = min(fraction, 0.5 / (width * each.surrogate.scale))
    return max(fraction, SMALLEST_FIRST_FRACTION)


def _width(distance: Tensor, count: float) -> float:
    """Return the least |t| that includes `count` rows of a cell, or `BAND_SHARE` of them if that is less."""
    place = int(min(count, BAND_SHARE * len(distance)))
    return float(distance.kthvalue(max(place, 1)).values)


def at_scale(problem: TrainingProblem, fraction: float) -> TrainingProblem:
    """Return the problem with its bounded surrogates at a fraction of their scale."""
    if fraction == 1.0:
        return problem
    return problem.with_constraints([_rescaled(constraint, fraction) for constraint in problem.system.constraints])


def _rescaled(constraint: Constraint, fraction: float) -> Constraint:
    measure = resolve_measure(constraint.measure)
    surrogate = measure.default_surrogate if constraint.surrogate is None else resolve_surrogate(constraint.surrogate)
    if not surrogate.bounded:
        return constraint
    return replace(constraint, surrogate=replace(surrogate, scale=fraction * surrogate.scale))
