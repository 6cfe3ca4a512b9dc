"""Inputs of any scale: with `encoder=None` the model is that of the standardised columns, and never NaN."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import FunctionTransformer
from tests.estimator.helpers import quick, toy
from torch import nn

from fairbound import ConstrainedClassifier, load
from fairbound.estimator import InputScaleWarning
from fairbound.estimator.columns import standardize

X, Y, GROUP = toy(200)
LIMIT = "disparate_impact >= 0.3"


def fitted(X, **params):
    return quick(LIMIT, encoder=None, **params).fit(X, Y, sensitive_features=GROUP)


@pytest.fixture(scope="module")
def standard():
    return fitted((X - X.mean(axis=0)) / X.std(axis=0))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(-6, 6), min_size=3, max_size=3), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_any_scales_give_the_model_of_the_standardised_columns(standard, powers, shifts):
    moved = (X + shifts) * 10.0 ** np.array(powers)
    clf = fitted(moved)
    assert abs(clf.result_.accuracy - standard.result_.accuracy) <= 0.01
    assert clf.result_.kept == standard.result_.kept
    assert (clf.predict(moved) == Y).mean() == pytest.approx(clf.result_.accuracy)


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_scales_that_change_no_digit_change_nothing(hidden):
    moved = X * 2.0 ** np.array([20, -20, 3])
    assert np.array_equal(fitted(X, hidden=hidden).predict_proba(X), fitted(moved, hidden=hidden).predict_proba(moved))


def test_a_column_times_a_million_costs_no_accuracy():
    one, other = X.copy(), X.copy()
    other[:, 1] *= 1e6
    plain = ConstrainedClassifier(encoder=None).fit(one, Y).result_
    scaled = ConstrainedClassifier(encoder=None).fit(other, Y).result_
    assert scaled.accuracy == pytest.approx(plain.accuracy, abs=0.005)
    assert scaled.loss == pytest.approx(plain.loss, rel=1e-3)


def test_the_scaling_is_part_of_the_saved_model(tmp_path):
    moved = X * [1e6, 1.0, 1e-6]
    clf = fitted(moved)
    clf.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(moved), clf.predict_proba(moved))
    assert np.allclose(again.encoder_.transform(moved) @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(moved))
    gap = moved.copy()
    gap[2, 1] = np.nan
    for each in (clf, again):
        with pytest.raises(ValueError, match="Input X contains NaN, first in row 2, column number 1"):
            each.predict(gap)


def test_the_scaling_is_part_of_the_onnx_file(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    moved = X * [1e6, 1.0, 1e-6]
    clf = fitted(moved)
    clf.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    (label,) = session.run(["label"], {"X": moved})
    assert (label == clf.predict(moved)).all()


@pytest.mark.parametrize("largest", [1e150, 1e300, 1e308, 1.7e308])
@pytest.mark.parametrize("preprocessing", [None, "auto"])
def test_huge_numbers_give_finite_probabilities(largest, preprocessing):
    huge = X.copy()
    huge[:, 0] *= largest / np.abs(huge[:, 0]).max()
    clf = quick(LIMIT, encoder=preprocessing).fit(huge, Y, sensitive_features=GROUP)
    assert np.isfinite(clf.predict_proba(huge)).all()
    assert abs(clf.result_.accuracy - fitted(X).result_.accuracy) <= 0.02


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_huge_new_numbers_give_finite_probabilities(hidden):
    clf, new = fitted(X, hidden=hidden), X[:4].copy()
    new[0], new[1, 0], new[2] = 1.7e308, -1.7e308, [5e-324, -1e300, 1e300]
    assert np.isfinite(clf.predict_proba(new)).all()


def test_differences_that_overflow_are_scaled_all_the_same():
    values = np.array([1.7e308, -1.7e308, 0.0])
    assert standardize(values, -1e308, 1e308).tolist() == pytest.approx([2.7, -0.7, 1.0])


def test_a_network_of_ones_own_refuses_what_it_cannot_take():
    huge = pd.DataFrame(X.copy(), columns=["a", "b", "c"])  # pandas before 3 writes into the given array
    huge.loc[7, "b"] = 1e308
    with pytest.raises(ValueError, match=r"Column 'b' holds 1e\+308 in row 7"):
        quick(hidden=nn.Linear(3, 1), encoder=None).fit(huge, Y)
    clf = quick(hidden=nn.Linear(3, 1), encoder=None).fit(huge.assign(b=X[:, 1]), Y)
    with pytest.raises(ValueError, match=r"Column 'b' holds 1e\+308 in row 7"):
        clf.predict_proba(huge)


def test_a_network_that_gives_nan_is_named_and_no_probability():
    clf = quick(hidden=nn.Linear(3, 1), encoder=None).fit(X, Y)
    clf.model_.bias.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="gives NaN or infinity for row 0"):
        clf.predict_proba(X)


@pytest.mark.parametrize(
    "params",
    [
        {"hidden": nn.Linear(3, 1), "encoder": None},
        {"encoder": FunctionTransformer()},
    ],
)
def test_scales_that_are_not_ours_to_mend_are_said(params):
    moved = X * [1e6, 1.0, 1e-2]
    with pytest.warns(InputScaleWarning, match=r"'x0' is about .*e\+06, 'x2' varies by about") as said:
        quick(**params).fit(moved, Y)
    assert said[0].filename == __file__
    quick(**params).fit(X * [10.0, 1.0, 0.1], Y)
