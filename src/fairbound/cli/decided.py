"""Read labels, decisions and groups from a file, for `audit` and `certify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairbound._errors import Message, argument
from fairbound._weights import check_weights
from fairbound.cli.files import open_table
from fairbound.cli.inputs import check_binary


@dataclass(frozen=True)
class DecidedRows:
    """Labels, decisions and groups of the same rows.

    Attributes
    ----------
    y, prediction : array of shape (n,)
        Labels and decisions, both in the words of the label.
    sensitive : dict
    weight : array of shape (n,), or None
    positive : str or None
        The positive one of two labels.
    read_as : tuple of (str, str, int, str)
        Where a value counts as another word: label or decision, its value, its rows, and what it counts as.
    """

    y: Any
    prediction: Any
    sensitive: dict[str, Any]
    weight: Any
    positive: str | None
    read_as: tuple[tuple[str, str, int, str], ...]


def read_decisions(
    path: str,
    target: str,
    prediction: str,
    sensitive: Sequence[str],
    positive: Sequence[str] | None,
    positive_decision: str | None,
    multiclass: bool,
    weight: str | None,
    delimiter: str | None,
    encoding: str,
) -> DecidedRows:
    """Read the decisions of any system from a file; a decision that matches no label raises an error.

    Labels, decisions and groups are read as training reads labels and groups: 01 is not 1.
    """
    import numpy as np

    from fairbound._values import as_array
    from fairbound.data import as_word, code_labels, group_values, is_missing
    from fairbound.evaluation import match_decisions, match_positive

    table = open_table(path, delimiter=delimiter, encoding=encoding)
    asked = [(target, "target"), (prediction, "prediction"), *((name, "sensitive") for name in sensitive)]
    words = {name for name, _ in asked}
    if weight is not None:
        asked.append((weight, "weight"))
    for name, role in asked:
        table.check_column(name, argument(role))
    needed = {name for name, _ in asked}
    columns, _ = table.learn(ignore=[name for name in table.names if name not in needed], words=words)
    label, decided = columns[target], columns[prediction]
    groups = {name: group_values(columns[name]) for name in sensitive}
    check_binary(label, target, positive, multiclass)
    codes, names, values = code_labels(label, target, positive or None)
    gaps = is_missing(decided)
    if gaps.any():
        raise ValueError(
            f"Column {prediction!r} (--prediction) has no value in {gaps.sum():,} of {len(gaps):,} rows, first in row "
            f"{np.flatnonzero(gaps)[0] + 1}; drop the rows without a decision."
        )
    named: dict[str, Any] = {
        "names": (f"Column {target!r} (--target)", f"column {prediction!r} (--prediction)"),
        "positive_decision": positive_decision,
    }
    if len(values) > len(names):  # --positive makes two labels of many
        labels, positives = [each.value for each in values], [each.value for each in values if each.code == 1]
        matched = match_positive(decided, labels, positives, len(codes), **named).astype(np.int64)
    else:
        matched = match_decisions(decided, names, len(codes), **named)
    classes = as_array(names)
    return DecidedRows(
        y=classes[codes],
        prediction=classes[matched],
        sensitive=groups,
        weight=None
        if weight is None
        else check_weights(columns[weight], len(codes), Message("Column {column!r} ({weight=})", column=weight)),
        positive=names[1] if len(names) == 2 else None,
        read_as=(
            *_read_as("label", [as_word(value) for value in label.tolist()], classes[codes].tolist()),
            *_read_as("decision", [as_word(value) for value in decided.tolist()], classes[matched].tolist()),
        ),
    )


def _read_as(what: str, values: list[str], words: list[str]) -> list[tuple[str, str, int, str]]:
    """List each value with its rows and what it counts as, if that is another value."""
    counts = Counter(zip(values, words, strict=True))
    if all(value == word for value, word in counts):
        return []
    return [(what, value, rows, word) for (value, word), rows in sorted(counts.items())]
