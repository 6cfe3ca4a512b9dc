"""Figure 1, the surrogates without and with scaling; the choice of the scale; and the appendix's figure on variance."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import torch

from fairbound.experiments.exhibits import (
    COLORS,
    INK,
    QUIET,
    Column,
    Columns,
    ResultTable,
    Value,
    legend,
    missed,
    panels,
)
from fairbound.experiments.items.demanded import SLACK, TIGHT, because
from fairbound.experiments.protocol import (
    SCALE,
    SCALE_RATIOS,
    SCALES,
    SEEDS,
    SURROGATES,
    UNSCALED,
    VARIANCE_RATIOS,
    WORDS,
    Run,
)
from fairbound.experiments.runs import Evidence
from fairbound.experiments.sections import Check
from fairbound.fairness import SURROGATES as KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_SCALE = 10.0
"""The scale of the paper's right panel."""


def distance(name: str, scale: float) -> float:
    """Return the mean of |φ(scale·t) − 1{t > 0}| over margins t of a probability, from −½ to ½."""
    margins = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000 - 0.5
    return float((KINDS[name](scale=scale).value(margins) - (margins > 0).double()).abs().mean())


def draw_functions(_: Evidence) -> Figure:
    """Both panels."""
    figure, (left, right) = panels("Surrogates of the step function", 2)
    t = torch.linspace(-1.5, 1.5, 601, dtype=torch.float64)
    for axes, scale, title in ((left, 1.0, "as they are"), (right, SHOWN_SCALE, f"scaled by {SHOWN_SCALE:g}")):
        axes.set_title(title)
        axes.plot(t, (t > 0).double(), color=INK, linewidth=1.2, label="step")
        if scale == 1.0:
            axes.plot(t, t, color=QUIET, linestyle="--", label="linear")
        for name in SURROGATES:
            axes.plot(t, KINDS[name](scale=scale).value(t), color=COLORS[name], label=WORDS[name])
        axes.set_ylim(-0.35, 1.35)
        axes.set_xlabel("margin t")
    left.set_ylabel("φ(t)")
    legend(figure, left)
    return figure


def tabulate_functions(_: Evidence) -> list[ResultTable]:
    """Return the mean distance of each surrogate from the step."""
    rows: list[list[Value]] = [
        [WORDS[name], scale, distance(name, scale)] for name in SURROGATES for scale in (1.0, SHOWN_SCALE, 50.0)
    ]
    columns: Columns = ["surrogate", Column("scale", "g"), Column("mean distance from the step", ".4f")]
    return [ResultTable.build("Distance from the step over margins of −½ to ½", columns, rows)]


def check_functions(_: Evidence) -> list[Check]:
    """Check that scaling brings the surrogates closer to the step."""
    found = []
    for name in SURROGATES:
        plain, scaled = distance(name, 1.0), distance(name, SHOWN_SCALE)
        figures = f"{WORDS[name]}: mean distance from the step {plain:.3f} as it is, {scaled:.3f} scaled by 10."
        found.append(Check("Scaling brings the surrogates closer to the step.", scaled < plain, figures))
    return found


# --- the choice of the scale ------------------------------------------------------------------------------------------

SMALLEST = TIGHT / 4
"""A gap counts as smallest if it exceeds the least by at most this: a quarter of the tolerance for a match."""

SLOWER = 1.25
"""Training is no slower if it settles within this many times the epochs."""

EQUAL = 0.005
"""Accuracies within this (half a point) count as equal."""


