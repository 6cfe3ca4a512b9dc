"""Draw a training and a test part, stratified by label and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from fairbound._errors import InputError, bad_value
from fairbound.data.columns import has_probabilities

IntArray = NDArray[np.int64]


def draw_parts(
    y: IntArray,
    columns: Sequence[NDArray[Any]],
    test_size: float,
    random_state: int | np.random.RandomState,
    *,
    pool: bool,
) -> tuple[IntArray, IntArray]:
    """Return the rows of the training and of the test part.

    Parameters
    ----------
    y : array of shape (n,)
        Label codes.
    columns : sequence of arrays of shape (n,)
        Groups to stratify on, together with the label.
    test_size : float
        Share of the rows in the test part, between 0 and 1.
    random_state : int or numpy.random.RandomState
        Seed of the draw.
    pool : bool
        Whether a row that is alone in its stratum joins the largest group of its label; otherwise it is an error.
    """
    if not 0 < test_size < 1:
        raise bad_value("test_size", test_size, "a share of the rows, above 0 and below 1")
    columns = [column for column in columns if not has_probabilities(column)]  # there is no group to stratify on
    strata = _strata([y, *columns])
    if pool:
        strata = _pool_single_rows(strata, y)
    sizes = np.bincount(strata)
    if sizes.min() < 2:
        row = int(np.flatnonzero(strata == sizes.argmin())[0])
        if (y == y[row]).sum() == 1:
            raise ValueError(f"Only one row has label {y[row]}, so it cannot be in both parts; give more rows of it.")
        cell = ", ".join(str(column[row]) for column in columns)
        raise InputError(
            "Only one row has label {label} and group ({group}), so it cannot be in both parts.",
            "Stratify on fewer columns ({by=}), or merge small groups.",
            label=y[row],
            group=cell,
        )
    smaller = min(math.ceil(test_size * len(y)), math.floor((1 - test_size) * len(y)))
    if smaller < len(sizes):
        raise InputError(
            "{test_size=share} leaves {smaller} of {rows} rows in the smaller part, but label and groups form {strata} "
            "strata.",
            "Choose another {test_size=}, or stratify on fewer columns ({by=}).",
            share=test_size,
            smaller=smaller,
            rows=len(y),
            strata=len(sizes),
        )
    train, test = train_test_split(np.arange(len(y)), test_size=test_size, random_state=random_state, stratify=strata)
    return train, test


def _strata(columns: Sequence[NDArray[Any]]) -> IntArray:
    """Return a number for each distinct combination of values."""
    # As text, missing is one more value, and columns of mixed types can be sorted.
    codes = [np.unique(column.astype(str), return_inverse=True)[1] for column in columns]
    return np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel().astype(np.int64)  # numpy 2.0 kept an axis


def _pool_single_rows(strata: IntArray, y: IntArray) -> IntArray:
    """Move each row that is alone in its stratum to the largest stratum of its label."""
    pooled = strata.copy()
    for row in np.flatnonzero(np.bincount(strata)[strata] == 1):
        pooled[row] = np.bincount(strata[y == y[row]]).argmax()
    return np.unique(pooled, return_inverse=True)[1].astype(np.int64)
