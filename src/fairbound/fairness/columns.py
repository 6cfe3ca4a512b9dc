"""Read and check labels and sensitive columns in any common form, choose the positive label, and helpers for arrays."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fairbound._errors import InputError
from fairbound._torch import torch
from fairbound._values import distinct, equals_itself, in_order

# --- positive --------------------------------------------------------------------------------------------------------

# The positive one of two labels: the one that a selection rate counts.
#
# For common pairs of labels (0 and 1, no and yes) convention decides.  For all others it is the last in sorted order,
# as in scikit-learn: of "approved" and "denied" that is "denied".  So users are warned if their limit depends on this
# choice.


CONVENTIONS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("no", "yes"),
    ("n", "y"),
    ("negative", "positive"),
)
"""Pairs of labels, as lower-case text, of which the second is the positive one."""


def conventional_positive(labels: Sequence[Hashable]) -> Hashable | None:
    """Return the positive one of two labels if convention decides, else None.

    >>> conventional_positive([0, 1]), conventional_positive(["YES", "no"]), conventional_positive(["good", "bad"])
    (1, 'YES', None)
    """
    texts = [f"{label:g}" if isinstance(label, float) else str(label).strip().lower() for label in labels]
    for pair in CONVENTIONS:
        if sorted(texts) == sorted(pair):
            return labels[texts.index(pair[1])]
    return None


# --- columns ---------------------------------------------------------------------------------------------------------


MOST_GROUPS = 1000
_MOST_CLASSES = 1000


def encode_labels(y: Any, pos_label: Hashable | None) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the class index of each row, and the classes in order; of two classes the second is the positive one."""
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
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            raise ValueError(
                f"Sensitive column {name!r} has shape {shape}, but y has {n} rows: one value per row is needed."
            )
    return columns


def name_columns(columns: Iterable[tuple[Any, Any]], source: str = "sensitive_features") -> dict[str, Any]:
    """Return columns by their names as text; two columns of the same name raise an error, since one would be lost.

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
        values = tuple(in_order([value for value in listed if not is_missing(value)], f"Sensitive column {name!r}"))
        positions = {value: position for position, value in enumerate(values)}
        codes = np.array([-1 if is_missing(value) else positions[value] for value in listed])
    if not values:
        raise ValueError(f"Sensitive column {name!r} has no known value: every row is missing.")
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


# --- arrays ----------------------------------------------------------------------------------------------------------

# Helpers that let one formula serve numpy arrays (to count decisions) and tensors (to train a model).
#
# Arithmetic, indexing, `@`, `reshape`, `clip` and `sum(axis=...)` are the same for both.  The helpers cover the rest.


Array: TypeAlias = Any
"""A numpy array or a tensor; all arrays of one object have the same type."""


def like(array: np.ndarray, example: Array) -> Array:
    """Return a numpy array as a tensor if the example is a tensor; they share memory."""
    return array if isinstance(example, np.ndarray) else torch.from_numpy(array)


def concatenate(parts: Sequence[Array]) -> Array:
    """Join arrays along their last axis."""
    return np.concatenate(parts, axis=-1) if isinstance(parts[0], np.ndarray) else torch.cat(list(parts), dim=-1)
