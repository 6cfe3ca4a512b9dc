"""Candidates: constants compete, and limits that a constant keeps are never reported as infeasible."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.data import make_disparate_data
from fairbound.fairness import Cells, ConstraintSystem
from fairbound.sqp import Status
from fairbound.training import L2, Effort, Phase, TrainingProblem, fit, make_model
from fairbound.training.assessment import Assessment, rate_supports
from fairbound.training.candidates import Candidates, constant_models, output_layer
from fairbound.training.trainer import assess_now

HASTE = Effort(
    free=Phase(8),
    coarse=Phase(2),
    exact=Phase(2, rounding=1e-3),
    accurate=Phase(2, rounding=1e-3),
    repair=Phase(2, rounding=1e-3),
)
"""So little work that most limits are missed: what is left are the constants."""

LIMITS = (
    "demographic_parity <= 0.02",
    "disparate_impact >= 0.95",
    "equal_opportunity <= 0.02",
    "equal_impact >= 0.95",
    "equalized_odds <= 0.02",
    "predictive_equality <= 0.02",
    "covariance <= 0.002",
    "accuracy_parity <= 0.02",
    "predictive_parity <= 0.02",
)


def random_problem(seed: int) -> tuple[TrainingProblem, np.ndarray]:
    """100 to 1,000 rows, 2 or 3 classes, 2 to 5 groups, any measure, a linear model or a small network."""
    random = np.random.default_rng(seed)
    n, n_labels, n_groups = (int(random.integers(*range_)) for range_ in ((100, 1000), (2, 4), (2, 6)))
    y = np.r_[np.arange(n_labels).repeat(n_groups), random.integers(0, n_labels, n)][:n]
    group = np.r_[np.tile(np.arange(n_groups), n_labels), random.integers(0, n_groups, n)][:n]
    d = int(random.integers(1, 6))
    X = random.normal(size=(n, d)) + random.normal(size=d) * y[:, None] + random.normal(size=d) * group[:, None]
    module = make_model(
        d,
        n_labels,
        hidden=() if random.random() < 0.5 else (4,),
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    cells = Cells.build(y, group)
    limit = LIMITS[seed % len(LIMITS)]
    return TrainingProblem(module, "cross_entropy", limit, cells, regularizers=[L2(1e-5)]), X


def a_constant_keeps(problem: TrainingProblem) -> bool:
    """By the counts that a constant has, without any module."""
    cells = problem.cells
    system = ConstraintSystem.build(problem.system.constraints, cells)
    for label in range(cells.n_labels):
        decided = torch.full((len(cells),), label)
        indicators = torch.stack([decided == outcome for outcome in cells.outcomes], dim=1).double()
        exact = system.exact(cells.sums(indicators))
        if bool(((exact <= system.upper + 1e-12) & (exact >= system.lower - 1e-12)).all()):
            return True
    return False


@pytest.mark.parametrize(("seed", "effort"), [*((seed, HASTE) for seed in range(18)), (8, None)])
def test_what_a_constant_keeps_is_never_infeasible(seed: int, effort: Effort | None) -> None:
    problem, X = random_problem(seed)
    result = fit(problem, X, effort=effort)
    if a_constant_keeps(problem):
        assert result.assessment.kept
        assert result.status is not Status.INFEASIBLE
    # The module is left with the decisions that the result speaks of.
    again = assess_now(problem, problem.rows(X))
    torch.testing.assert_close(again.counts, result.assessment.counts, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(18, 342))
def test_what_a_constant_keeps_is_never_infeasible_in_342_problems(seed: int) -> None:
    problem, X = random_problem(seed)
    result = fit(problem, X)
    assert result.assessment.kept or not a_constant_keeps(problem)


class TestConstantModels:
    @pytest.mark.parametrize("hidden", [(), (3,), (3, 2)])
    @pytest.mark.parametrize("threshold", [0.5, 0.2, 0.9])
    def test_decide_alike_for_all_rows(self, hidden, threshold):
        data = make_disparate_data(300, base_rates={"a": 0.6, "b": 0.3}, seed=0).dataset
        module = make_model(data.X.shape[1], hidden=hidden)
        problem = TrainingProblem(module, "cross_entropy", (), Cells.build(data.y, data.sensitive), threshold=threshold)
        rows, before = problem.rows(data.X), problem.current()
        accuracies = []
        for label, constant in enumerate(constant_models(problem, rows)):
            problem.assign(constant)
            with torch.no_grad():
                p = torch.sigmoid(module(torch.from_numpy(data.X).float())[:, 0])
            assert bool(((p > threshold).long() == label).all())
            accuracies.append(assess_now(problem, rows).accuracy)
            problem.assign(before)
        assert accuracies == pytest.approx([1 - data.y.mean(), data.y.mean()])
        assert torch.equal(problem.current(), before)

    def test_have_the_least_loss_of_a_constant_where_it_decides_for_the_class(self):
        y, group = [0, 0, 0, 1], ["a", "b", "a", "b"]
        problem = TrainingProblem(make_model(2), "cross_entropy", (), Cells.build(y, group))
        rows = problem.rows(np.ones((4, 2)))
        problem.assign(constant_models(problem, rows)[0])
        share = 0.25
        entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
        assert assess_now(problem, rows).loss == pytest.approx(entropy, abs=1e-6)

    def test_of_several_classes_and_of_two_outputs(self):
        random = np.random.default_rng(0)
        for n_labels, module in ((3, make_model(2, 3)), (2, nn.Linear(2, 2))):
            y = np.arange(60) % n_labels
            problem = TrainingProblem(module, "cross_entropy", (), Cells.build(y, np.arange(60) % 5))
            rows = problem.rows(random.normal(size=(60, 2)))
            for label, constant in enumerate(constant_models(problem, rows)):
                problem.assign(constant)
                assert assess_now(problem, rows).accuracy == pytest.approx(1 / n_labels)
                with torch.no_grad():
                    assert set(module(rows.X).argmax(dim=1).tolist()) == {label}

    def test_a_module_without_an_output_layer_has_none(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.scale = nn.Linear(2, 1), nn.Parameter(torch.full((1,), 2.0))

            def forward(self, x):
                return self.scale * self.inner(x)

        problem = TrainingProblem(Scaled(), "cross_entropy", (), Cells.build([0, 1, 0, 1], list("abba")))
        rows = problem.rows(np.eye(4)[:, :2])
        assert output_layer(problem, rows) is None
        assert constant_models(problem, rows) == []


def assessed(accuracy: float, objective: float, *, kept: bool = True) -> Assessment:
    """An assessment with these numbers, by a stand-in for its system."""
    found = Assessment(objective, objective, accuracy, 0.6, torch.zeros(0), torch.zeros(0), None)
    vars(found)["kept"] = kept
    return found


class TestTheChoice:
    point = torch.zeros(1)

    def test_is_never_less_accurate_than_a_constant_that_keeps_the_limits(self):
        candidates = Candidates(0.05)
        candidates.offer(self.point, assessed(0.58, 0.4))
        assert candidates.choice().assessment.accuracy == 0.58
        candidates.offer_constant(self.point, assessed(0.6, 0.69))
        assert candidates.choice().assessment.accuracy == 0.6
        candidates.offer(self.point, assessed(0.61, 0.5))
        assert candidates.choice().assessment.accuracy == 0.61

    def test_trades_no_more_than_the_slack_of_the_loss_for_accuracy(self):
        for slack, accuracy in ((0.0, 0.65), (0.05, 0.66), (float("inf"), 0.7)):
            candidates = Candidates(slack)
            for each in (assessed(0.65, 0.4), assessed(0.66, 0.419), assessed(0.7, 0.43)):
                candidates.offer(self.point, each)
            assert candidates.choice().assessment.accuracy == accuracy

    def test_pays_no_loss_for_more_accuracy_than_enough(self):
        candidates = Candidates(0.05, enough=0.66)
        assert not candidates.suffice()
        for each in (assessed(0.65, 0.4), assessed(0.661, 0.41), assessed(0.67, 0.415)):
            candidates.offer(self.point, each)
            assert candidates.suffice() == (each.accuracy > 0.66)
        assert candidates.choice().assessment.accuracy == 0.661

    def test_is_a_constant_where_nothing_else_keeps_the_limits(self):
        candidates = Candidates(0.05)
        candidates.nearest = None
        candidates.offer_constant(self.point, assessed(0.4, 0.7))
        candidates.offer_constant(self.point, assessed(0.6, 0.69))
        candidates.offer_constant(self.point, assessed(0.9, 0.1, kept=False))
        assert candidates.choice().assessment.accuracy == 0.6
        assert [held.assessment.accuracy for held in candidates.ranked()] == [0.6, 0.4]


class TestNextToAConstant:
    def problem(self, limits="disparate_impact >= 0.8", n=1000):
        random = np.random.default_rng(0)
        X = random.normal(size=(n, 1))
        y, group = (X[:, 0] + 0.1 * random.normal(size=n) > 1).astype(int), np.arange(n) % 2
        problem = TrainingProblem(make_model(1, dtype=torch.float64), "cross_entropy", limits, Cells.build(y, group))
        return problem, problem.rows(X)

    @pytest.mark.parametrize(("selected", "degenerate"), [(0, True), (5, True), (6, False), (20, False)])
    def test_a_handful_of_selected_rows_is_degenerate(self, selected, degenerate):
        problem, rows = self.problem()
        # With about 160 rows of the rarer label a handful is 5 rows.
        border = torch.sort(rows.X[:, 0], descending=True).values
        at = 10.0 if selected == 0 else float(border[selected - 1] + border[selected]) / 2
        problem.assign(torch.tensor([50.0, -50.0 * at], dtype=torch.float64))
        found = assess_now(problem, rows)
        assert found.minority_decisions == pytest.approx(selected)
        assert (found.gain > 0) == (selected > 0)
        assert found.degenerate == degenerate

    def test_a_free_model_is_degenerate_only_without_a_gain(self):
        problem, rows = self.problem(limits=())
        problem.assign(torch.tensor([50.0, -50.0 * float(rows.X.max() - 1e-6)], dtype=torch.float64))
        found = assess_now(problem, rows)
        assert found.near_constant
        assert not found.degenerate


def test_a_rate_that_fell_to_a_handful_of_rows_is_told():
    problem, rows = TestNextToAConstant().problem()
    problem.assign(torch.tensor([50.0, -50.0], dtype=torch.float64))
    free = assess_now(problem, rows)
    border = float(torch.sort(rows.X[:, 0], descending=True).values[8])
    problem.assign(torch.tensor([50.0, -50.0 * border], dtype=torch.float64))
    supports = rate_supports(assess_now(problem, rows), free)
    assert [support.group for support in supports] == [0, 1]
    assert sum(support.selected for support in supports) in (8, 9)
    assert all(support.fell_to_a_handful for support in supports)
    assert all(support.rows == 500 for support in supports)
    for support in supports:
        assert f"rests on {support.selected} selected rows of 500" in str(support)
        assert f"without limits {support.selected_without_limits}" in str(support)
    # A model that selects as many as before has lost nothing.
    assert not any(support.fell_to_a_handful for support in rate_supports(free, free))
