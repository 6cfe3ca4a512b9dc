"""A table: named raw columns, with a schema that says whether each is a number or a category.

`Table.encode` returns the matrix of inputs. `make_frame` returns a DataFrame of pandas, polars or pyarrow, whichever is
installed, for estimators that encode columns themselves. `taken_for` reports columns whose interpretation is not
obvious, and `find_leaks` those that may leak the label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from fairbound.data.columns import Categorical, Column, Columns, Encoded, Numeric, is_missing, name_words
from fairbound.data.formats import ColumnFormat
from fairbound.data.labels import as_word
from fairbound.data.stored import StoredColumns

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
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
    >>> from fairbound.data.columns import Categorical, Numeric
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
        stored = self.columns.select(names) if isinstance(self.columns, StoredColumns) else None
        object.__setattr__(self, "columns", stored or {name: self.columns[name] for name in names})

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
        if isinstance(self.columns, StoredColumns):
            return Table(self.schema, self.columns.take(rows), self.formats)
        return Table(self.schema, {name: values[rows] for name, values in self.columns.items()}, self.formats)

    def missing(self) -> dict[str, int]:
        """Return the number of missing values of each column that has some."""
        counts = {name: int(is_missing(values).sum()) for name, values in self.columns.items()}
        return {name: count for name, count in counts.items() if count}

    def encode(self) -> Encoded:
        """Return the matrix of the inputs, and the names of its columns."""
        encoded = [column.encode(self.columns[column.name]) for column in self.schema]
        names = [name for _, names in encoded for name in names]
        return np.concatenate([matrix for matrix, _ in encoded], axis=1), names

    def show(self) -> Columns:
        """Return the columns for display: numbers, words for categories, None for missing words."""
        return {column.name: column.show(self.columns[column.name]) for column in self.schema}

    def frame(self, backend: Backend | None = None) -> Any:
        """Return the columns as a DataFrame; columns in files are one of pyarrow."""
        if isinstance(self.columns, StoredColumns):
            return self.columns.frame(self.schema)
        return make_frame(self.show(), backend)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the files of the columns; None if they are in memory."""
        return self.columns.folder if isinstance(self.columns, StoredColumns) else None


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


# --- taken -----------------------------------------------------------------------------------------------------------

# `read_table` must decide whether 08001 is a quantity, whether 1,234 has a decimal comma, and whether n/a is a
# category. Each such decision is reported, with the option of `read_table` that changes it.


FEWEST_ROWS = 20
"""With fewer rows, all values may differ although the column is not an identifier."""

_NUMBERS = ColumnFormat("number")
_IDENTIFIERS = frozenset({"id", "ids", "identifier", "uuid", "key", "ssn", "account", "passport", "serial"})
_AREAS = frozenset({"zip", "zipcode", "postcode", "postalcode", "postal", "plz", "fips"})
_CODES = frozenset({
    "code", "codes", "type", "class", "category", "region", "district", "state", "county", "occupation", "industry",
    "race", "ethnicity", "marital", "status", "year", "month", "weekday",
})  # fmt: skip
_DATE = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}(\D|$)|\d{1,2}([-/. ])(\d{1,2}|[A-Za-z]{3,9})\3(\d{4}|\d\d)(\D|$)")
"""The beginning of a date: 2024-01-31, 2024/1/31, 31.1.2024, 1/31/24, 31 Jan 2024; a time may follow."""


@dataclass(frozen=True)
class Taken:
    """How one column was interpreted.

    Attributes
    ----------
    column : str
    kind : {"number", "category"}
    remark : str
        Why the interpretation is not obvious.
    example : str
        A value of the file, and its interpretation.
    option : str
        The option of `read_table` that changes the interpretation.
    value : str or int
        The value for that option.
    """

    column: str
    kind: Literal["number", "category"]
    remark: str
    example: str
    option: str
    value: str | int


