"""Convert and check values given by users: arrays, numbers, labels, groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, InputTypeError


def as_values(values: Any, name: str) -> np.ndarray:
    """Return values as a numpy array; lists of different lengths raise an error.

    >>> as_values([1, 2], "y")
    array([1, 2])
    """
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            "{name} holds lists of different lengths.", "Give one value for each row.", name=name
        ) from None


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """Return a list as an array of objects, unchanged."""
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # numpy would make further dimensions of lists among them
        array[row] = value
    return array


def with_gaps(values: Any) -> Any:
    """Return a masked array with NaN or None in its masked places; return anything else unchanged."""
    if not np.ma.isMaskedArray(values):
        return values
    if not np.ma.getmaskarray(values).any():
        return values.data
    found = np.array(values.data, dtype=values.dtype if values.dtype.kind == "f" else object)
    found[np.ma.getmaskarray(values)] = np.nan if found.dtype.kind == "f" else None
    return found


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Return numbers as a float array; the error names the first value that is not a number."""
    try:
        if np.asarray(values).dtype.kind == "c":
            raise TypeError
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        row, value = _first_non_number(values)
        problem = "{name} must hold numbers only, but has {value!r} in row {row:,}."
        raise InputError(problem, name=name, value=value, row=row) from None


def _first_non_number(values: Any) -> tuple[int, Any]:
    rows = np.asarray(values, dtype=object)
    for row, given in enumerate(rows.reshape(len(rows), -1).tolist() if rows.ndim else [[values]], 1):
        for value in given:
            if np.ndim(value) > 0:  # older numpy turns an array with one element into a number, with a warning
                return row, value
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                return row, value
    return 1, values


def exact_array(values: Any) -> np.ndarray:
    """Return an array with the values as given.

    `numpy.asarray` alone would turn a list of strings and NaN into strings, and nullable integers into floats.  It
    would also drop the mask of a masked array.
    """
    values = with_gaps(values)
    try:
        array = np.asarray(values)
    except ValueError:  # sequences of different lengths
        raise ValueError("One value per row is needed, but some rows hold several: give a flat sequence.") from None
    if array.dtype.kind in "fUS" and not isinstance(getattr(values, "dtype", None), np.dtype):
        for exact in ("to_pylist", "to_list"):  # pyarrow and polars round large integers beside missing ones
            if array.ndim == 1 and hasattr(values, exact):
                return as_objects(getattr(values, exact)())
        return np.asarray(values, dtype=object)
    return array


def is_gap(value: object) -> bool:
    """Return whether a value is None, NaN, or the missing value of another library."""
    try:  # missing values differ from themselves, or the comparison fails
        return value is None or not bool(value == value)
    except (TypeError, ArithmeticError):  # pandas.NA; a signalling NaN
        return True
    except ValueError:  # an array: not a single value, but not missing either
        return False


def in_order(values: Iterable[Any], name: str) -> list[Hashable]:
    """Return the distinct values, sorted within their types; values that cannot be sorted or hashed raise an error.

    >>> in_order(["b", "a", "b"], "sex")
    ['a', 'b']
    """
    try:
        distinct = dict.fromkeys(values)
        found = sorted(distinct, key=lambda value: (type(value).__name__, value))
        _ = [value < value for value in found]  # sorting a single value compares nothing, so compare it here
        return found
    except TypeError:
        pass
    odd = next(value for value in values if not isinstance(value, str | int | float))
    raise InputTypeError(
        "{name} holds {value} of type {kind}.",
        "Give words, numbers, or other values that can be sorted, one for each row.",
        name=name,
        value=_shortened(odd),
        kind=type(odd).__name__,
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def has_infinity(array: NDArray[np.float64]) -> bool:
    """Return whether an array has an infinite value.  A finite sum shows quickly that it has none."""
    with np.errstate(over="ignore", invalid="ignore"):
        return not np.isfinite(array.sum()) and bool(np.isinf(array).any())


def find_value(value: Hashable, known: Sequence[Hashable]) -> int | None:
    """Return the position of a value among the known ones, or None.  Compare values first, then texts."""
    if value in known:
        return known.index(value)
    for write in (str, lambda each: f"{each:g}" if isinstance(each, float) else str(each)):
        texts = [write(each) for each in known]
        if str(value) in texts:
            return texts.index(str(value))
    return None
