"""The history of training, as a figure and by phase; a long history is thinned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairbound.report import numbers
from fairbound.report.templating import AXIS, Figure, base, digits, escaped

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
