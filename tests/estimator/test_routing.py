"""Groups and weights travel through pipelines, searches and cross-validation; scorers for every measure."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import quick, toy

from fairbound import ConstrainedClassifier, audit, make_fairness_scorer
from fairbound.fairness import MEASURES


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def model():
    X, y, group = toy(600)
    return quick("disparate_impact >= 0.7").fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if measure.comparison != "value"])
def test_a_scorer_for_every_measure(name, model):
    X, y, group = toy(300, seed=1)
    score = make_fairness_scorer(name)(model, X, y, sensitive_features=group)
    value = audit(y, model.predict(X), group).measure(name).value
    assert score == (value if MEASURES[name].larger_is_stricter else -value)


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if measure.comparison == "value"])
def test_a_scorer_for_every_rate(name, model):
    X, y, group = toy(300, seed=1)
    rates = [audit(y, model.predict(X), group).group(each).rate(name).value for each in "ab"]
    expected = -max(rates) if name in ("false_positive_rate", "false_negative_rate") else min(rates)
    assert make_fairness_scorer(name)(model, X, y, sensitive_features=group) == expected
    alone = make_fairness_scorer(name, group="b")(model, X, y, sensitive_features=group)
    assert abs(alone) == rates[1]


def test_scorers_of_other_classifiers_weights_and_references():
    X, y, group = toy()
    peer = LogisticRegression().fit(X, y)
    weights = np.random.default_rng(0).uniform(size=len(y))
    scorer = make_fairness_scorer("demographic_parity", against="overall")
    score = scorer(peer, X, y, sensitive_features=group, sample_weight=weights)
    assert -0.5 < score < 0
    found = audit(y, peer.predict(X), group, sample_weight=weights)
    assert make_fairness_scorer("demographic_parity")(
        peer, X, y, sensitive_features=group, sample_weight=weights
    ) == pytest.approx(-found.measure("demographic_parity").value, abs=1e-15)
    reference = make_fairness_scorer("disparate_impact", reference="a")(peer, X, y, sensitive_features=group)
    assert reference == found.measure("disparate_impact").value or reference > 0


def test_the_positive_class_is_that_of_the_estimator():
    X, y, group = toy()
    clf = quick("disparate_impact >= 0.9", pos_label=0).fit(X, y, sensitive_features=group)
    assert make_fairness_scorer("disparate_impact")(clf, X, y, sensitive_features=group) >= 0.9
    other = make_fairness_scorer("disparate_impact", pos_label=1)(clf, X, y, sensitive_features=group)
    assert other == audit(y, clf.predict(X), group, pos_label=1).measure("disparate_impact").value


def test_rows_that_do_not_define_a_measure_score_nan(model):
    X, y, group = toy()
    none = y == 0
    score = make_fairness_scorer("equal_opportunity")(model, X[none], y[none], sensitive_features=group[none])
    assert math.isnan(score)
    one = make_fairness_scorer("demographic_parity")(model, X, y, sensitive_features=np.full(len(y), "a"))
    assert math.isnan(one)


def test_scorers_are_checked_when_they_are_made_and_called(model):
    X, y, _ = toy()
    with pytest.raises(ValueError, match=r"measure 'disparate_impct'.*'disparate_impact'"):
        make_fairness_scorer("disparate_impct")
    with pytest.raises(ValueError, match=r"needs groups.*sensitive_features="):
        make_fairness_scorer("disparate_impact")(model, X, y)


def test_scorers_take_columns_of_x():
    X, y, group = toy()
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(sex=group)
    clf = quick("demographic_parity <= 0.5", sensitive_columns="sex")
    scorer = make_fairness_scorer("disparate_impact", sensitive_columns="sex")
    scores = cross_val_score(clf, frame, y, scoring=scorer, cv=3, error_score="raise")  # without any routing
    for (train, test), score in zip(StratifiedKFold(3).split(X, y), scores, strict=True):
        decided = clone(clf).fit(frame.iloc[train], y[train]).predict(frame.iloc[test])
        assert score == audit(y[test], decided, group[test]).measure("disparate_impact").value
    with pytest.raises(ValueError, match="sensitive_columns= names the column 'sexx'"):
        make_fairness_scorer("disparate_impact", sensitive_columns="sexx")(clf.fit(frame, y), frame, y)


def test_several_classes_and_one_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    group = rng.choice(["f", "m"], 300)
    constant = DummyClassifier(strategy="constant", constant="b").fit(X, y)
    scorer = make_fairness_scorer("demographic_parity", classes=["b"])
    assert scorer(constant, X, y, sensitive_features=group) == 0.0
    assert scorer(constant, X[:5], y[:5], sensitive_features=["f", "m", "f", "m", "f"]) == 0.0  # not all labels occur


@pytest.mark.slow
def test_groups_travel_through_a_pipeline_and_a_cross_validation(routing):
    X, y, group = toy(600)
    pipeline = make_pipeline(StandardScaler(), quick("disparate_impact >= 0.8"))
    pipeline.fit(X, y, sensitive_features=group)
    assert pipeline[-1].result_.kept
    found = cross_validate(
        pipeline,
        X,
        y,
        params={"sensitive_features": group},
        scoring={"accuracy": "accuracy", "ratio": make_fairness_scorer("disparate_impact")},
        cv=3,
        return_estimator=True,
        error_score="raise",
    )
    for (train, test), fitted, ratio in zip(
        StratifiedKFold(3).split(X, y), found["estimator"], found["test_ratio"], strict=True
    ):
        assert ratio == audit(y[test], fitted.predict(X[test]), group[test]).measure("disparate_impact").value
        reached = audit(y[train], fitted.predict(X[train]), group[train]).measure("disparate_impact").value
        assert fitted[-1].result_.limits[0].reached == reached >= 0.8


@pytest.mark.slow
def test_a_search_selects_on_a_measure(routing):
    X, y, group = toy(600)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick("disparate_impact >= 0.5")),
        {"constrainedclassifier__constraints__disparate_impact__bound": [0.5, 0.95]},
        scoring=make_fairness_scorer("disparate_impact"),
        cv=2,
        error_score="raise",
    )
    search.fit(X, y, sensitive_features=group)
    assert search.best_params_ == {"constrainedclassifier__constraints__disparate_impact__bound": 0.95}
    assert search.best_estimator_[-1].result_.limits[0].reached >= 0.95


@pytest.mark.slow
def test_weights_travel_when_they_are_asked_for(routing):
    X, y, group = toy()
    weights = np.where(y == 1, 3.0, 1.0)
    clf = ConstrainedClassifier("disparate_impact >= 0.8").set_fit_request(sample_weight=True)
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clf)
    pipeline.fit(X, y, sensitive_features=group, sample_weight=weights)
    scaled = StandardScaler().fit_transform(X)
    direct = clone(clf).fit(scaled, y, sensitive_features=group, sample_weight=weights)
    assert (pipeline.predict_proba(X) == direct.predict_proba(scaled)).all()
    unset = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), ConstrainedClassifier())
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match=r"sample_weight.* ConstrainedClassifier.fit"):
        unset.fit(X, y, sample_weight=weights)


def test_a_dictionary_is_not_cut_into_folds():
    X, y, group = toy(60)
    search = GridSearchCV(quick("disparate_impact >= 0.1"), {"hidden": [()]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match=r"has 60 rows in 'sex', but there are 30 rows: .* give it a DataFrame"):
        search.fit(X, y, sensitive_features={"sex": group})
    search.fit(X, y, sensitive_features=pd.DataFrame({"sex": group}))


def test_groups_can_be_refused(routing):
    X, y, group = toy()
    clf = ConstrainedClassifier("disparate_impact >= 0.8").set_fit_request(sensitive_features=False)
    with pytest.raises((TypeError, ValueError), match="sensitive_features"):
        cross_validate(clf, X, y, params={"sensitive_features": group}, error_score="raise")


def test_without_routing_fit_parameters_are_split_by_fold():
    X, y, group = toy(600)
    search = GridSearchCV(quick("disparate_impact >= 0.5"), {"loss__l2": [1e-5, 1e-2]}, cv=2, error_score="raise")
    search.fit(X, y, sensitive_features=group)
    assert search.best_estimator_.result_.kept
