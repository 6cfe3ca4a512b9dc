"""Cross-fitting: every training row is scored by a base model that has not seen it.

The folds are stratified by label and group.  For each fold, the base is trained on the other folds and scores the rows
of this one.  `predict` scores new rows with the base refitted on all rows, or, if `ensemble=True`, with the average of
the models of the folds.

    training row i   s_i = score of the model that was trained without the fold of i
    new row x        s(x) = score of the refitted model, or mean score of the folds' models
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from fairbound._errors import InputError, Message, bad_value, together
from fairbound._sharing import gathered
from fairbound.estimator.base import BaseModel, fit_base
from fairbound.estimator.base_columns import Columns, RawColumns, choose_columns
from fairbound.estimator.base_kinds import base_name, gives_probabilities, is_a, named_base, warn_of_unused_weights
from fairbound.estimator.correction import ScoreScale
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.rows import Data
from fairbound.fairness import Cells

Floats = NDArray[np.float64]

PREFIT = "prefit"


@dataclass(frozen=True, eq=False)
class FittedBase:
    """The base as `predict` uses it.

    Attributes
    ----------
    models : tuple of BaseModel
        The base refitted on all rows, or one model per fold.
    scale : ScoreScale
    classes : tuple
        The labels in the order of the scores.  If there are two, the positive one is last.
    scored : str
        A sentence on how the training rows were scored.
    """

    models: tuple[BaseModel, ...]
    scale: ScoreScale
    classes: tuple[Hashable, ...]
    scored: str

    @property
    def name(self) -> str:
        """The name of the base, for messages and records."""
        return base_name(self.models[0].estimator)

    @property
    def estimators(self) -> tuple[Any, ...]:
        """The fitted estimators."""
        return tuple(model.estimator for model in self.models)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decisions of the base alone for new rows, by the sign of the score or the largest score.

        X holds the inputs of the model, without the columns of groups.
        """
        scores = self.scores(read_inputs(X))
        places = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)
        return np.asarray(self.classes)[places]

    def scores(self, inputs: Inputs) -> Floats:
        """Return the scores of new rows: (n, 1) for two classes, (n, classes) for more."""
        found = [self.scale(model.outputs(model.columns.table(inputs), self.classes)) for model in self.models]
        return np.mean(found, axis=0)


def cross_fit(
    params: Parameters, data: Data, cells: Cells, encoder: Any, seed: int, stacklevel: int, processes: Any = None
) -> tuple[Floats, FittedBase, CrossFitting | None]:
    """Return the scores of the training rows, the base for new rows, and the folds, if any.

    Parameters
    ----------
    params : Parameters
    data : Data
        The training rows.
    cells : Cells
        The labels and groups of these rows.
    encoder : transformer, or None
        The fitted encoder of the correction.
    seed : int
        The seed of the folds.
    stacklevel : int
        The stack level of warnings.
    processes : Processes, optional
        All have the same rows, and share the folds.
    """
    base = params.base.classifier
    classes = cells.classes if cells.n_labels > 1 else ()  # a regression has none
    if isinstance(base, FittedBase):  # of a model that was read from a folder, or `base_` of another
        check_classes(base, classes)
        return base.scores(data.inputs), base, None
    work = None
    if is_prefit(params):
        _check_fitted(base)
        models: tuple[BaseModel, ...] = (BaseModel(base, RawColumns()),)
        outputs = models[0].outputs(data.inputs.native, classes)
        check_spread([outputs], named_base(base))
        scored = "Each row was scored by the fitted base."
    else:
        warn_of_unused_weights(base, data.base_weights, stacklevel + 1)
        folds = make_folds(params.base.cv, data, cells, seed)
        work = CrossFitting(
            base,
            _Table(choose_columns(params, data, encoder), data),
            folds,
            bool(params.base.ensemble),
            processes=processes,
        )
        outputs, models = work.outputs(data.y, classes)
        work = replace(work, probabilities=gives_probabilities(models[0].estimator))
        check_spread([outputs[test] for _, test in folds], named_base(base))
        later = "the average of these models" if params.base.ensemble else "the base refitted on all rows"
        scored = f"Each row was scored by a model that had not seen it ({len(folds)} folds); predict uses {later}."
    scale = ScoreScale.learn(outputs, gives_probabilities(models[0].estimator))
    return scale(outputs), FittedBase(models, scale, classes, scored), work


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """A base, the rows in its form, the folds, and whether its fitted copies give probabilities.

    Several `processes` that have the same rows take the folds in turn.
    """

    base: Any
    table: _Table
    folds: Folds
    ensemble: bool
    probabilities: bool = False
    processes: Any = None

    def outputs(
        self, y: NDArray[Any], classes: Sequence[Hashable], usable: NDArray[np.bool_] | None = None
    ) -> tuple[Floats, tuple[BaseModel, ...]]:
        """Return the out-of-fold outputs of all rows, and the models for new rows.

        Parameters
        ----------
        y : array of shape (n,)
            The target of the models.
        classes : sequence
            The values of y in the order of the outputs.
        usable : array of shape (n,), optional
            The rows to train on.  All rows are scored.
        """
        every, count = np.arange(len(y)), len(self.folds)
        tasks = [
            (train, test, f"all rows but those of fold {place} of {count}")
            for place, (train, test) in enumerate(self.folds, start=1)
        ]
        tasks += [] if self.ensemble else [(every, every[:0], "all rows")]
        rank, processes = (0, 1) if self.processes is None else (self.processes.rank, self.processes.count)
        found: dict[int, tuple[BaseModel, Floats]] = {}
        with together(self.processes):
            for place, (train, test, where) in enumerate(tasks):
                if place % processes != rank:
                    continue
                model = self.table.fit(self.base, y, train if usable is None else train[usable[train]], where)
                scored = model.outputs(self.table.rows(model.columns, test), classes) if len(test) else np.zeros(0)
                found[place] = model, scored
        for each in gathered(found, self.processes):
            found |= each
        outputs = np.full((len(y), 1 if len(classes) <= 2 else len(classes)), np.nan)
        for place, (_, test) in enumerate(self.folds):
            outputs[test] = found[place][1]
        return outputs, tuple(found[place][0] for place in range(0 if self.ensemble else count, len(tasks)))


