"""What was read, before anything is trained: values of the label, kinds of columns, and remarks about the rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fairbound._errors import Message, NameOf, python_name
from fairbound.data import Dataset


def label_values(data: Dataset) -> list[dict[str, Any]]:
    """Return every value of the label with its rows and the class that it counts as, by class and frequency."""
    binary = len(data.target_names) == 2
    counted = [(each.value, each.rows, each.code) for each in data.label_values] or [
        (data.target_names[code], rows, code) for code, rows in Counter(data.y.tolist()).items()
    ]
    return [
        {
            "value": value,
            "rows": rows,
            "counts_as": ("negative", "positive")[code] if binary else data.target_names[code],
        }
        for value, rows, code in sorted(counted, key=lambda each: (-each[2], -each[1], each[0]))
    ]


def columns_taken(data: Dataset, name_of: NameOf = python_name) -> list[dict[str, str]]:
    """Return the kind of each column of a file, where it is not plain to see, and the argument that changes it."""
    return [
        {
            "column": each.column,
            "kind": each.kind,
            "remark": each.remark,
            "example": each.example,
            "option": name_of(each.option, each.value),
        }
        for each in data.taken()
    ]


def remarks(data: Dataset) -> list[str]:
    """Return what was done to the rows while reading, and the columns that all but give the label away."""
    leaks = data.suspected_leaks()
    return [
        *data.notes,
        *(Message("{leak} Option: {ignore=column}.", leak=str(leak), column=[leak.column]) for leak in leaks),
    ]
