"""Gradients of the loss and of every cell's sum, in about one forward and two backward passes over the rows.

The loss and each surrogate have a cotangent u_i for every row i: the derivative of the row's term with respect to its
outputs z_i.  An engine computes the gradient of Σ_{i in segment} u_i · z_i, with u fixed, for every cotangent and every
segment.  There are two engines with the same result:

`FeedForwardGradients`   For a plain `nn.Sequential` of linear layers and (leaky) ReLU.  Matrix products over slices,
                         without autograd, in buffers that are reused: half of the time.
`SliceGradients`         For any module.  Autograd on the rows of each segment, once per cotangent.

For a linear layer, one backward pass gives B = ∂z/∂(layer output) for each row.  Let A be the layer's input and u a
cotangent.  Then the gradient of the layer's weights over segment q is (u_q ⊙ B_q)ᵀ A_q.  Every row is in one segment,
so the cost does not grow with the number of segments.

Conventions
-----------
n rows, D outputs, J cotangents of shape (J, n, D), Q segments; gradients are float64 of shape (J, Q, n_parameters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from fairbound.training.chunks import Slices
from fairbound.training.modules import trainable

Cotangents = Callable[[Tensor], Tensor]
"""Maps outputs (n, D) of a chunk to cotangents (J, n, D)."""


class FeedForwardGradients:
    """Gradients layer by layer without autograd, for alternating linear layers and (leaky) ReLU; buffers are reused."""

    def __init__(self, module: nn.Sequential) -> None:
        self.layers = [part for part in module if isinstance(part, nn.Linear)]
        parameters = trainable(module)
        ends = accumulate([parameter.numel() for parameter in parameters], initial=0)
        self.starts = {id(parameter): start for parameter, start in zip(parameters, ends, strict=False)}
        self.slopes = [part.negative_slope if isinstance(part, nn.LeakyReLU) else 0.0 for part in list(module)[1::2]]
        self.memory: dict[tuple[str, int], Tensor] = {}

    @staticmethod
    def fits(module: nn.Sequential, X: Tensor) -> bool:
        """Return whether the module alternates linear layers with biases and (leaky) ReLU, and does nothing else."""
        if type(module) is not nn.Sequential or len(module) % 2 == 0 or X.ndim != 2:
            return False
        parts = list(module)
        if any(part._forward_hooks or part._forward_pre_hooks for part in (module, *parts)):
            return False
        return all(type(part) is nn.Linear and part.bias is not None for part in parts[::2]) and all(
            type(part) in (nn.LeakyReLU, nn.ReLU) for part in parts[1::2]
        )

    def outputs(self, X: Tensor) -> Tensor:
        """Return the outputs of the module, without gradients."""
        return self._forward(X)[1][-1]

    def accumulate(self, X: Tensor, slices: Slices, cotangents: Cotangents, gradients: Tensor) -> None:
        """Add the gradients of one chunk of rows to `gradients`.

        `cotangents` is called once with the outputs (n, D) of the chunk, detached, and returns (J, n, D).
        """
        inputs, before = self._forward(X)
        u = cotangents(before[-1]).to(X.dtype)  # (J, n, D)
        with torch.no_grad():
            if u.shape[2] == 1:
                for layer, A, B in self._backward(torch.ones_like(before[-1]), inputs, before):
                    self._add_scaled(layer, A, B, u, slices, gradients)
            else:
                for j, cotangent in enumerate(u):
                    for layer, A, B in self._backward(cotangent, inputs, before):
                        self._add(layer, A, B, j, slices, gradients)

    def _forward(self, X: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return the input of each linear layer, and its output before the activation."""
        inputs, before = [X], []
        with torch.no_grad():
            for position, layer in enumerate(self.layers):
                if position == len(self.slopes):
                    # The caller keeps the outputs, so they must not be in a reused buffer.
                    before.append(torch.addmm(layer.bias, inputs[-1], layer.weight.T))
                else:
                    buffer = self._buffer("before", position, len(X), layer.out_features, X.dtype)
                    before.append(torch.addmm(layer.bias, inputs[-1], layer.weight.T, out=buffer))
                    buffer = self._buffer("after", position, len(X), layer.out_features, X.dtype)
                    inputs.append(torch.ops.aten.leaky_relu.out(before[-1], self.slopes[position], out=buffer))
        return inputs, before

    def _backward(
        self, B: Tensor, inputs: list[Tensor], before: list[Tensor]
    ) -> Iterator[tuple[nn.Linear, Tensor, Tensor]]:
        """Yield (layer, its input, the cotangent of its output), last layer first."""
        for position in reversed(range(len(self.layers))):
            layer = self.layers[position]
            yield layer, inputs[position], B
            if position:
                if layer.out_features == 1:
                    # With a single output, B is 1 for every row, so B @ weight repeats `weight`: expand it, no copy.
                    cotangent = layer.weight.expand(len(B), -1) if position == len(self.slopes) else B @ layer.weight
                else:
                    cotangent = B @ layer.weight
                buffer = self._buffer("cotangent", position - 1, len(B), layer.in_features, B.dtype)
                B = torch.ops.aten.leaky_relu_backward.grad_input(
                    cotangent, before[position - 1], self.slopes[position - 1], False, grad_input=buffer
                )

    def _add_scaled(
        self, layer: nn.Linear, A: Tensor, B: Tensor, scales: Tensor, slices: Slices, gradients: Tensor
    ) -> None:
        """Add (u_j ⊙ B_q)ᵀ A_q for all cotangents j and segments q; `scales` are the u_j, of shape (J, n, 1).

        (u ⊙ B)ᵀ A = Bᵀ (u ⊙ A), so the narrower of A and B is scaled.  The scaled copies of all j are concatenated, and
        one matrix product per segment serves them all.
        """
        J, wide_in, wide_out = len(scales), A.shape[1], B.shape[1]
        if wide_in < wide_out:
            scaled = self._scaled(A, scales, J * wide_in + J)
            scaled[:, J * wide_in :] = scales[:, :, 0].T
            products = torch.stack([scaled[start:stop].T @ B[start:stop] for _, start, stop in slices])
            weights = products[:, : J * wide_in].unflatten(1, (J, wide_in)).transpose(2, 3)  # (q, J, out, in)
            biases = products[:, J * wide_in :]  # (q, J, out)
        else:
            scaled = self._scaled(B, scales, J * wide_out)
            products = torch.stack([scaled[start:stop].T @ A[start:stop] for _, start, stop in slices])
            weights = products.unflatten(1, (J, wide_out))
            sums = torch.stack([scaled[start:stop].sum(dim=0) for _, start, stop in slices])
            biases = sums.unflatten(1, (J, wide_out))
        for parameter, part in ((layer.weight, weights), (layer.bias, biases)):
            if parameter is not None and parameter.requires_grad:
                place = self._place(parameter, gradients)
                segments = [segment for segment, _, _ in slices]
                place[:, segments] += part.flatten(2).to(place.dtype).transpose(0, 1)

    def _scaled(self, rows: Tensor, scales: Tensor, width: int) -> Tensor:
        """Return [u_1 ⊙ rows, u_2 ⊙ rows, …] in a reused buffer of `width` columns."""
        result, wide = self._buffer("scaled", width, len(rows), width, rows.dtype), rows.shape[1]
        for j, scale in enumerate(scales):
            torch.mul(rows, scale, out=result[:, j * wide : (j + 1) * wide])
        return result

    def _add(self, layer: nn.Linear, A: Tensor, B: Tensor, j: int, slices: Slices, gradients: Tensor) -> None:
        """Add B_qᵀ A_q for one cotangent j, which B already contains."""
        for segment, start, stop in slices:
            if layer.weight.requires_grad:
                self._place(layer.weight, gradients)[j, segment] += (B[start:stop].T @ A[start:stop]).reshape(-1)
            if layer.bias is not None and layer.bias.requires_grad:
                self._place(layer.bias, gradients)[j, segment] += B[start:stop].sum(dim=0)

    def _place(self, parameter: Tensor, gradients: Tensor) -> Tensor:
        """Return the columns of `gradients` that belong to a parameter."""
        start = self.starts[id(parameter)]
        return gradients[..., start : start + parameter.numel()]

    def _buffer(self, use: str, place: int, n: int, width: int, dtype: torch.dtype) -> Tensor:
        """Return a buffer of n rows, which is reused between calls."""
        held = self.memory.get((use, place))
        if held is None or len(held) < n or held.dtype != dtype:
            held = self.memory[use, place] = torch.empty(n, width, dtype=dtype)
        return held[:n]


