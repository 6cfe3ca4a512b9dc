"""Further pages in the style of the report, one HTML file each: a search for alternatives, and a monitor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairbound._words import count, group_text, p_text
from fairbound.report import numbers
from fairbound.report.audit import SERIES, SYMBOLS
from fairbound.report.templating import AXIS, Figure, base, digits, escaped, line, note, render_page


def search_to_html(search: Mapping[str, Any]) -> str:
    """Return the page of a search.

    Parameters
    ----------
    search : dict
        As `Alternatives.to_dict()` makes it, or as `search.json` has it.

    Raises
    ------
    ImportError
        If jinja2 or plotly is not installed.
    """
    measures = list(search["plan"]["measures"])
    return render_page(
        "search.html",
        what="The HTML report",
        figures={f"search-{place + 1}": search_figure(search, name) for place, name in enumerate(measures)},
        styles=("audit.css",),
        search=search,
        measures=measures,
        header=("Accuracy", "AUC", "Log loss", *map(numbers.words, measures), "Decisions changed", "McNemar p"),
        lines=list(_lines(search, measures)),
        changes=[] if not search["final"] else _changes(search["final"]["chosen"]),
        final=[] if not search["final"] else _final(search["final"], measures),
        facts=list(_facts(search)),
    )


def _lines(search: Mapping[str, Any], measures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the baseline and the candidates: name, marks and cells."""
    yield {
        "name": search["baseline"]["name"],
        "marks": ["baseline"],
        "cells": _cells(search["baseline"]["judged"], measures),
    }
    for each in search["candidates"]:
        known = {
            "chosen": each["name"] == search["chosen"],
            "within": each["within"],
            "undominated": each["undominated"],
        }
        marks = [name for name, holds in known.items() if holds]
        yield {"name": each["name"], "marks": marks, "cells": _cells(each["judged"], measures)}


def _cells(judged: Mapping[str, Any], measures: Sequence[str]) -> list[tuple[str, str]]:
    accuracy, auc = judged["accuracy"], judged["auc"]
    paired = judged["paired"]
    return [
        (
            numbers.percent(accuracy["value"]),
            f"{numbers.percent(accuracy['lower'])} to {numbers.percent(accuracy['upper'])}",
        ),
        ("–", "") if auc is None else (numbers.rate(auc["value"]), numbers.interval(auc)),
        (numbers.rate(judged["log_loss"]), ""),
        *(
            (numbers.rate(judged["measures"][name]["value"]), numbers.interval(judged["measures"][name]))
            for name in measures
        ),
        (count(judged["changed"]), ""),
        (
            "–" if not judged["changed"] else p_text(paired["p"]),
            numbers.points(paired["difference"]) if judged["changed"] else "",
        ),
    ]


def _final(final: Mapping[str, Any], measures: Sequence[str]) -> list[dict[str, Any]]:
    names = (("baseline", "Baseline"), ("chosen", "Chosen"))
    return [{"name": shown, "marks": [], "cells": _cells(final[name], measures)} for name, shown in names]


def _changes(judged: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            each["grouping"],
            group_text(tuple(each["group"]) if isinstance(each["group"], list) else each["group"]),
            count(each["rows"]),
            count(each["gained"]),
            count(each["lost"]),
        )
        for each in judged["groups"]
    ]


