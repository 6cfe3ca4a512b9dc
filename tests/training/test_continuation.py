"""The continuation: its phases, what it leaves in the module, and what it does when it is stopped."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fairbound.data import make_disparate_data
from fairbound.fairness import Cells
from fairbound.sqp import Status
from fairbound.training import (
    L2,
    PHASES,
    Effort,
    LinearModel,
    TrainingProblem,
    assess_now,
    fit,
    frontier,
    make_model,
    tighten,
)

DATA = make_disparate_data(1000, base_rates={"a": 0.6, "b": 0.3}, seed=0).dataset
LIMIT = "disparate_impact >= 0.9"


def make_problem(limit=LIMIT, hidden=(), dtype=torch.float64, X=DATA.X) -> TrainingProblem:
    module = make_model(X.shape[1], hidden=hidden, generator=torch.Generator().manual_seed(0), dtype=dtype)
    return TrainingProblem(module, "cross_entropy", limit, Cells.build(DATA.y, DATA.groups()), regularizers=[L2(1e-4)])


def phases(result) -> list[str]:
    return list(dict.fromkeys(row["phase"] for row in result.iterations))


@pytest.mark.parametrize("hidden", [(), (4,)], ids=["linear", "network"])
def test_the_phases_in_their_order_lead_to_a_limit_kept_with_few_rows_to_spare(hidden):
    problem = make_problem(hidden=hidden)
    result = fit(problem, DATA.X)
    order = list(PHASES)
    assert phases(result) == [name for name in order if name in phases(result)]
    assert {"free", "limits", "accuracy"} <= set(phases(result))
    assert result.assessment.kept
    assert 0.9 <= result.assessment.measured[0] < (0.95 if hidden else 0.92)  # features of 4 units have ties
    assert assess_now(problem, problem.rows(DATA.X)).accuracy == result.assessment.accuracy
    assert result.assessment.accuracy < result.free.accuracy
    assert np.abs(result.multipliers).max() > 0.0


def test_a_limit_that_costs_nothing_ends_after_the_free_phase():
    result = fit(make_problem("disparate_impact >= 0.05"), DATA.X)
    assert phases(result) == ["free"]
    assert result.status is Status.CONVERGED
    assert result.assessment.accuracy == result.free.accuracy


def test_rescaled_rows_and_another_order_give_the_same_model():
    accuracies, ratios = [], []
    for factor, order in ((1.0, slice(None)), (1.0, slice(None, None, -1)), (1.0 + 1e-9, slice(None))):
        cells = Cells.build(DATA.y[order], DATA.groups()[order])
        module = make_model(DATA.X.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        problem = TrainingProblem(module, "cross_entropy", LIMIT, cells, regularizers=[L2(1e-4)])
        found = fit(problem, factor * DATA.X[order]).assessment
        accuracies.append(found.accuracy)
        ratios.append(found.measured[0])
    assert np.ptp(accuracies) <= 2e-3  # two rows
    assert np.ptp(ratios) <= 5e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("call", [fit, tighten, lambda problem, X: frontier(problem, X, [0.8, 0.9])])
def test_every_call_leaves_the_module_in_its_precision(call, dtype):
    problem = make_problem(dtype=dtype)
    call(problem, DATA.X)
    assert {parameter.dtype for parameter in problem.module.parameters()} == {dtype}


def test_a_stated_precision_is_that_of_the_module_afterwards_and_the_limits_are_kept_in_it():
    problem = make_problem(dtype=torch.float32)
    result = fit(problem, DATA.X, precision=np.float64)
    assert {parameter.dtype for parameter in problem.module.parameters()} == {torch.float64}
    assert result.assessment.kept
    assert assess_now(problem, problem.rows(DATA.X)).measured == result.assessment.measured


@pytest.mark.parametrize("last", list(PHASES)[:1] + list(PHASES)[2:])
def test_stopped_in_any_phase_it_leaves_the_best_so_far(last):
    problem = make_problem("disparate_impact >= 0.97")
    result = fit(problem, DATA.X, callback=lambda row: row["phase"] == last)
    assert phases(result)[-1] == last
    assert result.stopped
    assert result.status in (Status.MAX_ITERATIONS, Status.FEASIBLE, Status.DEGENERATE)
    assert assess_now(problem, problem.rows(DATA.X)).measured == result.assessment.measured


def test_an_interrupt_leaves_the_best_so_far_in_the_module():
    problem = make_problem()

    def interrupt(row: dict[str, object]) -> None:
        if row["phase"] == "accuracy":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(problem, DATA.X, callback=interrupt)
    assert assess_now(problem, problem.rows(DATA.X)).kept


def test_many_rows_begin_with_a_sample_whose_passes_do_not_count():
    for sample in (100, 10_000):
        result = fit(make_problem(), DATA.X, effort=Effort(sample=sample))
        assert result.assessment.kept
        assert (result.passes < len(result.iterations)) == (sample == 100)


def test_without_the_mixture_the_loss_is_minimised_alone():
    plain = fit(make_problem(), DATA.X, effort=Effort(mixture=0.0))
    assert "accuracy" not in phases(plain)
    assert plain.assessment.kept


def test_sparse_rows_train_without_becoming_dense(monkeypatch):
    rng = np.random.default_rng(0)
    dense = (rng.random((200, 5)) < 0.3) * rng.normal(size=(200, 5))
    cells = Cells.build((dense[:, 0] + 0.3 * rng.normal(size=200) > 0).astype(int), np.arange(200) % 2)
    found = []
    for X in (dense, sparse.csr_array(dense)):
        problem = TrainingProblem(LinearModel(5), "cross_entropy", "demographic_parity <= 0.05", cells)
        found.append(problem.evaluate(problem.rows(X)))
    np.testing.assert_allclose(found[0].g, found[1].g, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found[0].J.matrix(), found[1].J.matrix(), rtol=0, atol=1e-14)
    wide = sparse.random_array((200, 10_000), density=1e-3, rng=rng, format="csr")
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    problem = TrainingProblem(LinearModel(10_000), "cross_entropy", LIMIT, cells, regularizers=[L2(0.01)])
    assert fit(problem, wide).assessment.kept
