"""The network of a model as a record of its layers, whose weights are arrays; and a user's own network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from fairbound._errors import need_torch
from fairbound.estimator import FARTHEST, LinearModel
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
    def of(cls, model: Any) -> StoredNetwork:
        """Return the record of a model."""
        if isinstance(model, LinearModel):
            return cls(LinearModel.__name__, [StoredLayer("Linear")])
        from fairbound.estimator import Corrected, FeedForward

        inner = model.correction if isinstance(model, Corrected) else model
        layers = None
        if FeedForward.fits(inner):
            kinds = [(type(part).__name__, part) for part in inner.children()]
            layers = [
                StoredLayer(kind, {name: getattr(part, name) for name in ACTIVATION_OPTIONS.get(kind, ())})
                for kind, part in kinds
            ]
        return cls(f"{type(model).__module__}.{type(model).__qualname__}", layers, isinstance(model, Corrected))

    def restored(self, arrays: Mapping[str, np.ndarray], own: Any, n_inputs: int, n_outputs: int) -> Any:
        """Return the model with its weights; `own` is the user's network, or a function that makes one."""
        for array in (each for each in arrays.values() if each.dtype.kind == "f"):
            if array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError("the weights are not finite numbers in double precision")
        if self.layers is None:
            return self._own(arrays, own, n_inputs, n_outputs)
        held = dict(arrays)
        if not self.corrects:
            return _sequence(self.layers, held)
        weight = held.pop("score.weight")
        if weight.shape != (n_outputs, n_outputs):
            raise ValueError("the weights of the scores do not fit")
        need_torch("The model has a network, which needs")
        from fairbound.estimator import Corrected

        inner = {name.removeprefix("correction."): each for name, each in held.items()}
        return Corrected(_linear(weight, None), _sequence(self.layers, inner, network=True))

    def _own(self, arrays: Mapping[str, np.ndarray], own: Any, n_inputs: int, n_outputs: int) -> Any:
        """Return the user's network with its weights."""
        if own is None:
            raise ModelFileError(
                f"The model has a network of your own ({self.name}), but a saved model has no code: give the network "
                "with load(path, module=...), and the saved weights are put into it."
            )
        import torch

        module = (own if isinstance(own, torch.nn.Module) else own(n_inputs, n_outputs)).to(torch.float64)
        try:
            module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})
        except RuntimeError as error:
            raise ModelFileError(f"The weights of {self.name} do not fit the module that you gave: {error}") from error
        return module.eval()  # decisions must not depend on chance


def _sequence(layers: Sequence[StoredLayer], arrays: dict[str, np.ndarray], *, network: bool = False) -> Any:
    """Return the model of the layers, which takes its weights out of the arrays: linear if it is one linear layer."""
    parts: list[tuple[StoredLayer, np.ndarray | None, np.ndarray | None]] = []
    reach = FARTHEST  # a bound on every number within the network, because encoded rows are clipped
    for position, layer in enumerate(layers):
        weight = bias = None
        if layer.kind == "Linear":
            weight, bias = arrays.pop(f"{position}.weight"), arrays.pop(f"{position}.bias", None)
            if weight.ndim != 2 or not weight.size or (bias is not None and bias.shape != weight.shape[:1]):
                raise ValueError(f"the weights of layer {position} do not fit")
            with np.errstate(over="ignore"):  # infinite is too large
                sums = np.abs(weight).sum(axis=1) * reach
                reach = float((sums if bias is None else sums + np.abs(bias)).max())
        else:
            options: dict[str, Any] = layer.options
            if set(options) != set(ACTIVATION_OPTIONS[layer.kind]) or not options.get("beta", 1.0) > 0:
                raise ValueError(f"layer {position} has the options {options!r}")
            slopes = (options.get(name, 0.0) for name in ("negative_slope", "alpha"))
            reach = reach * max(1.0, *map(abs, slopes)) + 1.0 / options.get("beta", 1.0)
        parts.append((layer, weight, bias))
    if arrays:
        raise ValueError("there are weights that no layer has")
    if not reach < LARGEST_OUTPUT:
        raise ValueError("the weights are so large that numbers overflow")
    if not network and len(parts) == 1 and parts[0][1] is not None and parts[0][2] is not None:
        return LinearModel.of(parts[0][1], parts[0][2])
    need_torch("The model has a network, which needs")
    from torch import nn

    return nn.Sequential(
        *(
            getattr(nn, layer.kind)(**layer.options) if weight is None else _linear(weight, bias)
            for layer, weight, bias in parts
        )
    )


def _linear(weight: np.ndarray, bias: np.ndarray | None) -> Any:
    import torch

    outputs, inputs = weight.shape
    made = torch.nn.Linear(inputs, outputs, bias=bias is not None, device="meta", dtype=torch.float64)
    values = {"weight": weight} | ({} if bias is None else {"bias": bias})
    made.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in values.items()}, assign=True)
    return made


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Return the weights of a model by their names in the file."""
    if isinstance(model, LinearModel):
        return {"0.weight": model.weight.copy(), "0.bias": model.bias.copy()}
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
