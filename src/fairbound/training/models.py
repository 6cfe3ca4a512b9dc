"""Models: linear, multilayer, or the user's own module; what makes a module usable, and a flat view of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def make_model(
    n_inputs: int,
    n_labels: int = 2,
    hidden: Sequence[int] = (),
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """Return a linear model, or a feed-forward network with leaky ReLU (slope 0.01) as in the paper, that emits logits.

    Weights are drawn uniformly in ±1/√(inputs of the layer), PyTorch's own default, from `generator` alone, so that no
    global seed is touched.

    >>> make_model(11, hidden=(32,))
    Sequential(
      (0): Linear(in_features=11, out_features=32, bias=True)
      (1): LeakyReLU(negative_slope=0.01)
      (2): Linear(in_features=32, out_features=1, bias=True)
    )
    """
    if any(not isinstance(width, int) or width < 1 for width in hidden):
        raise ValueError(f"hidden={tuple(hidden)!r}: every width must be a whole number of at least 1.")
    widths = [n_inputs, *hidden, 1 if n_labels == 2 else n_labels]
    layers: list[nn.Module] = []
    for wide_in, wide_out in zip(widths[:-1], widths[1:], strict=True):
        # skip_init: the layer's own initialisation would draw from the global generator.
        layer = nn.utils.skip_init(nn.Linear, wide_in, wide_out, dtype=dtype)
        reach = wide_in**-0.5
        with torch.no_grad():
            layer.weight.uniform_(-reach, reach, generator=generator)
            layer.bias.uniform_(-reach, reach, generator=generator)
        layers += [layer, nn.LeakyReLU(0.01)]
    return nn.Sequential(*layers[:-1])


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that training moves, in the module's order."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("The module has no parameter that requires a gradient: there is nothing to train.")
    return parameters


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """One float64 vector from several tensors."""
    return torch.cat([tensor.detach().reshape(-1).to(torch.float64) for tensor in tensors])


def assign(parameters: Sequence[nn.Parameter], flat: Tensor) -> None:
    """Write a flat vector into parameters, in place."""
    with torch.no_grad():
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.copy_(part.reshape(parameter.shape))


def check_rows_are_independent(module: nn.Module, X: Tensor) -> None:
    """Refuse modules whose output for a row depends on the other rows, or on chance.

    Sums over cells, chunks and batches mean nothing for them.
    """
    coupling = (nn.modules.batchnorm._BatchNorm, nn.modules.batchnorm._LazyNormBase)
    for name, part in module.named_modules():
        if isinstance(part, coupling) and (part.training or not part.track_running_stats):
            raise ValueError(
                f"The module's layer {name!r} ({type(part).__name__}) normalises over the batch, so a row's output depends "
                "on the other rows and no rate is a sum over rows. Use LayerNorm, or call module.eval() before training."
            )
    probe = X[: min(len(X), 8)]
    with torch.no_grad():
        together, again = module(probe), module(probe)
        if not torch.allclose(together, again, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise ValueError(
                "The module gives different outputs for the same rows (dropout in training mode?). "
                "Call module.eval() before training, or remove the random layer."
            )
        if together.ndim == 0 or len(together) != len(probe):
            raise ValueError(
                f"The module returned shape {tuple(together.shape)} for {len(probe)} rows: it must give one row of outputs "
                "per row of inputs."
            )
        apart = torch.cat([module(probe[i : i + 1]) for i in range(len(probe))])
        if not torch.allclose(together, apart, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise ValueError(
                "The module's output for a row changes with the other rows of the batch, so no rate is a sum over rows. "
                "Replace the layer that mixes rows."
            )
