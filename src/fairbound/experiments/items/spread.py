"""The figure of the appendix on variance: accuracy and violation by epoch, over five random starts."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from fairbound.experiments.exhibits import COLORS, INK, Column, Columns, ResultTable, Value, legend, missed, panels
from fairbound.experiments.plans import Evidence
from fairbound.experiments.protocol import SEEDS, VARIANCE_RATIOS
from fairbound.experiments.runs import Run
from fairbound.experiments.sections import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGREE = 0.005
"""Random starts agree if the standard deviation of accuracy is at most this (half a point)."""

MET = 0.01
"""The limit counts as met if the decisions on training rows violate it by at most this at the last epoch."""


def _runs(evidence: Evidence, bound: float) -> list[Run]:
    return [evidence.setting.limited(bound, seed=seed) for seed in evidence.setting.seeds or SEEDS]


def draw(evidence: Evidence) -> Figure:
    """Draw mean and standard deviation by epoch; without a history (fast solver, test rows), the results by ratio."""
    if evidence.setting.solver == "fast" or evidence.setting.part == "test":
        return _draw_ends(evidence)
    number = len(VARIANCE_RATIOS)
    title = f"{evidence.title}: mean and one standard deviation over random starts, by epoch"
    figure, axes = panels(title, number, 2, height=1.9, width=2.1)
    lowest = []
    for column, bound in enumerate(VARIANCE_RATIOS):
        histories = [evidence.outcome(run).history for run in _runs(evidence, bound)]
        for row, (name, factor) in enumerate((("accuracy", 100.0), ("exact_violation", 1.0))):
            ax = axes[number * row + column]
            by_epoch = [
                [factor * value for value in values] for values in zip(*(h[name] for h in histories), strict=True)
            ]
            mean = [statistics.fmean(values) for values in by_epoch]
            deviation = [statistics.pstdev(values) for values in by_epoch]
            epochs = range(len(mean))
            low = [m - s for m, s in zip(mean, deviation, strict=True)]
            high = [m + s for m, s in zip(mean, deviation, strict=True)]
            ax.fill_between(epochs, low, high, color=COLORS["smoothed_step"], alpha=0.2, linewidth=0)
            ax.plot(epochs, mean, color=COLORS["smoothed_step"])
            ax.set_xlim(0, len(mean))
            if name == "accuracy":
                ax.set_title(f"ratio {bound:g}")
                # The first epochs are far from the others, and would flatten the rest of the curve.
                lowest.append(min(mean[20:] or mean))
            else:
                ax.axhline(0.0, color=INK, linewidth=0.8)
                ax.set_xlabel("epoch")
    axes[0].set_ylim(bottom=min(lowest) - 2)
    axes[0].set_ylabel("accuracy, %")
    axes[number].set_ylabel("violation")
    return figure


def _draw_ends(evidence: Evidence) -> Figure:
    figure, (left, right) = panels(f"{evidence.title}: random starts", 2, share_rows=False)
    missed(right, VARIANCE_RATIOS[0], VARIANCE_RATIOS[-1])
    for seed in evidence.setting.seeds or SEEDS:
        parts = [evidence.part(evidence.setting.limited(bound, seed=seed)) for bound in VARIANCE_RATIOS]
        for ax, values in ((left, [100 * part.accuracy for part in parts]), (right, [part.ratio() for part in parts])):
            # Hollow marks, so that coinciding points remain visible.
            ax.plot(
                VARIANCE_RATIOS, values, "o", color=COLORS["smoothed_step"], fillstyle="none", label="one random start"
            )
    left.set_ylabel("accuracy, %")
    right.set_ylabel("ratio achieved")
    lowest = min(evidence.part(run).ratio() for bound in VARIANCE_RATIOS for run in _runs(evidence, bound))
    right.set_ylim(min(lowest, VARIANCE_RATIOS[0]) - 0.02, 1.02)
    legend(figure, right)
    for ax in (left, right):
        ax.set_xlabel("ratio demanded")
    return figure


def tabulate(evidence: Evidence) -> list[ResultTable]:
    """Return the results of the random starts."""
    columns: Columns = [
        Column("ratio demanded", "g"),
        Column("accuracy, mean %", ".2f"),
        Column("standard deviation", ".3f"),
        Column("least", ".2f"),
        Column("largest", ".2f"),
        Column("largest violation by decisions", ".4f"),
    ]
    rows: list[list[Value]] = []
    for bound in VARIANCE_RATIOS:
        parts = [evidence.part(run) for run in _runs(evidence, bound)]
        accuracies = [100 * part.accuracy for part in parts]
        worst = max(part.violation("disparate_impact", bound) for part in parts)
        mean, deviation = statistics.fmean(accuracies), statistics.pstdev(accuracies)
        rows.append([bound, mean, deviation, min(accuracies), max(accuracies), worst])
    number = len(evidence.setting.seeds or SEEDS)
    return [ResultTable.build(f"{evidence.title}: {number} random starts", columns, rows)]


def check(evidence: Evidence) -> list[Check]:
    """Check that several seeds agree."""
    found = []
    for bound in VARIANCE_RATIOS:
        parts = [evidence.part(run) for run in _runs(evidence, bound)]
        deviation = statistics.pstdev(part.accuracy for part in parts)
        worst = max(part.violation("disparate_impact", bound) for part in parts)
        figures = (
            f"{evidence.title}, {bound:g}: standard deviation of accuracy {100 * deviation:.2f} points over "
            f"{len(parts)} seeds, largest violation {worst:.4f}; agreement means up to {100 * AGREE:g} points and "
            f"{MET:g}."
        )
        found.append(Check("Several random starts agree.", deviation <= AGREE and worst <= MET, figures))
    return found
