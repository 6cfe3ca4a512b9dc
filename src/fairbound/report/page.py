"""The report as one self-contained HTML file, which loads nothing from a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from fairbound._errors import missing_extra
from fairbound._words import count, percent
from fairbound.report import numbers, words
from fairbound.report.history import history_figure, phase_lines, thinned
from fairbound.report.limits import MOST_REMARKS, caveats, certificates, limit_tables, remarks, trial_lines
from fairbound.report.numbers import reproduction_lines
from fairbound.report.schema import check_summary
from fairbound.report.scores import significance_tables
from fairbound.report.tables import count_tables, model_view, rate_tables
from fairbound.report.templating import environment, policy, resource
from fairbound.report.tradeoff import tradeoff


def to_html(summary: Mapping[str, Any]) -> str:
    """Return the report of a summary.

    Parameters
    ----------
    summary : dict
        As `fairbound.studies.summarize` makes it, or `read_summary` reads it.

    Raises
    ------
    ImportError
        If jinja2 or plotly is not installed.
    """
    check_summary(summary)
    try:
        import jinja2  # noqa: F401 - named where it is missing
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise missing_extra("The HTML report needs", str(error.name), "cli") from None
    context = page_context(summary)
    scripts = [resource("page.js")]
    if context["figures"]:
        scripts.insert(0, get_plotlyjs())
    return (
        template_engine()
        .get_template("page.html")
        .render(
            **context,
            policy=policy(scripts),
            style=Markup(resource("page.css")),
            scripts=[Markup(script) for script in scripts],
        )
    )


@cache
def template_engine() -> Any:
    """Return the template engine with filters for numbers and limits."""
    engine = environment("fairbound.report")
    names = ("beside", "interval", "percent", "rate", "short", "signed", "significant", "words")
    engine.filters |= {name: getattr(numbers, name) for name in names}
    engine.filters |= {"count": count, "sure": percent, "limit": words.limit_in_words}
    return engine


def page_context(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the template, in the order of the page."""
    verdict, *answers = words.answers(summary)
    main, main_rows = words.main_part(summary)
    names = dict(zip(summary["classes"], summary["class_names"], strict=True))
    history = thinned(summary["run"]["history"]) if summary["run"] else []
    found = tradeoff(summary, names) if summary["frontier"] else None
    return {
        "summary": summary,
        "created": day(summary["reproduction"].get("created")),
        "verdict": verdict,
        "conflicts": words.conflicts(summary),
        "answers": answers,
        "limits": limit_tables(summary),
        "main": main,
        "main_rows": main_rows,
        "parts": [_part(name, part, names) for name, part in _shown(summary)],
        "unasked": words.unasked(summary),
        "sizes": _sizes(summary),
        "certificates": certificates(summary),
        "trials": trial_lines(summary),
        "tradeoff": found,
        "history": history,
        "phases": phase_lines(history, (summary["run"] or {}).get("phases", {})),
        "figures": {
            **({"frontier": found.figure} if found else {}),
            **({"history": history_figure(history)} if history else {}),
        },
        "caveats": caveats(summary),
        "remarks": remarks(summary),
        "most_remarks": MOST_REMARKS,
        "model": model_view(summary.get("model"), names),
        "reproduction": reproduction_lines(summary["reproduction"]),
    }


def day(created: object) -> str:
    """Return the day of a time in the form of ISO 8601; any other text as it is.

    >>> day("2026-01-31T12:00:00+00:00"), day("last week"), day(None)
    ('2026-01-31', 'last week', '')
    """
    text = "" if created is None else str(created)
    return text[:10] if re.match(r"\d{4}-\d\d-\d\dT", text) else text


def _shown(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the parts, held-out rows first."""
    parts = [("held-out", summary["parts"]["held_out"]), ("training", summary["parts"]["training"])]
    return [(name, part) for name, part in parts if part is not None]


def _sizes(summary: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the number of rows of each part, in the order of their use."""
    parts = {
        "training": summary["parts"]["training"],
        "calibration": summary["calibration"],
        "held-out": summary["parts"]["held_out"],
    }
    return [(name, part["rows"]) for name, part in parts.items() if part is not None]


def _part(name: str, part: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    audits = {"before": part["before"], "after": part["after"]}
    return {
        "name": name,
        "rows": part["rows"],
        "rates": rate_tables(audits, names, with_interval=name == "held-out"),
        "counts": count_tables(audits, names),
        "tests": significance_tables(part["after"]) if name == "held-out" else [],
        "weighted": part["after"]["weighted"],
    }