def draw_scales(evidence: Evidence) -> Figure:
    """Draw the gap at each scale, and the number of epochs until training settles."""
    figure, (left, right) = panels(f"{evidence.title}: the choice of the scale", 2, share_rows=False)
    for name in SURROGATES:
        for bound, line in zip(SCALE_RATIOS, ("-", "--"), strict=True):
            runs = [evidence.setting.limited(bound, surrogate=name, scale=scale) for scale in SCALES]
            if evidence.setting.solver == "paper":
                speeds: list[float] = [settled(evidence, run) for run in runs]
            else:
                speeds = [evidence.outcome(run).processor_seconds for run in runs]
            binds = bound > evidence.free_ratio
            label = f"{WORDS[name]}, {bound:g}" + ("" if binds else " (does not bind)")
            for axes, values in ((left, [evidence.gap(run) for run in runs]), (right, speeds)):
                axes.plot(
                    SCALES,
                    values,
                    "o" + line,
                    color=COLORS[name],
                    markersize=4,
                    alpha=1 if binds else 0.35,
                    label=label,
                )
    left.set_ylabel("|achieved − demanded|")
    right.set_ylabel("epochs until settled" if evidence.setting.solver == "paper" else "seconds")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.set_xscale("log")
        axes.set_xticks(SCALES, [f"{scale:g}" for scale in SCALES])
        axes.minorticks_off()
        axes.set_xlabel("scale")
    legend(figure, left)
    return figure


def settled(evidence: Evidence, run: Run) -> int:
    """Return the epoch after which accuracy stays within half a point of its last value, and the limit is met."""
    history = evidence.outcome(run).history
    last = history["accuracy"][-1]
    unsettled = [
        epoch
        for epoch, (accuracy, violation) in enumerate(
            zip(history["accuracy"], history["surrogate_violation"], strict=True)
        )
        if abs(accuracy - last) > EQUAL or violation > SLACK
    ]
    return unsettled[-1] + 1 if unsettled else 0


def tabulate_scales(evidence: Evidence) -> list[ResultTable]:
    """Return the gap, accuracy and speed at each scale."""
    columns: Columns = [
        "surrogate",
        Column("demanded", "g"),
        Column("scale", "g"),
        Column("achieved", ".4f"),
        Column("gap", ".4f"),
        Column("accuracy, %", ".2f"),
        Column("settled after epochs", "d"),
        Column("seconds", ".2f"),
    ]
    rows: list[list[Value]] = []
    for bound in SCALE_RATIOS:
        for name in SURROGATES:
            for scale in SCALES:
                run = evidence.setting.limited(bound, surrogate=name, scale=scale)
                part, outcome = evidence.part(run), evidence.outcome(run)
                epochs = settled(evidence, run) if outcome.history else None
                rows.append(
                    [
                        WORDS[name],
                        bound,
                        scale,
                        part.ratio(),
                        evidence.gap(run),
                        100 * part.accuracy,
                        epochs,
                        outcome.processor_seconds,
                    ]
                )
    return [ResultTable.build(f"{evidence.title}: scales", columns, rows)]


def check_scales(evidence: Evidence) -> list[Check]:
    """Check that the gap at a scale of 50 is the smallest, and that training there is no slower."""
    found = []
    for name in SURROGATES:
        for bound in SCALE_RATIOS:
            if bound <= evidence.free_ratio:
                continue
            runs = {scale: evidence.setting.limited(bound, surrogate=name, scale=scale) for scale in SCALES}
            gaps = {scale: evidence.gap(run) for scale, run in runs.items()}
            best = min(gaps, key=lambda scale: gaps[scale])
            figures = (
                f"{evidence.title}, {WORDS[name]}, {bound:g}: gap {gaps[SCALE]:.4f} at 50; the least is "
                f"{gaps[best]:.4f}, at {best:g}; as small means within {SMALLEST:g}."
            )
            holds = gaps[SCALE] <= gaps[best] + SMALLEST
            found.append(
                Check("A scale of 50 gives the smallest gap.", holds, figures, "" if holds else because(evidence))
            )
            found += _check_accuracy(evidence, name, bound, gaps)
            if evidence.setting.solver == "paper":
                epochs = {scale: settled(evidence, run) for scale, run in runs.items()}
                figures = (
                    f"{evidence.title}, {WORDS[name]}, {bound:g}: settled after {epochs[SCALE]} epochs at 50, "
                    f"{epochs[100.0]} at 100, {epochs[UNSCALED]} at 1; settled means that accuracy stays within "
                    f"{100 * EQUAL:g} points of its last and the limit is met within {SLACK:g}, no slower up to "
                    f"{SLOWER:g} times the epochs."
                )
                holds = max(epochs[SCALE], epochs[100.0]) <= SLOWER * epochs[UNSCALED]
                found.append(Check("A larger scale does not slow training.", holds, figures))
    return found


