"""One `fairbound train`, and one `fairbound frontier`, do no work twice (`benchmarks/house.py`)."""

from __future__ import annotations

import pytest
from benchmarks.house import BOUNDS, FRONTIER, TRAIN, House, command


@pytest.mark.slow
def test_a_run_does_no_work_twice():
    command(TRAIN)()  # imports are no part of a run
    train = House()
    train.count(command(TRAIN))
    assert train.outside_solver <= 1400
    assert train.of("encode_labels") <= 9
    assert train.of("ConstraintSystem.build") <= 30
    assert len(train.encoded) == 2  # training rows and held-out rows
    assert set(train.encoded.values()) == {1}


@pytest.mark.slow
def test_a_frontier_has_one_fit_for_each_bound():
    frontier = House()
    frontier.count(command(FRONTIER))
    rows = max(frontier.fits)
    assert frontier.fits[rows] == len(BOUNDS)
    assert frontier.fits.total() == 6 * len(BOUNDS)  # the forecast fits five folds of the rows
