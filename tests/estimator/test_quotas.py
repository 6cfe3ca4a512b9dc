"""Quotas: so many rows are selected in training, from a batch, and the limits hold among them; ties are told."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import quick

from fairbound import ConstrainedClassifier, load
from fairbound.sqp import Status
from fairbound.studies.settings import StudySettings


def rows(n: int = 1500, seed: int = 0, *, ties: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    group = draw.choice(["a", "b"], n)
    x = draw.normal(size=(n, 3)) + 0.6 * (group == "a")[:, None]
    y = (x[:, 0] + 0.5 * x[:, 1] + draw.normal(size=n) > 1.8).astype(int)
    return (np.round(x) if ties else x), y, group


def ratio(decided: np.ndarray, group: np.ndarray) -> float:
    rates = [decided[group == each].mean() for each in "ab"]
    return float(min(rates) / max(rates))


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize(("select", "count"), [(100, 100), ("10%", 150), ("100", 100), (1200, 1200)])
def test_exactly_the_quota_is_selected_and_the_limits_hold_among_the_selected(select, count, hidden):
    X, y, group = rows()
    clf = quick(["disparate_impact >= 0.9", f"select {select}"], hidden=hidden).fit(X, y, sensitive_features=group)
    decided = clf.predict(X)
    assert decided.sum() == count
    assert ratio(decided, group) >= 0.9
    assert clf.result_.kept
    assert [each.limit for each in clf.result_.limits] == ["disparate_impact >= 0.9"]
    assert clf.result_.status is not Status.DEGENERATE
    assert any(f"{count:,} of 1,500 rows are selected" in each for each in clf.result_.notes)
    plain = np.argsort(-LogisticRegression().fit(X, y).decision_function(X))[:count]
    assert ratio(np.isin(np.arange(len(y)), plain), group) < 0.9


def test_without_limits_the_best_rows_of_a_plain_fit_are_selected():
    X, y, _ = rows()
    clf = quick("select 100").fit(X, y)
    free = quick().fit(X, y)
    best = np.argsort(-free.decision_function(X))[:100]
    assert set(np.flatnonzero(clf.predict(X))) == set(best)
    assert clf.result_.forecast is None


def test_ties_are_left_out_and_told():
    X, y, group = rows(ties=True)
    clf = quick(["demographic_parity <= 0.05", "select 100"]).fit(X, y, sensitive_features=group)
    z, decided = clf.decision_function(X), clf.predict(X)
    selected = int(decided.sum())
    assert selected <= 100
    next_score = z[decided == 0].max()
    assert selected + np.isclose(z, next_score, rtol=0, atol=1e-9).sum() > 100  # no threshold comes nearer
    if selected < 100:
        assert any("not 100, because the next rows have equal scores" in each for each in clf.result_.notes)
    exact = clf.predict(X, select=100)
    assert exact.sum() == 100
    assert (exact >= decided).all()


def test_of_a_batch_exactly_so_many_are_selected_and_they_are_the_best():
    X, y, _ = rows(ties=True)
    clf = quick().fit(X, y)
    draw = np.random.default_rng(0)
    z = clf.decision_function(X)
    for _ in range(300):
        batch = draw.choice(len(X), draw.integers(100, 160))
        chosen = clf.predict(X[batch], select=100) == 1
        assert chosen.sum() == 100
        assert z[batch][chosen].min() >= z[batch][~chosen].max(initial=-np.inf) - 1e-12
        last = z[batch] == z[batch][chosen].min()  # of equal scores the first rows
        assert np.flatnonzero(chosen & last).max() <= np.flatnonzero(last & ~chosen).min(initial=len(batch))
    assert clf.predict(X, select="10%").sum() == 150


def test_a_quota_has_weights_folders_and_a_forecast_of_the_limits_only(tmp_path):
    X, y, group = rows()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    clf = ConstrainedClassifier(["select 20%", "demographic_parity <= 0.05"])
    clf.fit(X, y, sensitive_features=group, sample_weight=weight)
    decided = clf.predict(X)
    share = np.average(decided, weights=weight)
    assert 0.2 - 2 * weight.max() / weight.sum() <= share <= 0.2 + 1e-9
    assert f"{share:.2%} of the weight of 1,500 rows is selected. On" in clf.result_.notes[-1]
    assert [each.limit for each in clf.result_.forecast.limits] == ["demographic_parity <= 0.05"]
    clf.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.constraints[0] == "select 20%"
    assert (again.predict(X) == decided).all()


def test_a_base_is_selected_from_by_quota():
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y, group = rows()
    clf = quick(["disparate_impact >= 0.9", "select 200"], base=HistGradientBoostingClassifier(max_iter=20))
    clf.fit(X, y, sensitive_features=group)
    assert clf.result_.kept
    assert "base" in str(clf.result_)
    assert any("200 of 1,500 rows are selected" in each for each in clf.result_.notes)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("ten", "select='ten' must be a number of rows, such as 100"),
        ("100%", "must be a number of rows"),
        (2000, "select=2000 is more than there are rows, 1,500"),
        (0, "must be a number of rows"),
    ],
)
def test_quotas_that_cannot_be_are_refused(select, said):
    X, y, group = rows()
    with pytest.raises(ValueError, match=said):
        quick(["disparate_impact >= 0.8", f"select {select}"]).fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match=said):
        quick().fit(X, y).predict(X, select=select)
    with pytest.raises(ValueError, match="one quota, but there are 2"):
        quick(["select 10", "select 5%"]).fit(X, y)


def test_several_classes_have_no_quota():
    X, y, _ = rows()
    three = y + (X[:, 1] > 0.5)
    with pytest.raises(ValueError, match="needs two classes"):
        quick("select 10").fit(X, three)
    with pytest.raises(ValueError, match="needs two classes"):
        quick().fit(X, three).predict(X, select=10)


def test_the_settings_of_a_study_are_read_before_its_rows():
    limit = "disparate_impact >= 0.8"
    given = {"objective": "cost(false_positive=1, false_negative=5)"}
    for settings in (
        StudySettings.build(limit, select="10%", **given),
        StudySettings.build([limit, "select 10%"], **given),
    ):
        clf = settings.classifier(settings.limits, None, None)
        assert [str(each) for each in clf.constraints] == [limit, "select 10%"]
        assert clf.objective == given["objective"]
    with pytest.raises(ValueError, match="select='ten' must be a number of rows"):
        StudySettings.build(limit, select="ten")
    with pytest.raises(ValueError, match="objective='acc' must be accuracy"):
        StudySettings.build(limit, objective="acc")
