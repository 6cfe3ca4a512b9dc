"""Limits within the strata of a factor: text, training, certificate, audit, small strata; against counts by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, selection_rate
from tests.estimator.helpers import quick

from fairbound import ConstrainedClassifier, Groups, audit, certify, load
from fairbound._errors import InputError, SmallGroupWarning
from fairbound.fairness import DemographicParity, parse_constraint


def rows(n: int = 1800, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return rows in which the group decides the grade and the score, so that selection rates differ by stratum."""
    draw = np.random.default_rng(seed)
    group = draw.choice(["a", "b"], n)
    grade = np.where(draw.random(n) < np.where(group == "a", 0.7, 0.4), "high", "low")
    x = draw.normal(size=(n, 3)) + 0.5 * (group == "a")[:, None] + 0.2 * (grade == "high")[:, None]
    y = (x[:, 0] + 0.5 * x[:, 1] + draw.normal(size=n) > 0.7).astype(int)
    table = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "age": draw.integers(20, 60, n), "grade": grade})
    return table, y, group


def least_ratio(decided: np.ndarray, group: np.ndarray, stratum: np.ndarray) -> float:
    """Return the least ratio of selection rates of two groups in one stratum."""
    found = []
    for each in np.unique(stratum):
        rates = [decided[(stratum == each) & (group == one)].mean() for one in np.unique(group[stratum == each])]
        found += [min(pair) / max(pair) if max(pair) else 1.0 for pair in combinations(rates, 2)]
    return min(found)


def bands(age: np.ndarray) -> np.ndarray:
    return np.digitize(age, [30, 50])


STRATA = {
    "grade": lambda X: X["grade"].to_numpy(),
    "age(30, 50)": lambda X: bands(X["age"].to_numpy()),
    "grade, age(40)": lambda X: X["grade"].to_numpy() + np.digitize(X["age"], [40]).astype(str),
}


@pytest.mark.parametrize("factor", STRATA)
def test_pairs_are_compared_in_each_stratum(factor):
    X, y, group = rows()
    clf = quick(f"disparate_impact >= 0.85 within {factor}").fit(X, y, sensitive_features=group)
    reached = least_ratio(clf.predict(X), group, STRATA[factor](X))
    assert clf.result_.kept
    assert clf.result_.limits[0].reached == pytest.approx(reached, abs=1e-12)
    assert reached >= 0.85
    free = quick().fit(X, y)
    assert least_ratio(free.predict(X), group, STRATA[factor](X)) < 0.85
    shown = {each.grouping for each in clf.result_.groups}
    assert shown == {"sensitive_feature", f"sensitive_feature within {factor}"}


def test_the_measure_is_that_of_fairlearn_with_control_features():
    X, y, group = rows()
    clf = quick("demographic_parity <= 0.1 within grade").fit(X, y, sensitive_features=group)
    decided = clf.predict(X)
    frame = MetricFrame(
        metrics=selection_rate, y_true=y, y_pred=decided, sensitive_features=group, control_features=X["grade"]
    )
    assert clf.result_.limits[0].reached == pytest.approx(frame.difference().max(), abs=1e-12)


def test_a_limit_within_strata_and_one_across_them_stand_side_by_side():
    X, y, group = rows()
    limits = ["disparate_impact >= 0.8 within grade", "disparate_impact >= 0.7"]
    limits.append("selection_rate[b] >= 0.2 within grade")
    clf = quick(limits).fit(X, y, sensitive_features=group)
    decided, grade = clf.predict(X), X["grade"].to_numpy()
    assert clf.result_.kept
    across = least_ratio(decided, group, np.zeros(len(y)))
    assert clf.result_.limits[1].reached == pytest.approx(across, abs=1e-12)
    least = min(decided[(group == "b") & (grade == each)].mean() for each in ("high", "low"))
    assert clf.result_.limits[2].reached == pytest.approx(least, abs=1e-12)


def test_a_reference_group_is_that_of_each_stratum():
    X, y, group = rows()
    group = np.where(np.random.default_rng(1).random(len(y)) < 0.3, "c", group)
    limit = "demographic_parity <= 0.1 against a within grade"
    clf = quick(limit).fit(X, y, sensitive_features=group)
    decided, grade = clf.predict(X), X["grade"].to_numpy()
    rate = {(g, s): decided[(group == g) & (grade == s)].mean() for g in "abc" for s in ("high", "low")}
    largest = max(abs(rate[g, s] - rate["a", s]) for g in "bc" for s in ("high", "low"))
    assert clf.result_.limits[0].reached == pytest.approx(largest, abs=1e-12)
    assert str(parse_constraint(limit)) == limit


