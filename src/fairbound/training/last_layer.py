"""The last layer of a network as a problem of its own: it is linear in its inputs, the features of the rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from fairbound.training.constants import output_layer
from fairbound.training.losses import L2, LinearTerm, Regularizer
from fairbound.training.models import trainable
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import MatrixRows, Rows

LastLayer = tuple[TrainingProblem, MatrixRows, Callable[[Tensor], Tensor]]
"""The problem of the layer, the rows with their features, and the parameters of the module from those of the layer."""


def last_layer(problem: TrainingProblem, rows: Rows) -> LastLayer | None:
    """Return the training of the last layer alone, at the present parameters of all others, in double precision.

    None if the module is one linear layer, if its outputs are not those of a last linear layer, or if the rows are not
    in memory.
    """
    layer = output_layer(problem, rows)
    if layer is None or len(problem.parameters) == len(trainable(layer)) or not isinstance(rows, MatrixRows):
        return None
    outputs, features = _inputs_of(layer, problem.module, rows.probe())
    if not torch.equal(outputs, layer(features).detach()):
        return None  # something else is added to the outputs of the layer
    found = torch.cat([_inputs_of(layer, problem.module, chunk.X)[1] for chunk in rows.chunks(problem.chunk_rows)])
    inner = copy.copy(problem)
    inner.module = nn.Linear(layer.in_features, layer.out_features, device="meta").to_empty(device="cpu").double()
    inner.parameters = trainable(inner.module)
    inner.n_parameters = sum(parameter.numel() for parameter in inner.parameters)
    inner._engine, inner._function = None, []
    starts = {id(each): start for each, start in _starts(problem)}
    places = torch.cat([torch.arange(each.numel()) + starts[id(each)] for each in (layer.weight, layer.bias)])
    whole = problem.current()
    inner.regularizers = tuple(_restricted(each, places) for each in problem.regularizers)
    inner.assign(whole[places])

    def lift(w: Tensor) -> Tensor:
        return whole.index_copy(0, places, w)

    return inner, replace(rows, X=found.to(torch.float64), given=None), lift


def _inputs_of(layer: nn.Linear, module: nn.Module, X: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs of the module and the inputs of one of its layers."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].detach()))
    try:
        with torch.no_grad():
            return module(X), seen[-1]
    finally:
        handle.remove()


def _starts(problem: TrainingProblem) -> list[tuple[nn.Parameter, int]]:
    ends = torch.tensor([each.numel() for each in problem.parameters]).cumsum(0).tolist()
    return list(zip(problem.parameters, [0, *ends[:-1]], strict=True))


def _restricted(regularizer: Regularizer, places: Tensor) -> Regularizer:
    """Return a regulariser of all parameters as one of those at `places`; the others are constant."""
    if isinstance(regularizer, L2) and regularizer.of is not None:
        return replace(regularizer, of=regularizer.of[places])
    if isinstance(regularizer, LinearTerm):
        return LinearTerm(regularizer.slope[places], regularizer.origin[places])
    return regularizer
