"""Beside fairlearn: our predictions in its tables, our estimator where its own would stand."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    demographic_parity_ratio,
    equalized_odds_difference,
    selection_rate,
)
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.metrics import accuracy_score
from tests.estimator.helpers import toy

from fairbound import ConstrainedClassifier


@pytest.mark.slow
def test_our_record_is_fairlearns_metric_frame():
    X, y, group = toy(600)
    clf = ConstrainedClassifier(["disparate_impact >= 0.7", "equalized_odds <= 0.3"], hidden=(4,))
    clf.fit(X, y, sensitive_features=group)
    frame = MetricFrame(
        metrics={"accuracy": accuracy_score, "selection_rate": selection_rate},
        y_true=y,
        y_pred=clf.predict(X),
        sensitive_features=group,
    )
    for entry in clf.result_.groups:
        for name in ("accuracy", "selection_rate"):
            assert entry.rates["1"][name] == pytest.approx(frame.by_group.loc[entry.group, name], abs=1e-12)
    ratio, odds = clf.result_.limits
    decided = clf.predict(X)
    assert ratio.reached == pytest.approx(demographic_parity_ratio(y, decided, sensitive_features=group), abs=1e-12)
    assert odds.reached == pytest.approx(equalized_odds_difference(y, decided, sensitive_features=group), abs=1e-12)


def fit_and_score(mitigator, X, y, group):
    """Code as it is written for fairlearn's mitigators."""
    mitigator.fit(X, y, sensitive_features=group)
    return demographic_parity_difference(y, mitigator.predict(X), sensitive_features=group)


def test_our_estimator_in_code_that_passes_sensitive_features():
    X, y, group = toy(600)
    ours = fit_and_score(ConstrainedClassifier("demographic_parity <= 0.05"), X, y, group)
    assert ours <= 0.05 + 1e-12
    rates = MetricFrame(
        metrics=selection_rate, y_true=y, y_pred=ConstrainedClassifier().fit(X, y).predict(X), sensitive_features=group
    )
    assert ours < rates.difference()


# fairlearn 0.15 sets values in a way that pandas 3.1 warns of; it concerns neither of our estimators.
@pytest.mark.filterwarnings("ignore:Setting a value on a Series via .at:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Setting an item of incompatible dtype")
def test_our_estimator_as_the_model_that_fairlearn_mitigates():
    X, y, group = toy()
    reduced = ExponentiatedGradient(ConstrainedClassifier(), DemographicParity(difference_bound=0.05), max_iter=3)
    reduced.fit(X, y, sensitive_features=group)
    assert set(np.unique(reduced.predict(X, random_state=0))) <= {0, 1}
    moved = ThresholdOptimizer(
        estimator=ConstrainedClassifier().fit(X, y), prefit=True, predict_method="predict_proba"
    ).fit(X, y, sensitive_features=group)
    assert moved.predict(X, sensitive_features=group, random_state=0).shape == y.shape
