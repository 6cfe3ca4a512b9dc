"""`Evaluation` and `Jacobian`: shapes, values, and errors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tests.sqp.textbook import TEXTBOOK

from fairbound.sqp import Evaluation, Jacobian, Problem, Status, kkt_residuals, violation

ONE = np.ones(1)


def evaluation(**changes) -> Evaluation:
    parts = {
        "f": 0.0,
        "g": np.zeros(3),
        "c": np.zeros(2),
        "J": np.zeros((2, 3)),
        "lower": np.full(2, -math.inf),
        "upper": np.zeros(2),
    }
    return Evaluation(**{**parts, **changes})


def test_factored_jacobian_is_its_matrix():
    rng = np.random.default_rng(0)
    J = Jacobian(rng.normal(size=(5, 2)).astype(np.float32), rng.normal(size=(2, 4)))
    d, y = rng.normal(size=4), rng.normal(size=5)
    assert J.shape == (5, 4)
    assert J.matrix().dtype == np.float64
    np.testing.assert_allclose(J.product(d), J.matrix() @ d, rtol=1e-13)
    np.testing.assert_allclose(J.transpose_product(y), J.matrix().T @ y, rtol=1e-13)
    np.testing.assert_array_equal(Jacobian.dense(J.matrix()).matrix(), J.matrix())


def test_violation_counts_what_lies_beyond_and_nothing_else():
    c = np.array([2.0, -3.0, 0.5, 7.0])
    lower = np.array([-math.inf, -1.0, 0.0, -math.inf])
    upper = np.array([1.0, 1.0, 1.0, math.inf])
    assert violation(c, lower, upper) == 3.0
    assert evaluation(c=np.array([1.0, -5.0])).violation == 1.0


def test_evaluation_takes_lists_arrays_and_tensors_and_copies_them():
    c = torch.zeros(2, dtype=torch.float64)
    held = evaluation(f=torch.tensor(2.5), c=c, g=np.zeros(3, dtype=np.float32), lower=[-1, -1])
    c += 1.0  # parameters may move under a view of them
    assert held.f == 2.5
    assert held.c.tolist() == [0.0, 0.0]
    assert all(type(part) is np.ndarray for part in (held.g, held.c, held.lower))
    assert held.g.dtype == held.c.dtype == held.lower.dtype == np.float64


def test_no_constraints_at_all():
    held = Evaluation(1.0, np.ones(3), np.zeros(0), np.zeros((0, 3)), np.zeros(0), np.zeros(0))
    assert held.violation == 0.0
    assert kkt_residuals(held, np.zeros(0)).largest == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"f": math.nan}, "f is nan; check the model's outputs"),
        ({"f": math.inf}, "f is inf"),
        ({"g": np.array([1.0, math.nan, 0.0])}, "g has 1 entries .*out of 3"),
        ({"c": np.array([math.inf, 0.0])}, "c has 1 entries that are NaN or infinite"),
        ({"J": np.full((2, 3), math.nan)}, r"J \(basis\) has 6 entries"),
        ({"J": Jacobian(np.full((2, 1), math.inf), np.ones((1, 3)))}, r"J \(rows\) has 2 entries"),
        ({"J": np.zeros((3, 3))}, r"J has shape \(3, 3\), but c has 2 and g has 3 entries"),
        ({"g": np.zeros((3, 1))}, r"g must be a one-dimensional array, got the shape \(3, 1\)"),
        ({"c": 0.0}, r"c must be a one-dimensional array, got the shape \(\)"),
        ({"lower": np.zeros(3)}, "lower has 3 entries, but c has 2"),
        ({"lower": np.array([0.0, 1.0])}, r"row 1 .*\[1.0, 0.0\]"),
        ({"upper": np.array([math.nan, 1.0])}, "bounds of row 0"),
        ({"lower": np.full(2, math.inf), "upper": np.full(2, math.inf)}, "bounds of row 0"),
    ],
)
def test_bad_evaluations_are_refused_with_a_sentence(changes, words):
    with pytest.raises(ValueError, match=words):
        evaluation(**changes)


def test_jacobian_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"rows \(2, 3\) and basis \(2, 4\) do not fit"):
        Jacobian(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"basis must be a two-dimensional array, got the shape \(4,\)"):
        Jacobian(np.zeros((2, 3)), np.zeros(4))
    with pytest.raises(ValueError, match=r"basis must be a two-dimensional array, got the shape \(4,\)"):
        Jacobian.dense(np.zeros(4))
    with pytest.raises(ValueError, match=r"basis must be a two-dimensional array, got the shape \(\)"):
        evaluation(J=0.0)


def test_every_status_has_a_sentence():
    assert {status.name for status in Status} == {
        "CONVERGED",
        "FEASIBLE",
        "INFEASIBLE",
        "MAX_ITERATIONS",
        "DEGENERATE",
    }
    assert all(status.message.endswith(".") and len(status.message) > 30 for status in Status)
    assert json.dumps({"status": Status.FEASIBLE.value}) == '{"status": "feasible"}'


def test_kkt_residuals_see_each_condition_by_itself():
    # min w² subject to 1 ≤ w ≤ 3, at w = 1 with y = −2: all conditions hold
    held = Evaluation(1.0, 2 * ONE, ONE, ONE[None], ONE, 3 * ONE)
    assert kkt_residuals(held, -2 * ONE).largest == 0.0
    # a multiplier of 0 leaves the gradient 2, scaled by max(1, 2)
    assert kkt_residuals(held, 0 * ONE).stationarity == 1.0
    # a multiplier on the upper side, 2 away, pushes on nothing: 0.5 · 2 / 2
    assert kkt_residuals(held, 0.5 * ONE).complementarity == 0.5
    # violations are relative to the bound where that is large
    far = Evaluation(1.0, 2 * ONE, 33 * ONE, ONE[None], ONE, 30 * ONE)
    assert kkt_residuals(far, 0 * ONE).violation == pytest.approx(0.1)
    # a side that does not exist cannot be pushed on
    open_above = Evaluation(1.0, 2 * ONE, ONE, ONE[None], ONE, math.inf * ONE)
    assert kkt_residuals(open_above, 3 * ONE).complementarity == 1.5
    with pytest.raises(ValueError, match=r"y has shape \(2,\), but c has \(1,\)"):
        kkt_residuals(held, np.zeros(2))


@pytest.mark.parametrize("problem", TEXTBOOK, ids=lambda problem: problem.name)
def test_textbook_optima_are_feasible_and_have_the_printed_value(problem):
    assert isinstance(problem, Problem)
    if problem.optimum is None:
        return
    f, c = problem.values(problem.optimum)
    assert f == pytest.approx(problem.value, rel=1e-5, abs=1e-6)  # the collection prints 7 digits
    assert (
        violation(c, np.array(problem.lower), np.array(problem.upper)) <= 2e-4
    )  # 7 printed digits, times the slopes of cubic and quartic constraints
