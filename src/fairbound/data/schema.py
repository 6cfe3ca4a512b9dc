"""The schema of a table: how each raw column is encoded and shown.

A column becomes a number, one-hot columns over known values, or one-hot columns over bands of codes.

The known values are part of the schema and not learnt from the rows, so that any part of a file gives the same columns.
Missing values (None or NaN) of numbers stay missing. Missing categories are one more category, if the schema has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairbound._values import is_gap

Encoded = tuple[NDArray[np.float64], list[str]]


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
        return np.array([is_gap(value) for value in values.tolist()], dtype=bool)
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
        return np.asarray(found)[position]
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