def _facts(search: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the log: the plan that was fixed before training, and the facts needed to repeat the search."""
    plan, lock = search["plan"], search["lock"]
    for measure, bounds in plan["bounds"].items():
        yield f"Bounds on {measure}", ", ".join(f"{bound:g}" for bound in bounds)
    yield "Kinds of models", ", ".join(plan["models"])
    yield "Tolerance", f"{plan['tolerance']['metric']} {plan['tolerance']['amount']:g}"
    yield "Plan written", f"{lock['written']}, before training; SHA-256 {lock['sha256']}"
    yield "Search", f"{search['started']} to {search['finished']}" + (", interrupted" if search["interrupted"] else "")
    yield "Rows", ", ".join(f"{name} {count(part['rows'])}" for name, part in search["parts"].items())
    data = search["data"]
    yield (
        "Data",
        f"{data['name']}, {count(data['rows'])} rows" + (f", SHA-256 {data['sha256']}" if data["sha256"] else ""),
    )
    yield "Rows of the search", f"SHA-256 {lock['content']['rows_sha256']}"
    yield "Seed", str(search["seed"])
    yield (
        "Versions",
        ", ".join(f"{name} {text}" for name, text in {"fairbound": search["fairbound"], **search["libraries"]}.items()),
    )
    yield "Command", str(search["command"])


def search_figure(search: Mapping[str, Any], measure: str) -> Figure:
    """Return the picture of accuracy against the measure; undominated candidates are filled, the others hollow."""
    kinds = list(dict.fromkeys(each["kind"] for each in search["candidates"]))
    traces = []
    for place, kind in enumerate(kinds):
        of_kind = [each for each in search["candidates"] if each["kind"] == kind]
        symbol = SYMBOLS[place % len(SYMBOLS)]
        traces.append(
            _points(
                kind,
                [each["judged"] for each in of_kind],
                measure,
                [escaped(each["name"]) for each in of_kind],
                {
                    "color": f"var(--{SERIES[place % len(SERIES)]})",
                    "size": 10,
                    "symbol": [symbol if each["undominated"] else f"{symbol}-open" for each in of_kind],
                },
            )
        )
    reference = search["baseline"]["judged"]
    marker = {"color": "var(--text)", "size": 13, "symbol": "x"}
    traces.append(_points("baseline", [reference], measure, [escaped(search["baseline"]["name"])], marker))
    chosen = [each for each in search["candidates"] if each["name"] == search["chosen"]]
    if chosen:
        ring = {"color": "var(--text)", "size": 20, "symbol": "circle-open", "line": {"width": 2.5}}
        traces.append(_points("chosen", [chosen[0]["judged"]], measure, [escaped(chosen[0]["name"])], ring))
    shapes, notes = [], []
    if search["plan"]["tolerance"]["metric"] == "accuracy":
        least = reference["accuracy"]["value"] - search["plan"]["tolerance"]["amount"] / 100.0
        bounds = search["plan"]["bounds"][measure]  # from loose to strict; strict candidates are seldom accurate
        shapes = [line(y=least, dash="dash")]
        notes = [note("within the tolerance above", y=least, side="y", at_end=bounds[0] < bounds[-1])]
    return {
        "data": traces,
        "layout": {
            **base(430),
            "xaxis": {**AXIS, "title": {"text": escaped(numbers.words(measure))}},
            "yaxis": {**AXIS, "title": {"text": "accuracy"}, "tickformat": ".1%"},
            "shapes": shapes,
            "annotations": notes,
            "hovermode": "closest",
            "showlegend": True,
        },
    }


def _points(
    name: str, judged: Sequence[Mapping[str, Any]], measure: str, texts: list[str], marker: Mapping[str, Any]
) -> Figure:
    found = [each["measures"][measure] for each in judged]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escaped(name),
        "x": [digits(each["value"]) for each in found],
        "y": [digits(each["accuracy"]["value"]) for each in judged],
        "text": texts,
        "hovertemplate": "%{text}<br>measured %{x:.4f}<br>accuracy %{y:.2%}<extra></extra>",
        "marker": dict(marker),
    }


# --- the page of a monitor -------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 260, 64, 16, 14, 40
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEAST_POWER, MOST_POWER = -3.0, 12.0
"""The range of powers of ten in the picture; evidence outside is drawn at its edge."""


def monitor_to_html(monitor: Mapping[str, Any], *, title: str = "Limits after release") -> str:
    """Return the page of a monitor.

    Parameters
    ----------
    monitor : dict
        As `fairbound.Monitor.to_dict()` makes it.
    title : str

    Raises
    ------
    ImportError
        If jinja2 is not installed.
    """
    limits = [
        {
            **limit,
            "evidence": _evidence(limit["log10_evidence"]),
            "picture": _picture(monitor["history"], place, monitor["threshold"], limit["alarm"]),
            "lines": [_line(each) for each in _by_evidence(limit["requirements"])],
        }
        for place, limit in enumerate(monitor["limits"])
    ]
    return render_page(
        "monitor.html",
        what="The HTML page of a monitor",
        styles=("audit.css", "monitor.css"),
        monitor=monitor,
        title=title,
        limits=limits,
        needed=_evidence(math.log10(monitor["threshold"])),
        frame={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM},
    )


MOST_LINES = 50


def _by_evidence(requirements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requirements most in doubt: by the evidence against them, then by their margins."""

    def doubt(each: Mapping[str, Any]) -> tuple[float, float]:
        margin = each.get("margin")  # pages of earlier versions have none
        return min(-each["log_evidence"], 0.0), math.inf if margin is None else margin

    return sorted(requirements, key=doubt)[:MOST_LINES]


def _line(found: Mapping[str, Any]) -> dict[str, str]:
    def rates(values: Sequence[float | None]) -> str:
        return ", ".join("–" if value is None else numbers.rate(value) for value in values)

    return {
        "text": found["text"],
        "evidence": _evidence(found["log_evidence"] / math.log(10.0)),
        "rates": rates(found["rates"]),
        "recent": rates(found["recent"]),
        "rows": ", ".join(count(rows) for rows in found["rows"]),
    }


def _evidence(power: float) -> str:
    """Return evidence in few digits, from its decimal logarithm.

    >>> _evidence(0.5), _evidence(5.0), _evidence(12.3), _evidence(-4.0)
    ('3.16', '100,000', '2.0 × 10¹²', '1.0 × 10⁻⁴')
    """
    if -2.0 <= power < 4.0:
        return f"{10.0**power:.2f}".removesuffix(".00")
    if 4.0 <= power < 7.0:
        return f"{10.0**power:,.0f}"
    whole = math.floor(power)
    return f"{10.0 ** (power - whole):.1f} × 10{str(whole).translate(RAISED)}"


def _picture(
    history: Sequence[Mapping[str, Any]], place: int, threshold: float, alarm: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the coordinates of the picture: evidence on a logarithmic scale over the rows counted."""
    points = [(0, 0.0), *((each["rows"], each["log10_evidence"][place]) for each in history)]
    powers = [min(max(power, LEAST_POWER), MOST_POWER) for _, power in points]
    needed = math.log10(threshold)
    low, high = math.floor(min(-1.0, *powers)), math.ceil(max(needed + 0.5, *powers))
    last = max(points[-1][0], 1)

    def x(rows: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * rows / last, 1)

    def y(power: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (power - low) / (high - low), 1)

    step = max(1, (high - low) // 6)
    return {
        "path": " ".join(f"{x(rows)},{y(power)}" for (rows, _), power in zip(points, powers, strict=True)),
        "threshold": y(needed),
        "powers": [(y(power), _tick(power)) for power in range(low, high + 1, step)],
        "rows": [(x(last * part / 4), count(round(last * part / 4))) for part in range(5)],
        "alarm": None if alarm is None else x(alarm["row"]),
    }


def _tick(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 4 else f"1e{power}"
