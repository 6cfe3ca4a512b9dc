"""Count the rows of each combination of label and groups, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._values import distinct
from fairbound.data.batches import Batches

MOST_VALUES = 1_000_000
"""Most distinct values of a text column.  A column with more is probably an identifier, and would fill the memory."""


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

    def column(self, position: int, source: Batches) -> NDArray[Any]:
        """Return the label (position 0) or a group of each entry."""
        codes = self.codes[position]
        return source.distinct(codes.name, codes.values)[np.array([key[position] for key in self.places])]
