"""Predictions: a pure function of the row, to the last bit; orientation, thresholds, coefficients."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import quick, toy
from torch import nn

from fairbound import ConstrainedClassifier, Loss
from fairbound.estimator import FeedForward, logits
from fairbound.estimator.exact import ExactLinear


def own_network(n_inputs, n_outputs):
    """Not a plain sequence of linear layers: goes by blocks of a fixed number of rows."""
    return nn.Sequential(nn.Linear(n_inputs, 7), nn.LayerNorm(7), nn.Tanh(), nn.Linear(7, n_outputs))


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"hidden": (9, 5)},
        {"hidden": own_network},
        {
            "hidden": lambda i, o: nn.Sequential(
                nn.Linear(i, 40), nn.Tanh(), nn.Linear(40, 9), nn.GELU(), nn.Linear(9, o)
            )
        },
    ],
    ids=["linear", "network", "own", "smooth"],
)
@pytest.mark.parametrize("recalibrated", [False, True])
def test_one_row_at_a_time_twice_and_in_any_order_are_the_same_to_the_last_bit(model, recalibrated):
    X, y, _ = toy(300)
    clf = ConstrainedClassifier(**model).fit(X, y)
    if recalibrated:
        clf.recalibrate(*toy(300, seed=1)[:2])
    new = np.random.default_rng(3).normal(size=(701, 3)) * 2
    order = np.random.default_rng(4).permutation(len(new))
    for method in (clf.predict, clf.predict_proba, clf.decision_function):
        together = method(new)
        assert (method(new) == together).all()
        assert (method(new[order]) == together[order]).all()
        assert (np.concatenate([method(new[i : i + 1]) for i in range(60)]) == together[:60]).all()
        assert (np.concatenate([method(part) for part in np.array_split(new, 7)]) == together).all()


def test_several_classes_one_row_at_a_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + 0.3 * rng.normal(size=400), [-0.5, 0.5])]
    clf = ConstrainedClassifier(hidden=(5,)).fit(X, y)
    together = clf.predict_proba(X)
    assert (np.concatenate([clf.predict_proba(row[None]) for row in X[:80]]) == together[:80]).all()
    assert together.shape == (400, 3)
    assert np.allclose(together.sum(axis=1), 1.0, rtol=1e-15)
    assert (clf.classes_ == ["high", "low", "mid"]).all()
    assert (clf.classes_[together.argmax(axis=1)] == clf.predict(X)).all()


@pytest.mark.slow
def test_threads_do_not_change_a_bit():
    program = """
