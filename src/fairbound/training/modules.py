"""Torch modules: build networks, check a user's module, and flatten parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from numbers import Integral

import torch
from torch import Tensor, nn

LARGEST_NETWORK = 2**30
"""Largest number of weights of a network that `make_model` builds; training a larger one needs too much memory."""


def make_model(
    n_inputs: int,
    n_labels: int = 2,
    hidden: Sequence[int] = (),
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """Return a linear model, or a feed-forward network with leaky ReLU (slope 0.01) as in the paper; it emits logits.

    Weights are drawn uniformly from ±1/√(inputs of the layer), as PyTorch does by default.  Only `generator` is used,
    by default a new one with seed 0, so the model is reproducible and the global generator does not change.

    >>> make_model(11, hidden=(32,))
    Sequential(
      (0): Linear(in_features=11, out_features=32, bias=True)
      (1): LeakyReLU(negative_slope=0.01)
      (2): Linear(in_features=32, out_features=1, bias=True)
    )
    """
    if not _is_count(n_inputs, 1):
        raise ValueError(f"n_inputs={n_inputs!r}: must be a whole number of at least 1, the columns of X.")
    if not _is_count(n_labels, 1):
        raise ValueError(f"n_labels={n_labels!r}: must be a whole number, the classes of y (1: a regression).")
    if not isinstance(hidden, Sequence) or isinstance(hidden, str) or not all(_is_count(width, 1) for width in hidden):
        raise ValueError(
            f"hidden={hidden!r}: must hold the width of each hidden layer, whole numbers of at least 1, for example "
            "(32,); () is a linear model."
        )
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    widths = [int(n_inputs), *map(int, hidden), 1 if n_labels == 2 else int(n_labels)]
    weights = sum(wide_in * wide_out for wide_in, wide_out in pairwise(widths))
    if weights > LARGEST_NETWORK:
        raise ValueError(
            f"hidden={hidden!r}: these layers have more than {LARGEST_NETWORK:,} weights; give fewer or narrower ones."
        )
    layers: list[nn.Module] = []
    for wide_in, wide_out in pairwise(widths):
        layer = blank_linear(wide_in, wide_out, dtype=dtype)
        reach = wide_in**-0.5
        with torch.no_grad():
            layer.weight.uniform_(-reach, reach, generator=generator)
            layer.bias.uniform_(-reach, reach, generator=generator)
        layers += [layer, nn.LeakyReLU(0.01)]
    return nn.Sequential(*layers[:-1])


def blank_linear(n_inputs: int, n_outputs: int, *, bias: bool = True, dtype: torch.dtype) -> nn.Linear:
    """Return a linear layer whose values are not set; the global generator does not change.

    `nn.utils.skip_init` does the same, but its first call imports 500 modules, which takes as long as a small fit.
    """
    layer = nn.Linear(n_inputs, n_outputs, bias=bias, device="meta", dtype=dtype)
    for name, parameter in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(torch.empty(parameter.shape, dtype=dtype)))
    return layer


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that require a gradient, in the module's order."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("The module has no parameter that requires a gradient: there is nothing to train.")
    return parameters


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Return several tensors as one flat float64 vector on the CPU."""
    return torch.cat([tensor.detach().reshape(-1).to("cpu", torch.float64) for tensor in tensors])


def assign(parameters: Sequence[nn.Parameter], flat: Tensor) -> None:
    """Write a flat vector into parameters, in place."""
    sizes = [parameter.numel() for parameter in parameters]
    if flat.shape != (sum(sizes),):
        raise ValueError(f"The module has {sum(sizes)} parameters, but the vector has shape {tuple(flat.shape)}.")
    with torch.no_grad():
        for parameter, part in zip(parameters, flat.split(sizes), strict=True):
            parameter.copy_(part.reshape(parameter.shape))


def accepts(module: nn.Module, X: Tensor) -> bool:
    """Return whether the module can be called with these rows."""
    try:
        with evaluation_mode(module), torch.no_grad():
            module(X)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    return True


BY_BATCHES = "Train by mini-batches, with epochs=20"

_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.batchnorm._LazyNormBase)


def _mode_dependent(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the layers that, in the module's present mode, mix rows or are random."""
    for name, part in module.named_modules():
        if isinstance(part, _NORMS) and (part.training or not part.track_running_stats):
            yield name, part
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.training and part.p > 0:
            yield name, part


class LayerModes:
    """The mode of every layer of a module (training or evaluation) at one time."""

    def __init__(self, module: nn.Module) -> None:
        self.modes = [(part, part.training) for part in module.modules()]

    def restore(self) -> None:
        """Set every layer to its mode at that time."""
        for part, mode in self.modes:
            part.training = mode


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Set the module to evaluation mode, and restore the mode of every layer afterwards."""
    modes = LayerModes(module)
    module.eval()
    try:
        yield
    finally:
        modes.restore()


def check_rows_are_independent(module: nn.Module, X: Tensor) -> None:
    """Raise an error if the module's output for a row depends on the other rows or on chance.

    For such modules a rate is not a sum over rows.  Known layers (BatchNorm, Dropout) are recognised by their type,
    before they change running statistics or draw random numbers.  For all others, the outputs of a few rows are
    computed together and one by one, and compared.
    """
    for name, part in _mode_dependent(module):
        if isinstance(part, nn.modules.dropout._DropoutNd):
            raise ValueError(
                f"The module's layer {name!r} ({type(part).__name__}) drops units at random, so the same row has "
                f"different outputs. {BY_BATCHES}, call module.eval() before training, or remove the layer."
            )
        keeps = part.track_running_stats  # else evaluation mode normalises over the batch, too
        raise ValueError(
            f"The module's layer {name!r} ({type(part).__name__}) normalises over the batch, so a row's output depends "
            f"on the other rows and no rate is a sum over rows. {f'{BY_BATCHES}, use' if keeps else 'Use'} LayerNorm, "
            "or call module.eval() before training."
        )
    # Rows are sorted by cell, so the first ones may be very similar: take rows from all over the data.
    n_probe = min(len(X), 8)
    probe = X[torch.arange(n_probe) * (len(X) - 1) // max(n_probe - 1, 1)]
    with torch.no_grad():
        together, again = _output(module, probe), _output(module, probe)
        if not torch.allclose(together, again, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise ValueError(
                "The module gives different outputs for the same rows (dropout in training mode?). "
                f"{BY_BATCHES}, call module.eval() before training, or remove the random layer."
            )
        apart = torch.cat([_output(module, row[None]) for row in probe])
        if together.shape != apart.shape or not torch.allclose(together, apart, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise ValueError(
                "The module's output for a row changes with the other rows of the batch, so no rate is a sum over "
                "rows. Replace the layer that mixes rows."
            )


def _output(module: nn.Module, X: Tensor) -> Tensor:
    """Return the outputs for some rows; raise an error unless there is one row of outputs per row."""
    output = module(X)
    if not isinstance(output, Tensor):
        raise TypeError(f"The module returned {type(output).__name__}: it must return a tensor of logits.")
    if output.ndim == 0 or len(output) != len(X):
        hint = " (squeeze() drops the dimension of a single row: use squeeze(-1))" if output.ndim == 0 else ""
        raise ValueError(
            f"The module returned shape {tuple(output.shape)} for {len(X)} rows: it must give one row of outputs per "
            f"row of inputs{hint}."
        )
    return output
