"""`explain`: contributions add up to the decision score, and changes turn decisions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from tests.estimator.helpers import quick

from fairbound import Base

rng = np.random.default_rng(0)
N = 600
GROUP = rng.integers(0, 2, N)
X = pd.DataFrame({"income": rng.normal(size=N) + GROUP, "town": rng.choice(["A", "B", "C"], N)})
X["age"] = rng.normal(size=N)
X.loc[::50, "age"] = np.nan
Y = np.where(X["income"] + (X["town"] == "A") + rng.normal(size=N) > 1.0, "yes", "no")
THREE = np.where(X["income"] + rng.normal(size=N) > 2.0, "maybe", Y)


def lightgbm():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=10, n_jobs=1)


def boosted():
    pytest.importorskip("shap")
    return HistGradientBoostingClassifier(max_iter=10)


@pytest.mark.filterwarnings("ignore:The group .* too few to estimate it well")
@pytest.mark.parametrize(
    ("base", "y", "columns"),
    [
        (lambda: None, Y, ()),
        (LogisticRegression, Y, ()),
        (LogisticRegression, THREE, ()),
        (RidgeClassifier, Y, ()),
        (lightgbm, Y, ()),
        (lightgbm, THREE, ()),
        (xgboost, Y, ()),
        (xgboost, THREE, ()),
        (lambda: xgboost().set_params(enable_categorical=True), Y, ()),
        (lambda: Base(LogisticRegression(), cv=3, ensemble=True), Y, ()),
        (lambda: Base(LogisticRegression(), correction="both"), Y, ("P(sensitive_feature=1)", "P(yes)")),
    ],
)
def test_contributions_add_up_to_the_decision_score(base, y, columns):
    clf = quick("demographic_parity <= 0.3", base=base(), pos_label="no" if y is Y else None)
    rows = X.astype({"town": "category"}) if getattr(clf.base, "enable_categorical", False) else X
    clf.fit(rows, y, sensitive_features=GROUP)
    columns = tuple("P(no)" if each == "P(yes)" else each for each in columns)
    found = clf.explain(rows)
    assert found.columns == ("income", "town", "age", *columns)
    assert found.constant + found.contributions.sum(axis=1) == pytest.approx(clf.decision_function(rows), abs=1e-9)
    assert str(found).splitlines()[2].split()[0] in found.columns
    if not columns:
        # The constant is the same for every row: nothing is hidden in it.
        assert np.ptp(found.constant, axis=0) == pytest.approx(0.0, abs=1e-6)
    if y is Y:
        poorest, richest = X["income"].argmin(), X["income"].argmax()
        assert found.contributions[poorest, 0] < found.contributions[richest, 0]
        assert "income" in [name for name, _ in found.largest(int(richest), 2)]


def test_scores_from_elsewhere_are_a_column_of_their_own():
    scores = LogisticRegression().fit(X[["income"]], Y).decision_function(X[["income"]])
    clf = quick("demographic_parity <= 0.3", pos_label="yes").fit(X, Y, sensitive_features=GROUP, base_score=scores)
    found = clf.explain(X, base_score=scores)
    assert found.columns == ("income", "town", "age", "base score")
    assert np.ptp(found.constant) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("kind", ["pandas", "array"])
def test_the_cheapest_change_turns_the_decision(kind):
    rows = X if kind == "pandas" else X[["income", "age"]].to_numpy()
    clf = quick("demographic_parity <= 0.3", base=LogisticRegression(), pos_label="yes").fit(
        rows, Y, sensitive_features=GROUP
    )
    changeable = ["income", "town"] if kind == "pandas" else [0]
    rows = rows[:50]  # each of their values is tried
    before, changes = clf.predict(rows), clf.explain(rows, changeable=changeable).changes
    assert sum(each is not None for each in changes) > 40
    for row, change in enumerate(changes):
        if change is None:
            continue

        def decided(value, row=row, change=change):
            new = rows[row : row + 1].copy()
            if kind == "pandas":
                new[change.column] = value
            else:
                new[:, change.column] = value
            return clf.predict(new)[0]

        assert decided(change.value) != before[row]
        if change.column != "town":
            far = abs(change.value - change.instead_of)
            nearer = [each for each in X["income"][:50] if abs(each - change.instead_of) < far]
            assert all(decided(each) == before[row] for each in nearer[-3:])
    assert {each.column for each in changes if each is not None} == set(changeable)


def test_boosted_trees_of_numbers_are_divided_by_shap():
    numbers = X[["income", "age"]]
    clf = quick("demographic_parity <= 0.3", base=boosted(), pos_label="yes").fit(numbers, Y, sensitive_features=GROUP)
    found = clf.explain(numbers)
    assert np.ptp(found.constant) == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ValueError, match="has no additive values"):  # shap reads categories as numbers
        quick("demographic_parity <= 0.3", base=boosted(), pos_label="yes").fit(X, Y, sensitive_features=GROUP).explain(
            X
        )


def test_what_cannot_be_explained():
    clf = quick("demographic_parity <= 0.3", base=RandomForestClassifier(5, random_state=0), pos_label="yes")
    with pytest.raises(
        ValueError, match=r"RandomForestClassifier .* has no additive values.*shap.Explainer\(clf.decision_function"
    ):
        clf.fit(X, Y, sensitive_features=GROUP).explain(X)
    with pytest.raises(AttributeError, match=r"A network is no sum over columns; shap\.Explainer"):
        quick(pos_label="yes", hidden=(2,)).fit(X, Y).explain(X)
    with pytest.raises(ValueError, match=r"changeable= .*'incom'.*Did you mean 'income'"):
        quick(pos_label="yes").fit(X, Y).explain(X, changeable=["incom"])
    with pytest.raises(ValueError, match="changeable= needs a table or an array, but X is a list"):
        quick().fit(X[["income"]].to_numpy(), Y == "yes").explain([[0.0], [1.0]], changeable=[0])


def test_no_change_makes_a_value_missing_and_a_number_stands_for_its_column():
    table = X.assign(town=np.where(np.arange(N) % 3, X["town"], None))
    clf = quick(pos_label="yes").fit(table, Y)
    by_name, by_number = (clf.explain(table[:60], changeable=each).changes for each in (["income", "town"], [0, 1]))
    assert any(each is not None and each.column == "town" for each in by_name)
    assert all(each is None or each.value is not None for each in by_name)
    assert [each and each.cost for each in by_number] == [each and each.cost for each in by_name]
