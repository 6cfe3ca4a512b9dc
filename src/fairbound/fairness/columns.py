"""Check labels and columns, and replace their values by codes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fairbound._distinct import distinct
from fairbound._errors import InputError, argument, two_classes_only
from fairbound._escapes import hidden_in, without_hidden
from fairbound._positive_label import conventional_positive
from fairbound._sharing import gathered
from fairbound._values import exact_array, in_order, is_gap

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
        given, codes = distinct(exact_array(y))
        unknown = [label for label in given.tolist() if label not in places]
        if unknown:
            raise ValueError(
                f"y has the label {unknown[0]!r}, which the model was not trained on. Labels: "
                f"{', '.join(map(repr, known))}."
            )
        return np.array([places[label] for label in given.tolist()], dtype=np.int64)[codes], known
    array = exact_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y must have one label per row, shape (n,), but has shape {array.shape}.")
    if len(array) == 0:
        raise ValueError("y is empty: at least one row of each class is needed.")
    if array.dtype.kind in "fO":
        listed = array.tolist()
        _check_single(listed, "y")
        if any(is_gap(label) or label in (math.inf, -math.inf) for label in listed):
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
            remedy = "With more classes, name those that a limit concerns with {classes=}."
            raise two_classes_only(argument("pos_label", pos_label), len(names), remedy)
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


def encode(column: Any, name: str, processes: Any = None) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the code of each value of a column, −1 if missing, and the distinct values in order, of all processes."""
    array = exact_array(column)
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
        gaps = {value: is_gap(value) for value in listed}
        values = tuple(in_order([value for value in gaps if not gaps[value]], f"Sensitive column {name!r}"))
        positions = {value: position for position, value in enumerate(values)}
        places = {value: -1 if gap else positions[value] for value, gap in gaps.items()}
        codes = np.fromiter(map(places.__getitem__, listed), np.int64, len(listed))
    if processes is not None:
        own = [*values]
        values = tuple(in_order({each for theirs in gathered(own, processes) for each in theirs}, name))
        codes = np.array([*map(values.index, own), -1], dtype=np.int64)[codes]
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


def _check_single(values: Iterable[Any], name: str) -> None:
    """Raise an error if a value is a list, a dictionary or an array."""
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise ValueError(f"{name} contains a {type(value).__name__}: give one number or text per row.") from None
