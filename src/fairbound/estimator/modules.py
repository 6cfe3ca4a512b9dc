"""The module of a fit (a built-in one, the user's own, or that of the last fit), its device, and its outputs.

Outputs for new rows are reproducible: they do not depend on the other rows, nor on the number of threads.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound._errors import InputError
from fairbound.estimator.columns import check_names
from fairbound.estimator.correction import Corrected, corrected_module
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.rows import Data
from fairbound.fairness import as_logits, probabilities
from fairbound.training import evaluation_mode, make_model

DOUBLE_UP_TO = 5e6
"""Rows times parameters up to which training runs in double precision."""


def first_module(
    own: Any,
    hidden: Any,
    *,
    shape: tuple[int, int],
    n_labels: int,
    seed: int,
    generator: torch.Generator,
    n_scores: int = 0,
) -> nn.Module:
    """Return the module to train.

    Parameters
    ----------
    own : torch.nn.Module, function of (n_inputs, n_outputs), or None
        The user's module, which is copied, or a function that makes one.
    hidden : sequence of int
        Widths of the hidden layers of a built-in module.
    shape : tuple of int
        Shape of the inputs, (rows, columns).
    n_labels : int
    seed, generator
        The random state of the initial parameters: `seed` for the user's function, `generator` for a built-in module.
    n_scores : int
        The number of base scores among the inputs, which are the last ones.  With a base the module starts as the base.
    """
    n_rows, n_inputs = shape
    if own is not None and n_scores:
        raise InputError(
            "{hidden=} is a network of your own, but the model over base scores must begin as the base.",
            "Give the widths of the hidden layers of the correction, or leave it out.",
        )
    if isinstance(own, nn.Module):
        return copy.deepcopy(own)
    if callable(own):
        # The user's function draws from the global generator, so that is seeded, and restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = _made(own, n_inputs, 1 if n_labels == 2 else n_labels)
        if not isinstance(made, nn.Module):
            raise TypeError(f"hidden= returned {type(made).__name__}: it must return a torch.nn.Module.")
        return made
    if own is not None:
        raise TypeError(
            f"hidden={own!r}: must be a torch.nn.Module, or a function of (n_inputs, n_outputs) that returns one."
        )
    plain: nn.Module = (
        corrected_module(hidden, n_inputs - n_scores, n_labels, generator)
        if n_scores
        else make_model(n_inputs, n_labels, hidden, generator=generator)
    )
    size = sum(parameter.numel() for parameter in plain.parameters())
    return plain.to(torch.float64 if n_rows * size <= DOUBLE_UP_TO else torch.float32)


def _made(own: Callable[..., Any], n_inputs: int, n_outputs: int) -> Any:
    """Call the user's function.  If it does not take two arguments, raise an error before it runs."""
    try:
        inspect.signature(own).bind(n_inputs, n_outputs)
    except TypeError as error:
        raise TypeError(f"hidden={own!r} must be a function of (n_inputs, n_outputs): {error}.") from error
    except ValueError:  # no signature is known
        pass
    return own(n_inputs, n_outputs)


def copied_module(module: nn.Module, solver: str) -> nn.Module:
    """Return a copy of the last fit's module, in training mode for mini-batches, which leave it in evaluation mode."""
    copied = copy.deepcopy(module)
    return copied.train() if solver == "stochastic" else copied


def try_module(module: nn.Module, Z: NDArray[Any]) -> None:
    """Raise a clear error if a module cannot take the inputs."""
    dtype = next(module.parameters()).dtype
    rows = torch.from_numpy(np.stack([Z.min(axis=0), Z.max(axis=0)]) if Z.dtype.kind == "i" else Z[:2])
    try:
        with evaluation_mode(module), torch.no_grad():
            module(rows.to(dtype) if rows.is_floating_point() else rows)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ValueError(
            f"The module cannot take rows of {Z.shape[1]} inputs, which is what X becomes: {str(error).rstrip('.')}. "
            "A function of (n_inputs, n_outputs) as hidden= can make one that fits."
        ) from error


