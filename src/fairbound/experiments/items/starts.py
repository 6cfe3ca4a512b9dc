"""The figure of the appendix on variance: accuracy and violation over several random starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fairbound.experiments.claims import Check, check
from fairbound.experiments.exhibits import COLORS, INK, ResultTable, legend, missed, panels, table
from fairbound.experiments.protocol import VARIANCE_RATIOS
from fairbound.experiments.runs import Evidence, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGREE = 0.5
"""Random starts agree if the standard deviation of accuracy is at most so many points."""

MET = 0.01
"""The limit counts as met if the decisions on training rows violate it by at most this at the last epoch."""

COLOR = COLORS["smoothed_step"]


def draw_starts(evidence: Evidence) -> Figure:
    """Draw mean and standard deviation by epoch; without a history (fast solver, test rows), the results by ratio."""
    if evidence.solver == "fast" or evidence.part == "test":
        return _draw_ends(evidence)
    number = len(VARIANCE_RATIOS)
    title = f"{evidence.title}: mean and one standard deviation over random starts, by epoch"
    figure, axes = panels(title, number, 2, height=1.9, width=2.1)
    lowest = []
    for top, bottom, points in zip(axes[:number], axes[number:], _starts(evidence), strict=True):
        for ax, name, factor in ((top, "accuracy", 100.0), (bottom, "exact_violation", 1.0)):
            by_epoch = factor * np.array([point.outcome.history[name] for point in points])
            mean, deviation = by_epoch.mean(axis=0), by_epoch.std(axis=0)
            epochs = range(len(mean))
            ax.fill_between(epochs, mean - deviation, mean + deviation, color=COLOR, alpha=0.2, linewidth=0)
            ax.plot(epochs, mean, color=COLOR)
            ax.set_xlim(0, len(mean))
            if ax is top:
                # The first epochs are far from the others, and would flatten the rest of the curve.
                lowest.append(min(mean[20:] if len(mean) > 20 else mean))
        top.set_title(f"ratio {points[0].bound:g}")
        bottom.axhline(0.0, color=INK, linewidth=0.8)
        bottom.set_xlabel("epoch")
    axes[0].set_ylim(bottom=min(lowest) - 2)
    axes[0].set_ylabel("accuracy, %")
    axes[number].set_ylabel("violation")
    return figure


def _starts(evidence: Evidence) -> list[list[Point]]:
    return [evidence.points(evidence.starts(bound)) for bound in VARIANCE_RATIOS]


def _draw_ends(evidence: Evidence) -> Figure:
    figure, (left, right) = panels(f"{evidence.title}: random starts", 2, share_rows=False)
    missed(right, VARIANCE_RATIOS[0], VARIANCE_RATIOS[-1])
    starts = _starts(evidence)
    for points in zip(*starts, strict=True):
        for ax, values in ((left, [point.accuracy for point in points]), (right, [point.ratio for point in points])):
            # Hollow marks, so that coinciding points remain visible.
            ax.plot(VARIANCE_RATIOS, values, "o", color=COLOR, fillstyle="none", label="one random start")
    left.set_ylabel("accuracy, %")
    right.set_ylabel("ratio achieved")
    lowest = min(point.ratio for points in starts for point in points)
    right.set_ylim(min(lowest, VARIANCE_RATIOS[0]) - 0.02, 1.02)
    legend(figure, right)
    for ax in (left, right):
        ax.set_xlabel("ratio demanded")
    return figure


def _facts(points: list[Point]) -> tuple[np.ndarray, float]:
    """Return the accuracies of random starts, and their largest violation."""
    return np.array([point.accuracy for point in points]), max(point.violation() for point in points)


def tabulate_starts(evidence: Evidence) -> ResultTable:
    """Return the results of the random starts."""
    return table(
        f"{evidence.title}: {len(evidence.seeds)} random starts",
        [(points[0].bound, *_facts(points)) for points in _starts(evidence)],
        ("ratio demanded", "g", lambda row: row[0]),
        ("accuracy, mean %", ".2f", lambda row: float(row[1].mean())),
        ("standard deviation", ".3f", lambda row: float(row[1].std())),
        ("least", ".2f", lambda row: float(row[1].min())),
        ("largest", ".2f", lambda row: float(row[1].max())),
        ("largest violation by decisions", ".4f", lambda row: row[2]),
    )


def check_starts(evidence: Evidence) -> Iterator[Check]:
    """Check that several seeds agree."""
    for points in _starts(evidence):
        accuracies, worst = _facts(points)
        deviation = float(accuracies.std())
        numbers = {"deviation": deviation, "number": len(points), "worst": worst, "agree": AGREE, "met": MET}
        holds = deviation <= AGREE and worst <= MET
        yield check("starts", holds, title=evidence.title, bound=points[0].bound, **numbers)
