"""Networks of a fit, as torch modules: a built-in one or the user's own, its device, and its outputs for new rows.

The outputs of a row do not depend on the other rows, nor on the number of threads.  Feed-forward networks (linear
layers with activations between them) use `ExactLinear`.  So with (leaky) ReLU their decisions do not even depend on the
machine.  Any other module gets blocks with a fixed number of rows, so that the same kernels run for any number of rows.
The last block is filled with copies.

torch computes activations such as tanh in vector registers.  It computes the remainder of an array by other code, with
other last digits.  So activations get pieces that leave no remainder.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound._errors import InputError
from fairbound.estimator.exact import ExactLinear
from fairbound.training import accepts, blank_linear, evaluation_mode, make_model


def first_network(
    own: Any,
    hidden: Any,
    *,
    n_inputs: int,
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
    n_inputs, n_labels : int
    seed, generator
        The random state of the initial parameters: `seed` for the user's function, `generator` for a built-in module.
    n_scores : int
        The number of base scores among the inputs, which are the last ones.  With a base the module starts as the base.
    """
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
    if n_scores:
        return _corrected(hidden, n_inputs - n_scores, n_labels, generator)
    return make_model(n_inputs, n_labels, hidden, generator=generator, dtype=torch.float32).to(torch.float64)


def _made(own: Callable[..., Any], n_inputs: int, n_outputs: int) -> Any:
    """Call the user's function.  If it does not take two arguments, raise an error before it runs."""
    try:
        inspect.signature(own).bind(n_inputs, n_outputs)
    except TypeError as error:
        raise TypeError(f"hidden={own!r} must be a function of (n_inputs, n_outputs): {error}.") from error
    except ValueError:  # no signature is known
        pass
    return own(n_inputs, n_outputs)


class Corrected(nn.Module):
    """Scores times v, plus a network of the other inputs."""

    def __init__(self, score: nn.Linear, correction: nn.Sequential) -> None:
        super().__init__()
        self.score, self.correction = score, correction

    def forward(self, X: Tensor) -> Tensor:
        """Return the logits."""
        columns, scores = self.split(X)
        return self.score(scores) + self.correction(columns)

    def split(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return the columns and the scores."""
        n_columns = X.shape[1] - self.score.in_features
        return X[:, :n_columns], X[:, n_columns:]


def _corrected(hidden: Any, n_columns: int, n_labels: int, generator: torch.Generator) -> Corrected:
    """Return a network that initially equals the base: v = 1, and a correction of 0."""
    n_scores = 1 if n_labels == 2 else n_labels
    correction = make_model(n_columns, n_labels, hidden, generator=generator, dtype=torch.float64)
    last = correction[-1]
    assert isinstance(last, nn.Linear)
    score = blank_linear(n_scores, n_scores, bias=False, dtype=torch.float64)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.zero_()
        score.weight.copy_(torch.eye(n_scores, dtype=torch.float64))
    return Corrected(score, correction)


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


def takes_integers(module: nn.Module, n_inputs: int) -> bool:
    """Return whether a module accepts only whole numbers, like one that begins with `nn.Embedding`."""
    if not any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules()):
        return False
    zeros = torch.zeros(1, n_inputs, dtype=next(module.parameters()).dtype)
    return not accepts(module, zeros) and accepts(module, zeros.to(torch.int64))


def module_inputs(module: nn.Module, Z: NDArray[np.float64]) -> NDArray[Any]:
    """Return Z in the type that the module accepts: integers if it accepts nothing else."""
    if not takes_integers(module, Z.shape[1]):
        return Z
    whole = Z.astype(np.int64)
    if not np.array_equal(whole, Z):
        row, column = np.argwhere(whole != Z)[0]
        raise InputError(
            "The module embeds whole numbers, but its input {column} is {value:g} in row {row}.",
            "Give whole numbers, and {encoder=None}, which passes them on unchanged.",
            column=int(column),
            row=int(row),
            value=float(Z[row, column]),
        )
    return whole


class OnDevice(nn.Module):
    """A module that computes on a device; its inputs and outputs are on the CPU."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module, self.device = module, device

    def forward(self, X: Tensor) -> Tensor:
        """Return the outputs, on the CPU."""
        return self.module(X.to(self.device)).cpu()


def moved(module: nn.Module, device: Any) -> nn.Module:
    """Return the module, wrapped if it must compute on another device than the CPU."""
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
            _exact(part) if isinstance(part, nn.Linear) else _activation(part) for part in module
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
        v, correction = _exact(module.score), FeedForward(module.correction)

        def corrected(block: Tensor) -> Tensor:
            columns, scores = module.split(block)
            return v(scores) + correction(columns.contiguous())

        return corrected
    if FeedForward.fits(module):
        assert isinstance(module, nn.Sequential)
        return FeedForward(module)
    return None


def _exact(layer: nn.Linear) -> RowFunction:
    weight, bias = (
        None if each is None else each.detach().cpu().double().numpy() for each in (layer.weight, layer.bias)
    )
    assert weight is not None
    exact = ExactLinear(weight, bias)
    return lambda x: torch.from_numpy(exact(x.numpy()))


def network_outputs(module: nn.Module, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the outputs of a module in float64 for rows, (n, ...)."""
    rows = torch.from_numpy(np.ascontiguousarray(X))
    forward = exact_forward(module)
    if forward is not None:
        return in_blocks(forward, rows, LARGE_BLOCK, multiple=REGISTER).numpy()
    return in_blocks(module, rows).numpy()


def in_blocks(function: RowFunction, rows: Tensor, size: int = BLOCK, *, multiple: int = BLOCK) -> Tensor:
    """Apply a function to blocks of rows.  The last block is padded to `multiple` with copies of its first row."""
    parts = []
    with torch.no_grad():
        for block in rows.split(size):
            lacking = -len(block) % multiple
            full = torch.cat([block, block[:1].expand(lacking, *block.shape[1:])]) if lacking else block
            parts.append(function(full.contiguous())[: len(block)])
    return torch.cat(parts)


def linear_layer(module: nn.Module) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the weights and biases of a module that is one linear layer, in double precision; None for others."""
    layer = module[0] if isinstance(module, nn.Sequential) and len(module) == 1 else module
    if type(layer) is not nn.Linear:
        return None
    weight = layer.weight.detach().numpy()
    return weight, np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().numpy()


def widths(module: nn.Module) -> tuple[int, ...]:
    """Return the widths of the hidden layers of a built-in network."""
    network = module.correction if isinstance(module, Corrected) else module
    return tuple(part.out_features for part in network.modules() if isinstance(part, nn.Linear))[:-1]
