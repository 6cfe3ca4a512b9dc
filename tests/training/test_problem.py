"""The training problem: values against closed forms, derivatives against finite differences, and chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairbound.fairness import (
    AccuracyParity,
    Cells,
    Constraint,
    Covariance,
    DemographicParity,
    DisparateImpact,
    EqualizedOdds,
    PredictiveParity,
    Representation,
    Sigmoid,
    SmoothedStep,
    Tanh,
    rate_limit,
)
from fairbound.sqp import Evaluation
from fairbound.training import L2, Batch, Rows, SmoothedL1, SquaredMeasure, TrainingProblem, make_model

# Surrogates gentle enough for finite differences; how steep ones behave is the business of the fairness room.
GENTLE = SmoothedStep(scale=4.0, smoothing=0.1)
CONSTRAINTS: list[Constraint | str] = [
    DisparateImpact(0.8, surrogate=Sigmoid(5.0), columns=("race",)),
    EqualizedOdds(0.1, surrogate=GENTLE, columns=("sex",)),
    PredictiveParity(0.2, surrogate=Sigmoid(5.0), columns=("sex",)),
    DemographicParity(0.1, surrogate=Tanh(2.0), against="overall", columns=("race",)),
    AccuracyParity(0.1, surrogate=GENTLE, columns=("sex",)),
    Representation(0.3, surrogate=Sigmoid(5.0), columns=("race",)),
    rate_limit("selection_rate", group="f", lower=0.2, upper=0.9, surrogate=Sigmoid(1.0), margin="logit"),
    Covariance(0.05, margin="logit", columns=("sex",)),
]
REGULARIZERS = [
    L2(0.3),
    SmoothedL1(0.2, smoothing=0.05),
    SquaredMeasure("demographic_parity", weight=0.7, surrogate=Sigmoid(5.0)),
    SquaredMeasure("equal_impact", weight=1.3, surrogate=GENTLE),
    SquaredMeasure("covariance", weight=2.0),
]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def permutation(seed: int = 0):
    return np.random.default_rng(seed).permutation


class Residual(nn.Module):
    """Not a plain sequence, and with parameters outside of linear layers."""

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, n_outputs)
        self.factor = nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        return self.last(h + self.factor * h**2)


def make_residual(n_labels: int) -> nn.Module:
    module, source = Residual(1 if n_labels == 2 else n_labels).double(), generator(4)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return module


@dataclass(frozen=True)
class Data:
    X: Tensor
    y: np.ndarray
    sex: np.ndarray
    race: np.ndarray
    weights: np.ndarray

    def cells(self, weighted: bool = True) -> Cells:
        return Cells.build(self.y, {"sex": self.sex, "race": self.race}, weights=self.weights if weighted else None)


def make_data(n_labels: int = 2, n: int = 60) -> Data:
    """Rows of two sensitive columns, both with missing values, every group with every label."""
    random = np.random.default_rng(n_labels)
    sex = np.array(["f", "m"], dtype=object)[random.integers(0, 2, n)]
    race = np.array(["a", "b", "c"], dtype=object)[random.integers(0, 3, n)]
    sex[::11], race[::7] = None, None
    return Data(
        X=torch.from_numpy(random.standard_normal((n, 3))),
        y=random.integers(0, n_labels, n),
        sex=sex,
        race=race,
        weights=random.uniform(0.5, 2.0, n),
    )


def make_problem(
    n_labels: int = 2,
    module: nn.Module | None = None,
    constraints: Sequence[Constraint | str] = tuple(CONSTRAINTS),
    regularizers: Sequence = tuple(REGULARIZERS),
    loss: str = "cross_entropy",
    **options,
) -> tuple[TrainingProblem, Rows]:
    data = make_data(n_labels)
    if module is None:
        module = make_model(3, n_labels, (4,), generator=generator(2), dtype=torch.float64)
    problem = TrainingProblem(module, loss, constraints, data.cells(), regularizers=regularizers, **options)
    return problem, problem.rows(data.X, loss_weights=data.weights[::-1])


def finite_differences(
    problem: TrainingProblem, batch: Rows | Batch, step: float = 1e-5
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of f and Jacobian of c by central differences of `values`."""
    w = problem.current()
    slopes, columns = [], []
    for unit in step * np.eye(len(w)):
        problem.assign(w + unit)
        f_up, c_up = problem.values(batch)
        problem.assign(w - unit)
        f_down, c_down = problem.values(batch)
        slopes.append((f_up - f_down) / (2 * step))
        columns.append((c_up - c_down) / (2 * step))
    problem.assign(w)
    return np.array(slopes), np.stack(columns, axis=1)


