"""Limits to try, from what a model without limits does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairbound._words import number
from fairbound.cli.output import Output

STEPS: dict[str, tuple[float, ...]] = {
    "disparate_impact": (0.8, 0.9),
    "demographic_parity": (0.1, 0.05),
    "equal_opportunity": (0.1, 0.05),
    "predictive_equality": (0.1, 0.05),
    "equalized_odds": (0.1, 0.05),
}
"""Bounds to try, from loose to strict; four fifths is the rule of thumb of US employment law."""


def suggested(measure: str, value: float | None, column: str | None = None) -> str | None:
    """Return the loosest of the bounds that is not kept yet, as a limit on all groups or on those of one column.

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
    """Print what was measured, and a limit that would change something."""
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
