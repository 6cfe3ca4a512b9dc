"""The archive of a fit: which of the visited models is chosen."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fairbound.training.archive import Archive


def point(name: float) -> np.ndarray:
    return np.array([float(name)])


def found(accuracy: float = 0.7, objective: float = 0.5, violation: float = 0.0) -> SimpleNamespace:
    """What the archive reads of an assessment."""
    return SimpleNamespace(
        kept=violation <= 0, accuracy=accuracy, objective=objective, loss=objective, exact_violation=violation
    )


def fill(archive: Archive, *points: SimpleNamespace, constants: tuple[SimpleNamespace, ...] = ()) -> float:
    """Offer points 0, 1, ... and constants -1, -2, ...; return which one is chosen."""
    for place, each in enumerate(points):
        archive.offer(point(place), each)
    for place, each in enumerate(constants):
        archive.offer_constant(point(-1 - place), each)
    return archive.choice().w.item()


def test_only_what_keeps_the_limits_is_eligible_and_the_most_accurate_is_chosen():
    archive = Archive()
    assert fill(archive, found(0.99, violation=1e-9), found(0.7), found(0.8), found(0.75)) == 2
    assert archive.least_loss == 0.5


def test_equal_accuracy_is_decided_by_the_objective_and_a_tie_by_the_first():
    assert fill(Archive(), found(0.8, 0.5), found(0.8, 0.4), found(0.8, 0.4)) == 1


def test_with_the_loss_as_objective_accuracy_does_not_count():
    assert fill(Archive("loss"), found(0.8, 0.5), found(0.7, 0.4)) == 1


def test_a_judge_decides_alone():
    judge = {0.0: 0.3, 1.0: 0.1, 2.0: 0.2}
    archive = Archive(judge=lambda w: judge[w.item()])
    assert fill(archive, found(0.9), found(0.7), found(0.8), constants=(found(0.95),)) == 1
    assert [held.w.item() for held in archive.ranked()] == [1, 2, 0, -1]


def test_a_constant_is_chosen_if_it_is_more_accurate_than_every_model():
    assert fill(Archive(), found(0.7), constants=(found(0.6),)) == 0
    assert fill(Archive(), found(0.7), constants=(found(0.7), found(0.75))) == -2
    assert fill(Archive(), found(0.9, violation=0.1), constants=(found(0.3), found(0.4))) == -2


def test_where_even_the_free_model_is_worse_than_a_constant_any_model_comes_first():
    assert fill(Archive(free_accuracy=0.74), found(0.7), constants=(found(0.75),)) == 0
    assert fill(Archive(free_accuracy=0.74), constants=(found(0.75),)) == -1


def test_a_constant_that_violates_the_limits_is_not_eligible():
    assert fill(Archive(), found(0.9, violation=0.1), constants=(found(0.95, violation=0.01),)) == 0


def test_if_nothing_keeps_the_limits_the_nearest_is_returned():
    archive = Archive()
    with pytest.raises(ValueError, match="No model"):
        archive.choice()
    assert fill(archive, found(violation=0.2), found(violation=0.1), found(violation=0.3)) == 1
    assert archive.least_loss is None


def test_points_are_copied_and_only_the_best_are_held():
    archive, moving = Archive(), point(0)
    archive.offer(moving, found(0.9))
    moving += 5.0
    for place in range(1, 10):
        archive.offer(point(place), found(0.5 + place / 100))
    assert [held.w.item() for held in archive.ranked()] == [0, 9, 8, 7]
    assert archive.least_loss == 0.5 < math.inf
