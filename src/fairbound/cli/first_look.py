"""The first tables of `train`: the values of the label, the types of columns, and limits to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairbound._words import number
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import Dataset

MOST_VALUES = 20
"""The largest number of label values that are listed; the most frequent ones come first."""

STEPS: dict[str, tuple[float, ...]] = {
    "disparate_impact": (0.8, 0.9),
    "demographic_parity": (0.1, 0.05),
    "equal_opportunity": (0.1, 0.05),
    "predictive_equality": (0.1, 0.05),
    "equalized_odds": (0.1, 0.05),
}
"""Bounds to try, from loose to strict; four fifths is the rule of thumb of US employment law."""


def show_label(output: Output, data: Dataset) -> None:
    """Print the values of the label with their numbers of rows and the classes that they count as."""
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
    """Print the types of a file's columns that are not obvious; nothing for known data sets."""
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


def suggested(measure: str, value: float | None, column: str | None = None) -> str | None:
    """Return a limit with the loosest bound that is not kept yet, on all groups or on those of one column.

    >>> suggested("disparate_impact", 0.7, "sex")
    'disparate_impact(sex) >= 0.8'
    >>> suggested("disparate_impact", 0.7), suggested("disparate_impact", 0.85), suggested("equal_opportunity", 0.02)
    ('disparate_impact >= 0.8', 'disparate_impact >= 0.9', None)
    """
    ratio = measure == "disparate_impact"
    for bound in STEPS[measure]:
        if value is not None and (value < bound if ratio else value > bound):
            from fairbound.fairness import parse_constraint

            limit = parse_constraint(f"{measure} {'>=' if ratio else '<='} {bound:g}")
            return str(limit if column is None else replace(limit, columns=(column,)))
    return None


def suggest(output: Output, summary: Mapping[str, Any]) -> None:
    """Print the measures of a model without limits, and for each a limit that it does not keep."""
    part = summary["parts"]["held_out"] or summary["parts"]["training"]
    several = len({found["grouping"] for found in part["after"]["measures"]}) > 1
    rows = []
    for found in part["after"]["measures"]:
        if found["measure"] in STEPS and found["label"] is None:
            limit = suggested(found["measure"], found["value"], found["grouping"] if several else None)
            rows.append((found["grouping"], found["measure"], number(found["value"], 4), limit or "kept by itself"))
    output.text()
    output.table("Limits to try", ("groups", "measure", "now", "--require"), rows, left=2)
    output.text(
        "Which measure suits the decision, if any, is a question for the people concerned and for the law; "
        "limits on one can widen another."
    )
