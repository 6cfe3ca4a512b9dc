"""Permutation importance: the increase of the loss when a column of the inputs is shuffled.

Columns with the same information share their importance.  Importance says nothing about what causes the label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 2000
"""Largest number of rows used; more would take longer and hardly change the result."""

SHUFFLES = 3


def shuffled_importances(
    predict_proba: Callable[[Any], NDArray[np.float64]],
    X: Any,
    y: Any,
    classes: Sequence[Any],
    *,
    seed: int = 0,
) -> dict[str, float]:
    """Return the increase of the mean log loss when a column is shuffled, for each column of a table.

    Parameters
    ----------
    predict_proba : function of a table
        Returns the probabilities of the classes, in their order.
    X : table
        Rows, preferably held out from training.
    y : sequence of labels
    classes : sequence of labels
    seed : int
        Seed of the shuffles, and of the sample if there are more than `MOST_ROWS` rows.
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
