"""The training loop: limits kept exactly, the best iterate rather than the last, status, history, and a custom loop."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairbound.data import load_dataset, make_disparate_data
from fairbound.fairness import Cells, DemographicParity, DisparateImpact, rate_limit
from fairbound.sqp import Evaluation, FixedStep, KKTResiduals, Status, StepRecord, StochasticSQP
from fairbound.training import (
    L2,
    FullBatch,
    Rows,
    SquaredMeasure,
    StratifiedBatches,
    TrainingProblem,
    TrainingResult,
    assess_now,
    choose_status,
    make_model,
    train,
)

DATA = make_disparate_data(600, base_rates={"a": 0.6, "b": 0.3}, seed=0).dataset
N_INPUTS = DATA.X.shape[1]
CELLS = Cells.build(DATA.y, DATA.sensitive)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_problem(constraints=(), hidden=(), module: nn.Module | None = None, **options) -> tuple[TrainingProblem, Rows]:
    module = make_model(N_INPUTS, hidden=hidden, generator=generator(1)) if module is None else module
    problem = TrainingProblem(module, "cross_entropy", constraints, CELLS, **options)
    return problem, problem.rows(DATA.X)


def run(constraints=(), hidden=(), epochs: int = 150, batches=FullBatch, callback=None, **options):
    """Train with the constants of the paper's experiments."""
    problem, rows = make_problem(constraints, hidden, **options)
    optimizer = StochasticSQP.from_paper(problem.parameters)
    return problem, rows, train(problem, batches(rows), optimizer, epochs=epochs, callback=callback)


def decisions(problem: TrainingProblem) -> np.ndarray:
    """Predictions of the module as it stands, in the order of the data, by nothing but the module."""
    with torch.no_grad():
        return (problem.module(torch.from_numpy(DATA.X).float())[:, 0] > 0).numpy()


def ratio_of_selection_rates(problem: TrainingProblem) -> float:
    selected, group = decisions(problem), DATA.groups()
    rates = [selected[group == name].mean() for name in ("a", "b")]
    return min(rates) / max(rates)


