"""Measures of decisions on other rows than the training rows: validation sets, and scorers of scikit-learn.

A scorer is called with a fitted estimator and rows.  As everywhere in scikit-learn, larger is better:

    ratio                     the smallest ratio over the pairs of groups
    difference, covariance    minus the largest difference
    rate                      the smallest rate over the groups; for false positives and negatives minus the largest

Groups arrive by metadata routing (`sensitive_features=`), or are columns of X (`sensitive_columns=`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from fairbound.estimator.groups import read_groups
from fairbound.estimator.inputs import read_inputs
from fairbound.estimator.rows import Data, read_labels, read_weights, warn_if_guessed
from fairbound.estimator.small_groups import SmallGroup, treat_alike
from fairbound.evaluation import Tally, match_decisions
from fairbound.fairness import (
    Combine,
    Constraint,
    ConstraintSystem,
    Measure,
    as_logits,
    decide,
    distinct_texts,
    false_negative_rate,
    false_positive_rate,
    resolve_measure,
)
from fairbound.training import TrainingProblem

# --- measures of other rows ------------------------------------------------------------------------------------------

# Rows outside the training rows may lack a label or a group of the model.  A missing label gets a row of weight 0, so
# that the classes are those of the model.  A group without the rows that a rate needs is left out of that rate, as in
# an audit.


@dataclass(frozen=True)
class Watched:
    """Rows with labels, groups and weights on which decisions are measured.  Build it with `Watched.build`."""

    tally: Tally
    systems: tuple[ConstraintSystem | None, ...]
    n_rows: int

    @classmethod
    def build(
        cls,
        limits: Sequence[Constraint],
        y: NDArray[Any],
        groups: Mapping[str, NDArray[Any]] | None,
        *,
        classes: NDArray[Any],
        weights: NDArray[np.float64],
        combine: Combine = "each",
        pos_label: Any = None,
        small: Sequence[SmallGroup] = (),
    ) -> Watched:
        """Prepare to measure limits (bounds are not needed) on given rows.

        Parameters
        ----------
        limits : sequence of Constraint
        y : array of shape (n,)
            Labels among `classes`.
        groups : mapping of str to array of shape (n,), or None
        classes : array
            All labels of the model.
        weights : array of shape (n,)
        combine : {"each", "intersection", "both"}
        pos_label : label, optional
        small : sequence of SmallGroup
            Groups that the training rows left out of the limits or merged.
        """
        unknown = np.setdiff1d(y, classes)
        if len(unknown):
            raise ValueError(
                f"y has the label {unknown.tolist()[0]!r}, which the model was not trained on. Labels: "
                f"{', '.join(map(repr, classes.tolist()))}."
            )
        further = len(classes)
        labels = np.concatenate([y, classes.astype(y.dtype) if y.dtype.kind != classes.dtype.kind else classes])
        columns = None
        if groups is not None:
            columns = {name: np.concatenate([values, values[[0] * further]]) for name, values in groups.items()}
        tally = Tally.build(
            labels,
            labels,
            columns,
            sample_weight=np.concatenate([weights, np.zeros(further)]),
            groups=combine,
            pos_label=pos_label,
        )
        if small:
            tally = replace(tally, powers=tuple((treat_alike(cells, small), S) for cells, S in tally.powers))
        comparable = [_comparable(limit, tally) for limit in limits]
        compiled = iter(tally.compile_all(limit for limit, fits in zip(limits, comparable, strict=True) if fits))
        return cls(tally, tuple(next(compiled) if fits else None for fits in comparable), len(y))

    def measured(self, decisions: NDArray[np.int64]) -> list[float | None]:
        """Return one value per limit for decisions, which are class indices of the model; None if undefined."""
        tally = self._with(decisions)
        return [None if system is None else tally.measured(system) for system in self.systems]

    def accuracy(self, decisions: NDArray[np.int64]) -> float:
        """Share of the rows decided right, by weight."""
        cells = self.tally.cells
        right = cells.of_entries(self._padded(decisions)) == cells.labels  # rows added for missing labels have weight 0
        return float((cells.weights * right).sum() / cells.weights.sum())

    def _with(self, decisions: NDArray[np.int64]) -> Tally:
        return self.tally.recount(self._padded(decisions))

    def _padded(self, decisions: NDArray[np.int64]) -> NDArray[Any]:
        """Append decisions for the rows that were added for missing labels: the labels themselves."""
        cells = self.tally.cells
        return np.concatenate([decisions, cells.of_rows(cells.labels)[self.n_rows :]])


def _comparable(limit: Constraint, tally: Tally) -> bool:
    """Return whether these rows have the groups that a limit compares."""
    concerned = [each for each in tally.cells.groupings if limit.columns is None or each.name in limit.columns]
    wanted = limit.reference if limit.reference is not None else limit.group
    if wanted is not None:
        concerned = [each for each in concerned if each.find(wanted) is not None]
    alone = resolve_measure(limit.measure).comparison == "value"
    return bool(concerned) and (alone or all(len(each.groups) > 1 for each in concerned))


# --- scorers ---------------------------------------------------------------------------------------------------------


class FairnessScorer(BaseEstimator):
    """Score the decisions of any classifier by a measure.  Make it with `make_fairness_scorer`."""

    # The scorer always needs the groups, so it requests them by default.
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        measure: str | Measure,
        sensitive_columns: Any = None,
        against: str = "pairwise",
        reference: Hashable | None = None,
        group: Hashable | None = None,
        classes: Sequence[Hashable] | None = None,
        groups: Combine = "each",
        pos_label: Hashable | None = None,
    ) -> None:
        self.measure = measure
        self.sensitive_columns = sensitive_columns
        self.against = against
        self.reference = reference
        self.group = group
        self.classes = classes
        self.groups = groups
        self.pos_label = pos_label

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the score of the estimator's decisions on the rows."""
        return self.score(estimator, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    def score(
        self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the score of the estimator's decisions on the rows; NaN if it is undefined on them."""
        limit, sign = self._limit()
        decided = np.asarray(estimator.predict(X))
        n_rows = len(decided)
        labels = read_labels(y, n_rows, "A fairness scorer")
        classes = np.asarray(getattr(estimator, "classes_", np.unique(labels)))
        positive = self._positive(estimator, classes)
        watched = Watched.build(
            [limit],
            labels,
            self._groups(X, n_rows, sensitive_features),
            classes=classes,
            weights=read_weights(sample_weight, n_rows, "sample_weight"),
            combine=self.groups,
            pos_label=positive,
        )
        if positive is None:
            warn_if_guessed(watched.tally.cells.classes, [limit], who="The fairness scorer", stacklevel=2)
        (value,) = watched.measured(self._decisions(decided, watched))
        return math.nan if value is None else sign * value

    def _limit(self) -> tuple[Constraint, float]:
        """Return the measure as a limit without a bound, and the sign; a rate is limited on its worse side."""
        measure = resolve_measure(self.measure)
        bound: tuple[float | None, float | None] | None = None
        sign = 1.0 if measure.larger_is_stricter else -1.0
        if measure.comparison == "value":
            worse_if_large = bool(set(measure.rates) & {false_positive_rate, false_negative_rate})
            bound, sign = ((None, 0.0), -1.0) if worse_if_large else ((0.0, None), 1.0)
        limit = Constraint(
            bound,
            measure=measure,
            against=self.against,
            reference=self.reference,
            group=self.group,
            classes=None if self.classes is None else tuple(self.classes),
        )
        return limit, sign

    def _groups(self, X: Any, n_rows: int, sensitive_features: Any) -> dict[str, Any]:
        if self.sensitive_columns is not None:
            inputs = read_inputs(X)
            named = self.sensitive_columns
            listed = [named] if isinstance(named, str | int | np.integer) else list(named)
            positions = [inputs.position(column, "sensitive_columns=") for column in listed]
            names = [inputs.names[each] if inputs.names else f"x{each}" for each in positions]
            return read_groups(dict(zip(names, map(inputs.values, positions), strict=True)), n_rows)
        if sensitive_features is None:
            raise ValueError(
                "A fairness scorer needs groups: pass sensitive_features= to the search, with "
                "sklearn.set_config(enable_metadata_routing=True), or make the scorer with sensitive_columns= where "
                "they are columns of X."
            )
        return read_groups(sensitive_features, n_rows)

    def _positive(self, estimator: Any, classes: Any) -> Hashable | None:
        if len(classes) != 2:
            return None
        return getattr(estimator, "pos_label_", None) if self.pos_label is None else self.pos_label

    @staticmethod
    def _decisions(decided: NDArray[Any], watched: Watched) -> NDArray[np.int64]:
        names = ("the estimator", "its prediction")
        return match_decisions(decided, watched.tally.cells.classes, watched.n_rows, names=names)


def make_fairness_scorer(
    measure: str | Measure,
    *,
    sensitive_columns: Any = None,
    against: str = "pairwise",
    reference: Hashable | None = None,
    group: Hashable | None = None,
    classes: Sequence[Hashable] | None = None,
    groups: Combine = "each",
    pos_label: Hashable | None = None,
) -> FairnessScorer:
    """Return a scorer of a measure, for `cross_validate`, `GridSearchCV` and the like.

    Parameters
    ----------
    measure : str or Measure
        A measure such as "disparate_impact", or a rate such as "true_positive_rate".
    sensitive_columns : column name or number, or several, optional
        The columns of X that hold the groups.  Without it, pass `sensitive_features` by metadata routing.
    against, reference, group, classes
        As for a `Constraint`.
    groups : {"each", "intersection", "both"}
    pos_label : label, optional
        The positive one of two classes.  By default that of the estimator, or as in `ConstrainedClassifier`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> scorer = make_fairness_scorer("demographic_parity")
    >>> constant = DummyClassifier().fit([[0], [0]], [0, 1])
    >>> scorer(constant, [[0], [0]], [0, 1], sensitive_features=["a", "b"])
    0.0
    """
    scorer = FairnessScorer(measure, sensitive_columns, against, reference, group, classes, groups, pos_label)
    scorer._limit()  # raises now, not in the middle of a search, if the measure is invalid
    return scorer


def validation_loss(
    problem: TrainingProblem, logits: Callable[[], NDArray[Any]], data: Data, w: NDArray[np.float64]
) -> float:
    """Return the mean loss on validation rows at a point; `logits` are those of the problem's model there."""
    problem.assign(w)
    places = {label: place for place, label in enumerate(problem.cells.classes)}
    labels = np.array([places[label] for label in data.y.tolist()])
    return float(np.average(problem.loss.values(logits(), labels).astype(np.float64), weights=data.loss_weights))


def present_logits(problem: TrainingProblem, inputs: NDArray[np.float64]) -> NDArray[Any]:
    """Return the logits of the model that is being trained, in its precision."""
    rows = inputs.astype(problem.model.dtype, copy=False) if inputs.dtype.kind == "f" else inputs  # or embedded
    parts = [problem.model.outputs(rows[start : start + 2**14]) for start in range(0, len(rows), 2**14)]
    return np.concatenate([as_logits(part, problem.cells.n_labels) for part in parts])


def watched_columns(problem: TrainingProblem, inputs: NDArray[np.float64], watched: Watched) -> dict[str, float]:
    """Return accuracy and limits of the present model on the validation rows, as columns of the history."""
    decisions = decide(present_logits(problem, inputs), problem.threshold)
    measured = {
        f"eval {limit}": float("nan") if value is None else value
        for limit, value in zip(distinct_texts(problem.system.constraints), watched.measured(decisions), strict=True)
    }
    return {"eval accuracy": watched.accuracy(decisions), **measured}
