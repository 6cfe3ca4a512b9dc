"""What was read, before anything is trained: which values of the label count as what, and remarks about the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import Dataset

MOST_VALUES = 20
"""Values of a label that are listed; of more, the most frequent."""


def show_label(output: Output, data: Dataset) -> None:
    """Print every value of the label with its rows and its side."""
    from fairbound.studies import label_values

    values = label_values(data)
    shown = sorted(values, key=lambda each: -each["rows"])[:MOST_VALUES]
    rest = [each for each in values if each not in shown]
    rows = [(each["value"], each["counts_as"], f"{each['rows']:,}") for each in values if each in shown]
    if rest:  # all of one side: the favourable values are named one by one
        sides = ", ".join(sorted({each["counts_as"] for each in rest}))
        rows.append((f"({len(rest):,} other values)", sides, f"{sum(each['rows'] for each in rest):,}"))
    output.table(f"Label {data.target}", ("value", "counts as", "rows"), rows, left=2)


def show_columns(output: Output, data: Dataset) -> None:
    """Print what the columns of a file were taken for, where that is not plain to see; nothing of known data sets."""
    from fairbound.cli.errors import option_name
    from fairbound.studies import columns_taken

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
        for each in columns_taken(data, option_name)
    ]
    if rows:
        output.table("Taken for what", ("column", "taken for", "example", "to change it"), rows, left=4)
