"""The network of a model as a record of its layers, whose weights are arrays; and a user's own network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from fairbound._values import torch
from fairbound.estimator import FARTHEST, Corrected, FeedForward
from fairbound.persistence.folder import ModelFileError

ACTIVATION_OPTIONS: dict[str, tuple[str, ...]] = {
    "ReLU": (),
    "LeakyReLU": ("negative_slope",),
    "Identity": (),
    "Tanh": (),
    "Sigmoid": (),
    "GELU": ("approximate",),
    "SiLU": (),
    "ELU": ("alpha",),
    "Softplus": ("beta", "threshold"),
}
"""The activations of `torch.nn` that are written, and their options."""

LARGEST_OUTPUT = 1e290


class StoredLayer(Struct, omit_defaults=True):
    """A linear layer, whose shape is that of its weights, or an activation."""

    kind: str
    options: dict[str, float | str] = {}


class StoredNetwork(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A network.

    Attributes
    ----------
    name : str
        The class of the module.
    layers : list of StoredLayer, or None
        None for a network that needs its own code.
    corrects : bool
        Whether the scores of a base are added to the output of the layers.
    """

    name: str
    layers: list[StoredLayer] | None = None
    corrects: bool = False

    @classmethod
    def of(cls, module: Any) -> StoredNetwork:
        """Return the record of a module."""
        inner = module.correction if isinstance(module, Corrected) else module
        layers = None
        if FeedForward.fits(inner):
            kinds = [(type(part).__name__, part) for part in inner.children()]
            layers = [
                StoredLayer(kind, {name: getattr(part, name) for name in ACTIVATION_OPTIONS.get(kind, ())})
                for kind, part in kinds
            ]
        return cls(f"{type(module).__module__}.{type(module).__qualname__}", layers, isinstance(module, Corrected))

    def restored(self, arrays: Mapping[str, np.ndarray], own: Any, n_inputs: int, n_outputs: int) -> Any:
        """Return the module with its weights; `own` is the user's network, or a function that makes one."""
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        for tensor in (each for each in tensors.values() if each.is_floating_point()):
            if tensor.dtype is not torch.float64 or not bool(torch.isfinite(tensor).all()):
                raise ValueError("the weights are not finite numbers in double precision")
        if self.layers is not None and self.corrects:
            weight = tensors.pop("score.weight")
            if weight.shape != (n_outputs, n_outputs):
                raise ValueError("the weights of the scores do not fit")
            inner = {name.removeprefix("correction."): each for name, each in tensors.items()}
            return Corrected(_linear(weight, None), _sequence(self.layers, inner))
        if self.layers is not None:
            return _sequence(self.layers, tensors)
        if own is None:
            raise ModelFileError(
                f"The model has a network of your own ({self.name}), but a saved model has no code: give the network "
                "with load(path, module=...), and the saved weights are put into it."
            )
        module = (own if isinstance(own, torch.nn.Module) else own(n_inputs, n_outputs)).to(torch.float64)
        try:
            module.load_state_dict(tensors)
        except RuntimeError as error:
            raise ModelFileError(f"The weights of {self.name} do not fit the module that you gave: {error}") from error
        return module.eval()  # decisions must not depend on chance


def _sequence(layers: Sequence[StoredLayer], tensors: dict[str, Any]) -> Any:
    """Return the network of the layers, which takes its weights out of the tensors."""
    parts: list[Any] = []
    reach = FARTHEST  # a bound on every number within the network, because encoded rows are clipped
    for position, layer in enumerate(layers):
        if layer.kind == "Linear":
            weight, bias = tensors.pop(f"{position}.weight"), tensors.pop(f"{position}.bias", None)
            if weight.ndim != 2 or not weight.numel() or (bias is not None and bias.shape != weight.shape[:1]):
                raise ValueError(f"the weights of layer {position} do not fit")
            sums = weight.abs().sum(dim=1) * reach
            reach = float((sums if bias is None else sums + bias.abs()).max())
            parts.append(_linear(weight, bias))
        else:
            options: dict[str, Any] = layer.options
            if set(options) != set(ACTIVATION_OPTIONS[layer.kind]) or not options.get("beta", 1.0) > 0:
                raise ValueError(f"layer {position} has the options {options!r}")
            slopes = (options.get(name, 0.0) for name in ("negative_slope", "alpha"))
            reach = reach * max(1.0, *map(abs, slopes)) + 1.0 / options.get("beta", 1.0)
            parts.append(getattr(torch.nn, layer.kind)(**options))
    if tensors:
        raise ValueError("there are weights that no layer has")
    if not reach < LARGEST_OUTPUT:
        raise ValueError("the weights are so large that numbers overflow")
    return torch.nn.Sequential(*parts)


def _linear(weight: Any, bias: Any) -> Any:
    outputs, inputs = weight.shape
    made = torch.nn.Linear(inputs, outputs, bias=bias is not None, device="meta", dtype=torch.float64)
    made.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}), assign=True)
    return made