def last_network(estimator: Any, inputs: Inputs, data: Data) -> tuple[Any, nn.Module | None]:
    """Return encoder and module of the last fit, for a warm start; None for both before the first fit."""
    if not hasattr(estimator, "module_"):
        return None, None
    check_names(estimator, inputs)
    check_same_network(estimator, data)
    return estimator.encoder_, estimator.module_


def check_same_network(estimator: Any, data: Data) -> None:
    """Raise an error if the last network does not fit the present parameters or labels, for a warm start."""
    if (estimator._scores is None) != (estimator.base.classifier is None and data.base_score is None):
        raise ValueError(
            "warm_start=True starts from the last model, but only one of the two has a base: set warm_start=False to "
            "start again."
        )
    last = estimator.module_
    if estimator.module is None:
        network = last.correction if isinstance(last, Corrected) else last
        linear = [part for part in network.modules() if isinstance(part, nn.Linear)]
        before, now = tuple(part.out_features for part in linear[:-1]), tuple(estimator.hidden)
        if before != now:
            raise ValueError(
                f"warm_start=True starts from the last network, which has hidden={before!r}, but hidden={now!r} is "
                "asked for: set warm_start=False to start again."
            )
    classes, found = len(estimator.classes_), len(np.unique(data.y))
    if classes != found:
        raise ValueError(
            f"warm_start=True starts from the last network, which decides between {classes} classes, "
            f"but y has {found}: set warm_start=False to start again."
        )


