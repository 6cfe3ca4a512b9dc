"""An audit as one HTML file in the style of the report: counts, rates with intervals, measures, scores and tests.

For the scores of each grouping there are up to four pictures: reliability, distribution, selection rates at every
threshold, and measures at every threshold.  If there are many groups, a picture shows only the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbound._words import beside, count, group_text, p_text
from fairbound.report import numbers
from fairbound.report.tables import RateTable, count_tables, rate_tables
from fairbound.report.templating import AXIS, Figure, base, digits, escaped, line, render_page


def audit_to_html(
    audit: Mapping[str, Any],
    *,
    title: str = "Decisions by group",
    limits: Sequence[Mapping[str, Any]] = (),
    notes: Iterable[str] = (),
) -> str:
    """Return the page of an audit.

    Parameters
    ----------
    audit : dict
        As `fairbound.audit(...).to_dict()` makes it.
    title : str
    limits : sequence of dict
        A dictionary for each limit, with `limit`, `value`, `kept` and `bounds`.  The bounds are needed so that no value
        is rounded to a bound.
    notes : iterable of str
        How to read the numbers, as `Audit.notes` has them.

    Raises
    ------
    ImportError
        If jinja2 is not installed, or with scores plotly.
    """
    tests, scores = significance_tables(audit), score_views(audit)
    figures = {name: figure for view in scores for name, (_, _, figure) in view.figures.items()}
    names = {str(label): str(label) for label in audit["classes"]}
    models = {"before": None, "after": audit}
    tables = rate_tables(models, names, with_interval=True)
    groupings = [
        {
            "name": grouping,
            "rates": [rate for table in tables if table.grouping == grouping for rate in _one_by_one(table)],
            "counts": [table for table in count_tables(models, names) if table.grouping == grouping],
            "tests": [table for table in tests if table.grouping == grouping],
            "scores": [view for view in scores if view.grouping == grouping],
            "measures": [_measure(each) for each in audit["measures"] if each["grouping"] == grouping],
        }
        for grouping in audit["missing"]
    ]
    return render_page(
        "audit.html",
        what="The HTML audit",
        figures=figures,
        styles=("audit.css",),
        audit=audit,
        title=title,
        limits=limits,
        notes=list(notes),
        groupings=groupings,
    )


def _one_by_one(table: RateTable) -> list[dict[str, Any]]:
    """Return one table per rate, which fits a page of any width."""
    return [
        {
            "name": numbers.words(rate),
            "label": table.label,
            "axis": axis,
            "lines": [(line.name, line.everyone, line.rows, line.cells[place]) for line in table.lines],
        }
        for place, (rate, axis) in enumerate(table.rates)
    ]


def _measure(found: Mapping[str, Any]) -> dict[str, Any]:
    pair = found["pair"]
    return {
        "name": numbers.words(found["measure"]),
        "description": found["description"],
        "label": found["label"],
        "apart": "" if pair is None else f"{group_text(pair[0])}, {group_text(pair[1])}",
        "value": "undefined" if found["value"] is None else numbers.rate(found["value"]),
        "interval": numbers.interval(found),
        "left_out": ", ".join(map(group_text, found["left_out"])),
    }


# --- scores and tests -------------------------------------------------------------------------------------------------

SERIES = ("seriesa", "seriesb", "seriesc", "seriesd", "seriese", "seriesf")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star")
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


# --- tests of selection rates ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignificanceTable:
    """The tests of one grouping: a header, and for each group its name and cells.  A cell has a text and a subtext."""

    grouping: str
    reference: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def significance_tables(audit: Mapping[str, Any]) -> list[SignificanceTable]:
    """Return the tests of each grouping; none for weighted rows, several classes, and audits of earlier versions."""
    tests = audit.get("significance") or ()
    header = (
        "Selected",
        "Ratio",
        "Standard deviations",
        "p",
        "p, adjusted",
        "Missing at reference rate",
        "Missing at pooled rate",
        "Four fifths",
    )
    found = []
    for grouping in dict.fromkeys(test["grouping"] for test in tests):
        of_it = [test for test in tests if test["grouping"] == grouping]
        reference = f"{group_text(_group(of_it[0]['reference']))} ({numbers.rate(of_it[0]['reference_rate'])})"
        lines = tuple((group_text(_group(test["group"])), _test_cells(test)) for test in of_it)
        found.append(SignificanceTable(grouping, reference, header, lines))
    return found


def _group(group: Any) -> Any:
    return tuple(group) if isinstance(group, list) else group


def _test_cells(test: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    deviations, *missing = (
        f"{test[name]:.{places}f}".replace("-", numbers.MINUS)
        for name, places in (("standard_deviations", 2), ("shortfall", 1), ("pooled_shortfall", 1))
    )
    flips = [
        words
        for words, found in (
            ("one more reaches", test["one_more_reverses"]),
            ("one different exceeds", test["one_different_exceeds"]),
        )
        if found
    ]
    return (
        (numbers.rate(test["rate"]), f"{count(test['selected'])} of {count(test['rows'])}"),
        (beside(test["ratio"], [0.8], 3), numbers.interval(test)),
        (deviations, ""),
        (p_text(test["p"]), "exact" if test["exact"] else "Z"),
        (p_text(test["adjusted_p"]), ""),
        *((each, "") for each in missing),
        ("below" if test["below_four_fifths"] else "reached", ", ".join(flips)),
    )


# --- scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreView:
    """The scores of one grouping: a table, and the pictures by their names, each with a sentence that explains it."""

    grouping: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, bool, tuple[str, ...]], ...]
    figures: dict[str, tuple[str, str, Figure]]
    left_out: str


def score_views(audit: Mapping[str, Any]) -> list[ScoreView]:
    """Return the view of each grouping; empty without scores."""
    scores = audit.get("scores")
    return [] if not scores else [_view(scores, place) for place in range(len(scores["curves"]))]


def _view(scores: Mapping[str, Any], place: int) -> ScoreView:
    curves = scores["curves"][place]
    grouping = curves["grouping"]
    known = [each for each in scores["groups"] if each["grouping"] == grouping]
    named = [each for each in known if not each["everyone"]]
    shown = sorted(named, key=lambda each: -each["rows"])[: len(SERIES)]
    shown = [each for each in named if each in shown]
    figures: dict[str, tuple[str, str, Figure]] = {}
    if any(each["calibration"] for each in shown):
        figures[f"reliability-{place + 1}"] = (
            "Reliability",
            RELIABILITY,
            _reliability(shown),
        )
    figures[f"distribution-{place + 1}"] = (
        "Distribution of scores",
        "Share of each group in bins of scores.",
        _distribution(scores["edges"], shown),
    )
    figures[f"selection-{place + 1}"] = (
        "Selection rate at every threshold",
        "Share of each group with a score of at least the threshold.",
        _selection(curves, shown),
    )
    if curves["measures"]:
        figures[f"measures-{place + 1}"] = (
            "Measures at every threshold",
            MEASURES,
            _measures(curves),
        )
    header = ("Rows", *(("AUC", "Calibration error") if scores["labelled"] else ()), "Median", "Middle half")
    lines = tuple((_name(each), each["everyone"], _cells(each, scores["labelled"])) for each in known)
    left = len(named) - len(shown)
    return ScoreView(
        grouping, header, lines, figures, f"The pictures show the {len(shown)} largest groups." if left else ""
    )


def _name(group: Mapping[str, Any]) -> str:
    return group_text(None if group["everyone"] else group["group"])


def _cells(group: Mapping[str, Any], labelled: bool) -> tuple[str, ...]:
    quantiles = [f"{value:.3g}".replace("-", numbers.MINUS) for value in group["quantiles"]]
    error = group["calibration_error"]
    with_labels = (numbers.estimate(group["auc"]), numbers.rate(error)) if labelled else ()
    return (count(group["rows"]), *with_labels, quantiles[3], f"{quantiles[2]} to {quantiles[4]}")


def _trace(place: int, name: str, x: Sequence[Any], y: Sequence[Any], **further: Any) -> Figure:
    colour = f"var(--{SERIES[place]})"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escaped(name),
        "x": [digits(value) for value in x],
        "y": [digits(value) for value in y],
        "line": {"color": colour, "width": 2, "dash": DASHES[place]},
        **further,
    }


def _layout(across: str, up: str, **further: Any) -> Figure:
    return {
        **base(340),
        "xaxis": {**AXIS, "title": {"text": across}},
        "yaxis": {**AXIS, "title": {"text": up}, "rangemode": "tozero"},
        "hovermode": "closest",
        "showlegend": True,
        **further,
    }


def _reliability(groups: Sequence[Mapping[str, Any]]) -> Figure:
    traces = []
    for place, group in enumerate(groups):
        bins = group["calibration"]
        shares = [each["positives"] for each in bins]
        traces.append(
            _trace(
                place,
                _name(group),
                [each["score"] for each in bins],
                [share["value"] for share in shares],
                mode="lines+markers",
                marker={"color": f"var(--{SERIES[place]})", "symbol": SYMBOLS[place], "size": 8},
                text=[f"{count(each['rows'])} rows" for each in bins],
                hovertemplate="mean score %{x:.3f}<br>positive %{y:.3f}<br>%{text}",
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [digits(share["upper"] - share["value"]) for share in shares],
                    "arrayminus": [digits(share["value"] - share["lower"]) for share in shares],
                    "color": f"var(--{SERIES[place]})",
                    "thickness": 1,
                    "width": 3,
                },
            )
        )
    diagonal = {**line(y=0.0, dash="dot"), "xref": "x", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
    layout = _layout("mean score", "share of positive labels", shapes=[diagonal])
    layout["xaxis"]["range"] = layout["yaxis"]["range"] = [-0.02, 1.02]
    return {"data": traces, "layout": layout}


def _distribution(edges: Sequence[float], groups: Sequence[Mapping[str, Any]]) -> Figure:
    steps = {"shape": "hv"}
    traces = []
    for place, group in enumerate(groups):
        shares = [*group["shares"], group["shares"][-1]]  # the last step reaches the last edge
        trace = _trace(place, _name(group), edges, shares, hovertemplate="from %{x:.3g}<br>share %{y:.3f}")
        traces.append({**trace, "line": {**trace["line"], **steps}})
    return {"data": traces, "layout": _layout("score", "share of the group")}


def _selection(curves: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> Figure:
    rates = curves["rates"]["selection_rate"]
    return {
        "data": [
            _trace(
                place,
                _name(group),
                curves["thresholds"],
                rates[group["group"]],
                hovertemplate="threshold %{x:.3g}<br>selection rate %{y:.3f}",
            )
            for place, group in enumerate(groups)
        ],
        "layout": _layout("threshold", "selection rate"),
    }


def _legend_below() -> Figure:
    """Return the layout for a legend with many names.  Above the plot it would cover the curves on paper."""
    plain = base(0)
    legend = {**plain["legend"], "y": -0.27, "yanchor": "top"}
    return {"legend": legend, "margin": {**plain["margin"], "t": 12, "b": 160}}


def _measures(curves: Mapping[str, Any]) -> Figure:
    known = sorted(
        curves["measures"], key=lambda name: SHOWN_FIRST.index(name) if name in SHOWN_FIRST else len(SHOWN_FIRST)
    )
    return {
        "data": [
            _trace(
                place % len(SERIES),
                numbers.words(name),
                curves["thresholds"],
                curves["measures"][name],
                hovertemplate="threshold %{x:.3g}<br>%{y:.3f}",
                visible=True if name in SHOWN_FIRST else "legendonly",
            )
            for place, name in enumerate(known)
        ],
        "layout": _layout("threshold", "value of the measure", height=520, **_legend_below()),
    }
