"""An audit as one HTML file in the style of the report: counts, rates with intervals, and measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairbound._errors import missing_extra
from fairbound._words import group_text
from fairbound.report import numbers
from fairbound.report.page import template_engine
from fairbound.report.scores import score_views, significance_tables
from fairbound.report.tables import RateTable, count_tables, rate_tables
from fairbound.report.templating import policy, resource


def audit_to_html(
    audit: Mapping[str, Any],
    *,
    title: str = "Decisions by group",
    limits: Sequence[Mapping[str, Any]] = (),
    notes: Iterable[str] = (),
) -> str:
    """Return the page of an audit.

    Parameters
    ----------
    audit : dict
        As `fairbound.audit(...).to_dict()` makes it.
    title : str
    limits : sequence of dict
        Limits that these rows keep or do not keep: each a dictionary with `limit`, `value`, `kept` and, so that no
        value is rounded to a bound, `bounds`.
    notes : iterable of str
        How to read the numbers, as `Audit.notes` has them.

    Raises
    ------
    ImportError
        If jinja2 is not installed, or with scores plotly.
    """
    tests, scores = significance_tables(audit), score_views(audit)
    figures = {name: figure for view in scores for name, (_, _, figure) in view.figures.items()}
    scripts = []
    try:
        from markupsafe import Markup

        if figures:
            from plotly.offline import get_plotlyjs

            scripts = [get_plotlyjs(), resource("page.js")]
    except ImportError as error:
        raise missing_extra("The HTML audit needs", str(error.name), "cli") from None
    names = {str(label): str(label) for label in audit["classes"]}
    models = {"before": None, "after": audit}
    tables = rate_tables(models, names, with_interval=True)
    groupings = [
        {
            "name": grouping,
            "rates": [rate for table in tables if table.grouping == grouping for rate in _one_by_one(table)],
            "counts": [table for table in count_tables(models, names) if table.grouping == grouping],
            "tests": [table for table in tests if table.grouping == grouping],
            "scores": [view for view in scores if view.grouping == grouping],
            "measures": [_measure(each) for each in audit["measures"] if each["grouping"] == grouping],
        }
        for grouping in audit["missing"]
    ]
    return (
        template_engine()
        .get_template("audit.html")
        .render(
            audit=audit,
            title=title,
            limits=limits,
            notes=list(notes),
            groupings=groupings,
            figures=figures,
            policy=policy(scripts),
            scripts=[Markup(script) for script in scripts],
            style=Markup(resource("page.css") + resource("audit.css")),
        )
    )


def _one_by_one(table: RateTable) -> list[dict[str, Any]]:
    """Return one table per rate, which fits a page of any width."""
    return [
        {
            "name": numbers.words(rate),
            "label": table.label,
            "axis": axis,
            "lines": [(line.name, line.everyone, line.rows, line.cells[place]) for line in table.lines],
        }
        for place, (rate, axis) in enumerate(table.rates)
    ]


def _measure(found: Mapping[str, Any]) -> dict[str, Any]:
    pair = found["pair"]
    return {
        "name": numbers.words(found["measure"]),
        "description": found["description"],
        "label": found["label"],
        "apart": "" if pair is None else f"{group_text(pair[0])}, {group_text(pair[1])}",
        "value": "undefined" if found["value"] is None else numbers.rate(found["value"]),
        "interval": numbers.interval(found),
        "left_out": ", ".join(map(group_text, found["left_out"])),
    }
