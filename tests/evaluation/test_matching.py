"""Matching of decisions with labels: by value, or with an error that shows both sets of values."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from tests.refusals import refused

from fairbound import audit, certify, make_fairness_scorer
from fairbound.evaluation.matching import canonical, match_decisions, match_positive

GROUPS = ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("y", "prediction"),
    [
        ([0, 1, 1, 0], [0.0, 1.0, 1.0, 1.0]),
        ([0, 1, 1, 0], [False, True, True, True]),
        ([0, 1, 1, 0], ["0", "1", "1", "1"]),
        ([0, 1, 1, 0], ["False", "True", "True", "True"]),
        (["0", "1", "1", "0"], [0, 1, 1, 1]),
        ([False, True, True, False], ["false", "true", "true", "true"]),
        ([-1, 1, 1, -1], ["-1", "1", "1.0", "1"]),
        (["no", "yes", "yes", "no"], np.array(["no", "yes", "yes", "yes"], dtype=object)),
        ([0, 1, 1, 0], pd.array([0, 1, 1, 1], dtype="Int64")),
        ([0, 1, 1, 0], pd.Series(["0", "1", "1", "1"], dtype="category")),
    ],
)
def test_values_that_stand_for_the_same_are_the_same(y, prediction):
    found = audit(y, prediction, GROUPS)
    assert [group.rate("selection_rate").value for group in found.groups] == [0.5, 1.0, 0.75]
    assert [group.rate("accuracy").value for group in found.groups] == [1.0, 0.5, 0.75]


@pytest.mark.parametrize(
    ("y", "constant"), [([0, 1, 1, 0], 1), ([0, 1, 1, 0], 0), (["a", "b", "c", "a"], "c"), ([-1, 1, 1, -1], "1")]
)
def test_a_constant_decision_is_some_of_the_labels(y, constant):
    rates = audit(y, [constant] * 4, GROUPS).groups[0].rates
    chosen = [rate["selection_rate"].value for label, rate in rates.items()]
    assert sorted(chosen) in ([1.0], [0.0], [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("y", "prediction", "shown"),
    [
        ([-1, 1, 1, -1], [0, 1, 1, 0], ("contains 0,", "y has the values -1, 1", "prediction has the values 0, 1")),
        ([1, 2, 2, 1], [0, 1, 1, 0], ("y has the values 1, 2", "prediction has the values 0, 1")),
        (["bad", "good"] * 2, [0, 1, 1, 0], ("'bad', 'good'", "0, 1", "counts as 'good' with positive_decision=")),
        (["Yes", "No", "Yes", "No"], ["Yes", "yes", "No", "No"], ("contains 'yes'", "'No', 'Yes'")),
        ([0, 1, 1, 0], ["01", "1", "1", "0"], ("contains '01'", "'0', '01', '1'")),
        ([0, 1, 2, 0], [0, 1, 3, 0], ("contains 3", "0, 1, 2", "0, 1, 3", "in the labels of y.")),
        ([0, 1, 1, 0], [0.2, 0.9, 0.4, 0.1], ("not scores or probabilities",)),
        (["1", "1.0", "1", "1.0"], [1, 1, 1, 1], ("contains 1", "'1', '1.0'")),
        ([0, 1, 1, 0], [0, None, 1, 0], ("contains None in row 2",)),
        ([0, 1, 1, 0], [0, 1, math.nan, 0], ("contains nan in row 3",)),
        ([0, 1, 1, 0], pd.array([0, None, 1, 1], dtype="Int64"), ("in row 2",)),
        ([0, 1, 1, 0], np.array([[0], [[1]], 1, 0], dtype=object), ("in row 1", "one value per row")),
        ([0, 1, 1, 0], [10**400, 1, 1, 0], ("contains 1000",)),
        ([0, 1, 1, 0], [0, 1, 1], ("one label per row", "(4,)", "(3,)")),
        ([0, 1, 1, 0], [[0, 1]] * 4, ("must have one label per row", "shape (4, 2)")),
    ],
)
@pytest.mark.parametrize("function", [audit, partial(certify, limits="disparate_impact >= 0.8")])
def test_what_does_not_match_is_refused_with_both_sets_of_values(function, y, prediction, shown):
    with pytest.raises(ValueError, match="prediction") as refused:
        function(y, prediction, GROUPS)
    assert all(words in str(refused.value) for words in shown), str(refused.value)


def test_the_positive_decision_may_have_a_value_of_its_own():
    y = ["bad", "good", "good", "bad"]
    for decisions, positive in (([0, 1, 1, 1], "1"), (["refuse", "grant", "grant", "grant"], "grant")):
        found = audit(y, decisions, GROUPS, positive_decision=positive)
        assert [group.rate("selection_rate").value for group in found.groups] == [0.5, 1.0, 0.75]
        kept = certify(y, decisions, GROUPS, "selection_rate >= 0.01", positive_decision=positive)
        assert [rate.value for rate in kept.rates] == [0.5, 1.0]
    turned = audit([0, 1, 1, 0], [1, 0, 0, 0], GROUPS, positive_decision=0)  # 1 stands for a refusal
    assert turned.group("b").rate("selection_rate").value == 1.0


def test_a_constant_decision_may_be_the_other_one():
    y = ["bad", "good", "good", "bad"]
    assert audit(y, [0] * 4, GROUPS, positive_decision=1).groups[-1].rate("selection_rate").value == 0.0
    assert audit(y, ["bad"] * 4, GROUPS, positive_decision="good").groups[-1].rate("selection_rate").value == 0.0
    with refused("never 2 (positive_decision=)"):
        audit(y, [0] * 4, GROUPS, positive_decision=2)
    with refused("never 1 (positive_decision=)"):
        audit(y, ["grant"] * 4, GROUPS, positive_decision=1)
    with refused("never 'grnat' (positive_decision=)", "'grant'"):
        audit(y, ["grant"] * 4, GROUPS, positive_decision="grnat")


@pytest.mark.parametrize(
    ("y", "prediction", "positive_decision", "words"),
    [
        (["bad", "good"] * 2, [0, 1, 2, 0], 1, ["positive_decision=1", "two values", "prediction has 0, 1, 2"]),
        (["bad", "good"] * 2, [0, 1, 1, 0], 2, ["never 2"]),
        (["bad", "good"] * 2, ["Yes", "yes"] * 2, "yes", ["'Yes', 'yes'", "case or blanks"]),
        (["a", "b", "c", "a"], [0, 1, 1, 0], 1, ["positive_decision=1", "two labels", "y has 3: 'a', 'b', 'c'"]),
    ],
)
def test_a_positive_decision_that_leaves_doubts_is_refused(y, prediction, positive_decision, words):
    with refused(*words):
        audit(y, prediction, GROUPS, positive_decision=positive_decision)


def test_one_label_against_all_others():
    labels = ["bad", "fair", "good"]
    assert match_positive(["good", "bad", "good"], labels, ["good"], 3).tolist() == [True, False, True]
    assert match_positive([0, 1, 1], labels, ["good"], 3, positive_decision="1").tolist() == [False, True, True]
    with refused("'bad', 'fair', 'good'", "prediction has the values 0, 1.", "positive_decision="):
        match_positive([0, 1, 1], labels, ["good"], 3)
    # 0 and 1 are labels, too, but hardly meant as such.
    with refused("never 2", "y has the values 0, 1, 2", "prediction has the values 0, 1."):
        match_positive([0, 1, 1], [0, 1, 2], [2], 3)


def test_the_estimator_of_a_scorer_must_decide_in_its_labels():
    scorer = make_fairness_scorer("selection_rate")
    constant = DummyClassifier(strategy="constant", constant="yes").fit([[0], [0]], ["no", "yes"])
    assert scorer(constant, [[0]] * 4, ["no", "yes"] * 2, sensitive_features=GROUPS) == 1.0
    constant.predict = lambda X: np.array([1] * len(X))
    with refused("its prediction contains 1", "not a label of the estimator"):
        scorer(constant, [[0]] * 4, ["no", "yes"] * 2, sensitive_features=GROUPS)


@given(st.lists(st.sampled_from([0, 1, 1.0, True, "1", "yes", "Yes", None, "0"]), min_size=1, max_size=6))
def test_a_decision_is_matched_with_its_own_label_or_refused(values):
    try:
        places = match_decisions(values, ("0", "1"), len(values))
    except ValueError:
        assert {*map(canonical, values)} - {0, 1}
    else:
        assert places.tolist() == [canonical(value) for value in values]
