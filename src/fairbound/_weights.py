"""Weights of rows: the one place where they are checked and scaled.

Sums of weights, and squares in some intervals, must neither overflow nor vanish.  A common factor of all weights means
nothing to a fit, so a fit divides it out: by a power of two, which changes no digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._values import as_numbers

Floats = NDArray[np.float64]

WIDEST = 2.0**50
"""The largest weight may be this many times the smallest: in a sum the smaller would not count."""

LEAST, MOST = 1e-100, 1e100
"""Between these the largest weight must lie where weights keep their unit."""


def check_weights(weights: Any, n_rows: int, name: str) -> Floats:
    """Return one finite weight of at least 0 for each row, not all 0, within a range that sums can hold.

    >>> check_weights([1, 2, 0], 3, "sample_weight")
    array([1., 2., 0.])
    """
    array = np.array(as_numbers(weights, name))
    if array.shape != (n_rows,):
        raise ValueError(f"{name} must have shape ({n_rows},), one weight for each row, but has shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity: give finite weights.")
    if (array < 0).any():
        raise ValueError(f"{name} contains negative weights: give weights of at least 0.")
    if not array.any():
        raise ValueError(f"{name} is zero for every row: weights must contain at least one non-zero number.")
    smallest, largest = float(array[array > 0].min()), float(array.max())
    if smallest < largest / WIDEST:
        raise ValueError(
            f"{name} ranges from {smallest:g} to {largest:g}, but the smallest would not count in a sum of weights "
            f"more than {WIDEST:.0e} apart: set such weights to 0, or bring them closer together."
        )
    return array


def check_magnitude(weights: Floats, name: str) -> Floats:
    """Return the weights; refuse those whose sums and squares a double cannot hold."""
    largest = float(weights.max())
    if not LEAST <= largest <= MOST:
        raise ValueError(
            f"{name} is at most {largest:g}, but that must lie between {LEAST:g} and {MOST:g}: multiply all weights by "
            "the same factor."
        )
    return weights


def scale_weights(weights: Floats) -> Floats:
    """Return the weights times the power of two that brings the largest to at least 1 and below 2.

    >>> scale_weights(np.array([3.0, 6.0]))
    array([0.75, 1.5 ])
    """
    return np.ldexp(weights, 1 - int(np.frexp(weights.max())[1]))
