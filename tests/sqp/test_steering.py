"""The rule for the penalty: it raises a penalty that is too small, and recognises infeasibility."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairbound.sqp.diagonal import Identity
from fairbound.sqp.problem import Evaluation
from fairbound.sqp.qp import solve_qp
from fairbound.sqp.steering import LARGEST, steered_step


def vector(*values: float) -> np.ndarray:
    return np.array(values)


def at_penalty_minimiser(rho: float) -> Evaluation:
    """min ½(w − 5)² subject to w ≤ 0 has the multiplier 5; at ρ < 5 its penalty function is least at w = 5 − ρ > 0."""
    w = 5.0 - rho
    return Evaluation(0.5 * (w - 5) ** 2, vector(w - 5), vector(w), np.ones((1, 1)), vector(-math.inf), vector(0.0))


def test_with_the_penalty_below_the_true_multiplier_the_plain_step_is_stuck_at_a_violating_point():
    here = at_penalty_minimiser(2.0)
    stuck = solve_qp(here.g, Identity(), here.c, here.J, here.lower, here.upper, penalty=2.0)
    assert stuck.d.item() == pytest.approx(0.0, abs=1e-12)
    assert stuck.violation == pytest.approx(here.violation)


def test_steering_raises_the_penalty_until_the_step_moves_to_feasibility():
    steered = steered_step(at_penalty_minimiser(2.0), Identity(), 2.0)
    assert steered.solution.penalty == 20.0  # one raise: tenfold, and above the multiplier 5
    assert not steered.locally_infeasible
    assert not steered.solution.elastic
    assert steered.solution.d.item() == pytest.approx(-3.0)
    assert steered.solution.y.item() == pytest.approx(5.0)


def test_a_penalty_that_serves_is_left_alone():
    assert steered_step(at_penalty_minimiser(2.0), Identity(), 7.0).solution.penalty == 7.0
    # elastic, but a tenth of the violation is gained: 2.9 of 3
    enough = steered_step(at_penalty_minimiser(2.0), Identity(), 4.9)
    assert enough.solution.elastic
    assert enough.solution.penalty == 4.9


def test_a_feasible_point_is_not_left_for_a_violating_one():
    # At w = 0 the constraint holds; with ρ = 1 the elastic step would leave it for f's sake.
    here = Evaluation(12.5, vector(-5.0), vector(0.0), np.ones((1, 1)), vector(-math.inf), vector(0.0))
    steered = steered_step(here, Identity(), 1.0)
    assert steered.solution.violation == pytest.approx(0.0, abs=1e-12)
    assert steered.solution.penalty == 10.0


def test_contradictory_rows_are_locally_infeasible():
    # w ≤ −1 and w ≥ 1 at w = 0: the violation is 2 whatever the step, so raising the penalty is no help
    here = Evaluation(
        0.0, vector(0.3), vector(0.0, 0.0), np.ones((2, 1)), vector(-math.inf, 1.0), vector(-1.0, math.inf)
    )
    steered = steered_step(here, Identity(), 5.0)
    assert steered.locally_infeasible
    assert steered.solution.penalty == 5.0
    assert steered.solution.violation == pytest.approx(2.0)


def test_a_flat_violated_constraint_is_locally_infeasible():
    here = Evaluation(0.0, vector(0.0), vector(1.0), np.zeros((1, 1)), vector(-math.inf), vector(0.0))
    assert steered_step(here, Identity(), 1.0).locally_infeasible


def test_an_inconsistent_linearisation_is_not_yet_infeasibility():
    # Rows w ≤ −1 and w ≥ 1 at w = 9: no step satisfies both, but the violation can fall from 10 to 2.
    here = Evaluation(
        0.0, vector(0.0), vector(9.0, 9.0), np.ones((2, 1)), vector(-math.inf, 1.0), vector(-1.0, math.inf)
    )
    steered = steered_step(here, Identity(), 1e-3)
    assert not steered.locally_infeasible
    assert steered.solution.violation <= 10 - 0.1 * 8
    assert steered.solution.penalty > 1e-3


def test_at_the_cap_the_point_is_reported_as_locally_infeasible():
    # As `at_penalty_minimiser`, with a multiplier beyond the largest penalty
    here = Evaluation(0.0, vector(-LARGEST), vector(1.0), np.ones((1, 1)), vector(-math.inf), vector(0.0))
    steered = steered_step(here, Identity(), 2.0)
    assert steered.locally_infeasible
    assert steered.solution.penalty == LARGEST