# step² · third derivative: 1e-10 times about 10² for scales of 5; rounding 1e-16 / 1e-5.
DIFFERENCES = {"rtol": 1e-6, "atol": 1e-7}


class TestDerivatives:
    @pytest.mark.parametrize("loss", ["cross_entropy", "hinge"])
    @pytest.mark.parametrize("n_labels", [2, 3])
    def test_all_at_once_against_finite_differences(self, n_labels, loss):
        problem, rows = make_problem(n_labels, loss=loss)
        evaluation = problem.evaluate(rows)
        g, J = finite_differences(problem, rows)
        np.testing.assert_allclose(evaluation.g, g, **DIFFERENCES)
        np.testing.assert_allclose(evaluation.J.matrix(), J, **DIFFERENCES)
        assert evaluation.J.shape == (problem.system.n_rows, problem.n_parameters)
        assert (np.abs(J).sum(axis=1) > 1e-4).all()  # no row is flat, so the comparison says something

    @pytest.mark.parametrize("n_labels", [2, 3])
    def test_a_module_of_the_user(self, n_labels):
        problem, rows = make_problem(n_labels, module=make_residual(n_labels))
        evaluation = problem.evaluate(rows)
        g, J = finite_differences(problem, rows)
        np.testing.assert_allclose(evaluation.g, g, **DIFFERENCES)
        np.testing.assert_allclose(evaluation.J.matrix(), J, **DIFFERENCES)

    @pytest.mark.parametrize(
        "regularizer", REGULARIZERS, ids=lambda r: f"{type(r).__name__} {getattr(r, 'measure', '')}"
    )
    @pytest.mark.parametrize("n_labels", [2, 3])
    def test_every_regularizer_alone(self, regularizer, n_labels):
        problem, rows = make_problem(n_labels, constraints=[], regularizers=[regularizer])
        bare, _ = make_problem(n_labels, constraints=[], regularizers=[])
        added = problem.evaluate(rows)
        g, _ = finite_differences(problem, rows)
        np.testing.assert_allclose(added.g, g, **DIFFERENCES)
        assert added.f > bare.evaluate(rows).f
        assert np.abs(added.g - bare.evaluate(rows).g).max() > 1e-4  # far above the tolerance

    def test_frozen_parameters_are_no_variables(self):
        module = make_model(3, hidden=(4,), generator=generator(2), dtype=torch.float64)
        problem_all, rows_all = make_problem(module=module, regularizers=[])
        whole = problem_all.evaluate(rows_all)
        module[0].weight.requires_grad_(False)
        problem, rows = make_problem(module=module, regularizers=[])
        evaluation = problem.evaluate(rows)
        assert problem.n_parameters == 4 + 4 + 1
        np.testing.assert_allclose(evaluation.g, whole.g[12:], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(evaluation.J.matrix(), whole.J.matrix()[:, 12:], rtol=1e-12, atol=1e-14)

    def test_single_precision_models_get_the_same_to_single_precision(self):
        single = make_model(3, hidden=(4,), generator=generator(2))
        double = make_model(3, hidden=(4,), dtype=torch.float64)
        double.load_state_dict(single.state_dict())
        results = []
        for module in (single, double):
            problem, rows = make_problem(module=module)
            assert rows.X.dtype == module[0].weight.detach().numpy().dtype
            results.append(problem.evaluate(rows))
        assert results[0].g.dtype == results[0].c.dtype == np.float64
        np.testing.assert_allclose(results[0].g, results[1].g, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(results[0].c, results[1].c, rtol=1e-4, atol=1e-5)


class TestClosedForms:
    def test_the_objective(self):
        problem, rows = make_problem(constraints=[])
        data, w = make_data(), problem.current()
        z = problem.module(data.X).detach()[:, 0]
        losses = functional.binary_cross_entropy_with_logits(z, torch.from_numpy(data.y).double(), reduction="none")
        weights = torch.from_numpy(data.weights[::-1].copy())
        expected = float(weights @ losses / weights.sum())
        expected += 0.3 * 0.5 * float(w @ w) + 0.2 * float((np.sqrt(w**2 + 0.05) - 0.05**0.5).sum())
        p = torch.sigmoid(z)
        for column in (data.sex, data.race):
            groups = sorted({value for value in column if value is not None})
            rates, impacts = [], []
            for group in groups:
                inside = torch.from_numpy(column == group).double() * torch.from_numpy(data.weights)
                rates.append(inside @ torch.sigmoid(5 * (p - 0.5)) / inside.sum())
                positive = inside * torch.from_numpy(data.y)
                impacts.append(positive @ torch.from_numpy(GENTLE.value((p - 0.5).numpy())) / positive.sum())
            for a in range(len(groups)):
                for b in range(a + 1, len(groups)):
                    expected += 0.7 * float(rates[a] - rates[b]) ** 2 + 1.3 * float(impacts[a] - impacts[b]) ** 2
            # Covariance: of each group's indicator with p, among the rows whose group is known; of two groups, one.
            known = torch.tensor([value is not None for value in column]).double() * torch.from_numpy(data.weights)
            for group in groups if len(groups) > 2 else groups[1:]:
                member = torch.from_numpy(column == group).double()
                mean = known @ member / known.sum()
                expected += 2.0 * float(known @ ((member - mean) * (p - 0.5)) / known.sum()) ** 2
        assert problem.evaluate(rows).f == pytest.approx(expected, rel=1e-12)

    def test_disparate_impact_is_what_the_paper_writes(self):
        problem, rows = make_problem(constraints=[DisparateImpact(0.8, columns=("sex",))], regularizers=[])
        data = make_data()
        phi = SmoothedStep(50.0).value(torch.sigmoid(problem.module(data.X).detach()[:, 0]).numpy() - 0.5)
        means = []
        for group in ("f", "m"):
            inside = (data.sex == group) * data.weights
            means.append(float(inside @ phi / inside.sum()))
        expected = {0.8 * means[0] - means[1], 0.8 * means[1] - means[0]}
        evaluation = problem.evaluate(rows)
        assert sorted(evaluation.c.tolist()) == pytest.approx(sorted(expected), rel=1e-12)
        assert evaluation.upper.tolist() == [0.0, 0.0]
        assert np.isinf(evaluation.lower).all()

    def test_rows_without_a_group_count_in_the_loss_and_in_no_limit(self):
        problem, rows = make_problem(constraints=[DemographicParity(0.1, columns=("sex",))], regularizers=[])
        before = problem.evaluate(rows)
        missing = np.array([value is None for value in make_data().sex])[rows.positions]
        rows.X[missing] = 10.0
        after = problem.evaluate(rows)
        assert np.array_equal(before.c, after.c)
        assert np.allclose(before.J.matrix(), after.J.matrix(), rtol=0, atol=1e-15)
        assert abs(before.f - after.f) > 1e-3

    def test_the_order_of_the_rows_does_not_matter(self):
        data, module = make_data(), make_model(3, hidden=(4,), generator=generator(2), dtype=torch.float64)
        results = []
        for order in (np.arange(60), np.random.default_rng(0).permutation(60)):
            groups = {"sex": data.sex[order], "race": data.race[order]}
            cells = Cells.build(data.y[order], groups, weights=data.weights[order])
            problem = TrainingProblem(module, "cross_entropy", CONSTRAINTS, cells, regularizers=REGULARIZERS)
            results.append(problem.evaluate(problem.rows(data.X[order])))
        assert_same(*results)

    def test_without_limits_and_groups(self):
        data = make_data()
        module = make_model(3, generator=generator(), dtype=torch.float64)
        problem = TrainingProblem(module, "cross_entropy", [], Cells.build(data.y))
        rows = problem.rows(data.X)
        evaluation = problem.evaluate(rows)
        assert evaluation.J.shape == (0, 4)
        assert evaluation.violation == 0.0
        leaf = module(data.X)[:, 0]
        loss = functional.binary_cross_entropy_with_logits(leaf, torch.from_numpy(data.y).double())
        expected = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(module.parameters()))])
        np.testing.assert_allclose(evaluation.g, expected, rtol=1e-12, atol=1e-15)
        assert problem.values(rows)[1].shape == (0,)


