"""Read sensitive columns in any common form, and code the entries of their rows.

If groups are known with probabilities only, a row counts in each group with its probability as weight.  Such a column
is kept as a structured array of shape (n,) with one field for each group.  So it is cut and joined like any other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound._sharing import gathered, total
from fairbound._values import exact_array, is_gap
from fairbound.fairness.columns import encode, name_columns

ARRAY_NAME = "sensitive_feature"
"""The name of a column of groups that has none."""


def read_columns(sensitive_features: Any, n: int) -> dict[str, Any]:
    """Return named columns from a mapping, a table with `.columns`, or an array."""
    if sensitive_features is None:
        return {}
    if isinstance(sensitive_features, Mapping):
        columns = name_columns(sensitive_features.items())
    elif hasattr(sensitive_features, "collect_schema") and hasattr(sensitive_features, "collect"):
        raise TypeError("sensitive_features is a lazy table: call .collect() first.")
    elif hasattr(sensitive_features, "columns"):
        names = getattr(sensitive_features, "column_names", sensitive_features.columns)  # pyarrow: `columns` are values
        columns = name_columns((name, None) for name in names)  # rejects a repeated name before it is looked up
        columns = {str(name): sensitive_features[name] for name in names}
    else:
        array = exact_array(sensitive_features)
        if array.ndim == 1:
            columns = {str(getattr(sensitive_features, "name", None) or ARRAY_NAME): sensitive_features}
        elif array.ndim == 2:
            several = array.shape[1] > 1
            columns = {f"{ARRAY_NAME}_{j}" if several else ARRAY_NAME: array[:, j] for j in range(array.shape[1])}
        else:
            raise ValueError(f"sensitive_features must have shape (n,) or (n, columns), not {array.shape}.")
    columns = {
        name: read_probabilities(name, column) if holds_probabilities(column) else column
        for name, column in columns.items()
    }
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            size = f"{shape[0]} rows" if len(shape) == 1 else f"shape {shape}"
            folds = " A search cannot cut a dictionary into folds: give it a DataFrame."
            raise ValueError(
                f"sensitive_features has {size} in {name!r}, but there are {n} rows: one value for each row is needed."
                f"{folds if isinstance(sensitive_features, Mapping) else ''}"
            )
    return columns


@dataclass(frozen=True, eq=False)
class Division:
    """The entries of rows whose groups are known with probabilities.

    Attributes
    ----------
    rows : np.ndarray of shape (entries,)
        The row of each entry.
    shares : np.ndarray of shape (entries,)
        The share of its row that each entry stands for; the shares of a row add up to 1.
    """

    rows: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return len(np.unique(self.rows))


def encode_columns(
    columns: Mapping[str, Any], n: int, processes: Any = None
) -> tuple[list[np.ndarray], list[tuple[Hashable, ...]], Division | None]:
    """Return, for each column, the code of each entry (−1 if missing) and the groups; and how rows are divided."""
    codes: list[np.ndarray] = []
    values: list[tuple[Hashable, ...]] = []
    division: Division | None = None
    for name, column in columns.items():
        groups: tuple[Hashable, ...]
        if is_divided(column):
            division = Division(np.arange(n), np.ones(n)) if division is None else division
            weights, groups = group_weights(column, processes)
            entry, place = np.nonzero(weights[division.rows])
            rows = division.rows[entry]
            division = Division(rows, division.shares[entry] * weights[rows, place])
            codes = [each[entry] for each in codes]
            code = np.where(place < len(groups), place, -1)
        else:
            code, groups = encode(column, name, processes)
            code = code if division is None else code[division.rows]
        codes.append(code)
        values.append(groups)
    undivided = division is None or bool((division.shares == 1.0).all())
    return codes, values, None if all(gathered(undivided, processes)) else division


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
