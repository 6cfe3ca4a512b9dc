"""Estimates of the group from the columns, as inputs of the correction.

If the group is not known at decision time, the best rule under a limit on rates is a threshold on P(y | x), shifted
by multiples of P(g | x).  If the limited rate is among the rows of a label, the shift is by multiples of
P(g, y | x) (Menon and Williamson, *The cost of fairness in binary classification*, 2018).  So a correction needs
only these probabilities, provided that they are well estimated.  Copies of the base estimate them: they are trained
on the group in place of the label, and cross-fitted like the base.

    selection rates    P(g | x), beside P(y | x)
    other rates        P(g | x, y) · P(y | x) for each label y, the first factor learnt from the rows of that label

No group is needed to predict, but the model contains an estimate of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, LimitWarning, Message
from fairbound.estimator.base import BaseModel
from fairbound.estimator.cross_fitting import CrossFitting
from fairbound.estimator.groups import needed_labels
from fairbound.estimator.inputs import Inputs
from fairbound.fairness import Cells, Constraint

Floats = NDArray[np.float64]

FEW_ROWS = 800
"""A group with fewer rows is badly estimated.  With 100 to 400 rows such a correction costs 1 to 5 points more accuracy
than one by columns, with 800 to 3,200 rows about as much (`benchmarks/group_sizes.py`)."""


@dataclass(frozen=True, eq=False)
class GroupPosterior:
    """The probability of each group of one grouping, among the rows of one label or among all.

    Attributes
    ----------
    names : tuple of str
        The names of the columns that it returns.
    n_groups : int
    label : int, or None
        The position of the label among the classes; None for all rows.
    models : tuple of BaseModel
        The models for new rows.
    """

    names: tuple[str, ...]
    n_groups: int
    label: int | None
    models: tuple[BaseModel, ...]

    def columns(self, inputs: Inputs, scores: Floats) -> Floats:
        """Return the columns of new rows, whose base scores are given."""
        found = [model.outputs(model.columns.table(inputs), range(self.n_groups)) for model in self.models]
        return self.times_label(np.mean(found, axis=0), scores)

    def times_label(self, outputs: Floats, scores: Floats) -> Floats:
        """Return P(g | x), or P(g | x, y) · P(y | x), from the outputs of the models and the base scores."""
        if self.label is None:
            return outputs if self.n_groups == 2 else outputs[:, 1:]  # they sum to 1
        whole = np.hstack([1.0 - outputs, outputs]) if self.n_groups == 2 else outputs
        logits = np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return whole * (shares[:, [self.label]] / shares.sum(axis=1, keepdims=True))


def fit_posteriors(
    work: CrossFitting, constraints: Sequence[Constraint], cells: Cells, scores: Floats, stacklevel: int
) -> tuple[Floats, tuple[GroupPosterior, ...]]:
    """Return the cross-fitted columns of the training rows, and the estimators for new rows.

    Parameters
    ----------
    work : CrossFitting
        The base and its folds.
    constraints : sequence of Constraint
        Their rates determine which probabilities are needed.
    cells : Cells
    scores : array of shape (n, 1) or (n, classes)
        The cross-fitted base scores.
    stacklevel : int
        The stack level of warnings.
    """
    training, found = [], []
    index = np.asarray(cells.index)
    for grouping in cells.groupings:
        member = np.asarray(grouping.membership)[:-1][:, index // cells.n_labels]
        group = member.argmax(axis=0)
        known: NDArray[np.bool_] = np.asarray(member.max(axis=0) > 0)
        for label in needed_labels(constraints, cells):
            usable = known if label is None else known & (index % cells.n_labels == label)
            _check_sizes(
                grouping.groups, group, usable, work, None if label is None else cells.classes[label], stacklevel
            )
            outputs, models = work.outputs(group, range(len(grouping.groups)), usable)
            given = grouping.groups if label is not None else grouping.groups[1:]
            where = "" if label is None else f" and {cells.classes[label]}"
            names = tuple(f"P({grouping.name}={each}{where})" for each in given)
            posterior = GroupPosterior(names, len(grouping.groups), label, models)
            training.append(posterior.times_label(outputs, scores))
            found.append(posterior)
    return np.hstack(training), tuple(found)


def _check_sizes(
    groups: Sequence[Any], group: NDArray[Any], usable: NDArray[np.bool_], work: CrossFitting, label: Any, level: int
) -> None:
    """Raise an error for groups that a fold lacks; warn about groups that are too small for a good estimate."""
    where = "" if label is None else f" with the label {label!r}"
    for train, _ in work.folds:
        counts = np.bincount(group[train[usable[train]]], minlength=len(groups))
        if not counts.all():
            raise InputError(
                "{correction='groups'} needs rows of every group in each fold, but a fold has none of the group "
                "{group!r}{where}.",
                "Use {base.correction='columns'}.",
                group=groups[int(counts.argmin())],
                where=where,
            )
    counts = np.bincount(group[usable], minlength=len(groups))
    if counts.min() < FEW_ROWS:
        message = Message(
            "The group {group!r} has {rows} rows{where}, too few to estimate it well (fewer than {few}). That costs "
            "accuracy, and a limit may not carry over to new rows; {base.correction='columns'} is safer.",
            group=groups[int(counts.argmin())],
            rows=int(counts.min()),
            where=where,
            few=FEW_ROWS,
        )
        warnings.warn(LimitWarning(message), stacklevel=level + 1)
