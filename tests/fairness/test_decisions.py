"""From logits to margins, surrogates of decisions, and decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
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
    return torch.from_numpy(np.random.default_rng(seed).normal(0, spread, (n, outputs)))


def logits_of(outputs, elements=ANY_LOGIT):
    shapes = st.tuples(st.integers(1, 12), st.just(outputs) if isinstance(outputs, int) else outputs)
    return hnp.arrays(np.float64, shapes, elements=elements).map(torch.from_numpy)


def margins(z, margin, threshold=0.5):
    return DecisionSurrogate(Linear(), margin, threshold).values(z)


@given(logits_of(1), st.floats(0.01, 0.99))
def test_binary_margins_by_their_definition(z, threshold):
    p = 1 / (1 + np.exp(-z.numpy()))
    np.testing.assert_allclose(margins(z, "probability", threshold), p - threshold, atol=1e-15)
    np.testing.assert_allclose(margins(z, "logit", threshold), z - math.log(threshold / (1 - threshold)), atol=1e-13)


@given(logits_of(st.integers(3, 5)))
def test_multiclass_margins_are_over_the_best_rival(z):
    p = np.exp(z.numpy() - z.numpy().max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for c in range(z.shape[1]):
        rivals = [j for j in range(z.shape[1]) if j != c]
        np.testing.assert_allclose(
            margins(z, "probability")[:, c], 0.5 * (p[:, c] - p[:, rivals].max(axis=1)), atol=1e-15
        )
        np.testing.assert_allclose(margins(z, "logit")[:, c], z[:, c] - z[:, rivals].max(dim=1).values, atol=0)


@every_margin
@pytest.mark.parametrize("outputs", [1, 3, 5])
@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_margin_derivatives_agree_with_finite_differences(margin, outputs, threshold):
    step = DecisionSurrogate(Linear(scale=2.0), margin, threshold)
    z = logits(7, outputs)
    found = step.derivatives(z)
    assert found.shape == (outputs, 7, outputs)
    for row in range(7):
        expected = central_differences(lambda one: step.values(one[None])[0], z[row], 1e-6)
        torch.testing.assert_close(found[:, row], expected, rtol=0, atol=1e-9)


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
        torch.testing.assert_close(found[:, row], expected, rtol=0, atol=1e-8)


@every_margin
@pytest.mark.parametrize("name", SURROGATES)
def test_two_classes_of_the_multiclass_formula_are_the_binary_case(name, margin):
    step = DecisionSurrogate(SURROGATES[name](), margin)
    two = logits(50, 2, seed=1)
    one = as_logits(two, 2)
    assert one.shape == (50, 1)
    # The two margins differ in rounding alone, 1e-16, and the surrogates have slopes up to 50.
    torch.testing.assert_close(step.values(two)[:, 1:], step.values(one), rtol=0, atol=1e-13)
    by_difference = step.derivatives(one)[0]
    torch.testing.assert_close(
        step.derivatives(two)[1], torch.cat([-by_difference, by_difference], dim=1), rtol=0, atol=1e-11
    )


@given(logits_of(2))
def test_two_outputs_reduce_to_their_difference(z):
    one = as_logits(z, 2)
    assert torch.equal(one[:, 0], z[:, 1] - z[:, 0])
    assert torch.equal(decide(one), z.argmax(dim=1))
    torch.testing.assert_close(probabilities(one), torch.softmax(z, dim=1), rtol=0, atol=1e-15)


def test_two_outputs_of_a_float32_module_lose_nothing():
    z = torch.tensor([[1.0, 1.0 + 2.0**-23], [3.0e7, -1.0]], dtype=torch.float32)
    assert torch.equal(as_logits(z, 2)[:, 0], z[:, 1].double() - z[:, 0].double())


def test_decisions_tell_apart_what_probabilities_round_to_one_number():
    z = torch.tensor([[1e-30], [-1e-30], [0.0]], dtype=torch.float32)
    assert probabilities(z)[:, 1].tolist() == [0.5, 0.5, 0.5]
    assert decide(z).tolist() == [1, 0, 0]


@given(logits_of(1), st.floats(0.01, 0.99))
def test_binary_decisions_agree_with_probabilities_and_threshold(z, threshold):
    chance = probabilities(z)
    torch.testing.assert_close(chance.sum(dim=1), torch.ones(len(z), dtype=torch.float64), rtol=0, atol=1e-15)
    clear = (chance[:, 1] - threshold).abs() > 1e-15  # nearer than that, rounding decides
    assert torch.equal(decide(z, threshold)[clear], (chance[:, 1] > threshold).long()[clear])


@pytest.mark.parametrize("outputs", [1, 3])
@every_margin
def test_values_and_derivatives_together_are_those_apart(outputs, margin):
    step = DecisionSurrogate(SmoothedStep(), margin)
    z = logits(20, outputs)
    before = z.clone()
    values, derivatives = step.values_and_derivatives(z)
    torch.testing.assert_close(values, step.values(z), rtol=0, atol=1e-14)
    assert torch.equal(derivatives, step.derivatives(z))
    assert torch.equal(z, before)
    # A float32 module is followed in float32, to its precision times the slope of the surrogate.
    single = step.values_and_derivatives(z.float())[0]
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), values, rtol=0, atol=1e-4)
    assert probabilities(z.float()).dtype == torch.float64


@given(logits_of(st.integers(3, 5)))
def test_multiclass_decisions_are_the_likeliest_class(z):
    chosen = probabilities(z).gather(1, decide(z)[:, None])[:, 0]
    assert torch.equal(chosen, probabilities(z).max(dim=1).values)


quarters = st.integers(-40, 40).map(lambda k: k / 4 + 0.013)


@given(logits_of(st.sampled_from([1, 3, 4]), quarters), st.sampled_from(MARGINS))
def test_the_exact_step_of_the_margin_is_the_decision(z, margin):
    z = z + 0.01 * torch.arange(z.shape[1])  # no ties between classes
    outcomes = (1,) if z.shape[1] == 1 else tuple(range(z.shape[1]))
    assert torch.equal(DecisionSurrogate(ExactStep(), margin).values(z), outcome_indicators(decide(z), outcomes))


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
@every_margin
def test_the_sign_of_the_margin_is_the_decision_at_any_threshold(threshold, margin):
    z = logits(200, 1)
    assert torch.equal((margins(z, margin, threshold)[:, 0] > 0).long(), decide(z, threshold))


def test_a_tie_is_not_selected():
    assert decide(torch.zeros(1, 1, dtype=torch.float64)).tolist() == [0]
    assert decide(torch.tensor([[1.0, 2.0, 2.0]])).tolist() == [1]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 1, 1)])
def test_outputs_of_any_shape_are_one_logit_per_row(shape):
    z = as_logits(torch.arange(4, dtype=torch.float32).reshape(shape), 2)
    assert z.shape == (4, 1)
    assert z[:, 0].tolist() == [0, 1, 2, 3]


def test_no_rows_are_no_error():
    assert as_logits(torch.zeros(0), 2).shape == (0, 1)
    assert decide(as_logits(torch.zeros(0, 3), 3)).shape == (0,)


def test_gradients_flow_through_the_logits():
    output = torch.zeros(2, 2, requires_grad=True)
    as_logits(output, 2).sum().backward()
    assert output.grad.tolist() == [[-1, 1], [-1, 1]]


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
        as_logits(torch.zeros(shape), labels)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_threshold_must_lie_between_0_and_1(threshold):
    with pytest.raises(ValueError, match=r"threshold=.*: must lie strictly between 0 and 1\."):
        check_threshold(threshold, 2)


def test_a_threshold_with_several_classes_is_refused():
    with pytest.raises(ValueError, match=r"threshold=0\.4 needs two classes.* 3"):
        check_threshold(0.4, 3)
    check_threshold(0.4, 2)
    check_threshold(0.5, 3)