class TestLimitsAreKept:
    @pytest.mark.parametrize("hidden", [(), (8,)], ids=["linear", "mlp"])
    @pytest.mark.parametrize("ratio", [0.8, 0.9])
    def test_disparate_impact_by_the_decisions_of_the_module(self, hidden, ratio):
        free, _, unlimited = run(hidden=hidden)
        assert ratio_of_selection_rates(free) < 0.6  # planted
        problem, _, result = run(DisparateImpact(ratio), hidden)
        assert result.status in (Status.FEASIBLE, Status.CONVERGED)
        assert result.assessment.kept
        assert ratio_of_selection_rates(problem) >= ratio - 1e-12
        assert result.assessment.measured == pytest.approx([ratio_of_selection_rates(problem)], abs=1e-12)
        assert result.assessment.accuracy == pytest.approx(np.mean(decisions(problem) == DATA.y), abs=1e-12)
        assert 0.05 < result.assessment.gain < unlimited.assessment.gain
        # The limit binds, so a good model does not give away much more than it must.
        assert ratio_of_selection_rates(problem) < ratio + 0.05

    def test_several_limits_at_once(self):
        limits = ["disparate_impact >= 0.8", "equal_opportunity <= 0.2", "selection_rate[b] >= 0.2"]
        _, _, result = run(limits)
        assert result.status in (Status.FEASIBLE, Status.CONVERGED)
        ratio, difference, rate = result.assessment.measured
        assert ratio >= 0.8 - 1e-12
        assert difference <= 0.2 + 1e-12
        assert rate >= 0.2 - 1e-12

    @pytest.mark.parametrize("constraints", ["batch", "subset", "all"])
    def test_mini_batches(self, constraints):
        problem, _, result = run(
            DisparateImpact(0.8),
            epochs=20,
            batches=lambda rows: StratifiedBatches(rows, 100, constraints=constraints, generator=generator(3)),
        )
        assert result.status is Status.FEASIBLE
        assert ratio_of_selection_rates(problem) >= 0.8 - 1e-12
        assert result.assessment.gain > 0.05
        assert len(result.iterations) == 20

    def test_several_classes(self):
        random = np.random.default_rng(0)
        y, group = random.integers(0, 3, 600), random.integers(0, 2, 600)
        X = np.eye(3)[y] * 2 + 0.8 * np.outer(group, [1.0, 0.0, -1.0]) + random.standard_normal((600, 3))
        module = make_model(3, 3, generator=generator(1))
        problem = TrainingProblem(module, "cross_entropy", DemographicParity(0.05), Cells.build(y, group))
        result = train(problem, FullBatch(problem.rows(X)), StochasticSQP.from_paper(module.parameters()), epochs=150)
        assert result.status in (Status.FEASIBLE, Status.CONVERGED)
        with torch.no_grad():
            predicted = module(torch.from_numpy(X).float()).argmax(dim=1).numpy()
        for label in range(3):
            rates = [np.mean(predicted[group == name] == label) for name in (0, 1)]
            assert abs(rates[0] - rates[1]) <= 0.05 + 1e-12
        assert result.assessment.gain > 0.2

    def test_a_module_and_a_loss_of_the_user(self):
        class Skip(nn.Module):
            def __init__(self):
                super().__init__()
                self.wide, self.scale = nn.Linear(N_INPUTS, 1), nn.Parameter(torch.ones(N_INPUTS))

            def forward(self, x):
                return (self.wide(torch.tanh(x)) + x @ self.scale[:, None])[:, 0]

        module = Skip()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator(2)))
        loss = nn.BCEWithLogitsLoss(reduction="none")
        problem = TrainingProblem(module, loss, DisparateImpact(0.8), CELLS)
        optimizer = StochasticSQP.from_paper(module.parameters())
        result = train(problem, FullBatch(problem.rows(DATA.X)), optimizer, epochs=100)
        assert result.status in (Status.FEASIBLE, Status.CONVERGED)
        assert result.assessment.measured[0] >= 0.8 - 1e-12

    def test_the_squared_measure_draws_the_rates_together(self):
        gaps = []
        for weight in (0.0, 1.0, 30.0):
            _, _, result = run(regularizers=[SquaredMeasure("demographic_parity", weight=weight)])
            rates = list(result.assessment.rates["group"].values())
            gaps.append(abs(rates[0] - rates[1]))
        assert gaps[0] > gaps[1] > gaps[2]
        assert gaps[2] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_algorithm_1_trains_by_default_as_well_as_with_the_constants_of_the_paper(seed):
    data = load_dataset("law", protocol="paper").train
    accuracies = []
    for build in (StochasticSQP, StochasticSQP.from_paper):
        module = make_model(data.X.shape[1], generator=generator(seed))
        cells = Cells.build(data.y, data.sensitive)
        problem = TrainingProblem(module, "cross_entropy", DisparateImpact(0.9), cells, regularizers=[L2(1e-5)])
        result = train(problem, FullBatch(problem.rows(data.X)), build(problem.parameters), epochs=500)
        assert result.assessment.kept
        accuracies.append(result.assessment.accuracy)
    assert accuracies[0] > accuracies[1] - 0.002


class TestConvergence:
    def test_without_limits_the_minimum_is_found(self):
        problem, rows = make_problem(regularizers=[L2(0.01)])
        result = train(problem, FullBatch(rows), StochasticSQP(problem.parameters), epochs=500, tolerance=1e-5)
        assert result.status is Status.CONVERGED
        assert len(result.iterations) < 500
        assert np.abs(problem.evaluate(rows).g).max() <= 1e-5
        assert result.multipliers.shape == (0,)

    def test_the_tolerance_is_heeded(self):
        lengths = []
        for tolerance in (1e-2, 1e-4):
            problem, rows = make_problem(regularizers=[L2(0.01)])
            result = train(problem, FullBatch(rows), StochasticSQP(problem.parameters), tolerance=tolerance)
            assert result.status is Status.CONVERGED
            lengths.append(len(result.iterations))
        assert lengths[0] < lengths[1]

    def test_mini_batches_never_claim_to_have_converged(self):
        problem, rows = make_problem()
        optimizer = StochasticSQP(problem.parameters)
        result = train(problem, StratifiedBatches(rows, 100), optimizer, epochs=2, tolerance=1e9)
        assert result.status is Status.FEASIBLE
        assert len(result.iterations) == 2


