"""Gradients of linear layers by segment: a matrix product over each contiguous slice of rows.

One backward pass gives B = ∂z/∂(layer output) by row.  With A the layer's input and a cotangent u, segment q of the
layer has the gradient (u ⊙ B_q)ᵀ A_q, so the cost does not grow with the number of segments.

Conventions
-----------
As in `fairbound.training.gradients`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fairbound.training.models import trainable
from fairbound.training.sweep import Cotangents, Slices


class LinearLayers:
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
            sums = torch.stack([scaled[start:stop].sum(dim=0) for _, start, stop in slices])
            biases = sums.unflatten(1, (J, wide_out))
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

    def _place(self, parameter: Tensor, gradients: Tensor) -> Tensor:
        start = self.starts[id(parameter)]
        return gradients[..., start : start + parameter.numel()]


class LayerGradients:
    """Slices of matrix products, layer by layer: for modules whose parameters all sit in `nn.Linear` layers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
        moving = [layer for layer in layers if any(parameter.requires_grad for parameter in layer.parameters())]
        self.linear = LinearLayers(module, moving)

    def outputs(self, X: Tensor) -> Tensor:
        """Outputs of the module, without gradients."""
        with torch.no_grad():
            return self.module(X).detach()

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`."""
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
        self.linear = LinearLayers(module, [part for part in module if isinstance(part, nn.Linear)])
        self.slopes = [part.negative_slope if isinstance(part, nn.LeakyReLU) else 0.0 for part in list(module)[1::2]]
        self.memory: dict[tuple[str, int], Tensor] = {}

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Tell whether the module is linear layers with activations between them, and nothing else."""
        if type(module) is not nn.Sequential or len(module) % 2 == 0:
            return False
        parts = list(module)
        if any(part._forward_hooks or part._forward_pre_hooks for part in (module, *parts)):
            return False
        return all(type(part) is nn.Linear and part.bias is not None for part in parts[::2]) and all(
            type(part) in (nn.LeakyReLU, nn.ReLU) for part in parts[1::2]
        )

    def outputs(self, X: Tensor) -> Tensor:
        """Outputs of the module, without gradients."""
        return self._forward(X)[1][-1]

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`."""
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
