"""Convert and check values given by users: arrays, numbers, labels, groups, weights."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, InputTypeError, bad_value

Label = TypeVar("Label", bound=Hashable)


def as_array(values: Any) -> np.ndarray:
    r"""Return values as a numpy array; texts that end in a zero character are kept as objects.

    numpy's own arrays of text drop zero characters at the end, which would make two different words equal.

    >>> as_array(["a", "a\0"]).tolist()
    ['a', 'a\x00']
    """
    array = np.asarray(values)
    if array.dtype.kind != "U" or isinstance(values, np.ndarray):
        return array
    given = np.asarray(values, dtype=object)
    cut = any(isinstance(value, str) and value.endswith("\0") for value in given.ravel().tolist())
    return given if cut else array


def as_values(values: Any, name: str) -> np.ndarray:
    """Return values as a numpy array; lists of different lengths raise an error.

    >>> as_values([1, 2], "y")
    array([1, 2])
    """
    try:
        return as_array(values)
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
        raise InputError(
            "{name} must hold numbers only, but has {value!r}.", name=name, value=_first_non_number(values)
        ) from None


def _first_non_number(values: Any) -> Any:
    for value in np.asarray(values, dtype=object).ravel().tolist():
        if np.ndim(value) > 0:  # older numpy turns an array with one element into a number, with a warning
            return value
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            return value
    return values


def equals_itself(value: Any) -> bool:
    """Return False for NaN, NaT and other missing values: they differ from themselves, or the comparison fails."""
    try:
        return bool(value == value)
    except (TypeError, ArithmeticError):  # pandas.NA; a signalling NaN
        return False
    except ValueError:  # an array: not a single value, but not missing either
        return True


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
        value=_shown(odd),
        kind=type(odd).__name__,
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- arrays ---------------------------------------------------------------------------------------------------------


def has_infinity(array: NDArray[np.float64]) -> bool:
    """Return whether an array has an infinite value.  A finite sum shows quickly that it has none."""
    with np.errstate(over="ignore", invalid="ignore"):
        return not np.isfinite(array.sum()) and bool(np.isinf(array).any())


# --- distinct values -------------------------------------------------------------------------------------------------


def distinct(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order, and the position of each element among them, as `np.unique` does.

    Labels and groups are whole numbers of a small range, or few words.  Counting or hashing them is ten times faster
    than sorting them.

    >>> distinct(np.array([7, 5, 7]))
    (array([5, 7]), array([1, 0, 1]))
    """
    if array.ndim == 1 and len(array) and array.dtype.kind in "iub":
        low, high = int(array.min()), int(array.max())
        if high - low <= len(array) and max(-low, high) < 2**62:
            shifted = array.astype(np.int64) - low
            present = np.bincount(shifted, minlength=high - low + 1) > 0
            return (np.flatnonzero(present) + low).astype(array.dtype), (np.cumsum(present) - 1)[shifted]
    if array.ndim == 1 and array.dtype.kind in "US":
        few = _few_words(array)
        if few is not None:
            return few
        listed = array.tolist()
        values = sorted(set(listed))
        places = {value: place for place, value in enumerate(values)}
        codes = np.fromiter((places[value] for value in listed), np.int64, len(listed))
        return np.array(values, dtype=array.dtype), codes
    return np.unique(array, return_inverse=True)


FEW = 8
"""Up to this number of distinct words, comparing the array with each word is faster than hashing every element."""


