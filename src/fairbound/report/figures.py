"""The interactive figures, as plain descriptions for plotly.js.

Colours are names of the page's style, "var(--after)".  The page's script fills them in, so that a figure follows light,
dark and print styles.  Text is escaped before it goes in, because plotly.js reads tags in it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from fairbound._escapes import visible
from fairbound._words import count
from fairbound.evaluation import Estimate, GroupScores, ScoreAudit
from fairbound.report import numbers

if TYPE_CHECKING:
    from fairbound.studies import Alternatives, PointOnPart, Summary

Figure = dict[str, Any]
SERIES = ("seriesa", "seriesb", "seriesc", "seriesd", "seriese", "seriesf")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star")
AXIS: Figure = {
    "gridcolor": "var(--grid)",
    "zeroline": False,
    "linecolor": "var(--line)",
    "ticks": "outside",
    "automargin": True,
}


def figure(traces: Sequence[Figure], height: int, x: Figure, y: Figure, **layout: Any) -> Figure:
    """Return a figure of the given height, with its two axes."""
    return {
        "data": list(traces),
        "layout": {
            "height": height,
            "margin": {"l": 64, "r": 16, "t": 36, "b": 52},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": "var(--text)", "size": 12, "family": "var(--font)"},
            "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--line)", "font": {"color": "var(--text)"}},
            "dragmode": False,
            "hovermode": "closest",
            "xaxis": AXIS | x,
            "yaxis": AXIS | y,
            **layout,
        },
    }


def trace(
    name: str, x: Iterable[float | None], y: Iterable[float | None], mode: str = "lines", **further: Any
) -> Figure:
    """Return a line, or markers; numbers have six digits, which is more than a figure shows."""
    coordinates = {"x": list(map(digits, x)), "y": list(map(digits, y))}
    return {"type": "scatter", "mode": mode, "name": escaped(name), **coordinates, **further}


def line(*, x: float | None = None, y: float | None = None, dash: str) -> Figure:
    """Return a line across the whole figure."""
    along = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    if y is not None:
        along = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y}
    return {"type": "line", **along, "line": {"color": "var(--muted)", "width": 1.2, "dash": dash}}


def note(text: str, *, x: float | None = None, y: float | None = None, at_end: bool = False) -> Figure:
    """Return a remark at a vertical line (x), or at the left or right end of a horizontal one (y)."""
    where: Figure = {"xref": "x", "yref": "paper", "x": x, "y": 0.0, "xanchor": "right", "textangle": -90}
    if y is not None:
        where = {"xref": "paper", "yref": "y", "y": y, "x": float(at_end), "xanchor": "right" if at_end else "left"}
    small = {"size": 11, "color": "var(--muted)"}
    return {**where, "yanchor": "bottom", "text": text, "showarrow": False, "font": small}


def whiskers(found: Sequence[Any], **style: Any) -> Figure:
    """Return asymmetric error bars, zero for estimates without an interval."""

    def reach(each: Any, end: float | None) -> float:
        return 0.0 if each.value is None or end is None else digits(abs(end - each.value)) or 0.0

    return {
        "type": "data",
        "symmetric": False,
        "array": [reach(each, each.upper) for each in found],
        "arrayminus": [reach(each, each.lower) for each in found],
        **style,
    }


def digits(value: float | None) -> float | None:
    """Round to six significant digits: more than a figure shows, and the file stays small."""
    return None if value is None or math.isnan(value) else float(f"{value:.6g}")


def escaped(text: str) -> str:
    """Escape text for plotly.js, which reads tags."""
    return html.escape(visible(text), quote=False)


FEW_POINTS = 15
"""With more points, error bars would hide everything else; those of the chosen point are drawn with its ring."""


def frontier_figure(summary: Summary, chosen: int) -> Figure:
    """Return accuracy against the measure on both parts: paths, then a ring for each, then the model without limits.

    Only held-out rows have intervals, because the models were fitted to the training rows.
    """
    limit, points = summary.limits[0], summary.frontier
    bound = points[chosen].bound if not limit.bounds else limit.bounds[0]
    parts: dict[str, list[PointOnPart]] = {"training": [point.training for point in points]}
    if summary.held_out is not None:
        parts["held-out"] = [point.held_out for point in points if point.held_out is not None]
    paths, rings, free = [], [], []
    x, y = [point.bound for point in points], list[float]()
    for name, found in parts.items():
        held = name == "held-out"
        colour, symbol = ("var(--held)", "diamond") if held else ("var(--train)", "circle")
        bars = dict[str, Figure]()
        if held:
            bars = {"error_y": whiskers([each.accuracy for each in found]), "error_x": whiskers(found)}
        faint = {"color": "var(--whisker)", "thickness": 1, "width": 0, "visible": len(points) <= FEW_POINTS}
        clear = {"color": colour, "thickness": 2, "width": 5, "visible": True}
        path = trace(
            f"{name} rows",
            [each.value for each in found],
            [each.accuracy.value for each in found],
            "lines+markers",
            text=[escaped(point.text) for point in points],
            hovertemplate=f"%{{text}}<br>measured %{{x:.4f}}<br>accuracy %{{y:.2%}}<extra>{name} rows</extra>",
            line={"color": colour, "width": 1.5, "dash": "dot" if held else "solid"},
            marker={"color": colour, "size": 9, "symbol": symbol},
            **{axis: bar | faint for axis, bar in bars.items()},
        )
        paths.append(path)
        marker = {"symbol": f"{symbol}-open", "size": 19, "color": "var(--text)", "line": {"width": 2.5}}
        own = {axis: {k: [bar[k][chosen]] for k in ("array", "arrayminus")} for axis, bar in bars.items()}
        ring = {axis: bars[axis] | ends | clear for axis, ends in own.items()}
        place = [path["x"][chosen]], [path["y"][chosen]]
        rings.append(trace("", *place, "markers", marker=marker, hoverinfo="skip", showlegend=False, **ring))
        for at in found:
            for ends, estimate in ((x, at), (y, at.accuracy)):
                known = (estimate.value, estimate.lower, estimate.upper) if held else (estimate.value,)
                ends += [value for value in known if value is not None]
        part = summary.parts[name]
        before, accuracy = part.limits[0].before, part.accuracy.before
        if before is not None and before.value is not None and accuracy is not None:
            name = f"without limits, {name}"
            tip = f"measured %{{x:.4f}}<br>accuracy %{{y:.2%}}<extra>{name}</extra>"
            cross = {"color": colour, "size": 10, "symbol": "x-open" if held else "x"}
            free.append(trace(name, [before.value], [accuracy.value], "markers", hovertemplate=tip, marker=cross))
    (left, right), (low, high) = _around(x), _around(y)
    for each in free:
        left, right = _with(left, right, each["x"][0])
        low, high = _with(low, high, each["y"][0])
    stricter = "stricter to the right" if limit.lower is not None else "stricter to the left"
    title = "<br>".join(escaped(text) for text in (limit.measure, limit.description, f"({stricter})") if text)
    shapes, notes = [line(x=bound, dash="dash")], [note("limit asked for", x=bound)]
    constant = summary.training.accuracy.constant
    if low - 0.5 * (high - low) < constant:  # left out if it would squeeze everything else into a corner
        low = min(low, constant - 0.03 * (high - low))
        shapes.append(line(y=constant, dash="dot"))
        notes.append(note("best constant prediction", y=constant))
    return figure(
        [*paths, *rings, *free],
        430,
        {"title": {"text": title}, "range": [left, right]},
        {"title": {"text": "accuracy"}, "tickformat": ".1%", "range": [low, high]},
        shapes=shapes,
        annotations=notes,
    )


def _around(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.01
    return low - room, high + room


def _with(low: float, high: float, value: float) -> tuple[float, float]:
    room = 0.04 * (high - low)
    return min(low, value - room), max(high, value + room)


class Step(NamedTuple):
    """One iteration: the point before a step.  A value that a solver does not record is None."""

    step: int
    phase: str | None
    loss: float | None
    error: float | None
    accuracy: float | None
    surrogate_violation: float | None
    exact_violation: float | None
    step_length: float | None
    optimality: float | None
    kept: bool | None
    flags: tuple[str, ...]

    @property
    def state(self) -> str:
        """The flags of the step, and whether the limits are kept."""
        kept = {True: ["kept"], False: ["not kept"], None: []}[self.kept]
        return ", ".join([*self.flags, *kept])


FLAGS = ("elastic", "locally_infeasible", "corrected")
"""The flags of a step."""

LOWEST = 1e-5
"""Smaller violations are drawn at this value, because a logarithmic axis has no zero."""

TITLES = {"y": "loss", "y2": "violation", "y3": "step length"}
"""The panels from the top, by axis; a panel without a line is left out."""

MOST_ROWS = 1000
"""Largest number of rows of the history on a page; a longer history is thinned evenly.  The JSON has all rows."""


def steps(history: Sequence[Mapping[str, Any]], most: int = MOST_ROWS) -> list[Step]:
    """Return at most `most` iterations, evenly spaced, including the first and the last.

    >>> [each.step for each in steps([{}] * 10, most=4)]
    [0, 3, 6, 9]
    """
    last = len(history) - 1
    places = range(len(history))
    chosen = places if len(history) <= most else [round(place * last / (most - 1)) for place in range(most)]
    found = []
    for place in chosen:
        row = {**history[place], "step": place, "optimality": history[place].get("kkt_stationarity")}
        row["flags"] = tuple(flag.replace("_", " ") for flag in FLAGS if row.get(flag))
        found.append(Step(**{name: row.get(name) for name in Step._fields}))  # type: ignore[arg-type]  # see Step
    return found


def phases(history: Sequence[Step]) -> list[tuple[str, list[Step]]]:
    """Return the phases in order, each with its steps."""
    return [(name or "", list(found)) for name, found in groupby(history, key=lambda each: each.phase)]


def history_figure(history: Sequence[Step]) -> Figure:
    """Return a figure of loss, violations and step length over the iterations."""
    lines = [
        ("loss", "loss", "y", "var(--text)", "solid"),
        ("error", "smoothed share of wrong decisions", "y", "var(--text)", "dot"),
        ("surrogate_violation", "violation by surrogate", "y2", "var(--before)", "dot"),
        ("exact_violation", "violation by decisions", "y2", "var(--after)", "solid"),
        ("step_length", "step length", "y3", "var(--faint)", "solid"),
    ]
    texts = []
    for each in history:
        said = ([f"phase {each.phase}"] if each.phase else []) + ([each.state] if each.state else [])
        texts.append(escaped(f" ({', '.join(said)})") if said else "")
    traces: list[Figure] = []
    for key, name, axis, colour, dash in lines:
        values = [getattr(each, key) for each in history]
        if key == "step_length":  # the last row of a solve has no step
            values = [value or None for value in values]
        if all(value is None for value in values):
            continue
        drawn = [None if value is None else max(value, LOWEST) for value in values] if axis != "y" else values
        traces.append(
            trace(
                name,
                [each.step for each in history],
                drawn,
                "lines+markers" if len(history) <= 120 else "lines",
                customdata=[numbers.significant(value) for value in values],
                text=texts,
                hovertemplate="iteration %{x}%{text}<br>" + name + " %{customdata}<extra></extra>",
                xaxis="x",
                yaxis=axis,
                line={"color": colour, "width": 1.8, "dash": dash},
                marker={"color": colour, "size": 5},
            )
        )
    panels = [axis for axis in TITLES if any(each["yaxis"] == axis for each in traces)]
    bands, names = _phase_bands(history)
    found = figure(
        traces,
        80 + 180 * len(panels),
        {
            "title": {"text": "iteration"},
            "anchor": panels[-1] if panels else "y",
            "range": [history[0].step - 0.5, history[-1].step + 0.5],
        },
        {},
        shapes=bands,
        annotations=names,
    )
    del found["layout"]["yaxis"]
    for place, axis in enumerate(panels):
        found["layout"][axis.replace("y", "yaxis")] = _panel(axis, place, len(panels), traces)
    return found


def _panel(axis: str, place: int, panels: int, traces: Sequence[Figure]) -> Figure:
    """Return the axis of one of several panels, from the top."""
    gap = 0.08
    height = (1.0 - gap * (panels - 1)) / panels
    top = 1.0 - place * (height + gap)
    found = {**AXIS, "title": {"text": TITLES[axis]}, "domain": [max(top - height, 0.0), top]}
    if axis == "y":
        return found
    known = [value for each in traces if each["yaxis"] == axis for value in each["y"] if value] or [LOWEST, 1.0]
    decades = [math.floor(math.log10(min(known)) + 1e-9) - 0.25, math.ceil(math.log10(max(known)) - 1e-9) + 0.25]
    return {**found, "type": "log", "tickformat": "~g", "dtick": 1, "range": decades}


def _phase_bands(history: Sequence[Step]) -> tuple[list[Figure], list[Figure]]:
    """Return a band for every second phase, and names of phases that are not too short."""
    bands, names = [], []
    upright = {"xref": "x", "yref": "paper"}
    for place, (name, found) in enumerate(phases(history)):
        start, stop = found[0].step - 0.5, found[-1].step + 0.5
        if place % 2:
            ends = {"x0": start, "x1": stop, "y0": 0, "y1": 1}
            look = {"fillcolor": "var(--band)", "line": {"width": 0}, "layer": "below"}
            bands.append({"type": "rect", **upright, **ends, **look})
        if name and stop - start >= 0.05 * len(history):
            where = {**upright, "x": 0.5 * (start + stop), "y": 1.0, "yanchor": "bottom"}
            names.append({**where, "text": escaped(name[:12]), "showarrow": False, "font": {"size": 11}})
    return bands, names


RELIABILITY = (
    "Share of positive labels against the mean score, in bins of scores. On the diagonal both are equal. The intervals "
    "are simultaneous over the bins of a group."
)
MEASURES = (
    "Each measure over all pairs of groups, if the rows with a score of at least the threshold are selected. A click "
    "on a name shows or hides it."
)
SHOWN_FIRST = ("disparate_impact", "demographic_parity", "equal_opportunity", "predictive_equality")
"""Measures whose curves are visible at first; a click on the legend shows the others."""


class ScoreFigure(NamedTuple):
    """A figure of scores, its heading, and a sentence that explains it."""

    heading: str
    says: str
    figure: Figure


class ScorePictures(NamedTuple):
    """The scores of one grouping: its groups, the figures by their ids, and how many groups they show."""

    grouping: str
    groups: list[GroupScores]
    figures: dict[str, ScoreFigure]
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
    figures: dict[str, ScoreFigure] = {}
    if any(each.calibration for each in shown):
        figures["reliability"] = ScoreFigure("Reliability", RELIABILITY, _reliability(shown))
    columns = [curves.groups.index(each.group) for each in shown]
    selection = [curves.rates["selection_rate"][:, column] for column in columns]
    figures["distribution"] = ScoreFigure(
        "Distribution of scores",
        "Share of each group in bins of scores.",
        _curves(
            [(each.name, scores.edges, [*each.shares, each.shares[-1]]) for each in shown],  # up to the last edge
            "from %{x:.3g}<br>share %{y:.3f}",
            ("score", "share of the group"),
            shape={"shape": "hv"},
        ),
    )
    figures["selection"] = ScoreFigure(
        "Selection rate at every threshold",
        "Share of each group with a score of at least the threshold.",
        _curves(
            [(each.name, curves.thresholds, rates) for each, rates in zip(shown, selection, strict=True)],
            "threshold %{x:.3g}<br>selection rate %{y:.3f}",
            ("threshold", "selection rate"),
        ),
    )
    if curves.measures:
        order = {name: place for place, name in enumerate(SHOWN_FIRST)}
        measures = sorted(curves.measures, key=lambda name: order.get(name, len(order)))
        found = _curves(
            [(numbers.words(name), curves.thresholds, curves.measures[name]) for name in measures],
            "threshold %{x:.3g}<br>%{y:.3f}",
            ("threshold", "value of the measure"),
            height=520,
        )
        for each, name in zip(found["data"], measures, strict=True):
            each["visible"] = True if name in SHOWN_FIRST else "legendonly"
        # A legend with many names would cover the curves on paper if it were above the plot.
        found["layout"]["legend"] |= {"y": -0.27, "yanchor": "top"}
        found["layout"]["margin"] |= {"t": 12, "b": 160}
        figures["measures"] = ScoreFigure("Measures at every threshold", MEASURES, found)
    numbered = {f"{name}-{place + 1}": each for name, each in figures.items()}
    return ScorePictures(curves.grouping, known, numbered, len(named) - len(shown), len(shown))


def _curves(
    curves: Iterable[tuple[str, Iterable[float], Iterable[float]]],
    tip: str,
    titles: tuple[str, str],
    *,
    shape: Mapping[str, str] | None = None,
    height: int = 340,
    **layout: Any,
) -> Figure:
    traces = []
    for place, (name, across, up) in enumerate(curves):
        look = {"color": f"var(--{SERIES[place % len(SERIES)]})", "width": 2, "dash": DASHES[place % len(DASHES)]}
        traces.append(trace(name, across, up, line=look | dict(shape or {}), hovertemplate=tip))
    x, y = ({"title": {"text": title}} for title in titles)
    return figure(traces, height, x, {**y, "rangemode": "tozero"}, showlegend=True, **layout)


def _reliability(groups: Sequence[GroupScores]) -> Figure:
    found = _curves(
        [
            (each.name, [b.score for b in each.calibration], [_share(b.positives) for b in each.calibration])
            for each in groups
        ],
        "mean score %{x:.3f}<br>positive %{y:.3f}<br>%{text}",
        ("mean score", "share of positive labels"),
        shapes=[{**line(y=0.0, dash="dot"), "xref": "x", "x0": 0, "x1": 1, "y0": 0, "y1": 1}],
    )
    for place, (each, group) in enumerate(zip(found["data"], groups, strict=True)):
        colour = f"var(--{SERIES[place]})"
        each |= {
            "mode": "lines+markers",
            "marker": {"color": colour, "symbol": SYMBOLS[place], "size": 8},
            "text": [f"{count(b.rows)} rows" for b in group.calibration],
            "error_y": whiskers([b.positives for b in group.calibration], color=colour, thickness=1, width=3),
        }
    found["layout"]["xaxis"]["range"] = found["layout"]["yaxis"]["range"] = [-0.02, 1.02]
    return found


def _share(found: Estimate) -> float:
    return math.nan if found.value is None else found.value


def search_figure(search: Alternatives, measure: str) -> Figure:
    """Return the picture of accuracy against the measure; undominated candidates are filled, the others hollow."""
    traces, best = [], search.undominated
    tip = "%{text}<br>measured %{x:.4f}<br>accuracy %{y:.2%}<extra></extra>"

    def points(name: str, judged: Sequence[Any], texts: Sequence[str], **marker: Any) -> None:
        x, y = [each.measures[measure].value for each in judged], [each.accuracy.value for each in judged]
        traces.append(trace(name, x, y, "markers", text=list(map(escaped, texts)), hovertemplate=tip, marker=marker))

    for place, kind in enumerate(dict.fromkeys(each.kind for each in search.candidates)):
        of_kind = [each for each in search.candidates if each.kind == kind]
        symbol, colour = SYMBOLS[place % len(SYMBOLS)], f"var(--{SERIES[place % len(SERIES)]})"
        symbols = [symbol if each in best else f"{symbol}-open" for each in of_kind]
        judged, names = [each.judged for each in of_kind], [each.name for each in of_kind]
        points(kind, judged, names, color=colour, size=10, symbol=symbols)
    points("baseline", [search.reference], [search.baseline], color="var(--text)", size=13, symbol="x")
    if search.chosen is not None:
        ring = {"size": 20, "symbol": "circle-open", "line": {"width": 2.5}}
        points("chosen", [search.chosen.judged], [search.chosen.name], color="var(--text)", **ring)
    shapes, notes = [], []
    if search.plan.tolerance.metric == "accuracy":
        least = (search.reference.accuracy.value or 0.0) - search.plan.tolerance.amount / 100.0
        bounds = search.plan.bounds[measure]  # from loose to strict; strict candidates are seldom accurate
        shapes = [line(y=least, dash="dash")]
        notes = [note("within the tolerance above", y=least, at_end=bounds[0] < bounds[-1])]
    return figure(
        traces,
        430,
        {"title": {"text": escaped(numbers.words(measure))}},
        {"title": {"text": "accuracy"}, "tickformat": ".1%"},
        shapes=shapes,
        annotations=notes,
        showlegend=True,
    )
