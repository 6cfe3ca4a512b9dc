"""A chunk of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
