"""The frontier as a figure: accuracy against the measure, on both parts, with a ring around the chosen point.

Only held-out rows have intervals, because the models were fitted to the training rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairbound.report.figures import AXIS, Figure, base, digits, escaped, line, note

FEW_POINTS = 15


def frontier_figure(summary: Mapping[str, Any], chosen: int) -> Figure:
    """Accuracy against the measure on both parts: the paths, then a ring for each, then the model without limits."""
    frontier = summary["frontier"]
    points = frontier["points"]
    traces = [_path(points, "training", "training rows")]
    parts = ["training"]
    if points[0]["held_out"] is not None:
        traces.append(_path(points, "held_out", "held-out rows"))
        parts.append("held_out")
    x, y = _ends(points, parts)
    rings = [_ring(path, chosen) for path in traces]
    free = [trace for part in parts for trace in _free(summary, part)]
    for trace in free:
        x, y = _with(x, trace["x"][0]), _with(y, trace["y"][0])
    stricter = "stricter to the right" if frontier["larger_is_stricter"] else "stricter to the left"
    title = "<br>".join(
        escaped(text) for text in (frontier["measure"], frontier["description"], f"({stricter})") if text
    )
    shapes = [line(x=frontier["bound"], dash="dash")]
    notes = [note("limit asked for", x=frontier["bound"], side="x")]
    constant = summary["parts"]["training"]["accuracy"]["constant"]
    if y[0] - 0.5 * (y[1] - y[0]) < constant:
        # Left out if it would squeeze everything else into a corner.
        y = [min(y[0], constant - 0.03 * (y[1] - y[0])), y[1]]
        shapes.append(line(y=constant, dash="dot"))
        notes.append(note("best constant prediction", y=constant, side="y"))
    return {
        "data": [*traces, *rings, *free],
        "layout": {
            **base(430),
            "xaxis": {**AXIS, "title": {"text": title}, "range": x},
            "yaxis": {**AXIS, "title": {"text": "accuracy"}, "tickformat": ".1%", "range": y},
            "shapes": shapes,
            "annotations": notes,
            "hovermode": "closest",
        },
    }


def _path(points: Sequence[Mapping[str, Any]], part: str, name: str) -> Figure:
    held_out = part == "held_out"
    colour = _colour(part)
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [digits(point[part]["value"]) for point in points],
        "y": [digits(point[part]["accuracy"]["value"]) for point in points],
        "text": [escaped(point["text"]) for point in points],
        "hovertemplate": "%{text}<br>measured %{x:.4f}<br>accuracy %{y:.2%}<extra>" + name + "</extra>",
        "line": {"color": colour, "width": 1.5, "dash": "dot" if held_out else "solid"},
        "marker": {"color": colour, "size": 9, "symbol": "diamond" if held_out else "circle"},
    }
    if held_out:
        # With many points, error bars would hide everything else; those of the chosen point are drawn with its ring.
        style = {"color": "var(--whisker)", "thickness": 1, "width": 0, "visible": len(points) <= FEW_POINTS}
        trace["error_y"] = _whiskers([point[part]["accuracy"] for point in points]) | style
        trace["error_x"] = _whiskers([point[part] for point in points]) | style
    return trace


def _whiskers(found: Sequence[Mapping[str, Any]]) -> Figure:
    """Return asymmetric error bars, zero for values without an interval."""

    def reach(each: Mapping[str, Any], end: str) -> float:
        if each["value"] is None or each[end] is None:
            return 0.0
        return digits(abs(each[end] - each["value"])) or 0.0

    return {
        "type": "data",
        "symmetric": False,
        "array": [reach(each, "upper") for each in found],
        "arrayminus": [reach(each, "lower") for each in found],
    }


def _ring(path: Figure, chosen: int) -> Figure:
    """Return a ring around one point of a path, with its error bars in full colour."""
    ring = {
        "type": "scatter",
        "mode": "markers",
        "x": [path["x"][chosen]],
        "y": [path["y"][chosen]],
        "marker": {
            "symbol": path["marker"]["symbol"] + "-open",
            "size": 19,
            "color": "var(--text)",
            "line": {"width": 2.5},
        },
        "hoverinfo": "skip",
        "showlegend": False,
    }
    for bar in ("error_x", "error_y"):
        if bar in path:
            ends = {key: [path[bar][key][chosen]] for key in ("array", "arrayminus")}
            ring[bar] = path[bar] | ends | {"color": path["line"]["color"], "thickness": 2, "width": 5, "visible": True}
    return ring


def _free(summary: Mapping[str, Any], part: str) -> Iterator[Figure]:
    """Yield the model without limits, if the summary has its measure."""
    accuracy = summary["parts"][part]["accuracy"]["before"]
    asked = [limit for limit in summary["limits"] if limit["text"] == summary["frontier"]["limit"]]
    if accuracy is None or not asked or asked[0][part]["before"]["value"] is None:
        return
    name = f"without limits, {part.replace('_', '-')}"
    yield {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [digits(asked[0][part]["before"]["value"])],
        "y": [digits(accuracy["value"])],
        "hovertemplate": "measured %{x:.4f}<br>accuracy %{y:.2%}<extra>" + name + "</extra>",
        "marker": {"color": _colour(part), "size": 10, "symbol": "x" if part == "training" else "x-open"},
    }


def _colour(part: str) -> str:
    return "var(--held)" if part == "held_out" else "var(--train)"


def _with(ends: list[float], value: float) -> list[float]:
    """Return a range extended to one more value, with a margin."""
    room = 0.04 * (ends[1] - ends[0])
    return [min(ends[0], value - room), max(ends[1], value + room)]


def _ends(points: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return ranges that contain all points, error bars and bounds, with a margin."""
    across = [point["bound"] for point in points]
    up = []
    for point in points:
        for part in parts:
            keys = ("value", "lower", "upper") if part == "held_out" else ("value",)
            across += [point[part][key] for key in keys if point[part][key] is not None]
            up += [point[part]["accuracy"][key] for key in keys]
    return _room(across), _room(up)


def _room(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.01
    return [low - room, high + room]
