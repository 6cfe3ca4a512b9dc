"""`no_group_worse`: limits are kept by lifting, as constraints of the same problem, and a conflict is named."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.estimator.helpers import quick, toy
from tests.refusals import refused

from fairbound import ConstrainedClassifier, Groups, LimitWarning, load, load_dataset, study
from fairbound.sqp import Status

LIMIT = "disparate_impact >= 0.9"


def rates(model, X, y, group, *, positives=False):
    decided = model.predict(X)
    return {name: decided[(group == name) & ((y == 1) | (not positives))].mean() for name in np.unique(group)}


@pytest.fixture(scope="module")
def rows():
    return toy()


@pytest.fixture(scope="module")
def free(rows):
    X, y, _ = rows
    return ConstrainedClassifier().fit(X, y)


@pytest.fixture(scope="module")
def lifted(rows):
    X, y, group = rows
    return ConstrainedClassifier(LIMIT, groups=Groups(no_group_worse=True)).fit(X, y, sensitive_features=group)


def test_a_margin_is_for_the_limits_and_not_for_the_floors(rows, free):
    X, y, group = rows
    found = quick(LIMIT, groups__no_group_worse=True, margin="auto").fit(X, y, sensitive_features=group)
    own, *floors = found.result_.limits
    assert [each.limit for each in found.result_.margin.limits] == [own.limit]
    assert [each.limit for each in found.result_.forecast.limits] == [own.limit]
    assert found.result_.kept
    assert own.reached > 0.93  # without a margin it is at 0.9
    # A floor with a margin would lift everyone: the rate of the group that was ahead stays where it was.
    ahead = max(floors, key=lambda floor: floor.reached)
    assert ahead.reached < rates(free, X, y, group)["b"] + 0.02


def test_the_limit_alone_lowers_a_group_and_with_floors_it_does_not(rows, free, lifted):
    X, y, group = rows
    before = rates(free, X, y, group)
    plain = ConstrainedClassifier(LIMIT).fit(X, y, sensitive_features=group)
    assert min(after - before[name] for name, after in rates(plain, X, y, group).items()) < 0  # else there is no test
    after = rates(lifted, X, y, group)
    assert lifted.result_.kept
    assert min(after.values()) / max(after.values()) >= 0.9
    for name in before:
        assert after[name] >= before[name]


def test_the_floors_are_the_rates_of_the_model_without_limits(rows, free, lifted):
    X, y, group = rows
    own, *floors = lifted.result_.limits
    assert own.limit == LIMIT
    before = rates(free, X, y, group)
    assert [floor.limit for floor in floors] == [
        f"selection_rate(sensitive_feature)[{name}] >= {rate!r}"
        for name, rate in ((name, float(rate)) for name, rate in before.items())
    ]
    assert any("No group worse off" in note for note in lifted.result_.notes)
    assert lifted.constraints == LIMIT  # a parameter is not changed by fit


def test_another_rate_can_be_named(rows, free):
    X, y, group = rows
    before = rates(free, X, y, group, positives=True)
    given = ConstrainedClassifier("equal_opportunity <= 0.02", groups=Groups(no_group_worse="true_positive_rate"))
    after = rates(given.fit(X, y, sensitive_features=group), X, y, group, positives=True)
    assert given.result_.kept
    assert all(after[name] >= before[name] for name in before)


def test_a_conflict_is_named(rows, free):
    X, y, group = rows
    least = min(rates(free, X, y, group).values())
    capped = f"selection_rate[b] <= {least:.3f}"  # below the floor of b
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        found = (
            ConstrainedClassifier([LIMIT, capped], groups=Groups(no_group_worse=True))
            .fit(X, y, sensitive_features=group)
            .result_
        )
    assert not found.kept
    assert found.status is Status.INFEASIBLE
    named = " ".join(found.conflicts)
    assert f"selection_rate(sensitive_feature)[b] >= {float(rates(free, X, y, group)['b'])!r}" in named
    assert capped in named
    assert "In conflict" in found.message


def test_a_frontier_has_the_floors_at_every_bound(rows, free):
    X, y, group = rows
    before = rates(free, X, y, group)
    points = ConstrainedClassifier(LIMIT, groups=Groups(no_group_worse=True)).frontier(
        X, y, [0.6, 0.8], sensitive_features=group
    )
    for point in points:
        after = rates(point.classifier, X, y, group)
        assert point.result.kept
        assert all(after[name] >= before[name] for name in before)
        assert [str(each) for each in point.classifier.constraints] == [f"disparate_impact >= {point.bound}"]
        # The floors are rates on the training rows, so there is nothing to forecast about them.
        assert [each.limit for each in point.result.forecast.limits] == [f"disparate_impact >= {point.bound}"]


def test_without_limits_there_is_nothing_to_lift(rows, free):
    X, y, group = rows
    same = ConstrainedClassifier(groups=Groups(no_group_worse=True)).fit(X, y, sensitive_features=group)
    assert (same.predict(X) == free.predict(X)).all()


def test_it_survives_saving(rows, tmp_path):
    X, y, group = rows
    lifted = quick("disparate_impact >= 0.5", groups__no_group_worse=True).fit(X, y, sensitive_features=group)
    lifted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.groups.no_group_worse is True
    assert (again.predict(X) == lifted.predict(X)).all()


def test_what_cannot_be_had_is_refused(rows):
    X, y, group = rows
    with refused("no_group_worse", "two classes", "3"):
        ConstrainedClassifier(LIMIT, groups=Groups(no_group_worse=True)).fit(
            X, np.arange(len(y)) % 3, sensitive_features=group
        )
    with refused("selektion_rate", "selection_rate"):
        ConstrainedClassifier(LIMIT, groups=Groups(no_group_worse="selektion_rate")).fit(X, y, sensitive_features=group)


def test_a_study_counts_the_floors_among_its_limits():
    data = load_dataset("law").take(np.arange(0, 20_000, 10))
    found = study(data, "disparate_impact >= 0.95", groups=Groups(no_group_worse=True), test_size=0.3)
    assert [limit.name for limit in found.limits] == ["disparate_impact", "selection_rate", "selection_rate"]
    training = found.summary.training
    for old, new in zip(training.before.groups, training.after.groups, strict=True):
        if not new.everyone:
            assert new.rate("selection_rate").value >= old.rate("selection_rate").value
    assert "selection_rate" in found.summary.limits[1].text


def test_a_study_certifies_the_limits_that_were_asked_for(tmp_path):
    data = load_dataset("law").take(np.arange(0, 20_000, 5))
    found = study(data, "disparate_impact >= 0.6", groups=Groups(no_group_worse=True), confidence=0.9, test_size=0.3)
    assert [limit.name for limit in found.limits] == ["disparate_impact", "selection_rate", "selection_rate"]
    assert [limit.limit for limit in found.after.certificate_.limits] == ["disparate_impact >= 0.6"]
    assert found.after.certificate_.passed
    found.write(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()
