"""The assessment of a model on all rows: exact measures from its decisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.fairness import Cells, DemographicParity, DisparateImpact, SmoothedStep, rate_limit
from fairbound.training import L2, TrainingProblem, assess_now, make_model
from fairbound.training.assessment import Assessment

N = 90


def make(n_labels: int = 2, constraints=(), weighted: bool = False, module: nn.Module | None = None, **options):
    random = np.random.default_rng(4)
    X, y = random.standard_normal((N, 3)), random.integers(0, n_labels, N)
    group = np.array(["a", "b", "c"], dtype=object)[random.integers(0, 3, N)]
    group[::8] = None
    weights = random.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    if module is None:
        module = make_model(3, n_labels, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        with torch.no_grad():
            module[0].bias.zero_()  # about as many are selected as not
    cells = Cells.build(y, {"group": group}, weights=weights)
    problem = TrainingProblem(module, "cross_entropy", constraints, cells, **options)
    rows = problem.rows(X, loss_weights=weights)
    output = module(torch.from_numpy(X)).detach()
    decisions = (output[:, 0] > 0).numpy().astype(int) if n_labels == 2 else output.argmax(dim=1).numpy()
    return problem, rows, assess_now(problem, rows), y, group, weights, decisions


class Constant(nn.Module):
    """Says the same of every row."""

    def __init__(self, logit: float) -> None:
        super().__init__()
        self.logit = nn.Parameter(torch.tensor(logit, dtype=torch.float64))

    def forward(self, x):
        return self.logit.expand(len(x), 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_labels", [2, 3])
class TestAgainstCounting:
    def test_accuracy(self, n_labels, weighted):
        _, _, assessment, y, _, weights, decisions = make(n_labels, weighted=weighted)
        assert assessment.accuracy == pytest.approx(weights @ (decisions == y) / weights.sum(), rel=1e-14)
        best = max(weights @ (y == label) for label in range(n_labels)) / weights.sum()
        assert assessment.constant_accuracy == pytest.approx(best, rel=1e-14)
        assert assessment.gain == pytest.approx(assessment.accuracy - assessment.constant_accuracy, rel=1e-14)

    def test_selection_rates_by_group(self, n_labels, weighted):
        _, _, assessment, _, group, weights, decisions = make(n_labels, weighted=weighted)
        assert list(assessment.rates) == ["group"]
        assert list(assessment.rates["group"]) == ["a", "b", "c"]
        for name, rate in assessment.rates["group"].items():
            inside = (group == name) * weights
            shares = {label: inside @ (decisions == label) / inside.sum() for label in range(n_labels)}
            assert rate == pytest.approx(shares[1] if n_labels == 2 else shares, rel=1e-14)

    def test_measures(self, n_labels, weighted):
        constraints = [DemographicParity(0.1), DisparateImpact(0.8)]
        problem, _, assessment, _, group, weights, decisions = make(n_labels, constraints, weighted)
        outcomes = [1] if n_labels == 2 else range(3)
        rates = {
            (name, label): ((group == name) * weights) @ (decisions == label) / weights[group == name].sum()
            for name in "abc"
            for label in outcomes
        }
        differences = [abs(rates[a, k] - rates[b, k]) for k in outcomes for a in "abc" for b in "abc"]
        ratios = [rates[a, k] / rates[b, k] for k in outcomes for a in "abc" for b in "abc"]
        assert assessment.measured == pytest.approx([max(differences), min(ratios)], rel=1e-12)
        assert len(assessment.exact) == len(assessment.surrogate) == problem.system.n_rows
        assert assessment.kept is bool(max(differences) <= 0.1 and min(ratios) >= 0.8)

    def test_a_steep_surrogate_comes_near_the_exact_measure(self, n_labels, weighted):
        steep = SmoothedStep(1e9, smoothing=1e-8)
        _, _, assessment, *_ = make(n_labels, [DemographicParity(0.1, surrogate=steep)], weighted)
        assert assessment.measured_surrogate == pytest.approx(assessment.measured, abs=1e-6)
        np.testing.assert_allclose(assessment.surrogate, assessment.exact, rtol=0, atol=1e-6)


class TestKept:
    @pytest.mark.parametrize(("excess", "kept"), [(-1e-3, True), (0.0, True), (1e-13, True), (1e-9, False)])
    def test_is_a_matter_of_decisions_and_rounding(self, excess, kept):
        _, _, free, *_ = make(constraints=[rate_limit("selection_rate", group="a", upper=1.0)])
        rate = free.rates["group"]["a"]
        _, _, assessment, *_ = make(constraints=[rate_limit("selection_rate", group="a", upper=rate - excess)])
        assert assessment.kept is kept
        assert assessment.measured[0] - (rate - excess) == pytest.approx(excess, abs=1e-15)
        assert assessment.exact_violation == pytest.approx(max(excess, 0.0), abs=1e-15)

    def test_without_limits_all_are_kept(self):
        _, _, assessment, *_ = make()
        assert assessment.kept
        assert assessment.measured == []
        assert assessment.exact_violation == assessment.surrogate_violation == 0.0

    def test_violations_add_up_over_rows(self):
        floors = [rate_limit("selection_rate", group=group, lower=1.0) for group in "abc"]
        _, _, assessment, *_ = make(constraints=floors)
        missing = [1.0 - rate for rate in assessment.rates["group"].values()]
        assert assessment.exact_violation == pytest.approx(sum(missing), rel=1e-12)
        assert 1.0 - np.array(assessment.measured) == pytest.approx(missing, rel=1e-12)


class TestGain:
    @pytest.mark.parametrize("logit", [-3.0, 3.0])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_constant_prediction_gains_nothing(self, logit, weighted):
        _, _, assessment, y, _, weights, _ = make(weighted=weighted, module=Constant(logit))
        share = weights @ y / weights.sum()
        if (logit > 0) == (share > 0.5):
            assert assessment.gain == 0.0
        else:
            assert assessment.gain == pytest.approx(-abs(2 * share - 1), rel=1e-12)

    @pytest.mark.parametrize(("accuracy", "constant", "gain"), [(0.1 + 0.2, 0.3, 0.0), (0.5 + 1e-6, 0.5, 1e-6)])
    def test_rounding_is_no_gain_and_a_row_is(self, accuracy, constant, gain):
        assert accuracy != constant
        numbers = {"accuracy": accuracy, "constant_accuracy": constant}
        rest = dict.fromkeys(set(Assessment.__dataclass_fields__) - set(numbers))
        assert Assessment(**numbers, **rest).gain == pytest.approx(gain, rel=1e-6, abs=0)


def test_objective_holds_the_regularisers_and_loss_does_not():
    problem, rows, assessment, *_ = make(regularizers=[L2(0.5)])
    w = problem.current()
    assert assessment.objective == pytest.approx(assessment.loss + 0.25 * float(w @ w), rel=1e-14)
    assert assessment.objective == pytest.approx(problem.evaluate(rows).f, rel=1e-14)
