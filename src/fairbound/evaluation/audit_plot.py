"""The pictures of an audit: a rate of each group with its interval, and a ranking at every number of the selected."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from fairbound._text_tables import axes_of_plot
from fairbound.evaluation.audit_records import GroupAudit
from fairbound.evaluation.score_records import ThresholdCurves


def plot_rate(groups: Sequence[GroupAudit], rate: str, label: Hashable | None, ax: Any) -> Any:
    """Draw the rate of each group that has one, with matplotlib; return the axes."""
    axes = axes_of_plot() if ax is None else ax
    everyone = next(each for each in groups if each.everyone).rate(rate, label)
    measured = [(each, each.rate(rate, label)) for each in groups if not each.everyone]
    drawn = [(each, found) for each, found in measured if found.value is not None]
    for place, (_, found) in enumerate(reversed(drawn)):
        axes.plot(found.value, place, "o", color="C0")
        if found.lower is not None:
            axes.plot([found.lower, found.upper], [place, place], color="C0")
    if everyone.value is not None:
        axes.axvline(everyone.value, color="0.6", linestyle=":", label="everyone")
        axes.legend()
    names = [f"{each.name} ({each.rows:,})" for each, _ in reversed(drawn)]
    axes.set_yticks(range(len(drawn)), names, parse_math=False)  # $ is a dollar
    axes.set_xlabel(rate.replace("_", " "))
    return axes


def plot_ranking(curves: ThresholdCurves, rows: int, ax: Any) -> Any:
    """Draw the share of each group among the best k of a ranking, and the ratio of these shares, at every k."""
    axes = axes_of_plot() if ax is None else ax
    rates = curves.rates["selection_rate"]
    best = rows * rates[:, -1]
    for group, shares in zip(curves.groups[:-1], rates.T, strict=False):
        axes.plot(best, shares, label=str(group))
    axes.plot(best, curves.measures["disparate_impact"], color="black", linestyle="--", label="smallest ratio")
    axes.set_xlabel("rows selected, those of the largest scores")
    axes.set_ylabel("selection rate")
    axes.legend()
    return axes
