"""Merit and ratio parameters: their formulas by hand, and what they guarantee on random QPs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sqp.test_qp import FAMILIES, random_qp

from fairbound.sqp.merit import lowered, model_reduction, trial_merit_parameter, trial_ratio_parameter


def test_a_step_that_lowers_the_objective_leaves_the_merit_parameter_free():
    assert trial_merit_parameter(slope=-3.0, curvature=2.0, reduction=0.0, sigma=0.1, penalty=1e8) == math.inf
    assert trial_merit_parameter(slope=-2.0, curvature=2.0, reduction=1.0, sigma=0.1, penalty=1e8) == math.inf


def test_formulas_by_hand():
    assert trial_merit_parameter(1.0, 2.0, 6.0, sigma=0.1, penalty=1e8) == pytest.approx(0.9 * 6.0 / 3.0)
    assert trial_merit_parameter(5.0, -2.0, 1.0, sigma=0.5, penalty=1e8) == pytest.approx(0.1)  # no credit for dᵀHd < 0
    assert model_reduction(0.5, slope=1.0, curvature=2.0, reduction=6.0) == pytest.approx(-0.5 * 2.0 + 6.0)
    assert trial_ratio_parameter(0.5, model_decrease=2.0, step_norm=2.0) == pytest.approx(1.0)
    assert trial_ratio_parameter(0.5, model_decrease=0.0, step_norm=0.0) == math.inf


def test_rounding_near_a_solution_cannot_collapse_the_merit_parameter():
    assert trial_merit_parameter(1e-17, 1e-34, 0.0, sigma=0.1, penalty=100.0) == pytest.approx(0.009)


def test_parameters_only_fall_and_then_by_a_fraction():
    assert lowered(0.1, math.inf, 0.01, 1e-12) == 0.1
    assert lowered(0.1, 0.1, 0.01, 1e-12) == 0.1
    assert lowered(0.1, 0.0999, 0.01, 1e-12) == pytest.approx(0.099)
    assert lowered(0.1, 0.02, 0.01, 1e-12) == pytest.approx(0.02)
    assert lowered(0.1, 0.0, 0.01, 1e-12) == 1e-12


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from([family for family in FAMILIES if family != "badly scaled"]),
    m=st.integers(1, 15),
    penalty=st.sampled_from([1e-1, 1.0, 1e2]),
)
def test_the_trial_merit_parameter_makes_the_step_a_descent_direction(seed, family, m, penalty):
    """Δq(τ) ≥ ½ τ dᵀHd + σ·reduction for every τ ≤ τ_trial, and τ_trial ≥ (1 − σ)/ρ without being forced to."""
    qp = random_qp(seed, family, m, penalty)
    solution = qp.solve()
    reduction = float(qp.violations(np.zeros(qp.g.size)).sum()) - solution.violation
    increase = solution.slope + solution.curvature
    terms = abs(solution.slope) + solution.curvature + penalty * (abs(reduction) + solution.violation)
    rounding = 1e-9 * terms + 1e-12
    assert increase <= penalty * reduction + rounding
    tau = min(trial_merit_parameter(solution.slope, solution.curvature, reduction, 0.1, penalty), 10.0)
    decrease = model_reduction(tau, solution.slope, solution.curvature, reduction)
    assert decrease >= 0.5 * tau * solution.curvature + 0.1 * reduction - rounding * (1 + tau)
