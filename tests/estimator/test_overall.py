"""Limits on the rates of everyone: text, fits with and without groups, certificate, monitor, files."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score
from tests.estimator.helpers import quick

from fairbound import ConstrainedClassifier, Monitor, certify, load
from fairbound._errors import InputError
from fairbound.fairness import Constraint, parse_constraint


def rows(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    group = draw.choice(["a", "b", None], n, p=[0.5, 0.4, 0.1])
    x = draw.normal(size=(n, 3)) + 0.5 * (group == "a")[:, None]
    return x, (x[:, 0] + 0.5 * x[:, 1] + draw.normal(size=n) > 0.6).astype(int), group


def rate(name: str, y: np.ndarray, decided: np.ndarray) -> float:
    """Return a rate of everyone, by scikit-learn or from its definition."""
    return {
        "selection_rate": decided.mean,
        "true_positive_rate": lambda: recall_score(y, decided),
        "false_positive_rate": lambda: decided[y == 0].mean(),
        "precision": lambda: precision_score(y, decided, zero_division=0),
        "accuracy": lambda: (decided == y).mean(),
    }[name]()


LIMITS = [
    "selection_rate <= 0.1",
    "recall >= 0.8",
    "false_positive_rate <= 0.05",
    "precision >= 0.85",
    "0.2 <= selection_rate <= 0.25",
]


@pytest.mark.parametrize("limit", LIMITS)
def test_without_groups_a_limit_on_a_rate_is_that_of_everyone(limit):
    X, y, _ = rows()
    clf = quick(limit).fit(X, y)
    found, decided = clf.result_.limits[0], clf.predict(X)
    name = parse_constraint(limit).name
    assert found.reached == pytest.approx(rate(name, y, decided), abs=1e-12)
    assert parse_constraint(limit).keeps(rate(name, y, decided))
    certificate = certify(y, decided, None, limit)
    assert certificate.limits[0].value == pytest.approx(found.reached, abs=1e-12)
    assert [each.group for each in certificate.rates] == ["overall"]
    assert certificate.rows == len(y)


def test_with_groups_everyone_is_named_and_has_the_rows_without_a_group():
    X, y, group = rows()
    limits = ["selection_rate[overall] <= 0.2", "disparate_impact >= 0.8", "precision[overall] >= 0.7"]
    clf = quick(limits).fit(X, y, sensitive_features=group)
    decided = clf.predict(X)
    assert clf.result_.kept
    assert clf.result_.limits[0].reached == pytest.approx(decided.mean(), abs=1e-12)
    assert decided.mean() <= 0.2
    assert clf.result_.limits[2].reached == pytest.approx(precision_score(y, decided), abs=1e-12)
    certificate = certify(y, decided, group, limits)
    assert certificate.limits[0].value == pytest.approx(decided.mean(), abs=1e-12)


def test_the_text_of_everyone_is_not_that_of_a_group_of_this_name():
    limit = parse_constraint("recall[overall] >= 0.8")
    assert limit == Constraint((0.8, None), measure="true_positive_rate", against="overall")
    assert str(limit) == "true_positive_rate[overall] >= 0.8"
    named = parse_constraint('true_positive_rate["overall"] >= 0.8')
    assert (named.group, named.against) == ("overall", "pairwise")
    assert parse_constraint(str(named)) == named != limit
    with pytest.raises(ValueError, match="leave columns= out"):
        parse_constraint("selection_rate(sex)[overall] <= 0.1")


def test_limits_that_compare_groups_need_groups():
    X, y, _ = rows(300)
    for limits in (["selection_rate <= 0.3", "disparate_impact >= 0.8"], "selection_rate[a] <= 0.3"):
        with pytest.raises(InputError, match="limits that compare groups, but no groups"):
            quick(limits).fit(X, y)


def test_the_monitor_watches_everyone():
    draw = np.random.default_rng(0)
    for given in (None, draw.choice(["a", "b"], 1000)):
        limit = "selection_rate <= 0.1" if given is None else "selection_rate[overall] <= 0.1"
        kept, broken = Monitor(limit), Monitor(limit)
        for _ in range(5):
            kept.update(draw.random(1000) < 0.08, given)
            broken.update(draw.random(1000) < 0.2, given)
        assert broken.alarm
        assert not kept.alarm
    with pytest.raises(ValueError, match="needs groups"):
        Monitor("disparate_impact >= 0.8").update([1, 0], None)


def test_a_model_under_an_overall_limit_is_saved_and_forecast(tmp_path):
    X, y, _ = rows()
    clf = ConstrainedClassifier("false_positive_rate <= 0.05").fit(X, y)
    forecast = clf.result_.forecast.limits[0]
    there = rows(20000, seed=5)
    new = clf.predict(there[0])[there[1] == 0].mean()
    assert forecast.lower <= new <= forecast.upper
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").result_.limits[0].limit == "false_positive_rate <= 0.05"
