"""The safeguards of the QP and of the merit rules, each with a case that needs it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fairbound.sqp import Evaluation, FixedStep, Jacobian, StochasticSQP
from fairbound.sqp.core import Core
from fairbound.sqp.diagonal import Identity
from fairbound.sqp.merit import model_reduction, trial_merit_parameter
from fairbound.sqp.qp import solve_qp
from fairbound.sqp.reduced_qp import hard_multipliers

INF = math.inf


def vector(*values: float) -> np.ndarray:
    return np.array(values)


def test_a_violated_row_without_a_gradient_is_priced_and_reported() -> None:
    """No step reduces it: the hard QP says so by its penalty, instead of leaving the row out without a word."""
    J = Jacobian.dense([[0.0, 0.0], [1.0, 0.0]])
    solution = solve_qp(vector(1.0, 1.0), Identity(), vector(2.0, 0.0), J, vector(-INF, -INF), vector(1.0, 1.0))
    assert solution.elastic
    assert math.isfinite(solution.penalty)
    assert float(solution.y[0]) == solution.penalty
    assert solution.violation == pytest.approx(1.0)
    assert solution.is_optimal()


def test_inconsistent_hard_rows_are_violated_as_little_as_possible() -> None:
    """d ≤ −1 and d ≥ 1 leave a violation of 2; an objective that pulls with 1,000 must not make it more."""
    J = Jacobian.dense([[1.0], [1.0]])
    solution = solve_qp(vector(-1e3), Identity(), vector(0.0, 0.0), J, vector(-INF, 1.0), vector(-1.0, INF))
    assert solution.elastic
    assert solution.penalty >= 1e3
    assert solution.violation == pytest.approx(2.0, rel=1e-9)


def test_a_row_whose_terms_cancel_has_no_gradient() -> None:
    """Two gradients that agree to rounding leave a difference of rounding, which is no direction to go."""
    basis = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0 + 1e-14]]
    core = Core(Identity(), Jacobian([[1.0, -1.0], [1.0, 1.0], [1.0, 0.0]], basis))
    assert core.live.tolist() == [False, True, True]


def test_multipliers_of_low_accuracy_are_polished(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver of the reduced problem may leave residuals, as DAQP does on dependent rows; the step must not."""

    def inaccurate(W: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray | None:
        multipliers = hard_multipliers(W, lower, upper)
        return None if multipliers is None else (1.0 + 1e-6) * multipliers

    monkeypatch.setattr("fairbound.sqp.qp.hard_multipliers", inaccurate)
    J = Jacobian.dense([[1.0, 0.5], [0.2, 1.0]])
    solution = solve_qp(vector(-3.0, -2.0), Identity(), vector(0.5, 0.4), J, vector(-INF, -INF), vector(0.0, 0.0))
    assert float(solution.y.min()) > 0.1  # both rows are active
    assert solution.is_optimal(1e-10)


def test_the_ratio_parameter_belongs_to_the_new_merit_parameter() -> None:
    """ξ_trial = Δq/(τ‖d‖²) with the τ that the same step has lowered, in Δq and in the quotient."""
    w = torch.zeros(2, dtype=torch.float64)
    evaluation = Evaluation(
        f=0.0, g=vector(-3.0, 1.0), c=vector(1.0), J=vector(1.0, 0.5)[None], lower=vector(-INF), upper=vector(0.0)
    )
    optimizer = StochasticSQP(
        [w], hessian=Identity(), step_length=FixedStep(), merit_parameter=10.0, ratio_parameter=5.0, penalty=1e6
    )
    record = optimizer.step(lambda: evaluation)
    solution = solve_qp(
        evaluation.g, Identity(), evaluation.c, evaluation.J, evaluation.lower, evaluation.upper, penalty=1e6
    )
    reduction = evaluation.violation - solution.violation
    tau = trial_merit_parameter(solution.slope, solution.curvature, reduction, 0.1, 1e6)
    assert tau < 0.99 * 10.0
    assert record.merit_parameter == pytest.approx(tau)
    decrease = model_reduction(tau, solution.slope, solution.curvature, reduction)
    expected = decrease / (tau * float(solution.d @ solution.d))
    assert expected < 0.99 * 5.0
    assert record.ratio_parameter == pytest.approx(expected)
