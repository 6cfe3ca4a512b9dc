"""The last layer of a network is a problem of its own: same values, and the same derivatives at its places."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.fairness import Cells
from fairbound.training import L2, SmoothedL1, TrainingProblem, make_model
from fairbound.training.smoothed import SmoothedProgram
from fairbound.training.stage import Stage, last_layer

RANDOM = np.random.default_rng(0)
X, GROUPS = RANDOM.normal(size=(150, 4)), np.array(["a", "b"])[np.arange(150) % 2]
WEIGHTS = RANDOM.uniform(0.5, 2.0, 150)


def make_problem(module: nn.Module, n_classes: int = 2, regularizers=()) -> TrainingProblem:
    cells = Cells.build(RANDOM.integers(0, n_classes, 150), GROUPS, weights=WEIGHTS)
    return TrainingProblem(
        module.double(), "cross_entropy", "demographic_parity <= 0.1", cells, regularizers=regularizers
    )


def network(n_classes: int = 2) -> nn.Module:
    return make_model(4, n_classes, hidden=(6, 3), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_equals_the_whole(n_classes):
    module = network(n_classes)
    chosen = np.zeros(sum(each.numel() for each in module.parameters()))
    chosen[-module[-1].weight.numel() - module[-1].bias.numel() : -module[-1].bias.numel()] = 1.0
    problem = make_problem(module, n_classes, [L2(0.3, of=chosen)])
    rows = problem.rows(X, loss_weights=WEIGHTS)
    before = problem.current()
    layer = last_layer(Stage(problem, rows), before)
    whole, part = SmoothedProgram(problem, rows, 0.7, 0.5), SmoothedProgram(layer.problem, layer.rows, 0.7, 0.5)
    start = part.initial_point()
    assert np.array_equal(start, layer.local(before))
    assert np.array_equal(layer.lift(start), before)
    w = start + RANDOM.normal(size=start.shape)
    there, here, places = whole.evaluate(layer.lift(w)), part.evaluate(w), layer.places
    assert here.f == pytest.approx(there.f, abs=1e-12)
    np.testing.assert_allclose(here.c, there.c, atol=1e-12)
    np.testing.assert_allclose(here.g, there.g[places], atol=1e-12)
    np.testing.assert_allclose(here.J.matrix(), there.J.matrix()[:, places], atol=1e-12)
    assert part.hessian is not None
    assert whole.hessian is None


def test_a_constant_penalty_on_the_other_layers_changes_no_slope():
    problem = make_problem(network(), regularizers=[SmoothedL1(0.2)])
    rows = problem.rows(X)
    layer = last_layer(Stage(problem, rows), problem.current())
    expected = problem.evaluate(rows).g[layer.places]
    np.testing.assert_allclose(layer.problem.evaluate(layer.rows).g, expected, atol=1e-12)


class Added(nn.Module):
    """Something is added to the outputs of the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(x))) + 0.1 * self.last.weight.sum() * x[:, :1]


@pytest.mark.parametrize("module", [make_model(4), Added()], ids=["linear", "added"])
def test_modules_without_a_last_layer_of_their_own(module):
    problem = make_problem(module)
    whole = Stage(problem, problem.rows(X))
    assert last_layer(whole, problem.current()) is whole
