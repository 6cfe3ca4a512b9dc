"""Check the arrays of a data set: inputs, labels, groups and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairbound.data.schema import is_missing

Arrays = dict[str, NDArray[Any]]
"""Columns by name."""

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_inputs(values: ArrayLike) -> FloatArray:
    """Return X as a float64 matrix; infinite values raise an error, NaN means missing."""
    X = np.asarray(values, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}; give a matrix of shape (rows, columns).")
    if len(X) == 0:
        raise ValueError(f"X has shape {X.shape}, so there is no row; give at least one.")
    if np.isinf(X).any():
        row, column = np.argwhere(np.isinf(X))[0]
        raise ValueError(f"X[{row}, {column}] is {X[row, column]}; give finite numbers, or NaN for missing ones.")
    return X


def as_labels(values: ArrayLike, classes: int) -> IntArray:
    """Return y as int64 codes below `classes`."""
    y = np.asarray(values)
    if y.dtype.kind not in "biu":
        raise TypeError(f"y has dtype {y.dtype}; give integer label codes from 0 to {classes - 1}.")
    if y.size and not 0 <= y.min() <= y.max() < classes:
        wrong = y[(y < 0) | (y >= classes)][0]
        raise ValueError(f"y contains {wrong}; give label codes from 0 to {classes - 1}, one for each of target_names.")
    return y.astype(np.int64)


def without_nan(values: NDArray[Any]) -> NDArray[Any]:
    """Return words with None for missing ones; return numbers unchanged."""
    if values.dtype.kind != "O":
        return values
    return np.array(
        [None if gap else value for value, gap in zip(values, is_missing(values), strict=True)], dtype=object
    )
