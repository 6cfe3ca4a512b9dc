"""What a model goes by: the rise of its loss when a column of the inputs is shuffled.

A shuffled column keeps its values and loses its tie to the row.  Columns that say the same share their importance, and
none of this says what causes the label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 2000
"""Rows that are looked at; more would take longer and show the same."""

SHUFFLES = 3


def shuffled_importances(
    predict_proba: Callable[[Any], NDArray[np.float64]],
    X: Any,
    y: Any,
    classes: Sequence[Any],
    *,
    seed: int = 0,
) -> dict[str, float]:
    """Return for each column of a table how much the mean log loss rises when the column is shuffled.

    Parameters
    ----------
    predict_proba : function of a table
        Probabilities of the classes, in their order.
    X : table
        Rows that had no part in training, if there are some.
    y : sequence of labels
    classes : sequence of labels
    seed : int
        Of the shuffles and of the rows drawn, where there are more than `MOST_ROWS`.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    table = nw.from_native(X, eager_only=True)
    if len(labels) > MOST_ROWS:
        rows = np.sort(rng.choice(len(labels), MOST_ROWS, replace=False))
        table, labels = table[rows.tolist()], labels[rows]
    places = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    codes = np.array([places[label] for label in labels.tolist()])

    def loss(part: Any) -> float:
        found = predict_proba(part.to_native())[np.arange(len(codes)), codes]
        return float(-np.log(np.clip(found, 1e-12, 1.0)).mean())

    start = loss(table)
    rises = {}
    for name in table.columns:
        shuffled = [table[name][rng.permutation(len(codes)).tolist()] for _ in range(SHUFFLES)]
        rises[name] = float(np.mean([loss(table.with_columns(each.alias(name))) for each in shuffled])) - start
    return rises
