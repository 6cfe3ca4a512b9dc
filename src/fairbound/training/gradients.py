"""Gradients of the loss and of every cell's sum, in about one forward and two backward passes over the rows.

For cotangents u (one per row: of the loss, and of each surrogate) the gradient of Σ_{i in segment} u_i · z_i is wanted for
every segment.  Two ways, with the same result:

`LayerGradients`   For networks whose parameters all sit in linear layers.  One backward pass gives B = ∂z/∂(layer output)
                   by row; with A the layer's input, segment q of that layer has the gradient (u ⊙ B_q)ᵀ A_q: a matrix
                   product over a contiguous slice.  The cost does not grow with the number of segments.
`SliceGradients`   For any module: autograd on each segment's rows.  As many rows in all, but one call per segment.

Conventions
-----------
n rows, D outputs, J cotangents of shape (J, n, D), Q segments; gradients come as (J, Q, number of parameters), float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from fairbound.training.models import trainable

Cotangents = Callable[[Tensor], Tensor]
Slices = Sequence[tuple[int, int, int]]
"""(segment, start, stop) within a chunk of rows."""


class GradientEngine(Protocol):
    """Pulls cotangents of the outputs back to the parameters, by segment."""

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

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
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
                gradients[j, segment] += torch.cat([part.reshape(-1).to(torch.float64) for part in parts])


class LayerGradients:
    """Slices of matrix products, layer by layer: for modules whose parameters all sit in `nn.Linear` layers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
        starts, position = {}, 0
        for parameter in trainable(module):
            starts[id(parameter)] = position
            position += parameter.numel()
        self.starts = starts

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        inputs, outputs, output = self._record(X)
        pulled = cotangents(output.detach().reshape(len(X), -1)).to(output.dtype)  # (J, n, D)
        if pulled.shape[2] == 1:
            # One output: the cotangents only scale rows, so one backward pass serves them all.
            backward = torch.autograd.grad(output, outputs, torch.ones_like(output))
            scales = pulled[:, :, 0].T  # (n, J)
            for layer, A, B in zip(self.layers, inputs, backward, strict=True):
                self._add_scaled(layer, A, B, scales, slices, gradients)
            return
        for j, cotangent in enumerate(pulled):
            backward = torch.autograd.grad(output, outputs, cotangent.reshape(output.shape), retain_graph=True)
            for layer, A, B in zip(self.layers, inputs, backward, strict=True):
                for segment, start, stop in slices:
                    weight, bias = B[start:stop].T @ A[start:stop], B[start:stop].sum(dim=0)
                    self._add(layer, weight, bias, gradients[j, segment])

    def _record(self, X: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Inputs and outputs of every linear layer, and the output of the module."""
        seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

        def remember(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            seen[layer] = (arguments[0].detach(), output)

        handles = [layer.register_forward_hook(remember) for layer in self.layers]
        try:
            with torch.enable_grad():
                output = self.module(X)
        finally:
            for handle in handles:
                handle.remove()
        inputs, outputs = zip(*(seen[layer] for layer in self.layers), strict=True)
        return list(inputs), list(outputs), output

    def _add_scaled(
        self, layer: nn.Linear, A: Tensor, B: Tensor, scales: Tensor, slices: Slices, gradients: Tensor
    ) -> None:
        """(u_j ⊙ B_q)ᵀ A_q for all j and q, the row factors on whichever side is narrower."""
        J, wide_in, wide_out = scales.shape[1], A.shape[1], B.shape[1]
        if wide_in < wide_out:
            scaled = torch.cat([A * scales[:, j : j + 1] for j in range(J)] + [scales], dim=1)
            products = torch.stack([scaled[start:stop].T @ B[start:stop] for _, start, stop in slices])
            weights = products[:, : J * wide_in].unflatten(1, (J, wide_in)).transpose(2, 3)  # (q, J, out, in)
            biases = products[:, J * wide_in :]  # (q, J, out)
        else:
            scaled = torch.cat([B * scales[:, j : j + 1] for j in range(J)], dim=1)
            products = torch.stack([scaled[start:stop].T @ A[start:stop] for _, start, stop in slices])
            weights = products.unflatten(1, (J, wide_out))
            biases = torch.stack([scaled[start:stop].sum(dim=0) for _, start, stop in slices]).unflatten(1, (J, wide_out))
        segments = torch.tensor([segment for segment, _, _ in slices])
        self._add(layer, weights.transpose(0, 1), biases.transpose(0, 1), gradients, segments)

    def _add(
        self, layer: nn.Linear, weight: Tensor, bias: Tensor, gradients: Tensor, segments: Tensor | None = None
    ) -> None:
        for parameter, part in ((layer.weight, weight), (layer.bias, bias)):
            if parameter is not None and parameter.requires_grad:
                start = self.starts[id(parameter)]
                place = gradients[..., start : start + parameter.numel()]
                if segments is None:
                    place += part.reshape(-1)
                else:
                    place.index_add_(1, segments, part.flatten(2).to(place.dtype))


def choose_engine(module: nn.Module, X: Tensor) -> GradientEngine:
    """The layerwise engine where it is right, which is tried out on a few rows; slices otherwise."""
    general = SliceGradients(module)
    in_linear = {id(p) for part in module.modules() if isinstance(part, nn.Linear) for p in part.parameters(recurse=False)}
    if not all(id(parameter) in in_linear for parameter in trainable(module)):
        return general
    layerwise = LayerGradients(module)
    probe = X[: min(len(X), 6)]
    slices = [(0, 0, len(probe) // 2), (1, len(probe) // 2, len(probe))] if len(probe) > 1 else [(0, 0, len(probe))]
    results = []
    for engine in (general, layerwise):
        gradients = torch.zeros(2, len(slices), sum(p.numel() for p in trainable(module)), dtype=torch.float64)
        try:
            engine.accumulate(probe, slices, _probe_cotangents, gradients)
        except (KeyError, RuntimeError, ValueError):
            if engine is general:
                raise
            # A layer that is not called, called on other shapes, or overwritten in place: not for this engine.
            return general
        results.append(gradients)
    close = torch.allclose(results[0], results[1], rtol=1e-3, atol=1e-4 * float(results[0].abs().max() + 1e-12))
    return layerwise if close else general


def _probe_cotangents(outputs: Tensor) -> Tensor:
    """Cotangents that differ by row and output."""
    flat = outputs.reshape(len(outputs), -1)
    ramp = torch.arange(1.0, flat.numel() + 1, dtype=torch.float64).reshape(flat.shape)
    return torch.stack([ramp, 1.0 / ramp])
