"""Figure 1, the surrogates without and with scaling; and the choice of the scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound.experiments.claims import Check, check
from fairbound.experiments.exhibits import COLORS, INK, QUIET, ResultTable, legend, panels, table
from fairbound.experiments.items.ratios import AT_THE_END, SLACK, TIGHT, WORDS, word
from fairbound.experiments.protocol import SCALE, SCALE_RATIOS, SCALES, SURROGATES, UNSCALED
from fairbound.experiments.runs import Evidence, Point
from fairbound.fairness import SURROGATES as KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_SCALE = 10.0
"""The scale of the paper's right panel."""

SMALLEST = TIGHT / 4
"""A gap counts as smallest if it exceeds the least by at most this: a quarter of the tolerance for a match."""

SLOWER = 1.25
"""Training is no slower if it settles within this many times the epochs."""

EQUAL = 0.5
"""Accuracies within so many points count as equal."""


def value(name: str, scale: float, margins: np.ndarray) -> np.ndarray:
    """Return φ(scale·t)."""
    return KINDS[name](scale=scale).value(margins)


def distance(name: str, scale: float) -> float:
    """Return the mean of |φ(scale·t) − 1{t > 0}| over margins t of a probability, from −½ to ½."""
    margins = (np.arange(2000) + 0.5) / 2000 - 0.5
    return float(np.abs(value(name, scale, margins) - (margins > 0)).mean())


def draw_functions(_: Evidence) -> Figure:
    """Both panels."""
    figure, (left, right) = panels("Surrogates of the step function", 2)
    t = np.linspace(-1.5, 1.5, 601)
    for axes, scale, title in ((left, 1.0, "as they are"), (right, SHOWN_SCALE, f"scaled by {SHOWN_SCALE:g}")):
        axes.set_title(title)
        axes.plot(t, t > 0, color=INK, linewidth=1.2, label="step")
        if scale == 1.0:
            axes.plot(t, t, color=QUIET, linestyle="--", label="linear")
        for name in SURROGATES:
            axes.plot(t, value(name, scale, t), color=COLORS[name], label=WORDS[name])
        axes.set_ylim(-0.35, 1.35)
        axes.set_xlabel("margin t")
    left.set_ylabel("φ(t)")
    legend(figure, left)
    return figure


def tabulate_functions(_: Evidence) -> ResultTable:
    """Return the mean distance of each surrogate from the step."""
    return table(
        "Distance from the step over margins of −½ to ½",
        [(name, scale) for name in SURROGATES for scale in (1.0, SHOWN_SCALE, SCALE)],
        ("surrogate", "", lambda row: WORDS[row[0]]),
        ("scale", "g", lambda row: row[1]),
        ("mean distance from the step", ".4f", lambda row: distance(*row)),
    )


def check_functions(_: Evidence) -> Iterator[Check]:
    """Check that scaling brings the surrogates closer to the step."""
    for name in SURROGATES:
        plain, scaled = distance(name, 1.0), distance(name, SHOWN_SCALE)
        yield check("closer", scaled < plain, word=WORDS[name], plain=plain, scaled=scaled)


def draw_scales(evidence: Evidence) -> Figure:
    """Draw the gap at each scale, and the number of epochs until training settles."""
    paper = evidence.solver == "paper"
    figure, (left, right) = panels(f"{evidence.title}: the choice of the scale", 2, share_rows=False)
    for name in SURROGATES:
        for bound, line in zip(SCALE_RATIOS, ("-", "--"), strict=True):
            points = evidence.points(evidence.scales(bound, name))
            binds = bound > evidence.free_ratio
            label = f"{WORDS[name]}, {bound:g}" + ("" if binds else " (does not bind)")
            speeds = [settled(point) if paper else point.seconds for point in points]
            for axes, values in ((left, [point.gap for point in points]), (right, speeds)):
                shade = 1 if binds else 0.35
                axes.plot(SCALES, values, "o" + line, color=COLORS[name], markersize=4, alpha=shade, label=label)
    left.set_ylabel("|achieved − demanded|")
    right.set_ylabel("epochs until settled" if paper else "seconds")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.set_xscale("log")
        axes.set_xticks(SCALES, [f"{scale:g}" for scale in SCALES])
        axes.minorticks_off()
        axes.set_xlabel("scale")
    legend(figure, left)
    return figure


def settled(point: Point) -> int:
    """Return the epoch after which accuracy stays within half a point of its last value, and the limit is met."""
    history = point.outcome.history
    accuracies, violations = np.array(history["accuracy"]), np.array(history["surrogate_violation"])
    unsettled = np.flatnonzero((100 * np.abs(accuracies - accuracies[-1]) > EQUAL) | (violations > SLACK))
    return int(unsettled[-1]) + 1 if len(unsettled) else 0


def tabulate_scales(evidence: Evidence) -> ResultTable:
    """Return the gap, accuracy and speed at each scale."""
    runs = (run for bound in SCALE_RATIOS for name in SURROGATES for run in evidence.scales(bound, name))
    return table(
        f"{evidence.title}: scales",
        evidence.points(runs),
        ("surrogate", "", word),
        ("demanded", "g", lambda point: point.bound),
        ("scale", "g", lambda point: point.run.scale),
        ("achieved", ".4f", lambda point: point.ratio),
        ("gap", ".4f", lambda point: point.gap),
        ("accuracy, %", ".2f", lambda point: point.accuracy),
        ("settled after epochs", "d", lambda point: settled(point) if point.outcome.history else None),
        ("seconds", ".2f", lambda point: point.seconds),
    )


def check_scales(evidence: Evidence) -> Iterator[Check]:
    """Check that at a scale of 50 the gap is the smallest, the result no worse, and training no slower."""
    for name, bound in ((name, bound) for name in SURROGATES for bound in evidence.binding(SCALE_RATIOS)):
        points = {run.scale: evidence[run] for run in evidence.scales(bound, name)}
        ours, steepest = points[SCALE], points[SCALES[-1]]
        best = min(points.values(), key=lambda point: point.gap)
        facts: dict[str, Any] = {"title": evidence.title, "word": WORDS[name], "bound": bound}
        numbers = {"ours": ours.gap, "least": best.gap, "scale": best.run.scale, "tolerance": SMALLEST}
        because = AT_THE_END if evidence.solver == "fast" else ""
        yield check("smallest_gap", ours.gap <= best.gap + SMALLEST, because, **facts, **numbers)
        # Large scales have steep slopes.  They should be as accurate as smaller scales that also match.
        if matched := [point for point in points.values() if point.run.scale < SCALE and point.gap <= TIGHT]:
            best = max(matched, key=lambda point: point.accuracy)
            numbers = {"ours": ours.accuracy, "steepest": steepest.accuracy, "best": best.accuracy}
            holds = min(ours.accuracy, steepest.accuracy) >= best.accuracy - EQUAL
            yield check("no_worse", holds, **facts, **numbers, scale=best.run.scale, equal=EQUAL)
        if evidence.solver == "paper":
            epochs = {f"at_{scale:g}": settled(points[scale]) for scale in (SCALE, SCALES[-1], UNSCALED)}
            holds = max(epochs["at_50"], epochs["at_100"]) <= SLOWER * epochs["at_1"]
            yield check("no_slower", holds, **facts, **epochs, equal=EQUAL, slack=SLACK, slower=SLOWER)