class _Table:
    """The rows in the form for the base.  They are computed once, unless the columns are learnt from labels."""

    def __init__(self, columns: Columns, data: Data) -> None:
        self.columns, self.data = columns, data
        self.whole = columns.table(data.inputs) if columns.fitted(data) is columns else None

    def fit(self, base: Any, y: NDArray[Any], rows: Rows, where: str) -> BaseModel:
        """Fit a copy of the base to y on the given rows."""
        columns = self.columns if self.whole is not None else self.columns.fitted(self.data.take(rows))
        return fit_base(base, columns, self.rows(columns, rows), y[rows], self.data.base_weights[rows], where)

    def rows(self, columns: Columns, rows: Rows) -> Any:
        """Return the given rows in the form for the base."""
        if self.whole is None:
            return columns.table(self.data.inputs.take(rows))
        return self.whole if len(rows) == len(self.data.y) else _safe_indexing(self.whole, rows)


def check_classes(base: FittedBase, classes: Sequence[Hashable]) -> None:
    """Raise an error if a base was trained for other classes, or with another positive label."""
    if base.classes != tuple(classes):
        raise InputError(
            "{base} was trained for the classes {own}, but y has {classes}.",
            base=named_base(base.models[0].estimator),
            own=list(base.classes),
            classes=list(classes),
        )


def is_prefit(params: Parameters) -> bool:
    """Return whether the base is used as it is: with cv="prefit", or because it is frozen and cannot be refitted."""
    return (isinstance(params.base.cv, str) and params.base.cv == PREFIT) or is_a(
        params.base.classifier, "FrozenEstimator"
    )


def _check_fitted(base: Any) -> None:
    if not hasattr(base, "get_params"):  # not a scikit-learn estimator: an error of its scores will show it
        return
    try:
        check_is_fitted(base)
    except (NotFittedError, TypeError) as error:
        raise InputError(
            "{cv='prefit'} needs a base that is fitted, but {name} ({base=}) is not.",
            "Fit it first, or give a number of folds. If clone() or a search has copied it, the copy is not fitted; "
            "sklearn.frozen.FrozenEstimator(base) stays fitted.",
            name=base_name(base),
        ) from error


def check_spread(parts: Sequence[Floats], scores: Message) -> None:
    """Raise an error if all rows of every fold have the same score; its message begins with `scores`."""
    if not any(np.ptp(part, axis=0).max() > 0 for part in parts if len(part)):
        raise InputError(
            "{scores} gives every row the same score, so there is nothing to correct.",
            "Give columns by which rows differ, or another base.",
            scores=scores,
        )


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
