"""Values as people give them: arrays of them, numbers among them, and which of them can be labels or groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from fairbound._errors import InputError, InputTypeError


def as_values(values: Any, name: str) -> np.ndarray:
    """Return values as numpy reads them; lists of different lengths among them are refused.

    >>> as_values([1, 2], "y")
    array([1, 2])
    """
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            "{name} holds lists of different lengths.", "Give one value for each row.", name=name
        ) from None


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Return numbers as an array; the first value that is no number is named."""
    try:
        if np.asarray(values).dtype.kind == "c":
            raise TypeError
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "{name} must be numbers, but contain {value!r}.", name=name, value=_first_that_is_none(values)
        ) from None


def _first_that_is_none(values: Any) -> Any:
    for value in np.asarray(values, dtype=object).ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            return value
    return values


def equals_itself(value: Any) -> bool:
    """Tell a value from NaN, NaT, and gaps of other libraries, which refuse to be compared."""
    try:
        return bool(value == value)
    except (TypeError, ArithmeticError):  # pandas.NA; a signalling NaN
        return False
    except ValueError:  # an array, which is no single value, but no gap
        return True


def in_order(values: Iterable[Any], name: str) -> list[Hashable]:
    """Return the distinct values, sorted within their types; refuse what has no order, or is no single value.

    >>> in_order(["b", "a", "b"], "sex")
    ['a', 'b']
    """
    try:
        distinct = dict.fromkeys(values)
        found = sorted(distinct, key=lambda value: (type(value).__name__, value))
        _ = [value < value for value in found]  # one value alone is not compared by sorting
        return found
    except TypeError:
        pass
    odd = next(value for value in values if not isinstance(value, str | int | float))
    raise InputTypeError(
        "{name} holds {value} of type {kind}.",
        "Give words, numbers, or other values that can be sorted, one for each row.",
        name=name,
        value=_shown(odd),
        kind=type(odd).__name__,
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
