"""What the pictures show: the frontier, the history of a fit, scores by group, a search, and evidence over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from fairbound._words import count
from fairbound.evaluation import GroupScores, ScoreAudit, ThresholdCurves
from fairbound.report import numbers
from fairbound.report.drawing import DASHES, SERIES, SYMBOLS, Chart, Rule, Scale, Series

if TYPE_CHECKING:
    from fairbound.studies import Alternatives, PointOnPart, Summary

CROWDED = 15
"""With more points, only the chosen one has its interval, or they would hide everything else."""


def frontier_picture(summary: Summary, chosen: int) -> Chart:
    """Return accuracy against the measure on both parts, and the model without limits.

    Only held-out rows have intervals, because the models were fitted to the training rows.
    """
    limit, points = summary.limits[0], summary.frontier
    parts: dict[str, list[PointOnPart]] = {"training": [point.training for point in points]}
    if summary.held_out is not None:
        parts["held-out"] = [point.held_out for point in points if point.held_out is not None]
    paths, free = [], []
    x, y = list[float | None](point.bound for point in points), list[float | None]()
    for name, found in parts.items():
        held = name == "held-out"
        accuracies = [each.accuracy for each in found]
        ends: dict[str, Any] = {"across": [(each.lower, each.upper) for each in found]} if held else {}
        ends |= {"up": [(each.lower, each.upper) for each in accuracies]} if held else {}
        tips = [
            f"{point.text}: measured {numbers.beside(each.value, [point.bound])}, "
            f"accuracy {numbers.percent(each.accuracy.value)} on {name} rows"
            for point, each in zip(points, found, strict=True)
        ]
        look: dict[str, Any] = {"color": "held" if held else "train", "dash": "2 3" if held else ""}
        symbol = "diamond" if held else "circle"
        values, up = [each.value for each in found], [each.value for each in accuracies]
        paths.append(Series(name=f"{name} rows", x=values, y=up, symbol=symbol, tips=tips, **look, **ends))
        x += [end for each in found for end in ((each.value, each.lower, each.upper) if held else (each.value,))]
        y += [end for each in accuracies for end in ((each.value, each.lower, each.upper) if held else (each.value,))]
        part = summary.parts[name]
        before, accuracy = part.limits[0].before, part.accuracy.before
        if before is not None and before.value is not None and accuracy is not None:
            tip = f"without limits: measured {before.value:.4f}, accuracy {numbers.percent(accuracy.value)}"
            look = {"color": look["color"], "dash": None, "symbol": "cross", "tips": [tip]}
            free.append(Series(name=f"without limits, {name}", x=[before.value], y=[accuracy.value], **look))
            x, y = [*x, before.value], [*y, accuracy.value]
    stricter = "stricter to the right" if limit.lower is not None else "stricter to the left"
    scale = Scale.around(y, "accuracy", ".1%")
    rules = [Rule("limit asked for", x=limit.bounds[0] if limit.bounds else points[chosen].bound)]
    constant = summary.training.accuracy.constant
    if scale.low - 0.5 * (scale.high - scale.low) < constant:  # left out if it would squeeze all else into a corner
        scale = Scale.around([*y, constant], "accuracy", ".1%")
        rules.append(Rule("best constant prediction", y=constant, dash="2 3"))
    across = Scale.around(x, f"{numbers.words(limit.measure)}: {limit.description} ({stricter})")
    series = [*paths, *free]
    return Chart(across, scale, series, rules, 640, 380, chosen=chosen, crowded=len(points) > CROWDED)


Step = dict[str, Any]
"""One iteration, the point before a step: what the solver records, its number and its state."""

RECORDED = ("phase", "loss", "error", "accuracy", "surrogate_violation", "exact_violation", "step_length")
"""What a step may lack, besides its optimality; then it is None."""

FLAGS = ("elastic", "locally_infeasible", "corrected")
"""The flags of a step."""

LOWEST = 1e-5
"""Smaller violations are drawn at this value, because a logarithmic axis has no zero."""

PANELS = {
    "loss": {"loss": "loss", "error": "smoothed share of wrong decisions"},
    "violation": {"surrogate_violation": "violation by surrogate", "exact_violation": "violation by decisions"},
    "step length": {"step_length": "step length"},
}
"""The pictures of a history, and the lines of each; a picture without a line is left out."""

MOST_ROWS = 1000
"""Largest number of rows of the history on a page; a longer history is thinned evenly.  The JSON has all rows."""


def steps(history: Sequence[Mapping[str, Any]], most: int = MOST_ROWS) -> list[Step]:
    """Return at most `most` iterations, evenly spaced, including the first and the last.

    >>> [each["step"] for each in steps([{}] * 10, most=4)]
    [0, 3, 6, 9]
    """
    last = len(history) - 1
    places = range(len(history))
    chosen = places if len(history) <= most else [round(place * last / (most - 1)) for place in range(most)]
    none = dict.fromkeys((*RECORDED, "kkt_stationarity"))
    return [{**none, **history[place], "step": place, "state": _state(history[place])} for place in chosen]


def _state(row: Mapping[str, Any]) -> str:
    """Return the flags of a step, and whether the limits are kept."""
    flags = [flag.replace("_", " ") for flag in FLAGS if row.get(flag)]
    return ", ".join([*flags, *{True: ["kept"], False: ["not kept"], None: []}[row.get("kept")]])


def phases(history: Sequence[Step]) -> list[tuple[str, list[Step]]]:
    """Return the phases in order, each with its steps."""
    return [(name or "", list(found)) for name, found in groupby(history, key=lambda each: each["phase"])]


def history_pictures(history: Sequence[Step]) -> dict[str, Chart]:
    """Return pictures of loss, violations and step length over the iterations, by their titles."""
    found = {}
    for title, lines in PANELS.items():
        series = []
        for place, (key, name) in enumerate(lines.items()):
            values: list[float | None] = [each[key] for each in history]
            if key == "step_length":  # the last row of a solve has no step
                values = [value or None for value in values]
            if title == "violation":
                values = [None if value is None else max(value, LOWEST) for value in values]
            if any(value is not None for value in values):
                at = [float(each["step"]) for each in history]
                series.append(Series(name=name, x=at, y=values, color=SERIES[place], dash=DASHES[place]))
        if series:
            drawn = [value for each in series for value in each.y]
            scale = Scale.around(drawn, title) if title == "loss" else Scale.powers(drawn, title)
            ends = Scale.around([at[0], at[-1]], "iteration", ".0f", room=0.02)
            found[title] = Chart(ends, scale, series, width=640, height=230)
    return found


SHOWN_FIRST = ("disparate_impact", "demographic_parity", "equal_opportunity", "predictive_equality")
"""Measures whose curves are visible at first; a click on a name shows the others."""


class ScorePicture(NamedTuple):
    """Pictures of scores, each with its title, under one heading with a sentence that explains them."""

    heading: str
    says: str
    pictures: dict[str, Chart]


class ScorePictures(NamedTuple):
    """The scores of one grouping: its groups, the pictures by their ids, and how many groups they show."""

    grouping: str
    groups: list[GroupScores]
    figures: dict[str, ScorePicture]
    left_out: int
    shown: int


def score_pictures(scores: ScoreAudit | None) -> list[ScorePictures]:
    """Return the pictures of each grouping; empty without scores."""
    return [] if scores is None else [_pictures(scores, place) for place in range(len(scores.curves))]


def _pictures(scores: ScoreAudit, place: int) -> ScorePictures:
    curves = scores.curves[place]
    known = [each for each in scores.groups if each.grouping == curves.grouping]
    named = [each for each in known if not each.everyone]
    largest = sorted(named, key=lambda each: -each.rows)[: len(SERIES)]
    shown = [each for each in named if each in largest]
    figures = {f"{name}-{place + 1}": each for name, each in _score_figures(scores, curves, shown)}
    return ScorePictures(curves.grouping, known, figures, len(named) - len(shown), len(shown))


def _score_figures(
    scores: ScoreAudit, curves: ThresholdCurves, shown: Sequence[GroupScores]
) -> Iterator[tuple[str, ScorePicture]]:
    if any(each.calibration for each in shown):
        says = (
            "Share of positive labels against the mean score, in bins of scores: a picture for each group. On the "
            "diagonal both are equal. The intervals are simultaneous over the bins of a group."
        )
        pictures = {each.name: _reliability(each, place) for place, each in enumerate(shown)}
        yield "reliability", ScorePicture("Reliability", says, pictures)
    edges = [edge for low, high in zip(scores.edges, scores.edges[1:], strict=False) for edge in (low, high)]
    bars = [(each.name, edges, [share for share in each.shares for _ in "ab"]) for each in shown]
    says = "Share of each group in bins of scores."
    yield (
        "distribution",
        ScorePicture("Distribution of scores", says, {"": _curves(bars, ("score", "share of the group"))}),
    )
    columns = [curves.groups.index(each.group) for each in shown]
    rates = curves.rates["selection_rate"]
    selected = [(each.name, curves.thresholds, rates[:, at]) for each, at in zip(shown, columns, strict=True)]
    says = "Share of each group with a score of at least the threshold."
    found = {"": _curves(selected, ("threshold", "selection rate"))}
    yield "selection", ScorePicture("Selection rate at every threshold", says, found)
    if curves.measures:
        order = [*SHOWN_FIRST, *(name for name in curves.measures if name not in SHOWN_FIRST)]
        measures = [
            (numbers.words(name), curves.thresholds, curves.measures[name]) for name in order if name in curves.measures
        ]
        says = (
            "Each measure over all pairs of groups, if the rows with a score of at least the threshold are selected. "
            "A click on a name shows or hides it."
        )
        first = {numbers.words(name) for name in SHOWN_FIRST}
        found = {"": _curves(measures, ("threshold", "value of the measure"), first)}
        yield "measures", ScorePicture("Measures at every threshold", says, found)


def _curves(
    curves: Iterable[tuple[str, Iterable[float], Iterable[float]]], titles: tuple[str, str], first: Any = None
) -> Chart:
    series = [
        Series(
            name=name,
            x=list(x),
            y=list(y),
            color=SERIES[place % len(SERIES)],
            dash=DASHES[(place + place // len(SERIES)) % len(DASHES)],
            shown=first is None or name in first,
        )
        for place, (name, x, y) in enumerate(curves)
    ]
    across = Scale.around([value for each in series for value in each.x], titles[0], room=0.02)
    return Chart(across, Scale.around([0.0, *(value for each in series for value in each.y)], titles[1]), series)


def _reliability(group: GroupScores, place: int) -> Chart:
    bins = group.calibration
    found = Series(
        x=[each.score for each in bins],
        y=[each.positives.value for each in bins],
        color=SERIES[place],
        symbol="circle",
        tips=[f"mean score {each.score:.3f}, positive {each.positives}, {count(each.rows)} rows" for each in bins],
        up=[(each.positives.lower, each.positives.upper) for each in bins],
    )
    share = Scale(-0.02, 1.02, "mean score")
    return Chart(share, Scale(-0.02, 1.02, "positive labels"), [found], [Rule(dash="2 3")], 300, 280)


def search_picture(search: Alternatives, measure: str) -> Chart:
    """Return the picture of accuracy against the measure; undominated candidates are filled, the others hollow."""
    series, best = [], search.undominated

    def points(name: str, judged: Sequence[Any], texts: Sequence[str], **look: Any) -> None:
        x, y = [each.measures[measure].value for each in judged], [each.accuracy.value for each in judged]
        tips = [
            f"{text}: measured {numbers.rate(value)}, accuracy {numbers.percent(accuracy)}"
            for text, value, accuracy in zip(texts, x, y, strict=True)
        ]
        series.append(Series(name=name, x=x, y=y, tips=tips, dash=None, **look))

    symbols = list(SYMBOLS)[:-1]
    for place, kind in enumerate(dict.fromkeys(each.kind for each in search.candidates)):
        of_kind = [each for each in search.candidates if each.kind == kind]
        look: dict[str, Any] = {"color": SERIES[place % len(SERIES)], "symbol": symbols[place % len(symbols)]}
        hollow = [each not in best for each in of_kind]
        points(kind, [each.judged for each in of_kind], [each.name for each in of_kind], hollow=hollow, **look)
    points("baseline", [search.reference], [search.baseline], color="text", symbol="cross")
    if search.chosen is not None:
        points("chosen", [search.chosen.judged], [search.chosen.name], color="text", symbol="square", hollow=[True])
    values, accuracies = ([value for each in series for value in getattr(each, axis)] for axis in "xy")
    rules = []
    if search.plan.tolerance.metric == "accuracy":
        least = (search.reference.accuracy.value or 0.0) - search.plan.tolerance.amount / 100.0
        rules, accuracies = [Rule("within the tolerance above", y=least)], [*accuracies, least]
    scale = Scale.around(accuracies, "accuracy", ".1%")
    return Chart(Scale.around(values, numbers.words(measure)), scale, series, rules, 640, 360)


LEAST_POWER, MOST_POWER = -3.0, 12.0
"""The range of powers of ten in the picture of a monitor; evidence outside is drawn at its edge."""


def evidence_picture(
    history: Sequence[Mapping[str, Any]], place: int, threshold: float, alarm: Mapping[str, Any] | None
) -> Chart:
    """Return the evidence against a limit over the rows counted, on a logarithmic scale."""
    rows = [0.0, *(float(each["rows"]) for each in history)]
    powers = [0.0, *(min(max(each["log10_evidence"][place], LEAST_POWER), MOST_POWER) for each in history)]
    found = Series(x=rows, y=[10.0**power for power in powers], color="after")
    scale = Scale.powers([0.1, *found.y, 10.0 ** math.ceil(math.log10(threshold) + 0.5)], "evidence")
    rules = [Rule(f"alarm from {threshold:g}", y=threshold)]
    rules += [] if alarm is None else [Rule("alarm", x=float(alarm["row"]), dash="")]
    return Chart(Scale(0.0, max(rows[-1], 1.0), "rows counted", ",.0f"), scale, [found], rules, 640, 260)
