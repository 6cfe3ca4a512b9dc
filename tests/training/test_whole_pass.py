"""The training problem as a function of a flat vector: its options for values, objective and anchor."""

import pytest
import torch

from fairbound.data import make_disparate_data
from fairbound.fairness import Cells
from fairbound.sqp import QuasiNewtonSQP
from fairbound.training import TrainingProblem, fit, make_model
from fairbound.training.trainer import assess_now
from fairbound.training.whole_pass import NEARNESS, WholePassProblem


@pytest.fixture
def problem_and_rows():
    data = make_disparate_data(2000, base_rates={"a": 0.3, "b": 0.7}, seed=0).dataset
    cells = Cells.build(data.y, data.sensitive)
    module = make_model(data.X.shape[1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    problem = TrainingProblem(module, "binary_cross_entropy", "disparate_impact >= 0.9", cells)
    return problem, problem.rows(data.X)


def test_exact_values_are_those_of_the_decisions(problem_and_rows):
    problem, rows = problem_and_rows
    whole = WholePassProblem(problem, rows, exact=True)
    w = problem.current()
    evaluation = whole.evaluate(w)
    torch.testing.assert_close(evaluation.c, assess_now(problem, rows).exact, rtol=0, atol=0)
    f, c = whole.values(w)
    assert f == pytest.approx(evaluation.f, rel=1e-12)
    torch.testing.assert_close(c, evaluation.c, rtol=0, atol=0)


def test_each_row_of_the_history_belongs_to_the_model_that_callbacks_see(problem_and_rows):
    """A solver evaluates the next point before it records the present one."""
    problem, rows = problem_and_rows
    seen = []

    def watch(row):
        found = assess_now(problem, rows)
        seen.append((row["phase"], row["loss"], found.loss, row["accuracy"], found.accuracy))

    fit(problem, rows, callback=watch)
    assert {phase for phase, *_ in seen} >= {"free", "coarse", "exact"}
    for phase, loss, found_loss, accuracy, found_accuracy in seen:
        if phase != "search":  # it draws many models at once
            assert loss == pytest.approx(found_loss, rel=1e-12)
            assert accuracy == found_accuracy


def test_a_margin_moves_the_aim_inside(problem_and_rows):
    problem, rows = problem_and_rows
    w = problem.current()
    plain, inside = (WholePassProblem(problem, rows, margin=margin).evaluate(w) for margin in (0.0, 0.01))
    torch.testing.assert_close(plain.upper - inside.upper, torch.full_like(plain.upper, 0.01))


def test_the_distance_from_an_anchor_and_its_gradient(problem_and_rows):
    problem, rows = problem_and_rows
    w = problem.current()
    anchor = w + torch.linspace(-1.0, 1.0, len(w), dtype=torch.float64)
    whole = WholePassProblem(problem, rows, anchor=anchor)
    evaluation = whole.evaluate(w)
    assert evaluation.f == pytest.approx(0.5 * NEARNESS * float((w - anchor) @ (w - anchor)))
    step = 1e-3 * torch.ones_like(w)
    ahead, behind = whole.values(w + step)[0], whole.values(w - step)[0]
    # A quadratic: the central difference is exact up to rounding.
    assert (ahead - behind) / 2 == pytest.approx(float(evaluation.g @ step), rel=1e-9)


def test_with_an_anchor_the_nearest_point_within_the_limits_is_found(problem_and_rows):
    """By surrogate the limits are smooth: the solution meets them, and moves no farther than it must."""
    problem, rows = problem_and_rows
    w = torch.randn(problem.n_parameters, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    whole = WholePassProblem(problem, rows, anchor=w)
    start = whole.evaluate(w)
    assert float((start.c - start.upper).max()) > 0.01  # it begins outside
    # At the solution the gradient is of the size NEARNESS, so the tolerance is below that.
    solution = QuasiNewtonSQP(tolerance=1e-7, max_iterations=300).solve(whole, w)
    end = whole.evaluate(solution.w)
    assert float((end.c - end.upper).max()) <= 1e-6
    # Nearest: the way there is a combination of the normals of the limits that are met.
    normals = end.J.rows @ end.J.basis
    way = w - solution.w
    fitted = normals.T @ torch.linalg.lstsq(normals.T, way[:, None]).solution
    assert float((fitted[:, 0] - way).norm() / way.norm()) < 0.05