def _check_accuracy(evidence: Evidence, name: str, bound: float, gaps: dict[float, float]) -> list[Check]:
    """Check that large scales, with their steep slopes, are as accurate as smaller scales that also match."""
    accuracies = {
        scale: evidence.part(evidence.setting.limited(bound, surrogate=name, scale=scale)).accuracy for scale in SCALES
    }
    matched = [scale for scale in SCALES if scale < SCALE and gaps[scale] <= TIGHT]
    if not matched:
        return []
    best = max(matched, key=lambda scale: accuracies[scale])
    least = min(accuracies[SCALE], accuracies[SCALES[-1]])
    figures = (
        f"{evidence.title}, {WORDS[name]}, {bound:g}: {100 * accuracies[SCALE]:.2f}% at 50, "
        f"{100 * accuracies[SCALES[-1]]:.2f}% at {SCALES[-1]:g}; the best of the smaller scales that match is "
        f"{100 * accuracies[best]:.2f}%, at {best:g}; no worse means within {100 * EQUAL:g} points."
    )
    holds = least >= accuracies[best] - EQUAL
    return [Check("A larger scale does not make the result worse.", holds, figures)]


# --- the figure of the appendix on variance --------------------------------------------------------------------------

AGREE = 0.005
"""Random starts agree if the standard deviation of accuracy is at most this (half a point)."""

MET = 0.01
"""The limit counts as met if the decisions on training rows violate it by at most this at the last epoch."""


def _seed_runs(evidence: Evidence, bound: float) -> list[Run]:
    return [evidence.setting.limited(bound, seed=seed) for seed in evidence.setting.seeds or SEEDS]


def draw_seeds(evidence: Evidence) -> Figure:
    """Draw mean and standard deviation by epoch; without a history (fast solver, test rows), the results by ratio."""
    if evidence.setting.solver == "fast" or evidence.setting.part == "test":
        return _draw_ends(evidence)
    number = len(VARIANCE_RATIOS)
    title = f"{evidence.title}: mean and one standard deviation over random starts, by epoch"
    figure, axes = panels(title, number, 2, height=1.9, width=2.1)
    lowest = []
    for column, bound in enumerate(VARIANCE_RATIOS):
        histories = [evidence.outcome(run).history for run in _seed_runs(evidence, bound)]
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
    lowest = min(evidence.part(run).ratio() for bound in VARIANCE_RATIOS for run in _seed_runs(evidence, bound))
    right.set_ylim(min(lowest, VARIANCE_RATIOS[0]) - 0.02, 1.02)
    legend(figure, right)
    for ax in (left, right):
        ax.set_xlabel("ratio demanded")
    return figure


def tabulate_seeds(evidence: Evidence) -> list[ResultTable]:
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
        parts = [evidence.part(run) for run in _seed_runs(evidence, bound)]
        accuracies = [100 * part.accuracy for part in parts]
        worst = max(part.violation("disparate_impact", bound) for part in parts)
        mean, deviation = statistics.fmean(accuracies), statistics.pstdev(accuracies)
        rows.append([bound, mean, deviation, min(accuracies), max(accuracies), worst])
    number = len(evidence.setting.seeds or SEEDS)
    return [ResultTable.build(f"{evidence.title}: {number} random starts", columns, rows)]


def check_seeds(evidence: Evidence) -> list[Check]:
    """Check that several seeds agree."""
    found = []
    for bound in VARIANCE_RATIOS:
        parts = [evidence.part(run) for run in _seed_runs(evidence, bound)]
        deviation = statistics.pstdev(part.accuracy for part in parts)
        worst = max(part.violation("disparate_impact", bound) for part in parts)
        figures = (
            f"{evidence.title}, {bound:g}: standard deviation of accuracy {100 * deviation:.2f} points over "
            f"{len(parts)} seeds, largest violation {worst:.4f}; agreement means up to {100 * AGREE:g} points and "
            f"{MET:g}."
        )
        found.append(Check("Several random starts agree.", deviation <= AGREE and worst <= MET, figures))
    return found
