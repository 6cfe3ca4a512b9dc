"""Theorem 3: batches with fixed numbers per cell estimate measures and objective without bias.

The paper states it for the difference of two selection rates.  Here it holds for every measure that is linear in cell
sums: for selection rates, for rates given the label, and for the objective, whose rows are reweighted by N_k/n_k.  The
tests take all batches of eleven rows, and compare their mean with the value of all rows.  So they are exact; only the
last test is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
import pytest
import torch

from fairbound.data import make_disparate_data
from fairbound.fairness import Cells, Sigmoid
from fairbound.training import L2, Rows, SquaredMeasure, StratifiedBatches, TrainingProblem, make_model

LABELS = [0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1]
GROUPS = ["a"] * 7 + ["b"] * 4
SIZES = [3, 4, 2, 2]  # rows in the cells a0, a1, b0, b1
EXACT = 1e-12  # means of up to a thousand numbers of size 1, each with a few units of rounding


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_problem(
    constraints=(), regularizers=(), labels=LABELS, groups=GROUPS, weighted: bool = True
) -> tuple[TrainingProblem, Rows]:
    random = np.random.default_rng(3)
    n, n_labels = len(labels), len(set(labels))
    weights = random.uniform(0.5, 2.0, n) if weighted else None
    module = make_model(2, n_labels, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0)
    cells = Cells.build(labels, groups, weights=weights)
    problem = TrainingProblem(module, "cross_entropy", constraints, cells, regularizers=regularizers)
    return problem, problem.rows(random.standard_normal((n, 2)), loss_weights=weights)


@pytest.fixture
def all_samples():
    """Return a function that yields every sample that `Rows.sample` can draw, each as likely as any other."""

    def draw(rows: Rows, counts: list[int]) -> Iterator[Rows]:
        sizes = np.diff(rows.offsets).tolist()
        for chosen in product(*(list(splits(size, count)) for size, count in zip(sizes, counts, strict=True))):
            orders = iter([chosen[segment] for segment in np.argsort(sizes, kind="stable")])  # smallest cells first
            yield rows.sample(np.array(counts), lambda size, orders=orders: np.array(next(orders)))

    return draw


def splits(size: int, count: int) -> Iterator[list[int]]:
    """Orders of a cell's rows that differ in the first or the second half of the `count` rows drawn."""
    for first in combinations(range(size), count // 2):
        others = [row for row in range(size) if row not in first]
        for second in combinations(others, count - count // 2):
            yield [*first, *second, *(row for row in others if row not in second)]


def test_the_enumeration_is_complete():
    drawn = list(splits(4, 3))
    assert len(drawn) == 4 * 3
    assert all(sorted(order) == [0, 1, 2, 3] for order in drawn)
    picked = [frozenset(order[:3]) for order in drawn]
    assert {picked.count(rows) for rows in map(frozenset, combinations(range(4), 3))} == {3}


def mean_of_evaluations(problem: TrainingProblem, samples: Iterator[Rows]) -> list[np.ndarray]:
    """Means of f, g, c and J."""
    evaluations = [problem.evaluate(sample) for sample in samples]
    return [
        np.mean(values, axis=0) for values in zip(*((e.f, e.g, e.c, e.J.matrix()) for e in evaluations), strict=True)
    ]


COUNTS = [[2, 2, 1, 1], [1, 1, 1, 1], [2, 3, 1, 1]]


def check_constraints(constraints: list[str], counts: list[int], all_samples) -> None:
    problem, rows = make_problem(constraints)
    expected = problem.evaluate(rows)
    _, _, c, J = mean_of_evaluations(problem, all_samples(rows, counts))
    np.testing.assert_allclose(c, expected.c, rtol=0, atol=EXACT)
    # The steep surrogate has derivatives of size 10.
    np.testing.assert_allclose(J, expected.J.matrix(), rtol=0, atol=10 * EXACT)
    # A single batch is another matter, so the means say something.
    assert (np.abs(problem.evaluate(next(all_samples(rows, counts))).c - expected.c) > 1e-4).all()


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_theorem_3_selection_rates(counts, all_samples):
    check_constraints(
        [
            "demographic_parity <= 0.1",
            "disparate_impact >= 0.8",
            "disparate_impact >= 0.8 against overall",
            "covariance <= 0.05",
            "selection_rate[a] >= 0.3",
        ],
        counts,
        all_samples,
    )


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_theorem_3_rates_given_the_label(counts, all_samples):
    check_constraints(
        ["equal_opportunity <= 0.1", "equal_impact >= 0.8", "equalized_odds <= 0.1", "accuracy_parity <= 0.1"],
        counts,
        all_samples,
    )


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_theorem_3_objective(counts, all_samples):
    """The loss and its gradient, with the rows reweighted by N_k/n_k."""
    problem, rows = make_problem(regularizers=[L2(0.1)])
    expected = problem.evaluate(rows)
    f, g, _, _ = mean_of_evaluations(problem, all_samples(rows, counts))
    assert f == pytest.approx(expected.f, abs=EXACT)
    np.testing.assert_allclose(g, expected.g, rtol=0, atol=EXACT)


def test_theorem_3_objective_needs_the_weights(all_samples):
    """The plain mean over a batch with fixed numbers per cell is biased."""
    problem, rows = make_problem(weighted=False)
    counts = [2, 1, 2, 1]  # far from the proportions 3 : 4 : 2 : 2
    plain = [replace(sample, loss_weights=np.full(6, 1 / 6)) for sample in all_samples(rows, counts)]
    f, g, _, _ = mean_of_evaluations(problem, iter(plain))
    expected = problem.evaluate(rows)
    assert abs(f - expected.f) > 1e-2
    assert np.abs(g - expected.g).max() > 1e-2


def test_theorem_3_several_classes_and_missing_groups(all_samples):
    labels = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    groups = ["a", "a", "a", "a", "a", "a", "b", "b", "b", "b", "b", None]
    problem, rows = make_problem(["demographic_parity <= 0.1", "equal_opportunity <= 0.1"], [], labels, groups)
    counts = np.minimum(np.diff(rows.offsets), 1).tolist()
    expected = problem.evaluate(rows)
    f, g, c, J = mean_of_evaluations(problem, all_samples(rows, counts))
    assert f == pytest.approx(expected.f, abs=EXACT)
    np.testing.assert_allclose(g, expected.g, rtol=0, atol=EXACT)
    np.testing.assert_allclose(c, expected.c, rtol=0, atol=EXACT)
    np.testing.assert_allclose(J, expected.J.matrix(), rtol=0, atol=10 * EXACT)


def test_theorem_3_does_not_hold_for_precision(all_samples):
    """A quotient of two sums of the batch is biased: what the theorem does not say."""
    problem, rows = make_problem(["predictive_parity <= 0.1"])
    _, _, c, _ = mean_of_evaluations(problem, all_samples(rows, [1, 1, 1, 1]))
    assert np.abs(c - problem.evaluate(rows).c).max() > 1e-3


SQUARES = [SquaredMeasure("demographic_parity"), SquaredMeasure("equal_impact"), SquaredMeasure("covariance")]
GENTLE = [replace(square, surrogate=Sigmoid(4.0)) for square in SQUARES]


@pytest.mark.parametrize("counts", [[2, 2, 2, 2], [2, 3, 2, 2]], ids=str)
@pytest.mark.parametrize("square", GENTLE, ids=lambda square: str(square.measure))
class TestTheorem3Square:
    """Squared measures: a batch's own square is biased; what its two halves differ by takes the bias away."""

    def test_two_halves_are_unbiased(self, square, counts, all_samples):
        problem, rows = make_problem(regularizers=[square])
        expected = problem.evaluate(rows)
        f, g, _, _ = mean_of_evaluations(problem, all_samples(rows, counts))
        assert f == pytest.approx(expected.f, abs=EXACT)
        np.testing.assert_allclose(g, expected.g, rtol=0, atol=EXACT)

    def test_the_square_of_one_batch_is_biased(self, square, counts, all_samples):
        problem, rows = make_problem(regularizers=[square])
        expected = problem.evaluate(rows)
        whole = (replace(sample, halves=False) for sample in all_samples(rows, counts))
        f, _, _, _ = mean_of_evaluations(problem, whole)
        assert f - expected.f > 1e-6  # by the variance of the measure, thousands of times what is allowed above


@pytest.mark.parametrize("square", GENTLE, ids=lambda square: str(square.measure))
class TestTheorem3SquareAtTheEnds:
    def test_a_batch_of_all_rows_has_the_square_itself(self, square):
        problem, rows = make_problem(regularizers=[square])
        expected = problem.evaluate(rows)
        everything = problem.evaluate(rows.sample(np.array(SIZES), np.random.default_rng(0).permutation))
        assert everything.f == pytest.approx(expected.f, abs=EXACT)
        np.testing.assert_allclose(everything.g, expected.g, rtol=0, atol=EXACT)

    def test_a_cell_of_a_single_row_does_not_bring_the_bias_back(self, square, all_samples):
        # Rows a0: 2, a1: 4, b0: 1, b1: 3; the single row of b0 is in every batch, so it adds no variance.
        labels, groups = [0, 0, 1, 1, 1, 1, 0, 1, 1, 1], ["a"] * 6 + ["b"] * 4
        problem, rows = make_problem([], [square], labels, groups)
        expected = problem.evaluate(rows)
        f, g, _, _ = mean_of_evaluations(problem, all_samples(rows, [2, 2, 1, 2]))
        assert f == pytest.approx(expected.f, abs=EXACT)
        np.testing.assert_allclose(g, expected.g, rtol=0, atol=EXACT)


def test_theorem_3_on_planted_data():
    """Thousands of rows and a network: means over 300 random batches lie within five standard errors."""
    data, _ = make_disparate_data(2000, base_rates={"a": 0.6, "b": 0.3, "c": 0.4}, seed=1)
    cells = Cells.build(data.y, data.sensitive)
    module = make_model(data.X.shape[1], hidden=(3,), generator=generator(2), dtype=torch.float64)
    limits = ["disparate_impact >= 0.8", "equalized_odds <= 0.1"]
    square = SquaredMeasure(surrogate=Sigmoid(4.0), weight=10.0)
    problem = TrainingProblem(module, "cross_entropy", limits, cells, regularizers=[square])
    rows = problem.rows(data.X)
    expected = problem.evaluate(rows)
    batches = StratifiedBatches(rows, 100, constraints="batch", generator=generator(3))
    evaluations = [problem.evaluate(batch) for batch in chain.from_iterable(batches for _ in range(15))]
    assert len(evaluations) >= 300
    for name in ("c", "g"):
        drawn = np.stack([getattr(evaluation, name) for evaluation in evaluations])
        error = drawn.std(axis=0, ddof=1) / len(drawn) ** 0.5
        assert (error > 0).all()
        assert (np.abs(drawn.mean(axis=0) - getattr(expected, name)) < 5 * error).all()
