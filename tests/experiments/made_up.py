"""Outcomes that no run ever had: accuracies and ratios as a test wants them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import fairbound
from fairbound.experiments.items import ITEMS
from fairbound.experiments.protocol import Run
from fairbound.experiments.running import load_rows
from fairbound.experiments.runs import CellSums, Evidence, Grid, Outcome, Results

HALF = 5_000.0
"""Rows in each of the four cells."""

Numbers = tuple[float, float]
"""An accuracy and a ratio of selection rates."""


def part(accuracy: float, ratio: float, *, surrogate_ratio: float | None = None, rate: float = 0.5) -> CellSums:
    """Two groups, of which the second is selected at `rate` and the first at `ratio` times that."""
    return CellSums(
        ("a", "b"),
        totals=((HALF, HALF), (HALF, HALF)),
        decisions=_select(accuracy, ratio, rate),
        surrogate=_select(accuracy, ratio if surrogate_ratio is None else surrogate_ratio, rate),
        margins=((0.0, 0.0), (0.0, 0.0)),
        loss=0.5,
    )


def _select(accuracy: float, ratio: float, rate: float) -> Grid:
    """In each group: TP + FP = selected and TP − FP = right − negatives."""
    grid = []
    for selected in (2 * HALF * rate * ratio, 2 * HALF * rate):
        right = (selected + 2 * HALF * accuracy - HALF) / 2
        grid.append((selected - right, right))
    return grid[0], grid[1]


def outcome(run: Run, train: CellSums, test: CellSums | None = None, **changes: object) -> Outcome:
    """What a run might have come to."""
    names = {"accuracy": round(train.accuracy, 6), "loss": 0.5, "exact_violation": 0.0, "surrogate_violation": 0.0}
    made = Outcome(
        run,
        train,
        test or train,
        kept=all(train.violation(measure, bound) <= 0 for measure, bound in run.limits),
        status="feasible",
        seconds=1.0,
        processor_seconds=1.0,
        peak_megabytes=100.0,
        version=fairbound.__version__,
        history={name: [value] * 10 for name, value in names.items()} if run.solver == "paper" else {},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def demanded(run: Run) -> float:
    """The ratio that a run was asked for; 0.5 where it was not."""
    return run.limits[0][1] if run.limits and run.limits[0][0] != "covariance" else 0.5


def evidence(
    name: str,
    setting: Evidence,
    numbers: Callable[[Run], Numbers | Outcome] = lambda run: (0.8, demanded(run)),
    rows: str = "law",
) -> Evidence:
    """Evidence of made-up outcomes for an item; by default each run reaches exactly what it was asked for."""
    made = replace(setting, results=Results(), split=load_rows(rows))
    while missing := made.results.missing(ITEMS[name].runs(made)):
        for run in missing:
            found = numbers(run)
            made.results.add(found if isinstance(found, Outcome) else outcome(run, part(*found)))
    return made
