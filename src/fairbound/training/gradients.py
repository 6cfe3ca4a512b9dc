"""Gradients of the loss and of every cell's sum, in about one forward and two backward passes over the rows.

For cotangents u (one per row: of the loss, and of each surrogate) the gradient of Σ_{i in segment} u_i · z_i is wanted
for every segment.  Three ways, with the same result:

`FeedForwardGradients`   For a plain `nn.Sequential` of linear layers and (leaky) ReLU: matrix products over slices,
                         without autograd, in memory kept between sweeps: it counts at a few milliseconds a sweep.
`LayerGradients`         For any module whose parameters all sit in linear layers: the same products, with the backward
                         pass by autograd.
`SliceGradients`         For any module: autograd on each segment's rows; as many rows in all, one call per segment.

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
    """Pulls cotangents of the outputs back to the parameters, by segment."""

    def outputs(self, X: Tensor) -> Tensor:
        """Outputs of the module, without gradients."""
        ...

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`.

        `cotangents` is called once with the outputs (n, D) of the chunk, detached, and returns (J, n, D).
        """
        ...


class SliceGradients:
    """Autograd, one segment at a time: right for any module whose rows are independent."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters = trainable(module)

    def outputs(self, X: Tensor) -> Tensor:
        """Outputs of the module, without gradients."""
        with torch.no_grad():
            return self.module(X).detach()

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`."""
        with torch.enable_grad():
            outputs = [self.module(X[start:stop]) for _, start, stop in slices]
        pulled = cotangents(torch.cat([output.detach() for output in outputs]))
        for (segment, start, stop), output in zip(slices, outputs, strict=True):
            for j, cotangent in enumerate(pulled[:, start:stop]):
                parts = torch.autograd.grad(
                    output,
                    self.parameters,
                    cotangent.to(output.dtype).reshape(output.shape),
                    retain_graph=j + 1 < len(pulled),
                    materialize_grads=True,
                )
                gradients[j, segment] += torch.cat([part.reshape(-1).to("cpu", torch.float64) for part in parts])


def choose_engine(module: nn.Module, X: Tensor) -> GradientEngine:
    """The fastest engine that is right for the module, which is tried out on a few rows."""
    general = SliceGradients(module)
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    in_linear = {id(parameter) for part in linear for parameter in part.parameters(recurse=False)}
    if not all(id(parameter) in in_linear for parameter in trainable(module)):
        return general
    fast: GradientEngine = LayerGradients(module)
    if FeedForwardGradients.fits(module):
        assert isinstance(module, nn.Sequential)
        fast = FeedForwardGradients(module)
    # Rows of all cells: the first few may lie in one, and be alike.
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
            # A layer that is not called, called twice or on other rows, or overwritten in place: not for this engine.
            return general
        results.append(gradients)
        outputs.append(engine.outputs(probe))
    close = torch.allclose(results[0], results[1], rtol=1e-3, atol=1e-4 * float(results[0].abs().max() + 1e-12))
    same = torch.allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    return fast if close and same else general


def _probe_cotangents(outputs: Tensor) -> Tensor:
    """Cotangents that differ by row and output."""
    flat = outputs.reshape(len(outputs), -1)
    ramp = torch.arange(1.0, flat.numel() + 1, dtype=torch.float64).reshape(flat.shape)
    return torch.stack([ramp, 1.0 / ramp])
