"""Parameters: names for those of the limits, clones, pickles, searches over a bound."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import quick, toy

from fairbound import ConstrainedClassifier, Constraint, DemographicParity, DisparateImpact, Loss, Measure
from fairbound.fairness.rates import false_positive_rate, true_positive_rate


def informedness(groups):
    return true_positive_rate(groups) - false_positive_rate(groups)


def test_every_parameter_of_a_limit_has_a_name():
    clf = ConstrainedClassifier(
        [DisparateImpact(0.8), "demographic_parity <= 0.1 against overall", DisparateImpact(0.5)]
    )
    params = clf.get_params()
    assert params["constraints__disparate_impact__bound"] == 0.8
    assert params["constraints__disparate_impact_2__bound"] == 0.5
    assert params["constraints__demographic_parity__against"] == "overall"
    assert params["constraints__demographic_parity"] == DemographicParity(0.1, against="overall")
    assert not any("__" in name for name in clf.get_params(deep=False))
    assert len(clf.get_params(deep=False)) == 16


@pytest.mark.parametrize("constraints", ["disparate_impact >= 0.8", DisparateImpact(0.8), [DisparateImpact(0.8)]])
def test_a_bound_can_be_set(constraints):
    clf = ConstrainedClassifier(constraints)
    assert clf.set_params(constraints__disparate_impact__bound=0.9) is clf
    assert list(clf.constraints) == [DisparateImpact(0.9)]
    clf.set_params(
        constraints__disparate_impact__bound=0.7, constraints__disparate_impact__margin="logit", loss__l2=0.1
    )
    assert clf.constraints == [DisparateImpact(0.7, margin="logit")]
    assert clf.loss == Loss(l2=0.1)
    assert constraints in ("disparate_impact >= 0.8", DisparateImpact(0.8), [DisparateImpact(0.8)])  # not changed


def test_a_whole_limit_can_be_replaced():
    clf = ConstrainedClassifier([DisparateImpact(0.8), DemographicParity(0.1)])
    clf.set_params(constraints__disparate_impact=DemographicParity(0.2))
    assert clf.constraints == [DemographicParity(0.2), DemographicParity(0.1)]
    clf.set_params(constraints=[DisparateImpact(0.8)], constraints__disparate_impact__bound=0.95)
    assert clf.constraints == [DisparateImpact(0.95)]


def test_unknown_names_offer_the_nearest():
    clf = ConstrainedClassifier(DisparateImpact(0.8))
    with pytest.raises(
        ValueError, match=r"Did you mean 'constraints__disparate_impact__bound'.* Limits: disparate_impact"
    ):
        clf.set_params(constraints__disparate_impact__bonud=0.9)
    with pytest.raises(ValueError, match="Invalid parameter"):
        clf.set_params(constraint=3)
    with pytest.raises(ValueError, match="Limits: none"):
        ConstrainedClassifier().set_params(constraints__disparate_impact__bound=0.9)


def test_bad_limits_do_not_hinder_looking_at_an_estimator():
    clf = ConstrainedClassifier("nonsense")
    assert "nonsense" in repr(clf)
    assert clf.get_params()["constraints"] == "nonsense"


def test_a_limit_of_ones_own_measure():
    gap = Measure("informedness_gap", (informedness,), "difference")
    clf = ConstrainedClassifier(Constraint(0.4, measure=gap))
    assert clf.get_params()["constraints__informedness_gap__bound"] == 0.4
    X, y, group = toy()
    assert clf.fit(X, y, sensitive_features=group).result_.limits[0].reached <= 0.4


def test_clones_and_pickles():
    X, y, group = toy()
    clf = ConstrainedClassifier([DisparateImpact(0.8), "demographic_parity <= 0.3"], hidden=(3,), loss=Loss(l2=1e-4))
    copied = clone(clf)
    assert copied.get_params()["constraints__disparate_impact__bound"] == 0.8
    assert repr(copied) == repr(clf)
    clf.fit(X, y, sensitive_features=group).recalibrate(X, y)
    read = pickle.loads(pickle.dumps(clf))
    assert (read.predict_proba(X) == clf.predict_proba(X)).all()
    assert read.result_ == clf.result_
    assert not hasattr(clone(clf), "model_")


@pytest.mark.slow
def test_a_search_over_a_bound_with_groups_in_x():
    X, y, group = toy(600)
    table = np.column_stack([X, group == "a"])
    clf = quick(DisparateImpact(0.8), sensitive_columns=3)
    search = GridSearchCV(clf, {"constraints__disparate_impact__bound": [0.5, 0.9], "hidden": [(), (2,)]}, cv=2)
    search.fit(table, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_params_["constraints__disparate_impact__bound"] == 0.5  # the looser is the more accurate
    piped = make_pipeline(StandardScaler(), ConstrainedClassifier(DisparateImpact(0.8)))
    piped.set_params(constrainedclassifier__constraints__disparate_impact__bound=0.6)
    assert piped[-1].constraints == [DisparateImpact(0.6)]


@pytest.mark.parametrize("callbacks", [np.zeros(3), np.array(1.0), object(), 3, [None]])
def test_callbacks_that_are_no_functions(callbacks):
    X, y, group = toy(60)
    with pytest.raises(TypeError, match="callbacks= has"):
        quick("demographic_parity <= 0.5", callbacks=callbacks).fit(X, y, sensitive_features=group)


def test_labels_that_no_integer_holds():
    X, _, group = toy(60)
    with pytest.raises(ValueError, match=r"y has|Unknown label"):
        quick("demographic_parity <= 0.5").fit(X, [1e308] * 60, sensitive_features=group)
