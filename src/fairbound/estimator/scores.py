"""The base scores of a fit, cross-fitted or given by the user; and estimates of the group, as further inputs."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairbound._errors import InputError, LimitWarning, Message, argument
from fairbound.estimator.base import BaseModel, check_base, named_base
from fairbound.estimator.correction import (
    BaseResult,
    orient_scores,
    score_names,
)
from fairbound.estimator.cross_fitting import (
    CrossFitting,
    FittedBase,
    check_classes,
    check_spread,
    cross_fit,
    is_prefit,
)
from fairbound.estimator.encoder import TableEncoder, fitted_encoder
from fairbound.estimator.groups import needed_labels
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.models import starting_linear
from fairbound.estimator.parameters import Parameters, checked
from fairbound.estimator.rows import Data, read_data
from fairbound.fairness import Cells, Constraint, as_constraints, as_logits, decide
from fairbound.training import Assessment, LinearTerm, TrainingProblem, as_model

Floats = NDArray[np.float64]

SAMPLED_ROWS = 5000
"""Number of rows on which the size of the correction is measured."""


@dataclass(frozen=True, eq=False)
class BaseScores:
    """The base scores of the training rows, and the models that score other rows.

    Attributes
    ----------
    training : array of shape (n, 1) or (n, classes)
        The score of each row from a model that has not seen it, or as given by the user.
    fitted : FittedBase, or None
        The base that scores new rows; None if the user gives their scores.
    flipped : bool
        Whether the first of two classes, in sorted order, is the positive one.
    uses_columns : bool
        Whether the encoded columns are inputs of the correction.
    posteriors, training_posteriors
        The estimates of the group that are inputs of the correction, and their values for the training rows.
    given : bool
        Whether the base existed before the fit: a fitted base, or the scores of an external model.
    held : tuple of LinearTerm
        A term of the objective for a given base: without limits, it makes the base itself optimal (`holding`).
    """

    training: Floats
    fitted: FittedBase | None
    flipped: bool
    uses_columns: bool = True
    posteriors: tuple[GroupPosterior, ...] = ()
    training_posteriors: Floats | None = None
    given: bool = False
    held: tuple[LinearTerm, ...] = ()

    def as_given(self) -> Floats:
        """Return the scores of the training rows in the form of `base_score=`."""
        if self.training.shape[1] > 1:
            return self.training
        return self.training[:, 0] * (-1.0 if self.flipped else 1.0)

    def result(self, counted: Assessment, changed: float, moved: Any) -> BaseResult:
        """Return the record of the base, from the assessment of its own decisions."""
        return BaseResult(self.name, self.scored, counted.accuracy, tuple(counted.measured), float(changed), moved)

    def join(self, Z: Floats) -> Floats:
        """Return the inputs of the module for the training rows: encoded columns, group posteriors, scores."""
        return self._joined(Z, self.training_posteriors, self.training)

    def join_new(self, Z: Floats, inputs: Inputs, given: Any = None) -> Floats:
        """Return the inputs of the module for other rows."""
        scores = self.scores(inputs, given)
        parts = [each.columns(inputs, scores) for each in self.posteriors]
        return self._joined(Z, np.hstack(parts) if parts else None, scores)

    def _joined(self, Z: Floats, posteriors: Floats | None, scores: Floats) -> Floats:
        columns = [Z] if self.uses_columns else []
        return np.hstack([*columns, *([] if posteriors is None else [posteriors]), scores])

    def holding(self, problem: TrainingProblem, Z: Any, loss_weights: Floats) -> BaseScores:
        """Return a copy whose `held` term makes the base b the minimum of the loss of a linear correction.

        loss(w) − ∇loss(b) · (w − b) is least at b, since the loss is convex in w.  For the logistic loss it is, up to a
        constant, the loss with the base's own probabilities as labels.  So only the limits can change decisions.
        """
        w = problem.current()
        b = starting_linear(Z.shape[1], problem.cells.n_labels, self.training.shape[1]).current()
        problem.assign(b)
        slope = problem.sweep(problem.rows(Z, loss_weights=loss_weights)).loss_gradient
        problem.assign(w)
        assert slope is not None
        return replace(self, held=(LinearTerm(-slope, b),))

    def stays(self, threshold: float) -> bool:
        """Return whether only limits may change the base: it is given, and does not decide the same for all rows."""
        return self.given and len(np.unique(decide(self.training, threshold))) > 1

    @property
    def n_others(self) -> int:
        """Number of inputs of the module, at the end, that are group posteriors and scores."""
        posteriors = 0 if self.training_posteriors is None else self.training_posteriors.shape[1]
        return posteriors + self.training.shape[1]

    def completed(self, inputs: Inputs, positions: NDArray[np.intp]) -> BaseScores:
        """Return a copy with a score for every row of X; rows outside the training rows are scored as new rows."""
        rest = np.setdiff1d(np.arange(inputs.n_rows), positions)
        if self.fitted is None or not len(rest):
            return self
        whole = np.empty((inputs.n_rows, self.training.shape[1]))
        whole[positions], whole[rest] = self.training, self.fitted.scores(inputs.take(rest))
        return replace(self, training=whole)

    def names(self, encoded: Sequence[str], classes: Sequence[Hashable]) -> list[str]:
        """Return the names of the inputs of the module."""
        posteriors = [name for each in self.posteriors for name in each.names]
        return [*(encoded if self.uses_columns else ()), *posteriors, *score_names(classes)]

    @property
    def name(self) -> str:
        """The name of the base."""
        return "base_score=" if self.fitted is None else self.fitted.name

    @property
    def scored(self) -> str:
        """A sentence on how the training rows were scored."""
        if self.fitted is None:
            return "Each row has the score that was given for it."
        told = " The model contains an estimate of the group, made from the columns." if self.posteriors else ""
        return self.fitted.scored + told

    def scores(self, inputs: Inputs, given: Any = None) -> Floats:
        """Return the scores of other rows: the given ones, as `read_base_score` returns them, or those of the base."""
        if given is not None:
            n_labels = max(2, self.training.shape[1])
            return orient_scores(given, n_labels, flipped=self.flipped)
        if self.fitted is None:
            raise InputError("The model was fitted with {base_score=}, so it needs {base_score=} for these rows, too.")
        return self.fitted.scores(inputs)


def fit_scores(
    params: Parameters, data: Data, cells: Cells, encoder: Any, seed: int, stacklevel: int
) -> BaseScores | None:
    """Return the base scores of a fit; None without a base."""
    if not isinstance(params.base.classifier, FittedBase):
        check_base(params)
    if cells.division is not None:
        if params.base.correction != "columns":
            raise InputError(
                "{base.correction=value} estimates the group of each row, but the groups are known with probabilities "
                "only.",
                "Use {base.correction='columns'}.",
                value=params.base.correction,
            )
        cells = Cells.build(data.y, pos_label=params.pos_label)  # folds consist of rows, not of entries
    flipped = cells.n_labels == 2 and cells.classes[0] != np.unique(data.y).tolist()[0]
    if data.base_score is not None:
        fitted = params.base.classifier if isinstance(params.base.classifier, FittedBase) else None
        if params.base.classifier is not fitted:
            raise InputError(
                "{base=} and {base_score=} are both given.",
                "Leave one of them out, or give the {attribute} of a fitted model as the base of other rows.",
                attribute="base_",
            )
        if fitted is not None:
            check_classes(fitted, cells)
        given = orient_scores(data.base_score, cells.n_labels, flipped=flipped)
        check_spread([given], argument("base_score"))
        found, work = BaseScores(given, fitted, flipped, given=fitted is None or is_prefit(params)), None
    elif params.base.classifier is None:
        return None
    else:
        training, fitted, work = cross_fit(params, data, cells, encoder, seed, stacklevel + 1)
        found = BaseScores(training, fitted, flipped, given=is_prefit(params))
    if params.base.correction == "columns":
        return found
    constraints = as_constraints(params.constraints)
    columns, posteriors = fit_posteriors(work, constraints, cells, found.training, stacklevel + 1)
    return replace(
        found, uses_columns=params.base.correction == "both", posteriors=posteriors, training_posteriors=columns
    )


def cross_fitted_scores(params: Parameters, X: Any, y: Any, sample_weight: Any = None) -> Floats:
    """Return the score of each row by a base that has not seen it, in the form of `base_score=`.

    This is the first step of a fit with these parameters.  No correction is trained.
    """
    params = checked(params)
    inputs = read_inputs(X)
    data = read_data(params, inputs, y, None, sample_weight, None)
    cells = Cells.build(data.y, weights=data.cell_weights, pos_label=params.pos_label)
    seed = int(check_random_state(params.random_state).randint(2**31 - 1))
    found = fit_scores(params, data, cells, fitted_encoder(params, data), seed, stacklevel=2)
    if found is None:
        raise InputError("There is no base to score the rows.", "Give {base=}.")
    return found.completed(data.inputs, data.positions).as_given()


def moved_columns(model: Any, Z: Floats, base: BaseScores, names: Sequence[str], encoder: Any) -> dict[str, float]:
    """Return the mean absolute change of the logits when a column is set to its mean, the largest first.

    Parameters
    ----------
    model : LinearModel or torch.nn.Module
        In double precision.
    Z : array of shape (n, inputs)
        Encoded columns, group posteriors, scores.
    base : BaseScores
    names : sequence of str
        The names of the inputs.
    encoder : transformer, or None
        A `TableEncoder` states which inputs belong to one column.  With another encoder each input is a column.
    """
    sample = Z[np.linspace(0, len(Z) - 1, min(len(Z), SAMPLED_ROWS)).astype(np.intp)]
    n_scores = base.training.shape[1]
    n_labels = max(2, n_scores)

    def forward(rows: Floats) -> Floats:
        return as_logits(as_model(model).outputs(rows), n_labels)

    before = forward(sample)
    widths: dict[str, int] = {}
    if isinstance(encoder, TableEncoder) and base.uses_columns:
        widths = {column.name: len(column.outputs) for column in encoder.columns_}
    widths |= dict.fromkeys(names[sum(widths.values()) : len(names) - n_scores], 1)
    sizes, start = {}, 0
    for name, width in widths.items():
        still, place = sample.copy(), slice(start, start + width)
        still[:, place] = sample[:, place].mean(axis=0)
        sizes[name] = float(np.abs(forward(still) - before).mean())
        start += width
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


# --- posteriors ------------------------------------------------------------------------------------------------------

# Estimates of the group from the columns, as inputs of the correction.
#
# If the group is not known at decision time, the best rule under a limit on rates is a threshold on P(y | x), shifted
# by multiples of P(g | x).  If the limited rate is among the rows of a label, the shift is by multiples of
# P(g, y | x) (Menon and Williamson, *The cost of fairness in binary classification*, 2018).  So a correction needs
# only these probabilities, provided that they are well estimated.  Copies of the base estimate them: they are trained
# on the group in place of the label, and cross-fitted like the base.
#
#     selection rates    P(g | x)
#     other rates        P(g | x, y) · P(y | x) for each label y, the first factor learnt from the rows of that label
#
# No group is needed to predict, but the model contains an estimate of it.


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
    work: CrossFitting | None, constraints: Sequence[Constraint], cells: Cells, scores: Floats, stacklevel: int
) -> tuple[Floats, tuple[GroupPosterior, ...]]:
    """Return the cross-fitted columns of the training rows, and the estimators for new rows.

    Parameters
    ----------
    work : CrossFitting, or None
        The base and its folds; None if the base is not trained in this fit.
    constraints : sequence of Constraint
        Their rates determine which probabilities are needed.
    cells : Cells
    scores : array of shape (n, 1) or (n, classes)
        The cross-fitted base scores.
    stacklevel : int
        The stack level of warnings.
    """
    if work is None:
        raise InputError(
            "{correction='groups'} and 'both' train copies of the base on the group, so they need a base and folds.",
            "With {cv='prefit'} or {base_score=} use {base.correction='columns'}.",
        )
    if not constraints or not cells.groupings:
        raise InputError(
            "{correction='groups'} and 'both' need limits between groups.", "Give limits with {constraints=}."
        )
    if not work.probabilities:
        raise InputError(
            "{base} has no predict_proba, so it cannot estimate the group.",
            "Use {base.correction='columns'}, or another base.",
            base=named_base(work.base),
        )
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
