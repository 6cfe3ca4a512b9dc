"""The smoothed program: values and both derivatives against finite differences, its limit, and the bandwidths."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound.fairness import Cells
from fairbound.training import L2, LinearModel, LinearTerm, TrainingProblem, assess_now, make_model
from fairbound.training.smoothed import SmoothedProgram, bandwidths, tightened

LIMITS = {
    2: ["disparate_impact >= 0.8", "equalized_odds <= 0.1", "selection_rate[a] >= 0.2"],
    3: ["demographic_parity <= 0.1", "equal_opportunity <= 0.1"],
}


def make_program(
    n_classes: int = 2,
    weighted: bool = False,
    penalty: float = 0.0,
    mixture: float = 0.6,
    width: float = 0.8,
    terms=(),
    **given,
) -> SmoothedProgram:
    random = np.random.default_rng(n_classes)
    n = 120
    groups, labels = np.array(["a", "b"])[np.arange(n) % 2], random.integers(0, n_classes, n)
    X = random.normal(size=(n, 3)) + 0.5 * (groups == "b")[:, None]
    weights = random.uniform(0.5, 2.0, n) if weighted else None
    model = LinearModel(3, 1 if n_classes == 2 else n_classes)
    model.assign(np.random.default_rng(1).normal(size=model.n_parameters))
    cells = Cells.build(labels, groups, weights=weights)
    terms = [*terms, L2(penalty)] if penalty else terms
    problem = TrainingProblem(model, "cross_entropy", LIMITS[n_classes], cells, regularizers=terms)
    return SmoothedProgram(problem, problem.rows(X, loss_weights=weights), width, mixture, **given)


def differences(function, w: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a function of w, with the parameters in the last place."""
    columns = [(function(w + step * e) - function(w - step * e)) / (2 * step) for e in np.eye(len(w))]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("mixture", [0.0, 0.6])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_first_and_second_derivatives(n_classes, weighted, penalty, mixture):
    program = make_program(n_classes, weighted, penalty, mixture)
    w = np.random.default_rng(0).normal(size=len(program.initial_point()))
    here = program.evaluate(w)
    f, c = program.values(w)
    assert here.f == pytest.approx(f, abs=1e-12)
    np.testing.assert_allclose(here.c, c, atol=1e-12)
    np.testing.assert_allclose(here.g, differences(lambda v: program.values(v)[0], w), atol=1e-8)
    np.testing.assert_allclose(here.J.matrix(), differences(lambda v: program.values(v)[1], w), atol=1e-7)
    y = np.random.default_rng(1).normal(size=len(here.c))

    def slope(v: np.ndarray) -> np.ndarray:
        found = program.evaluate(v)
        return found.g + y @ found.J.matrix()

    program.evaluate(w)
    np.testing.assert_allclose(program.hessian(w, y), differences(slope, w), atol=1e-6)


@pytest.mark.parametrize("mixture", [0.0, 0.6])
def test_a_term_of_the_loss_has_the_share_of_the_loss_in_a_mixture(mixture):
    plain = make_program(mixture=mixture)
    w, origin, slope = np.random.default_rng(2).normal(size=(3, len(plain.initial_point())))
    held = make_program(mixture=mixture, terms=[LinearTerm(slope, origin)])
    f, _ = plain.values(w)
    assert held.values(w)[0] == pytest.approx(f + (1 - mixture) * slope @ (w - origin), abs=1e-12)
    np.testing.assert_allclose(held.evaluate(w).g, plain.evaluate(w).g + (1 - mixture) * slope, atol=1e-12)


def test_a_narrow_bandwidth_is_the_decision_itself():
    program = make_program(width=1e-9, mixture=0.5)
    w = program.initial_point()
    f, c = program.values(w)
    found = assess_now(program.problem, program.rows)
    np.testing.assert_allclose(c, found.exact, atol=1e-12)
    assert f == pytest.approx(0.5 * found.loss + 0.5 * (1.0 - found.accuracy), abs=1e-12)


def test_tightened_bounds_do_not_cross():
    lower, upper = np.array([-np.inf, 0.0, 0.5, 0.2, 0.0]), np.array([0.0, np.inf, 0.5, 0.25, 1.0])
    low, high = tightened(lower, upper, np.full(5, 0.1))
    np.testing.assert_allclose(low, [-np.inf, 0.1, 0.5, 0.225, 0.1])
    np.testing.assert_allclose(high, [-0.1, np.inf, 0.5, 0.225, 0.9])


def test_every_evaluation_is_watched_with_its_decisions():
    seen: list[tuple[np.ndarray, float]] = []
    program = make_program(watch=lambda w, found: seen.append((w.copy(), found.accuracy)))
    w = program.initial_point()
    program.evaluate(w)
    program.values(w + 1.0)
    program.evaluate(w + 2.0)
    assert [each.tolist() for each, _ in seen] == [w.tolist(), (w + 2.0).tolist()]


def test_a_network_has_no_exact_hessian():
    assert make_program().hessian is not None
    problem = make_program().problem
    network = TrainingProblem(make_model(3, hidden=(4,)), "cross_entropy", LIMITS[2], problem.cells)
    rows = network.rows(np.zeros((120, 3)))
    assert SmoothedProgram(network, rows, 1.0).hessian is None
    hinge = TrainingProblem(LinearModel(3), "hinge", LIMITS[2], problem.cells)
    assert SmoothedProgram(hinge, rows, 1.0).hessian is None


def test_bandwidths_fall_by_factors_of_three_to_the_largest_of_silverman():
    random = np.random.default_rng(0)
    groups, labels = np.array(["a", "b", "b"])[np.arange(300) % 3], random.integers(0, 2, 300)
    z = random.normal(size=300) * np.where(groups == "a", 5.0, 1.0)
    problem = TrainingProblem(LinearModel(1), "cross_entropy", LIMITS[2], Cells.build(labels, groups))
    problem.assign(np.array([1.0, 0.0]))
    widths = bandwidths(problem, problem.rows(z[:, None]))
    assert widths[-1] == pytest.approx(1.06 * z[groups == "a"].std() * 100**-0.2)
    cells = [np.abs(z[(groups == g) & (labels == y)]).mean() for g in "ab" for y in (0, 1)]
    assert widths[0] == pytest.approx(max(max(cells) / 1.5, widths[-1]))
    ratios = np.array(widths[:-1]) / np.array(widths[1:])
    assert (ratios > 1.0).all()
    assert (ratios <= 3.0 + 1e-9).all()