class Scripted:
    """An optimiser that goes through given parameters, whatever the problem says."""

    def __init__(self, problem: TrainingProblem, points: Sequence[Tensor], **record) -> None:
        self.problem, self.points, self.record = problem, list(points), record
        self.param_groups = [{"params": problem.parameters}]
        problem.assign(self.points.pop(0))

    def step(self, closure) -> StepRecord:
        evaluation = closure()
        assert isinstance(evaluation, Evaluation)
        if self.points:
            self.problem.assign(self.points.pop(0))
        values = {
            "iteration": 0,
            "f": evaluation.f,
            "violation": evaluation.violation,
            "kkt": KKTResiduals(1.0, 1.0, 1.0),
            "penalty": 1.0,
            "merit_parameter": 0.1,
            "ratio_parameter": 1.0,
            "step_length": 1.0,
            "learning_rate": 1.0,
            "step_norm": 1.0,
            "elastic": False,
            "locally_infeasible": False,
            "multipliers": np.zeros_like(evaluation.c),
        }
        return StepRecord(**{**values, **self.record})


def points_of(constraints) -> tuple[TrainingProblem, Rows, list[tuple[Tensor, bool, float, float]]]:
    """Some parameters of all kinds, each with (kept, objective, violation)."""
    problem, rows = make_problem(constraints)
    found = []
    for seed in range(12):
        w = torch.randn(problem.n_parameters, generator=generator(seed), dtype=torch.float64).float().double()
        problem.assign(w)
        assessment = assess_now(problem, rows)
        found.append((w, assessment.kept, assessment.objective, assessment.exact_violation))
    return problem, rows, found


@pytest.mark.parametrize("batches", [FullBatch, lambda rows: StratifiedBatches(rows, 600)], ids=["full", "mini"])
class TestTheBestIterate:
    def test_is_the_least_objective_of_those_that_keep_the_limits(self, batches):
        problem, rows, found = points_of("disparate_impact >= 0.8")
        assert {kept for _, kept, _, _ in found} == {True, False}
        # Mini-batches are assessed after the first step, so the first point must not be the best.
        best = min((point for point in found[1:] if point[1]), key=lambda point: point[2])
        assert any(objective < best[2] for _, kept, objective, _ in found[1:] if not kept)
        if found[0][1]:
            assert found[0][2] > best[2]
        result = train(problem, batches(rows), Scripted(problem, [w for w, *_ in found]), epochs=len(found) + 2)
        assert np.array_equal(problem.current(), best[0])
        assert result.assessment.objective == pytest.approx(best[2], abs=1e-12)
        assert result.final.objective == pytest.approx(found[-1][2], abs=1e-12)
        assert assess_now(problem, rows).exact_violation == 0.0

    def test_is_the_least_violation_where_none_keeps_them(self, batches):
        problem, rows, found = points_of(["selection_rate[a] >= 0.9", "selection_rate <= 0.3"])
        assert not any(kept for _, kept, _, _ in found)
        # Mini-batches are assessed after the first step, so the script begins with the worst.
        found.sort(key=lambda point: -point[3])
        found[3], found[-1] = found[-1], found[3]
        best = found[3]
        assert best[3] < min(point[3] for point in found if point is not best)
        result = train(problem, batches(rows), Scripted(problem, [w for w, *_ in found]), epochs=len(found))
        assert np.array_equal(problem.current(), best[0])
        assert result.status is Status.MAX_ITERATIONS
        assert not result.assessment.kept

    def test_is_never_the_first_weights_where_none_keeps_the_limits(self, batches):
        problem, rows, found = points_of(["selection_rate[a] >= 0.9", "selection_rate <= 0.3"])
        found.sort(key=lambda point: point[3])
        assert found[0][3] < found[1][3]
        train(problem, batches(rows), Scripted(problem, [w for w, *_ in found]), epochs=len(found))
        assert np.array_equal(problem.current(), found[1][0])

    def test_may_be_the_very_last(self, batches):
        problem, rows, found = points_of("disparate_impact >= 0.8")
        kept = sorted((point for point in found if point[1]), key=lambda point: -point[2])
        script = [kept[0][0], kept[-1][0]]
        result = train(problem, batches(rows), Scripted(problem, script), epochs=1)
        assert np.array_equal(problem.current(), kept[-1][0])
        assert result.assessment.objective == result.final.objective


def test_the_best_iterate_of_a_real_run_is_not_the_last():
    problem, _, result = run(DisparateImpact(0.8), epochs=200)
    assert not result.final.kept
    assert result.assessment.kept
    assert ratio_of_selection_rates(problem) >= 0.8 - 1e-12
    assert result.status is Status.FEASIBLE


