"""A table: named raw columns, with a schema that says whether each is a number or a category.

`Table.encode` returns the matrix of inputs. `make_frame` returns a DataFrame of pandas, polars or pyarrow, whichever is
installed, for estimators that encode columns themselves. `taken_for` reports columns whose interpretation is not
obvious, and `find_leaks` those that may leak the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairbound.data.columns import TableColumns
from fairbound.data.formats import ColumnFormat
from fairbound.data.schema import Column, Numeric, is_missing

Backend = Literal["pandas", "polars", "pyarrow", "dict"]
LIBRARIES: tuple[Backend, ...] = ("pandas", "polars", "pyarrow")
"""Supported DataFrame libraries.  None is required, because a dictionary of columns is accepted everywhere."""


@dataclass(frozen=True, eq=False)
class Table:
    """Raw columns of equal length, in the order of the schema.

    Parameters
    ----------
    schema : sequence of Column
        The kind of each column: `Numeric`, `Categorical` or `Banded`.
    columns : mapping of str to array of shape (n,)
        The values as in the file; None and NaN mean missing. Columns that are not in the schema are dropped.
    formats : mapping of str to ColumnFormat
        Formats of all columns of the file, with label and groups; empty if there was no file.

    Examples
    --------
    >>> import numpy as np
    >>> from fairbound.data.schema import (Categorical, Numeric)
    >>> schema = (Numeric("age"), Categorical("job", {1: "cook", 2: "nurse", 3: "smith"}))
    >>> table = Table(schema, {"age": np.array([30, 41]), "job": np.array([3, 1])})
    >>> table.encode()
    (array([[30., 0., 0., 1.], [41., 1., 0., 0.]]), ['age', 'job=cook', 'job=nurse', 'job=smith'])
    """

    schema: Sequence[Column]
    columns: Mapping[str, NDArray[Any]]
    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", tuple(self.schema))
        names = [column.name for column in self.schema]
        object.__setattr__(self, "columns", TableColumns.of(self.columns, names))

    @classmethod
    def of_numbers(cls, names: Sequence[str], X: NDArray[np.float64]) -> Table:
        """Return the table of a matrix; every column is a number."""
        return cls(tuple(map(Numeric, names)), dict(zip(names, X.T, strict=True)))

    @property
    def categorical(self) -> tuple[str, ...]:
        """Return the names of the columns that are categories, given as words or as integer codes."""
        return tuple(column.name for column in self.schema if column.categorical)

    def take(self, rows: NDArray[Any]) -> Table:
        """Return the given rows, in the given order."""
        return Table(self.schema, self._held.take(rows), self.formats)

    def missing(self) -> dict[str, int]:
        """Return the number of missing values of each column that has some."""
        counts = {name: int(is_missing(values).sum()) for name, values in self.columns.items()}
        return {name: count for name, count in counts.items() if count}

    def encode(self) -> tuple[NDArray[np.float64], list[str]]:
        """Return the matrix of the inputs, and the names of its columns."""
        encoded = [column.encode(self.columns[column.name]) for column in self.schema]
        names = [name for _, names in encoded for name in names]
        return np.concatenate([matrix for matrix, _ in encoded], axis=1), names

    def show(self) -> dict[str, NDArray[Any]]:
        """Return the columns for display: numbers, words for categories, None for missing words."""
        return {column.name: column.show(self.columns[column.name]) for column in self.schema}

    def frame(self, backend: Backend | None = None) -> Any:
        """Return the columns as a DataFrame; columns in files are one of pyarrow."""
        return make_frame(self.show(), backend) if self.folder is None else self._held.frame(self.schema)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the files of the columns; None if they are in memory."""
        return self._held.folder

    @property
    def _held(self) -> TableColumns:
        assert isinstance(self.columns, TableColumns)
        return self.columns


def installed_backend(preferred: Sequence[Backend] = LIBRARIES) -> Backend:
    """Return the first of the libraries that is installed, or "dict" if none is."""
    return next((name for name in preferred if find_spec(name) is not None), "dict")


def make_frame(columns: Mapping[str, NDArray[Any]], backend: Backend | None = None) -> Any:
    """Return a DataFrame of the given columns, with words as categories.

    Parameters
    ----------
    columns : mapping of str to array of shape (n,)
        Numbers, or words with None for missing ones.
    backend : {"pandas", "polars", "pyarrow", "dict"}, optional
        The library of the DataFrame, or "dict" for a dictionary of arrays; by default the first library that is
        installed, or "dict" if there is none.

    Raises
    ------
    ImportError
        If the library is not installed; the message says how to install it.
    """
    if backend is None:
        backend = installed_backend()
    if backend == "dict":
        return dict(columns)
    if backend not in LIBRARIES:
        raise ValueError(f"backend is {backend!r}; give one of {', '.join(map(repr, LIBRARIES))}, or 'dict'.")
    try:
        frame = nw.from_dict({name: _plain(values) for name, values in columns.items()}, backend=backend)
    except ImportError as error:
        raise ImportError(
            f"A table of {backend} needs {backend}: pip install {backend}. Without backend= you get a table of the "
            "library that is installed."
        ) from error
    words = [name for name, kind in frame.schema.items() if kind == nw.String]
    if backend == "pyarrow":  # its own encoding has signed indices, which all versions convert to other libraries
        table = frame.to_native()
        for name in words:
            table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
        return table
    return frame.with_columns(nw.col(*words).cast(nw.Categorical())).to_native() if words else frame.to_native()


def _plain(values: NDArray[Any]) -> Any:
    """Return text as a list of Python strings, which all libraries accept; return numbers unchanged."""
    return values if values.dtype.kind in "iufb" else [None if value is None else str(value) for value in values]
