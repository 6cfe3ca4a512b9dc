"""Random search among small models: it evaluates what a fit evaluates, and finds what derivatives do not lead to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.fairness import Cells
from fairbound.training import L2, Effort, SmoothedL1, SquaredMeasure, TrainingProblem, fit, make_model
from fairbound.training.effort import TINY_EFFORT
from fairbound.training.random_search import ManyModelsProblem, search_kept_model, suits_random_search
from fairbound.training.stages import find_free_optimum
from fairbound.training.state import FitState
from fairbound.training.trainer import assess_now


def planted(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    group, X = random.integers(0, 2, n), random.normal(size=(n, d))
    X[:, 0] += 0.8 * group
    y = X[:, 0] + 0.5 * X[:, 1] + 0.5 * random.normal(size=n) > 0.5
    return (X - X.mean(axis=0)) / X.std(axis=0), y.astype(int), group


def make_problem(
    module: nn.Module, y: np.ndarray, group: np.ndarray, limits="disparate_impact >= 0.9", **options
) -> TrainingProblem:
    options = {"regularizers": [L2(1e-2), SmoothedL1(1e-3)], **options}
    return TrainingProblem(module.to(torch.float64), "cross_entropy", limits, Cells.build(y, group), **options)


MODULES = {
    "linear": lambda k: make_model(3, k),
    "hidden layers": lambda k: make_model(3, k, hidden=(4, 2)),
    "own": lambda k: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1 if k == 2 else k)),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODULES)
def test_many_models_are_assessed_as_one_model_is(name, classes):
    X, y, group = planted(120, 3, 0)
    if classes == 3:
        y = y + (X[:, 2] > 1)
    limits = ["disparate_impact >= 0.9", "predictive_parity <= 0.1"]
    problem = make_problem(MODULES[name](classes), y, group, limits)
    weights = 1.0 + np.arange(120) % 4
    rows = problem.rows(X, loss_weights=weights)
    W = torch.randn(6, problem.n_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    evaluate = ManyModelsProblem(problem, rows)
    found, kept = evaluate(W), evaluate(W, only_kept=True)
    for position, w in enumerate(W):
        problem.assign(w)
        alone = assess_now(problem, rows)
        assert float(found.objective[position]) == pytest.approx(alone.objective)
        assert 1.0 - float(found.error[position]) == pytest.approx(alone.accuracy)
        assert float(found.violation[position]) == pytest.approx(alone.exact_violation, abs=1e-12)
    assert len(kept.W) == int((found.violation <= 1e-12).sum())


def test_none_of_many_models_keeps_the_limits_on_rows_in_several_chunks():
    X, y, group = planted(300, 3, 0)
    problem = TrainingProblem(
        nn.Linear(3, 1).double(),
        "cross_entropy",
        "disparate_impact >= 0.9999999",
        Cells.build(y, group),
        chunk_rows=100,
    )
    W = torch.tensor([[1.0, 0.0, 0.0, bias] for bias in (-0.4, -0.2, 0.0, 0.2)], dtype=torch.float64)
    found = ManyModelsProblem(problem, problem.rows(X))(W, only_kept=True)
    assert len(found.W) == len(found.objective) == len(found.error) == 0


def test_it_finds_the_branch_that_selects_more_rows():
    """Derivatives lead to 0.571 or more: there the inputs that differ by group lose their weight.

    Selecting more rows of both groups keeps the same ratio at a smaller loss.
    """
    X, y, group = planted(500, 3, 2)
    problem = make_problem(make_model(3), y, group, regularizers=[L2(1e-5)])
    result = fit(problem, X)
    assert result.assessment.kept
    assert result.least_loss <= 0.545
    assert "search" in {row["phase"] for row in result.history}


@pytest.mark.parametrize(
    ("suits", "effort", "options"),
    [
        (True, TINY_EFFORT, {}),
        (False, Effort(), {}),
        (False, TINY_EFFORT, {"module": make_model(3, hidden=(20,))}),
        (False, TINY_EFFORT, {"regularizers": [SquaredMeasure("demographic_parity")]}),
    ],
    ids=["few", "one start", "many parameters", "squared measure"],
)
def test_it_is_for_few_parameters(suits, effort, options):
    X, y, group = planted(100, 3, 0)
    problem = make_problem(options.pop("module", make_model(3)), y, group, **options)
    assert suits_random_search(FitState(problem, X, None, effort, None), problem) is suits


def test_a_model_that_misses_its_limit_by_a_few_rows_is_mended():
    X, y, group = planted(400, 3, 1)
    problem = make_problem(make_model(3), y, group, regularizers=[L2(1e-5)])
    result = fit(problem, X, effort=Effort())
    assert result.assessment.kept
    state = FitState(problem, X, None, Effort(), None)
    kept = problem.current()
    for shift in np.linspace(0.0, 0.5, 200):  # move the output until the limit is just missed
        state.w = kept - torch.tensor([0.0, 0.0, 0.0, shift])
        missed = state.begin(problem, 0.05)
        if not missed.kept:
            break
    assert 0 < missed.exact_violation < 0.01
    search_kept_model(state, problem)
    assert state.candidates.least().assessment.loss == pytest.approx(missed.loss, rel=0.02)


def test_a_limit_that_is_far_away_is_no_matter_of_a_few_rows():
    X, y, group = planted(400, 3, 1)
    problem = make_problem(make_model(3), y, group)
    state = FitState(problem, X, None, Effort(), None)
    find_free_optimum(state)
    assert state.begin(problem, 0.05).exact_violation > 0.05
    before = state.value_evaluations
    search_kept_model(state, problem)
    assert state.value_evaluations == before


@pytest.mark.parametrize(("beyond", "searches"), [(0.005, False), (0.2, True)])
def test_there_is_no_search_if_the_limit_costs_almost_nothing(beyond, searches):
    """No model has a lower loss than the free one, so a search could gain only the difference."""
    X, y, group = planted(400, 2, 0)
    free = fit(make_problem(make_model(2), y, group, "disparate_impact >= 0.01"), X).assessment.measured[0]
    result = fit(make_problem(make_model(2), y, group, f"disparate_impact >= {free + beyond}"), X)
    assert result.assessment.kept
    assert ("search" in {row["phase"] for row in result.history}) is searches
