"""Read files that do not fit in memory, in blocks: a Parquet file, a folder of Parquet files, or a CSV file.

A CSV file has no types.  So a typed copy is made first (`typed_copies`), from which all blocks are read.

Values have the same meaning as in `read_table`: numbers are float64 with NaN for missing ones, and the values of a
category are interpreted in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, missing_extra
from fairbound._files import existing_file
from fairbound._values import distinct
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.table import no_column
from fairbound.data.tablefile import (
    column_values,
    common_type,
    is_supported,
    is_text,
    plain_type,
    unreadable_parquet,
    unsupported_type,
)

Progress = Callable[[int], None]
"""Called with the number of rows that were read since the last call."""

BLOCK_ROWS = 2**16
"""Rows of a block; only the last block of a pass may have fewer."""

GROUPS_PER_PROCESS = 4
"""With fewer row groups per process, shares would be uneven.  Then each process reads all and takes its rows."""

MOST_VALUES = 1_000_000
"""Most distinct values of a text column.  A column with more is probably an identifier, and would fill the memory."""


@dataclass(frozen=True, eq=False)
class TableStream:
    """Parquet files that are read in blocks; create it with `TableStream.open`.

    Attributes
    ----------
    paths : tuple of Path
        The Parquet files, in the order of their names.
    formats : dict of str to ColumnFormat
        The format of each column, as `read_table` learns it.
    place : str
        The name of the source in messages.
    dropped : tuple of str
        Columns of a text file that were not copied.
    share : pair of int
        The rank of this process and the number of processes; (0, 1) reads all rows.  If there are many row groups, each
        process reads its share of them.  Otherwise it takes its share of the rows of each block.
    is_copy : bool
        Whether this is the typed copy of a text file.
    """

    paths: tuple[Path, ...]
    formats: Mapping[str, ColumnFormat]
    place: str
    dropped: tuple[str, ...] = ()
    share: tuple[int, int] = (0, 1)
    is_copy: bool = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, missing: Collection[str] = MISSING) -> TableStream:
        """Open a Parquet file, or all Parquet files of a folder."""
        found = parquet_files(Path(path))
        kinds = _schema(found[0])
        for other in found[1:]:
            names = _schema(other).names
            if names != kinds.names:
                odd = [*(set(names) ^ set(kinds.names)), *names][0]
                raise ValueError(
                    f"{other.name} has other columns than {found[0].name}, or another order ({odd!r}); give all files "
                    "of a folder the same columns."
                )
        twice = [name for name in kinds.names if kinds.names.count(name) > 1]
        if twice:
            raise ValueError(f"Two columns of {Path(path).name} are named {twice[0]!r}; give each its own name.")
        # Parquet has types and nulls, so nothing is inferred; only an empty text also counts as missing.
        text = replace(ColumnFormat(), missing=("",) if tuple(missing) == MISSING else tuple(missing))
        opened = cls(found, dict.fromkeys(kinds.names, text), Path(path).name)
        formats = {name: text if is_text(kind) else ColumnFormat("number") for name, kind in opened.kinds.items()}
        return replace(opened, formats=formats)

    @property
    def names(self) -> list[str]:
        """Return the names of all columns."""
        return list(self.formats)

    @cached_property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return sum(_metadata(path).num_rows for path in self.paths)

    @cached_property
    def n_row_groups(self) -> int:
        """Return the number of row groups of all files."""
        return sum(_metadata(path).num_row_groups for path in self.paths)

    @cached_property
    def kinds(self) -> dict[str, Any]:
        """Return the pyarrow type of each column; if the files differ, a type that holds the values of all of them."""
        schemas = [_schema(path) for path in self.paths]
        return {name: common_type([each.field(name).type for each in schemas]) for name in schemas[0].names}

    def _kind(self, name: str) -> Any:
        """Return the type of a column; raise an error if no type holds the values of all files."""
        if self.kinds[name] is None:
            known = {str(_schema(path).field(name).type): path.name for path in self.paths}
            raise InputError(
                "Column {column!r} of {place} has different types: {known}.",
                "Write all files of a folder with the same types, or leave the column out with {ignore=}.",
                column=name,
                place=self.place,
                known=", ".join(f"{kind} in {file}" for kind, file in known.items()),
            )
        return self.kinds[name]

    def check(self, columns: Mapping[str, str]) -> None:
        """Raise an error for unknown columns or unsupported types; `columns` maps names to roles for messages."""
        for name, role in columns.items():
            if name not in self.formats:
                raise no_column(self.place, name, self.names, role)
            kind = self._kind(name)
            if not is_supported(kind):
                raise unsupported_type(name, self.place, kind)
        if not self.n_rows:
            raise ValueError(f"{self.place} has no row; give at least one.")

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[Any]:
        """Yield all rows as pyarrow tables of a few thousand rows, in the order of the files."""
        for _, table in self.placed_batches(columns):
            yield table
            if progress is not None:
                progress(table.num_rows)

    def placed_batches(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield tables as `batches` does, each with the number of its first row over all files."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        # Few batches are read ahead: the default of pyarrow keeps hundreds of megabytes.
        options = {"columns": list(columns), "batch_size": BLOCK_ROWS, "batch_readahead": 2, "fragment_readahead": 1}
        group, start, (rank, count) = 0, 0, self.share
        by_group = count > 1 and self.n_row_groups >= GROUPS_PER_PROCESS * count
        for path in self.paths:
            try:
                dataset = ds.dataset(path, format="parquet")
                pieces = [(0, dataset)]
                if by_group:
                    groups = [each for part in dataset.get_fragments() for each in part.split_by_row_group()]
                    sizes = [each.row_groups[0].num_rows for each in groups]
                    places = [sum(sizes[:place]) for place in range(len(groups))]
                    dealt = enumerate(zip(places, groups, strict=True), start=group)
                    pieces = [piece for number, piece in dealt if number % count == rank]
                    group += len(groups)
                for place, piece in pieces:
                    first = start + place
                    for batch in piece.to_batches(**options):
                        rows, table = batch.num_rows, pa.Table.from_batches([batch])
                        begin, end = (0, rows) if by_group else (rows * rank // count, rows * (rank + 1) // count)
                        if end > begin:
                            yield first + begin, self._typed(table.slice(begin, end - begin))
                        first += rows
                start += _metadata(path).num_rows
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise unreadable_parquet(path.name, error) from error

    def _typed(self, table: Any) -> Any:
        """Return a table with the types that all files have in common."""
        for place, field in enumerate(table.schema):
            kind = self._kind(field.name)
            if field.type != kind:  # beside fractions, large integers are rounded, as in text files
                table = table.set_column(place, field.name, table.column(place).cast(kind, safe=False))
        return table

    def head(self, rows: int) -> Any:
        """Return the first rows as a pyarrow table, without columns whose types differ too much between files."""
        import pyarrow as pa

        parts: list[Any] = []
        for table in self.batches([name for name, kind in self.kinds.items() if kind is not None]):
            parts.append(table)
            if sum(each.num_rows for each in parts) >= rows:
                break
        return pa.concat_tables(parts).slice(0, rows)

    def distinct(self, name: str, values: Sequence[Any], *, codes: bool = True) -> NDArray[Any]:
        """Return distinct values of a column as `read_table` would read them."""
        import pyarrow as pa

        kind = plain_type(self.kinds[name])
        found = column_values(pa.chunked_array([pa.array(values, kind)]), name, self.place, codes=codes)
        return self.formats[name].read(found.tolist(), name) if is_text(kind) else found


def blocks(tables: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of some tables in blocks of exactly `BLOCK_ROWS`; the last block may be smaller.

    Statistics are computed block by block, so that their rounding does not depend on how the file is divided.
    """
    import pyarrow as pa

    held: list[Any] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        while rows >= BLOCK_ROWS:
            whole = pa.concat_tables(held)
            yield whole.slice(0, BLOCK_ROWS)
            held, rows = [whole.slice(BLOCK_ROWS)], rows - BLOCK_ROWS
    if rows:
        yield pa.concat_tables(held)


