"""Every gradient engine against plain autograd, segment by segment, and the choice among the engines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairbound.training.layers import (
    FeedForwardGradients,
    GradientEngine,
    SliceGradients,
    choose_engine,
)
from fairbound.training.modules import make_model, trainable

SLICES = [(0, 0, 6), (2, 6, 7), (3, 7, 23), (4, 23, 30)]
N_SEGMENTS = 5  # segment 1 has no rows


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs(dtype: torch.dtype = torch.float64) -> Tensor:
    """Thirty rows of three inputs.  The first six are alike, as the first rows of sorted data often are."""
    X = torch.randn(30, 3, generator=generator(1), dtype=torch.float64)
    X[:6] = X[:6].abs() + 0.5
    return X.to(dtype)


class Residual(nn.Module):
    """A forward of its own: a skip, a product of two layers, and functions instead of layers."""

    def __init__(self, n_outputs: int = 1) -> None:
        super().__init__()
        self.first, self.gate, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        return self.last(h + h * torch.sigmoid(self.gate(h)))


class OneDimension(Residual):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, 0]


class CalledTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.last = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.shared(torch.tanh(self.shared(x)))))


class OverwritesInPlace(nn.Module):
    """All units are active on the first six rows of `inputs`, so that trying these rows shows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.relu, self.last = nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1)
        with torch.no_grad():
            self.first.weight.copy_(torch.eye(3))
            self.first.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.relu(self.first(x)))


class Experts(nn.Module):
    """Sends rows to one of two layers; the first six rows of `inputs` all go to the first."""

    def __init__(self, n_outputs: int = 1) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, n_outputs), nn.Linear(3, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        mask = (x[:, :1] > 0).expand(-1, self.one.out_features)
        out = x.new_zeros(mask.shape).masked_scatter(mask, self.one(x[mask[:, 0]]))
        return out.masked_scatter(~mask, self.other(x[~mask[:, 0]]))


class OtherParameters(nn.Module):
    """Parameters outside of linear layers: a norm, a table that is looked up, and a free factor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.table = nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(2, 4)
        self.factor, self.last = nn.Parameter(torch.tensor(1.5)), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        looked_up = self.table((x[:, 0] > 0).long())
        return self.factor * self.last(self.norm(self.linear(x)) + looked_up)


class UsesWeightItself(nn.Module):
    """A layer whose weight is used past its call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.linear(x)) @ self.linear.weight)


class TiedWeights(nn.Module):
    """Two layers with one weight between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


class UnusedLayer(Residual):
    def __init__(self) -> None:
        super().__init__()
        self.aside = nn.Linear(2, 2)


def sequence(*parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(*parts)


def called_twice() -> nn.Module:
    layer = nn.Linear(3, 3)
    return sequence(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(3, 1))


def frozen(module: nn.Module, *names: str) -> nn.Module:
    for name in names:
        module.get_parameter(name).requires_grad_(False)
    return module


def with_hook(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda module, arguments, output: output + 5)
    return module


def with_inner_hook(module: nn.Sequential) -> nn.Module:
    module[0].register_forward_pre_hook(lambda module, arguments: (arguments[0] ** 2,))
    return module


MODULES: dict[str, tuple[Callable[[], nn.Module], type[GradientEngine]]] = {
    "linear": (lambda: make_model(3), FeedForwardGradients),
    "linear, two outputs": (lambda: nn.Sequential(nn.Linear(3, 2)), FeedForwardGradients),
    "mlp": (lambda: make_model(3, hidden=(5,)), FeedForwardGradients),
    "mlp, wide and narrow": (lambda: make_model(3, hidden=(7, 2, 4)), FeedForwardGradients),
    "mlp, one unit": (lambda: make_model(3, hidden=(1, 1)), FeedForwardGradients),
    "mlp, two outputs": (lambda: sequence(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), FeedForwardGradients),
    "mlp, three classes": (lambda: make_model(3, 3, (5,)), FeedForwardGradients),
    "mlp, relu in place": (lambda: sequence(nn.Linear(3, 4), nn.ReLU(True), nn.Linear(4, 1)), FeedForwardGradients),
    "mlp, steep leak": (lambda: sequence(nn.Linear(3, 4), nn.LeakyReLU(0.5), nn.Linear(4, 1)), FeedForwardGradients),
    "mlp, frozen first layer": (lambda: frozen(make_model(3, hidden=(4,)), "0.weight", "0.bias"), FeedForwardGradients),
    "mlp, frozen last bias": (lambda: frozen(make_model(3, hidden=(4,)), "2.bias"), FeedForwardGradients),
    "mlp, called twice": (called_twice, FeedForwardGradients),
    "a layer itself": (lambda: nn.Linear(3, 1), SliceGradients),
    "mlp, tanh": (lambda: sequence(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), SliceGradients),
    "mlp, no bias": (
        lambda: sequence(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False)),
        SliceGradients,
    ),
    "mlp, flattened": (lambda: sequence(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.Flatten(0)), SliceGradients),
    "residual": (Residual, SliceGradients),
    "residual, one dimension": (OneDimension, SliceGradients),
    "residual, two outputs": (lambda: Residual(2), SliceGradients),
    "residual, three classes": (lambda: Residual(3), SliceGradients),
    "residual, frozen weight": (lambda: frozen(Residual(), "gate.weight"), SliceGradients),
    "tied weights": (TiedWeights, SliceGradients),
    "called twice": (CalledTwice, SliceGradients),
    "overwrites in place": (OverwritesInPlace, SliceGradients),
    "experts": (Experts, SliceGradients),
    "experts, three classes": (lambda: Experts(3), SliceGradients),
    "uses the weight itself": (UsesWeightItself, SliceGradients),
    "other parameters": (OtherParameters, SliceGradients),
    "unused layer": (UnusedLayer, SliceGradients),
}
TOLERANCE = {
    # Thirty rows of numbers of size 1 with pulls of size 1: a few hundred units of rounding at most.
    torch.float64: {"rtol": 1e-12, "atol": 1e-13},
    torch.float32: {"rtol": 1e-4, "atol": 2e-5},
}


def make(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Build the module with weights from a generator of our own."""
    module = MODULES[name][0]()
    source = generator(3)
    with torch.no_grad():
        for parameter in module.parameters():
            if not isinstance(module, OverwritesInPlace):
                parameter.copy_(torch.randn(parameter.shape, generator=source))
    return module.to(dtype)


