"""Inputs to numbers, by the encoder that the user chose: ours, a transformer of their own, or none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fairbound.fitting.data import Data, Parameters
from fairbound.preprocessing.encoder import NumberColumn, TableEncoder
from fairbound.preprocessing.tables import Inputs, read_inputs

Floats = NDArray[np.float64]


def fitted_encoder(params: Parameters, data: Data) -> Any:
    """Fit a copy of the chosen encoder to the training rows."""
    stated = params.preprocessing
    if stated is None:
        return None
    if isinstance(stated, str):
        stated = TableEncoder(categorical=params.categorical, max_categories=params.max_categories)
    elif params.categorical is not None:
        raise ValueError('categorical= goes with preprocessing="auto"; a transformer of your own decides by itself.')
    encoder = clone(stated)
    if isinstance(encoder, TableEncoder):
        return encoder.fit(data.inputs, sample_weight=data.loss_weights)
    return encoder.fit(data.inputs.native, data.y)


def encode(encoder: Any, inputs: Inputs) -> Floats:
    """Make numbers of inputs, by a fitted encoder or as they are."""
    if isinstance(encoder, TableEncoder):
        return encoder.encode(inputs)  # the estimator has looked at the names
    read = inputs if encoder is None else read_inputs(encoder.transform(inputs.native))
    matrix = read.matrix()
    if matrix is None:
        for position in range(read.n_columns):
            if not read.is_numeric(position):
                whose = (
                    "Column" if encoder is None else f"What preprocessing={type(encoder).__name__}(...) gives: column"
                )
                raise ValueError(
                    f"{whose} {read.label(position)} holds words, where numbers are needed: encode it, or use "
                    'preprocessing="auto", which makes 0/1 columns of them.'
                )
        matrix = np.stack([read.numbers(position) for position in range(read.n_columns)], axis=1)
    if np.isnan(matrix).any():
        row, column = np.argwhere(np.isnan(matrix))[0]
        raise ValueError(
            f"Input X contains NaN, first in row {row}, column {read.label(int(column))}: impute it, or use "
            'preprocessing="auto", which does.'
        )
    return np.ascontiguousarray(matrix)


def encoded_units(encoder: Any, n_inputs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and scale of each encoded column: 0 and 1 but for numbers."""
    means, scales = np.zeros(n_inputs), np.ones(n_inputs)
    if isinstance(encoder, TableEncoder):
        place = 0
        for column in encoder.columns_:
            if isinstance(column, NumberColumn):
                means[place], scales[place] = column.mean, column.scale
            place += len(column.outputs)
    return means, scales


def encoded_names(encoder: Any, inputs: Inputs, n_inputs: int) -> list[str]:
    """Names of the inputs of the module, as far as they are known."""
    if encoder is None:
        return list(inputs.names or (f"x{position}" for position in range(n_inputs)))
    if hasattr(encoder, "get_feature_names_out"):
        names = inputs.names
        return [str(name) for name in encoder.get_feature_names_out(None if names is None else list(names))]
    return [f"x{position}" for position in range(n_inputs)]
