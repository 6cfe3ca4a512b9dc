"""Constant predictions: each class has one, it decides for that class, and no other constant has a smaller loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.fairness import Cells
from fairbound.training import TrainingProblem, assess_now, make_model
from fairbound.training.constants import constant_models

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 3))


class Skip(nn.Module):
    """A layer without a bias carries the inputs past the others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last, self.past = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.inner(x))) + self.past(x)


def make_problem(module: nn.Module, n_classes: int = 2, threshold: float = 0.5, share: float = 0.3) -> TrainingProblem:
    labels = (RANDOM.random(200) < share) * RANDOM.integers(1, n_classes, 200)
    labels[:n_classes] = range(n_classes)
    cells = Cells.build(labels, np.arange(200) % 2)
    return TrainingProblem(module.double(), "cross_entropy", "demographic_parity <= 0.1", cells, threshold=threshold)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("module", [make_model(3), make_model(3, hidden=(4, 2)), Skip()], ids=["linear", "mlp", "skip"])
def test_two_constants_decide_for_their_classes(module, threshold):
    problem = make_problem(module, threshold=threshold)
    rows, before = problem.rows(X), problem.current()
    constants = constant_models(problem, rows)
    assert np.array_equal(problem.current(), before)
    found = []
    for constant in constants:
        problem.assign(constant)
        found.append(assess_now(problem, rows))
        (rates,) = found[-1].rates.values()
        assert found[-1].kept
        assert set(rates.values()) == {float(len(found) - 1)}
    share = float(rows.class_weights[1])
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert sorted(each.accuracy for each in found) == pytest.approx(sorted([share, 1 - share]))
    assert min(each.loss for each in found) == pytest.approx(entropy, rel=1e-9 if 0.3 < threshold < 0.9 else 1.0)


def test_three_classes_have_three_constants():
    problem = make_problem(make_model(3, 3, hidden=(4,)), 3)
    rows = problem.rows(X)
    constants = constant_models(problem, rows)
    for place, constant in enumerate(constants):
        problem.assign(constant)
        with torch.no_grad():
            assert set(problem.module(torch.from_numpy(X)).argmax(dim=1).tolist()) == {place}
    assert len(constants) == 3


def test_a_module_without_a_linear_output_layer_has_none():
    frozen = make_model(3)
    for parameter in frozen[0].parameters():
        parameter.requires_grad_(False)
    scaled = nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 1, bias=False), nn.Hardtanh(-0.5, 0.5))
    for module in (nn.Sequential(frozen, nn.PReLU()), scaled):
        problem = make_problem(module)
        assert constant_models(problem, problem.rows(X)) == []
