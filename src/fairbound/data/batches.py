"""The rows of one source, in batches: Parquet files, delimited text (CSV), and Arrow tables and streams.

A batch is an Arrow table of stored values: those of the file, and text for every column of a text file.  `learn` finds
the format of each column.  Values are then read by these formats, so that a row has the same meaning whatever other
rows are read with it.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, argument
from fairbound._words import did_you_mean, listed, names_in_one
from fairbound.data.arrow import column_values, import_pyarrow, is_date, is_supported, is_text, plain_type
from fairbound.data.formats import MISSING, ColumnFormat, FormatLearner

BLOCK_ROWS = 2**16
"""Most rows of a batch of a Parquet file, and rows of a block of which statistics are computed."""

BYTES_PER_VALUE = 300
"""Bytes of memory per value of a table in a study, which has several copies as objects, text and numbers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Batches(ABC):
    """Rows of named columns, in batches; create it with `open_batches`.

    Attributes
    ----------
    place : str
        The name of the source in messages.
    names : tuple of str
        All columns.
    formats : dict of str to ColumnFormat
        The format of each column that is used.
    codes : set of str
        Columns of labels, groups and categories, whose values must stay apart.
    n_rows : int
        The number of rows, 0 if it is not known.
    share : pair of int
        The rank of this process and the number of processes; (0, 1) reads all rows.
    is_typed : bool
        Whether columns have types; those of a text file are all text.
    delimiter, encoding : str
        Those of a text file, which are also used to write its rows.
    """

    place: str
    names: tuple[str, ...]
    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)
    codes: frozenset[str] = frozenset()
    n_rows: int = 0
    share: tuple[int, int] = (0, 1)
    is_typed: bool = True
    delimiter: str = ","
    encoding: str = "utf-8"

    @abstractmethod
    def stored(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield tables of stored values in the order of the rows, each with the number of its first row.

        Rows of other processes may be left out.
        """

    @abstractmethod
    def kind(self, name: str) -> Any:
        """Return the pyarrow type of a column."""

    def size(self) -> float:
        """Return about how many bytes of memory the rows take in a study, which has several copies of them."""
        return self.n_rows * len(self.names) * BYTES_PER_VALUE

    @property
    def own(self) -> tuple[int, int]:
        """Return the first row of this process, and the first one after its rows.

        The shares follow each other, so that the rows of all processes have the order of the source.
        """
        rank, count = self.share
        return self.n_rows * rank // count, self.n_rows * (rank + 1) // count

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield the rows of this process, as `stored` does."""
        begin, end = self.own if self.share[1] > 1 else (0, sys.maxsize)
        for first, table in self.stored(columns):
            if first >= end:
                return
            start, stop = max(begin - first, 0), min(end - first, table.num_rows)
            if stop > start:
                yield first + start, table.slice(start, stop - start)

    def check_column(self, name: str, role: Any) -> None:
        """Raise an error if a name is not a column; `role` says what names it, such as an argument."""
        if name not in self.names:
            raise no_column(self.place, name, self.names, role)

    def check(self, columns: Mapping[str, Any]) -> None:
        """Raise an error for unknown columns or unsupported types; `columns` maps names to roles for messages."""
        for name, role in columns.items():
            self.check_column(name, role)
            kind = self.kind(name)
            if not is_supported(kind):
                raise InputError(
                    "Column {column!r} of {place} has the type {kind}.",
                    "Give numbers, dates or text, or leave it out with {ignore=}.",
                    column=name,
                    place=self.place,
                    kind=kind,
                )

    def learn(
        self,
        names: Sequence[str] | None = None,
        *,
        words: Collection[str] = (),
        missing: Collection[str] = MISSING,
        decimal: str | None = None,
        formats: Mapping[str, ColumnFormat] | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Self:
        """Return the source with the formats of its columns.

        Parameters
        ----------
        names : sequence of str, optional
            The columns that are used; by default all.
        words : collection of str
            Columns of labels, groups and other categories.  They are numbers only if all values are written as Python
            writes them: "$5", "1,5", "unknown" and "01" are words there.
        missing : collection of str
            Texts that mean a missing value.
        decimal : {".", ","}, optional
            The decimal mark of all numbers in text; by default it is inferred.
        formats : mapping of str to ColumnFormat, optional
            Known formats, from the training file.
        progress : function of int
            Called with the number of rows that have been read.
        """
        used = list(self.names if names is None else names)
        if self.is_typed:
            # Typed columns have nulls, so nothing is inferred; only an empty text also counts as missing.
            text = ColumnFormat(missing=("",) if tuple(missing) == MISSING else tuple(missing))
            kinds = {name: self.kind(name) for name in used}
            number = {name: ColumnFormat("number", dates=is_date(plain_type(kind))) for name, kind in kinds.items()}
            learnt = {name: text if is_text(kind) else number[name] for name, kind in kinds.items()}
            rows = self.n_rows
        else:
            learnt, rows = self._learn_text(used, words, missing, decimal, progress)
        return replace(self, formats={**learnt, **(formats or {})}, codes=frozenset(words), n_rows=rows)

    def _learn_text(
        self,
        names: Sequence[str],
        words: Collection[str],
        missing: Collection[str],
        decimal: str | None,
        progress: Callable[[int], None],
    ) -> tuple[dict[str, ColumnFormat], int]:
        """Return the formats of columns of text and the number of rows, from one pass over all rows, or two."""
        learners = {
            name: FormatLearner(missing, codes=name in words, decimal=None if name in words else decimal)
            for name in names
        }
        rows = 0
        for _, table in self.stored(names):
            for name, learner in learners.items():
                learner.add(table.column(name).unique().to_pylist())
            rows += table.num_rows
            progress(rows)
        again = [name for name, learner in learners.items() if learner.undecided]
        for _, table in self.stored(again) if again else ():
            for name in again:
                learners[name].add_again(table.column(name).unique().to_pylist())
        return {name: each.result() for name, each in learners.items()}, rows

    def values(self, name: str, column: Any, first: int | None = None) -> NDArray[Any]:
        """Return stored values as they are meant, numbers or words; `first` is the row of the first one, if known."""
        quick = _cast(column, self.formats[name]) if is_text(column.type) else None
        if quick is not None:
            return quick
        found = column_values(column, codes=name in self.codes)
        if found.dtype.kind in "if" or not is_text(column.type):  # large codes have become text
            return found
        return self.formats[name].read(found.tolist(), name, lambda row: self._at(row, first))

    def _at(self, row: int, first: int | None) -> str:
        return self.place if first is None else f"row {first + row + 1:,} of {self.place}"

    def distinct(self, name: str, values: Sequence[Any]) -> NDArray[Any]:
        """Return distinct stored values of a column as they are meant."""
        pa = import_pyarrow()
        return self.values(name, pa.chunked_array([pa.array(values, plain_type(self.kind(name)))]))

    def hold(self, columns: Sequence[str] | None = None) -> ArrowTable:
        """Return the source with its rows in memory."""
        pa = import_pyarrow()
        names = list(self.names) if columns is None else list(columns)
        table = pa.concat_tables([table for _, table in self.stored(names)])
        if not table.num_rows:
            raise ValueError(f"{self.place} has no row; give at least one.")
        shared = {each.name: getattr(self, each.name) for each in fields(Batches)}
        return ArrowTable(**{**shared, "names": tuple(names), "n_rows": table.num_rows, "table": table})


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrowTable(Batches):
    """A table in memory."""

    table: Any

    @classmethod
    def of(cls, table: Any, place: str = "the table") -> ArrowTable:
        """Return the source of a pyarrow table, or of columns by name."""
        if isinstance(table, Mapping):
            pa = import_pyarrow()
            table = pa.table({name: pa.array(list(values), from_pandas=True) for name, values in table.items()})
        names = tuple(table.column_names)
        check_distinct(names, place)
        return cls(place=place, names=names, n_rows=table.num_rows, table=table)

    def stored(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield slices of the table."""
        table = self.table.select(list(columns))
        for first in range(0, table.num_rows, BLOCK_ROWS):
            yield first, table.slice(first, BLOCK_ROWS)

    def kind(self, name: str) -> Any:
        """Return the pyarrow type of a column."""
        return self.table.schema.field(name).type


def check_distinct(names: Sequence[str], place: str) -> None:
    """Raise an error if two columns have one name."""
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"Two columns of {place} are named {twice[0]!r}; give each its own name.")


def no_column(place: str, name: str, names: Collection[str], role: Any) -> InputError:
    """Return the error for a column that a table does not have; `role` says what names it, such as an argument."""
    near: str = did_you_mean(name, names)
    several = names_in_one(name, list(names))
    if several and isinstance(role, Message):
        near = Message(" Name each column separately: {each}.", each=argument(role.arguments[0], several))
    return InputError(
        "{place} has no column {column!r} ({role}).{near} It has {known}.",
        place=place,
        column=name,
        role=role,
        near=near,
        known=listed(names),
    )


def _cast(column: Any, form: ColumnFormat) -> NDArray[Any] | None:
    """Return text as numbers at once, if they are written as Python writes them; None if they must be read singly."""
    if form.kind != "number" or not form.is_plain:
        return None
    pa = import_pyarrow()
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    known = pc.invert(pc.is_in(text, pa.array([*form.missing], text.type)))
    text = pc.if_else(known, text, None)
    try:
        found = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    if not text.null_count:
        try:
            found = text.cast(pa.int64())
        except pa.ArrowInvalid:
            if pc.all(pc.match_substring_regex(text, "^[+-]?[0-9]+$")).as_py():
                return None  # such as +5, or more than 64 bits
    return np.asarray(found.to_numpy())
