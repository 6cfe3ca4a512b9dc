"""Read sensitive columns in any common form, and code the entries of their rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound._sharing import gathered
from fairbound._values import exact_array
from fairbound.fairness.columns import encode, name_columns
from fairbound.fairness.group_probabilities import group_weights, holds_probabilities, is_divided, read_probabilities

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
