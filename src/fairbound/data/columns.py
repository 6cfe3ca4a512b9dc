"""The columns of a table, in memory or in files: the one form into which the rows of any source are read.

A column of numbers is one array.  A column of words or codes is its distinct values, and the place of each row's value
among them.  The files are mapped into memory, for rows that do not fit in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._mapped import BLOCK, check_disk, in_folder, map_rows
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import Batches
from fairbound.data.schema import Column, is_missing

MOST_VALUES = 1_000_000
"""Most distinct values of a column of words.  A column with more is an identifier, and would fill the memory."""

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of words or codes: its distinct values, and the place of each row's value among them."""

    codes: NDArray[np.int32]
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class TableColumns(Mapping[str, NDArray[Any]]):
    """Columns by name; the values of an entry are made when it is asked for.

    Attributes
    ----------
    stored : dict of str to array or Coded
    folder : Path, or None
        Where the files are; None for columns in memory.
    """

    stored: dict[str, NDArray[Any] | Coded] = field(repr=False)
    folder: Path | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        found = self.stored[name]
        return found.values[found.codes] if isinstance(found, Coded) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> TableColumns:
        """Return some of the columns, given in any form."""
        if isinstance(columns, TableColumns):
            return cls({name: columns.stored[name] for name in names}, columns.folder)
        return cls({name: columns[name] for name in names})

    def take(self, rows: NDArray[Any]) -> TableColumns:
        """Return some rows, where the columns are: in memory, or in files of their own."""
        found: dict[str, NDArray[Any] | Coded] = {}
        for name, each in self.stored.items():
            part = map_rows(each.codes if isinstance(each, Coded) else each, rows, self.folder)
            found[name] = Coded(part, each.values) if isinstance(each, Coded) else part
        return TableColumns(found, self.folder)

    def distinct(self, name: str) -> tuple[NDArray[Any], IntArray]:
        """Return the distinct values of a column that some row has, and the place of each row's value among them."""
        column = self.stored[name]
        if not isinstance(column, Coded):
            return _distinct(column)
        present = np.flatnonzero(np.bincount(column.codes, minlength=len(column.values)))
        place = np.empty(len(column.values), dtype=np.int64)
        place[present] = np.arange(len(present))
        return column.values[present], place[column.codes]

    def values(self, name: str) -> NDArray[Any]:  # type: ignore[override]  # of one column
        """Return the values of a column, those of words without repetitions."""
        column = self.stored[name]
        return self.distinct(name)[0] if isinstance(column, Coded) else column

    def frame(self, schema: Sequence[Column]) -> Any:
        """Return the columns as a pyarrow table, without copying the rows."""
        pa = import_pyarrow()
        columns = {}
        for column in schema:
            found = self.stored[column.name]
            if isinstance(found, Coded) and column.categorical:
                words = pa.array(column.show(found.values).tolist(), pa.string())
                columns[column.name] = pa.DictionaryArray.from_arrays(pa.array(found.codes), words)
            else:
                columns[column.name] = pa.array(self[column.name])
        return pa.table(columns)


def _distinct(column: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    if column.dtype.kind in "iuf":
        return np.unique(column, return_inverse=True)
    known: dict[Any, int] = {}
    of_row = np.array([known.setdefault(value, len(known)) for value in column.tolist()], dtype=np.int64)
    return column[np.unique(of_row, return_index=True)[1]], of_row


def count_rows(columns: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], IntArray]:
    """Return the combinations of values that occur in some columns, and the number of rows of each."""
    held = TableColumns.of(columns, list(columns))
    coded = {name: held.distinct(name) for name in held}
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

    def meant(self, source: Batches, codes: NDArray[Any]) -> Coded:
        """Return the column with the values that the stored ones mean: " a" and "a" are one word."""
        values = source.distinct(self.name, list(self.places))
        keys = [None if gap else value for value, gap in zip(values.tolist(), is_missing(values).tolist(), strict=True)]
        known = {key: place for place, key in reversed(list(enumerate(keys)))}
        order = {place: new for new, place in enumerate(sorted(known.values()))}
        own = np.array([order[known[key]] for key in keys], dtype=np.int32)
        for start in range(0, len(codes), BLOCK):
            codes[start : start + BLOCK] = own[codes[start : start + BLOCK]]
        return Coded(codes, values[sorted(known.values())])


class _Growing:
    """An array to which values are added, in a file or in memory; whole numbers become floats if others follow."""

    def __init__(self, folder: Path | None, files: ExitStack) -> None:
        self.folder, self.files, self.kind, self.rows = folder, files, np.dtype(np.int32), 0
        self.parts: list[NDArray[Any]] = []
        self.file = self._fresh()

    def _fresh(self) -> Any:
        return self.folder and self.files.enter_context(tempfile.TemporaryFile(dir=self.folder))

    def add(self, values: NDArray[Any]) -> None:
        if not self.rows:
            self.kind = values.dtype
        elif values.dtype.kind == "f" and self.kind.kind == "i":
            before, self.kind = self.array(), values.dtype
            self.file, self.parts = self._fresh(), []
            for start in range(0, self.rows, BLOCK):
                self._write(before[start : start + BLOCK])
        self._write(values)
        self.rows += len(values)

    def _write(self, values: NDArray[Any]) -> None:
        values = values.astype(self.kind, copy=False)
        if self.folder is None:
            self.parts.append(values)
        else:
            self.file.write(values.tobytes())

    def array(self) -> NDArray[Any]:
        if self.folder is None:
            return np.concatenate(self.parts)
        self.file.flush()
        return in_folder(np.memmap(self.file, self.kind, "r+", shape=(self.rows,)), self.folder)


class StoredRows(NamedTuple):
    """The columns of a source, and the place of each row in it."""

    columns: TableColumns
    places: IntArray


def store(source: Batches, folder: Path | None = None, progress: Callable[[int], None] = lambda _: None) -> StoredRows:
    """Read the columns of a source that have formats, as they are meant, to files of a folder or to memory."""
    names = list(source.formats)
    if folder is not None:
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
        found: dict[str, NDArray[Any] | Coded] = {
            name: coded[name].meant(source, column.array()) if name in coded else column.array()
            for name, column in growing.items()
        }
    return StoredRows(TableColumns(found, folder), np.concatenate(places))
