"""Constraints against regularisation: figure 5, the cost of a demanded ratio, and table 3 (time and memory)."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

from fairbound.experiments.exhibits import (
    COLORS,
    QUIET,
    Column,
    Columns,
    ResultTable,
    Value,
    decades,
    legend,
    missed,
    panels,
)
from fairbound.experiments.protocol import (
    APPROACHES,
    COVARIANCES,
    PENALTIES,
    RATIOS,
    SCALE_RATIOS,
    SEARCH_FITS,
    SEARCH_TOLERANCE,
    TABLE_3,
    WORDS,
    Run,
    Search,
    search,
)
from fairbound.experiments.runs import Evidence, Outcome
from fairbound.experiments.sections import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEADY = 0.005
"""A smaller decrease of the ratio is noise of single rows, and still counts as monotone."""

COMPARED = 0.9
"""The ratio at which accuracies are compared.  It binds on every data set."""

ROUNDING = 5e-4
"""Accuracies within this are equal: 8 of the 16,638 rows of Law."""


def constrained(evidence: Evidence, name: str) -> list[tuple[float, Run]]:
    """Return the limits from loose to strict, with their runs."""
    if name == "covariance":
        return [(bound, evidence.setting.covariance(bound)) for bound in reversed(COVARIANCES)]
    return [(bound, evidence.setting.limited(bound, surrogate=name)) for bound in RATIOS]


def penalized(evidence: Evidence, name: str) -> list[tuple[float, Run]]:
    """Return the penalties from weak (large λ) to strong, with their runs."""
    return [(penalty, evidence.setting.penalized(penalty, name)) for penalty in reversed(PENALTIES)]


def draw_penalized(evidence: Evidence) -> Figure:
    """Draw accuracy and ratio against limits and against penalties, with one row of panels per surrogate."""
    figure, axes = panels(f"{evidence.title}: constraints and regularisation", 2, 3, height=2.1, width=4.4)
    for row, name in enumerate(APPROACHES):
        accuracy_axes = []
        for column, points in enumerate((constrained(evidence, name), penalized(evidence, name))):
            left = axes[2 * row + column]
            right = left.twinx()
            right.spines["right"].set_visible(True)
            right.grid(visible=False)
            bounds = [bound for bound, _ in points]
            parts = [evidence.part(run) for _, run in points]
            label = f"ratio, {WORDS[name]} (left scale)"
            left.plot(bounds, [part.ratio() for part in parts], "o-", color=COLORS[name], markersize=4, label=label)
            accuracies = [100 * part.accuracy for part in parts]
            right.plot(bounds, accuracies, "s--", color=QUIET, markersize=4, label="accuracy, % (right scale)")
            if column == 0 and name != "covariance":
                missed(left, bounds[0], bounds[-1])
                left.set_xlabel("ratio demanded")
            else:
                decades(left)
                left.set_xlabel("λ, stronger →" if column else "limit on the covariance, stricter →")
            left.set_ylim(-0.03, 1.03)
            left.set_title(f"{WORDS[name]}: {'regularisation' if column else 'constraint'}")
            accuracy_axes.append(right)
        # One scale for both panels, so that their accuracies can be compared.
        low = min(axis.get_ylim()[0] for axis in accuracy_axes)
        high = max(axis.get_ylim()[1] for axis in accuracy_axes)
        for axis in accuracy_axes:
            axis.set_ylim(low, high)
        accuracy_axes[0].tick_params(labelright=False)
        accuracy_axes[1].set_ylabel("accuracy, %")
        axes[2 * row].set_ylabel("ratio")
    legend(figure, axes[0], accuracy_axes[0], axes[2], axes[4])
    return figure


def tabulate_penalized(evidence: Evidence) -> list[ResultTable]:
    """Return every point of the figure."""
    columns: Columns = [
        "surrogate",
        "approach",
        Column("bound or λ", ".4g"),
        Column("ratio", ".4f"),
        Column("accuracy, %", ".2f"),
    ]
    rows: list[list[Value]] = []
    for name in APPROACHES:
        for approach, points in (
            ("constraint", constrained(evidence, name)),
            ("regularisation", penalized(evidence, name)),
        ):
            for bound, run in points:
                part = evidence.part(run)
                rows.append([WORDS[name], approach, bound, part.ratio(), 100 * part.accuracy])
    return [ResultTable.build(f"{evidence.title}: constraints and regularisation", columns, rows)]


def largest_step_back(ratios: list[float]) -> float:
    """Return the largest decrease of the ratio from one point to the next stronger one; 0 if it never falls."""
    return max([0.0, *(before - after for before, after in pairwise(ratios))])


def _said(back: float) -> str:
    return f"the largest step back of the ratio is {back:.4f}; up to {STEADY:g} counts as none."


def _accuracies(evidence: Evidence, points: list[tuple[float, Run]]) -> list[float]:
    """Return the accuracies of the models that keep the compared ratio on training rows, where a user would choose."""
    kept = [run for _, run in points if evidence.outcome(run).train.ratio() >= COMPARED - STEADY]
    return [evidence.part(run).accuracy for run in kept]


def check_penalized(evidence: Evidence) -> list[Check]:
    """Check that ratios are monotone under constraints but not under penalties, which also cost more accuracy."""
    found = []
    for name in APPROACHES:
        limited = [(bound, evidence.part(run)) for bound, run in constrained(evidence, name)]
        back = largest_step_back([part.ratio() for _, part in limited])
        figures = f"{evidence.title}, {WORDS[name]}: {_said(back)}"
        found.append(Check("A stricter constraint never lowers the ratio.", back <= STEADY, figures))
        weighted = [evidence.part(run) for _, run in penalized(evidence, name)]
        back = largest_step_back([part.ratio() for part in weighted])
        figures = f"{evidence.title}, {WORDS[name]}: {_said(back)}"
        found.append(Check("A stronger penalty can lower the ratio.", back > STEADY, figures))
        by_limit, by_weight = (_accuracies(evidence, points(evidence, name)) for points in (constrained, penalized))
        if by_limit or by_weight:
            one, other = (f"{100 * max(some):.2f}%" if some else "none" for some in (by_limit, by_weight))
            figures = (
                f"{evidence.title}, {WORDS[name]}: the best accuracy of models with a ratio of {COMPARED - STEADY:g} "
                f"or more on training rows is {one} by constraint and {other} by regularisation; up to "
                f"{100 * ROUNDING:g} points are equal."
            )
            holds = max(by_limit, default=0.0) >= max(by_weight, default=0.0) - ROUNDING
            found.append(Check("At equal ratio, constraints are at least as accurate.", holds, figures))
    return found


def tabulate_search(evidence: Evidence) -> list[ResultTable]:
    """Return the cost of each demanded ratio by a constraint and by a search."""
    columns: Columns = [
        Column("ratio demanded", "g"),
        "approach",
        Column("fits", "d"),
        Column("seconds", ".1f"),
        Column("ratio reached", ".4f"),
        Column("accuracy, %", ".2f"),
        "within 0.01",
    ]
    rows: list[list[Value]] = []
    for target in SCALE_RATIOS:
        run = evidence.setting.limited(target)
        part = evidence.part(run)
        near = abs(part.ratio() - target) <= SEARCH_TOLERANCE
        rows.append(
            [target, "one constrained fit", 1, evidence.outcome(run).processor_seconds, part.ratio(),
             100 * part.accuracy, near]
        )  # fmt: skip
        found = search(evidence.setting, evidence.results, target)
        end = _end(evidence, found)
        part = evidence.part(end)
        seconds = sum(evidence.outcome(fit).processor_seconds for fit in found.fits)
        near = evidence.gap_to(end, target) <= SEARCH_TOLERANCE
        rows.append([target, "search over λ", len(found.fits), seconds, part.ratio(), 100 * part.accuracy, near])
    return [ResultTable.build(f"{evidence.title}: what a demanded ratio costs", columns, rows)]


def _end(evidence: Evidence, found: Search) -> Run:
    """Return the result of a search: the fit whose ratio on training rows is nearest to the target."""
    return min(found.fits, key=lambda fit: abs(evidence.outcome(fit).train.ratio() - found.target))


def check_search(evidence: Evidence) -> list[Check]:
    """Check that one constrained fit reaches the ratio, and compare it with a search."""
    claim = "A demanded ratio takes one constrained fit, and a search over penalties."
    found = []
    for target in evidence.binding(SCALE_RATIOS):
        run = evidence.setting.limited(target)
        one, part = evidence.outcome(run), evidence.part(run)
        reached = evidence.gap_to(run, target) <= SEARCH_TOLERANCE
        looked = search(evidence.setting, evidence.results, target)
        seconds = sum(evidence.outcome(fit).processor_seconds for fit in looked.fits)
        end = _end(evidence, looked)
        hit, other = evidence.gap_to(end, target) <= SEARCH_TOLERANCE, evidence.part(end)
        came = "reached it" if hit else f"ended at {other.ratio():.4f}"
        figures = (
            f"{evidence.title}, {target:g} ± {SEARCH_TOLERANCE:g}: one constrained fit ({one.processor_seconds:.1f} s, "
            f"ratio {part.ratio():.4f}, {100 * part.accuracy:.2f}%); the search {came} in {len(looked.fits)} "
            f"fits of at most {SEARCH_FITS} ({seconds:.1f} s, {100 * other.accuracy:.2f}%)."
        )
        holds = reached and (not hit or (len(looked.fits) > 1 and seconds > one.processor_seconds))
        found.append(Check(claim, holds, figures))
    return found


# --- time and memory (table 3) ----------------------------------------------------------------------------------------

SLIGHTLY = 1.5
"""A constrained run costs slightly more if it takes at most this many times as long as a regularised one."""


def _outcomes(evidence: Evidence, name: str, approach: str) -> list[Outcome]:
    points = constrained(evidence, name) if approach == "constraint" else penalized(evidence, name)
    return [evidence.outcome(run) for _, run in points]


def tabulate_cost(evidence: Evidence) -> list[ResultTable]:
    """Return our times in seconds, and the printed ones in minutes and hours."""
    columns: Columns = [
        "surrogate",
        "approach",
        Column("runs", "d"),
        Column("processor seconds a run", ".2f"),
        Column("printed, minutes", ".2f"),
        Column("memory at most, MB", ".0f"),
        Column("printed, MB", ".0f"),
        Column("processor seconds in all", ".1f"),
        Column("printed, hours", ".2f"),
        Column("times faster", ".0f"),
    ]
    rows: list[list[Value]] = []
    for name in APPROACHES:
        for approach in ("regularization", "constraint"):
            outcomes = _outcomes(evidence, name, approach)
            stated = TABLE_3[evidence.setting.dataset, name, approach]
            total = sum(outcome.processor_seconds for outcome in outcomes)
            rows.append(
                [
                    WORDS[name],
                    approach.replace("z", "s"),
                    len(outcomes),
                    total / len(outcomes),
                    stated.minutes,
                    max(outcome.peak_megabytes for outcome in outcomes),
                    stated.megabytes,
                    total,
                    stated.hours,
                    3600 * stated.hours / total,
                ]
            )
    return [
        ResultTable.build(
            f"{evidence.title}: time and memory (one core a run; another machine than the paper's)", columns, rows
        )
    ]


def check_cost(evidence: Evidence) -> list[Check]:
    """Check that a constrained run costs at most slightly more than a regularised one."""
    found = []
    for name in APPROACHES:
        limited, weighted = (
            statistics.fmean(outcome.processor_seconds for outcome in _outcomes(evidence, name, approach))
            for approach in ("constraint", "regularization")
        )
        figures = (
            f"{evidence.title}, {WORDS[name]}: {limited:.2f} s a constrained run, {weighted:.2f} s a regularised one, "
            f"{limited / weighted:.2f} times; slightly means up to {SLIGHTLY:g}."
        )
        claim = "A run with constraints costs at most slightly more than one with a penalty."
        found.append(Check(claim, limited <= SLIGHTLY * weighted, figures))
    return found
