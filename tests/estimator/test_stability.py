"""Limits on the share of decisions that differ from given ones: overall and by group."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.estimator.helpers import quick

from fairbound import ConstrainedClassifier, certify, load
from fairbound.fairness import Cells, ConstraintSystem, parse_constraint


def rows(n: int = 1500, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return inputs with the decisions of an older rule, which used the first input only."""
    draw = np.random.default_rng(seed)
    group = draw.choice(["a", "b"], n)
    x = draw.normal(size=(n, 3)) + 0.6 * (group == "a")[:, None]
    y = (x[:, 0] + x[:, 1] + draw.normal(size=n) > 0.6).astype(int)
    old = (x[:, 0] + 0.3 * x[:, 1] > 0.3).astype(int)
    return pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "old": old}), y, group


def test_few_decisions_change_overall():
    X, y, _ = rows()
    clf = quick("changed <= 4% from old").fit(X, y)
    decided, old = clf.predict(X), X["old"].to_numpy()
    assert clf.result_.limits[0].reached == pytest.approx((decided != old).mean(), abs=1e-12)
    assert (decided != old).mean() <= 0.04
    assert (quick().fit(X.drop(columns="old"), y).predict(X.drop(columns="old")) != old).mean() > 0.1
    assert clf.encoded_names_ == ["x0", "x1", "x2"]
    assert (clf.predict(X.drop(columns="old")) == decided).all()


def test_a_fit_is_compared_with_one_column_of_decisions():
    X, y, _ = rows()
    with pytest.raises(ValueError, match="name 'old', 'older', but a fit compares with one column"):
        quick(["changed <= 4% from old", "changed <= 4% from older"]).fit(X.assign(older=0), y)


def test_few_decisions_change_in_each_group_and_overall():
    X, y, group = rows()
    limits = ["changed <= 8% from old", "changed[overall] <= 6% from old", "disparate_impact >= 0.55"]
    clf = quick(limits).fit(X, y, sensitive_features=group)
    other = clf.predict(X) != X["old"].to_numpy()
    assert clf.result_.kept
    by_group = [other[group == each].mean() for each in "ab"]
    assert clf.result_.limits[0].reached == pytest.approx(max(by_group), abs=1e-12)
    assert clf.result_.limits[1].reached == pytest.approx(other.mean(), abs=1e-12)
    assert other.mean() <= 0.06
    assert max(by_group) <= 0.08


def test_derivatives_are_those_of_differences():
    X, y, group = rows(60)
    cells = Cells.build(y, {"sex": group, "from old": X["old"].to_numpy()})
    limits = ["changed <= 0.1 from old", "changed[overall] <= 0.1 from old", "accuracy >= 0.3"]
    system = ConstraintSystem.build(limits, cells)
    S = np.random.default_rng(0).uniform(0.2, 0.8, (len(system.surrogates), cells.n_cells, 1)) * cells.totals[:, None]
    _, derivative = system._differentiate(S)
    for k in range(cells.n_cells):
        step = np.zeros_like(S)
        step[0, k, 0] = 0.5
        assert system.values(S + step) - system.values(S) == pytest.approx(0.5 * derivative[:, 0, k, 0], abs=1e-12)


def test_certificate_forecast_and_folder(tmp_path):
    X, y, group = rows()
    limit = "changed <= 10% from old"
    clf = ConstrainedClassifier(limit).fit(X, y, sensitive_features=group)
    others, labels, groups = rows(4000, seed=5)
    decided, old = clf.predict(others), others["old"].to_numpy()
    worst = max((decided != old)[groups == each].mean() for each in "ab")
    found = certify(labels, decided, {"sex": groups, "from old": old}, limit)
    assert found.limits[0].value == pytest.approx(worst, abs=1e-12)
    forecast = clf.result_.forecast.limits[0]
    assert forecast.lower - 0.01 <= worst <= forecast.upper + 0.01
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").constraints == [parse_constraint(limit)]


def test_what_has_no_decisions_before_is_refused():
    X, y, group = rows(300)
    for limit, said in {
        "changed <= 2%": 'as in "changed <= 2% from decision"',
        "changed <= 2% from odl": "names the column 'odl', which X does not have. Did you mean 'old'",
        "changed <= 2% from x0": "of decisions before has .*Give each row one of the two labels, 0, 1",
    }.items():
        with pytest.raises(ValueError, match=said):
            quick(limit).fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="needs the decisions before: beside the groups, a column 'from old'"):
        certify(y, y, group, "changed <= 2% from old")
    text = "changed[a] <= 0.02 from old within grade"
    assert str(parse_constraint(text)) == text
