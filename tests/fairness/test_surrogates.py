"""Surrogates of the step function: their declared properties are checked against their values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairbound.fairness import SURROGATES, Linear, PiecewiseAffineStep, Sigmoid, SmoothedStep, resolve_surrogate

SCALES = [None, 1.0, 7.5]  # None: the default of the class

every_surrogate = pytest.mark.parametrize("name", SURROGATES)
every_scale = pytest.mark.parametrize("scale", SCALES)


def make(name, scale=None):
    return SURROGATES[name]() if scale is None else SURROGATES[name](scale=scale)


def grid(surrogate):
    """Margins t for which u = scale · t runs over [-8, 8] in steps of 1/64, so that 0 and ±½ are among them."""
    return np.arange(-512, 513, dtype=np.float64) / 64 / surrogate.scale


def slope_jumps(surrogate, t, step):
    """|φ(t + h) − 2φ(t) + φ(t − h)| / h in units of u: of order h where φ is smooth, a jump of the slope at a kink."""
    h = step / surrogate.scale
    return (surrogate.value(t + h) - 2 * surrogate.value(t) + surrogate.value(t - h)).__abs__() / step


@every_surrogate
@every_scale
def test_derivative_agrees_with_central_differences(name, scale):
    surrogate = make(name, scale)
    t = grid(surrogate) + 0.001 / surrogate.scale
    # In units of u: the third derivative of the smoothed step is below 1/μ = 1e4, so the error of the difference is
    # below h²/6 · 1e4 < 2e-9, and that of rounding below 1e-15/h = 1e-9.
    h = 1e-6 / surrogate.scale
    difference = (surrogate.value(t + h) - surrogate.value(t - h)) / (2 * h)
    away = np.full_like(t, True, dtype=bool) if surrogate.smooth else slope_jumps(surrogate, t, 1e-6) < 1e-3
    assert away.astype(np.float64).mean() > 0.99
    np.testing.assert_allclose(
        surrogate.derivative(t)[away] / surrogate.scale, difference[away] / surrogate.scale, rtol=0, atol=1e-8
    )


@every_surrogate
def test_smoothness_is_as_declared(name):
    surrogate = make(name)
    # The slope of the smoothed step changes by at most ½/√μ = 50 per unit of u; a kink or a jump is of order 1.
    largest = slope_jumps(surrogate, grid(surrogate), 1e-7).max()
    assert (largest < 1e-5) == surrogate.smooth
    assert surrogate.smooth or largest > 0.5


@every_surrogate
@every_scale
def test_values_lie_in_the_codomain_and_reach_its_ends(name, scale):
    surrogate = make(name, scale)
    t = np.concatenate([grid(surrogate), np.array([-1e6, 1e6], dtype=np.float64)])
    values = surrogate.value(t)
    low, high = surrogate.codomain
    assert values.min() >= low - 1e-15
    assert values.max() <= high + 1e-15
    assert values.min() < -1e5 if math.isinf(low) else values.min() < low + 1e-8
    assert values.max() > 1e5 if math.isinf(high) else values.max() > high - 1e-8
    assert surrogate.bounded == (math.isfinite(low) and math.isfinite(high))


@every_surrogate
@every_scale
def test_asymmetry_is_a_bound_that_is_attained(name, scale):
    surrogate = make(name, scale)
    t = np.concatenate([grid(surrogate), np.array([1e6], dtype=np.float64)])
    found = (surrogate.value(t) + surrogate.value(-t) - 1).__abs__().max().item()
    assert found <= surrogate.asymmetry + 1e-14
    if math.isfinite(surrogate.asymmetry):
        assert found >= 0.999 * surrogate.asymmetry - 1e-14


@every_surrogate
def test_passes_through_one_half_up_to_half_its_asymmetry(name):
    surrogate = make(name)
    at_zero = surrogate.value(np.zeros(1)).item()
    if surrogate.asymmetry == 0:
        assert at_zero == 0.5
    assert abs(at_zero - 0.5) <= surrogate.asymmetry / 2


@every_surrogate
@every_scale
def test_does_not_fall(name, scale):
    surrogate = make(name, scale)
    t = grid(surrogate)
    assert np.diff(surrogate.value(t)).min() >= -1e-15
    assert surrogate.derivative(t).min() >= 0


@every_surrogate
def test_bounded_surrogates_approach_the_step_as_the_scale_grows(name):
    surrogate = make(name, 1e5)
    t = np.array([-0.5, -0.01, 0.01, 0.5], dtype=np.float64)
    gap = (surrogate.value(t) - (t > 0).astype(np.float64)).__abs__().max()
    if surrogate.bounded:
        # The smoothed step approaches its ends like μ/(4u), here 2.5e-8, and dips to -μ/4 on the left.
        assert gap <= min(surrogate.asymmetry, 1e-3) + 1e-7
    else:
        assert gap > 1


@every_surrogate
def test_is_finite_far_out(name):
    t = np.array([-1e9, -1e5, 1e5, 1e9], dtype=np.float64)
    surrogate = make(name)
    assert np.isfinite(surrogate.value(t)).all()
    assert np.isfinite(surrogate.derivative(t)).all()


@every_surrogate
def test_shape_and_dtype_are_those_of_the_margin(name):
    t = np.zeros((3, 2))
    before = t.copy()
    for result in (make(name).value(t), make(name).derivative(t)):
        assert result.shape == t.shape
        assert result.dtype == np.float64
        assert not np.shares_memory(result, t)
    assert np.array_equal(t, before)


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_smoothed_step_tends_to_the_piecewise_affine_step(scale):
    limit = PiecewiseAffineStep(scale=scale)
    t = grid(limit)
    gaps = [
        (SmoothedStep(scale=scale, smoothing=smoothing).value(t) - limit.value(t)).__abs__().max().item()
        for smoothing in (1e-2, 1e-4, 1e-6, 1e-8)
    ]
    # Each smoothed maximum is off by at most ½√μ, at its kink.
    assert all(gap <= math.sqrt(s) for gap, s in zip(gaps, (1e-2, 1e-4, 1e-6, 1e-8), strict=True))
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.parametrize("smoothing", [1e-6, 1e-4, 1e-2, 1.0])
def test_smoothed_step_dips_to_minus_a_quarter_of_its_smoothing(smoothing):
    surrogate = SmoothedStep(scale=1.0, smoothing=smoothing)
    lowest = surrogate.value(np.array([-1e14], dtype=np.float64)).item()
    # ½(1 − √(1 + μ)) lies between −μ/4 and −μ/4 + μ²/16.
    assert -smoothing / 4 - 1e-15 <= lowest <= -smoothing / 4 + smoothing**2 / 16 + 1e-15
    assert surrogate.codomain == (-smoothing / 4, 1.0)


@pytest.mark.parametrize("smoothing", [1e-8, 1e-4, 1e-2, 1.0, 100.0])
def test_smoothed_step_is_symmetric_up_to_a_quarter_of_its_smoothing(smoothing):
    surrogate = SmoothedStep(scale=1.0, smoothing=smoothing)
    t = np.linspace(0, 50, 20_001, dtype=np.float64)
    assert (surrogate.value(t) + surrogate.value(-t) - 1).__abs__().max() <= surrogate.asymmetry + 1e-14


def test_smoothed_step_keeps_its_small_values_and_slopes_far_to_the_left():
    # At u = -50, beyond all probability margins at scale 50, φ is μ/4/50 - μ/4 and its slope μ/4/50² = 1e-8.
    surrogate, t = SmoothedStep(scale=1.0), np.array([-50.5], dtype=np.float64)
    assert surrogate.value(t).item() == pytest.approx(-2.5e-5 + 5e-7, rel=1e-4)
    assert surrogate.derivative(t).item() == pytest.approx(1e-8, rel=1e-4)


@every_surrogate
@every_scale
def test_value_and_derivative_together_are_those_apart(name, scale):
    surrogate = make(name, scale)
    t = grid(surrogate)
    before = t.copy()
    value, derivative = surrogate.value_and_derivative(t)
    np.testing.assert_allclose(value, surrogate.value(t), rtol=0, atol=1e-15)
    np.testing.assert_allclose(derivative, surrogate.derivative(t), rtol=1e-12, atol=1e-12)
    assert np.array_equal(t, before)


@every_surrogate
def test_single_precision_is_kept_and_close(name):
    surrogate = make(name)
    t = grid(surrogate)
    t = t[slope_jumps(surrogate, t, 1e-4) < 0.1]  # a kink is on one side or the other of what t rounds to
    for found, expected in zip(
        surrogate.value_and_derivative(t.astype(np.float32)), surrogate.value_and_derivative(t), strict=True
    ):
        assert found.dtype == np.float32
        # u = scale · t is off by 8 · 2⁻²⁴ = 5e-7, and the slope of the smoothed step moves by up to 50 times that.
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-5, atol=5e-5 * surrogate.scale)


@every_surrogate
def test_is_reached_by_name_and_by_instance(name):
    by_name = resolve_surrogate(name)
    assert by_name == SURROGATES[name]()
    assert by_name.name == name
    instance = SURROGATES[name](scale=3)
    assert resolve_surrogate(instance) is instance


def test_unknown_name_says_the_nearest_and_all_known():
    with pytest.raises(ValueError, match=r"surrogate 'sigmoyd'.*'sigmoid'\? Known: .*tanh"):
        resolve_surrogate("sigmoyd")
    with pytest.raises(ValueError, match=r"Unknown surrogate 3\. Known: exact, linear"):
        resolve_surrogate(3)


@every_surrogate
@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, "50", None, True])
def test_scale_must_be_a_number_above_zero(name, scale):
    example = f"{SURROGATES[name]().scale:g}"
    with pytest.raises(ValueError, match=rf"\(scale=.*must be a finite number above 0, for example {example}\."):
        SURROGATES[name](scale=scale)


def test_smoothing_must_be_a_number_above_zero():
    with pytest.raises(ValueError, match=r"SmoothedStep\(smoothing=0\): must be a finite number above 0.*0\.0001"):
        SmoothedStep(smoothing=0)


def test_closed_forms():
    t = np.array([-0.3, 0.0, 0.02, 0.4], dtype=np.float64)
    np.testing.assert_allclose(Sigmoid(5).value(t), 1 / (1 + np.exp(-5 * t)), rtol=1e-15, atol=0)
    np.testing.assert_allclose(Linear().value(t), t, rtol=0, atol=0)
    mu, u = 0.01, 2 * t
    inner = 0.5 * (u + 0.5 + np.sqrt((u + 0.5) ** 2 + mu))
    paper = 1 - 0.5 * (1 - inner + np.sqrt((1 - inner) ** 2 + mu))
    np.testing.assert_allclose(SmoothedStep(2, smoothing=mu).value(t), paper, rtol=0, atol=1e-15)


def test_the_ends_and_the_kinks_of_each_surrogate():
    ends = {name: kind().codomain for name, kind in SURROGATES.items() if kind().codomain != (0.0, 1.0)}
    assert ends == {
        "smoothed_step": (-0.25e-4, 1.0),
        "linear": (-math.inf, math.inf),
        "max": (0.0, math.inf),
    }
    assert {name for name, kind in SURROGATES.items() if not kind.smooth} == {"piecewise_affine", "max", "exact"}
    assert SURROGATES["exact"]().asymmetry == 1.0
