"""An audit as one HTML file in the style of the report: counts, rates with intervals, measures, scores and tests.

For the scores of each grouping there are up to four pictures: reliability, distribution, selection rates at every
threshold, and measures at every threshold.  If there are many groups, a picture shows only the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairbound.evaluation import Audit, LL144Tables, Significance
from fairbound.report.figures import score_pictures
from fairbound.report.tables import count_tables, rate_tables
from fairbound.report.templating import RawHtml, render_page


def audit_to_html(
    audit: Audit,
    *,
    title: str = "Decisions by group",
    limits: Sequence[Mapping[str, Any]] = (),
    notes: Iterable[str] | None = None,
    tests: Significance | None = None,
) -> str:
    """Return the page of an audit.

    Parameters
    ----------
    audit : Audit
    title : str
    limits : sequence of dict
        A dictionary for each limit, with `limit`, `value`, `kept` and `bounds`.  The bounds are needed so that no value
        is rounded to a bound.
    notes : iterable of str, optional
        How to read the numbers; by default `audit.notes`.
    tests : Significance, optional
        Tests of selection rates; by default those of `audit.significance()`, if selections can be counted.

    Raises
    ------
    ImportError
        If jinja2 is not installed.
    """
    if tests is None and audit.countable:
        tests = audit.significance()
    return render_page(
        "audit.html",
        what="The HTML audit",
        styles=("audit.css",),
        scripted=audit.scores is not None,
        audit=audit,
        tests=[] if tests is None else tests.tests,
        title=title,
        limits=limits,
        notes=list(audit.notes if notes is None else notes),
        rates=list(rate_tables({"after": audit.groups}, {}, ends=True)),
        counts=list(count_tables({"after": audit}, {})),
        scores=score_pictures(audit.scores),
    )


def ll144_to_html(tables: LL144Tables) -> str:
    """Return the page of the tables that New York City's Local Law 144 asks for."""
    body = RawHtml(tables.to_html())
    return render_page("ll144.html", what="The page", styles=("audit.css",), scripted=False, body=body)
