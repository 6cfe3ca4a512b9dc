"""The page of a search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairbound._words import count
from fairbound.report.figures import search_picture
from fairbound.report.templating import render_page

if TYPE_CHECKING:
    from fairbound.studies import Alternatives


def search_to_html(search: Alternatives) -> str:
    """Return the page of a search.

    Raises
    ------
    ImportError
        If jinja2 is not installed.
    """
    measures = [measure.name for measure in search.plan.measures]
    return render_page(
        "search.html",
        what="The HTML report",
        pictures={name: search_picture(search, name) for name in measures},
        styles=("audit.css",),
        search=search,
        best=search.undominated,
        measures=measures,
        facts=dict(_facts(search)),
    )


def _facts(search: Alternatives) -> Iterator[tuple[str, str]]:
    """Yield the log: the plan that was fixed before training, and the facts needed to repeat the search."""
    plan, log = search.plan, search.log
    lock, data = log["lock"], log["data"]
    for measure, bounds in plan.bounds.items():
        yield f"Bounds on {measure}", ", ".join(f"{bound:g}" for bound in bounds)
    yield "Kinds of models", ", ".join(plan.models)
    yield "Tolerance", f"{plan.tolerance.metric} {plan.tolerance.amount:g}"
    yield "Plan written", f"{lock['written']}, before training; SHA-256 {lock['sha256']}"
    yield "Search", f"{log['started']} to {log['finished']}" + (", interrupted" if log["interrupted"] else "")
    yield "Rows", ", ".join(f"{name} {count(part['rows'])}" for name, part in log["parts"].items())
    checksum = f", SHA-256 {data['sha256']}" if data["sha256"] else ""
    yield "Data", f"{data['name']}, {count(data['rows'])} rows{checksum}"
    yield "Rows of the search", f"SHA-256 {lock['content']['rows_sha256']}"
    yield "Seed", str(log["seed"])
    versions = {"fairbound": log["version"], **log["libraries"]}
    yield "Versions", ", ".join(f"{name} {text}" for name, text in versions.items())
    yield "Command", str(log["command"])
