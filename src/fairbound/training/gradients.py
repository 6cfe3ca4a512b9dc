"""Gradients of the loss and of every cell's sum, in about one forward and two backward passes over the rows.

The loss and each surrogate have a cotangent u_i for every row i.  Wanted is the gradient of Σ_{i in segment} u_i · z_i
for every cotangent and every segment.  Three engines compute it, with the same result:

`FeedForwardGradients`   For a plain `nn.Sequential` of linear layers and (leaky) ReLU.  Matrix products over slices,
                         without autograd, in buffers that are reused: a sweep of small data takes milliseconds.
`LayerGradients`         For any module whose parameters all belong to linear layers.  The same products, but autograd
                         does the backward pass.
`SliceGradients`         For any module.  Autograd on the rows of each segment: one call per segment.

Conventions
-----------
n rows, D outputs, J cotangents of shape (J, n, D), Q segments; gradients come as (J, Q, number of parameters), float64.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from fairbound.training.layers import FeedForwardGradients, LayerGradients
from fairbound.training.models import trainable
from fairbound.training.sweep import Cotangents, Slices


class GradientEngine(Protocol):
    """Maps cotangents of the outputs to gradients of the parameters, by segment."""

    def outputs(self, X: Tensor) -> Tensor:
        """Return the outputs of the module, without gradients."""
        ...

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`.

        `cotangents` is called once with the outputs (n, D) of the chunk, detached, and returns (J, n, D).
        """
        ...


class SliceGradients:
    """Autograd, one segment at a time: correct for any module whose rows are independent."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters = trainable(module)

    def outputs(self, X: Tensor) -> Tensor:
        """Return the outputs of the module, without gradients."""
        with torch.no_grad():
            return self.module(X).detach()

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`."""
        with torch.enable_grad():
            outputs = [self.module(X[start:stop]) for _, start, stop in slices]
        u = cotangents(torch.cat([output.detach() for output in outputs]))
        for (segment, start, stop), output in zip(slices, outputs, strict=True):
            for j, cotangent in enumerate(u[:, start:stop]):
                parts = torch.autograd.grad(
                    output,
                    self.parameters,
                    cotangent.to(output.dtype).reshape(output.shape),
                    retain_graph=j + 1 < len(u),
                    materialize_grads=True,
                )
                gradients[j, segment] += torch.cat([part.reshape(-1).to("cpu", torch.float64) for part in parts])


def choose_engine(module: nn.Module, X: Tensor) -> GradientEngine:
    """Return the fastest engine whose results on a few rows agree with those of autograd."""
    general = SliceGradients(module)
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    in_linear = {id(parameter) for part in linear for parameter in part.parameters(recurse=False)}
    if not all(id(parameter) in in_linear for parameter in trainable(module)):
        return general
    fast: GradientEngine = LayerGradients(module)
    if FeedForwardGradients.fits(module):
        assert isinstance(module, nn.Sequential)
        fast = FeedForwardGradients(module)
    # Rows are sorted by cell, so take rows from all over the data; the first ones may be alike.
    count = min(len(X), 8)
    probe = X[torch.arange(count) * (len(X) - 1) // max(count - 1, 1)]
    half = max(1, len(probe) // 2)
    slices = [(0, 0, half), (1, half, len(probe))][: len(probe)]
    results, outputs = [], []
    for engine in (general, fast):
        gradients = torch.zeros(2, len(slices), sum(p.numel() for p in trainable(module)), dtype=torch.float64)
        try:
            engine.accumulate(probe, slices, _probe_cotangents, gradients)
        except (KeyError, RuntimeError, ValueError):
            if engine is general:
                raise
            # A layer is not called, called twice, called on other rows, or overwritten in place.
            return general
        results.append(gradients)
        outputs.append(engine.outputs(probe))
    close = torch.allclose(results[0], results[1], rtol=1e-3, atol=1e-4 * float(results[0].abs().max() + 1e-12))
    same = torch.allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    return fast if close and same else general


def _probe_cotangents(outputs: Tensor) -> Tensor:
    """Return two cotangents that differ by row and output."""
    flat = outputs.reshape(len(outputs), -1)
    ramp = torch.arange(1.0, flat.numel() + 1, dtype=torch.float64).reshape(flat.shape)
    return torch.stack([ramp, 1.0 / ramp])