def _few_words(array: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the distinct words in order, and the position of each element; None if there are more than a few."""
    codes, left, words = np.empty(len(array), dtype=np.int64), np.arange(len(array)), list[Any]()
    while len(left):
        if len(words) == FEW:
            return None
        words.append(array[left[0]])
        same = array[left] == words[-1]
        codes[left[same]] = len(words) - 1
        left = left[~same]
    order = np.argsort(np.array(words, dtype=array.dtype))
    return np.array(words, dtype=array.dtype)[order], np.argsort(order)[codes]


# --- weights --------------------------------------------------------------------------------------------------------

# Check and scale the weights of rows.
#
# Sums of weights, and of their squares in some intervals, must neither overflow nor underflow.  A common factor of
# all weights does not change a fit.  So a fit divides by a power of two, which changes no digit.


Floats = NDArray[np.float64]

WIDEST = 2.0**50
"""The largest weight may be at most this many times the smallest; a smaller weight would be lost in a sum."""

LEAST, MOST = 1e-100, 1e100
"""Range of the largest weight where weights are not rescaled."""


def check_weights(weights: Any, n_rows: int, name: str) -> Floats:
    """Return one finite weight of at least 0 for each row, not all 0, within a range that sums can hold.

    >>> check_weights([1, 2, 0], 3, "sample_weight")
    array([1., 2., 0.])
    """
    array = check_each_weight(weights, n_rows, name)
    check_range(float(array[array > 0].min(initial=np.inf)), float(array.max(initial=0.0)), name)
    return array


def check_each_weight(weights: Any, n_rows: int, name: str, first: int = 0) -> Floats:
    """Return one finite weight of at least 0 for each row; `first` rows came before them, for messages."""
    array = np.array(as_numbers(weights, name))
    if array.shape != (n_rows,):
        raise InputError(
            "{name} must have one weight for each row, shape ({rows},), but has shape {shape}.",
            name=name,
            rows=n_rows,
            shape=array.shape,
        )
    gaps = np.flatnonzero(np.isnan(array))
    if len(gaps):
        raise InputError(
            "{name} has no value in {gaps:,} of {rows:,} rows, first in row {row:,}.",
            "Give every row a weight.",
            name=name,
            gaps=len(gaps),
            rows=n_rows,
            row=first + gaps[0] + 1,
        )
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise InputError(
            "{name} is {value:g} in row {row:,}.",
            "Give finite weights of at least 0.",
            name=name,
            value=array[wrong[0]],
            row=first + wrong[0] + 1,
        )
    return array


def check_range(smallest: float, largest: float, name: str) -> None:
    """Raise an error unless sums can hold weights from the smallest above 0 to the largest, and there is one."""
    if not largest:
        raise InputError("{name} is zero in every row.", "Give at least one row a weight above 0.", name=name)
    if smallest < largest / WIDEST:
        raise InputError(
            "{name} ranges from {smallest:g} to {largest:g}, but weights more than {widest:.0e} times smaller than "
            "the largest do not count in a sum.",
            "Set the smallest weights to 0, or bring them closer to the others.",
            name=name,
            smallest=smallest,
            largest=largest,
            widest=WIDEST,
        )


def check_largest_weight(weights: Floats, largest_weight: float) -> None:
    """Raise an error if a row has a larger weight than the stated `largest_weight`."""
    if not 0 < largest_weight < math.inf:
        raise bad_value("largest_weight", largest_weight, "a finite number above 0")
    if len(weights) and weights.max() > largest_weight:
        raise InputError(
            "{largest_weight=value} is below the weight {weight:g} of a row.",
            "State the largest weight that a row can have by design.",
            value=largest_weight,
            weight=weights.max(),
        )


def check_magnitude(weights: Floats, name: str) -> Floats:
    """Return the weights; refuse those whose sums and squares a double cannot hold."""
    largest = float(weights.max())
    if not LEAST <= largest <= MOST:
        raise InputError(
            "The largest weight in {name} is {largest:g}, but must lie between {least:g} and {most:g}.",
            "Multiply all weights by the same factor.",
            name=name,
            largest=largest,
            least=LEAST,
            most=MOST,
        )
    return weights


def scale_weights(weights: Floats) -> Floats:
    """Return the weights times the power of two that brings the largest to at least 1 and below 2.

    >>> scale_weights(np.array([3.0, 6.0]))
    array([0.75, 1.5 ])
    """
    return np.ldexp(weights, 1 - int(np.frexp(weights.max())[1]))


def find_value(value: Hashable, known: Sequence[Hashable]) -> int | None:
    """Return the position of a value among the known ones, or None.  Compare values first, then texts."""
    if value in known:
        return known.index(value)
    for write in (str, lambda each: f"{each:g}" if isinstance(each, float) else str(each)):
        texts = [write(each) for each in known]
        if str(value) in texts:
            return texts.index(str(value))
    return None


def combine_codes(codes: list[np.ndarray], sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct combinations of codes (−1 if missing) in order, and for each row the position of its own."""
    whole = np.zeros(len(codes[0]), dtype=np.int64)
    for code, size in zip(codes, sizes, strict=True):  # codes are the digits of a number, first column first
        whole = distinct(whole)[1] * (size + 1) + code + 1
    found, atom = distinct(whole)
    row = np.empty(len(found), dtype=np.int64)  # some row of each combination
    row[atom] = np.arange(len(whole))
    return np.stack([code[row] for code in codes], axis=1), atom


# --- positive label --------------------------------------------------------------------------------------------------

# The positive one of two labels: the one that a selection rate counts.
#
# For common pairs of labels (0 and 1, no and yes) convention decides, everywhere.  For all other pairs, files and
# commands ask which one it is.  The estimator and `audit` take the last one in sorted order, as scikit-learn does: of
# "approved" and "denied" that is "denied".  So the estimator warns if a limit depends on this choice.


CONVENTIONS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("no", "yes"),
    ("n", "y"),
    ("negative", "positive"),
)
"""Pairs of labels, as lower-case text, of which the second is the positive one."""


def conventional_positive(labels: Sequence[Label]) -> Label | None:
    """Return the positive one of two labels if convention decides, else None.

    >>> conventional_positive([0, 1]), conventional_positive(["YES", "no"]), conventional_positive(["good", "bad"])
    (1, 'YES', None)
    """
    texts = [f"{label:g}" if isinstance(label, float) else str(label).strip().lower() for label in labels]
    for pair in CONVENTIONS:
        if sorted(texts) == sorted(pair):
            return labels[texts.index(pair[1])]
    return None
