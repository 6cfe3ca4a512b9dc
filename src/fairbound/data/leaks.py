"""Columns that almost determine the label: they often record the outcome, which is unknown at decision time.

Each input column is tested by itself, with cross-validation.  A rule predicts the label from the column: for words the
most frequent label of each word, for numbers a small decision tree.  Let e be the error of the rule on rows that it was
not fitted on, and e₀ that of the best constant.  The column is suspected if

    1 − e / e₀ ≥ 0.9.

Out-of-fold rows exclude identifiers: a word that occurs at most once in the training folds predicts nothing elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from fairbound.data.arrays import FloatArray, IntArray
from fairbound.data.schema import is_missing
from fairbound.data.table import Table

REMOVED = 0.9
"""Share of the errors of the best constant that a suspected column removes."""

FEWEST_ERRORS = 20
"""If the best constant makes fewer errors than this, no column is suspected: chance alone could remove so few."""

MOST_ROWS = 20_000
"""Largest number of rows used; if there are more, a sample with a fixed seed is drawn."""

FOLDS = 3
LEAVES = 8


@dataclass(frozen=True)
class SuspectedLeak:
    """A column that predicts the label almost without error, by itself.

    Attributes
    ----------
    column : str
    accuracy : float
        Out-of-fold accuracy of the column alone.
    constant : float
        Accuracy of the best constant prediction.
    """

    column: str
    accuracy: float
    constant: float

    def __str__(self) -> str:
        return (
            f"Suspected leak: column {self.column!r} alone predicts {self.accuracy:.1%} of the labels; a constant "
            f"predicts {self.constant:.1%}. Leave the column out if it is recorded after the outcome, or made from it."
        )


def find_leaks(table: Table, y: IntArray) -> list[SuspectedLeak]:
    """Return the columns that almost determine the label, the strongest first (see `Dataset.suspected_leaks`)."""
    rows = np.random.RandomState(0).permutation(len(y))[:MOST_ROWS]
    labels, folds = y[rows], np.arange(len(rows)) % FOLDS
    wrong = len(labels) - int(np.bincount(labels).max())
    if wrong < FEWEST_ERRORS:
        return []
    found = []
    for name, values in table.take(rows).show().items():
        words = name in table.categorical or values.dtype.kind not in "iufb"
        predict, column = (
            (_predict_from_words, _codes(values)) if words else (_predict_from_numbers, values.astype(np.float64))
        )
        errors, most = 0, (1 - REMOVED) * wrong
        for fold in range(FOLDS):
            training, held_out = folds != fold, folds == fold
            errors += int((predict(column[training], labels[training], column[held_out]) != labels[held_out]).sum())
            if errors > most:  # usually in the first fold; there may be thousands of columns
                break
        else:
            found.append(SuspectedLeak(name, 1 - errors / len(labels), 1 - wrong / len(labels)))
    return sorted(found, key=lambda leak: -leak.accuracy)


def _codes(values: NDArray[Any]) -> IntArray:
    """Return an integer code for each word; missing is a word of its own."""
    words = np.where(is_missing(values), "", np.char.add("=", values.astype(np.str_)))
    return np.unique(words, return_inverse=True)[1].astype(np.int64)


def _predict_from_words(codes: IntArray, labels: IntArray, held_out: IntArray) -> IntArray:
    """Predict the most frequent label of each word; words that occur at most once are treated as one word."""
    size, classes = max(codes.max(), held_out.max()) + 1, labels.max() + 1
    counts = np.bincount(codes * classes + labels, minlength=size * classes).reshape(size, classes)
    rare = counts.sum(axis=1) <= 1
    counts[rare] = counts[rare].sum(axis=0) if counts[rare].any() else counts.sum(axis=0)
    return np.asarray(counts.argmax(axis=1)[held_out], dtype=np.int64)


def _predict_from_numbers(values: FloatArray, labels: IntArray, held_out: FloatArray) -> IntArray:
    """Predict labels from numbers with a small decision tree; missing numbers may form a leaf."""
    known = np.unique(values[~np.isnan(values)])
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=5, random_state=0)
    ranks, asked = _ranks(values, known), _ranks(held_out, known)
    gaps = bool(np.isnan(ranks).any() or np.isnan(asked).any())
    tree.fit(ranks, labels, check_input=gaps)  # checks take most of the time of a small tree
    return np.asarray(tree.predict(asked, check_input=gaps), dtype=np.int64)


def _ranks(values: FloatArray, known: FloatArray) -> NDArray[np.float32]:
    """Return the rank of each number among the known ones; the tree uses float32, which merges large numbers."""
    ranks = np.where(np.isnan(values), np.nan, np.searchsorted(known, values))
    return ranks.astype(np.float32)[:, None]