def as_numbers(column: Any, name: str, place: str) -> NDArray[np.float64]:
    """Return a pyarrow column of numbers as float64, NaN for missing ones; infinity is an error."""
    values = column_values(column, name, place)
    if values.dtype.kind not in "iuf":
        raise InputError("Column {column!r} of {place} has text.", "Give numbers.", column=name, place=place)
    found = np.asarray(values, dtype=np.float64)
    if np.isinf(found).any():
        raise ValueError(f"Column {name!r} of {place} has the value {found[np.isinf(found)][0]}; give finite numbers.")
    return found


class ValueCodes:
    """Codes of the distinct values of a column, in the order in which they occur; None has a code, too."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[Any, int] = {}

    @property
    def values(self) -> list[Any]:
        """Return the values in the order of their codes."""
        return list(self.places)

    def codes(self, column: Any) -> NDArray[np.int64]:
        """Return the code of each value of a pyarrow column, and learn new values."""
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        own = np.empty(len(coded.dictionary), dtype=np.int64)
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


class RowCounts:
    """The combinations of label and groups that occur (entries), and the number of rows of each in both parts.

    Attributes
    ----------
    codes : list of ValueCodes
        For the label and each sensitive column.
    rows : list of array of shape (entries,)
        Number of rows of the training part and of the held-out part.
    weight : list of array
        Their total weights.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.codes = [ValueCodes(name) for name in names]
        self.places: dict[tuple[int, ...], int] = {}
        self.rows = [np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)]
        self.weight = [np.zeros(0), np.zeros(0)]

    def entries(self, table: Any) -> NDArray[np.int64]:
        """Return the entry of each row of a table; new combinations become entries."""
        columns = [codes.codes(table.column(codes.name)) for codes in self.codes]
        whole, size = columns[0], len(self.codes[0].places)
        for codes, column in zip(self.codes[1:], columns[1:], strict=True):
            if size * len(codes.places) > 2**20:  # keep the table of combinations small
                found, whole = distinct(whole)
                size = len(found)
            whole, size = whole * len(codes.places) + column, size * len(codes.places)
        row_of = np.full(size, -1, dtype=np.int64)
        row_of[whole] = np.arange(len(whole))  # some row of each combination
        place_of = np.full(size, -1, dtype=np.int64)
        for combination in np.flatnonzero(row_of >= 0):
            key = tuple(int(column[row_of[combination]]) for column in columns)
            place_of[combination] = self.places.setdefault(key, len(self.places))
        return place_of[whole]

    def combinations(self) -> list[tuple[Any, ...]]:
        """Return the label and the groups of each entry, as values of the file."""
        values = [codes.values for codes in self.codes]
        return [tuple(known[code] for known, code in zip(values, key, strict=True)) for key in self.places]

    def listed(self) -> list[tuple[tuple[Any, ...], list[int], list[float]]]:
        """Return the label and the groups of each entry, and its rows and weights by part."""
        return [
            (key, [int(rows[place]) for rows in self.rows], [float(weight[place]) for weight in self.weight])
            for place, key in enumerate(self.combinations()[: len(self.rows[0])])
        ]

    def add_listed(self, entries: Sequence[tuple[tuple[Any, ...], list[int], list[float]]]) -> None:
        """Add the entries that another process returned from `listed`."""
        for values, rows, weights in entries:
            key = tuple(
                codes.places.setdefault(value, len(codes.places))
                for codes, value in zip(self.codes, values, strict=True)
            )
            place = self.places.setdefault(key, len(self.places))
            if place == len(self.rows[0]):
                self.rows = [np.append(each, 0) for each in self.rows]
                self.weight = [np.append(each, 0.0) for each in self.weight]
            for part in range(2):
                self.rows[part][place] += rows[part]
                self.weight[part][place] += weights[part]

    def add(self, entries: NDArray[np.int64], weights: NDArray[np.float64], part: int) -> None:
        """Count rows of a part."""
        lacking = len(self.places) - len(self.rows[0])
        if lacking:
            self.rows = [np.concatenate([rows, np.zeros(lacking, dtype=np.int64)]) for rows in self.rows]
            self.weight = [np.concatenate([weight, np.zeros(lacking)]) for weight in self.weight]
        self.rows[part] += np.bincount(entries, minlength=len(self.places))
        np.add.at(self.weight[part], entries, weights)  # row by row, in the same order as for rows in memory

    def column(self, position: int, stream: TableStream) -> NDArray[Any]:
        """Return the label (position 0) or a group of each entry."""
        codes = self.codes[position]
        return stream.distinct(codes.name, codes.values)[np.array([key[position] for key in self.places])]


def parquet_files(path: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a path, in the order of their names: the file itself, or those of a folder."""
    if path.is_dir():
        found = sorted(
            each for each in path.rglob("*.parquet") if each.is_file() and not each.name.startswith((".", "_"))
        )
        if not found:
            raise FileNotFoundError(
                f"{path} is a folder without Parquet files; give a Parquet file or a folder of them."
            )
        return tuple(found)
    return (existing_file(path),)


def _schema(path: Path) -> Any:
    _metadata(path)
    import pyarrow.parquet as pq

    return pq.read_schema(path)


def _metadata(path: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("Reading Parquet files needs", "pyarrow", "data") from error
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable_parquet(path.name, error) from error
