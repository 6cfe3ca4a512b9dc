"""Apply a fitted module to new rows, in double precision.  The result of a row does not depend on the other rows.

Feed-forward networks (linear layers with activations between them) go through `ExactLinear`, so that their decisions
are the same for any number of rows, threads, and with (leaky) ReLU on any machine.  Other modules see blocks of a fixed
number of rows, the last one filled up with copies, so that the same kernels run whatever the number of rows.

Activations such as tanh are computed in vector registers, and what is left over at the end of an array in another way,
with another last digit: they are given pieces that leave nothing over.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.estimator.correction import Corrected
from fairbound.estimator.products import ExactLinear
from fairbound.fairness import as_logits, probabilities

BLOCK = 256
"""The number of rows that a module of any kind always gets at once."""

LARGE_BLOCK, REGISTER = 4096, 64
"""The most rows that a feed-forward network gets at once, and the divisor of their number."""

PIECE = 2**15
"""Numbers that an activation gets at once; torch would split larger arrays among threads."""

RowFunction = Callable[[Tensor], Tensor]

EXACT = (nn.LeakyReLU, nn.ReLU, nn.Identity)  # one operation on each number, rounded once
SMOOTH = (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.Softplus)
ACTIVATIONS: tuple[type[nn.Module], ...] = (*EXACT, *SMOOTH)


class FeedForward:
    """A sequence of linear layers and activations, whose products do not depend on the other rows."""

    def __init__(self, module: nn.Sequential) -> None:
        self.steps: list[RowFunction] = [
            ExactLinear(part.weight, part.bias) if isinstance(part, nn.Linear) else _activation(part) for part in module
        ]

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Return whether a module consists of linear layers and known activations only."""
        if type(module) is not nn.Sequential or not len(module):
            return False
        if any(part._forward_hooks or part._forward_pre_hooks for part in (module, *module)):
            return False
        return all(type(part) is nn.Linear or type(part) in ACTIVATIONS for part in module)

    def __call__(self, X: Tensor) -> Tensor:
        """Return the outputs for a block of rows."""
        for step in self.steps:
            X = step(X)
        return X


def _activation(part: nn.Module) -> RowFunction:
    if type(part) in EXACT:
        return part

    def in_pieces(x: Tensor) -> Tensor:
        pieces = x.contiguous().reshape(-1).split(PIECE)
        return torch.cat([part(piece) for piece in pieces]).reshape(x.shape)

    return in_pieces


def exact_forward(module: nn.Module) -> RowFunction | None:
    """Return a function of a block of rows whose outputs depend on each row alone; None for modules of other kinds."""
    if isinstance(module, Corrected):
        v, correction = ExactLinear(module.score.weight, None), FeedForward(module.correction)

        def corrected(block: Tensor) -> Tensor:
            columns, scores = module.split(block)
            return v(scores) + correction(columns.contiguous())

        return corrected
    if FeedForward.fits(module):
        assert isinstance(module, nn.Sequential)
        return FeedForward(module)
    return None


def output_bias(module: nn.Module) -> nn.Parameter | None:
    """Return the bias that is added last to the outputs of a feed-forward network, if there is one."""
    network = module.correction if isinstance(module, Corrected) else module
    last = network[-1] if FeedForward.fits(network) else None  # type: ignore[index]
    return last.bias if isinstance(last, nn.Linear) else None


def logits(module: nn.Module, X: NDArray[np.float64], n_labels: int) -> Tensor:
    """Return the logits of rows, (n, D) in float64, from a module in float64."""
    rows = torch.from_numpy(np.ascontiguousarray(X))
    forward = exact_forward(module)
    if forward is not None:
        return in_blocks(lambda block: as_logits(forward(block), n_labels), rows, LARGE_BLOCK, multiple=REGISTER)
    return in_blocks(lambda block: as_logits(module(block), n_labels), rows)


def class_probabilities(z: Tensor) -> Tensor:
    """Return the probabilities of the classes, (n, classes); of two classes the positive one is last."""
    return in_blocks(probabilities, z)


def in_blocks(function: RowFunction, rows: Tensor, size: int = BLOCK, *, multiple: int = BLOCK) -> Tensor:
    """Apply a function to blocks of rows.  The last block is padded to `multiple` with copies of its first row."""
    parts = []
    with torch.no_grad():
        for block in rows.split(size):
            lacking = -len(block) % multiple
            full = torch.cat([block, block[:1].expand(lacking, *block.shape[1:])]) if lacking else block
            parts.append(function(full.contiguous())[: len(block)])
    return torch.cat(parts)
