"""The frontier on the page: a view of each point, which the page's script puts in place.

A *price* is the cost of tightening the bound by one step: 0.01, or less if all bounds are small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairbound.report import numbers
from fairbound.report.figures import Figure
from fairbound.report.frontier_figure import frontier_figure
from fairbound.report.tables import RateTable, frontier_tables

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
    readouts = [_readouts(point, step) for point in points]
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


def _readouts(point: Mapping[str, Any], step: float) -> tuple[Readout, ...]:
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
    lines.append((f"The next {numbers.short(step)} costs", price(point, step)))
    return tuple(lines)


def _measured(reached: Mapping[str, Any], bound: float, *, with_interval: bool) -> str:
    text = numbers.beside(reached["value"], [bound])
    text += f" ({numbers.interval(reached)})" if with_interval and reached["lower"] is not None else ""
    return text + {True: ", kept", False: ", not kept", None: ""}[reached["kept"]]


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
    return ", ".join(said) or "not known"
