"""Regularisers as functions of the parameters; their place in the objective is in `test_problem`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbound.fairness import DisparateImpact, Sigmoid
from fairbound.training import L2, SmoothedL1, SquaredMeasure

VECTORS = st.lists(st.floats(-5, 5), min_size=1, max_size=6).map(lambda values: np.array(values, dtype=np.float64))
OF_PARAMETERS = [L2(0.5), L2(0.0), SmoothedL1(2.0, smoothing=0.1), SmoothedL1(0.3, smoothing=1.0)]


@pytest.mark.parametrize("regularizer", OF_PARAMETERS, ids=repr)
class TestOfParameters:
    @given(w=VECTORS)
    def test_gradient_agrees_with_finite_differences(self, regularizer, w):
        step = 1e-5
        for i, unit in enumerate(step * np.eye(len(w), dtype=np.float64)):
            slope = (regularizer.value(w + unit) - regularizer.value(w - unit)) / (2 * step)
            # step² · third derivative (2 · 0.1^-1 for the smoothed ℓ1) and rounding 60 · 1e-16 / 1e-5.
            assert float(regularizer.gradient(w)[i]) == pytest.approx(slope, abs=1e-7)

    def test_is_zero_at_zero(self, regularizer):
        assert regularizer.value(np.zeros(3)) == 0.0
        assert not regularizer.gradient(np.zeros(3)).any()


def test_l2_is_half_the_square():
    assert L2(0.5).value(np.array([3.0, 4.0], dtype=np.float64)) == 6.25


@given(w=VECTORS, smoothing=st.floats(1e-8, 1e-2))
def test_smoothed_l1_lies_within_its_smoothing_of_the_l1_norm(w, smoothing):
    value, norm = SmoothedL1(1.0, smoothing=smoothing).value(w), float(np.abs(w).sum())
    assert norm - len(w) * math.sqrt(smoothing) - 1e-12 <= value <= norm + 1e-12


def test_the_squared_measure_is_rows_without_bounds():
    constraint = SquaredMeasure("equal_opportunity", surrogate=Sigmoid(3.0)).as_constraint()
    assert constraint.limits == (-math.inf, math.inf)
    assert constraint.name == "equal_opportunity"
    assert constraint.surrogate == Sigmoid(3.0)


@pytest.mark.parametrize("kind", [L2, SmoothedL1, lambda weight: SquaredMeasure(weight=weight)])
@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_means_nothing_is_refused(kind, weight):
    with pytest.raises(ValueError, match=rf"\(weight={weight!r}\): must be finite and not negative"):
        kind(weight=weight)


@pytest.mark.parametrize("smoothing", [0.0, -1.0, math.nan, math.inf])
def test_a_smoothing_that_means_nothing_is_refused(smoothing):
    with pytest.raises(ValueError, match=rf"SmoothedL1\(smoothing={smoothing!r}\): must be finite and above 0"):
        SmoothedL1(smoothing=smoothing)


def test_a_rate_of_its_own_has_no_square():
    with pytest.raises(ValueError, match=r"SquaredMeasure\('selection_rate'\).*no target"):
        SquaredMeasure("selection_rate")


def test_an_unknown_measure_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"Unknown measure 'demographic'.*Known: "):
        SquaredMeasure("demographic")


def test_a_constraint_is_no_measure():
    with pytest.raises((TypeError, ValueError), match="measure"):
        SquaredMeasure(DisparateImpact(0.8))
