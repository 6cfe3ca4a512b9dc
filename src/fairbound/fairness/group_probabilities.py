"""Groups that are known with probabilities only: a row counts in each group with its probability as weight.

Such a column is kept as a structured array of shape (n,) with one field for each group.  So it is cut and joined like
any other column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fairbound._sharing import total
from fairbound._values import exact_array, is_gap
from fairbound.fairness.columns import name_columns

SUM_TOLERANCE = 1e-6
"""By rounding, the probabilities of a row may add up to 1 plus this much; then they are divided by their sum."""


def holds_probabilities(column: Any) -> bool:
    """Return whether a sensitive column is a table: one column of probabilities for each group."""
    if isinstance(column, Mapping) or (hasattr(column, "columns") and hasattr(column, "shape")):
        return True
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, np.dtype) and (dtype.names is not None or (len(column.shape) == 2 and column.shape[1] > 1))


def read_probabilities(name: str, table: Any) -> np.ndarray:
    """Return the probabilities of the groups as a structured array, one field for each group; NaN is unknown.

    A table with a single column, such as "old", gets a second group "not old" with one minus the probability.  With
    several columns, what is missing to a sum of 1 belongs to an unknown group.

    >>> read_probabilities("age", {"old": [0.25, 1.0]})
    array([(0.25, 0.75), (1.  , 0.  )], dtype=[('old', '<f8'), ('not old', '<f8')])
    """
    if isinstance(table, Mapping):
        pairs: Iterable[tuple[Any, Any]] = table.items()
    elif isinstance(table, np.ndarray) and table.dtype.names is None:
        pairs = enumerate(table.T)
    else:
        names = table.dtype.names if isinstance(table, np.ndarray) else getattr(table, "column_names", table.columns)
        pairs = ((group, table[group]) for group in names)
    given = name_columns(pairs, f"Sensitive column {name!r}")
    if not given or "" in given:
        lacks = "a group without a name" if given else "no group"
        raise ValueError(f"Sensitive column {name!r} has {lacks}: give a named column of probabilities for each one.")
    columns = {group: _read_numbers(name, group, values) for group, values in given.items()}
    lengths = {group: len(values) for group, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The probabilities of {name!r} have different numbers of rows: {lengths}.")
    matrix = np.stack(list(columns.values()), axis=1)
    known = ~np.isnan(matrix)
    for bad, what in (
        (known.any(axis=1) & ~known.all(axis=1), "must be known for all groups, or for none"),
        (((matrix < 0) | (matrix > 1)).any(axis=1), "must be from 0 to 1"),
        (matrix.sum(axis=1) > 1 + SUM_TOLERANCE, "must add up to at most 1; divide each row by its sum"),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            listed = ", ".join(f"{group}: {value:g}" for group, value in zip(columns, matrix[row], strict=True))
            raise ValueError(f"The probabilities of {name!r} in row {row + 1} are {listed}: they {what}.")
    if not known.any():
        raise ValueError(f"Sensitive column {name!r} has no known value: every row is missing.")
    matrix = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1.0)
    groups = list(columns)
    if len(groups) == 1:
        groups, matrix = [groups[0], f"not {groups[0]}"], np.hstack([matrix, 1.0 - matrix])
    found = np.empty(len(matrix), dtype=[(group, np.float64) for group in groups])
    for place, group in enumerate(groups):
        found[group] = matrix[:, place]
    return found


def with_unknown(column: np.ndarray, name: str) -> np.ndarray:
    """Add a group `name` that holds the unknown share of each row; return the column itself if no share is unknown."""
    weights, _ = group_weights(column)
    groups = column.dtype.names or ()
    if not weights[:, -1].any():
        return column
    if name in groups:
        raise ValueError(f"A group is named {name!r}, but this is the name for unknown groups: rename the group.")
    return read_probabilities(name, {**{group: np.nan_to_num(column[group]) for group in groups}, name: weights[:, -1]})


def _read_numbers(name: str, group: str, values: Any) -> np.ndarray:
    array = exact_array(values)
    if array.ndim != 1:
        raise ValueError(f"The probabilities of {group!r} in {name!r} must have shape (n,), not {array.shape}.")
    if array.dtype.kind == "O":
        array = np.array([math.nan if is_gap(value) else value for value in array.tolist()], dtype=object)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        odd = next((value for value in array.tolist() if not isinstance(value, int | float)), None)
        raise ValueError(
            f"The probabilities of {group!r} in {name!r} must be numbers from 0 to 1, but one is {odd!r}."
        ) from None


def is_divided(column: Any) -> bool:
    """Return whether a sensitive column, as read, has probabilities of groups."""
    return isinstance(column, np.ndarray) and column.dtype.names is not None


def group_weights(column: np.ndarray, processes: Any = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the weights of rows in groups, (n, G + 1), with the unknown share last; and the G groups with weight."""
    matrix = np.nan_to_num(np.stack([column[group] for group in column.dtype.names or ()], axis=1))
    some = total(matrix.sum(axis=0), processes) > 0
    rest = 1.0 - matrix.sum(axis=1)
    rest[rest < SUM_TOLERANCE] = 0.0  # rounding errors
    groups = tuple(group for group, has in zip(column.dtype.names or (), some, strict=True) if has)
    return np.column_stack([matrix[:, some], rest]), groups
