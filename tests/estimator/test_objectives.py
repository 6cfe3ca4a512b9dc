"""What is best under the limits: costs, balanced accuracy, profit; each against its own computation from decisions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.estimator.helpers import quick

from fairbound import ConstrainedClassifier, Loss, load
from fairbound.sqp import Status


def rows(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return inputs with a column of gains, labels and groups."""
    draw = np.random.default_rng(seed)
    group = draw.choice(["a", "b"], n)
    x = draw.normal(size=(n, 3)) + 0.7 * (group == "a")[:, None]
    y = (x[:, 0] + 0.5 * x[:, 1] + draw.normal(size=n) > 0.8).astype(int)
    gain = np.where(y == 1, 20.0, -30.0) + 10.0 * draw.normal(size=n)
    return pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "gain": gain}), y, group


def value(objective: str, y: np.ndarray, decided: np.ndarray, gain: np.ndarray, weight: np.ndarray) -> float:
    """Return the value of decisions, computed from the definition."""
    if objective.startswith("cost"):
        return float(np.average(np.where(decided > y, 1.0, np.where(decided < y, 5.0, 0.0)), weights=weight))
    if objective == "balanced_accuracy":
        return float(np.mean([np.average(decided[y == k] == k, weights=weight[y == k]) for k in (0, 1)]))
    return float(np.average(gain * decided, weights=weight))


OBJECTIVES = ["cost(false_positive=1, false_negative=5)", "balanced_accuracy", "profit(gain)"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_value_constant_and_gain_are_those_of_the_decisions(objective, weighted):
    X, y, group = rows()
    weight = np.random.default_rng(3).uniform(0.5, 3.0, len(y)) if weighted else np.ones(len(y))
    clf = quick("disparate_impact >= 0.8", objective=objective)
    clf.fit(X, y, sensitive_features=group, sample_weight=weight if weighted else None)
    gain, decided, sign = X["gain"].to_numpy(), clf.predict(X), -1.0 if objective.startswith("cost") else 1.0
    found = clf.result_.reached
    constants = [value(objective, y, np.full(len(y), k), gain, weight) for k in (0, 1)]
    assert found.value == pytest.approx(value(objective, y, decided, gain, weight), rel=1e-9)
    assert found.constant == pytest.approx(max(constants, key=lambda each: sign * each), rel=1e-9, abs=1e-12)
    assert found.gain == pytest.approx(sign * (found.value - found.constant), rel=1e-9)
    assert clf.result_.accuracy == pytest.approx(np.average(decided == y, weights=weight), rel=1e-12)
    assert clf.result_.kept
    assert found.name in str(clf.result_)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_is_better_on_new_rows_than_a_fit_for_accuracy(objective):
    X, y, group = rows(3000, seed=1)
    others = rows(3000, seed=2)
    reached = []
    for stated in ("accuracy", objective):
        named = stated == "profit(gain)"
        here, there = (each if named else each.drop(columns="gain") for each in (X, others[0]))
        clf = quick("disparate_impact >= 0.8", objective=stated).fit(here, y, sensitive_features=group)
        decided = clf.predict(there)
        reached.append(value(objective, others[1], decided, others[0]["gain"].to_numpy(), np.ones(len(y))))
    better = reached[1] < reached[0] if objective.startswith("cost") else reached[1] > reached[0]
    assert better


def test_a_model_that_minimises_cost_is_judged_by_cost():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(2000, 2))
    y = (x[:, 0] + 1.5 * draw.normal(size=2000) > 2.2).astype(int)  # few positives, hard to tell
    group = draw.choice(["a", "b"], 2000)
    clf = quick("disparate_impact >= 0.8", objective="cost(false_positive=1, false_negative=20)")
    result = clf.fit(x, y, sensitive_features=group).result_
    assert result.accuracy < result.constant_accuracy
    assert result.status is not Status.DEGENERATE
    assert result.reached.gain > 0


def test_gains_as_an_array_are_those_of_columns():
    X, y, group = rows()
    both = np.column_stack([X["gain"], np.where(y == 1, -5.0, 2.0)])
    by_array = quick("disparate_impact >= 0.8", objective=both)
    by_array.fit(X.drop(columns="gain"), y, sensitive_features=group)
    named = X.assign(refused=both[:, 1])
    by_column = quick("disparate_impact >= 0.8", objective="profit(gain, refused)")
    by_column.fit(named, y, sensitive_features=group)
    decided = by_column.predict(named)
    assert (by_array.predict(X.drop(columns="gain")) == decided).all()
    assert by_column.result_.reached.value == pytest.approx(np.where(decided == 1, both[:, 0], both[:, 1]).mean())
    assert by_column.encoded_names_ == ["x0", "x1", "x2"]


