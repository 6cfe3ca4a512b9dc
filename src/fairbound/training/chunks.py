"""A chunk of rows, and weights whose sums over all chunks are exact.

Sums of decisions determine whether a limit is kept.  So they must not depend on the size of chunks, or on the number of
processes that share the rows.  If all weights are equal, rows are counted.  Otherwise each weight is split into two
parts, and each part is rounded to a grid on which float64 adds without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Slices = Sequence[tuple[int, int, int]]
"""(segment, start, stop) within a chunk of rows."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows; the slices are relative to the first of them, one for each segment that they touch.

    X is an array or a sparse matrix by rows.
    """

    X: Any
    labels: NDArray[np.int64]
    loss_weights: Floats
    cell_weights: Floats
    slices: Slices

    @cached_property
    def segments(self) -> NDArray[np.int64]:
        """Return the segment of each slice."""
        return np.array([segment for segment, _, _ in self.slices], dtype=np.int64)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.array([start for _, start, _ in self.slices], dtype=np.int64)

    @property
    def segment_of_row(self) -> NDArray[np.int64]:
        """Return the segment of each row."""
        return np.repeat(self.segments, [stop - start for _, start, stop in self.slices])

    def add_sums(self, totals: NDArray[Any], values: NDArray[Any]) -> None:
        """Add the sums of values (n, ...) over segments to `totals`, (Q, ...)."""
        if self.slices:
            totals[self.segments] += np.add.reduceat(values, self._starts, axis=0)  # slices follow each other


@dataclass(frozen=True)
class WeightParts:
    """Weights split into parts whose sums over all rows are exact, so that the order of addition does not matter.

    Equal weights are counted: one part, 1 for every row.  Others have two parts.  Each part is a multiple of its step,
    and all rows together have less than 2⁵³ steps, so float64 adds them without rounding.  The remainder beyond the
    second part is less than 2⁻⁵² of the largest weight, for up to 100 million rows.

    Attributes
    ----------
    unit : float
        Factor on all sums: the weight of a row if all weights are equal, else 1.
    steps : tuple of float
        The step of each part; empty if all weights are equal.
    total : float
        The sum of all weights, divided by `unit`.
    """

    unit: float
    steps: tuple[float, ...]
    total: float

    @classmethod
    def build(cls, weights: Floats) -> WeightParts:
        """Return the parts of the weights of all rows."""
        if not len(weights) or bool((weights == weights[0]).all()):
            return cls(float(weights[0]) if len(weights) else 1.0, (), float(len(weights)))
        blank = cls.of_size(float(weights.max()), len(weights), 0.0)
        return replace(blank, total=sum(float(part.sum()) for part in blank.split(weights)))

    @classmethod
    def of_size(cls, largest: float, count: int, total: float) -> WeightParts:
        """Return the parts of `count` weights of which the largest is known."""
        # Adding `count` numbers needs log2(count) more bits than one number.  The sum must fit in 53 bits.
        bits = 52 - math.ceil(math.log2(max(count, 2)))
        first = 2.0 ** (math.frexp(largest)[1] - bits)
        return cls(1.0, (first, first * 2.0**-bits), total)

    @property
    def ceiling(self) -> float:
        """Return a number that no weight exceeds."""
        # By `of_size`, first · first / second = first · 2^bits, a power of two of at least the largest weight.
        return self.steps[0] ** 2 / self.steps[1] if self.steps else self.unit

    def __len__(self) -> int:
        return max(len(self.steps), 1)

    def scale(self, values: NDArray[Any], weights: Floats) -> NDArray[Any]:
        """Return values (..., n, D) times the weights of their rows."""
        return values * (weights.astype(values.dtype, copy=False)[:, None] if self.steps else self.unit)

    def split(self, weights: Floats) -> list[Floats]:
        """Return the parts of some weights."""
        parts, rest = [], weights
        for step in self.steps:
            parts.append(np.round(rest / step) * step)
            rest = rest - parts[-1]
        return parts or [np.ones_like(weights)]