class TestOutcomes:
    def test_limits_that_contradict_each_other_are_infeasible_and_named(self):
        _, _, result = run(["selection_rate[a] >= 0.9", "selection_rate <= 0.3"])
        assert result.status in (Status.INFEASIBLE, Status.MAX_ITERATIONS)
        assert result.assessment.exact_violation >= 0.6 - 1e-12
        assert len(result.conflicts) == 2
        assert any("0.9 <= selection_rate(a)" in text for text in result.conflicts)
        assert any("selection_rate(a) <= 0.3" in text for text in result.conflicts)
        assert not any("selection_rate(b)" in text for text in result.conflicts)
        assert "0.9 <= selection_rate(a)" in result.message
        assert result.message.startswith(result.status.message)

    def test_a_model_no_better_than_a_constant_is_degenerate(self):
        # Everyone is selected: that keeps the limit, and is wrong for the majority.
        _, _, result = run(rate_limit("selection_rate", lower=1.0))
        assert result.status is Status.DEGENERATE
        assert result.assessment.kept
        assert result.assessment.gain <= 0
        assert result.conflicts == ()
        assert result.message == Status.DEGENERATE.message

    def test_a_constant_model_on_the_side_of_the_majority_is_degenerate(self):
        problem, rows = make_problem(DisparateImpact(0.8))
        nobody = torch.zeros(problem.n_parameters, dtype=torch.float64)
        nobody[-1] = -5.0
        result = train(problem, FullBatch(rows), Scripted(problem, [nobody]), epochs=1)
        assert DATA.y.mean() < 0.5
        assert result.assessment.gain == 0.0
        assert result.status is Status.DEGENERATE

    def test_a_limit_that_a_constant_keeps_is_never_infeasible(self):
        problem, rows = make_problem(DisparateImpact(0.99))
        violating = torch.randn(problem.n_parameters, generator=generator(2), dtype=torch.float64)
        optimizer = Scripted(problem, [violating], locally_infeasible=True)
        result = train(problem, FullBatch(rows), optimizer, epochs=2)
        assert not result.assessment.kept
        assert result.status is Status.MAX_ITERATIONS

    def test_too_few_iterations_say_so(self):
        _, _, result = run(DisparateImpact(0.99), epochs=1)
        assert result.status is Status.MAX_ITERATIONS
        assert not result.assessment.kept

    @pytest.mark.parametrize(
        ("kept", "gain", "converged", "locally_infeasible", "status"),
        [
            (True, 0.1, True, False, Status.CONVERGED),
            (True, 0.1, False, False, Status.FEASIBLE),
            (True, 0.1, False, True, Status.FEASIBLE),
            (True, 0.0, True, False, Status.DEGENERATE),
            (True, -0.1, False, False, Status.DEGENERATE),
            (False, 0.1, False, True, Status.INFEASIBLE),
            (False, 0.1, False, False, Status.MAX_ITERATIONS),
        ],
    )
    def test_the_status_in_one_word(self, kept, gain, converged, locally_infeasible, status):
        class Found:
            pass

        found = Found()
        found.kept, found.degenerate = kept, gain <= 0
        assert choose_status(found, converged, locally_infeasible) is status


class TestHistory:
    def test_is_a_table_that_json_takes(self):
        _, _, result = run([DisparateImpact(0.8), "equal_opportunity <= 0.2"], epochs=30)
        assert len(result.iterations) == 30
        assert json.loads(json.dumps(result.iterations, allow_nan=False)) == result.iterations
        columns = set(result.iterations[0])
        assert all(set(row) == columns for row in result.iterations)
        assert {"epoch", "objective", "loss", "accuracy", "exact_violation", "kept"} <= columns
        assert {"disparate_impact >= 0.8", "equal_opportunity <= 0.2"} <= columns
        assert [row["epoch"] for row in result.iterations] == list(range(30))

    def test_mini_batches_have_one_too(self):
        _, _, result = run(DisparateImpact(0.8), epochs=3, batches=lambda rows: StratifiedBatches(rows, 200))
        assert json.loads(json.dumps(result.iterations, allow_nan=False)) == result.iterations

    def test_a_row_of_a_full_batch_speaks_of_the_point_the_step_started_from(self):
        problem, rows = make_problem(DisparateImpact(0.8))
        start = assess_now(problem, rows)
        result = train(problem, FullBatch(rows), StochasticSQP.from_paper(problem.parameters), epochs=2)
        assert result.iterations[0]["objective"] == pytest.approx(start.objective, abs=1e-12)
        assert result.iterations[0]["accuracy"] == pytest.approx(start.accuracy, abs=1e-12)
        assert result.iterations[1]["objective"] != result.iterations[0]["objective"]

    def test_the_objective_falls(self):
        _, _, result = run(epochs=50)
        objectives = [row["objective"] for row in result.iterations]
        assert all(later < earlier for earlier, later in pairwise(objectives))


