"""A summary as tables for people: before and after by group, and what became of the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairbound.cli.outcome import rates_by_group
from fairbound.cli.output import Output


def show(output: Output, summary: Mapping[str, Any]) -> None:
    """Print before and after by group, and what became of the limits."""
    name = "training" if summary["parts"]["held_out"] is None else "held_out"
    part = summary["parts"][name]
    where = "training rows" if name == "training" else "held-out rows"
    models = [model for model in ("before", "after") if part[model] is not None]
    headings = ("no limit", "with limits") if len(models) == 2 else ("no limit" if not summary["limits"] else "",)
    accuracy = part["accuracy"]
    rows = [
        ("accuracy", *(f"{accuracy[model]['value']:.2%}" for model in models)),
        (
            "gain over the best constant prediction",
            *(f"{100 * (accuracy[model]['value'] - accuracy['constant']):+.2f} points" for model in models),
        ),
    ]
    several = len(part["after"]["missing"]) > 1  # then a group, or everyone, may be in each column of groups
    for groups in zip(*(rates_by_group(part, model) for model in models), strict=True):
        name = f"{groups[0]['grouping']}: {groups[0]['group']}" if several else groups[0]["group"]
        for rate in groups[0]["rates"]:
            rows.append((f"{rate}, {name}", *(_number(group["rates"][rate]) for group in groups)))
    output.table(f"{part['rows']:,} {where}", ("", *headings), rows)
    if summary["limits"]:
        output.text()
        _show_limits(output, summary)


def _show_limits(output: Output, summary: Mapping[str, Any]) -> None:
    held_out = summary["parts"]["held_out"]
    certificate = held_out["certificate"] if held_out is not None else None
    calibration = summary["calibration"]
    percent = f"{100 * summary['confidence']:g}%"
    header = ["limit", "training rows", "kept"]
    header += ["held-out rows", f"verdict, {percent}"] if certificate is not None else []
    header += ["calibration"] if calibration is not None else []
    rows = []
    for position, limit in enumerate(summary["limits"]):
        reached = limit["training"]["after"]
        row = [limit["text"], _number(reached["value"]), "kept" if reached["kept"] else "NOT KEPT"]
        if certificate is not None:
            row += [_number(limit["held_out"]["after"]["value"]), certificate["limits"][position]["verdict"]]
        if calibration is not None:
            row += [calibration["limits"][position]["verdict"]]
        rows.append(tuple(row))
    output.table("Limits", header, rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