def taken_for(table: Table) -> tuple[Taken, ...]:
    """Return how the inputs of a file were interpreted, for columns where that is not obvious."""
    found = []
    for column in table.schema:
        form, values = table.formats.get(column.name), table.columns[column.name]
        known = values[~is_missing(values)]
        if form is None or not len(known):
            continue
        found.append(_category(column, form, known) if column.categorical else _number(column.name, form, known))
    return tuple(each for each in found if each is not None)


def _number(name: str, form: ColumnFormat, values: NDArray[Any]) -> Taken | None:
    remarks, option = [], "categorical"
    example = f"{form.example!r}" if form.example else ""
    if not form.is_plain:
        remarks.append(f"with {form.described()}")
    if form.marks:
        remarks.append(f"{', '.join(map(repr, form.marks[:3]))} {'is' if len(form.marks) == 1 else 'are'} missing")
    words = name_words(name)
    whole = bool((values == np.round(values)).all())
    distinct = len(np.unique(values))
    if whole and float(np.abs(values.astype(np.float64)).max()) > 2**53:
        remarks.append("rounded to 53 bits: an identifier?")
        option = "ignore"
    elif whole and _is_identifier(words, values, distinct):
        remarks.append("every value differs: an identifier?")
        option = "ignore"
    elif form.padded or words & _AREAS:
        remarks.append("a code?")
    elif whole and 3 <= distinct <= 50 and words & _CODES:
        remarks.append(f"{distinct} values: a code?")
    if not remarks:
        return None
    if form.example and (not form.is_plain or form.padded):
        example += f" is {as_word(form.number(form.example))}"
    return Taken(name, "number", ", ".join(remarks), example or as_word(values[0]), option, name)


def _category(column: Column, form: ColumnFormat, values: NDArray[Any]) -> Taken | None:
    if form.kind == "number" or form.padded or not isinstance(column, Categorical):
        return None  # the user has declared these codes as categories
    counted = Counter(values.tolist())
    others = [word for word in counted if _NUMBERS.number(str(word)) is None]
    rows = sum(counted[word] for word in others)
    name, distinct = column.name, len(counted)
    if 0 < rows <= 0.2 * len(values):
        shown = max(others, key=lambda word: counted[word])
        remark = f"{len(values) - rows:,} of {len(values):,} values are numbers, but not all"
        return Taken(name, "category", remark, repr(shown), "missing", str(shown))
    if distinct > 2 and all(_DATE.match(str(word)) for word in counted):
        remark = f"{distinct:,} dates, read as words: leave them out, or make numbers of them, such as days"
        return Taken(name, "category", remark, repr(str(values[0])), "ignore", name)
    if len(values) >= FEWEST_ROWS and distinct >= 0.9 * len(values):
        remark = f"{distinct:,} different values: a name or an identifier?"
        return Taken(name, "category", remark, repr(str(values[0])), "ignore", name)
    if column.rest is not None:
        rare = repr(min(counted, key=lambda word: (counted[word], str(word))))
        remark = f"{distinct:,} different values, the rarest share one column"
        return Taken(name, "category", remark, rare, "max_categories", distinct + 1)
    return None


def _is_identifier(words: set[str], values: NDArray[Any], distinct: int) -> bool:
    """Return whether whole numbers look like identifiers: all differ, and the name, density or size suggests it."""
    if len(values) < FEWEST_ROWS or distinct < 0.99 * len(values):
        return False
    low, high = int(values.min()), int(values.max())
    return bool(words & _IDENTIFIERS) or high - low < 2 * len(values) or low >= 10**8


# --- leaks -----------------------------------------------------------------------------------------------------------

# Find columns that almost determine the label: they often record the outcome, which is unknown at decision time.
#
# Each input column is tested by itself, with cross-validation. A rule predicts the label from the column: for words
# the most frequent label of each word, for numbers a small decision tree. Let e be the error of the rule on rows that
# it was not fitted on, and e₀ that of the best constant. The column is suspected if
#
#     1 − e / e₀ ≥ 0.9.
#
# Out-of-fold rows exclude identifiers: a word that occurs at most once in the training folds predicts nothing
# elsewhere.


