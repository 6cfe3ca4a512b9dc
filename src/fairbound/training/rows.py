"""Training rows in cell order: each cell is a contiguous slice, and its gradient is a product over that slice.

A sample of rows (a mini-batch or a subset) has the same form with larger weights.  If n_k of the N_k rows of a cell are
drawn, weights N_k/n_k give unbiased estimates of the loss, of cell sums, and of rates that are linear in them (Theorem
3, for any cells).

Conventions
-----------
A *segment* is a contiguous slice of rows of one cell: the whole cell or, in a sample, one of its two halves.  The
difference of the halves gives unbiased estimates of squares (see `SquaredMeasure`).

Several processes may share the rows.  Then all have the same segments, each with its own rows, and a sample is drawn
from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from fairbound._mapped import MappedArray, map_rows
from fairbound._sharing import gathered, total
from fairbound._weights import WeightParts, check_weights, scale_weights
from fairbound.fairness import Cells
from fairbound.training.chunks import Chunk, Floats, Slices

Permutation = Callable[[int], NDArray[np.int64]]
"""Returns the numbers below n in random order, such as the method `permutation` of a generator of numpy."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in segment order, with their weights.

    Attributes
    ----------
    X : array or sparse matrix by rows, of shape (n, ...)
    labels : array of shape (n,)
        The class index that is the best decision: the label, or the target of the cells.
    loss_weights : array of shape (n,)
        The sum of loss_weights · ℓ over all rows is the mean loss, or an estimate of it.
    cell_weights : array of shape (n,)
        The sum of cell_weights · φ over a cell is S_k, or an estimate of it.
    offsets : tuple of int
        Segment q has the rows offsets[q] to offsets[q + 1].  It may have none.
    cell_of_segment : array of shape (Q,)
    halves : bool
        Whether each pair of segments is the two halves of a cell.
    positions : array of shape (n,)
        Position of each row in the original data.
    given : array, sparse matrix or None
        The inputs as given, in their original order and precision.
    processes : Processes or None
        Those that share the rows.
    """

    X: Any
    labels: NDArray[np.int64]
    loss_weights: Floats
    cell_weights: Floats
    offsets: tuple[int, ...]
    cell_of_segment: NDArray[np.int64]
    halves: bool
    positions: NDArray[np.int64]
    given: Any = field(default=None, repr=False)
    processes: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.offsets[-1]

    @property
    def n_segments(self) -> int:
        """Return the number of segments, Q."""
        return len(self.offsets) - 1

    @cached_property
    def _everywhere(self) -> NDArray[np.int64]:
        """Return the number of rows of each segment in each process."""
        return np.stack(gathered(np.diff(self.offsets), self.processes))

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Return the number of rows of each segment, in all processes that share the fit."""
        found: list[int] = self._everywhere.sum(axis=0).tolist()
        return found

    @property
    def earlier(self) -> Sequence[int]:
        """Return, for each segment, the number of its rows in processes with a lower rank."""
        rank = 0 if self.processes is None else self.processes.rank
        found: list[int] = self._everywhere[:rank].sum(axis=0).tolist()
        return found

    @cached_property
    def class_weights(self) -> Floats:
        """Return the weight of each class in the loss; it is the accuracy of the constant prediction of that class."""
        if self.loss_parts.steps:
            parts = self.loss_parts.split(self.loss_weights)
            own = np.array([np.bincount(self.labels, part) for part in parts]).sum(axis=0)
        else:
            own = np.bincount(self.labels) * self.loss_parts.unit
        classes = max(gathered(len(own), self.processes))
        return total(np.pad(own.astype(np.float64), (0, classes - len(own))), self.processes)

    @cached_property
    def loss_parts(self) -> WeightParts:
        """Return the parts of the weights in the loss, for exact sums."""
        return WeightParts.build(self.loss_weights, self.processes)

    @cached_property
    def cell_parts(self) -> WeightParts:
        """Return the parts of the weights in the cells, for exact sums."""
        return WeightParts.build(self.cell_weights, self.processes)

    def probe(self, count: int = 8) -> Any:
        """Return the inputs of a few rows, spread over the data, because neighbours may be equal."""
        count = min(len(self), count)
        return self.take(np.arange(count) * (len(self) - 1) // max(count - 1, 1)).X

    def cuts(self, chunk_rows: int) -> Iterator[tuple[int, int, Slices]]:
        """Yield (start, stop, slices) of consecutive chunks."""
        segment = 0
        for start in range(0, len(self), chunk_rows):
            stop = min(start + chunk_rows, len(self))
            slices = []
            while segment < self.n_segments and self.offsets[segment] < stop:
                first, last = max(self.offsets[segment], start), min(self.offsets[segment + 1], stop)
                if first < last:
                    slices.append((segment, first - start, last - start))
                if self.offsets[segment + 1] > stop:
                    break
                segment += 1
            yield start, stop, slices

    def sample(self, counts: NDArray[np.int64], permutation: Permutation) -> Rows:
        """Draw a fixed number of rows from each cell without replacement, reweighted by N_k/n_k, in two halves.

        If a single row is drawn from a cell, its first half is empty.  All processes draw the same positions among all
        rows.  So each cell gets its fixed number over all processes.
        """
        if self.halves:
            raise ValueError("A sample is drawn from all rows, not from a sample.")
        sizes = np.array(self.sizes)
        if counts.shape != sizes.shape or (counts < np.minimum(sizes, 1)).any() or (counts > sizes).any():
            raise ValueError(
                f"counts={counts.tolist()}: each of the {len(sizes)} cells needs between 1 row and all its rows "
                f"{sizes.tolist()}."
            )
        # From the smallest cell to the largest, so that the names of groups, which order the cells, make no difference.
        drawn_from = {
            segment: permutation(int(sizes[segment]))[: int(counts[segment])]
            for segment in np.argsort(sizes, kind="stable").tolist()
        }
        picks, offsets = [], [0]
        for segment, (earlier, count) in enumerate(zip(self.earlier, counts.tolist(), strict=True)):
            start, stop = self.offsets[segment], self.offsets[segment + 1]
            positions = drawn_from[segment] - earlier + start
            for half in (positions[: count // 2], positions[count // 2 :]):
                picks.append(half[(half >= start) & (half < stop)])
                offsets.append(offsets[-1] + len(picks[-1]))
        drawn = self.take(np.concatenate(picks))
        factor = np.repeat(np.repeat(sizes / counts, 2), np.diff(offsets))
        return replace(
            drawn,
            loss_weights=drawn.loss_weights * factor,
            cell_weights=drawn.cell_weights * factor,
            offsets=tuple(offsets),
            cell_of_segment=np.repeat(self.cell_of_segment, 2),
            halves=True,
            processes=self.processes,
        )

    @cached_property
    def _cut(self) -> dict[int, Sequence[Chunk]]:
        """Cache of these rows in chunks; the key is the largest number of rows in a chunk."""
        return {}

    def chunks(self, chunk_rows: int) -> Sequence[Chunk]:
        """Return the rows in consecutive chunks of at most `chunk_rows`."""
        if chunk_rows not in self._cut:
            self._cut[chunk_rows] = [
                Chunk(
                    self.X[start:stop],
                    self.labels[start:stop],
                    self.loss_weights[start:stop],
                    self.cell_weights[start:stop],
                    slices,
                )
                for start, stop, slices in self.cuts(chunk_rows)
            ]
        return self._cut[chunk_rows]

    def take(self, chosen: NDArray[np.int64]) -> Rows:
        """Return some rows, by their position in segment order, as one segment of cell 0."""
        return Rows(
            X=self.X[chosen],
            labels=self.labels[chosen],
            loss_weights=self.loss_weights[chosen],
            cell_weights=self.cell_weights[chosen],
            offsets=(0, len(chosen)),
            cell_of_segment=np.zeros(1, dtype=np.int64),
            halves=False,
            positions=self.positions[chosen],
        )

    def in_double(self) -> Rows:
        """Return the rows with inputs in double precision; whole numbers stay as they are."""
        if self.X.dtype.kind != "f" or self.X.dtype == np.float64:
            return self
        wide = self.X if self.given is None else self.given[self.positions]
        return replace(self, X=wide.astype(np.float64), given=None)

    @classmethod
    def build(
        cls,
        X: Any,
        cells: Cells,
        *,
        loss_weights: Any = None,
        dtype: DTypeLike | None = np.float64,
        given: Any = None,
    ) -> Rows:
        """Return all rows of the data, sorted by cell; `loss_weights` are scaled to sum 1 and equal by default."""
        n = len(cells)
        matrix = as_matrix(X, n, dtype)
        weights = np.ones(n)
        if loss_weights is not None:
            weights = scale_weights(check_weights(loss_weights, n, "loss_weights"), cells.processes)
        parts = WeightParts.build(weights, cells.processes)
        order, offsets, present = _in_cell_order(cells.index, cells.sizes)
        return cls(
            X=matrix[order] if sparse.issparse(matrix) else np.asarray(map_rows(matrix, order)),
            labels=(cells.labels if cells.targets is None else cells.targets)[order],
            loss_weights=(weights / (parts.unit * parts.total))[order],
            cell_weights=cells.weights[order],
            offsets=offsets,
            cell_of_segment=present,
            halves=False,
            positions=order,
            given=given,
            processes=cells.processes,
        )

    @classmethod
    def from_batch(cls, X: Any, labels: Any, groups: Any, cells: Cells) -> Rows:
        """Return rows from elsewhere, such as a batch of a `DataLoader`, as a sample of the rows of `cells`.

        Weights scale the rows of each cell to the cell's total, so the rates estimate those of all rows.  In the loss,
        all rows have the same weight.
        """
        found = find_cells(cells, labels, groups, len(X))
        order, offsets, present = _in_cell_order(found, np.bincount(found, minlength=cells.n_cells))
        index = found[order]
        return cls(
            X=X[order],
            labels=index % cells.n_labels,
            loss_weights=np.full(len(X), 1.0 / len(X)),
            cell_weights=(cells.totals[present] / np.diff(offsets)).repeat(np.diff(offsets)),
            offsets=offsets,
            cell_of_segment=present,
            halves=False,
            positions=order,
        )


def _in_cell_order(
    index: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[int, ...], NDArray[np.int64]]:
    """Return the rows sorted by cell, the offsets of the cells that have rows in any process, and these cells."""
    order = np.argsort(index.astype(np.min_scalar_type(len(sizes))), kind="stable")  # linear time for short integers
    counts = np.bincount(index, minlength=len(sizes))
    present = np.flatnonzero(sizes)
    return order, (0, *np.cumsum(counts[present]).tolist()), present


def find_cells(cells: Cells, labels: Any, groups: Any, n: int) -> NDArray[np.int64]:
    """Return the cell of each of n rows, from their labels and groups.

    `groups` is a column of groups or, if there are several sensitive columns, a mapping from names to columns.
    """
    columns = groups if isinstance(groups, Mapping) else {cells.groupings[0].name: groups} if cells.groupings else {}
    lacking = [grouping.name for grouping in cells.groupings if grouping.name not in columns]
    if lacking:
        raise ValueError(f"The groups of a batch lack the columns {lacking}: give a mapping from names to columns.")
    label = _positions(labels, cells.classes, n, "label")
    if (label < 0).any():
        raise ValueError("The labels of a batch have a missing value: every row needs a label.")
    # The positions in all columns, as digits of one number: of each row, and of each combination that the cells have.
    of_rows, of_atoms = np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for name, column in columns.items():
        grouping = cells.grouping(name)
        member = grouping.membership[:-1]
        base = len(grouping.groups) + 1
        of_rows = of_rows * base + _positions(column, grouping.groups, n, f"group of {name!r}") + 1
        of_atoms = of_atoms * base + np.where(member.any(axis=0), member.argmax(axis=0) + 1, 0)
    known, atoms = np.unique(of_atoms, return_index=True)
    place = np.searchsorted(known, of_rows).clip(max=len(known) - 1)
    if (known[place] != of_rows).any():
        raise ValueError(f"The groups of a batch have a combination that the cells do not have, in {list(columns)}.")
    return atoms[place] * cells.n_labels + label


def _positions(values: Any, known: Sequence[Hashable], n: int, what: str) -> NDArray[np.int64]:
    """Return the position of each value among the known ones; -1 for a missing value."""
    if hasattr(values, "dtype"):
        values = np.asarray(values.cpu() if hasattr(values, "cpu") else values)  # a tensor
    at_once = isinstance(values, np.ndarray) and values.dtype.kind in "biufU"  # numbers or texts
    listed = values if at_once or not isinstance(values, np.ndarray) else values.tolist()
    if len(listed) != n:
        raise ValueError(f"A batch has {n} rows of inputs, but {len(listed)} values of the {what}.")
    unknown = -2
    if at_once:
        found = np.full(n, unknown, dtype=np.int64)
        for place, value in enumerate(known):
            found[listed == value] = place
    else:
        places: dict[Any, int] = {value: place for place, value in enumerate(known)}
        found = np.fromiter((places.get(value, unknown) for value in listed), dtype=np.int64, count=n)
    for row in np.flatnonzero(found == unknown):
        value = listed[row].item() if at_once else listed[row]
        if not (value is None or value != value):
            raise ValueError(f"A batch has the {what} {value!r}, which the cells do not have: {list(known)}.")
        found[row] = -1
    return found


def as_numbers(X: Any) -> Any:
    """Return the inputs as an array of numbers, or a sparse matrix by rows, in their own type."""
    if sparse.issparse(X):
        return X.tocsr()
    if hasattr(X, "detach"):  # a tensor
        X = X.detach().cpu().numpy()
    array = X if isinstance(X, MappedArray) else np.ascontiguousarray(X)
    try:
        array = array if array.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must hold numbers, but has values of type {array.dtype}: encode text and categories as numbers."
        ) from error
    return array if array.flags.writeable else array.copy()  # torch warns about read-only arrays


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether all values are finite.  If they are, this is much faster than `isfinite` of each value."""
    # A finite sum proves that all values are finite.  Other sums prove nothing: finite values may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def as_matrix(X: Any, n: int | None, dtype: DTypeLike | None) -> Any:
    """Return the inputs as a matrix of finite numbers with n rows, in their own type if `dtype` is None."""
    matrix = as_numbers(X)
    if matrix.ndim < 2:
        raise ValueError(f"X must have shape (n, features), but has shape {matrix.shape}.")
    if n is not None and matrix.shape[0] != n:
        raise ValueError(f"X has {matrix.shape[0]} rows, but y has {n}: one row per label is needed.")
    if matrix.dtype.kind == "f":
        if not all_finite(_values(matrix)):
            found = matrix.toarray() if sparse.issparse(matrix) else matrix.reshape(len(matrix), -1)
            row, column = np.argwhere(~np.isfinite(found))[0].tolist()
            raise ValueError(
                f"X contains NaN or infinity, first in row {row}, column {column}: impute or drop these values."
            )
        with np.errstate(over="ignore"):
            matrix = matrix if dtype is None else matrix.astype(dtype, copy=False)
        if not all_finite(_values(matrix)):
            raise ValueError(f"X contains values too large for {np.dtype(dtype)}: scale the inputs.")
        return matrix
    return matrix if dtype is None else matrix.astype(dtype)


def _values(matrix: Any) -> NDArray[Any]:
    return matrix.data if sparse.issparse(matrix) else matrix
