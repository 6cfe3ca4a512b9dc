"""The frontier on the page: the lines and tables of each point; the page's script shows those of the chosen one.

A *price* is the cost of tightening the bound by one step: 0.01, or less if all bounds are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fairbound.report import numbers
from fairbound.report.drawing import Chart
from fairbound.report.figures import frontier_picture
from fairbound.report.tables import RateTable, rate_tables

if TYPE_CHECKING:
    from fairbound.studies import PointOnPart, PointSummary, Summary

UNKNOWN, KEPT_ALREADY = "not known", "nothing: this model keeps it already"


class Tradeoff(NamedTuple):
    """All points: for each its readouts (a name and a text) and cells, which the script shows; and the first choice.

    A cell is [text, interval, text on training rows, place, start and end of the interval on the strip].
    """

    chosen: int
    step: float
    readouts: list[dict[str, str]]
    tables: list[RateTable]
    cells: list[list[tuple[Any, ...]]]
    figure: Chart
    script_data: dict[str, Any]


def tradeoff(summary: Summary) -> Tradeoff | None:
    """Return the view of a frontier; None without one."""
    points, limit = summary.frontier, summary.limits[0] if summary.limits else None
    if not points or limit is None:
        return None
    asked = limit.bounds[0]
    chosen = min(range(len(points)), key=lambda place: abs(points[place].bound - asked))
    step = price_step([point.bound for point in points])
    held_out = points[0].held_out is not None
    shown = [point.held_out or point.training for point in points]
    tables = [_tables(each, shown, summary.names, ends=held_out) for each in shown]
    also = [_tables(point.training, shown, summary.names, ends=False) for point in points] if held_out else tables
    cells = [list(_cells(*each)) for each in zip(tables, also, strict=True)]
    readouts = [_readouts(point, step, rising=limit.lower is not None) for point in points]
    return Tradeoff(
        chosen,
        step,
        readouts,
        tables[chosen],
        cells,
        frontier_picture(summary, chosen),
        {
            "points": [
                {"text": point.text, "readouts": list(lines.values()), "cells": each}
                for point, lines, each in zip(points, readouts, cells, strict=True)
            ],
        },
    )


def _tables(
    point: PointOnPart, shared: Sequence[PointOnPart], names: Mapping[str, str], *, ends: bool
) -> list[RateTable]:
    return list(rate_tables({"after": point.groups}, names, ends=ends, shared=[each.groups for each in shared]))


def _cells(tables: Sequence[RateTable], also: Sequence[RateTable]) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of all tables of a point, row by row."""
    for table, trained in zip(tables, also, strict=True):
        for (_, line), (_, other) in zip(table.lines, trained.lines, strict=True):
            for axis, found, there in zip(table.axes.values(), line, other, strict=True):
                each, text = found["after"], _text(there["after"].value)
                places = map(axis.place, (each.value, each.lower, each.upper))
                yield (_text(each.value), numbers.interval(each), text, *places)


def _text(value: float | None) -> str:
    return "undefined" if value is None else numbers.rate(value)


def price_step(bounds: list[float]) -> float:
    """Return the step in which prices are given.

    >>> price_step([0.8, 0.9]), price_step([0.05, 0.1]), price_step([0.0001, 0.005])
    (0.01, 0.01, 0.001)
    """
    largest = max(map(abs, bounds))
    return 0.01 if largest >= 0.02 or largest == 0 else 10.0 ** math.floor(math.log10(largest / 2.0))


def _readouts(point: PointSummary, step: float, *, rising: bool) -> dict[str, str]:
    training, held_out = point.training, point.held_out
    lines = {"Limit": point.text, "Status": point.status}
    lines["Accuracy, training"] = numbers.percent(training.accuracy.value)
    if held_out is not None:
        lines["Accuracy, held-out"] = numbers.accuracy(held_out.accuracy)
    lines["Gain over a constant"] = numbers.points((held_out or training).gain)
    lines["Measured, training"] = _measured(training, point.bound)
    if held_out is not None:
        ends = "" if held_out.lower is None else f" ({numbers.interval(held_out)})"
        lines["Measured, held-out"] = _measured(held_out, point.bound, ends)
    costs = price(point.accuracy_price, point.loss_price, step)
    value, stricter = training.value, point.bound + step if rising else point.bound - step
    if (
        costs != UNKNOWN
        and training.kept
        and value is not None
        and (value >= stricter if rising else value <= stricter)
    ):
        costs = KEPT_ALREADY
    return {**lines, f"The next {numbers.short(step)} costs": costs}


def _measured(reached: PointOnPart, bound: float, ends: str = "") -> str:
    kept = {True: ", kept", False: ", not kept", None: ""}[reached.kept]
    return f"{numbers.beside(reached.value, [bound])}{ends}{kept}"


def price(in_accuracy: float | None, in_loss: float | None, step: float) -> str:
    """Return the cost of tightening the bound by a step: in accuracy, from the next point, and in loss.

    >>> price(0.055, 0.06, 0.01)
    '0.06 points of accuracy, 0.0006 of loss'
    """
    said = []
    if in_accuracy is not None:
        said.append(f"{100.0 * step * in_accuracy:.2f} points of accuracy".replace("-", numbers.MINUS))
    if in_loss is not None:
        said.append(f"{numbers.about(step * in_loss)} of loss")
    return ", ".join(said) or UNKNOWN
