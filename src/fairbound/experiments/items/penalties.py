"""Constraints against regularisation: figure 5, the cost of a demanded ratio, and table 3 (time and memory)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from fairbound.experiments.claims import Check, check
from fairbound.experiments.exhibits import COLORS, QUIET, ResultTable, decades, legend, missed, panels, table
from fairbound.experiments.items.ratios import WORDS, word
from fairbound.experiments.protocol import APPROACHES, PRINTED, SCALE_RATIOS, SEARCH_FITS, SEARCH_TOLERANCE
from fairbound.experiments.runs import Evidence, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEADY = 0.005
"""A smaller decrease of the ratio is noise of single rows, and still counts as monotone."""

COMPARED = 0.9
"""The ratio at which accuracies are compared.  It binds on every data set."""

ROUNDING = 0.05
"""Accuracies within so many points are equal: 8 of the 16,638 rows of Law."""

SLIGHTLY = 1.5
"""A constrained run costs slightly more if it takes at most this many times as long as a regularised one."""


def _stronger(evidence: Evidence, approach: str) -> dict[str, list[Point]]:
    """Return the points under constraints and under penalties, each from loose to strict."""
    constrained = evidence.constrained(approach)
    return {
        "constraint": constrained[::-1] if approach == "covariance" else constrained,
        "regularisation": evidence.penalized(approach)[::-1],
    }


def draw_penalized(evidence: Evidence) -> Figure:
    """Draw accuracy and ratio against limits and against penalties, with one row of panels per surrogate."""
    figure, axes = panels(f"{evidence.title}: constraints and regularisation", 2, 3, height=2.1, width=4.4)
    for row, name in enumerate(APPROACHES):
        accuracy_axes = []
        for column, (approach, points) in enumerate(_stronger(evidence, name).items()):
            left = axes[2 * row + column]
            right = left.twinx()
            right.spines["right"].set_visible(True)
            right.grid(visible=False)
            bounds = [point.bound for point in points]
            label = f"ratio, {WORDS[name]} (left scale)"
            left.plot(bounds, [p.ratio for p in points], "o-", color=COLORS[name], markersize=4, label=label)
            accuracies = [point.accuracy for point in points]
            right.plot(bounds, accuracies, "s--", color=QUIET, markersize=4, label="accuracy, % (right scale)")
            if approach == "constraint" and name != "covariance":
                missed(left, bounds[0], bounds[-1])
                left.set_xlabel("ratio demanded")
            else:
                decades(left)
                left.set_xlabel("λ, stronger →" if column else "limit on the covariance, stricter →")
            left.set_ylim(-0.03, 1.03)
            left.set_title(f"{WORDS[name]}: {approach}")
            accuracy_axes.append(right)
        # One scale for both panels, so that their accuracies can be compared.
        ends = [end for axis in accuracy_axes for end in axis.get_ylim()]
        for axis in accuracy_axes:
            axis.set_ylim(min(ends), max(ends))
        accuracy_axes[0].tick_params(labelright=False)
        accuracy_axes[1].set_ylabel("accuracy, %")
        axes[2 * row].set_ylabel("ratio")
    legend(figure, axes[0], accuracy_axes[0], axes[2], axes[4])
    return figure


def tabulate_penalized(evidence: Evidence) -> ResultTable:
    """Return every point of the figure."""
    return table(
        f"{evidence.title}: constraints and regularisation",
        [point for name in APPROACHES for points in _stronger(evidence, name).values() for point in points],
        ("surrogate", "", word),
        ("approach", "", lambda point: "constraint" if point.run.penalty is None else "regularisation"),
        ("bound or λ", ".4g", lambda point: point.bound),
        ("ratio", ".4f", lambda point: point.ratio),
        ("accuracy, %", ".2f", lambda point: point.accuracy),
    )


def check_penalized(evidence: Evidence) -> Iterator[Check]:
    """Check that ratios are monotone under constraints but not under penalties, which also cost more accuracy."""
    for name in APPROACHES:
        facts: dict[str, Any] = {"title": evidence.title, "word": WORDS[name]}
        best = []
        for approach, points in _stronger(evidence, name).items():
            back = max(0.0, *(before.ratio - after.ratio for before, after in pairwise(points)))
            claim, holds = ("monotone", back <= STEADY) if approach == "constraint" else ("unsteady", back > STEADY)
            yield check(claim, holds, **facts, back=back, steady=STEADY)
            # The models that keep the compared ratio on training rows, where a user would choose.
            kept = [point.accuracy for point in points if point.outcome.train.ratio() >= COMPARED - STEADY]
            best.append(max(kept, default=0.0))
        if any(best):
            one, other = (f"{accuracy:.2f}%" if accuracy else "none" for accuracy in best)
            facts |= {"ratio": COMPARED - STEADY, "one": one, "other": other, "equal": ROUNDING}
            yield check("accurate", best[0] >= best[1] - ROUNDING, **facts)


class Way(NamedTuple):
    """A way to a demanded ratio: its target, name, number of fits, processor seconds, and the model at its end."""

    target: float
    name: str
    fits: int
    seconds: float
    end: Point

    @property
    def near(self) -> bool:
        """Whether it reached the target."""
        return abs(self.end.ratio - self.target) <= SEARCH_TOLERANCE


def _ways(evidence: Evidence, target: float) -> tuple[Way, Way]:
    """Return one constrained fit, and a search, which ends with the fit nearest to the target on training rows."""
    one = evidence[evidence.limited(target)]
    fits = evidence.points(evidence.search(target).fits)
    end = min(fits, key=lambda point: abs(point.outcome.train.ratio() - target))
    return (
        Way(target, "one constrained fit", 1, one.seconds, one),
        Way(target, "search over λ", len(fits), sum(point.seconds for point in fits), end),
    )


def tabulate_search(evidence: Evidence) -> ResultTable:
    """Return the cost of each demanded ratio by a constraint and by a search."""
    return table(
        f"{evidence.title}: what a demanded ratio costs",
        [way for target in SCALE_RATIOS for way in _ways(evidence, target)],
        ("ratio demanded", "g", lambda way: way.target),
        ("approach", "", lambda way: way.name),
        ("fits", "d", lambda way: way.fits),
        ("seconds", ".1f", lambda way: way.seconds),
        ("ratio reached", ".4f", lambda way: way.end.ratio),
        ("accuracy, %", ".2f", lambda way: way.end.accuracy),
        ("within 0.01", "", lambda way: way.near),
    )


def check_search(evidence: Evidence) -> Iterator[Check]:
    """Check that one constrained fit reaches the ratio, and compare it with a search."""
    for target in evidence.binding(SCALE_RATIOS):
        one, search = _ways(evidence, target)
        holds = one.near and (not search.near or (search.fits > 1 and search.seconds > one.seconds))
        came = "reached it" if search.near else f"ended at {search.end.ratio:.4f}"
        facts = {"title": evidence.title, "target": target, "tolerance": SEARCH_TOLERANCE, "most": SEARCH_FITS}
        yield check("search", holds, **facts, one=one, search=search, came=came)


class Cost(NamedTuple):
    """The runs of a row of Table 3, and its printed numbers."""

    name: str
    approach: str
    points: list[Point]
    minutes: float
    megabytes: float
    hours: float

    @property
    def total(self) -> float:
        """Processor seconds of all runs."""
        return sum(point.seconds for point in self.points)


def tabulate_cost(evidence: Evidence) -> ResultTable:
    """Return our times in seconds, and the printed ones in minutes and hours."""
    rows = [
        Cost(name, approach, points, *PRINTED["cost"][evidence.dataset][name][approach])
        for name in APPROACHES
        for approach, points in reversed(_stronger(evidence, name).items())
    ]
    return table(
        f"{evidence.title}: time and memory (one core a run; another machine than the paper's)",
        rows,
        ("surrogate", "", lambda row: WORDS[row.name]),
        ("approach", "", lambda row: row.approach),
        ("runs", "d", lambda row: len(row.points)),
        ("processor seconds a run", ".2f", lambda row: row.total / len(row.points)),
        ("printed, minutes", ".2f", lambda row: row.minutes),
        ("memory at most, MB", ".0f", lambda row: max(point.outcome.peak_megabytes for point in row.points)),
        ("printed, MB", ".0f", lambda row: row.megabytes),
        ("processor seconds in all", ".1f", lambda row: row.total),
        ("printed, hours", ".2f", lambda row: row.hours),
        ("times faster", ".0f", lambda row: 3600 * row.hours / row.total),
    )


def check_cost(evidence: Evidence) -> Iterator[Check]:
    """Check that a constrained run costs at most slightly more than a regularised one."""
    for name in APPROACHES:
        limited, weighted = (
            statistics.fmean(point.seconds for point in points) for points in _stronger(evidence, name).values()
        )
        numbers = {"limited": limited, "weighted": weighted, "times": limited / weighted, "slightly": SLIGHTLY}
        holds = limited <= SLIGHTLY * weighted
        yield check("cost", holds, title=evidence.title, word=WORDS[name], **numbers)