def pull_back(
    output: Tensor, inputs: Sequence[Tensor], cotangent: Tensor, *, retain_graph: bool = True, fill: bool = False
) -> tuple[Tensor, ...]:
    """Return the gradients of ⟨cotangent, output⟩.  With `fill`, inputs on which the output does not depend get 0.

    `autograd.grad` takes a cotangent, too, but then its first call imports sympy, which takes as long as a small fit.
    """
    with torch.enable_grad():
        product = (output * cotangent.to(output.dtype).reshape(output.shape)).sum()
    return torch.autograd.grad(product, inputs, retain_graph=retain_graph, materialize_grads=fill)


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
                parts = pull_back(output, self.parameters, cotangent, retain_graph=j + 1 < len(u), fill=True)
                gradients[j, segment] += torch.cat([part.reshape(-1).to("cpu", torch.float64) for part in parts])


GradientEngine = FeedForwardGradients | SliceGradients
"""Maps cotangents of the outputs to gradients of the parameters, by segment."""


def choose_engine(module: nn.Module, X: Tensor) -> GradientEngine:
    """Return the fastest engine that is right for this module and these rows."""
    if isinstance(module, nn.Sequential) and FeedForwardGradients.fits(module, X):
        return FeedForwardGradients(module)
    return SliceGradients(module)
