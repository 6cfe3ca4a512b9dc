"""The encoder of a fit: a `TableEncoder`, the user's own transformer, or none.

It encodes inputs as the module needs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from fairbound._errors import InputScaleWarning
from fairbound.estimator.encoder import TableEncoder, plain_numbers
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.rows import Data

LARGEST_INPUT = 1e30
"""Larger inputs that are not scaled would overflow in sums of squares."""

WIDEST_SCALES = 1e4
"""The largest ratio of the size of one unscaled column to the deviation of another before a warning."""


def fitted_encoder(params: Parameters, data: Data, processes: Any = None) -> Any:
    """Fit a copy of the chosen encoder to the training rows, those of all processes."""
    if params.encoder is None and params.module is not None:
        return None  # the user's own module gets X unchanged
    if params.encoder is None:
        encoder = TableEncoder(strict=True)  # built-in networks learn badly from columns of different scales
    else:
        encoder = TableEncoder() if isinstance(params.encoder, str) else clone(params.encoder)
    if isinstance(encoder, TableEncoder):
        return encoder.fit(data.inputs, sample_weight=data.loss_weights, processes=processes)
    return encoder.fit(data.inputs.native, data.y)


def encode(encoder: Any, inputs: Inputs) -> Any:
    """Return the encoded inputs, dense or sparse by rows; without an encoder, the inputs as numbers."""
    if isinstance(encoder, TableEncoder):
        return encoder.encoded(inputs)  # the estimator has checked the names
    return inputs.by_blocks(lambda rows: _plainly(encoder, rows))


def _plainly(encoder: Any, inputs: Inputs) -> Any:
    """Return inputs as numbers, after the user's own transformer if there is one."""
    if encoder is None:
        read, whose = inputs, "Column"
    else:
        read = read_inputs(encoder.transform(inputs.native))
        whose = f"In the output of encoder={type(encoder).__name__}(...), column"
    matrix = plain_numbers(read, whose)
    sizes = np.abs(matrix)
    if sizes.shape[0] and sizes.max() > LARGEST_INPUT:
        row, column = np.unravel_index(sizes.argmax(), sizes.shape)
        raise ValueError(
            f"{whose} {read.label(int(column))} holds {matrix[row, column]:g} in row {inputs.first + row}, but "
            f"a network can take numbers up to {LARGEST_INPUT:g}: scale the column, or use "
            'encoder="auto", which does.'
        )
    return matrix


def warn_of_scales(encoder: Any, Z: Any, names: Sequence[str], stacklevel: int) -> None:
    """Warn if unscaled columns have such different scales that training would suffer."""
    if isinstance(encoder, TableEncoder) and encoder.scale:
        return
    squares = (Z.power(2) if sparse.issparse(Z) else Z**2).mean(axis=0)
    sizes, deviations = np.sqrt(squares), np.sqrt(np.maximum(squares - Z.mean(axis=0) ** 2, 0.0))
    varying = np.flatnonzero(deviations > 0)
    if not len(varying):
        return
    least, most = int(varying[deviations[varying].argmin()]), int(varying[sizes[varying].argmax()])
    if sizes[most] > WIDEST_SCALES * deviations[least] or sizes[most] > WIDEST_SCALES:
        warnings.warn(
            f"The inputs of the network have very different scales: {names[most]!r} is about {sizes[most]:.2g}, "
            f"{names[least]!r} varies by about {deviations[least]:.2g}. Training then finds worse models: scale the "
            'columns before, for example by encoder="auto".',
            InputScaleWarning,
            stacklevel=stacklevel + 1,
        )


def encoded_names(encoder: Any, inputs: Inputs, n_inputs: int) -> list[str]:
    """Return the names of the module's inputs, as far as they are known."""
    if encoder is None:
        return list(inputs.names_or_numbers)
    if hasattr(encoder, "get_feature_names_out"):
        names = inputs.names
        return [str(name) for name in encoder.get_feature_names_out(None if names is None else list(names))]
    return [f"x{position}" for position in range(n_inputs)]
