"""Columns in files that are mapped into memory: the rows of a table that does not fit in it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._mapped import BLOCK, check_disk, in_folder, map_rows
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import Batches
from fairbound.data.columns import Column, is_missing

MOST_VALUES = 1_000_000
"""Most distinct values of a column of words.  A column with more is an identifier, and would fill the memory."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of words or codes: its distinct values, and the place of each row's value among them."""

    codes: NDArray[np.int32]
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredColumns(Mapping[str, NDArray[Any]]):
    """Columns by name, each in a file; an entry is read when it is asked for.

    Attributes
    ----------
    folder : Path
        Where the files are made.
    stored : dict of str to array or Coded
    """

    folder: Path
    stored: dict[str, NDArray[Any] | Coded] = field(repr=False)

    def __getitem__(self, name: str) -> NDArray[Any]:
        found = self.stored[name]
        return found.values[found.codes] if isinstance(found, Coded) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def select(self, names: Sequence[str]) -> StoredColumns:
        """Return some of the columns."""
        return StoredColumns(self.folder, {name: self.stored[name] for name in names})

    def take(self, rows: NDArray[np.intp]) -> StoredColumns:
        """Return some rows, in files of their own."""
        return StoredColumns(
            self.folder,
            {
                name: Coded(map_rows(each.codes, rows, self.folder), each.values)
                if isinstance(each, Coded)
                else map_rows(each, rows, self.folder)
                for name, each in self.stored.items()
            },
        )

    def frame(self, schema: Sequence[Column]) -> Any:
        """Return the columns as a pyarrow table, without copying the rows."""
        pa = import_pyarrow()
        columns = {}
        for column in schema:
            found = self.stored[column.name]
            if isinstance(found, Coded):
                words = pa.array(column.show(found.values).tolist(), pa.string())
                columns[column.name] = pa.DictionaryArray.from_arrays(pa.array(found.codes), words)
            else:
                columns[column.name] = pa.array(found)
        return pa.table(columns)


def take_rows(columns: Mapping[str, NDArray[Any]], rows: NDArray[np.intp]) -> Mapping[str, NDArray[Any]]:
    """Return some rows of columns, where the columns are: in memory, or in files."""
    if isinstance(columns, StoredColumns):
        return columns.take(rows)
    return {name: values[rows] for name, values in columns.items()}


def distinct_rows(
    columns: Mapping[str, NDArray[Any]], name: str, *, numbers: bool = True
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return values of a column, and the place of each row's value among them.

    The values of words are distinct.  Without `numbers`, those of numbers are all values, and the places are empty.
    """
    column = columns.stored[name] if isinstance(columns, StoredColumns) else columns[name]
    if isinstance(column, Coded):
        present = np.flatnonzero(np.bincount(column.codes, minlength=len(column.values)))
        place = np.empty(len(column.values), dtype=np.int64)
        place[present] = np.arange(len(present))
        return column.values[present], place[column.codes]
    if column.dtype.kind in "iuf":
        return np.unique(column, return_inverse=True) if numbers else (column, np.empty(0, np.int64))
    known: dict[Any, int] = {}
    of_row = np.array([known.setdefault(value, len(known)) for value in column.tolist()], dtype=np.int64)
    return column[np.unique(of_row, return_index=True)[1]], of_row


def count_rows(columns: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the combinations of values that occur in some columns, and the number of rows of each."""
    coded = {name: distinct_rows(columns, name) for name in columns}
    of_row = np.zeros(len(next(iter(coded.values()))[1]), dtype=np.int64)
    for values, codes in coded.values():
        of_row = np.unique(of_row * len(values) + codes, return_inverse=True)[1]
    _, some, rows = np.unique(of_row, return_index=True, return_counts=True)
    return {name: values[codes[some]] for name, (values, codes) in coded.items()}, rows


class ValueCodes:
    """Codes of the distinct values of a column, in the order in which they occur; None has a code, too."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[Any, int] = {}

    def codes(self, column: Any) -> NDArray[np.int32]:
        """Return the code of each value of a pyarrow column, and learn new values."""
        pa = import_pyarrow()
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        own = np.empty(len(coded.dictionary), dtype=np.int32)
        for place, value in enumerate(coded.dictionary.to_pylist()):
            key = None if value != value else value  # NaN is missing
            own[place] = self.places.setdefault(key, len(self.places))
        if len(self.places) > MOST_VALUES:
            raise InputError(
                "Column {column!r} has more than {most:,} different values, too many for categories.",
                "Leave it out with {ignore=}.",
                column=self.name,
                most=MOST_VALUES,
            )
        return own[np.asarray(coded.indices)]


class _Growing:
    """An array in a file, to which values are added; whole numbers become floats if other numbers follow."""

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self.folder, self.files, self.kind, self.rows = folder, files, np.dtype(np.int32), 0
        self.file: Any = files.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115

    def add(self, values: NDArray[Any]) -> None:
        if not self.rows:
            self.kind = values.dtype
        elif values.dtype.kind == "f" and self.kind.kind == "i":
            before, self.kind = self.array(), values.dtype
            self.file = self.files.enter_context(tempfile.TemporaryFile(dir=self.folder))  # noqa: SIM115
            for start in range(0, self.rows, BLOCK):
                self.file.write(before[start : start + BLOCK].astype(self.kind).tobytes())
        self.file.write(values.astype(self.kind, copy=False).tobytes())
        self.rows += len(values)

    def array(self) -> NDArray[Any]:
        self.file.flush()
        return in_folder(np.memmap(self.file, self.kind, "r+", shape=(self.rows,)), self.folder)


def store(
    source: Batches, folder: Path, progress: Callable[[int], None] = lambda _: None
) -> tuple[StoredColumns, NDArray[np.int64]]:
    """Write the columns of a source to files, as they are meant; return them, and the place of each row."""
    names = list(source.formats)
    check_disk(8 * len(names) * source.n_rows // source.share[1], folder)
    coded = {name: ValueCodes(name) for name in names if name in source.codes or source.formats[name].kind == "text"}
    with ExitStack() as files:
        growing, places = {name: _Growing(folder, files) for name in names}, [np.empty(0, np.int64)]
        for first, table in source.batches(names):
            for name, column in growing.items():
                values = table.column(name)
                column.add(coded[name].codes(values) if name in coded else source.values(name, values, first))
            places.append(np.arange(first, first + table.num_rows))
            progress(sum(map(len, places)))
        if len(places) == 1:
            rank, count = source.share
            raise ValueError(
                f"{source.place} has no row to train on for process {rank} of {count}: start fewer processes, or give "
                "more rows."
            )
        found = {name: _meant(source, coded.get(name), column.array()) for name, column in growing.items()}
    return StoredColumns(folder, found), np.concatenate(places)


def _meant(source: Batches, codes: ValueCodes | None, array: NDArray[Any]) -> NDArray[Any] | Coded:
    """Return a column with the values that its stored ones mean: " a" and "a" are one word."""
    if codes is None:
        return array
    values = source.distinct(codes.name, list(codes.places))
    keys = [None if gap else value for value, gap in zip(values.tolist(), is_missing(values).tolist(), strict=True)]
    known = {key: place for place, key in reversed(list(enumerate(keys)))}
    order = {place: new for new, place in enumerate(sorted(known.values()))}
    own = np.array([order[known[key]] for key in keys], dtype=np.int32)
    for start in range(0, len(array), BLOCK):
        array[start : start + BLOCK] = own[array[start : start + BLOCK]]
    return Coded(array, values[sorted(known.values())])
