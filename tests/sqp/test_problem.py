"""`Evaluation` and `Jacobian`: shapes, values, and errors."""

from __future__ import annotations

import json
import math

import pytest
import torch
from tests.sqp.textbook import TEXTBOOK

from fairbound.sqp import Evaluation, Jacobian, Problem, Status, kkt_residuals, violation

ONE = torch.ones(1, dtype=torch.float64)


def evaluation(**changes) -> Evaluation:
    parts = {
        "f": 0.0,
        "g": torch.zeros(3),
        "c": torch.zeros(2),
        "J": torch.zeros(2, 3),
        "lower": torch.full((2,), -math.inf),
        "upper": torch.zeros(2),
    }
    return Evaluation(**{**parts, **changes})


def test_factored_jacobian_is_its_matrix():
    generator = torch.Generator().manual_seed(0)
    J = Jacobian(torch.randn(5, 2, generator=generator), torch.randn(2, 4, generator=generator))
    d, y = torch.randn(4, generator=generator).double(), torch.randn(5, generator=generator).double()
    assert J.shape == (5, 4)
    assert J.matrix().dtype == torch.float64
    torch.testing.assert_close(J.product(d), J.matrix() @ d)
    torch.testing.assert_close(J.transpose_product(y), J.matrix().T @ y)
    torch.testing.assert_close(Jacobian.dense(J.matrix()).matrix(), J.matrix())


def test_violation_counts_what_lies_beyond_and_nothing_else():
    c = torch.tensor([2.0, -3.0, 0.5, 7.0])
    lower = torch.tensor([-math.inf, -1.0, 0.0, -math.inf])
    upper = torch.tensor([1.0, 1.0, 1.0, math.inf])
    assert violation(c, lower, upper) == 3.0
    assert evaluation(c=torch.tensor([1.0, -5.0])).violation == 1.0


def test_evaluation_takes_tensors_of_any_float_type_and_copies_them():
    c = torch.zeros(2, dtype=torch.float64)
    held = evaluation(f=torch.tensor(2.5, requires_grad=True), c=c)
    c += 1.0  # parameters may move under a view of them
    assert held.f == 2.5
    assert held.c.tolist() == [0.0, 0.0]
    assert held.g.dtype == held.lower.dtype == torch.float64


def test_no_constraints_at_all():
    held = Evaluation(1.0, torch.ones(3), torch.zeros(0), torch.zeros(0, 3), torch.zeros(0), torch.zeros(0))
    assert held.violation == 0.0
    assert kkt_residuals(held, torch.zeros(0, dtype=torch.float64)).largest == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"f": math.nan}, "f is nan; check the model's outputs"),
        ({"f": math.inf}, "f is inf"),
        ({"g": torch.tensor([1.0, math.nan, 0.0])}, "g has 1 entries .*out of 3"),
        ({"c": torch.tensor([math.inf, 0.0])}, "c has 1 entries that are NaN or infinite"),
        ({"J": torch.full((2, 3), math.nan)}, r"J \(basis\) has 6 entries"),
        ({"J": Jacobian(torch.full((2, 1), math.inf), torch.ones(1, 3))}, r"J \(rows\) has 2 entries"),
        ({"J": torch.zeros(3, 3)}, r"J has shape \(3, 3\), but c has 2 and g has 3 entries"),
        ({"g": torch.zeros(3, 1)}, r"g must be a one-dimensional tensor, got \(3, 1\)"),
        ({"c": [0.0, 0.0]}, "c must be a one-dimensional tensor, got list"),
        ({"lower": torch.zeros(3)}, "lower has 3 entries, but c has 2"),
        ({"lower": torch.tensor([0.0, 1.0])}, r"row 1 .*\[1.0, 0.0\]"),
        ({"upper": torch.tensor([math.nan, 1.0])}, "bounds of row 0"),
        ({"lower": torch.full((2,), math.inf), "upper": torch.full((2,), math.inf)}, "bounds of row 0"),
    ],
)
def test_bad_evaluations_are_refused_with_a_sentence(changes, words):
    with pytest.raises(ValueError, match=words):
        evaluation(**changes)


def test_jacobian_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"rows \(2, 3\) and basis \(2, 4\) do not fit"):
        Jacobian(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"basis must be a two-dimensional tensor, got \(4,\)"):
        Jacobian(torch.zeros(2, 3), torch.zeros(4))
    with pytest.raises(ValueError, match=r"Jacobian.dense: expected a two-dimensional tensor, got \(4,\)"):
        Jacobian.dense(torch.zeros(4))
    with pytest.raises(TypeError, match="J must be a Jacobian or a tensor, got list"):
        evaluation(J=[[0.0]])


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
        kkt_residuals(held, torch.zeros(2))


@pytest.mark.parametrize("problem", TEXTBOOK, ids=lambda problem: problem.name)
def test_textbook_optima_are_feasible_and_have_the_printed_value(problem):
    assert isinstance(problem, Problem)
    if problem.optimum is None:
        return
    f, c = problem.values(torch.tensor(problem.optimum, dtype=torch.float64))
    assert f == pytest.approx(problem.value, rel=1e-5, abs=1e-6)  # the collection prints 7 digits
    bounds = (torch.tensor(side, dtype=torch.float64) for side in (problem.lower, problem.upper))
    assert violation(c, *bounds) <= 2e-4  # 7 printed digits, times the slopes of cubic and quartic constraints