import sys, hashlib, numpy as np, torch
torch.set_num_threads(int(sys.argv[1]))
from fairbound.training import make_model
from fairbound.estimator import logits
X = np.random.default_rng(0).normal(size=(5000, 60))
module = make_model(60, 3, hidden=(200, 30), dtype=torch.float64)
print(hashlib.sha256(logits(module, X, 3).tobytes()).hexdigest())
"""
    found = {
        subprocess.run([sys.executable, "-c", program, threads], capture_output=True, text=True, check=True).stdout
        for threads in ("1", "3")
    }
    assert len(found) == 1


@settings(max_examples=60)
@given(
    rows=st.integers(1, 9),
    terms=st.integers(1, 40),
    outputs=st.integers(1, 4),
    spread=st.integers(0, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_are_right_and_do_not_depend_on_other_rows(rows, terms, outputs, spread, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, terms)) * 10.0 ** rng.integers(-spread, spread + 1, size=(rows, 1))
    weight = rng.normal(size=(outputs, terms)) * 10.0 ** rng.integers(-6, 7, size=(outputs, terms))
    layer = ExactLinear(weight, None)
    found = layer(x)
    alone = np.concatenate([layer(row[None]) for row in x])
    assert (layer(sparse.csr_array(x)) == found).all()
    assert (found == alone).all()
    for i in range(rows):
        for k in range(outputs):
            exact = float(sum(Fraction(a) * Fraction(b) for a, b in zip(x[i], weight[k], strict=True)))
            # Both factors are cut at 2^-40 of their largest (b ≥ 20 for up to 2^13 terms), in each of the terms.
            bound = terms * 2.0**-38 * np.abs(x[i]).max() * np.abs(weight[k]).max() + 4e-16 * abs(exact)
            assert abs(found[i, k] - exact) <= bound


def test_products_of_nothing_of_the_tiny_and_of_the_huge():
    layer = ExactLinear(np.array([[1e100, -2.0], [0.0, 0.0]]), np.array([0.5, 0.25]))
    x = np.array([[0.0, 0.0], [1e100, 1.0], [5e-324, 5e-324], [1.0, 1.0]])
    found = layer(x)
    assert np.isfinite(found).all()
    assert found[0].tolist() == [0.5, 0.25]
    assert found[1, 0] == pytest.approx(1e200, rel=1e-12)
    assert found[:, 1].tolist() == [0.25] * 4


def test_sums_longer_than_a_part():
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(2, 9000)), rng.normal(size=(3, 9000))
    found = ExactLinear(weight, None)(x)
    # 9,000 terms cut at 2^-40 of factors of up to 4.
    assert np.allclose(found, x @ weight.T, rtol=0, atol=9000 * 32 * 2.0**-40)


def test_which_modules_are_feed_forward():
    assert FeedForward.fits(nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.Linear(3, 1)))
    assert not FeedForward.fits(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1)))
    assert not FeedForward.fits(nn.Linear(2, 1))
    hooked = nn.Sequential(nn.Linear(2, 1))
    hooked[0].register_forward_hook(lambda *_: None)
    assert not FeedForward.fits(hooked)


@pytest.mark.parametrize(
    "activation", [nn.ReLU(), nn.LeakyReLU(0.2), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.ELU(), nn.Softplus()]
)
def test_feed_forward_logits_are_those_of_the_module(activation):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 6), activation, nn.Linear(6, 2), nn.Identity()).to(torch.float64)
    X = np.random.default_rng(0).normal(size=(333, 5))
    with torch.no_grad():
        plain = module(torch.from_numpy(X))
    found = logits(module, X, 2)
    # Of two outputs for two classes the difference is the logit; products are right to about 1e-12.
    assert np.allclose(found[:, 0], plain[:, 1] - plain[:, 0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("pos_label", [None, "no", "yes"])
def test_class_names_and_their_order_are_kept_whichever_is_positive(pos_label):
    X, y, group = toy()
    words = np.where(y == 1, "yes", "no")
    clf = quick("disparate_impact >= 0.6", pos_label=pos_label).fit(X, words, sensitive_features=group)
    assert clf.classes_.tolist() == ["no", "yes"]
    assert clf.pos_label_ == (pos_label or "yes")
    p, margin, decided = clf.predict_proba(X), clf.decision_function(X), clf.predict(X)
    assert set(decided) == {"no", "yes"}
    assert ((margin > 0) == (decided == "yes")).all()
    assert ((p[:, 1] > 0.5) == (decided == "yes")).all()
    selected = [np.mean(decided[group == name] == clf.pos_label_) for name in "ab"]
    assert min(selected) / max(selected) >= 0.6
    assert clf.score(X, words) == clf.result_.accuracy
    coefficient = clf.encoder_.transform(X) @ clf.coef_[0] + clf.intercept_[0]
    assert np.allclose(coefficient, margin, rtol=0, atol=1e-9)


@pytest.mark.parametrize("labels", [[False, True], [2.0, 7.0], [-1, 1], ["b", "a"]])
def test_labels_of_any_type(labels):
    X, y, _ = toy()
    given_labels = np.array(labels)[y]
    clf = ConstrainedClassifier().fit(X, given_labels)
    assert clf.predict(X).dtype == given_labels.dtype
    assert clf.classes_.tolist() == sorted(labels)
    assert clf.score(X, given_labels) > 0.8


def test_a_threshold_is_part_of_the_model():
    X, y, group = toy()
    clf = quick("disparate_impact >= 0.6", threshold=0.7).fit(X, y, sensitive_features=group)
    assert ((clf.predict_proba(X)[:, 1] > 0.7) == (clf.predict(X) == 1)).all()
    assert ((clf.decision_function(X) > 0) == (clf.predict(X) == 1)).all()
    assert clf.result_.kept
    before = clf.predict(X)
    assert (clf.set_params(threshold=0.2).predict(X) == before).all()  # until it is fitted again


def test_encoded_columns_times_coefficients_plus_intercept_is_the_logit():
    """The natural line gave −11.79 for a logit of −7.88: the encoder scales, and coef_ was for unscaled columns."""
    X, y, _ = toy()
    moved = X * [1.0, 100.0, 1e-3] + [5.0, 0.0, -2.0]
    clf = ConstrainedClassifier(loss=Loss(l2=0.0)).fit(moved, y)
    Z = clf.encoder_.transform(moved)
    assert np.allclose(Z @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(moved), rtol=0, atol=1e-9)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(StandardScaler().fit_transform(X), y)
    # Ours stops at KKT residuals of 1e-4.
    assert np.allclose(clf.coef_, peer.coef_, atol=5e-3)
    assert np.allclose(clf.intercept_, peer.intercept_, atol=5e-3)


def test_coefficients_of_categories_and_missing_values():
    rng = np.random.default_rng(0)
    job, age = rng.choice(["cook", "nurse", "smith"], 300), rng.normal(40, 10, 300)
    age[::7] = np.nan
    y = (np.nan_to_num(age, nan=40) + 10 * (job == "smith") + rng.normal(scale=5, size=300) > 45).astype(int)
    X = np.array([job, age], dtype=object).T
    clf = ConstrainedClassifier().fit(X, y)
    assert clf.encoded_names_ == ["x0=cook", "x0=nurse", "x0=smith", "x1", "x1=(missing)"]
    scaled = (age - np.nanmean(age)) / np.nanstd(age)
    known = np.column_stack([job == "cook", job == "nurse", job == "smith", np.nan_to_num(scaled), np.isnan(age)])
    assert np.allclose(known @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(X), rtol=0, atol=1e-8)


def test_only_linear_models_have_coefficients(network):
    assert not hasattr(network, "coef_")
    with pytest.raises(AttributeError, match=r"linear \(hidden=\(\)\)"):
        _ = network.intercept_


def test_coefficients_of_several_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    clf = ConstrainedClassifier().fit(X, y)
    assert clf.coef_.shape == (3, 2)
    Z = clf.encoder_.transform(X)
    assert np.allclose(Z @ clf.coef_.T + clf.intercept_, clf.decision_function(X), rtol=0, atol=1e-9)


def test_predictions_are_never_nan_even_far_away():
    X, y, _ = toy()
    clf = ConstrainedClassifier(hidden=(4,)).fit(X, y)
    far = np.array([[1e308, -1e308, 1e308], [np.nan, 0, np.nan], [0, 0, 5e-324]])
    for method in (clf.predict_proba, clf.decision_function):
        assert np.isfinite(method(far)).all()
