"""Scorers of scikit-learn: measures of the decisions of any classifier.

A scorer is called with a fitted estimator and rows.  As everywhere in scikit-learn, larger is better:

    ratio                     the smallest ratio over the pairs of groups
    difference, covariance    minus the largest difference
    rate                      the smallest rate over the groups; for false positives and negatives minus the largest

Groups arrive by metadata routing (`sensitive_features=`), or are columns of X (`sensitive_columns=`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from fairbound.estimator.groups import read_groups
from fairbound.estimator.inputs import read_inputs
from fairbound.estimator.targets import read_labels, read_weights, warn_if_guessed
from fairbound.estimator.watched import Watched, count_labels
from fairbound.evaluation import match_decisions
from fairbound.fairness import Combine, Constraint, Measure, false_negative_rate, false_positive_rate, resolve_measure


@dataclass(eq=False, repr=False)
class FairnessScorer(BaseEstimator):
    """Score the decisions of any classifier by a measure.  Make it with `make_fairness_scorer`.

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
    """

    # The scorer always needs the groups, so it requests them by default.
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    measure: str | Measure
    _: KW_ONLY
    sensitive_columns: Any = None
    against: str = "pairwise"
    reference: Hashable | None = None
    group: Hashable | None = None
    classes: Sequence[Hashable] | None = None
    groups: Combine = "each"
    pos_label: Hashable | None = None

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
        tally = count_labels(
            labels,
            self._groups(X, n_rows, sensitive_features),
            classes=classes,
            weights=read_weights(sample_weight, n_rows, "sample_weight"),
            combine=self.groups,
            pos_label=positive,
        )
        watched = Watched.build([limit], tally)
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
            positions = inputs.positions(self.sensitive_columns, "sensitive_columns=")
            return read_groups(inputs.named_values(positions), n_rows)
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


def make_fairness_scorer(measure: str | Measure, **settings: Any) -> FairnessScorer:
    """Return a scorer of a measure, for `cross_validate`, `GridSearchCV` and the like.

    The settings are those of `FairnessScorer`, such as `sensitive_columns`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> scorer = make_fairness_scorer("demographic_parity")
    >>> constant = DummyClassifier().fit([[0], [0]], [0, 1])
    >>> scorer(constant, [[0], [0]], [0, 1], sensitive_features=["a", "b"])
    0.0
    """
    scorer = FairnessScorer(measure, **settings)
    scorer._limit()  # raises now, not in the middle of a search, if the measure is invalid
    return scorer
