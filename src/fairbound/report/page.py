"""The report as one self-contained HTML file, which loads nothing from a network; and the summary that it is made from.

`fairbound.studies` makes the summary, a dictionary, and docs/report.md documents it.  Reports use nothing else.  The
history of training is a figure and a line for each phase; a long history is thinned.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbound._files import UnfitFileError, read_json
from fairbound.report import numbers, words
from fairbound.report.audit import score_views, significance_tables
from fairbound.report.limits import MOST_REMARKS, caveats, certificates, limit_tables, remarks, trial_lines
from fairbound.report.numbers import reproduction_lines
from fairbound.report.tables import count_tables, model_view, rate_tables
from fairbound.report.templating import AXIS, Figure, base, digits, escaped, render_page
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


# --- the history of training -----------------------------------------------------------------------------------------

History = Sequence[Mapping[str, Any]]

LOWEST = 1e-5
"""Smaller violations are drawn at this value, because a logarithmic axis has no zero."""

TITLES = {"y": "loss", "y2": "violation", "y3": "step length"}
"""The panels from the top, by axis; a panel without a line is left out."""

MOST_ROWS = 1000
"""The most rows of the history on a page; a longer one is thinned evenly.  The JSON has all rows."""


def history_figure(history: History) -> Figure:
    """Return a figure of loss, violations and step length over the iterations."""
    steps = [row["step"] for row in history]
    lines = [
        ("loss", "loss", "y", "var(--text)", "solid"),
        ("error", "smoothed share of wrong decisions", "y", "var(--text)", "dot"),
        ("surrogate_violation", "violation by surrogate", "y2", "var(--before)", "dot"),
        ("exact_violation", "violation by decisions", "y2", "var(--after)", "solid"),
        ("step_length", "step length", "y3", "var(--faint)", "solid"),
    ]
    few = len(history) <= 120
    traces: list[Figure] = []
    for key, name, axis, colour, dash in lines:
        values = [digits(row[key]) for row in history]
        if key == "step_length":  # the last row of a solve has no step
            values = [value or None for value in values]
        if all(value is None for value in values):
            continue
        drawn = [None if value is None else max(value, LOWEST) for value in values] if axis != "y" else values
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few else "lines",
                "name": name,
                "x": steps,
                "y": drawn,
                "customdata": [numbers.significant(value) for value in values],
                "text": [escaped(_state(row)) for row in history],
                "hovertemplate": "iteration %{x}%{text}<br>" + name + " %{customdata}<extra></extra>",
                "xaxis": "x",
                "yaxis": axis,
                "line": {"color": colour, "width": 1.8, "dash": dash},
                "marker": {"color": colour, "size": 5},
            }
        )
    bands, names = _phases(history)
    panels = [axis for axis in TITLES if any(trace["yaxis"] == axis for trace in traces)]
    return {
        "data": traces,
        "layout": {
            **base(80 + 180 * len(panels)),
            "xaxis": {
                **AXIS,
                "title": {"text": "iteration"},
                "anchor": panels[-1] if panels else "y",
                "range": [steps[0] - 0.5, steps[-1] + 0.5],
            },
            **{
                axis.replace("y", "yaxis"): _panel(axis, place, len(panels), traces)
                for place, axis in enumerate(panels)
            },
            "shapes": bands,
            "annotations": names,
            "hovermode": "closest",
        },
    }


def _panel(axis: str, place: int, count: int, traces: Sequence[Figure]) -> Figure:
    """Return the axis of one of `count` panels, from the top."""
    gap = 0.08
    height = (1.0 - gap * (count - 1)) / count
    top = 1.0 - place * (height + gap)
    found = {**AXIS, "title": {"text": TITLES[axis]}, "domain": [max(top - height, 0.0), top]}
    if axis == "y":
        return found
    return {**found, "type": "log", "tickformat": "~g", "dtick": 1, "range": _decades(traces, axis)}


def _state(row: Mapping[str, Any]) -> str:
    said = [f"phase {row['phase']}"] if row["phase"] else []
    said += [flag.replace("_", " ") for flag in row["flags"]]
    if row["kept"] is not None:
        said.append("limits kept" if row["kept"] else "limits not kept")
    return f" ({', '.join(said)})" if said else ""


def _decades(traces: Sequence[Figure], axis: str) -> list[float]:
    """Return the range of a logarithmic axis, in exponents."""
    known = [value for trace in traces if trace["yaxis"] == axis for value in trace["y"] if value] or [LOWEST, 1.0]
    return [math.floor(math.log10(min(known)) + 1e-9) - 0.25, math.ceil(math.log10(max(known)) - 1e-9) + 0.25]


def _phases(history: History) -> tuple[list[Figure], list[Figure]]:
    bands, names = [], []
    if {row["phase"] for row in history} == {None}:
        return [], []
    for number, (name, first, last) in enumerate(phases(history)):
        start, stop = history[first]["step"] - 0.5, history[last]["step"] + 0.5
        if number % 2:
            bands.append(
                {
                    "type": "rect",
                    "xref": "x",
                    "yref": "paper",
                    "x0": start,
                    "x1": stop,
                    "y0": 0,
                    "y1": 1,
                    "fillcolor": "var(--band)",
                    "line": {"width": 0},
                    "layer": "below",
                }
            )
        if stop - start >= 0.05 * len(history):
            note = {"xref": "x", "yref": "paper", "x": 0.5 * (start + stop), "y": 1.0, "yanchor": "bottom"}
            names.append({**note, "text": escaped(name[:12]), "showarrow": False, "font": {"size": 11}})
    return bands, names


def phases(history: History) -> list[tuple[str, int, int]]:
    """Return the phases in order, each with the positions of its first and last row."""
    found: list[tuple[str, int, int]] = []
    for place, row in enumerate(history):
        name = row["phase"] or ""
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1], place)
        else:
            found.append((name, place, place))
    return found


def thinned(history: History, most: int = MOST_ROWS) -> list[Mapping[str, Any]]:
    """Return at most `most` rows, evenly spaced, including the first and the last.

    >>> [row["step"] for row in thinned([{"step": step} for step in range(10)], most=4)]
    [0, 3, 6, 9]
    """
    if len(history) <= most:
        return list(history)
    return [history[round(place * (len(history) - 1) / (most - 1))] for place in range(most)]


def phase_lines(history: History, does: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a line for each phase: what it does, its iterations, and loss and violation at its start and end."""
    lines = []
    for name, first, last in phases(history):
        rows = history[first : last + 1]
        violation = rows[-1]["exact_violation"]
        lines.append(
            {
                "name": name,
                "does": does.get(name, ""),
                "iterations": rows[-1]["step"] - rows[0]["step"] + 1,
                "first": rows[0]["loss"],
                "last": rows[-1]["loss"],
                "violation": rows[-1]["surrogate_violation"] if violation is None else violation,
            }
        )
    return lines
