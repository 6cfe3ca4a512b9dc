"""Encode inputs with the chosen encoder (a `TableEncoder`, the user's own transformer, or none) as the module needs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import nn

from fairbound._errors import InputError, InputScaleWarning
from fairbound.estimator.encoded_columns import NumberColumn
from fairbound.estimator.encoder import TableEncoder, plain_numbers
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.rows import Data, Parameters
from fairbound.training import accepts

Floats = NDArray[np.float64]

LARGEST_INPUT = 1e30
"""Larger inputs that are not scaled would overflow in sums of squares."""

WIDEST_SCALES = 1e4
"""The largest ratio of the size of one unscaled column to the deviation of another before a warning."""


def fitted_encoder(params: Parameters, data: Data) -> Any:
    """Fit a copy of the chosen encoder to the training rows."""
    stated = params.preprocessing
    if stated is None:
        # Built-in networks learn badly from columns of different scales; the user's own module gets X unchanged.
        return None if params.module is not None else _fitted(TableEncoder(strict=True), data)
    if isinstance(stated, str):
        stated = TableEncoder(categorical=params.categorical, max_categories=params.max_categories)
    elif params.categorical is not None:
        raise InputError(
            "{categorical=} needs {preprocessing='auto'}: a transformer of your own decides which columns are "
            "categories.",
            "Leave out {categorical=}.",
        )
    encoder = clone(stated)
    if isinstance(encoder, TableEncoder):
        return _fitted(encoder, data)
    return encoder.fit(data.inputs.native, data.y)


def _fitted(encoder: TableEncoder, data: Data) -> TableEncoder:
    return encoder.fit(data.inputs, sample_weight=data.loss_weights)


def encode(encoder: Any, inputs: Inputs) -> Floats:
    """Return the encoded inputs; without an encoder, the inputs as numbers."""
    if isinstance(encoder, TableEncoder):
        return encoder.encoded(inputs)  # the estimator has checked the names
    if encoder is None:
        read, whose = inputs, "Column"
    else:
        read = read_inputs(encoder.transform(inputs.native))
        whose = f"What preprocessing={type(encoder).__name__}(...) gives: column"
    matrix = plain_numbers(read, whose)
    if len(matrix) and np.abs(matrix).max() > LARGEST_INPUT:
        row, column = np.unravel_index(np.abs(matrix).argmax(), matrix.shape)
        raise ValueError(
            f"{whose} {read.label(int(column))} holds {matrix[row, column]:g} in row {row}, but a network can take "
            f'numbers up to {LARGEST_INPUT:g}: scale the column, or use preprocessing="auto", which does.'
        )
    return matrix


def takes_integers(module: nn.Module, n_inputs: int) -> bool:
    """Return whether a module takes whole numbers and no others, as one that begins with `nn.Embedding` does."""
    if not any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules()):
        return False
    zeros = torch.zeros(1, n_inputs, dtype=next(module.parameters()).dtype)
    return not accepts(module, zeros) and accepts(module, zeros.to(torch.int64))


def module_inputs(module: nn.Module, Z: NDArray[np.float64]) -> NDArray[Any]:
    """Return Z as the module takes it: as integers if it takes no other numbers."""
    if not takes_integers(module, Z.shape[1]):
        return Z
    whole = Z.astype(np.int64)
    if not np.array_equal(whole, Z):
        row, column = np.argwhere(whole != Z)[0]
        raise InputError(
            "The module embeds whole numbers, but its input {column} is {value:g} in row {row}.",
            "Give whole numbers, and {preprocessing=None}, which passes them on unchanged.",
            column=int(column),
            row=int(row),
            value=float(Z[row, column]),
        )
    return whole


def warn_of_scales(encoder: Any, Z: Floats, names: Sequence[str], stacklevel: int) -> None:
    """Warn if unscaled columns have such different scales that training would suffer."""
    if isinstance(encoder, TableEncoder) and encoder.scale:
        return
    deviations, sizes = Z.std(axis=0), np.sqrt((Z**2).mean(axis=0))
    varying = np.flatnonzero(deviations > 0)
    if not len(varying):
        return
    least, most = int(varying[deviations[varying].argmin()]), int(varying[sizes[varying].argmax()])
    if sizes[most] > WIDEST_SCALES * deviations[least] or sizes[most] > WIDEST_SCALES:
        warnings.warn(
            f"The inputs of the network have very different scales: {names[most]!r} is about {sizes[most]:.2g}, "
            f"{names[least]!r} varies by about {deviations[least]:.2g}. Training then finds worse models: scale the "
            'columns before, for example by preprocessing="auto".',
            InputScaleWarning,
            stacklevel=stacklevel + 1,
        )


def encoded_units(encoder: Any, n_inputs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and scale of each encoded column; 0 and 1 unless it is a number."""
    means, scales = np.zeros(n_inputs), np.ones(n_inputs)
    if isinstance(encoder, TableEncoder):
        place = 0
        for column in encoder.columns_:
            if isinstance(column, NumberColumn):
                means[place], scales[place] = column.mean, column.scale
            place += len(column.outputs)
    return means, scales


def encoded_names(encoder: Any, inputs: Inputs, n_inputs: int) -> list[str]:
    """Return the names of the module's inputs, as far as they are known."""
    if encoder is None:
        return list(inputs.names or (f"x{position}" for position in range(n_inputs)))
    if hasattr(encoder, "get_feature_names_out"):
        names = inputs.names
        return [str(name) for name in encoder.get_feature_names_out(None if names is None else list(names))]
    return [f"x{position}" for position in range(n_inputs)]
