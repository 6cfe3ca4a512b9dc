"""Rules for the step length: the projection by hand, Lipschitz estimates on functions whose constants are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairbound.sqp.problem import Evaluation, Jacobian
from fairbound.sqp.step_length import AdaptiveStep, FixedStep, StepModel


def rule_with(lipschitz_objective: float, lipschitz_constraints: float, width: float = 1e4) -> AdaptiveStep:
    rule = AdaptiveStep(width=width)
    rule.lipschitz_objective, rule.lipschitz_constraints = lipschitz_objective, lipschitz_constraints
    return rule


@pytest.mark.parametrize("rule", [AdaptiveStep, FixedStep])
def test_every_rule_gives_a_length_between_0_and_1(rule):
    assert 0.0 < rule().choose(StepModel(0.5, 0.1, 1.0, 1.0, 1.0)) <= 1.0


def test_adaptive_rule_by_hand():
    # τL + Γ = 0.1·20 + 3 = 5; β Δq / (5·‖d‖²) = 0.5·8 / (5·4) = 0.2
    model = StepModel(learning_rate=0.5, merit_parameter=0.1, ratio_parameter=1.0, model_decrease=8.0, step_norm=2.0)
    assert rule_with(20.0, 3.0).choose(model) == pytest.approx(0.2)
    # a narrow interval projects it on α_min + θβ² = 0.5·1·0.1/5 + 0.1·0.25 = 0.035
    assert rule_with(20.0, 3.0, width=0.1).choose(model) == pytest.approx(0.035)


def test_adaptive_rule_never_falls_below_its_deterministic_bound():
    model = StepModel(1.0, 0.1, ratio_parameter=1.0, model_decrease=1e-9, step_norm=1.0)
    assert rule_with(20.0, 3.0).choose(model) == pytest.approx(0.1 / 5.0)


def test_adaptive_rule_at_its_ends():
    rule = rule_with(1e-12, 1e-12)
    assert rule.choose(StepModel(1.0, 0.1, 1.0, 1.0, 1.0)) == 1.0
    assert rule.choose(StepModel(1.0, 0.1, 1.0, 0.0, 0.0)) == 1.0
    assert rule.choose(StepModel(1.0, 0.1, 1.0, -1.0, 1.0)) == 0.0


def quadratic_evaluation(w: np.ndarray) -> Evaluation:
    """f = ½·4·w₁² + ½·w₂², c = (w₁², w₁w₂) written over a basis of three gradients."""
    a, b = w.tolist()
    basis = np.array([[2 * a, 0.0], [b, 0.0], [0.0, a]])
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    bounds = np.full(2, math.inf)
    return Evaluation(0.0, [4 * w[0], w[1]], np.zeros(2), Jacobian(rows, basis), -bounds, bounds)


def test_lipschitz_estimates_of_quadratics_are_exact_along_the_direction():
    w = np.array([1.0, 2.0])
    u = np.array([0.6, 0.8])
    h = 1e-4
    rule = AdaptiveStep()
    rule.observe(quadratic_evaluation(w), quadratic_evaluation(w + h * u), h * u)
    assert rule.lipschitz_objective == pytest.approx(4 * 0.36 + 0.64, rel=1e-9)
    # uᵀ∇²c_j u of w₁² and of w₁w₂
    assert rule.lipschitz_constraints == pytest.approx(2 * 0.36 + 2 * 0.48, rel=1e-9)


def test_curvature_across_the_step_does_not_count():
    # f = 50 w₁², c = w₁²: along (0, 1) both are flat, and the gradient there does not change along the step.
    def evaluation(w: np.ndarray) -> Evaluation:
        bounds = np.full(1, math.inf)
        return Evaluation(0.0, [100 * w[0] + w[1], w[0]], np.zeros(1), [[2 * w[0], 0.0]], -bounds, bounds)

    rule = AdaptiveStep()
    w, change = np.array([1.0, 2.0]), np.array([0.0, 0.1])
    rule.observe(evaluation(w), evaluation(w + change), change)
    assert rule.lipschitz_objective < 1e-9
    assert rule.lipschitz_constraints < 1e-9


def test_estimates_are_due_every_so_often_and_never_for_the_fixed_rule():
    rule = AdaptiveStep(every=3, displacement=1e-3)
    assert [rule.displacement(k) for k in range(4)] == [1e-3, 0.0, 0.0, 1e-3]
    assert FixedStep().displacement(0) == 0.0
    rule.observe(*[quadratic_evaluation(np.ones(2))] * 2, np.zeros(2))  # a step that rounded to nothing teaches nothing
    assert vars(rule) == vars(AdaptiveStep(every=3, displacement=1e-3))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: AdaptiveStep(every=0), r"AdaptiveStep\(every=0\).*at least 1"),
        (lambda: AdaptiveStep(displacement=0.0), r"AdaptiveStep\(displacement=0.0\): must be a finite number above 0"),
        (lambda: AdaptiveStep(width=math.inf), r"AdaptiveStep\(width=inf\)"),
    ],
)
def test_misuse_is_refused_with_a_sentence(build, words):
    with pytest.raises(ValueError, match=words):
        build()