REMOVED = 0.9
"""Share of the errors of the best constant that a suspected column removes."""

FEWEST_ERRORS = 20
"""If the best constant makes fewer errors than this, no column is suspected: chance alone could remove so few."""

MOST_ROWS = 20_000
"""Largest number of rows used; if there are more, a sample with a fixed seed is drawn."""

FOLDS = 3
LEAVES = 8


@dataclass(frozen=True)
class SuspectedLeak:
    """A column that predicts the label almost without error, by itself.

    Attributes
    ----------
    column : str
    accuracy : float
        Out-of-fold accuracy of the column alone.
    constant : float
        Accuracy of the best constant prediction.
    """

    column: str
    accuracy: float
    constant: float

    def __str__(self) -> str:
        return (
            f"Suspected leak: column {self.column!r} alone predicts {self.accuracy:.1%} of the labels; a constant "
            f"predicts {self.constant:.1%}. Leave the column out if it is recorded after the outcome, or made from it."
        )


def find_leaks(table: Table, y: IntArray) -> list[SuspectedLeak]:
    """Return the columns that almost determine the label, the strongest first (see `Dataset.suspected_leaks`)."""
    rows = np.random.RandomState(0).permutation(len(y))[:MOST_ROWS]
    labels, folds = y[rows], np.arange(len(rows)) % FOLDS
    wrong = len(labels) - int(np.bincount(labels).max())
    if wrong < FEWEST_ERRORS:
        return []
    found = []
    for name, values in table.take(rows).show().items():
        words = name in table.categorical or values.dtype.kind not in "iufb"
        predict, column = (
            (_predict_from_words, _codes(values)) if words else (_predict_from_numbers, values.astype(np.float64))
        )
        errors, most = 0, (1 - REMOVED) * wrong
        for fold in range(FOLDS):
            training, held_out = folds != fold, folds == fold
            errors += int((predict(column[training], labels[training], column[held_out]) != labels[held_out]).sum())
            if errors > most:  # usually in the first fold; there may be thousands of columns
                break
        else:
            found.append(SuspectedLeak(name, 1 - errors / len(labels), 1 - wrong / len(labels)))
    return sorted(found, key=lambda leak: -leak.accuracy)


def _codes(values: NDArray[Any]) -> IntArray:
    """Return an integer code for each word; missing is a word of its own."""
    words = np.where(is_missing(values), "", np.char.add("=", values.astype(np.str_)))
    return np.unique(words, return_inverse=True)[1].astype(np.int64)


def _predict_from_words(codes: IntArray, labels: IntArray, held_out: IntArray) -> IntArray:
    """Predict the most frequent label of each word; words that occur at most once are treated as one word."""
    size, classes = max(codes.max(), held_out.max()) + 1, labels.max() + 1
    counts = np.bincount(codes * classes + labels, minlength=size * classes).reshape(size, classes)
    rare = counts.sum(axis=1) <= 1
    counts[rare] = counts[rare].sum(axis=0) if counts[rare].any() else counts.sum(axis=0)
    return np.asarray(counts.argmax(axis=1)[held_out], dtype=np.int64)


def _predict_from_numbers(values: FloatArray, labels: IntArray, held_out: FloatArray) -> IntArray:
    """Predict labels from numbers with a small decision tree; missing numbers may form a leaf."""
    known = np.unique(values[~np.isnan(values)])
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=5, random_state=0)
    ranks, asked = _ranks(values, known), _ranks(held_out, known)
    gaps = bool(np.isnan(ranks).any() or np.isnan(asked).any())
    tree.fit(ranks, labels, check_input=gaps)  # checks take most of the time of a small tree
    return np.asarray(tree.predict(asked, check_input=gaps), dtype=np.int64)


def _ranks(values: FloatArray, known: FloatArray) -> NDArray[np.float32]:
    """Return the rank of each number among the known ones; the tree uses float32, which merges large numbers."""
    ranks = np.where(np.isnan(values), np.nan, np.searchsorted(known, values))
    return ranks.astype(np.float32)[:, None]
