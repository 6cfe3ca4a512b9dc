"""Table 3: time, memory and total processor time of each approach, beside the printed values."""

from __future__ import annotations

import statistics

from fairbound.experiments.items.penalized import constrained, penalized
from fairbound.experiments.plans import Evidence
from fairbound.experiments.protocol import APPROACHES, TABLE_3, WORDS
from fairbound.experiments.runs import Outcome
from fairbound.experiments.sections import Check
from fairbound.experiments.tables import Column, Columns, ResultTable, Value

SLIGHTLY = 1.5
"""A constrained run costs slightly more if it takes at most this many times as long as a regularised one."""


def _outcomes(evidence: Evidence, name: str, approach: str) -> list[Outcome]:
    points = constrained(evidence, name) if approach == "constraint" else penalized(evidence, name)
    return [evidence.outcome(run) for _, run in points]


def tabulate(evidence: Evidence) -> list[ResultTable]:
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


def check(evidence: Evidence) -> list[Check]:
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
