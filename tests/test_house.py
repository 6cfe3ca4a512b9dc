"""One `fairbound train`, and one `fairbound frontier`, do no work twice (`benchmarks/house.py`)."""

from __future__ import annotations

import pytest
from benchmarks.house import BOUNDS, FRONTIER, TRAIN, House, command


@pytest.mark.slow
def test_a_run_does_no_work_twice():
    command(TRAIN)()  # imports are no part of a run
    train = House()
    train.count(command(TRAIN))
    # All crossings beside the passes over the rows, so that a solver with more iterations may take more of them.
    passes = train.of("WholePassProblem.evaluate") + train.of("WholePassProblem.values")
    assert train.crossings.total() <= 5.5 * passes
    assert train.of("Cells.count") <= 6
    assert train.of("ConstraintSystem.build") <= 12
    assert len(train.encoded) == 2  # training rows and held-out rows
    assert set(train.encoded.values()) == {1}


@pytest.mark.slow
def test_a_frontier_has_one_fit_for_each_bound():
    frontier = House()
    frontier.count(command(FRONTIER))
    rows = max(frontier.fits)
    assert frontier.fits[rows] == len(BOUNDS)
    assert frontier.fits.total() == len(BOUNDS) + 2  # the forecast fits two parts of the rows