def test_classes_have_equal_stakes_in_balanced_accuracy():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(900, 3))
    y = np.array(["low", "mid", "high"])[
        (x[:, 0] + 0.5 * draw.normal(size=900) > 0.8).astype(int) + (x[:, 1] + 0.5 * draw.normal(size=900) > 1.4)
    ]
    clf = quick((), objective="balanced_accuracy").fit(x, y)
    mean_recall = np.mean([(clf.predict(x)[y == k] == k).mean() for k in np.unique(y)])
    assert clf.result_.reached.value == pytest.approx(mean_recall, rel=1e-9)
    with pytest.raises(ValueError, match="needs two classes, but there are 3"):
        quick((), objective="cost(false_positive=1, false_negative=5)").fit(x, y)


def test_an_objective_is_saved(tmp_path):
    X, y, group = rows()
    clf = quick("disparate_impact >= 0.8", objective="profit(gain)").fit(X, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.objective == "profit(gain)"
    assert again.result_.reached == clf.result_.reached
    assert (again.predict(X) == clf.predict(X)).all()
    quick("disparate_impact >= 0.8", objective=X["gain"].to_numpy()).fit(X, y, sensitive_features=group).save(
        tmp_path / "of_array"
    )
    assert load(tmp_path / "of_array").objective == "profit"


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("cst(1)", "objective='cst.1.' must be accuracy, loss"),
        ("acuracy", "Did you mean 'accuracy'"),
        ("cost(1, 5)", "with two numbers above 0"),
        ("cost(false_positive=0, false_negative=1)", "with two numbers above 0"),
        ("cost(false_positive=1, false_negative=2, other=3)", "with two numbers above 0"),
        ("profit", r"must be profit\(column\)"),
        ("profit(gian)", "names the column 'gian', which X does not have. Did you mean 'gain'"),
        ("accuracy(1)", "objective='accuracy.1.' must be accuracy"),
        (3, "objective=3 must be"),
        (np.zeros(5), "has gains of shape"),
        (np.zeros(600), "no decision gains anything"),
        (np.full(600, np.nan), "no finite gain for row 0"),
    ],
    ids=str,
)
def test_what_is_no_objective_is_refused(stated, said):
    X, y, group = rows()
    with pytest.raises(ValueError, match=said):
        ConstrainedClassifier("disparate_impact >= 0.8", objective=stated).fit(X, y, sensitive_features=group)


def test_two_statements_about_the_weight_of_an_error_are_refused():
    X, y, _ = rows()
    with pytest.raises(ValueError, match="each says what an error weighs"):
        quick((), objective="balanced_accuracy", loss=Loss(class_weight="balanced")).fit(X, y)


@pytest.mark.parametrize(
    "how", [{"objective": "cost(false_positive=1, false_negative=20)"}, {"loss": Loss(class_weight={1: 20.0})}]
)
def test_early_stopping_judges_by_what_validation_rows_have_at_stake(how):
    """By its loss without stakes, the best model on them is the one before the first step, which selects nobody."""
    X, y, _ = rows(900)
    X, others = X.drop(columns="gain"), (rows(900, seed=1)[0].drop(columns="gain"), rows(900, seed=1)[1])
    shares = []
    for early in (False, True):
        clf = quick((), training__early_stopping=early, **how).fit(X, y, eval_set=others)
        shares.append(clf.predict(X).mean())
    assert shares == pytest.approx([0.87, 0.87], abs=0.03)


def test_early_stopping_takes_gains_from_columns():
    X, y, _ = rows()
    others = rows(seed=1)
    clf = quick((), objective="profit(gain)", training__early_stopping=True).fit(X, y, eval_set=others[:2])
    assert clf.result_.reached.gain > 1.0
    with pytest.raises(ValueError, match=r"early_stopping=True.*the gains of validation rows.*profit\(gain\)"):
        quick((), objective=X["gain"], training__early_stopping=True).fit(X, y, eval_set=others[:2])
