"""A first look at the data before training: the values of the label, the kinds of columns, and remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from fairbound._errors import Message, NameOf, python_name
from fairbound._words import listed
from fairbound.data import Dataset, has_probabilities, is_missing, is_protected_name
from fairbound.studies.parts import is_known, middle
from fairbound.studies.summary import LabelWord, TakenColumn


def label_values(data: Dataset) -> list[LabelWord]:
    """Return every value of the label with its rows and the class that it counts as, by class and frequency."""
    binary = len(data.target_names) == 2
    counted = [(each.value, each.rows, each.code) for each in data.label_values] or [
        (data.target_names[code], rows, code) for code, rows in Counter(data.y.tolist()).items()
    ]
    return [
        LabelWord(value, rows, ("negative", "positive")[code] if binary else data.target_names[code])
        for value, rows, code in sorted(counted, key=lambda each: (-each[2], -each[1], each[0]))
    ]


def columns_taken(data: Dataset, name_of: NameOf = python_name) -> list[TakenColumn]:
    """Return the columns of a file whose kind is not obvious, with the argument that changes it."""
    return [
        TakenColumn(each.column, each.kind, each.remark, each.example, name_of(each.option, each.value))
        for each in data.taken()
    ]


def remarks(data: Dataset) -> list[str]:
    """Return notes on changes made while reading, and on columns to look at."""
    return [*data.notes, *many_groups(data), *column_remarks(data)]


MOST_GROUPS = 20
"""A column of numbers with more groups than this is a quantity, and its groups are too small to measure."""


def many_groups(data: Dataset) -> list[Message]:
    """Return how to sort the numbers of a sensitive column into groups, if each of many numbers is a group now."""
    found = []
    for name, values in data.sensitive.items():
        if not has_probabilities(values) and values.dtype.kind in "iuf":
            number = len(np.unique(values[~is_missing(values)]))
            if number > MOST_GROUPS:
                said = (
                    "Column {name!r} makes {number:,} groups, one for each number. To compare a few, give {bands=cuts}."
                )
                found.append(Message(said, name=name, number=number, cuts={name: middle(values)}))
    return found


def column_remarks(data: Any) -> list[str]:
    """Return notes on columns that may leak the label, and on inputs with the name of a protected attribute."""
    leaks = data.suspected_leaks()
    return [
        *(Message("{leak} Option: {ignore=column}.", leak=str(leak), column=[leak.column]) for leak in leaks),
        *([] if is_known(data) else protected_inputs(data.schema, data.sensitive)),
    ]


def protected_inputs(inputs: Iterable[str], sensitive: Collection[str]) -> list[Message]:
    """Return a note on inputs with the name of a commonly protected attribute; nothing if there is none."""
    named = [name for name in inputs if name not in sensitive and is_protected_name(name)]
    if not named:
        return []
    one = len(named) == 1
    return [
        Message(
            "{columns} {are}, and {suggests} a commonly protected attribute. {its} groups are neither limited nor "
            "measured. If that is not intended, name {it} with {sensitive=}, or leave {it} out with {ignore=named}.",
            columns=f"Column {named[0]!r}" if one else f"Columns {listed(named)}",
            are="is an input" if one else "are inputs",
            suggests="its name suggests" if one else "each name suggests",
            its="Its" if one else "Their",
            it="it" if one else "them",
            named=named,
        )
    ]