class OnDevice(nn.Module):
    """A module that computes on a device; its inputs and outputs are on the CPU."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module, self.device = module, device

    def forward(self, X: Tensor) -> Tensor:
        """Return the outputs, on the CPU."""
        return self.module(X.to(self.device)).cpu()


def on_device(module: nn.Module, device: Any) -> nn.Module:
    """Return the module, wrapped if it must compute on another device than the CPU."""
    if device is None:
        return module
    there = available_devices()
    try:
        chosen = torch.device(device)
        if chosen.type != "cpu":
            torch.zeros(1, device=chosen).cpu()  # only its use shows whether it is available
    except (RuntimeError, TypeError, AssertionError, NotImplementedError, ValueError) as error:
        raise ValueError(
            f"device={device!r} is not available here; available: {', '.join(map(repr, there))}. Leave device= out to "
            "train on the processor."
        ) from error
    if chosen.type == "cpu":
        return module
    if chosen.type == "meta":
        raise ValueError(f"device={device!r} cannot compute; available: {', '.join(map(repr, there))}.")
    return OnDevice(module.to(chosen), chosen)


def available_devices() -> list[str]:
    """Return the devices that torch finds here."""
    found = ["cpu"]
    if torch.cuda.is_available():
        found += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


# --- exact matrix products -------------------------------------------------------------------------------------------

# Matrix products that do not depend on the order of their sums.
#
# The rounding of a floating-point sum depends on its order.  A matrix library chooses the order by the number of rows,
# the threads and the processor.  So the last digit of a row's result may depend on the other rows.  A reproducible
# decision must not depend on them.  So both factors are cut into integers of b bits,
#
#     x = 2^e (x₁ + x₂ 2^-b) 2^-b + rest,     w = 2^f (w₁ + w₂ 2^-b) 2^-b + rest,     2b + log₂ K ≤ 53
#
# whose products and sums over K terms are exact in double precision, in any order, on any machine.  The rest is at
# most 2^(e−2b−1): with b = 20 or more the result is right to about 12 digits of the largest term.  (Ozaki, Ogita,
# Oishi, Rump: *Error-free transformations of matrix multiplication*, Numerical Algorithms 59, 2012.)
#
# Conventions: x : (n, K), w : (out, K), both finite float64.  The result is x wᵀ + bias, (n, out).


WIDEST = 4096
"""Number of terms summed at once.  Longer sums consist of such parts, added in their order."""

_LEAST_EXPONENT = -900  # numbers below 2^-900 count as zero, so that all powers of two stay in range


class ExactLinear:
    """A linear map whose result for a row depends on that row alone, to the last bit.

    >>> layer = ExactLinear(torch.tensor([[1.0, 2.0]]), torch.tensor([0.5]))
    >>> layer(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    tensor([[11.5000]], dtype=torch.float64)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach().to("cpu", torch.float64)
        self.bias = None if bias is None else bias.detach().to("cpu", torch.float64)
        self.parts = [
            (slice(start, start + part.shape[1]), *_cut(part.contiguous(), _bits(part.shape[1])))
            for start, part in zip(range(0, weight.shape[1], WIDEST), weight.split(WIDEST, dim=1), strict=True)
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """Return x wᵀ + bias."""
        result = None
        for columns, weights, exponents in self.parts:
            product = _product(x[:, columns].contiguous(), weights, exponents)
            result = product if result is None else result + product
        assert result is not None
        return result if self.bias is None else result + self.bias


def _bits(terms: int) -> int:
    """b: two integers of b bits each, multiplied and summed over the terms, stay below 2^53."""
    return (53 - math.ceil(math.log2(max(terms, 1)))) // 2


def _cut(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return x₁ and x₂, one above the other, as (2n, K), and the exponent e of each row, (n,)."""
    largest = x.abs().amax(dim=1)
    # A positive double is 1.m · 2^(E − 1023), where E is stored from bit 52 on.  So it is below 2^e with e = E − 1022.
    exponent = ((largest.view(torch.int64) >> 52) - 1022).clamp(min=_LEAST_EXPONENT)
    scaled = x * _power_of_two(bits - exponent)[:, None]
    high = scaled.round()
    low = ((scaled - high) * float(2**bits)).round()
    return torch.cat([high, low]), exponent


def _product(x: Tensor, weights: Tensor, weight_exponents: Tensor) -> Tensor:
    bits = _bits(x.shape[1])
    numbers, exponents = _cut(x, bits)
    products = numbers @ weights.T  # integers below 2^53: exact
    n, out, unit = len(exponents), len(weight_exponents), float(2.0**-bits)
    # With u = 2^-b: (x₁ + x₂u)(w₁ + w₂u) = x₁w₁ + (x₁w₂ + x₂w₁)u + x₂w₂u².
    high, middle = products[:n, :out], products[:n, out:] + products[n:, :out]
    total = high + (middle + products[n:, out:] * unit) * unit
    return total * _power_of_two(exponents - bits)[:, None] * _power_of_two(weight_exponents - bits)


def _power_of_two(exponent: Tensor) -> Tensor:
    """Return 2^exponent, set bit by bit, because a computed power may be wrong in the last digit."""
    return ((exponent + 1023) << 52).view(torch.float64)


# --- outputs for new rows --------------------------------------------------------------------------------------------

# Apply a fitted module to new rows, in double precision.  The result of a row does not depend on the other rows.
#
# Feed-forward networks (linear layers with activations between them) use `ExactLinear`.  So their decisions do not
# depend on the number of rows or threads, and with (leaky) ReLU not on the machine.  Any other module gets blocks with
# a fixed number of rows, so that the same kernels run for any number of rows.  The last block is filled with copies.
#
# torch computes activations such as tanh in vector registers.  It computes the remainder of an array by other code,
# with other last digits.  So activations get pieces that leave no remainder.


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


def logits(module: nn.Module, X: NDArray[Any], n_labels: int) -> Tensor:
    """Return the logits of rows, (n, D) in float64, from a module in float64."""
    rows = torch.from_numpy(np.ascontiguousarray(X))
    forward = exact_forward(module)
    if forward is not None:
        return as_logits(in_blocks(forward, rows, LARGE_BLOCK, multiple=REGISTER), n_labels)
    return as_logits(in_blocks(module, rows), n_labels)


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
