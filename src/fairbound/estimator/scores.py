"""The base scores of a fit, cross-fitted or given by the user."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from fairbound._errors import InputError, Message, argument, both_given
from fairbound._sharing import gathered, joined, rows_before
from fairbound.estimator.base_kinds import check_base, named_base
from fairbound.estimator.base_result import BaseResult, FormResult
from fairbound.estimator.chosen_encoder import fitted_encoder
from fairbound.estimator.correction import orient_scores, score_names
from fairbound.estimator.cross_fitting import FittedBase, check_classes, check_spread, cross_fit, is_prefit
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs, dense, read_inputs
from fairbound.estimator.models import is_linear, starting_linear
from fairbound.estimator.monotone import signs_of_base
from fairbound.estimator.parameters import Parameters, checked
from fairbound.estimator.posteriors import GroupPosterior, fit_posteriors
from fairbound.estimator.rows import Data, read_data
from fairbound.fairness import Cells, Quota, as_logits, decide, probabilities
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
    forms : tuple of FormResult
        The record of the choice among forms of the correction.
    given : bool
        Whether the base existed before the fit: a fitted base, or the scores of an external model.
    monotone : array of int
        Positions of the encoded columns that the correction does not see, because the base is monotone in them.
    signs : dict of int to 1 or -1
        The signs that weights of a linear correction keep, because the base is monotone in these encoded columns.
    held : tuple of LinearTerm
        A term of the objective for a given base: without limits, it makes the base itself optimal (`holding`).
    """

    training: Floats
    fitted: FittedBase | None
    flipped: bool
    uses_columns: bool = True
    posteriors: tuple[GroupPosterior, ...] = ()
    training_posteriors: Floats | None = None
    forms: tuple[FormResult, ...] = ()
    given: bool = False
    monotone: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    signs: dict[int, int] = field(default_factory=dict)
    held: tuple[LinearTerm, ...] = ()

    def as_given(self) -> Floats:
        """Return the scores of the training rows in the form of `base_score=`."""
        if self.training.shape[1] > 1:
            return self.training
        return self.training[:, 0] * (-1.0 if self.flipped else 1.0)

    def monotone_as_base(self, params: Parameters, encoder: Any, inputs: Inputs) -> BaseScores:
        """Return a copy that knows in which columns the base is monotone."""
        signs = signs_of_base(params, self.fitted, encoder, inputs)
        if is_linear(params.module, params.hidden) and not self.given:
            return replace(self, signs=signs)
        # A network has no such weights, and those over a given base begin at the bound, where a fit gets stuck.
        return replace(self, monotone=np.array([*signs], dtype=np.intp))

    def result(self, counted: Assessment, changed: float, moved: Any) -> BaseResult:
        """Return the record of the base, from the assessment of its own decisions."""
        pairs = zip(counted.system.constraints, counted.measured, strict=True)
        measured = tuple(value for limit, value in pairs if not isinstance(limit, Quota))
        return BaseResult(
            self.name, self.scored, counted.accuracy, measured, float(changed), moved, self.correction, self.forms
        )

    @property
    def correction(self) -> Literal["columns", "groups", "both"]:
        """The inputs of the correction, as the classifier calls them."""
        if not self.posteriors:
            return "columns"
        return "both" if self.uses_columns else "groups"

    def with_inputs(self, correction: str) -> BaseScores:
        """Return a copy with fewer inputs of the correction."""
        if correction == "columns":
            return replace(self, uses_columns=True, posteriors=(), training_posteriors=None)
        return replace(self, uses_columns=correction == "both")

    def join(self, Z: Any) -> Any:
        """Return the inputs of the module for the training rows: encoded columns, group posteriors, scores."""
        return self._joined(Z, self.training_posteriors, self.training)

    def join_new(self, Z: Any, inputs: Inputs, given: Any = None) -> Any:
        """Return the inputs of the module for other rows."""
        scores = self.scores(inputs, given)
        parts = [each.columns(inputs, scores) for each in self.posteriors]
        return self._joined(Z, np.hstack(parts) if parts else None, scores)

    def _joined(self, Z: Any, posteriors: Floats | None, scores: Floats) -> Any:
        if len(self.monotone):
            seen = np.ones(Z.shape[1])
            seen[self.monotone] = 0.0
            Z = Z.multiply(seen).tocsr() if sparse.issparse(Z) else Z * seen
        parts = [Z] if self.uses_columns else []
        if posteriors is not None:
            parts += [posteriors, probabilities(scores)[:, self._further_classes]]
        parts.append(scores)
        return sparse.hstack(parts, format="csr") if sparse.issparse(parts[0]) else np.hstack(parts)

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
    def _n_labels(self) -> int:
        return max(2, self.training.shape[1])

    @property
    def _further_classes(self) -> slice:
        """The classes whose P(y | x) is an input: all but one if there are P(group | x), which it is weighed against.

        P(group, y | x) need none: their sum over the groups is P(y | x).
        """
        weighed = bool(self.posteriors) and all(each.label is None for each in self.posteriors)
        return slice(1, self._n_labels if weighed else 1)

    @property
    def n_others(self) -> int:
        """Number of inputs of the module, at the end, that are probabilities and scores."""
        further = range(self._n_labels)[self._further_classes]
        return sum(len(each.names) for each in self.posteriors) + len(further) + self.training.shape[1]

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
        found = [name for each in self.posteriors for name in each.names]
        found += [f"P({label})" for label in classes[self._further_classes]]
        return [*(encoded if self.uses_columns else ()), *found, *score_names(classes)]

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
            return orient_scores(given, self._n_labels, flipped=self.flipped)
        if self.fitted is None:
            raise InputError("The model was fitted with {base_score=}, so it needs {base_score=} for these rows, too.")
        return self.fitted.scores(inputs)


