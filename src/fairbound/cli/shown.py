"""A summary as tables for people: before and after by group, and what became of the limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairbound._words import group_text, number
from fairbound.cli.outcome import RATES, rates_by_group
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
    classes = len(summary["classes"]) > 2
    if not classes:
        for name, groups in _groups(part, models):
            for rate in groups[0]["rates"]:
                rows.append((f"{rate}, {name}", *(number(group["rates"][rate], 4) for group in groups)))
    output.table(f"{part['rows']:,} {where}", ("", *headings), rows)
    if classes:
        output.text()
        _show_classes(output, part, models)
    if summary["limits"]:
        output.text()
        _show_limits(output, summary)


def _groups(part: Mapping[str, Any], models: Sequence[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name of each group, and its rates by each model."""
    several = len(part["after"]["missing"]) > 1  # then a group, or everyone, may be in each column of groups
    for groups in zip(*(rates_by_group(part, model) for model in models), strict=True):
        name = group_text(None if groups[0]["everyone"] else groups[0]["group"])
        yield f"{groups[0]['grouping']}: {name}" if several else name, list(groups)


def _show_classes(output: Output, part: Mapping[str, Any], models: Sequence[str]) -> None:
    """Print one line for each group and class, with its rates side by side."""
    lines = []
    for name, groups in _groups(part, models):
        for label in part["after"]["groups"][0]["rates"]:
            rates = [f"{rate.replace('_', ' ')} of {label}" for rate in RATES]
            cells = [" -> ".join(number(group["rates"][rate], 4) for group in groups) for rate in rates]
            lines.append((name, label, *cells))
    said = " (no limit -> with limits)" if len(models) == 2 else ""
    header = ("group", "class", *(rate.replace("_", " ") for rate in RATES))
    output.table(f"Rates of each class{said}", header, lines, left=2)


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
        row = [limit["text"], number(reached["value"], 4), "kept" if reached["kept"] else "NOT KEPT"]
        if certificate is not None:
            row += [number(limit["held_out"]["after"]["value"], 4), certificate["limits"][position]["verdict"]]
        if calibration is not None:
            row += [calibration["limits"][position]["verdict"]]
        rows.append(tuple(row))
    output.table("Limits", header, rows)
