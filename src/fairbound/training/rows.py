"""Training rows in cell order, so that each cell is a contiguous slice and its gradient a product over that slice.

A sample of rows (a mini-batch or a subset) has the same form with larger weights.  If n_k of the N_k rows of a cell are
drawn, weights N_k/n_k give unbiased cell sums, rates that are linear in them, and loss (Theorem 3, for any cells).

Conventions
-----------
A *segment* is a contiguous slice of rows of one cell: the whole cell or, in a sample, one of its two halves.  The
difference of the halves gives unbiased estimates of squares (see `SquaredMeasure`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound._weights import check_weights, scale_weights
from fairbound.fairness import Cells


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in segment order, with their weights.

    Attributes
    ----------
    X : Tensor of shape (n, ...)
    labels : Tensor of shape (n,)
        Class indices.
    loss_weights : Tensor of shape (n,)
        The sum of loss_weights · ℓ over all rows is the mean loss, or an estimate of it.
    cell_weights : Tensor of shape (n,)
        The sum of cell_weights · φ over a cell is S_k, or an estimate of it.
    offsets : tuple of int
        Segment q has the rows offsets[q] to offsets[q + 1].
    cell_of_segment : Tensor of shape (Q,)
    halves : bool
        Whether each pair of segments is the two halves of a cell.
    positions : Tensor of shape (n,)
        Position of each row in the original data.
    """

    X: Tensor
    labels: Tensor
    loss_weights: Tensor
    cell_weights: Tensor
    offsets: tuple[int, ...]
    cell_of_segment: Tensor
    halves: bool
    positions: Tensor

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def class_weights(self) -> Tensor:
        """Return the weight of each class in the loss; it is the accuracy of the constant prediction of that class."""
        return torch.bincount(self.labels, self.loss_weights)

    @property
    def n_segments(self) -> int:
        """Return the number of segments, Q."""
        return len(self.offsets) - 1

    @classmethod
    def build(
        cls, X: Any, cells: Cells, *, loss_weights: Any = None, dtype: torch.dtype | None = torch.float32
    ) -> Rows:
        """Return all rows of the data, sorted by cell; `loss_weights` are scaled to sum 1 and equal by default."""
        matrix = as_matrix(X, len(cells), dtype)
        weights = torch.ones(len(cells), dtype=torch.float64)
        if loss_weights is not None:
            weights = torch.from_numpy(scale_weights(check_weights(loss_weights, len(cells), "loss_weights")))
        order = torch.argsort(cells.index, stable=True)
        counts = torch.bincount(cells.index, minlength=cells.n_cells)
        present = torch.nonzero(counts).flatten()
        return cls(
            X=matrix[order],
            labels=cells.labels[order],
            loss_weights=(weights / weights.sum())[order],
            cell_weights=cells.weights[order],
            offsets=(0, *torch.cumsum(counts[present], 0).tolist()),
            cell_of_segment=present,
            halves=False,
            positions=order,
        )

    def sample(self, counts: Tensor, generator: torch.Generator) -> Rows:
        """Draw a fixed number of rows from each cell without replacement, reweighted by N_k/n_k, in two halves.

        If a single row is drawn from a cell, its first half is empty.
        """
        if self.halves:
            raise ValueError("A sample is drawn from all rows, not from a sample.")
        sizes = torch.tensor(self.offsets).diff()
        if counts.shape != sizes.shape or (counts < 1).any() or (counts > sizes).any():
            raise ValueError(
                f"counts={counts.tolist()}: each of the {len(sizes)} cells needs between 1 row and all its rows "
                f"{sizes.tolist()}."
            )
        picks, offsets = [], [0]
        for start, size, count in zip(self.offsets[:-1], sizes.tolist(), counts.tolist(), strict=True):
            picks.append(start + torch.randperm(size, generator=generator)[:count])
            offsets += [offsets[-1] + count // 2, offsets[-1] + count]
        chosen = torch.cat(picks)
        factor = torch.repeat_interleave(sizes.to(torch.float64) / counts, counts)
        return Rows(
            X=self.X[chosen],
            labels=self.labels[chosen],
            loss_weights=self.loss_weights[chosen] * factor,
            cell_weights=self.cell_weights[chosen] * factor,
            offsets=tuple(offsets),
            cell_of_segment=self.cell_of_segment.repeat_interleave(2),
            halves=True,
            positions=self.positions[chosen],
        )


def as_tensor(X: Any) -> Tensor:
    """Return the inputs as a tensor of numbers, in their own type."""
    if isinstance(X, Tensor):
        return X
    array = np.ascontiguousarray(X)
    try:
        array = array if array.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must hold numbers, but has values of type {array.dtype}: encode text and categories as numbers."
        ) from error
    return torch.from_numpy(array if array.flags.writeable else array.copy())  # torch warns about read-only arrays


def as_matrix(X: Any, n: int | None, dtype: torch.dtype | None) -> Tensor:
    """Return the inputs as a tensor of finite numbers with n rows, in their own type if `dtype` is None."""
    matrix = as_tensor(X)
    if matrix.ndim < 2:
        raise ValueError(f"X must have shape (n, features), but has shape {tuple(matrix.shape)}.")
    if n is not None and len(matrix) != n:
        raise ValueError(f"X has {len(matrix)} rows, but y has {n}: one row per label is needed.")
    if matrix.is_floating_point():
        bad = ~torch.isfinite(matrix)
        if bad.any():
            row, column = torch.nonzero(bad.reshape(len(matrix), -1))[0].tolist()
            raise ValueError(
                f"X contains NaN or infinity, first in row {row}, column {column}: impute or drop these values."
            )
        matrix = matrix if dtype is None else matrix.to(dtype)
        if not torch.isfinite(matrix).all():
            raise ValueError(f"X contains values too large for {dtype}: scale the inputs.")
        return matrix
    return matrix if dtype is None else matrix.to(dtype)