def fit_scores(
    params: Parameters, data: Data, cells: Cells, encoder: Any, seed: int, stacklevel: int
) -> BaseScores | None:
    """Return the base scores of a fit; None without a base."""
    if not isinstance(params.base.classifier, FittedBase):
        check_base(params)
    estimated, divided = params.base.correction != "columns" and bool(params.constraints), cells.division is not None
    if divided:  # folds consist of rows, not of entries
        cells = Cells.build(data.y, pos_label=params.pos_label, processes=cells.processes)
    own = slice(None)
    flipped = cells.n_labels == 2 and cells.classes[0] != np.unique(np.array(cells.classes)).tolist()[0]
    if data.base_score is not None:
        fitted = params.base.classifier if isinstance(params.base.classifier, FittedBase) else None
        if params.base.classifier is not fitted:
            raise both_given(
                argument("base"),
                argument("base_score"),
                "how rows are scored",
                "Leave one of them out, or give the attribute `base_` of a fitted model as the base of other rows.",
            )
        if fitted is not None:
            check_classes(fitted, cells.classes)
        given = orient_scores(data.base_score, cells.n_labels, flipped=flipped)
        check_spread([given], argument("base_score"))
        found, work = BaseScores(given, fitted, flipped, given=fitted is None or is_prefit(params)), None
    elif params.base.classifier is None:
        return None
    else:
        processes, first = cells.processes, rows_before(len(data.y), cells.processes)
        own = slice(first, first + len(data.y))
        data, cells = data.joined(processes), cells.joined()
        training, fitted, work = cross_fit(params, data, cells, encoder, seed, stacklevel + 1, processes)
        found = BaseScores(training, fitted, flipped, given=is_prefit(params))
    found = found.monotone_as_base(params, encoder, data.inputs)
    if not estimated:
        return replace(found, training=found.training[own])
    if work is None or not work.probabilities or divided:
        raise InputError(
            "{base.correction=value} trains the base on the known group of each row, in folds, and needs its "
            "probabilities: {lacking}.",
            "Use {base.correction='columns'}.",
            value=params.base.correction,
            lacking=(
                "the groups are known with probabilities only"
                if divided
                else "it is not trained in this fit ({cv='prefit'} or {base_score=})"
                if work is None
                else Message("{base} has no predict_proba", base=named_base(work.base))
            ),
        )
    columns, posteriors = fit_posteriors(work, params.constraints, cells, found.training, stacklevel + 1)
    return replace(
        found,
        training=found.training[own],
        uses_columns=params.base.correction != "groups",
        posteriors=posteriors,
        training_posteriors=columns[own],
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
    return found.completed(inputs, data.positions).as_given()  # rows of weight 0 are not among the training rows


def moved_columns(
    model: Any, Z: Any, base: BaseScores, names: Sequence[str], encoder: Any, processes: Any = None
) -> dict[str, float]:
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
    processes : Processes, optional
        Those that share the rows.
    """
    first, n = rows_before(Z.shape[0], processes), sum(gathered(Z.shape[0], processes))
    places = np.linspace(0, n - 1, min(n, SAMPLED_ROWS)).astype(np.intp) - first
    sample = joined(dense(Z[places[(places >= 0) & (places < Z.shape[0])]]), processes)
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
