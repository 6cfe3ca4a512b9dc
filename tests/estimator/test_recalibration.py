"""Recalibration keeps every decision; a plain calibration moves them, and the limit is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from tests.estimator.helpers import toy

from fairbound import ConstrainedClassifier, Loss, audit
from fairbound.estimator.recalibration import SidedMap, Temperature, fit_recalibration
from fairbound.fairness.decisions import logit


def halves(n=3000):
    X, y, group = toy(n)
    first = np.arange(n) % 2 == 0
    return (X[first], y[first], group[first]), (X[~first], y[~first], group[~first])


@pytest.fixture(scope="module")
def accurate():
    """A model trained for accuracy under a limit, whose probabilities mean little."""
    (X, y, group), _ = halves()
    clf = ConstrainedClassifier("demographic_parity <= 0.03", objective="accuracy")
    return clf.fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_decisions_stay_and_probabilities_fit_better(threshold):
    (X, y, group), (X_new, y_new, _) = halves()
    clf = ConstrainedClassifier("demographic_parity <= 0.05", objective="accuracy", threshold=threshold)
    clf.fit(X, y, sensitive_features=group)
    before, p_before, margins = clf.predict(X), clf.predict_proba(X_new), clf.decision_function(X_new)
    assert clf.recalibrate(X_new, y_new) is clf
    p = clf.predict_proba(X_new)
    assert (clf.predict(X) == before).all()
    assert (clf.decision_function(X_new) == margins).all()
    assert ((p[:, 1] > threshold) == (clf.predict(X_new) == 1)).all()
    assert log_loss(y_new, p) < log_loss(y_new, p_before)
    order = np.argsort(margins)
    assert (np.diff(p[order, 1]) >= 0).all()


def test_a_plain_calibration_moves_decisions_and_loses_the_limit(accurate):
    (X, y, group), (X_new, y_new, _) = halves()
    assert audit(y, accurate.predict(X), group).measure("demographic_parity").value <= 0.03
    plain = CalibratedClassifierCV(FrozenEstimator(accurate), method="sigmoid").fit(X_new, y_new)
    assert (plain.predict(X) != accurate.predict(X)).any()
    assert audit(y, plain.predict(X), group).measure("demographic_parity").value > 0.03
    ours = accurate.recalibrate(X_new, y_new)
    assert audit(y, ours.predict(X), group).measure("demographic_parity").value <= 0.03


def test_a_new_fit_forgets_the_recalibration():
    X, y, _ = toy()
    clf = ConstrainedClassifier().fit(X, y).recalibrate(X, 1 - y)
    plain = ConstrainedClassifier().fit(X, y)
    assert (clf.predict_proba(X) != plain.predict_proba(X)).any()
    assert (clf.fit(X, y).predict_proba(X) == plain.predict_proba(X)).all()


def test_the_positive_class_may_be_the_first():
    X, y, _ = toy()
    clf = ConstrainedClassifier(pos_label=0, threshold=0.6).fit(X, y).recalibrate(X, y)
    p = clf.predict_proba(X)
    assert ((p[:, 0] > 0.6) == (clf.predict(X) == 0)).all()
    assert log_loss(y, p) < 0.5


@settings(max_examples=50)
@given(
    threshold=st.floats(0.01, 0.99),
    above=st.tuples(st.floats(1e-3, 100), st.floats(-30, 30)),
    below=st.tuples(st.floats(1e-3, 100), st.floats(-30, 30)),
    z=st.lists(st.floats(-800, 800), min_size=1, max_size=30),
)
def test_any_map_keeps_sides_and_order(threshold, above, below, z):
    logits = np.array(sorted(z), dtype=np.float64)[:, None]
    p = SidedMap(threshold, above, below)(logits)[:, 1]
    assert np.isfinite(p).all()
    assert ((p > threshold) == (logits[:, 0] > logit(threshold))).all()
    assert (np.diff(p) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_the_identity_where_nothing_is_to_be_learnt():
    z = np.linspace(-6, 6, 101, dtype=np.float64)[:, None]
    found = SidedMap(0.3, (1.0, 0.0), (1.0, 0.0))(z)[:, 1]
    assert np.allclose(found, special.expit(z[:, 0]), rtol=0, atol=1e-14)
    one_sided = fit_recalibration(z[60:], (np.arange(41) % 2), np.ones(41), 0.5)
    assert isinstance(one_sided, SidedMap)
    assert one_sided.below == (1.0, 0.0)  # no rows there


def test_several_classes_share_a_temperature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.digitize(X[:, 0] + rng.normal(size=600), [-0.5, 0.5])
    clf = ConstrainedClassifier(hidden=(30,), loss=Loss(l2=0.0)).fit(X[:100], y[:100])
    before = clf.predict(X)
    loss = log_loss(y[100:], clf.predict_proba(X[100:]))
    clf.recalibrate(X[100:], y[100:])
    assert isinstance(clf.calibration_, Temperature)
    assert clf.calibration_.temperature > 1.0  # an overfitted network is too sure of itself
    assert (clf.predict(X) == before).all()
    assert log_loss(y[100:], clf.predict_proba(X[100:])) < loss


def test_labels_that_were_not_trained_on_are_refused():
    X, y, _ = toy()
    clf = ConstrainedClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"label 2\b.*classes_"):
        clf.recalibrate(X, y + 1)