def test_certificate_and_audit_show_the_strata():
    X, y, group = rows()
    limit = "disparate_impact >= 0.6 within grade"
    clf = quick(limit).fit(X, y, sensitive_features=group)
    others, labels, groups = rows(6000, seed=3)
    decided, grade = clf.predict(others), others["grade"].to_numpy()
    given = {"sex": groups, "within grade": grade}
    certificate = certify(labels, decided, given, limit)
    assert certificate.limits[0].value == pytest.approx(least_ratio(decided, groups, grade), abs=1e-12)
    assert {each.group for each in certificate.rates} == {(g, s) for g in "ab" for s in ("high", "low")}
    assert len(certificate.limits[0].requirements) == 4  # two strata, both orders
    found = audit(labels, decided, given)
    by_grouping = {each.grouping: each.value for each in found.measures if each.measure == "demographic_parity"}
    differences = [np.ptp([decided[(groups == g) & (grade == s)].mean() for g in "ab"]) for s in ("high", "low")]
    assert by_grouping["sex within grade"] == pytest.approx(max(differences), abs=1e-12)
    assert by_grouping["sex"] == pytest.approx(np.ptp([decided[groups == g].mean() for g in "ab"]), abs=1e-12)
    with pytest.raises(ValueError, match="no column 'within grade' beside their groups"):
        certify(labels, decided, groups, limit)


def test_small_strata_follow_the_rules_of_small_groups():
    X, y, group = rows()
    few = np.flatnonzero((group == "b") & (X["grade"] == "low"))[:4]
    X.loc[few, "grade"] = "rare"
    X.loc[np.flatnonzero((group == "a") & (X["grade"] == "low"))[:40], "grade"] = "rare"
    with pytest.raises(InputError, match=r"fewer than .*min_size=10.* rows: .*b.*rare.* \(4\)"):
        quick("disparate_impact >= 0.8 within grade").fit(X, y, sensitive_features=group)
    for policy in ("warn", "merge"):
        clf = quick("disparate_impact >= 0.8 within grade", groups=Groups(small=policy))
        with pytest.warns(SmallGroupWarning, match="rare"):
            clf.fit(X, y, sensitive_features=group)
        counted = X["grade"].to_numpy() != "rare"
        reached = least_ratio(clf.predict(X)[counted], group[counted], X["grade"].to_numpy()[counted])
        assert clf.result_.limits[0].reached == pytest.approx(reached, abs=1e-12)


def test_forecast_and_folder(tmp_path):
    X, y, group = rows()
    clf = ConstrainedClassifier("demographic_parity <= 0.15 within grade").fit(X, y, sensitive_features=group)
    assert clf.result_.forecast.limits[0].limit == "demographic_parity <= 0.15 within grade"
    clf.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.constraints == [DemographicParity(0.15, within="grade")]
    assert (again.predict(X) == clf.predict(X)).all()


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("disparate_impact >= 0.8 within grad", "names the column 'grad', which X does not have.*Did you mean 'grade'"),
        ("disparate_impact >= 0.8 within age(x)", r"the cuts of bands, as in age\(30, 50\)"),
        ("disparate_impact >= 0.8 against overall within grade", "comparisons with everyone have no strata"),
        ("covariance <= 0.1 within grade", "covariances"),
    ],
)
def test_what_has_no_strata_is_refused(limit, said):
    X, y, group = rows(300)
    with pytest.raises(ValueError, match=said):
        quick(limit).fit(X, y, sensitive_features=group)


@pytest.mark.parametrize(
    "text",
    [
        "disparate_impact(sex) >= 0.8 within grade",
        "0.1 <= selection_rate[a] <= 0.4 within age(30, 50), grade",
        "equal_opportunity <= 0.1 against white male within grade for class high",
        'demographic_parity <= 0.1 against "sold within a year"',
    ],
)
def test_texts_are_read_as_they_are_written(text):
    assert str(parse_constraint(text)) == text
    assert parse_constraint(str(parse_constraint(text))) == parse_constraint(text)


def test_names_that_are_those_of_strata_are_no_groups_in_silence():
    X, y, group = rows(600)
    for name in ("within reach", "from abroad"):
        with pytest.raises(ValueError, match=f"column '{name}' of groups .*no limit names it. Give it another name"):
            quick("disparate_impact >= 0.8").fit(X, y, sensitive_features={"group": group, name: y})
    with pytest.raises(ValueError, match=r"column 'from abroad' of groups .*an audit does not compare"):
        audit(y, y, {"group": group, "from abroad": y})
