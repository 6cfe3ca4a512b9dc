"""Sort numbers into bands, to form groups by age, income and the like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.data.schema import is_missing


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