class TestCallback:
    def test_sees_every_row_and_stops(self):
        seen = []

        def stop_at_five(row):
            seen.append(row["epoch"])
            return row["epoch"] == 5

        _, _, result = run(DisparateImpact(0.8), callback=stop_at_five)
        assert seen == [0, 1, 2, 3, 4, 5]
        assert len(result.iterations) == 6

    def test_that_returns_nothing_does_not_stop(self):
        _, _, result = run(epochs=4, callback=lambda row: None)
        assert len(result.iterations) == 4

    @pytest.mark.parametrize("batches", [FullBatch, lambda rows: StratifiedBatches(rows, 200)], ids=["full", "mini"])
    def test_an_interrupt_leaves_the_best_so_far_in_the_module(self, batches):
        problem, rows = make_problem(DisparateImpact(0.8))
        seen = []

        def interrupt(row):
            seen.append(row)
            if row["epoch"] == 40:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(problem, batches(rows), StochasticSQP.from_paper(problem.parameters), callback=interrupt)
        left = assess_now(problem, rows)
        assert left.kept
        assert left.objective == pytest.approx(min(row["objective"] for row in seen if row["kept"]), abs=1e-12)

    def test_an_error_leaves_the_best_so_far_in_the_module_too(self):
        problem, rows, found = points_of("disparate_impact >= 0.8")
        kept = min((point for point in found if point[1]), key=lambda point: point[2])
        broken = torch.full_like(kept[0], math.nan)
        with pytest.raises(ValueError, match=r"NaN|nan"):
            train(problem, FullBatch(rows), Scripted(problem, [kept[0], broken]), epochs=5)
        assert np.array_equal(problem.current(), kept[0])


class TestTheSameAgain:
    @pytest.mark.parametrize(
        "batches", [FullBatch, lambda rows: StratifiedBatches(rows, 100, generator=generator(5))], ids=["full", "mini"]
    )
    def test_runs_repeat_to_the_last_bit_and_touch_nothing_global(self, batches):
        ends = []
        for _ in range(2):
            before = (torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype())
            problem, _, _ = run(DisparateImpact(0.8), (4,), epochs=10, batches=batches)
            after = (torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype())
            assert np.array_equal(before[0], after[0])
            assert before[1:] == after[1:]
            assert torch.is_grad_enabled()
            ends.append(problem.current())
            torch.rand(1)
        assert np.array_equal(*ends)

    def test_the_chunk_size_does_not_matter(self):
        ends = []
        for chunk_rows in (50, 10_000):
            module = make_model(N_INPUTS, hidden=(4,), generator=generator(1), dtype=torch.float64)
            problem, _, _ = run(DisparateImpact(0.8), epochs=20, module=module, chunk_rows=chunk_rows)
            ends.append(problem.current())
        np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-9)  # rounding of 1e-16, grown over twenty steps


