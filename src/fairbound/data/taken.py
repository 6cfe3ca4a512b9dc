"""Report how columns of a file were interpreted if that is not obvious, and which of them may leak the label.

`read_table` must decide whether 08001 is a quantity, whether 1,234 has a decimal comma, and whether n/a is a category.
Each such decision is reported, with the option of `read_table` that changes it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from fairbound.data.columns import Categorical, Column, is_missing
from fairbound.data.formats import ColumnFormat
from fairbound.data.labels import as_word
from fairbound.data.table import Table

FEWEST_ROWS = 20
"""With fewer rows, distinct values are no evidence of an identifier."""

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
    words = _tokens(name)
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


def _tokens(name: str) -> set[str]:
    """Return the parts of a name: "customerID" has "customer" and "id"."""
    return set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


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
"""With fewer errors of the best constant no column is suspected, because chance alone could remove so few."""

MOST_ROWS = 20_000
"""Largest number of rows used; of more rows, a sample with a fixed seed."""

FOLDS = 3
LEAVES = 8

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
            f"Suspected leak: column {self.column!r} alone predicts {self.accuracy:.1%} of the labels, a constant "
            f"{self.constant:.1%}. Leave it out if it is recorded after the outcome, or made from it."
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
        right = 0
        for fold in range(FOLDS):
            training, held_out = folds != fold, folds == fold
            right += int((predict(column[training], labels[training], column[held_out]) == labels[held_out]).sum())
        if len(labels) - right <= (1 - REMOVED) * wrong:
            found.append(SuspectedLeak(name, right / len(labels), 1 - wrong / len(labels)))
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
    tree.fit(_ranks(values, known), labels)
    return np.asarray(tree.predict(_ranks(held_out, known)), dtype=np.int64)


def _ranks(values: FloatArray, known: FloatArray) -> FloatArray:
    """Return the rank of each number among the known ones; the tree uses float32, which merges large numbers."""
    return np.where(np.isnan(values), np.nan, np.searchsorted(known, values))[:, None]
