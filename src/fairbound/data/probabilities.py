"""Groups that are known with probabilities: several columns of a file, one for each group, are one sensitive column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError


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
