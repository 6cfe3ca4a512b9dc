"""The module of a fit: a built-in one, the user's own, or that of the last fit; and its device."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.estimator.correction import Corrected, corrected_module
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.names import check_names
from fairbound.estimator.rows import Data
from fairbound.training import make_model

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
        For the initial parameters: of a function's module, and of a built-in one.
    n_scores : int
        How many of the inputs, the last ones, are scores of a base; the module then begins as that base.
    """
    n_rows, n_inputs = shape
    if isinstance(own, nn.Module):
        return copy.deepcopy(own)
    if callable(own):
        # The user's function draws from the global generator, so that is seeded, and restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = _made(own, n_inputs, 1 if n_labels == 2 else n_labels)
        if not isinstance(made, nn.Module):
            raise TypeError(f"module= returned {type(made).__name__}: it must return a torch.nn.Module.")
        return made
    if own is not None:
        raise TypeError(
            f"module={own!r}: must be a torch.nn.Module, or a function of (n_inputs, n_outputs) that returns one."
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
        raise TypeError(f"module={own!r} must be a function of (n_inputs, n_outputs): {error}.") from error
    except ValueError:  # no signature is known
        pass
    return own(n_inputs, n_outputs)


def try_module(module: nn.Module, Z: NDArray[np.float64]) -> None:
    """Reject a module that cannot take the inputs, with a message of our own."""
    dtype = next(module.parameters()).dtype
    try:
        with torch.no_grad():
            module(torch.from_numpy(Z[:2]).to(dtype))  # two rows: layers that couple rows have another error message
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ValueError(
            f"The module cannot take rows of {Z.shape[1]} inputs, which is what X becomes: {str(error).rstrip('.')}. "
            "A function of (n_inputs, n_outputs) as module= can make one that fits."
        ) from error


def last_network(estimator: Any, inputs: Inputs, data: Data) -> tuple[Any, nn.Module | None]:
    """Return encoder and module of the last fit, for a warm start; nothing before the first fit."""
    if not hasattr(estimator, "module_"):
        return None, None
    check_names(estimator, inputs)
    check_same_network(estimator, data)
    return estimator.encoder_, estimator.module_


def check_same_network(estimator: Any, data: Data) -> None:
    """Reject a warm start whose network cannot be that of the last fit."""
    if (estimator._scores is None) != (estimator.base is None and data.base_score is None):
        raise ValueError(
            "warm_start=True starts from the last model, and only one of the two has a base: set warm_start=False to "
            "begin anew."
        )
    last = estimator.module_
    if estimator.module is None:
        network = last.correction if isinstance(last, Corrected) else last
        linear = [part for part in network.modules() if isinstance(part, nn.Linear)]
        before, now = tuple(part.out_features for part in linear[:-1]), tuple(estimator.hidden)
        if before != now:
            raise ValueError(
                f"warm_start=True starts from the last network, which has hidden={before!r}, but hidden={now!r} is "
                "asked for: set warm_start=False to begin anew."
            )
    classes, found = len(estimator.classes_), len(np.unique(data.y))
    if classes != found:
        raise ValueError(
            f"warm_start=True starts from the last network, which decides between {classes} classes, "
            f"but y has {found}: set warm_start=False to begin anew."
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
    """Return the module, wrapped if it is to compute on another device than the CPU."""
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
        raise ValueError(f"device={device!r} computes nothing; available: {', '.join(map(repr, there))}.")
    return OnDevice(module.to(chosen), chosen)


def available_devices() -> list[str]:
    """Return the devices that torch finds here."""
    found = ["cpu"]
    if torch.cuda.is_available():
        found += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found