def assert_same(one: Evaluation, other: Evaluation, atol: float = 1e-12) -> None:
    assert one.f == pytest.approx(other.f, abs=atol)
    np.testing.assert_allclose(one.g, other.g, rtol=0, atol=atol)
    np.testing.assert_allclose(one.c, other.c, rtol=0, atol=atol)
    np.testing.assert_allclose(one.J.matrix(), other.J.matrix(), rtol=0, atol=atol)
    assert np.array_equal(one.lower, other.lower)
    assert np.array_equal(one.upper, other.upper)


class TestChunks:
    @pytest.mark.parametrize("chunk_rows", [1, 7, 59, 1000])
    @pytest.mark.parametrize("n_labels", [2, 3])
    @pytest.mark.parametrize("kind", ["mlp", "of the user"])
    def test_results_do_not_depend_on_the_chunk_size(self, chunk_rows, n_labels, kind):
        module = make_residual(n_labels) if kind == "of the user" else None
        whole, rows = make_problem(n_labels, module=module)
        parts, _ = make_problem(n_labels, module=module, chunk_rows=chunk_rows)
        assert_same(parts.evaluate(rows), whole.evaluate(rows))
        sample = rows.sample(np.minimum(rows.sizes, 3), permutation(1))
        assert_same(parts.evaluate(sample), whole.evaluate(sample))
        f, c = parts.values(rows)
        assert f == pytest.approx(whole.evaluate(rows).f, abs=1e-12)
        np.testing.assert_allclose(c, whole.evaluate(rows).c, rtol=0, atol=1e-12)
        counts = [problem.exact(rows, problem.sweep(rows, gradients=False)) for problem in (parts, whole)]
        assert np.array_equal(*counts)
        assert parts.sweep(rows).accuracy == whole.sweep(rows).accuracy

    @pytest.mark.parametrize("kind", ["equal", "whole numbers", "far apart"])
    def test_the_totals_of_parts_of_the_rows_add_up(self, kind):
        # What lets chunks, processes and machines share a pass; counts and accuracy are exact for any weights.
        draw = np.random.default_rng(3)
        n = 4001
        weights = {
            "equal": np.full(n, 0.7),
            "whole numbers": draw.integers(1, 9, n).astype(float),
            "far apart": 10.0 ** draw.uniform(-6, 6, n),
        }[kind]
        X, y, group = draw.normal(size=(n, 2)), draw.integers(0, 2, n), draw.integers(0, 3, n)
        problem = TrainingProblem(
            make_model(2, generator=generator(1)),
            "binary_cross_entropy",
            "demographic_parity <= 0.1",
            Cells.build(y, group, weights=weights),
        )
        rows = problem.rows(X, loss_weights=weights)
        whole = problem.sweep(rows)
        for chunk_rows in (1, 64, 1000):
            problem.chunk_rows = chunk_rows
            found = problem.sweep(rows)
            assert np.array_equal(found.counts, whole.counts)
            assert found.accuracy == whole.accuracy
        right = (np.concatenate([z for _, z in problem.logits(rows)])[:, 0] > 0) == rows.labels
        exact = math.fsum(weights[rows.positions][right]) / math.fsum(weights)
        assert whole.accuracy == pytest.approx(exact, rel=1e-14)

    @pytest.mark.parametrize("chunk_rows", [0, -3])
    def test_an_impossible_size_is_refused(self, chunk_rows):
        with pytest.raises(ValueError, match=f"chunk_rows={chunk_rows}: must be at least 1"):
            make_problem(chunk_rows=chunk_rows)


