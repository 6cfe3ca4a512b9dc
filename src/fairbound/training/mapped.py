"""Rows in a folder, in cell order, mapped into memory: chunks are read from disk as a sweep needs them.

Numbers are stored twice: in single precision for the sweeps, and in double precision for the last checks, with exactly
the values that a prediction uses.  A category is stored as the index of its 0/1 column; chunks have the 0/1 columns
themselves.  Labels and groups are not stored, because they follow from the order.  Weights are stored only if they
differ.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.training.chunks import Chunk, Floats, Slices, WeightParts
from fairbound.training.rows import MatrixRows, Rows

NARROW, WIDE, CODES, LOSS_WEIGHTS, CELL_WEIGHTS = "numbers.f4", "numbers.f8", "codes", "loss.f8", "cells.f8"


@dataclass(frozen=True)
class RowLayout:
    """The inputs of a module as they are stored.

    Attributes
    ----------
    width : int
        Number of inputs.
    numbers : tuple of int
        The places of the numbers among the inputs.
    categories : tuple of (int, int)
        For each category, the place of its first 0/1 column, and the number of these columns.
    """

    width: int
    numbers: tuple[int, ...]
    categories: tuple[tuple[int, int], ...]

    @property
    def code_type(self) -> np.dtype[Any]:
        """Return the smallest type for the codes; the largest code means that no column is 1."""
        return np.min_scalar_type(max((size for _, size in self.categories), default=0))

    def types(self, *, loss_weights: bool, cell_weights: bool) -> dict[str, tuple[np.dtype[Any], int]]:
        """Return the type and the number of columns of each file."""
        found: dict[str, tuple[np.dtype[Any], int]] = {
            NARROW: (np.dtype(np.float32), len(self.numbers)),
            WIDE: (np.dtype(np.float64), len(self.numbers)),
            CODES: (self.code_type, len(self.categories)),
            LOSS_WEIGHTS: (np.dtype(np.float64), int(loss_weights)),
            CELL_WEIGHTS: (np.dtype(np.float64), int(cell_weights)),
        }
        return {name: kind for name, kind in found.items() if kind[1]}

    def row_bytes(self) -> int:
        """Return the bytes of a row on disk, without weights."""
        types = self.types(loss_weights=False, cell_weights=False)
        return sum(kind.itemsize * columns for kind, columns in types.values())


class RowWriter:
    """Writes rows into the files of a folder, sorted by cell.

    Parameters
    ----------
    folder : Path
        An empty folder.
    layout : RowLayout
    sizes : sequence of int
        The number of rows of each cell.
    loss_weights, cell_weights : bool
        Whether rows have weights in the loss and in the cells.
    """

    def __init__(
        self, folder: Path, layout: RowLayout, sizes: Sequence[int], *, loss_weights: bool, cell_weights: bool
    ) -> None:
        self.folder, self.layout = folder, layout
        self.types = layout.types(loss_weights=loss_weights, cell_weights=cell_weights)
        self.offsets = (0, *np.cumsum(np.asarray(sizes, dtype=np.int64)).tolist())
        self.next = list(self.offsets[:-1])
        self.files = {name: os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600) for name in self.types}
        for name, (kind, columns) in self.types.items():
            os.truncate(self.files[name], self.offsets[-1] * kind.itemsize * columns)

    def write(self, cells: NDArray[np.int64], parts: dict[str, NDArray[Any]]) -> None:
        """Write a block of rows; `parts` has an array for each file except `NARROW`, which is made from `WIDE`."""
        order = np.argsort(cells, kind="stable")
        sizes = np.bincount(cells, minlength=len(self.next)).tolist()
        for name, (kind, columns) in self.types.items():
            block = np.ascontiguousarray(parts[WIDE if name == NARROW else name][order], dtype=kind)
            start = 0
            for cell, size in enumerate(sizes):
                if size:
                    place = self.next[cell] * kind.itemsize * columns
                    data = memoryview(block[start : start + size].view(np.uint8).reshape(-1))  # type: ignore[arg-type]
                    while data:
                        written = os.pwrite(self.files[name], data, place)
                        data, place = data[written:], place + written
                    start += size
        self.next = [place + size for place, size in zip(self.next, sizes, strict=True)]

    def close(self) -> None:
        """Close the files."""
        for file in self.files.values():
            os.close(file)
        self.files = {}

    def rows(self, n_labels: int) -> MappedRows:
        """Return the rows that were written; cells without rows have no segment."""
        assert self.next == list(self.offsets[1:]), "every row has been written"
        self.close()
        sizes = np.diff(self.offsets)
        present = np.flatnonzero(sizes)
        return MappedRows(
            self.folder,
            self.layout,
            offsets=(0, *np.cumsum(sizes[present]).tolist()),
            cell_of_segment=present,
            n_labels=n_labels,
            weighted=(LOSS_WEIGHTS in self.types, CELL_WEIGHTS in self.types),
        )


@dataclass(frozen=True, eq=False)
class MappedRows(Rows):
    """Rows in a folder; `RowWriter.rows` makes them.

    Attributes
    ----------
    weighted : pair of bool
        Whether there are files of weights, in the loss and in the cells.
    class_factors : tuple of float, or None
        Factors on the loss weights of the rows of each label.
    double : bool
        Whether chunks have numbers in double precision.
    """

    folder: Path
    layout: RowLayout
    offsets: tuple[int, ...]
    cell_of_segment: NDArray[np.int64]
    n_labels: int
    weighted: tuple[bool, bool] = (False, False)
    class_factors: tuple[float, ...] | None = None
    double: bool = False
    halves: bool = False

    @cached_property
    def _maps(self) -> dict[str, NDArray[Any]]:
        types = self.layout.types(loss_weights=self.weighted[0], cell_weights=self.weighted[1])
        # Mode "c" (copy on write), because torch warns about read-only arrays.  Nothing is written.
        return {
            name: np.memmap(self.folder / name, kind, "c", shape=(len(self), columns))
            for name, (kind, columns) in types.items()
            if name != (NARROW if self.double else WIDE)
        }

    def inputs(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        """Return the inputs of some rows, with the 0/1 columns of the categories."""
        numbers = self._maps.get(WIDE if self.double else NARROW)
        if not self.layout.categories:
            assert numbers is not None
            return np.asarray(numbers[rows])
        codes = self._maps[CODES][rows]
        X = np.zeros((len(codes), self.layout.width), dtype=np.float64 if self.double else np.float32)
        if numbers is not None:
            X[:, self.layout.numbers] = numbers[rows]
        for column, (start, size) in enumerate(self.layout.categories):
            known = np.flatnonzero(codes[:, column] < size)
            X[known, start + codes[known, column].astype(np.intp)] = 1.0
        return X

    def chunks(self, chunk_rows: int) -> Iterator[Chunk]:
        """Yield the rows in consecutive chunks of at most `chunk_rows`."""
        for rows, labels, slices in self._cuts(chunk_rows):
            yield Chunk(self.inputs(rows), labels, self._loss_weights(rows, labels), self._cell_weights(rows), slices)

    def take(self, chosen: NDArray[np.int64]) -> MatrixRows:
        """Return some rows, by their position in segment order, as one segment of cell 0."""
        segments = np.searchsorted(np.array(self.offsets), chosen, side="right") - 1
        labels = (self.cell_of_segment % self.n_labels)[segments]
        return MatrixRows(
            X=self.inputs(chosen),
            labels=labels,
            loss_weights=self._loss_weights(chosen, labels),
            cell_weights=self._cell_weights(chosen),
            offsets=(0, len(chosen)),
            cell_of_segment=np.zeros(1, dtype=np.int64),
            halves=False,
            positions=chosen,
        )

    def in_double(self) -> MappedRows:
        """Return the rows with inputs in double precision."""
        return replace(self, double=True)

    def _loss_weights(self, rows: slice | NDArray[np.int64], labels: NDArray[np.int64]) -> Floats:
        if not self._differ[0]:
            return np.full(_count(rows), 1.0 / len(self))
        return self._given_weights(rows, labels) / self._loss_total

    def _given_weights(self, rows: slice | NDArray[np.int64], labels: NDArray[np.int64]) -> Floats:
        """Return the weights in the loss before they are scaled to sum 1."""
        if self.class_factors is None:
            return np.asarray(self._maps[LOSS_WEIGHTS][rows, 0])
        factors = np.array(self.class_factors)[labels]
        return self._maps[LOSS_WEIGHTS][rows, 0] * factors if self.weighted[0] else factors

    def _cell_weights(self, rows: slice | NDArray[np.int64]) -> Floats:
        if not self.weighted[1]:
            return np.ones(_count(rows))
        return np.asarray(self._maps[CELL_WEIGHTS][rows, 0])

    @property
    def _differ(self) -> tuple[bool, bool]:
        """Return whether the weights of rows differ, in the loss and in the cells."""
        return self.weighted[0] or self.class_factors is not None, self.weighted[1]

    @cached_property
    def _loss_total(self) -> float:
        return self._parts(self._given_weights).total

    @cached_property
    def loss_parts(self) -> WeightParts:
        """Return the parts of the weights in the loss, for exact sums."""
        if not self._differ[0]:
            return WeightParts(1.0 / max(len(self), 1), (), float(len(self)))  # `max`: a process may have no rows
        return self._parts(self._loss_weights)

    @cached_property
    def cell_parts(self) -> WeightParts:
        """Return the parts of the weights in the cells, for exact sums."""
        if not self._differ[1]:
            return WeightParts(1.0, (), float(len(self)))
        return self._parts(lambda rows, _: self._cell_weights(rows))

    @cached_property
    def class_weights(self) -> Floats:
        """Return the weight of each class in the loss; it is the accuracy of the constant prediction of that class."""
        sizes = np.diff(self.offsets)
        labels = self.cell_of_segment % self.n_labels
        if not self._differ[0]:
            return np.asarray(np.bincount(labels, sizes, self.n_labels) * self.loss_parts.unit, dtype=np.float64)
        found = np.zeros((2, self.n_labels))  # one line for each exact part of the weights
        for rows, of_rows, _ in self._cuts(BLOCK):
            for place, part in enumerate(self.loss_parts.split(self._loss_weights(rows, of_rows))):
                found[place] += np.bincount(of_rows, part, self.n_labels)
        return found.sum(axis=0)

    def _cuts(self, chunk_rows: int) -> Iterator[tuple[slice, NDArray[np.int64], Slices]]:
        """Yield consecutive rows with their labels and slices."""
        of_segment = self.cell_of_segment % self.n_labels
        for start, stop, slices in self.cuts(chunk_rows):
            sizes = [last - first for _, first, last in slices]
            labels = of_segment[[segment for segment, _, _ in slices]].repeat(sizes)
            yield slice(start, stop), labels, slices

    def _parts(self, weights: Callable[[slice, NDArray[np.int64]], Floats]) -> WeightParts:
        """Return the parts of all weights, in two passes; `weights` returns those of given rows and labels."""
        largest = max((float(weights(rows, labels).max()) for rows, labels, _ in self._cuts(BLOCK)), default=1.0)
        blank = WeightParts.of_size(largest, len(self), 0.0)
        totals = [0.0, 0.0]
        for rows, labels, _ in self._cuts(BLOCK):
            for place, part in enumerate(blank.split(weights(rows, labels))):
                totals[place] += float(part.sum())
        return replace(blank, total=sum(totals))


BLOCK = 2**20
"""Rows that are read at once where the caller does not give a size."""


def _count(rows: slice | NDArray[np.int64]) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)
