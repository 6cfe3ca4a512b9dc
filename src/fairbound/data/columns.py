"""Encode raw columns as inputs, check the arrays of a data set, sort numbers into bands, and read names of columns.

A column becomes a number, one-hot columns over known values, or one-hot columns over bands of codes.

The known values are part of the schema and not learnt from the rows, so that any part of a file gives the same columns.
Missing values (None or NaN) of numbers stay missing. Missing categories are one more category, if the schema has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairbound._errors import InputError
from fairbound._values import as_array, equals_itself

Encoded = tuple[NDArray[np.float64], list[str]]
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Numeric:
    """A quantity or an ordered scale, used as it is."""

    name: str
    categorical: ClassVar[bool] = False

    def encode(self, values: NDArray[Any]) -> Encoded:
        """Return one column, with NaN for missing values."""
        return np.asarray(values, dtype=np.float64)[:, None], [self.name]

    def show(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers."""
        return np.asarray(values)


@dataclass(frozen=True)
class Categorical:
    """Codes or words without an order: one 0/1 column for each value, or a single column for two values.

    Parameters
    ----------
    name : str
        Column of the file.
    labels : mapping
        Value → word, for all known values. Of two values, the second gets the column. The key None is for missing
        values; without it a missing value raises an error.
    rest : str, optional
        Word for all other values, which then share one more column; without it an unknown value raises an error.
    """

    name: str
    labels: Mapping[Any, str]
    rest: str | None = None
    categorical: ClassVar[bool] = True

    def encode(self, values: NDArray[Any]) -> Encoded:
        """Return the 0/1 columns, named `name=word`."""
        words = [*self.labels.values(), *([] if self.rest is None else [self.rest])]
        return _one_hot(self.name, decode(self.name, values, self.labels, self.rest), words)

    def show(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the words of the known values, other values as text, and None for missing ones."""
        return _map_distinct(values, lambda value: self.labels.get(value, str(value)), missing=None)


@dataclass(frozen=True)
class Banded:
    """Codes of a fine classification, grouped into bands: a band begins at its code and ends before the next one.

    Parameters
    ----------
    name : str
        Column of the file.
    starts : mapping
        First code of a band → word, in ascending order.
    """

    name: str
    starts: Mapping[float, str]
    categorical: ClassVar[bool] = True

    def encode(self, values: NDArray[Any]) -> Encoded:
        """Return one 0/1 column for each band, named `name=word`."""
        codes, words = np.asarray(values, dtype=np.float64), np.array(list(self.starts.values()))
        if np.isnan(codes).any():
            raise ValueError(
                f"Column {self.name!r} contains a missing value; give a code from {min(self.starts):g} on."
            )
        band = np.searchsorted(np.array(list(self.starts), dtype=np.float64), codes, side="right") - 1
        if band.min() < 0:
            raise ValueError(
                f"Column {self.name!r} contains {codes.min():g}; the first known code is {min(self.starts):g}."
            )
        return _one_hot(self.name, words[band], words.tolist())

    def show(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the codes themselves as text, not their bands."""
        return _map_distinct(values, lambda value: f"{value:g}", missing=None)


Column = Numeric | Categorical | Banded


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are None or NaN."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        # NaN differs from itself; pandas.NA and the like raise an error when compared, and count as missing, too.
        return np.array([value is None or not equals_itself(value) for value in values.tolist()], dtype=bool)
    return np.zeros(values.shape, dtype=bool)


def decode(name: str, values: NDArray[Any], labels: Mapping[Any, Any], rest: Any = None) -> NDArray[Any]:
    """Replace each value by its label, and unknown ones by `rest`; without `rest` an unknown value raises an error."""

    def label(value: Any) -> Any:
        if value in labels:
            return labels[value]
        if rest is None:
            shown = "a missing value" if value is None else repr(value)
            known = ", ".join(repr(known) for known in labels if known is not None)
            raise ValueError(f"Column {name!r} contains {shown}; known are {known}.")
        return rest

    return _map_distinct(values, label, missing=label)


def _map_distinct(values: NDArray[Any], function: Any, missing: Any) -> NDArray[Any]:
    """Apply a function to each distinct value; missing values become `missing`, or `missing(None)` if callable."""
    absent = is_missing(values)
    if values.dtype.kind == "O":
        table: dict[Any, int] = {}
        position = np.array([table.setdefault(value, len(table)) for value in values[~absent].tolist()], dtype=np.intp)
        found = [function(value) for value in table]
    else:
        distinct, position = np.unique(values[~absent], return_inverse=True)
        found = [function(value) for value in distinct.tolist()]
    if not absent.any():
        return as_array(found)[position]
    result = np.full(len(values), missing(None) if callable(missing) else missing, dtype=object)
    result[~absent] = np.array(found, dtype=object)[position]
    return result


# `estimator.TableEncoder` also makes 0/1 columns, but it learns the words from the rows, and has further columns for
# rare, unseen and missing words.  Here the schema fixes the words, and a category of two words has one column, as in
# the paper.
def _one_hot(name: str, words: NDArray[Any], known: list[str]) -> Encoded:
    shown = known[1:] if len(known) == 2 else known
    return np.stack([words == word for word in shown], axis=1).astype(np.float64), [f"{name}={word}" for word in shown]


def group_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers, with None for missing ones; numpy stores them as floats if some are missing."""
    gaps = is_missing(values)
    if values.dtype.kind == "f" and gaps.any() and (values[~gaps] == values[~gaps].round()).all():
        return np.array([None if gap else int(value) for value, gap in zip(values, gaps, strict=True)], dtype=object)
    return values


# --- arrays ----------------------------------------------------------------------------------------------------------

# Check the arrays of a data set: inputs, labels, groups and weights.


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_inputs(values: ArrayLike) -> FloatArray:
    """Return X as a float64 matrix; infinite values raise an error, NaN means missing."""
    X = np.asarray(values, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}; give a matrix of shape (rows, columns).")
    if len(X) == 0:
        raise ValueError(f"X has shape {X.shape}, so there is no row; give at least one.")
    if np.isinf(X).any():
        row, column = np.argwhere(np.isinf(X))[0]
        raise ValueError(f"X[{row}, {column}] is {X[row, column]}; give finite numbers, or NaN for missing ones.")
    return X


def as_labels(values: ArrayLike, classes: int) -> IntArray:
    """Return y as int64 codes below `classes`."""
    y = np.asarray(values)
    if y.dtype.kind not in "biu":
        raise TypeError(f"y has dtype {y.dtype}; give integer label codes from 0 to {classes - 1}.")
    if y.size and not 0 <= y.min() <= y.max() < classes:
        wrong = y[(y < 0) | (y >= classes)][0]
        raise ValueError(f"y contains {wrong}; give label codes from 0 to {classes - 1}, one for each of target_names.")
    return y.astype(np.int64)


def as_values(values: Any) -> NDArray[Any]:
    """Return an array with the values as given; `numpy.asarray` would turn NaN among words into a word."""
    array = as_array(values)
    if array.dtype.kind == "U" and not isinstance(values, np.ndarray):
        given = np.asarray(values, dtype=object)
        return given if is_missing(given).any() else array
    return array


def without_nan(values: NDArray[Any]) -> NDArray[Any]:
    """Return words with None for missing ones; return numbers unchanged."""
    if values.dtype.kind != "O":
        return values
    return np.array(
        [None if gap else value for value, gap in zip(values, is_missing(values), strict=True)], dtype=object
    )


# --- probabilities ---------------------------------------------------------------------------------------------------

# One sensitive column can be given as several columns of probabilities, one for each group.


def name_probabilities(sensitive: Sequence[str], names: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return the columns of each sensitive column: its own, or those of probabilities, "race=p_white,p_black".

    >>> name_probabilities(["sex", "race=white,black"], ["sex", "white", "black"])
    [('sex', ['sex']), ('race', ['white', 'black'])]
    """
    found = []
    for word in sensitive:
        name, sign, columns = word.partition("=")
        found.append((name, columns.split(",")) if sign and word not in names else (word, [word]))
    return found


def as_probabilities(columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns of probabilities as a structured array of shape (n,), with one field for each group."""
    for name, values in columns.items():
        if values.dtype.kind not in "iufb":
            raise InputError(
                "Column {column!r} ({sensitive=}) has text, but must have probabilities.",
                "Give numbers from 0 to 1.",
                column=name,
            )
    found = np.empty(len(next(iter(columns.values()))), dtype=[(name, np.float64) for name in columns])
    for name, values in columns.items():
        found[name] = values
    return found


def has_probabilities(values: NDArray[Any]) -> bool:
    """Return whether a sensitive column holds probabilities of groups."""
    return values.dtype.names is not None


# --- bands -----------------------------------------------------------------------------------------------------------

# Sort numbers into bands, to form groups by age, income and the like.


def into_bands(values: Any, cuts: Sequence[float], name: str = "values") -> NDArray[Any]:
    """Return the name of the band of each number; None if the number is missing.

    Parameters
    ----------
    values : array of shape (n,)
        Numbers; None and NaN are missing.
    cuts : sequence of float
        Boundaries between the bands, in ascending order. A number that equals a cut belongs to the band above it.
    name : str
        Name of the numbers in error messages.

    Examples
    --------
    >>> into_bands([19, 25, 39.5, 70], [25, 40], name="age").tolist()
    ['below 25', '25 to below 40', '25 to below 40', '40 and above']
    """
    limits = _check_cuts(cuts, name)
    array = np.asarray(values, dtype=object)
    gaps = is_missing(array)
    numbers = np.array([_number(value, row, name) for row, value in enumerate(array.tolist()) if not gaps[row]])
    shown = [f"{limit:g}" for limit in limits]
    words = [
        f"below {shown[0]}",
        *(f"{low} to below {high}" for low, high in pairwise(shown)),
        f"{shown[-1]} and above",
    ]
    found = np.full(len(array), None, dtype=object)
    found[~gaps] = np.array(words, dtype=object)[np.searchsorted(limits, numbers, side="right")]
    return found if gaps.any() else found.astype(np.str_)


def _check_cuts(cuts: Sequence[float], name: str) -> list[float]:
    try:
        limits = [float(cut) for cut in cuts]
    except (TypeError, ValueError) as error:
        raise ValueError(f"The bands of {name!r} are {cuts!r}; give numbers in ascending order.") from error
    ascending = all(low < high for low, high in pairwise(limits))
    if not limits or not np.isfinite(limits).all() or not ascending:
        raise ValueError(f"The bands of {name!r} are {list(cuts)!r}; give finite numbers in ascending order.")
    return limits


def _number(value: Any, row: int, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} has {value!r} in row {row + 1}, which is not a number; bands are for numbers only."
        ) from error


# --- names -----------------------------------------------------------------------------------------------------------

PROTECTED = {
    frozenset(words.split())
    for words in (
        "race", "ethnicity", "ethnic", "ethnic origin", "race ethnicity", "skin color", "skin colour", "caste", "sex",
        "sex birth", "gender", "gender identity", "sexual orientation", "male", "female", "religion", "creed",
        "nationality", "national origin", "native country", "country birth", "citizenship", "disability", "disabled",
        "pregnancy", "pregnant", "marital", "marital sex", "veteran", "age", "birth", "birth date", "birth year",
        "birthdate", "birthday", "dob",
    )
}  # fmt: skip
"""Names of attributes that laws commonly protect, as sets of words."""

BESIDE = frozenset({
    "applicant", "applicants", "at", "band", "borrower", "bracket", "candidate", "category", "class", "client", "code",
    "customer", "employee", "group", "in", "is", "of", "patient", "person", "personal", "reported", "self", "status",
    "the", "type", "user", "worker", "years",
})  # fmt: skip
"""Words beside such a name that do not change its subject.  Others do: the age of a car is not protected."""


def name_words(name: str) -> set[str]:
    """Return the words of a column's name: "customerID" has "customer" and "id"."""
    return set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())) - {""}


def is_protected_name(name: str) -> bool:
    """Return whether a column has the name of a commonly protected attribute.  Its values are not considered.

    >>> [is_protected_name(name) for name in ("race", "applicant_sex", "maritalStatus", "Age in years")]
    [True, True, True, True]
    >>> [is_protected_name(name) for name in ("race_time", "car_age", "account age", "sexton", "group")]
    [False, False, False, False, False]
    """
    return frozenset(name_words(name) - BESIDE) in PROTECTED