class TestViews:
    @pytest.mark.parametrize("n_labels", [2, 3])
    def test_values_are_those_of_evaluate(self, n_labels):
        problem, rows = make_problem(n_labels)
        evaluation, sweep = problem.evaluate_with_sweep(rows)
        f, c = problem.values(rows)
        assert f == pytest.approx(evaluation.f, abs=1e-14)
        np.testing.assert_allclose(c, evaluation.c, rtol=0, atol=1e-14)
        again = problem.sweep(rows, gradients=False)
        assert again.loss_gradient is None
        assert again.sum_gradients is None
        assert again.accuracy == sweep.accuracy
        assert np.array_equal(again.counts, sweep.counts)

    def test_two_outputs_are_one(self):
        one = nn.Sequential(nn.Linear(3, 1, dtype=torch.float64))
        two = nn.Sequential(nn.Linear(3, 2, dtype=torch.float64))
        with torch.no_grad():
            source = generator(7)
            for parameter in two.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=source, dtype=torch.float64))
            one[0].weight.copy_(two[0].weight[1:] - two[0].weight[:1])
            one[0].bias.copy_(two[0].bias[1:] - two[0].bias[:1])
        results = []
        for module in (one, two):
            problem, rows = make_problem(module=module, regularizers=REGULARIZERS[2:])
            results.append(problem.evaluate(rows))
            results.append(problem.exact(rows, problem.sweep(rows)))
        narrow, narrow_counts, wide, wide_counts = results
        assert np.array_equal(narrow_counts, wide_counts)
        assert wide.f == pytest.approx(narrow.f, abs=1e-13)
        np.testing.assert_allclose(wide.c, narrow.c, rtol=0, atol=1e-13)
        # Of two rows of weights and two biases the second pulls like the one output, the first against it.
        for wide_part, narrow_part in ((wide.g, narrow.g), (wide.J.matrix(), narrow.J.matrix())):
            np.testing.assert_allclose(wide_part[..., [3, 4, 5, 7]], narrow_part, rtol=0, atol=1e-13)
            np.testing.assert_allclose(wide_part[..., [0, 1, 2, 6]], -narrow_part, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("n_labels", [2, 3])
    def test_exact_sums_count_decisions(self, n_labels):
        problem, rows = make_problem(n_labels)
        data = make_data(n_labels)
        output = problem.module(data.X).detach().numpy()
        decisions = (output[:, 0] > 0).astype(int) if n_labels == 2 else output.argmax(axis=1)
        counts = problem.exact(rows, problem.sweep(rows, gradients=False))
        cells = problem.cells
        for cell in range(cells.n_cells):
            for column, outcome in enumerate(cells.outcomes):
                chosen = (cells.index == cell) & (decisions == outcome)
                assert float(counts[cell, column]) == pytest.approx(float(cells.weights[chosen].sum()), abs=1e-13)

    def test_the_threshold_moves_the_decisions(self):
        problem, rows = make_problem(constraints=["demographic_parity <= 0.1"], threshold=0.3)
        data = make_data()
        p = torch.sigmoid(problem.module(data.X).detach()[:, 0])
        selected = problem.exact(rows, problem.sweep(rows, gradients=False))[:, 0].sum()
        assert float(selected) == pytest.approx(float(torch.from_numpy(data.weights)[p > 0.3].sum()), rel=1e-14)
        assert problem.threshold == 0.3

    def test_parameters_go_there_and_back(self):
        problem, _ = make_problem()
        w = problem.current()
        problem.assign(w + 1)
        assert np.array_equal(problem.current(), w + 1)


class TestBatch:
    def test_loss_and_limits_may_be_of_different_rows(self):
        problem, rows = make_problem()
        sizes = np.diff(rows.offsets)
        loss_rows = rows.sample(np.minimum(sizes, 2), permutation(1))
        rate_rows = rows.sample(np.minimum(sizes, 3), permutation(2))
        mixed = problem.evaluate(Batch(loss_rows, rate_rows))
        of_loss, of_rates = problem.evaluate(loss_rows), problem.evaluate(rate_rows)
        assert mixed.f == of_loss.f
        assert np.array_equal(mixed.g, of_loss.g)
        assert np.array_equal(mixed.c, of_rates.c)
        assert np.array_equal(mixed.J.matrix(), of_rates.J.matrix())
        f, c = problem.values(Batch(loss_rows, rate_rows))
        assert f == pytest.approx(mixed.f, abs=1e-14)
        np.testing.assert_allclose(c, mixed.c, rtol=0, atol=1e-14)

    def test_derivatives_of_a_batch_against_finite_differences(self):
        problem, rows = make_problem()
        sizes = np.diff(rows.offsets)
        batch = Batch(
            rows.sample(np.minimum(sizes, 2), permutation(1)), rows.sample(np.minimum(sizes, 3), permutation(2))
        )
        evaluation = problem.evaluate(batch)
        g, J = finite_differences(problem, batch)
        np.testing.assert_allclose(evaluation.g, g, **DIFFERENCES)
        np.testing.assert_allclose(evaluation.J.matrix(), J, **DIFFERENCES)

    def test_a_sample_of_all_rows_is_all_rows(self):
        problem, rows = make_problem(regularizers=[])
        sample = rows.sample(np.diff(rows.offsets), permutation())
        assert_same(problem.evaluate(sample), problem.evaluate(rows))


def test_nothing_global_is_touched():
    before = (
        torch.get_rng_state(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002 - it is the global generator that must stay
        torch.get_num_threads(),
        torch.get_num_interop_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )
    problem, rows = make_problem()
    problem.evaluate(rows)
    problem.values(rows)
    problem.evaluate(rows.sample(np.ones(rows.n_segments, dtype=np.int64), permutation()))
    after = (
        torch.get_rng_state(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        torch.get_num_threads(),
        torch.get_num_interop_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )
    assert np.array_equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_evaluating_leaves_the_module_as_it_was():
    problem, rows = make_problem()
    before = problem.current()
    problem.evaluate(rows)
    assert np.array_equal(problem.current(), before)
    assert all(parameter.grad is None for parameter in problem.module.parameters())


class TestBadInput:
    def test_a_module_that_couples_rows(self):
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
        with pytest.raises(ValueError, match=r"layer '1' \(BatchNorm1d\) normalises over the batch"):
            make_problem(module=module)

    def test_a_module_with_the_wrong_number_of_outputs(self):
        with pytest.raises(ValueError, match=r"3 outputs.* 2 classes need 1 \(or 2\)"):
            make_problem(module=make_model(3, 3, dtype=torch.float64))
        with pytest.raises(ValueError, match=r"1 outputs.* 3 classes need 3"):
            make_problem(3, module=make_model(3, dtype=torch.float64))

    def test_a_module_without_parameters(self):
        with pytest.raises(ValueError, match="there is nothing to train"):
            make_problem(module=nn.Flatten())

    def test_a_loss_that_is_not_per_row(self):
        problem, rows = make_problem(loss=nn.BCEWithLogitsLoss())
        with pytest.raises(ValueError, match="it must return one value per row"):
            problem.evaluate(rows)

    def test_an_unknown_loss(self):
        with pytest.raises(ValueError, match="Unknown loss 'log'"):
            make_problem(loss="log")

    def test_limits_without_groups(self):
        data = make_data()
        with pytest.raises(ValueError, match="needs groups: pass sensitive_features"):
            TrainingProblem(make_model(3), "hinge", "disparate_impact >= 0.8", Cells.build(data.y))

    def test_inputs_of_another_length(self):
        data = make_data()
        problem = TrainingProblem(make_model(3), "hinge", "disparate_impact >= 0.8", data.cells())
        with pytest.raises(ValueError, match="X has 59 rows, but y has 60"):
            problem.rows(data.X[:-1])

    @pytest.mark.parametrize("regularizer", [L2, "l2", DisparateImpact(0.8), None])
    def test_what_is_no_regularizer(self, regularizer):
        with pytest.raises(TypeError, match=r"is not a regulariser: give L2\(\.\.\.\), SmoothedL1"):
            make_problem(regularizers=[regularizer])

    def test_regularizers_may_come_from_a_generator(self):
        problem, rows = make_problem(regularizers=(regularizer for regularizer in REGULARIZERS))
        expected, _ = make_problem()
        assert problem.evaluate(rows).f == expected.evaluate(rows).f
