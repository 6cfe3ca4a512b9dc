"""A chunk of rows, and weights whose sums over all chunks are exact.

Sums of decisions decide whether a limit is kept, so they must not depend on the size of chunks, nor on the number of
processes that share the rows.  Equal weights are counted.  Other weights are rounded to two grids, on which float64
adds without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Slices = Sequence[tuple[int, int, int]]
"""(segment, start, stop) within a chunk of rows."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows; the slices are relative to the first of them, one for each segment that they touch."""

    X: Tensor
    labels: Tensor
    loss_weights: Tensor
    cell_weights: Tensor
    slices: Slices


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
    def build(cls, weights: Tensor) -> WeightParts:
        """Return the parts of the weights of all rows."""
        if not len(weights) or bool((weights == weights[0]).all()):
            return cls(float(weights[0]) if len(weights) else 1.0, (), float(len(weights)))
        blank = cls.of_size(float(weights.max()), len(weights), 0.0)
        return replace(blank, total=sum(float(part.sum()) for part in blank.split(weights)))

    @classmethod
    def of_size(cls, largest: float, count: int, total: float) -> WeightParts:
        """Return the parts of `count` weights of which the largest is known."""
        bits = 52 - math.ceil(math.log2(max(count, 2)))  # of a part, so that the sum of all has at most 53
        first = 2.0 ** (math.frexp(largest)[1] - bits)
        return cls(1.0, (first, first * 2.0**-bits), total)

    @property
    def ceiling(self) -> float:
        """Return a number that no weight exceeds."""
        return self.steps[0] ** 2 / self.steps[1] if self.steps else self.unit

    def __len__(self) -> int:
        return max(len(self.steps), 1)

    def scale(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return values (..., n, D) times the weights of their rows."""
        return values * (weights.to(values.dtype)[:, None] if self.steps else self.unit)

    def split(self, weights: Tensor) -> list[Tensor]:
        """Return the parts of some weights."""
        parts, rest = [], weights
        for step in self.steps:
            parts.append(torch.round(rest / step) * step)
            rest = rest - parts[-1]
        return parts or [torch.ones_like(weights)]
