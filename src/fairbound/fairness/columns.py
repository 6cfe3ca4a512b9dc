"""Read and check labels and sensitive columns in any common form.

Further section: probabilities of groups.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound._errors import InputError
from fairbound._values import as_objects, conventional_positive, distinct, equals_itself, in_order
from fairbound._words import hidden_in, without_hidden

# --- columns ---------------------------------------------------------------------------------------------------------


MOST_GROUPS = 1000
_MOST_CLASSES = 1000


def encode_labels(
    y: Any, pos_label: Hashable | None, classes: Iterable[Hashable] | None = None
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the class index of each row, and the classes in order; of two classes the second is the positive one.

    The rows need not have all of the given `classes`; by default the classes are those of the rows.
    """
    if classes is not None:
        _, known = encode_labels(list(classes), pos_label)
        places = {label: place for place, label in enumerate(known)}
        given = as_array(y).tolist()
        unknown = [label for label in given if label not in places]
        if unknown:
            raise ValueError(
                f"y has the label {unknown[0]!r}, which the model was not trained on. Labels: "
                f"{', '.join(map(repr, known))}."
            )
        return np.array([places[label] for label in given], dtype=np.int64), known
    array = as_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y must have one label per row, shape (n,), but has shape {array.shape}.")
    if len(array) == 0:
        raise ValueError("y is empty: at least one row of each class is needed.")
    if array.dtype.kind in "fO":
        listed = array.tolist()
        _check_single(listed, "y")
        if any(is_missing(label) or label in (math.inf, -math.inf) for label in listed):
            raise ValueError("y contains missing labels, NaN or infinity: drop the rows whose label is unknown.")
        if len({isinstance(label, str) for label in listed}) > 1:
            raise ValueError("y mixes text with other labels: give labels of one kind.")
    try:
        classes, labels = distinct(array)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in array.tolist()}))
        raise ValueError(f"y has labels that have no order ({kinds}): give numbers or text.") from None
    names: list[Hashable] = classes.tolist()
    _warn_of_hidden([name for name in names if isinstance(name, str)])
    if len(names) < 2:
        raise ValueError(f"y has one class only, {names[0]!r}: a classifier needs at least two.")
    if len(names) > _MOST_CLASSES:
        raise ValueError(
            f"y has {len(names):,} distinct values, more than {_MOST_CLASSES:,} classes: a classifier needs labels, "
            "not a measurement."
        )
    if pos_label is None and len(names) == 2:
        pos_label = conventional_positive(names)
    if pos_label is not None:
        _check_single([pos_label], "pos_label")
        if len(names) > 2:
            raise InputError(
                "{pos_label=value} needs two classes, but y has {count}.",
                "With more classes, name those that a limit concerns with {classes=}.",
                value=pos_label,
                count=len(names),
            )
        if pos_label not in names:
            raise InputError(
                "{pos_label=value} is not a label of y. Labels: {labels}.",
                value=pos_label,
                labels=", ".join(map(repr, names)),
            )
        if names[0] == pos_label:
            names, labels = names[::-1], 1 - labels
    return labels.astype(np.int64), tuple(names)


def _warn_of_hidden(words: Sequence[str]) -> None:
    """Warn of classes that look the same, because they differ only in characters that are never seen."""
    seen: dict[str, list[str]] = {}
    for word in words:
        seen.setdefault(without_hidden(word), []).append(word)
    alike = [word for same in seen.values() if len(same) > 1 for word in same]
    if alike:
        message = (
            f"y has the classes {', '.join(map(repr, alike))}, which look the same: they differ only in characters "
            f"that cannot be seen, {hidden_in(alike)}. If they mean the same, remove these characters."
        )
        warnings.warn(message, UserWarning, stacklevel=2)


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
        array = as_array(sensitive_features)
        if array.ndim == 1:
            columns = {str(getattr(sensitive_features, "name", None) or "sensitive_feature"): sensitive_features}
        elif array.ndim == 2:
            columns = {f"sensitive_feature_{j}": array[:, j] for j in range(array.shape[1])}
        else:
            raise ValueError(f"sensitive_features must have shape (n,) or (n, columns), not {array.shape}.")
    columns = {
        name: read_probabilities(name, column) if holds_probabilities(column) else column
        for name, column in columns.items()
    }
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            raise ValueError(
                f"Sensitive column {name!r} has shape {shape}, but y has {n} rows: one value per row is needed."
            )
    return columns


def name_columns(columns: Iterable[tuple[Any, Any]], source: str = "sensitive_features") -> dict[str, Any]:
    """Return a dictionary of columns by name, with names as text; a repeated name raises an error.

    >>> name_columns([("sex", ["f", "m"]), (1, [0, 1])])
    {'sex': ['f', 'm'], '1': [0, 1]}
    """
    named: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for name, column in columns:
        text = str(name)
        if text in named:
            both = f"{given[text]!r} and {name!r}" if given[text] != name else f"{name!r} twice"
            raise ValueError(f"{source} has the columns {both}: give each column a name of its own.")
        named[text], given[text] = column, name
    return named


