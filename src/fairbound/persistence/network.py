"""The network of a model as a record of its layers, whose weights are arrays; and a user's own network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from fairbound._errors import need_torch
from fairbound.estimator import LinearModel
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
        if self.layers is None:
            return self._own(arrays, own, n_inputs, n_outputs)
        held = dict(arrays)
        if not self.corrects:
            return _sequence(self.layers, held)
        weight = held.pop("score.weight")
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


def _sequence(layers: Sequence[StoredLayer], arrays: Mapping[str, np.ndarray], *, network: bool = False) -> Any:
    """Return the model of the layers: linear if it is one linear layer, unless a `network` is asked for."""
    if not network and len(layers) == 1 and "0.bias" in arrays:
        return LinearModel.of(arrays["0.weight"], arrays["0.bias"])
    need_torch("The model has a network, which needs")
    from torch import nn

    parts = [
        _linear(arrays[f"{place}.weight"], arrays.get(f"{place}.bias"))
        if layer.kind == "Linear"
        else getattr(nn, layer.kind)(**{name: layer.options[name] for name in ACTIVATION_OPTIONS[layer.kind]})
        for place, layer in enumerate(layers)
    ]
    return nn.Sequential(*parts)


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
