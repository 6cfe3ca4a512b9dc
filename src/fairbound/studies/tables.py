"""The tables of a study as text: accuracy and rates before and after, limits, and the frontier."""

from __future__ import annotations

from fairbound._text_tables import TextTable
from fairbound._words import as_level, count, number
from fairbound.fairness import shortest
from fairbound.studies.summary import Summary

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")
GAIN = "Gain: points of accuracy over the best constant prediction, which keeps any ratio or difference."
"""Explains a column of `frontier_table`."""


def summary_tables(summary: Summary) -> list[TextTable]:
    """Return tables of accuracy and rates by group, before and after, and of the limits."""
    tables = [_accuracy_table(summary), _rate_table(summary)]
    return [*tables, *([_limit_table(summary)] if summary.limits else [])]


def _accuracy_table(summary: Summary) -> TextTable:
    accuracy = summary.main.accuracy
    found = [estimate.value or 0.0 for estimate in (accuracy.before, accuracy.after) if estimate is not None]
    headings = ("no limit", "with limits") if len(found) == 2 else ("no limit" if not summary.limits else "",)
    gains = (f"{100 * (value - accuracy.constant):+.2f} points" for value in found)
    rows = (
        ("accuracy", *(f"{value:.2%}" for value in found)),
        ("gain over the best constant prediction", *gains),
    )
    return TextTable(f"{count(summary.main.rows)} {summary.main_rows} rows", ("", *headings), rows)


def _rate_table(summary: Summary) -> TextTable:
    """Return a line for each group and, of more than two, each class, with its rates side by side."""
    audits = list(summary.main.audits.values())
    several = len(audits[-1].missing) > 1  # with several sensitive columns, names of groups may repeat
    labels = summary.classes if len(summary.classes) > 2 else summary.classes[-1:]
    lines = []
    for groups in zip(*(audit.groups for audit in audits), strict=True):
        name = f"{groups[0].grouping}: {groups[0].name}" if several else groups[0].name
        for label in labels:
            rates = (" -> ".join(number(each.rate(rate, label).value, 4) for each in groups) for rate in RATES)
            lines.append((name, *((label,) if len(labels) > 1 else ()), *rates))
    title = "Rates of each class" if len(labels) > 1 else "Rates"
    header = ("group", *(("class",) if len(labels) > 1 else ()), *(rate.replace("_", " ") for rate in RATES))
    said = " (no limit -> with limits)" if len(audits) == 2 else ""
    return TextTable(f"{title}{said}", header, tuple(lines), left=len(header) - len(RATES))


def _limit_table(summary: Summary) -> TextTable:
    """Return a table of the value of each limit on each part of the rows, and the verdicts."""
    held_out, certificates = summary.held_out, summary.certificates
    header = ["limit", "training rows", "kept"]
    header += [] if held_out is None else ["held-out rows", "from", f"verdict, {as_level(summary.confidence)}"]
    header += ["calibration"] if "calibration" in certificates else []
    rows = []
    for place, limit in enumerate(summary.limits):
        reached = summary.training.limits[place].after
        row = [limit.text, number(reached.value, 4), "kept" if reached.kept else "NOT KEPT"]
        if held_out is not None:
            there = held_out.limits[place]
            groups = () if there.worst is None else (group or "everyone" for group, _ in there.worst.groups)
            row += [number(there.after.value, 4), " / ".join(groups)]
        rows.append((*row, *(certificates[each].limits[place].verdict.value for each in reversed(certificates))))
    return TextTable("Limits", tuple(header), tuple(rows))


def frontier_table(summary: Summary) -> TextTable:
    """Return a table of the values, accuracies and prices of each bound."""
    header = ["bound", "training rows", "kept", "accuracy", "gain"]
    header += [] if summary.held_out is None else ["held-out rows", "accuracy", "gain"]
    rows = []
    for point in summary.frontier:
        row = [shortest(point.bound)]
        for part in (point.training, point.held_out):
            if part is not None:
                row += [
                    number(part.value, 4),
                    *(["kept" if part.kept else "NOT KEPT"] if part is point.training else []),
                ]
                row += [f"{part.accuracy.value:.2%}", f"{100 * part.gain:+.2f}"]
        rows.append((*row, "-" if point.accuracy_price is None else f"{point.accuracy_price:.2f}"))
    return TextTable(summary.limits[0].description, (*header, "points for the next 0.01"), tuple(rows))
