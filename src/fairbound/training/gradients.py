"""Gradients of the loss and of every cell's sum, in about one forward and two backward passes over the rows.

For cotangents u (one per row: of the loss, and of each surrogate) the gradient of Σ_{i in segment} u_i · z_i is wanted for
every segment.  Three ways, with the same result:

`FeedForwardGradients`   For a plain `nn.Sequential` of linear layers and pointwise activations: as below, without autograd
                   and in memory that is kept between sweeps, which is what counts at a few milliseconds a sweep.
`LayerGradients`   For networks whose parameters all sit in linear layers.  One backward pass gives B = ∂z/∂(layer output)
                   by row; with A the layer's input, segment q of that layer has the gradient (u ⊙ B_q)ᵀ A_q: a matrix
                   product over a contiguous slice.  The cost does not grow with the number of segments.
`SliceGradients`   For any module: autograd on each segment's rows.  As many rows in all, but one call per segment.

Conventions
-----------
n rows, D outputs, J cotangents of shape (J, n, D), Q segments; gradients come as (J, Q, number of parameters), float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from fairbound.training.models import trainable

Cotangents = Callable[[Tensor], Tensor]
Slices = Sequence[tuple[int, int, int]]
"""(segment, start, stop) within a chunk of rows."""


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
        with torch.no_grad():
            return self.module(X)

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


class _LinearLayers:
    """Places the gradients of linear layers into the flat vector of all parameters."""

    def __init__(self, module: nn.Module, layers: Sequence[nn.Linear]) -> None:
        self.layers = list(layers)
        starts, position = {}, 0
        for parameter in trainable(module):
            starts[id(parameter)] = position
            position += parameter.numel()
        self.starts = starts
        self.memory: dict[int, Tensor] = {}

    def add_scaled(
        self, layer: nn.Linear, A: Tensor, B: Tensor, scales: Tensor, slices: Slices, gradients: Tensor
    ) -> None:
        """Add (u_j ⊙ B_q)ᵀ A_q for all cotangents j and segments q, the row factors on whichever side is narrower."""
        J, wide_in, wide_out = scales.shape[1], A.shape[1], B.shape[1]
        if wide_in < wide_out:
            scaled = self._scaled(A, scales, J * wide_in + J)
            scaled[:, J * wide_in :] = scales
            products = torch.stack([scaled[start:stop].T @ B[start:stop] for _, start, stop in slices])
            weights = products[:, : J * wide_in].unflatten(1, (J, wide_in)).transpose(2, 3)  # (q, J, out, in)
            biases = products[:, J * wide_in :]  # (q, J, out)
        else:
            scaled = self._scaled(B, scales, J * wide_out)
            products = torch.stack([scaled[start:stop].T @ A[start:stop] for _, start, stop in slices])
            weights = products.unflatten(1, (J, wide_out))
            biases = torch.stack([scaled[start:stop].sum(dim=0) for _, start, stop in slices]).unflatten(1, (J, wide_out))
        segments = torch.tensor([segment for segment, _, _ in slices])
        for parameter, part in ((layer.weight, weights), (layer.bias, biases)):
            if parameter is not None and parameter.requires_grad:
                place = self._place(parameter, gradients)
                place.index_add_(1, segments, part.transpose(0, 1).flatten(2).to(place.dtype))

    def _scaled(self, rows: Tensor, scales: Tensor, width: int) -> Tensor:
        """[u_1 ⊙ rows, u_2 ⊙ rows, …] in memory kept between calls, with room for `width` columns."""
        held = self.memory.get(width)
        if held is None or len(held) < len(rows) or held.dtype != rows.dtype:
            held = self.memory[width] = torch.empty(len(rows), width, dtype=rows.dtype)
        result, wide = held[: len(rows)], rows.shape[1]
        for j in range(scales.shape[1]):
            torch.mul(rows, scales[:, j : j + 1], out=result[:, j * wide : (j + 1) * wide])
        return result

    def add(self, layer: nn.Linear, A: Tensor, B: Tensor, j: int, slices: Slices, gradients: Tensor) -> None:
        """Add B_qᵀ A_q for the one cotangent j, whose pull is in B already."""
        for segment, start, stop in slices:
            if layer.weight.requires_grad:
                self._place(layer.weight, gradients)[j, segment] += (B[start:stop].T @ A[start:stop]).reshape(-1)
            if layer.bias is not None and layer.bias.requires_grad:
                self._place(layer.bias, gradients)[j, segment] += B[start:stop].sum(dim=0)

    def _place(self, parameter: nn.Parameter, gradients: Tensor) -> Tensor:
        start = self.starts[id(parameter)]
        return gradients[..., start : start + parameter.numel()]


class LayerGradients:
    """Slices of matrix products, layer by layer: for modules whose parameters all sit in `nn.Linear` layers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
        self.linear = _LinearLayers(module, [layer for layer in layers if any(p.requires_grad for p in layer.parameters())])

    def outputs(self, X: Tensor) -> Tensor:
        with torch.no_grad():
            return self.module(X)

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        inputs, outputs, output = self._record(X)
        pulled = cotangents(output.detach().reshape(len(X), -1)).to(output.dtype)  # (J, n, D)
        if pulled.shape[2] == 1:
            # One output: the cotangents only scale rows, so one backward pass serves them all.
            backward = torch.autograd.grad(output, outputs, torch.ones_like(output))
            scales = pulled[:, :, 0].T.contiguous()  # (n, J)
            for layer, A, B in zip(self.linear.layers, inputs, backward, strict=True):
                self.linear.add_scaled(layer, A, B, scales, slices, gradients)
            return
        for j, cotangent in enumerate(pulled):
            backward = torch.autograd.grad(output, outputs, cotangent.reshape(output.shape), retain_graph=True)
            for layer, A, B in zip(self.linear.layers, inputs, backward, strict=True):
                self.linear.add(layer, A, B, j, slices, gradients)

    def _record(self, X: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Inputs and outputs of every linear layer, and the output of the module."""
        seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        versions = []

        def remember(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            if layer in seen:
                raise RuntimeError("a layer is called twice")
            seen[layer] = (arguments[0].detach(), output)
            versions.append((arguments[0], arguments[0]._version, output, output._version))

        handles = [layer.register_forward_hook(remember) for layer in self.linear.layers]
        try:
            with torch.enable_grad():
                output = self.module(X)
        finally:
            for handle in handles:
                handle.remove()
        if any(a._version != before or b._version != after for a, before, b, after in versions):
            raise RuntimeError("an input or output of a layer is overwritten in place")
        inputs, outputs = zip(*(seen[layer] for layer in self.linear.layers), strict=True)
        if any(part.ndim != 2 or len(part) != len(X) for part in (*inputs, *outputs)):
            raise RuntimeError("a layer does not see each row once")
        return list(inputs), list(outputs), output


class FeedForwardGradients:
    """The layerwise way for linear layers and leaky or plain ReLU in a row, without autograd, in kept memory."""

    def __init__(self, module: nn.Sequential) -> None:
        self.linear = _LinearLayers(module, [part for part in module if isinstance(part, nn.Linear)])
        self.slopes = [part.negative_slope if isinstance(part, nn.LeakyReLU) else 0.0 for part in list(module)[1::2]]
        self.memory: dict[tuple[str, int], Tensor] = {}

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Whether the module is linear layers with activations between them, and nothing else."""
        if type(module) is not nn.Sequential or len(module) % 2 == 0:
            return False
        parts = list(module)
        if any(part._forward_hooks or part._forward_pre_hooks for part in (module, *parts)):
            return False
        return all(type(part) is nn.Linear and part.bias is not None for part in parts[::2]) and all(
            type(part) in (nn.LeakyReLU, nn.ReLU) for part in parts[1::2]
        )

    def outputs(self, X: Tensor) -> Tensor:
        return self._forward(X)[1][-1]

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        inputs, before = self._forward(X)
        pulled = cotangents(before[-1]).to(X.dtype)  # (J, n, D)
        with torch.no_grad():
            if pulled.shape[2] == 1:
                scales = pulled[:, :, 0].T.contiguous()
                for layer, A, B in self._backward(torch.ones_like(before[-1]), inputs, before):
                    self.linear.add_scaled(layer, A, B, scales, slices, gradients)
            else:
                for j, cotangent in enumerate(pulled):
                    for layer, A, B in self._backward(cotangent, inputs, before):
                        self.linear.add(layer, A, B, j, slices, gradients)

    def _forward(self, X: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs of each layer, and what comes out of it before the activation."""
        inputs, before = [X], []
        with torch.no_grad():
            for position, layer in enumerate(self.linear.layers):
                if position == len(self.slopes):
                    # The outputs outlive the call.
                    before.append(torch.addmm(layer.bias, inputs[-1], layer.weight.T))
                else:
                    room = self._room("before", position, len(X), layer)
                    before.append(torch.addmm(layer.bias, inputs[-1], layer.weight.T, out=room))
                    room = self._room("after", position, len(X), layer)
                    inputs.append(torch.ops.aten.leaky_relu.out(before[-1], self.slopes[position], out=room))
        return inputs, before

    def _backward(
        self, B: Tensor, inputs: list[Tensor], before: list[Tensor]
    ) -> Iterator[tuple[nn.Linear, Tensor, Tensor]]:
        """(layer, its input, the pull on its output), last layer first."""
        for position in reversed(range(len(self.linear.layers))):
            layer = self.linear.layers[position]
            yield layer, inputs[position], B
            if position:
                below = self.linear.layers[position - 1]
                if layer.out_features == 1:
                    # An outer product: where the pull is 1 for every row it need not be formed.
                    pull = layer.weight.expand(len(B), -1) if position == len(self.slopes) else B @ layer.weight
                else:
                    pull = B @ layer.weight
                room = self._room("pull", position - 1, len(B), below)
                B = torch.ops.aten.leaky_relu_backward.grad_input(
                    pull, before[position - 1], self.slopes[position - 1], False, grad_input=room
                )

    def _room(self, use: str, position: int, n: int, layer: nn.Linear) -> Tensor:
        """Memory for n rows of a layer's output, kept between calls."""
        key = (use, position)
        held = self.memory.get(key)
        if held is None or len(held) < n or held.dtype != layer.weight.dtype:
            held = self.memory[key] = torch.empty(n, layer.out_features, dtype=layer.weight.dtype)
        return held[:n]


def choose_engine(module: nn.Module, X: Tensor) -> GradientEngine:
    """The fastest engine that is right for the module, which is tried out on a few rows."""
    general = SliceGradients(module)
    in_linear = {id(p) for part in module.modules() if isinstance(part, nn.Linear) for p in part.parameters(recurse=False)}
    if not all(id(parameter) in in_linear for parameter in trainable(module)):
        return general
    fast: GradientEngine = LayerGradients(module)
    if FeedForwardGradients.fits(module):
        assert isinstance(module, nn.Sequential)
        fast = FeedForwardGradients(module)
    # Rows of all cells: the first few may lie in one, and be alike.
    probe = X[torch.linspace(0, len(X) - 1, min(len(X), 8)).long()]
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