def cotangents(outputs: Tensor) -> Tensor:
    """Three pulls that differ by row and output, the last of them zero on some rows."""
    n, wide = outputs.shape[0], outputs.reshape(outputs.shape[0], -1).shape[1]
    pulls = torch.randn(3, n, wide, generator=generator(n), dtype=torch.float64)
    pulls[2, ::2] = 0.0
    return pulls


def by_autograd(module: nn.Module, X: Tensor) -> Tensor:
    output = module(X)
    pulls = cotangents(output).to(output.dtype)
    result = torch.zeros(3, N_SEGMENTS, sum(p.numel() for p in trainable(module)), dtype=torch.float64)
    for j, pull in enumerate(pulls):
        for segment, start, stop in SLICES:
            total = (output.reshape(len(X), -1) * pull)[start:stop].sum()
            parts = torch.autograd.grad(total, trainable(module), retain_graph=True, materialize_grads=True)
            result[j, segment] = torch.cat([part.reshape(-1).double() for part in parts])
    return result


def by_engine(engine: GradientEngine, module: nn.Module, X: Tensor, times: int = 1) -> Tensor:
    gradients = torch.zeros(3, N_SEGMENTS, sum(p.numel() for p in trainable(module)), dtype=torch.float64)
    for _ in range(times):
        engine.accumulate(X, SLICES, cotangents, gradients)
    return gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", MODULES)
class TestEveryModule:
    def test_the_chosen_engine_agrees_with_autograd(self, name, dtype):
        module, X = make(name, dtype), inputs(dtype)
        engine = choose_engine(module, X)
        np.testing.assert_allclose(by_engine(engine, module, X), by_autograd(module, X), **TOLERANCE[dtype])

    def test_outputs_are_those_of_the_module(self, name, dtype):
        module, X = make(name, dtype), inputs(dtype)
        output = choose_engine(module, X).outputs(X)
        assert not output.requires_grad
        np.testing.assert_allclose(output, module(X).detach(), **TOLERANCE[dtype])


@pytest.mark.parametrize(("name", "engine"), [(name, engine) for name, (_, engine) in MODULES.items()])
def test_the_fastest_right_engine_is_chosen(name, engine):
    module = make(name)
    assert type(choose_engine(module, inputs())) is engine


@pytest.mark.parametrize(
    "module",
    [
        with_hook(make_model(3, hidden=(4,), dtype=torch.float64)),
        with_inner_hook(make_model(3, hidden=(4,), dtype=torch.float64)),
    ],
    ids=["on the module", "on a layer"],
)
def test_hooks_of_the_user_are_part_of_the_module(module):
    X = inputs()
    assert not FeedForwardGradients.fits(module, X)  # it would never call them
    engine = choose_engine(module, X)
    np.testing.assert_allclose(engine.outputs(X), module(X).detach(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(by_engine(engine, module, X), by_autograd(module, X), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["mlp", "residual", "other parameters"])
class TestOneEngineManyTimes:
    def test_gradients_add_up(self, name):
        module, X = make(name), inputs()
        three = by_engine(choose_engine(module, X), module, X, times=3)
        np.testing.assert_allclose(three, 3 * by_autograd(module, X), rtol=1e-12, atol=1e-12)

    def test_new_parameters_are_seen(self, name):
        module, X = make(name), inputs()
        engine = choose_engine(module, X)
        by_engine(engine, module, X)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(-0.7)
        np.testing.assert_allclose(by_engine(engine, module, X), by_autograd(module, X), rtol=1e-12, atol=1e-13)

    def test_fewer_rows_leave_the_others_out(self, name):
        module, X = make(name), inputs()
        engine = choose_engine(module, X)
        whole, first = by_engine(engine, module, X), torch.zeros_like(by_autograd(module, X))
        pulls = cotangents(engine.outputs(X))
        engine.accumulate(X[:6], SLICES[:1], lambda outputs: pulls[:, :6], first)
        np.testing.assert_allclose(first[:, 0], whole[:, 0], rtol=1e-12, atol=1e-13)
        assert not first[:, 1:].any()


@pytest.mark.parametrize("name", ["mlp", "residual", "other parameters"])
def test_nothing_is_left_behind(name):
    module, X = make(name), inputs()
    before = [parameter.clone() for parameter in module.parameters()]
    engine = choose_engine(module, X)
    with torch.no_grad():  # the optimiser steps without gradients
        by_engine(engine, module, X)
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))
    assert all(not part._forward_hooks for part in module.modules())
    assert not X.requires_grad
