"""From logits to margins, surrogates of decisions, and decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special
from tests.fairness.helpers import central_differences

from fairbound.fairness import (
    SURROGATES,
    DecisionSurrogate,
    ExactStep,
    Linear,
    SmoothedStep,
    as_logits,
    decide,
    outcome_indicators,
    probabilities,
)
from fairbound.fairness.decisions import check_threshold

MARGINS = ["probability", "logit"]
ANY_LOGIT = st.floats(-30, 30)
every_margin = pytest.mark.parametrize("margin", MARGINS)


def logits(n, outputs, seed=0, spread=1.5):
    return np.random.default_rng(seed).normal(0, spread, (n, outputs))


def logits_of(outputs, elements=ANY_LOGIT):
    shapes = st.tuples(st.integers(1, 12), st.just(outputs) if isinstance(outputs, int) else outputs)
    return hnp.arrays(np.float64, shapes, elements=elements)


def margins(z, margin, threshold=0.5):
    return DecisionSurrogate(Linear(), margin, threshold).values(z)


@given(logits_of(1), st.floats(0.01, 0.99))
def test_binary_margins_by_their_definition(z, threshold):
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(margins(z, "probability", threshold), p - threshold, atol=1e-15)
    np.testing.assert_allclose(margins(z, "logit", threshold), z - math.log(threshold / (1 - threshold)), atol=1e-13)


@given(logits_of(st.integers(3, 5)))
def test_multiclass_margins_are_over_the_best_rival(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for c in range(z.shape[1]):
        rivals = [j for j in range(z.shape[1]) if j != c]
        np.testing.assert_allclose(
            margins(z, "probability")[:, c], 0.5 * (p[:, c] - p[:, rivals].max(axis=1)), atol=1e-15
        )
        np.testing.assert_allclose(margins(z, "logit")[:, c], z[:, c] - z[:, rivals].max(axis=1), atol=0)


@every_margin
@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("name", SURROGATES)
def test_derivatives_of_every_surrogate_agree_with_finite_differences(name, margin, outputs):
    # The scale keeps most rows where the slope is not nothing; the kinks of the others lie away from these rows.
    step = DecisionSurrogate(SURROGATES[name](scale=1.3), margin)
    z = logits(9, outputs, seed=3)
    found = step.derivatives(z)
    for row in range(9):
        expected = central_differences(lambda one: step.values(one[None])[0], z[row], 1e-6)
        # Third derivatives of the smoothed step are up to 1/μ = 1e4: h²/6 · 1e4 · 1.3³ < 4e-9.
        np.testing.assert_allclose(found[:, row], expected, rtol=0, atol=1e-8)


@every_margin
@pytest.mark.parametrize("name", SURROGATES)
def test_two_classes_of_the_multiclass_formula_are_the_binary_case(name, margin):
    step = DecisionSurrogate(SURROGATES[name](), margin)
    two = logits(50, 2, seed=1)
    one = as_logits(two, 2)
    assert one.shape == (50, 1)
    # The two margins differ in rounding alone, 1e-16, and the surrogates have slopes up to 50.
    np.testing.assert_allclose(step.values(two)[:, 1:], step.values(one), rtol=0, atol=1e-13)
    by_difference = step.derivatives(one)[0]
    np.testing.assert_allclose(
        step.derivatives(two)[1], np.concatenate([-by_difference, by_difference], axis=1), rtol=0, atol=1e-11
    )


@given(logits_of(2))
def test_two_outputs_reduce_to_their_difference(z):
    one = as_logits(z, 2)
    assert np.array_equal(one[:, 0], z[:, 1] - z[:, 0])
    assert np.array_equal(decide(one), z.argmax(axis=1))
    np.testing.assert_allclose(probabilities(one), special.softmax(z, axis=1), rtol=0, atol=1e-15)


def test_two_outputs_of_a_float32_module_lose_nothing():
    z = np.array([[1.0, 1.0 + 2.0**-23], [3.0e7, -1.0]], dtype=np.float32)
    assert np.array_equal(as_logits(z, 2)[:, 0], z[:, 1].astype(np.float64) - z[:, 0].astype(np.float64))


def test_decisions_tell_apart_what_probabilities_round_to_one_number():
    z = np.array([[1e-30], [-1e-30], [0.0]], dtype=np.float32)
    assert probabilities(z)[:, 1].tolist() == [0.5, 0.5, 0.5]
    assert decide(z).tolist() == [1, 0, 0]


@given(logits_of(1), st.floats(0.01, 0.99))
def test_binary_decisions_agree_with_probabilities_and_threshold(z, threshold):
    chance = probabilities(z)
    np.testing.assert_allclose(chance.sum(axis=1), np.ones(len(z)), rtol=0, atol=1e-15)
    clear = np.abs(chance[:, 1] - threshold) > 1e-15  # nearer than that, rounding decides
    assert np.array_equal(decide(z, threshold)[clear], (chance[:, 1] > threshold).astype(np.int64)[clear])


@pytest.mark.parametrize("outputs", [1, 3])
@every_margin
def test_values_and_derivatives_together_are_those_apart(outputs, margin):
    step = DecisionSurrogate(SmoothedStep(), margin)
    z = logits(20, outputs)
    before = z.copy()
    values, derivatives = step.values_and_derivatives(z)
    np.testing.assert_allclose(values, step.values(z), rtol=0, atol=1e-14)
    assert np.array_equal(derivatives, step.derivatives(z))
    assert np.array_equal(z, before)
    # A float32 module is followed in float32, to its precision times the slope of the surrogate.
    single = step.values_and_derivatives(z.astype(np.float32))[0]
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.astype(np.float64), values, rtol=0, atol=1e-4)
    assert probabilities(z.astype(np.float32)).dtype == np.float64


quarters = st.integers(-40, 40).map(lambda k: k / 4 + 0.013)


@given(logits_of(st.sampled_from([1, 3, 4]), quarters), st.sampled_from(MARGINS))
def test_the_exact_step_of_the_margin_is_the_decision(z, margin):
    z = z + 0.01 * np.arange(z.shape[1])  # no ties between classes
    outcomes = (1,) if z.shape[1] == 1 else tuple(range(z.shape[1]))
    assert np.array_equal(DecisionSurrogate(ExactStep(), margin).values(z), outcome_indicators(decide(z), outcomes))


def test_a_tie_is_not_selected():
    assert decide(np.zeros((1, 1))).tolist() == [0]
    assert decide(np.array([[1.0, 2.0, 2.0]])).tolist() == [1]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 1, 1)])
def test_outputs_of_any_shape_are_one_logit_per_row(shape):
    z = as_logits(np.arange(4, dtype=np.float32).reshape(shape), 2)
    assert z.shape == (4, 1)
    assert z[:, 0].tolist() == [0, 1, 2, 3]


def test_no_rows_are_no_error():
    assert as_logits(np.zeros(0), 2).shape == (0, 1)
    assert decide(as_logits(np.zeros((0, 3)), 3)).shape == (0,)


@pytest.mark.parametrize(
    ("shape", "labels", "sentence"),
    [
        ((4, 3), 2, r"3 outputs.* 2 classes need 1 \(or 2\)"),
        ((4, 1), 3, "1 outputs.* 3 classes need 3"),
        ((4, 2), 3, "2 outputs.* 3 classes need 3"),
        ((), 2, "single number.*one row of outputs"),
    ],
)
def test_a_module_with_other_outputs_is_refused(shape, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        as_logits(np.zeros(shape), labels)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_threshold_must_lie_between_0_and_1(threshold):
    with pytest.raises(ValueError, match=r"threshold=.*: must lie strictly between 0 and 1\."):
        check_threshold(threshold, 2)


def test_a_threshold_with_several_classes_is_refused():
    with pytest.raises(ValueError, match=r"threshold=0\.4 needs two classes.* 3"):
        check_threshold(0.4, 3)
    check_threshold(0.4, 2)
    check_threshold(0.5, 3)
