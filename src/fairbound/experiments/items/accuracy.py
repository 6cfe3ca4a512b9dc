"""Figure 4: accuracy under limits, and whether the decisions keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairbound.experiments import protocol
from fairbound.experiments.drawing import COLORS, INK, QUIET, decades, legend, mark_printed, panels
from fairbound.experiments.items.demanded import SLACK
from fairbound.experiments.plans import Evidence
from fairbound.experiments.protocol import COVARIANCES, RATIOS, SURROGATES, WORDS
from fairbound.experiments.runs import By
from fairbound.experiments.sections import Check
from fairbound.experiments.tables import Column, Columns, ResultTable, Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HIGH = 0.01
"""Accuracy counts as high if it has fallen by at most this (one point)."""


def draw(evidence: Evidence) -> Figure:
    """Draw accuracy and violation against the demanded limit."""
    figure, axes = panels(f"{evidence.title}: accuracy under limits, and how they are met", 3, 2, height=2.2)
    for column, name in enumerate((*SURROGATES, "covariance")):
        bounds = COVARIANCES if name == "covariance" else RATIOS
        measure = "covariance" if name == "covariance" else "disparate_impact"
        runs = [
            evidence.setting.covariance(bound)
            if name == "covariance"
            else evidence.setting.limited(bound, surrogate=name)
            for bound in bounds
        ]
        top, bottom = axes[column], axes[3 + column]
        top.plot(bounds, [100 * evidence.part(run).accuracy for run in runs], "o-", color=COLORS[name])
        top.axhline(
            100 * evidence.part(evidence.setting.free()).accuracy, color=QUIET, linestyle=":", label="without limits"
        )
        top.set_title(WORDS[name])
        styles: tuple[tuple[By, str, str], ...] = (
            ("decisions", "-", "violation by decisions"),
            ("surrogate", ":", "by surrogate"),
        )
        for by, line, label in styles:
            values = [evidence.part(run).violation(measure, bound, by) for run, bound in zip(runs, bounds, strict=True)]
            if by == "decisions":
                bottom.plot(bounds, values, "o" + line, color=COLORS[name], markersize=4, label=label)
            else:
                bottom.plot(bounds, values, "o" + line, color=QUIET, markersize=8, fillstyle="none", label=label)
        bottom.axhline(0.0, color=INK, linewidth=0.8)
        bottom.set_xlabel("limit on the covariance, stricter →" if name == "covariance" else "ratio demanded")
        if name == "covariance":
            for ax in (top, bottom):
                decades(ax)
        elif name == "smoothed_step" and evidence.setting.part == "train":
            for index, (bound, table) in enumerate(protocol.TABLES.items()):
                value = table[evidence.setting.dataset, "only DI"].accuracy
                mark_printed(top, bound, value, label=None if index else "printed")
    axes[0].set_ylabel("accuracy, %")
    axes[3].set_ylabel("violation (kept: up to 0)")
    # Extend the axis above 0, so that a limit that is not kept stands out.
    axes[3].set_ylim(top=max(0.04, axes[3].get_ylim()[1]))
    legend(figure, axes[0], axes[3])
    return figure


def tabulate(evidence: Evidence) -> list[ResultTable]:
    """Return the accuracy and the violation of every run."""
    columns: Columns = [
        "surrogate",
        Column("limit", ".4g"),
        Column("accuracy, %", ".2f"),
        Column("violation by surrogate", ".4f"),
        Column("violation by decisions", ".4f"),
    ]
    rows: list[list[Value]] = []
    for name in SURROGATES:
        for bound in RATIOS:
            part = evidence.part(evidence.setting.limited(bound, surrogate=name))
            by = [part.violation("disparate_impact", bound, "surrogate"), part.violation("disparate_impact", bound)]
            rows.append([WORDS[name], bound, 100 * part.accuracy, *by])
    for bound in COVARIANCES:
        part = evidence.part(evidence.setting.covariance(bound))
        by = [part.violation("covariance", bound, "surrogate"), part.violation("covariance", bound)]
        rows.append(["covariance", bound, 100 * part.accuracy, *by])
    return [ResultTable.build(f"{evidence.title}: accuracy and violation", columns, rows)]


def check(evidence: Evidence) -> list[Check]:
    """Check that limits are met, and that accuracy stays high until they bind."""
    found = []
    free = evidence.part(evidence.setting.free()).accuracy
    for name in SURROGATES:
        parts = {bound: evidence.part(evidence.setting.limited(bound, surrogate=name)) for bound in RATIOS}
        worst = max(RATIOS, key=lambda bound: parts[bound].violation("disparate_impact", bound))
        amount = parts[worst].violation("disparate_impact", worst)
        figures = (
            f"{evidence.title}, {WORDS[name]}: largest violation by decisions {amount:.4f}, at {worst:g}; met means up "
            f"to {SLACK:g}."
        )
        found.append(Check("Hard limits on scaled surrogates are met by the decisions.", amount <= SLACK, figures))
        strict = evidence.binding(RATIOS)
        if strict:
            first = free - parts[strict[0]].accuracy
            last = free - parts[strict[-1]].accuracy
            figures = (
                f"{evidence.title}, {WORDS[name]}: {100 * first:.2f} points lost at {strict[0]:g}, the first ratio "
                f"that binds, {100 * last:.2f} at {strict[-1]:g}; high means up to {100 * HIGH:g} point."
            )
            claim = "Accuracy remains high up to where the limits begin to bind."
            found.append(Check(claim, first <= HIGH, figures))
    return found