class Counting(nn.Module):
    """Counts how often, and with how many rows in all, it is called."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls, self.rows = inner, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.rows += len(x)
        return self.inner(x)


THREE = [
    f"{limit} against overall"
    for limit in ("disparate_impact >= 0.8", "equalized_odds <= 0.1", "accuracy_parity <= 0.2")
]


class TestCost:
    """About one forward pass over the rows per step, however many groups and constraints."""

    def count(self, n_groups: int, constraints: list[str], inner: nn.Module, chunk_rows: int) -> tuple[float, float]:
        """Calls and rows per step of a full batch, from the difference of two runs of different length."""
        group = np.arange(600) % n_groups
        counted = []
        for epochs in (2, 7):
            module = Counting(inner)
            problem = TrainingProblem(
                module, "cross_entropy", constraints, Cells.build(DATA.y, group), chunk_rows=chunk_rows
            )
            optimizer = StochasticSQP(module.parameters(), lr=0.1, step_length=FixedStep())
            train(problem, FullBatch(problem.rows(DATA.X)), optimizer, epochs=epochs, tolerance=0.0)
            counted.append((module.calls, module.rows))
        return tuple((later - earlier) / 5 for earlier, later in zip(*counted, strict=True))

    @pytest.mark.parametrize("chunk_rows", [1000, 250])
    @pytest.mark.parametrize("constraints", [["disparate_impact >= 0.8"], THREE], ids=["one", "three"])
    @pytest.mark.parametrize("n_groups", [2, 25])
    def test_every_row_once_for_any_limits(self, n_groups, constraints, chunk_rows):
        inner = nn.Sequential(make_model(N_INPUTS, 4, generator=generator(1)), nn.LayerNorm(4), make_model(4))
        calls, rows = self.count(n_groups, constraints, inner, chunk_rows)
        assert rows == 600
        assert calls <= 2 * n_groups + 600 // chunk_rows  # one for each (group, label), and where a chunk cuts it


class TestALoopOfOnesOwn:
    @pytest.mark.parametrize("constraints", ["all", "subset"])
    def test_reads_as_in_the_design(self, constraints):
        module = make_model(N_INPUTS, generator=generator(1))
        problem = TrainingProblem(module, "binary_cross_entropy", [DisparateImpact(0.8)], CELLS)
        rows = problem.rows(DATA.X)
        before, _ = problem.values(rows)
        optimizer, beyond = StochasticSQP(module.parameters(), lr=0.5), []
        for _ in range(20):
            for batch in StratifiedBatches(rows, 200, constraints=constraints, generator=generator(4)):
                record = optimizer.step(lambda batch=batch: problem.evaluate(batch))
                assert isinstance(record, StepRecord)
                # On the rows of the constraints: a third of 600 rows says little about the others.
                beyond.append(float(problem.values(batch)[1].max()))
        after, _ = problem.values(rows)
        assert after < before
        # The same loop without limits ends at 0.13.  60 noisy steps do not converge: over five draws of the batches,
        # the mean of the last 20 is between -0.002 and 0.082 with a subset, and at most 0.026 with all rows.
        assert np.mean(beyond[-20:]) < 0.13 / (2 if constraints == "subset" else 4)

    def test_the_full_batch_is_a_batch(self):
        module = make_model(N_INPUTS, generator=generator(1))
        problem = TrainingProblem(module, "hinge", "demographic_parity <= 0.1", CELLS)
        rows = problem.rows(DATA.X)
        optimizer = StochasticSQP.from_paper(module.parameters())
        for _ in range(60):
            optimizer.step(lambda: problem.evaluate(rows))
        assert problem.evaluate(rows).violation < 0.02

    def test_is_what_train_does(self):
        _, _, result = run(DisparateImpact(0.8), epochs=10)
        other, other_rows = make_problem(DisparateImpact(0.8))
        optimizer = StochasticSQP.from_paper(other.parameters)
        records = [optimizer.step(lambda: other.evaluate(other_rows)) for _ in range(10)]
        assert [record.f for record in records] == [row["objective"] for row in result.iterations]
        np.testing.assert_array_equal(result.multipliers, records[-1].multipliers)

    def test_frozen_parameters_are_left_to_the_user(self):
        module = make_model(N_INPUTS, hidden=(4,), generator=generator(1))
        module[0].requires_grad_(False)
        frozen = module[0].weight.clone()
        problem, rows = make_problem(DisparateImpact(0.8), module=module)
        with pytest.raises(ValueError, match=r"optimiser.*problem\.parameters"):
            train(problem, FullBatch(rows), StochasticSQP(module.parameters()), epochs=1)
        train(problem, FullBatch(rows), StochasticSQP.from_paper(problem.parameters), epochs=5)
        assert np.array_equal(module[0].weight, frozen)


class TestMisuse:
    @pytest.mark.parametrize("epochs", [0, -1])
    def test_no_epochs(self, epochs):
        with pytest.raises(ValueError, match=f"epochs={epochs}: must be at least 1"):
            run(epochs=epochs)


def test_the_result_shows_what_matters():
    _, _, result = run(DisparateImpact(0.8), epochs=5)
    assert isinstance(result, TrainingResult)
    assert result.seconds > 0
    assert "status" in repr(result)
    assert "history" not in repr(result)
