"""Columns that all but give the label away: records of the outcome itself, which a decision could not have used.

Each input column is judged by itself. A rule is learnt from it on some of the rows and tested on others: for a column
of words the most frequent label of each word, for a column of numbers a small decision tree. With e the share of wrong
labels of the rule and e₀ that of the best constant, the column is suspected if

    1 − e / e₀ ≥ 0.9.

Testing on other rows keeps identifiers out: a word that the rule has met at most once says nothing about other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from fairbound.data.columns import is_missing
from fairbound.data.table import Table

REMOVED = 0.9
"""Share of the wrong labels of the best constant that a suspected column removes."""

FEWEST_ERRORS = 20
"""Wrong labels of the best constant below which nothing is said: chance alone could remove so few."""

MOST_ROWS = 20_000
"""Rows that are looked at; of more, a fixed draw."""

FOLDS = 3
LEAVES = 8

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class SuspectedLeak:
    """A column that predicts the label almost without error, by itself.

    Attributes
    ----------
    column : str
    accuracy : float
        Share of the labels that the column alone predicts right, on rows that the rule was not learnt from.
    constant : float
        Share of the labels that the best constant predicts right.
    """

    column: str
    accuracy: float
    constant: float

    def __str__(self) -> str:
        return (
            f"Suspected leak: column {self.column!r} alone predicts {self.accuracy:.1%} of the labels, a constant "
            f"{self.constant:.1%}. Leave it out if it is recorded after the outcome, or made from it."
        )


def find_leaks(table: Table, y: IntArray) -> list[SuspectedLeak]:
    """Return the columns that all but give the label away, the strongest first (see `Dataset.suspected_leaks`)."""
    rows = np.random.RandomState(0).permutation(len(y))[:MOST_ROWS]
    labels, folds = y[rows], np.arange(len(rows)) % FOLDS
    wrong = len(labels) - int(np.bincount(labels).max())
    if wrong < FEWEST_ERRORS:
        return []
    found = []
    for name, values in table.take(rows).show().items():
        words = name in table.categorical or values.dtype.kind not in "iufb"
        learn, column = (_by_word, _codes(values)) if words else (_by_number, values.astype(np.float64))
        right = 0
        for fold in range(FOLDS):
            seen, asked = folds != fold, folds == fold
            right += int((learn(column[seen], labels[seen], column[asked]) == labels[asked]).sum())
        if len(labels) - right <= (1 - REMOVED) * wrong:
            found.append(SuspectedLeak(name, right / len(labels), 1 - wrong / len(labels)))
    return sorted(found, key=lambda leak: -leak.accuracy)


def _codes(values: NDArray[Any]) -> IntArray:
    """Return a number for each word; a missing one is a word of its own."""
    words = np.where(is_missing(values), "", np.char.add("=", values.astype(np.str_)))
    return np.unique(words, return_inverse=True)[1].astype(np.int64)


def _by_word(codes: IntArray, labels: IntArray, asked: IntArray) -> IntArray:
    """Return the most frequent label of each word; words that were met at most once are one word."""
    size, classes = max(codes.max(), asked.max()) + 1, labels.max() + 1
    counts = np.bincount(codes * classes + labels, minlength=size * classes).reshape(size, classes)
    rare = counts.sum(axis=1) <= 1
    counts[rare] = counts[rare].sum(axis=0) if counts[rare].any() else counts.sum(axis=0)
    return np.asarray(counts.argmax(axis=1)[asked], dtype=np.int64)


def _by_number(values: FloatArray, labels: IntArray, asked: FloatArray) -> IntArray:
    """Return the label of each of a few ranges of the numbers, of which the missing ones may be one."""
    known = np.unique(values[~np.isnan(values)])
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=5, random_state=0)
    tree.fit(_ranks(values, known), labels)
    return np.asarray(tree.predict(_ranks(asked, known)), dtype=np.int64)


def _ranks(values: FloatArray, known: FloatArray) -> FloatArray:
    """Return the place of each number among the known ones: the tree works in float32, where large ones are equal."""
    return np.where(np.isnan(values), np.nan, np.searchsorted(known, values))[:, None]
