"""Groups that are known with probabilities: fits, audits and certificates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight
from tests.estimator.helpers import quick, toy

from fairbound import audit, certify
from fairbound.estimator import make_fairness_scorer
from fairbound.estimator.parameters import class_weights
from fairbound.fairness import Cells

LIMIT = "disparate_impact >= 0.8"


def guessed(n=600, seed=0):
    """Rows whose group is known with a probability."""
    X, y, group = toy(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    return X, y, np.clip(np.where(group == "a", 0.8, 0.2) + rng.normal(scale=0.15, size=n), 0, 1)


def rates(decided, probability):
    return [np.average(decided, weights=weight) for weight in (probability, 1 - probability)]


@pytest.mark.parametrize("limits", [LIMIT, "covariance <= 0.03"])
def test_probabilities_of_0_and_1_give_the_fit_of_plain_groups(limits):
    X, y, group = toy(200)
    sure = {"group": {name: (group == name).astype(float) for name in "ab"}}
    plain = quick(limits).fit(X, y, sensitive_features={"group": group})
    divided = quick(limits).fit(X, y, sensitive_features=sure)
    assert plain.predict_proba(X).tolist() == divided.predict_proba(X).tolist()
    first, second = (clf.result_.to_dict() | {"seconds": 0, "iterations": []} for clf in (plain, divided))
    assert first == second


def test_a_limit_is_kept_by_weighted_counts():
    X, y, probability = guessed()
    clf = quick(LIMIT).fit(X, y, sensitive_features={"group": {"a": probability}})
    result = clf.result_
    found = rates(clf.predict(X), probability)
    free = quick().fit(X, y).predict(X)
    assert np.divide(*sorted(rates(free, probability))) < 0.7  # so the limit binds
    assert result.limits[0].reached == pytest.approx(np.divide(*sorted(found)), abs=1e-12)
    assert result.limits[0].reached >= 0.8 - 1e-12
    assert result.rows == len(y)
    assert [group.rows for group in result.groups] == [round(probability.sum()), round((1 - probability).sum())]
    assert result.accuracy == pytest.approx((clf.predict(X) == y).mean())
    assert result.forecast.limits[0].lower < result.forecast.limits[0].expected


def test_a_covariance_with_a_number_is_limited():
    X, y, age = guessed()
    clf = quick("covariance <= 0.02").fit(X, y, sensitive_features={"age": {"old": age}})
    decided = clf.predict(X)
    reached = abs(np.cov(age, decided, bias=True)[0, 1])
    assert reached <= 0.02 + 1e-12
    assert clf.result_.limits[0].reached == pytest.approx(reached, abs=1e-12)


def test_beside_a_plain_column_with_weights_a_base_and_validation_rows():
    X, y, probability = guessed()
    columns = {"sex": np.where(X[:, 1] > 0, "f", "m"), "group": pd.DataFrame({"a": probability, "b": 1 - probability})}
    weight = np.random.default_rng(0).choice([1.0, 2.0], len(y))
    clf = quick(LIMIT, base=LogisticRegression(), base__cv=2)
    clf.fit(X, y, sensitive_features=columns, sample_weight=weight, eval_set=(X, y, columns))
    assert clf.result_.kept
    assert clf.result_.eval_accuracy == pytest.approx((clf.predict(X) == y).mean())
    by_sex = [group.rows for group in clf.result_.groups if group.grouping == "sex"]
    assert by_sex == [int((X[:, 1] > 0).sum()), int((X[:, 1] <= 0).sum())]


def test_a_scorer_counts_the_same():
    X, y, probability = guessed()
    clf = quick(LIMIT).fit(X, y, sensitive_features={"group": {"a": probability}})
    score = make_fairness_scorer("disparate_impact")(clf, X, y, sensitive_features={"group": {"a": probability}})
    assert score == pytest.approx(clf.result_.limits[0].reached, abs=1e-12)


def test_balanced_classes_count_rows_and_not_their_parts():
    _, y, _ = toy(200)
    cells = Cells.build(y, {"group": {"a": np.where(y == 1, 0.5, 1.0)}})  # positive rows have two entries
    weights = class_weights(quick(loss__class_weight="balanced"), cells)[cells.labels]
    assert cells.of_rows(weights).tolist() == compute_sample_weight("balanced", y).tolist()


def test_small_expected_groups_are_refused():
    X, y, _ = toy(400)
    rare = np.full(len(y), 0.01)
    with pytest.raises(ValueError, match=r"'rare' \(4\)"):
        quick(LIMIT).fit(X, y, sensitive_features={"group": {"rare": rare}})


def test_an_estimate_of_the_group_needs_known_groups():
    X, y, probability = guessed(200)
    clf = quick(LIMIT, base=LogisticRegression(), base__cv=2, base__correction="groups")
    with pytest.raises(ValueError, match="known with probabilities only"):
        clf.fit(X, y, sensitive_features={"group": {"a": probability}})


def test_an_audit_counts_and_bounds_by_weight():
    _, y, probability = guessed(2000)
    decided = np.random.default_rng(3).integers(0, 2, len(y))
    found = audit(y, decided, {"group": {"a": probability}})
    for name, expected in zip(("a", "not a"), rates(decided, probability), strict=True):
        estimate = found.group(name).rate("selection_rate")
        assert estimate.value == pytest.approx(expected)
        assert estimate.lower < expected < estimate.upper
    everyone = found.groups[-1].rate("selection_rate")
    exact = audit(y, decided, {"all": np.zeros(len(y))}).groups[-1].rate("selection_rate")
    assert everyone.value == pytest.approx(exact.value)
    assert everyone.lower < exact.lower < exact.upper < everyone.upper  # the rows are not taken for twice as many
    assert found.rows == len(y)
    assert "known with probabilities" in str(found)


def test_bounds_of_weighted_rows_take_the_heaviest_row_and_not_its_heaviest_part():
    draw = np.random.default_rng(4)
    decided, weights = draw.integers(0, 2, 400), draw.uniform(1, 4, 400)
    probability = np.full(400, 0.5)  # every part has half of the weight of its row
    divided = audit(decided, decided, {"group": {"a": probability}}, sample_weight=weights)
    whole = audit(decided, decided, {"group": ["a", "b"] * 200}, sample_weight=weights)
    found, expected = (each.groups[-1].rate("selection_rate") for each in (divided, whole))
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), rel=1e-9)


def test_bounds_of_a_plain_column_are_not_touched_by_probabilities_beside_it():
    X, y, probability = guessed()
    decided, sex = (X[:, 2] > 0).astype(int), np.where(X[:, 1] > 0, "f", "m")
    alone = audit(y, decided, {"sex": sex}).group("f")
    beside = audit(y, decided, {"group": {"a": probability}, "sex": sex}).group("f")
    assert alone.rates == beside.rates


@pytest.mark.slow
def test_a_certificate_errs_at_most_as_often_as_it_says():
    # The population is exactly at the limit: the rate is 0.5 where the probability of "a" is high, and 0.4 elsewhere.
    rng, passed, draws, n = np.random.default_rng(0), 0, 400, 2000
    high = np.array([0.9, 0.1])
    selected = np.array([0.5, 0.4])
    by_group = [(share * selected).sum() / share.sum() for share in (high, 1 - high)]
    bound = by_group[1] / by_group[0] + 1e-9
    for _ in range(draws):
        kind = rng.integers(0, 2, n)
        decided = (rng.random(n) < selected[kind]).astype(int)
        found = certify(kind, decided, {"group": {"a": high[kind]}}, f"disparate_impact >= {bound}", 0.9)
        passed += found.passed
    assert passed <= 0.1 * draws


def test_a_certificate_passes_with_enough_rows():
    rng = np.random.default_rng(0)
    probability, y, decided = rng.random(20_000), rng.integers(0, 2, 20_000), rng.integers(0, 2, 20_000)
    found = certify(y, decided, {"group": {"a": probability}}, [LIMIT, "covariance <= 0.1"])
    assert [limit.verdict.value for limit in found.limits] == ["PASS", "NOT CERTIFIABLE"]
