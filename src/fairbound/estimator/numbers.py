"""Columns that are numbers already: read as a matrix, and brought to mean 0 and deviation 1 without overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.inputs import Inputs

Floats = NDArray[np.float64]

FARTHEST = 1e100
"""Scaled numbers are cut here, so that no product of them overflows."""


def plain_numbers(inputs: Inputs, whose: str = "Column") -> Floats:
    """Return all columns as one matrix; refuse words and missing values.

    Parameters
    ----------
    inputs : Inputs
    whose : str
        How a message begins that names a column.
    """
    matrix = inputs.matrix()
    if matrix is None:
        for position in range(inputs.n_columns):
            if not inputs.is_numeric(position):
                raise ValueError(
                    f"{whose} {inputs.label(position)} holds words, where numbers are needed: encode it, or use "
                    'preprocessing="auto", which makes 0/1 columns of them.'
                )
        matrix = np.stack([inputs.numbers(position) for position in range(inputs.n_columns)], axis=1)
    if np.isnan(matrix).any():
        row, column = np.argwhere(np.isnan(matrix))[0]
        raise ValueError(
            f"Input X contains NaN, first in row {row}, column {inputs.label(int(column))}: impute it, or use "
            'preprocessing="auto", which does.'
        )
    return np.ascontiguousarray(matrix)


def standardize(values: Floats, mean: Any, scale: Any) -> Floats:
    """Return (values − mean) / scale, cut where no product could hold it; the difference itself may overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (values - mean) / scale
        if np.isinf(scaled).any():
            scaled = np.where(np.isinf(scaled), (0.5 * values - 0.5 * mean) / scale * 2.0, scaled)
    return np.clip(scaled, -FARTHEST, FARTHEST)
