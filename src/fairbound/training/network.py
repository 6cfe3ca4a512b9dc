"""A torch module as the model of a training problem: the only place where arrays and tensors meet."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from fairbound._journal import digest
from fairbound.training.chunks import Floats, Slices
from fairbound.training.layers import FeedForwardGradients, GradientEngine, SliceGradients, choose_engine
from fairbound.training.model import Array, Biases, LinearModel, Model
from fairbound.training.modules import (
    accepts,
    assign,
    check_rows_are_independent,
    evaluation_mode,
    flatten,
    trainable,
)
from fairbound.training.sweep import Cotangents


class NetworkModel(Model):
    """A torch module whose parameters that require a gradient are trained.

    Parameters
    ----------
    module : torch.nn.Module
        Gives one row of outputs for each row of inputs, on the processor.

    Attributes
    ----------
    parameters : list of torch.nn.Parameter
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"The model is {type(module).__name__}: give a torch.nn.Module or a LinearModel.")
        self.module, self.parameters = module, trainable(module)
        self.n_parameters = sum(parameter.numel() for parameter in self.parameters)
        self.width = max(max(parameter.shape, default=1) for parameter in self.parameters)
        self._engine: GradientEngine | None = None

    @property
    def has_modes(self) -> bool:
        """Return whether the outputs may differ between training and evaluation mode."""
        return not isinstance(self._engine, FeedForwardGradients)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision of the first parameter."""
        return torch.empty(0, dtype=self.parameters[0].dtype).numpy().dtype

    def current(self) -> Floats:
        """Return the parameters as one flat vector."""
        return flatten(self.parameters).numpy()

    def assign(self, w: Floats) -> None:
        """Write a flat vector into the module."""
        assign(self.parameters, torch.from_numpy(w))

    def set_precision(self, dtype: DTypeLike) -> None:
        """Convert the module."""
        self.module.to(_torch_type(dtype))

    def copied(self, dtype: DTypeLike) -> NetworkModel:
        """Return a copy in this precision."""
        return NetworkModel(copy.deepcopy(self.module).to(_torch_type(dtype)))

    def inputs(self, given: Any, numbers: Any) -> Any:
        """Return `numbers`, or whole numbers if the module accepts nothing else, as `nn.Embedding` does."""
        if hasattr(given, "toarray"):
            raise TypeError("X is sparse, but a network needs dense rows: give X.toarray(), or train a linear model.")
        if given.dtype.kind == "f" or accepts(self.module, torch.from_numpy(numbers[:1].astype(self.dtype))):
            return numbers
        return given.astype(np.int64) if accepts(self.module, torch.from_numpy(given[:1].astype(np.int64))) else numbers

    def check(self, rows: Any) -> None:
        """Raise an error unless the output for each of these rows depends on that row only."""
        X = torch.from_numpy(rows)
        check_rows_are_independent(self.module, X)
        if self._engine is None:
            self._engine = choose_engine(self.module, X)

    def outputs(self, X: Any) -> Array:
        """Return the outputs for some rows, without gradients."""
        if self._engine is None:
            with torch.no_grad():
                return self.module(torch.from_numpy(X)).detach().numpy()
        return self._engine.outputs(torch.from_numpy(X)).numpy()

    def accumulate(self, X: Any, slices: Slices, cotangents: Cotangents, gradients: Floats) -> None:
        """Add the gradients of one chunk of rows to `gradients`, of shape (J, Q, n_parameters)."""
        if self._engine is None:
            self._engine = choose_engine(self.module, torch.from_numpy(X))
        self._engine.accumulate(torch.from_numpy(X), slices, _on_tensors(cotangents), torch.from_numpy(gradients))

    def accumulate_in_present_mode(self, X: Any, slices: Slices, cotangents: Cotangents, gradients: Floats) -> None:
        """Add the gradients by autograd, in the present mode: Dropout drops units, and BatchNorm learns."""
        engine = SliceGradients(self.module)
        engine.accumulate(torch.from_numpy(X), slices, _on_tensors(cotangents), torch.from_numpy(gradients))

    def digest(self) -> bytes:
        """Return a digest of the layers and of all parameters and buffers."""
        tensors = (*self.module.parameters(), *self.module.buffers())
        return digest(self.module, *(tensor.detach().cpu().numpy() for tensor in tensors))

    def set_evaluation_mode(self) -> None:
        """Set the module to evaluation mode."""
        self.module.eval()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Set the module to evaluation mode, and restore the mode of every layer afterwards."""
        with evaluation_mode(self.module):
            yield

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Compute on one thread."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with super().one_thread():
                yield
        finally:
            torch.set_num_threads(before)

    @property
    def linear(self) -> LinearModel | None:
        """Return a linear model with the same parameters, if the module is one linear layer."""
        module = self.module
        layer = module[0] if type(module) is nn.Sequential and len(module) == 1 else module
        if type(layer) is not nn.Linear or layer.bias is None or len(self.parameters) != 2:
            return None
        found = LinearModel(layer.in_features, layer.out_features, self.dtype)
        found.assign(self.current())
        return found

    def constants(self, biases: Biases, rows: Any) -> list[Floats]:
        """Return the parameters of constant predictions; an empty list if the module has no linear output layer.

        The weights of layers without a bias are set to zero, too, because such a layer may carry inputs past the
        others.
        """
        layer = self._output_layer(rows.probe(4))
        if layer is None:
            return []
        before, found = self.current(), []
        try:
            for each in biases(layer.out_features):
                self._set_constant(layer, torch.from_numpy(each))
                found.append(self.current())
        finally:
            self.assign(before)
        return found

    def last_layer(self, probe: Any, chunks: Iterable[Any]) -> tuple[LinearModel, Array, NDArray[np.int64]] | None:
        """Return the last layer, its inputs for all rows, and the places of its parameters; None if there is none."""
        layer = self._output_layer(probe[:4])
        if layer is None or len(self.parameters) == len(trainable(layer)):
            return None
        outputs, features = _inputs_of(layer, self.module, torch.from_numpy(probe))
        if not torch.equal(outputs, layer(features).detach()):
            return None  # something else is added to the outputs of the layer
        found = [_inputs_of(layer, self.module, torch.from_numpy(X))[1].numpy() for X in chunks]
        ends = np.cumsum([0, *(each.numel() for each in self.parameters)])
        starts = {id(each): start for each, start in zip(self.parameters, ends[:-1].tolist(), strict=True)}
        places = [np.arange(each.numel()) + starts[id(each)] for each in (layer.weight, layer.bias)]
        return (
            LinearModel.of(*(each.detach().double().numpy() for each in (layer.weight, layer.bias))),
            np.concatenate(found).astype(np.float64),
            np.concatenate(places),
        )

    def _output_layer(self, probe: Any) -> nn.Linear | None:
        """Return the output layer: with weights of zero, its biases are the outputs.  None if there is none.

        Each linear layer is tried, last first: set its weights to zero, and see whether the module returns its biases.
        """
        before, rows = self.current(), torch.from_numpy(probe)
        for layer in reversed([part for part in self.module.modules() if isinstance(part, nn.Linear)]):
            is_trainable = layer.weight.requires_grad and layer.bias is not None and layer.bias.requires_grad
            if not is_trainable:
                continue
            ramp = torch.arange(1.0, layer.out_features + 1).to(layer.bias)
            try:
                self._set_constant(layer, ramp)
                with torch.no_grad():
                    output = self.module(rows).reshape(len(rows), -1)
            finally:
                self.assign(before)
            if output.shape[1] == layer.out_features and torch.equal(output, ramp.to(output).expand_as(output)):
                return layer
        return None

    def _set_constant(self, layer: nn.Linear, biases: Tensor) -> None:
        """Set the biases of a layer; its weights, and those of layers without biases, become zero."""
        layers = [part for part in self.module.modules() if isinstance(part, nn.Linear)]
        with torch.no_grad():
            for part in (layer, *(each for each in layers if each.bias is None and each.weight.requires_grad)):
                part.weight.zero_()
            layer.bias.copy_(biases.to(layer.bias))


def _torch_type(dtype: DTypeLike) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


def _on_tensors(cotangents: Cotangents) -> Any:
    return lambda outputs: torch.from_numpy(np.ascontiguousarray(cotangents(outputs.numpy())))


def _inputs_of(layer: nn.Linear, module: nn.Module, X: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs of the module and the inputs of one of its layers."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].detach()))
    try:
        with torch.no_grad():
            return module(X), seen[-1]
    finally:
        handle.remove()
