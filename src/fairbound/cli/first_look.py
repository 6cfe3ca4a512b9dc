"""What was read, before anything is trained: which values of the label count as what, and remarks about the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import Dataset

MOST_VALUES = 20
"""Values of a label that are listed; of more, the most frequent."""


def label_values(data: Dataset) -> list[dict[str, Any]]:
    """Return every value of the label with its rows and the class that it counts as, by class and frequency."""
    from collections import Counter

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


def show_label(output: Output, data: Dataset) -> None:
    """Print every value of the label with its rows and its side."""
    values = label_values(data)
    shown = sorted(values, key=lambda each: -each["rows"])[:MOST_VALUES]
    rest = [each for each in values if each not in shown]
    rows = [(each["value"], each["counts_as"], f"{each['rows']:,}") for each in values if each in shown]
    if rest:  # all of one side: the favourable values are named one by one
        sides = ", ".join(sorted({each["counts_as"] for each in rest}))
        rows.append((f"({len(rest):,} other values)", sides, f"{sum(each['rows'] for each in rest):,}"))
    output.table(f"Label {data.target}", ("value", "counts as", "rows"), rows, left=2)


def columns_taken(data: Dataset) -> list[dict[str, str]]:
    """Return what columns of a file were taken for, where that is not plain to see, and the option that changes it."""
    from fairbound.cli.errors import option_name

    return [
        {
            "column": each.column,
            "kind": each.kind,
            "remark": each.remark,
            "example": each.example,
            "option": option_name(each.option, each.value),
        }
        for each in data.taken()
    ]


def show_columns(output: Output, data: Dataset) -> None:
    """Print what the columns of a file were taken for, where that is not plain to see; nothing of known data sets."""
    if not data.formats:
        return
    categories = len(data.categorical)
    numbers = len(data.schema) - categories
    output.text(
        f"Inputs: {numbers:,} {'number' if numbers == 1 else 'numbers'}, "
        f"{categories:,} {'category' if categories == 1 else 'categories'}."
    )
    rows = [
        (each["column"], f"{each['kind']}, {each['remark']}", each["example"], each["option"])
        for each in columns_taken(data)
    ]
    if rows:
        output.table("Taken for what", ("column", "taken for", "example", "to change it"), rows, left=4)


def remarks(data: Dataset) -> list[str]:
    """Return what was done to the rows while reading, and the columns that all but give the label away."""
    leaks = [f"{leak} Option: --ignore {leak.column}." for leak in data.suspected_leaks()]
    return [*data.notes, *leaks]
