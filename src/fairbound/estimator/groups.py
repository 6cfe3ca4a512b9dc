"""Read the groups of the rows from any kind of input, and count the rows that limits depend on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairbound._values import as_objects, exact_array, in_order
from fairbound.data import Dataset, is_missing
from fairbound.fairness import (
    RATES,
    Cells,
    Constraint,
    Grouping,
    is_divided,
    read_columns,
    resolve_measure,
    with_unknown,
)

MISSING = "(missing)"

LISTED = 10
"""The most groups that a message names."""


def read_groups(sensitive_features: Any, n_rows: int) -> dict[str, NDArray[Any]]:
    """Return the group columns by name, with their values unchanged; None means missing.

    A column of probabilities is a structured array with one field for each group (`read_probabilities`).
    """
    if isinstance(sensitive_features, Dataset):
        sensitive_features = sensitive_features.sensitive
    columns = read_columns(sensitive_features, n_rows)
    if not columns:
        raise ValueError("sensitive_features has no column: give at least one.")
    read = {name: column if is_divided(column) else _values(column) for name, column in columns.items()}
    for name, column in read.items():
        if column.dtype.kind == "O":
            in_order(column[~is_missing(column)].tolist(), f"The group column {name!r}")  # raises for odd values
            _check_told_apart(name, column)
    return read


def _check_told_apart(name: str, column: NDArray[Any]) -> None:
    """Raise an error for groups such as 1 and "1", which look the same in limits and results."""
    seen: dict[str, Hashable] = {}
    for group in known_groups(column):
        other = seen.setdefault(str(group), group)
        if other is not group:
            raise ValueError(
                f"The group column {name!r} has the groups {other!r} and {group!r}, which look the same as text: give "
                "both the same value, or different names."
            )


def name_missing(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns with the group "(missing)" in place of missing values."""
    named = {}
    for name, column in columns.items():
        if is_divided(column):
            named[name] = with_unknown(column, MISSING)
            continue
        gaps = is_missing(column)
        if gaps.any() and MISSING in column[~gaps].tolist():
            raise ValueError(
                f"Column {name!r} has missing values and a group that is named {MISSING!r}, the name of the group of "
                "missing values: rename that group."
            )
        named[name] = column if not gaps.any() else np.where(gaps, MISSING, column.astype(object))
    return named


def known_groups(column: NDArray[Any]) -> list[Hashable]:
    """Return the distinct groups of a column, without missing values."""
    if is_divided(column):
        return [group for group in column.dtype.names or () if (column[group] > 0).any()]
    return list(dict.fromkeys(column[~is_missing(column)].tolist()))


def needed_labels(constraints: Sequence[Constraint], cells: Cells) -> list[int | None]:
    """Return the labels whose rows the limited rates are computed from; None stands for all rows."""
    rates = {rate for each in constraints for rate in resolve_measure(each.measure).rates}
    overall: list[int | None] = [None] if RATES["selection_rate"] in rates else []
    return overall + (list(range(cells.n_labels)) if rates - {RATES["selection_rate"]} else [])


def concerns(constraint: Constraint, grouping: Grouping) -> bool:
    """Return whether a limit applies to a grouping: it covers the column, and a group that it names exists there."""
    if not constraint.covers(grouping) or constraint.columns is not None:
        return constraint.covers(grouping)
    wanted = constraint.reference if constraint.reference is not None else constraint.group
    return wanted is None or grouping.has(wanted)


def smallest_sample(constraints: Sequence[Constraint], cells: Cells) -> float:
    """Return the size of the smallest sample that a limited rate is counted on.

    It is the number of rows of a group, or of a group and a label.  With weights w it is the effective sample size
    (Σw)² / Σw².  Samples without rows do not count, since their rates are undefined.  Without limits it is the
    number of all rows.
    """
    sums = [cells.weighing(cells.weights**power).totals.reshape(-1, cells.n_labels) for power in (1, 2)]
    sizes: list[float] = []
    for grouping in cells.groupings:
        concerned = [each for each in constraints if concerns(each, grouping)]
        first, second = (np.asarray(grouping.membership)[:-1] @ each for each in sums)  # (groups, labels)
        for label in needed_labels(concerned, cells):
            chosen = slice(None) if label is None else [label]
            total, squares = first[:, chosen].sum(axis=1), second[:, chosen].sum(axis=1)
            sizes += (total[total > 0] ** 2 / squares[total > 0]).tolist()
    return min(sizes, default=float(cells.totals.sum()) / cells.row_weight)


def _values(column: Any) -> NDArray[Any]:
    """Return the values of one column in their own type, with None for missing ones."""
    if nw.dependencies.is_into_series(column):
        column = nw.from_native(column, series_only=True)
    if isinstance(column, nw.Series):
        plain = column.dtype.is_numeric() or column.dtype == nw.Boolean
        if plain and not column.null_count():
            return np.asarray(column.to_numpy())
        listed = column.to_list()
        array = as_objects(listed)
        array[is_missing(array)] = None
        return array
    return exact_array(column)
