"""The report as one self-contained HTML file, which loads nothing from a network; and the summary that it is made from.

`fairbound.studies` makes the summary, a dictionary, and docs/report.md documents it.  Reports use nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairbound._files import UnfitFileError, read_json
from fairbound.report import words
from fairbound.report.audit import score_views, significance_tables
from fairbound.report.history import history_figure, phase_lines, thinned
from fairbound.report.limits import MOST_REMARKS, caveats, certificates, limit_tables, remarks, trial_lines
from fairbound.report.numbers import reproduction_lines
from fairbound.report.tables import count_tables, model_view, rate_tables
from fairbound.report.templating import render_page
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
    return render_page("page.html", what="The HTML report", scripted=True, **page_context(summary))


def page_context(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the template, in the order of the page."""
    verdict, *answers = words.answers(summary)
    main, main_rows = words.main_part(summary)
    names = dict(zip(summary["classes"], summary["class_names"], strict=True))
    history = thinned(summary["run"]["history"]) if summary["run"] else []
    found = tradeoff(summary, names) if summary["frontier"] else None
    scores = score_views(main["after"])
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
        "scores": scores,
        "unasked": words.unasked(summary),
        "sizes": _sizes(summary),
        "certificates": certificates(summary),
        "trials": trial_lines(summary),
        "tradeoff": found,
        "history": history,
        "phases": phase_lines(history, (summary["run"] or {}).get("phases", {})),
        "figures": {
            **{name: figure for view in scores for name, (_, _, figure) in view.figures.items()},
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


# --- the summary ------------------------------------------------------------------------------------------------------

SCHEMA = "fairbound.summary"
VERSION = 1
LARGEST = 2**28
"""Largest size of a summary.json in bytes.  Those of real runs have less than a million."""
KEYS = (
    "title",
    "target",
    "classes",
    "class_names",
    "confidence",
    "limits",
    "parts",
    "changes",
    "run",
    "frontier",
    "calibration",
    "reproduction",
    "notes",
)
FURTHER = ("model",)
"""Keys that summaries of earlier versions lack."""


def check_summary(summary: Mapping[str, Any]) -> None:
    """Reject anything but a summary of the version that this package reads."""
    if not isinstance(summary, Mapping) or summary.get("schema") != SCHEMA:
        found = summary.get("schema") if isinstance(summary, Mapping) else type(summary).__name__
        raise ValueError(f"This is not a summary: its schema is {found!r}, not {SCHEMA!r}. Make one with summarize().")
    if summary.get("version") != VERSION:
        raise ValueError(
            f"The summary has version {summary.get('version')!r}, but this fairbound reads version {VERSION}: "
            "make the report with the version of fairbound that made the summary, or run again."
        )
    missing = [key for key in KEYS if key not in summary]
    if missing:
        raise ValueError(f"The summary lacks {', '.join(missing)}; it may have been cut off. Make it again.")


def to_json(summary: Mapping[str, Any], indent: int | None = 2) -> str:
    """Return the summary as JSON."""
    check_summary(summary)
    return json.dumps(summary, indent=indent, allow_nan=False, ensure_ascii=False) + "\n"


def read_summary(path: str | Path) -> dict[str, Any]:
    """Return the summary in a JSON file."""
    try:
        summary = read_json(path, LARGEST)
    except UnfitFileError as error:
        raise ValueError(f"{path} is not a summary: {error}. Give the summary.json of a run.") from None
    check_summary(summary)
    return summary
