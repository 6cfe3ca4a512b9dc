"""The frontier on the page: a view of each point; the page's script shows the view of the chosen one.

A *price* is the cost of tightening the bound by one step: 0.01, or less if all bounds are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbound.report import numbers
from fairbound.report.tables import RateTable, frontier_tables
from fairbound.report.templating import AXIS, Figure, base, digits, escaped, line, note

# --- frontier figure -------------------------------------------------------------------------------------------------

# The frontier as a figure: accuracy against the measure, on both parts, with a ring around the chosen point.
#
# Only held-out rows have intervals, because the models were fitted to the training rows.


FEW_POINTS = 15


def frontier_figure(summary: Mapping[str, Any], chosen: int) -> Figure:
    """Return accuracy against the measure on both parts: paths, then a ring for each, then the model without limits."""
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


# --- tradeoff --------------------------------------------------------------------------------------------------------


Readout = tuple[str, str]


@dataclass(frozen=True)
class PointView:
    """The view of one point: lines of a name and a text, and the cells of the tables in order.

    A cell is [text, interval, text on training rows, place, start and end of the interval on the strip].
    """

    text: str
    readouts: tuple[Readout, ...]
    cells: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Tradeoff:
    """All points, the one that is chosen first, its tables, and the figure."""

    points: tuple[PointView, ...]
    chosen: int
    tables: list[RateTable]
    figure: Figure
    step: float
    overview: tuple[tuple[str, ...], ...]
    header: tuple[str, ...]
    with_held_out: bool

    @property
    def script_data(self) -> dict[str, Any]:
        """Return the data for the page's script."""
        return {
            "chosen": self.chosen,
            "points": [
                {"text": point.text, "readouts": [text for _, text in point.readouts], "cells": point.cells}
                for point in self.points
            ],
            "paths": 2 if self.with_held_out else 1,
        }


def tradeoff(summary: Mapping[str, Any], names: Mapping[str, str]) -> Tradeoff:
    """Return the view of a frontier."""
    frontier = summary["frontier"]
    points = frontier["points"]
    chosen = min(range(len(points)), key=lambda place: abs(points[place]["bound"] - frontier["bound"]))
    step = price_step([point["bound"] for point in points])
    part = "held_out" if points[0]["held_out"] is not None else "training"
    ranges = [point[part]["groups"] for point in points]
    tables = [
        frontier_tables(point[part]["groups"], ranges, names, with_interval=part == "held_out") for point in points
    ]
    training = [
        frontier_tables(point["training"]["groups"], ranges, names, with_interval=False) if part == "held_out" else None
        for point in points
    ]
    readouts = [_readouts(point, step, frontier["larger_is_stricter"]) for point in points]
    return Tradeoff(
        points=tuple(
            PointView(point["text"], lines, tuple(_cells(shown, also)))
            for point, lines, shown, also in zip(points, readouts, tables, training, strict=True)
        ),
        chosen=chosen,
        tables=tables[chosen],
        figure=frontier_figure(summary, chosen),
        step=step,
        header=tuple(name for name, _ in readouts[0]),
        overview=tuple(tuple(text for _, text in lines) for lines in readouts),
        with_held_out=part == "held_out",
    )


def price_step(bounds: list[float]) -> float:
    """Return the step in which prices are given.

    >>> price_step([0.8, 0.9]), price_step([0.05, 0.1]), price_step([0.0001, 0.005])
    (0.01, 0.01, 0.001)
    """
    largest = max(map(abs, bounds))
    return 0.01 if largest >= 0.02 or largest == 0 else 10.0 ** math.floor(math.log10(largest / 2.0))


def _cells(shown: list[RateTable], also: list[RateTable] | None) -> list[tuple[Any, ...]]:
    """Return the cells of all tables of a point, row by row."""
    trained = {
        (table.grouping, table.label, line.name, line.everyone, place): marks[0].text
        for table in also or ()
        for line in table.lines
        for place, marks in enumerate(line.cells)
    }
    return [
        (
            marks[0].text,
            marks[0].interval,
            trained.get((table.grouping, table.label, line.name, line.everyone, place), ""),
            marks[0].at,
            marks[0].start,
            marks[0].stop,
        )
        for table in shown
        for line in table.lines
        for place, marks in enumerate(line.cells)
    ]


UNKNOWN, KEPT_ALREADY = "not known", "nothing: this model keeps it already"


def _readouts(point: Mapping[str, Any], step: float, larger_is_stricter: bool) -> tuple[Readout, ...]:
    training, held_out = point["training"], point["held_out"]
    lines = [("Limit", point["text"]), ("Status", str(point["status"]))]
    lines.append(("Accuracy, training", numbers.percent(training["accuracy"]["value"])))
    if held_out is not None:
        accuracy = held_out["accuracy"]
        ends = f" ({numbers.percent(accuracy['lower'])} to {numbers.percent(accuracy['upper'])})"
        lines.append(("Accuracy, held-out", numbers.percent(accuracy["value"]) + ends))
    lines.append(("Gain over a constant", numbers.points((held_out or training)["gain"])))
    lines.append(("Measured, training", _measured(training, point["bound"], with_interval=False)))
    if held_out is not None:
        lines.append(("Measured, held-out", _measured(held_out, point["bound"], with_interval=True)))
    costs = price(point, step)
    if costs != UNKNOWN and _keeps_the_next(point, step, larger_is_stricter):
        costs = KEPT_ALREADY
    lines.append((f"The next {numbers.short(step)} costs", costs))
    return tuple(lines)


def _measured(reached: Mapping[str, Any], bound: float, *, with_interval: bool) -> str:
    text = numbers.beside(reached["value"], [bound])
    text += f" ({numbers.interval(reached)})" if with_interval and reached["lower"] is not None else ""
    return text + {True: ", kept", False: ", not kept", None: ""}[reached["kept"]]


def _keeps_the_next(point: Mapping[str, Any], step: float, larger_is_stricter: bool) -> bool:
    """Return whether the model of a point keeps the bound that is a step stricter, on the training rows.

    So it is without limits, and where a model that was trained for a stricter bound has taken the place of another.
    """
    value, bound = point["training"]["value"], point["bound"]
    if value is None or not point["training"]["kept"]:
        return False
    return bool(value >= bound + step if larger_is_stricter else value <= bound - step)


def price(point: Mapping[str, Any], step: float) -> str:
    """Return the cost of tightening the bound by a step: in accuracy, from the next point, and in loss.

    >>> price({"accuracy_price": 0.055, "loss_price": 0.06}, 0.01)
    '0.06 points of accuracy, 0.0006 of loss'
    """
    said = []
    if point["accuracy_price"] is not None:
        said.append(f"{100.0 * step * point['accuracy_price']:.2f} points of accuracy".replace("-", numbers.MINUS))
    if point["loss_price"] is not None:
        said.append(f"{numbers.about(step * point['loss_price'])} of loss")
    return ", ".join(said) or UNKNOWN