def encode(column: Any, name: str) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the code of each value of a column, −1 if missing, and the distinct values in order."""
    array = as_array(column)
    if array.dtype.kind in "iubUS":
        found, codes = distinct(array)
        values = tuple(found.tolist())
    elif array.dtype.kind == "f":
        known = ~np.isnan(array)
        found, known_codes = np.unique(array[known], return_inverse=True)
        codes = np.full(len(array), -1)
        codes[known] = known_codes
        values = tuple(found.tolist())
    else:
        listed = array.tolist()
        _check_single(listed, f"Sensitive column {name!r}")
        gaps = {value: is_missing(value) for value in listed}
        values = tuple(in_order([value for value in gaps if not gaps[value]], f"Sensitive column {name!r}"))
        positions = {value: position for position, value in enumerate(values)}
        places = {value: -1 if gap else positions[value] for value, gap in gaps.items()}
        codes = np.fromiter(map(places.__getitem__, listed), np.int64, len(listed))
    if not values:
        raise ValueError(f"Sensitive column {name!r} has no known value: every row is missing.")
    values = tuple(value + 0.0 if isinstance(value, float) else value for value in values)  # −0.0 is 0.0
    if any(isinstance(value, float) and math.isinf(value) for value in values):
        raise ValueError(f"Sensitive column {name!r} contains infinity: give group values, or NaN where unknown.")
    if len(values) > MOST_GROUPS:
        raise ValueError(
            f"Sensitive column {name!r} has {len(values):,} distinct values, more than {MOST_GROUPS:,} groups: "
            "sort them into bins that mean something, and pass the bins."
        )
    return codes.astype(np.int64), values


def as_array(values: Any) -> np.ndarray:
    """Return an array with the values as given.

    `numpy.asarray` alone would turn a list of strings and NaN into strings, and nullable integers into floats.  It
    would also drop the mask of a masked array.
    """
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        known = np.array(values.data, dtype=object)
        known[np.ma.getmaskarray(values)] = None
        return known
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


def _check_single(values: Iterable[Any], name: str) -> None:
    """Raise an error if a value is a list, a dictionary or an array."""
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise ValueError(f"{name} contains a {type(value).__name__}: give one number or text per row.") from None


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or the missing value of another library."""
    return value is None or not equals_itself(value)


# --- probabilities ---------------------------------------------------------------------------------------------------

# Groups that are known with probabilities only: a row counts in each group with its probability as weight.
#
# Such a column is kept as a structured array of shape (n,) with one field for each group.  So it is cut and joined like
# any other column.


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
    array = as_array(values)
    if array.ndim != 1:
        raise ValueError(f"The probabilities of {group!r} in {name!r} must have shape (n,), not {array.shape}.")
    if array.dtype.kind == "O":
        array = np.array([math.nan if is_missing(value) else value for value in array.tolist()], dtype=object)
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


def group_weights(column: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the weights of rows in groups, (n, G + 1), with the unknown share last; and the G groups with weight."""
    matrix = np.nan_to_num(np.stack([column[group] for group in column.dtype.names or ()], axis=1))
    some = matrix.sum(axis=0) > 0
    rest = 1.0 - matrix.sum(axis=1)
    rest[rest < SUM_TOLERANCE] = 0.0  # rounding errors
    groups = tuple(group for group, has in zip(column.dtype.names or (), some, strict=True) if has)
    return np.column_stack([matrix[:, some], rest]), groups


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
    columns: Mapping[str, Any], n: int
) -> tuple[list[np.ndarray], list[tuple[Hashable, ...]], Division | None]:
    """Return, for each column, the code of each entry (−1 if missing) and the groups; and how rows are divided."""
    codes: list[np.ndarray] = []
    values: list[tuple[Hashable, ...]] = []
    division: Division | None = None
    for name, column in columns.items():
        groups: tuple[Hashable, ...]
        if is_divided(column):
            division = Division(np.arange(n), np.ones(n)) if division is None else division
            weights, groups = group_weights(column)
            entry, place = np.nonzero(weights[division.rows])
            rows = division.rows[entry]
            division = Division(rows, division.shares[entry] * weights[rows, place])
            codes = [each[entry] for each in codes]
            code = np.where(place < len(groups), place, -1)
        else:
            code, groups = encode(column, name)
            code = code if division is None else code[division.rows]
        codes.append(code)
        values.append(groups)
    undivided = division is None or bool((division.shares == 1.0).all())
    return codes, values, None if undivided else division
