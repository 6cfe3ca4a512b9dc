"""The folds of cross-fitting: each row is scored once."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, bad_value
from fairbound.estimator.rows import Data
from fairbound.fairness import Cells

Rows = NDArray[np.intp]

Folds = list[tuple[Rows, Rows]]

ALLOWED_CV = 'at least 2 folds, "prefit", or a splitter of scikit-learn'


def make_folds(cv: Any, data: Data, cells: Cells, seed: int) -> Folds:
    """Return for each fold the rows to train on and the rows to score.

    Parameters
    ----------
    cv : int, splitter, or sequence of (train, test)
        A sequence has row numbers of X.
    data : Data
    cells : Cells
        Labels and groups.  If `cv` is a number, the folds are stratified by them.
    seed : int
    """
    n_rows = len(data.y)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if not 2 <= int(cv) <= n_rows:
            raise bad_value("cv", cv, ALLOWED_CV if int(cv) < 2 else f"at most the number of rows, {n_rows}")
        fold_of = deal_folds(cells, int(cv), seed)
        folds = [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(int(cv))]
    elif isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise bad_value("cv", cv, ALLOWED_CV)
    elif hasattr(cv, "split"):
        folds = [(np.asarray(train), np.asarray(test)) for train, test in cv.split(np.zeros((n_rows, 1)), data.y)]
    else:
        try:
            folds = [(_here(train, data), _here(test, data)) for train, test in cv]
        except (TypeError, ValueError) as error:
            raise bad_value("cv", cv, "pairs of row numbers, (train, test), if it is a sequence") from error
    times = np.bincount(np.concatenate([np.zeros(0, dtype=np.intp), *(test for _, test in folds)]), minlength=n_rows)
    if (times != 1).any():
        row = int(np.argmax(times != 1))
        raise InputError(
            "{cv=} has row {row} of X in {times} test parts, but each row is scored once.",
            "Give folds whose test parts hold every row, such as KFold.",
            row=int(data.positions[row]),
            times=int(times[row]),
        )
    _check_folds(folds, cells)
    return folds


def deal_folds(cells: Cells, n_folds: int, seed: int) -> Rows:
    """Deal shuffled rows to the folds in turn, sorted by label and within a label by group."""
    index = np.asarray(cells.index)
    atoms, labels = index // cells.n_labels, index % cells.n_labels
    order = np.random.default_rng(seed).permutation(len(index))
    order = order[np.lexsort((atoms[order], labels[order]))]
    fold_of = np.empty(len(index), dtype=np.intp)
    fold_of[order] = np.arange(len(index)) % n_folds
    return fold_of


def _here(rows: Any, data: Data) -> Rows:
    """Convert row numbers of X to positions among the training rows; drop rows that are not trained on."""
    chosen = np.asarray(rows)
    return np.flatnonzero(np.isin(data.positions, np.flatnonzero(chosen) if chosen.dtype == bool else chosen))


def _check_folds(folds: Folds, cells: Cells) -> None:
    """Raise an error if the training rows of a fold lack a class or a group."""
    index = np.asarray(cells.index)
    for fold, (train, _) in enumerate(folds):
        there = np.bincount(index[train], minlength=cells.n_cells).reshape(-1, cells.n_labels)
        counted = [("with the label", dict(zip(cells.classes, there.sum(axis=0).tolist(), strict=True)), "")]
        for grouping in cells.groupings:
            counts = (np.asarray(grouping.membership)[:-1] @ there.sum(axis=1)).tolist()
            counted.append(("of the group", dict(zip(grouping.groups, counts, strict=True)), f" in {grouping.name!r}"))
        for what, counts, where in counted:
            lacking = [each for each, count in counts.items() if not count]
            if lacking:
                raise InputError(
                    "Fold {fold} of {folds} leaves no row {what} {value!r}{where} to train the base on ({base=}).",
                    "Give more such rows, or merge them with others.",
                    fold=fold + 1,
                    folds=len(folds),
                    what=what,
                    value=lacking[0],
                    where=where,
                )
