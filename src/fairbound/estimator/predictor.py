"""A fitted classifier: labels, probabilities and logits of new rows, recalibration, coefficients, and files.

`predict` encodes the columns, computes logits in double precision, and compares them with the threshold.  It does not
need the group, it is deterministic, and the decision of a row does not depend on the other rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted

from fairbound.estimator.columns import check_names
from fairbound.estimator.correction import read_base_score
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoder import encode
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.models import coefficients, logits, model_inputs
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import read_labels, read_weights
from fairbound.estimator.small_groups import align_groups
from fairbound.fairness import Cells, decide, logit, probabilities
from fairbound.training import LOSSES

# --- recalibration ---------------------------------------------------------------------------------------------------

# Calibrate probabilities on new rows without changing a decision.
#
# Limits depend on the decisions, and these on the threshold θ.  A calibration that moves probabilities across θ
# changes decisions, and so may break a limit.  Here each side of θ is mapped onto itself by an increasing function:
#
#     p > θ:   q = (p − θ)/(1 − θ),   p' = θ + (1 − θ) σ(a logit q + b)
#     p ≤ θ:   q = (θ − p)/θ,         p' = θ − θ σ(a logit q + b)                 a > 0, by side
#
# a and b are fitted by cross-entropy (with Platt's smoothed targets).  With several classes the decision is the class
# with the largest logit.  So all logits are divided by one temperature, which keeps their order.


Floats = NDArray[np.float64]
_STEEPEST = 6.0  # largest |log a|; larger values would change almost nothing


@dataclass(frozen=True)
class SidedMap:
    """The map for two classes: (a, b) above the threshold, and below it."""

    threshold: float
    above: tuple[float, float]
    below: tuple[float, float]

    def __call__(self, z: Floats) -> Floats:
        """Return the probabilities of both classes from logits (n, 1)."""
        up = z[:, 0] > logit(self.threshold)
        a, b = _by_side(up, self.above[0], self.below[0]), _by_side(up, self.above[1], self.below[1])
        share = special.expit(a * _side_logit(z[:, 0], self.threshold, up) + b)
        edge = np.nextafter(self.threshold, 1.0)
        above = np.maximum(self.threshold + (1.0 - self.threshold) * share, edge)
        p = np.where(up, above, self.threshold * (1.0 - share))
        return np.stack([1.0 - p, p], axis=1)


@dataclass(frozen=True)
class Temperature:
    """The map for several classes."""

    temperature: float

    def __call__(self, z: Floats) -> Floats:
        """Return the probabilities of all classes from logits (n, classes)."""
        return probabilities(z / self.temperature)


Recalibration = SidedMap | Temperature


def fit_recalibration(z: Floats, labels: NDArray[Any], weights: Floats, threshold: float) -> Recalibration:
    """Fit the map to logits (n, D), class indices and weights of rows that were not trained on."""
    weights = weights * (
        np.count_nonzero(weights) / weights.sum()
    )  # Platt's targets count rows, so the mean weight is 1
    if z.shape[1] > 1:
        return Temperature(_fit_temperature(z, labels, weights))
    up = z[:, 0] > logit(threshold)
    u = _side_logit(z[:, 0], threshold, up)
    above, positive = up, labels == 1
    return SidedMap(
        threshold,
        _fit_side(u[above], positive[above], weights[above], lambda share: threshold + (1.0 - threshold) * share),
        _fit_side(u[~above], positive[~above], weights[~above], lambda share: threshold * (1.0 - share)),
    )


def _side_logit(z: Floats, threshold: float, up: NDArray[np.bool_]) -> Floats:
    """logit q = log (p − θ)/(1 − p) = log θ(e^g − 1) above, g = z − logit θ; below with θ and 1 − θ exchanged.

    Because e^z = p/(1 − p), (p − θ)/(1 − p) = (1 − θ)e^z − θ = θ(e^g − 1).  Below, (θ − p)/p = (1 − θ)(e^|g| − 1).  It
    is computed from z, because near 0 and 1 the digits of p are lost.
    """
    gap = np.abs(z - logit(threshold))
    nearest = np.log(np.maximum(-np.expm1(-gap), 1e-300))  # log(1 − e^-g)
    return nearest + gap + np.log(_by_side(up, threshold, 1.0 - threshold))


def _by_side(up: NDArray[np.bool_], above: float, below: float) -> Floats:
    return np.where(up, above, below)


def _fit_side(
    u: Floats, positive: NDArray[np.bool_], weights: Floats, place: Callable[[Any], Any]
) -> tuple[float, float]:
    """Return (a, b) of one side, which minimise the cross-entropy of p' = place(σ(a u + b)); without rows (1, 0)."""
    n_positive, n_negative = float(weights[positive].sum()), float(weights[~positive].sum())
    if n_positive + n_negative <= 0:
        return 1.0, 0.0
    # Platt's targets, instead of 1 and 0: with few rows the fitted probabilities stay away from 0 and 1.
    target = np.where(positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))

    def loss(parameters: Floats) -> float:
        share = 1.0 / (1.0 + np.exp(-np.clip(np.exp(parameters[0]) * u + parameters[1], -500.0, 500.0)))
        p = np.clip(place(share), 1e-15, 1.0 - 1e-15)
        return float(-(weights * (target * np.log(p) + (1.0 - target) * np.log1p(-p))).sum() / weights.sum())

    bounds = [(-_STEEPEST, _STEEPEST), (-30.0, 30.0)]
    found = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=bounds)
    return (float(np.exp(found.x[0])), float(found.x[1])) if found.fun < loss(np.zeros(2)) else (1.0, 0.0)


def _fit_temperature(z: Floats, labels: NDArray[Any], weights: Floats) -> float:
    own, share = np.asarray(labels, dtype=np.int64), weights / weights.sum()

    def loss(parameters: Floats) -> float:
        return float(share @ LOSSES["cross_entropy"].values(z / np.exp(parameters[0]), own))

    found = minimize(loss, np.zeros(1), method="L-BFGS-B", bounds=[(-_STEEPEST, _STEEPEST)])
    return float(np.exp(found.x[0])) if found.fun < loss(np.zeros(1)) else 1.0


# --- predictor -------------------------------------------------------------------------------------------------------


ENCODED_AT_ONCE = 2**16
"""Rows that are encoded at once, which bounds the memory of a prediction."""


class Predictor:
    """The methods of a fitted classifier that take new rows.

    Attributes
    ----------
    classes_, pos_label_, threshold_, group_columns_, left_columns_, n_features_in_, encoder_, model_, calibration_
        As set by `ConstrainedClassifier.fit`.
    by_name_ : bool
        Whether new rows may have further columns, and any order: true for models of files, data sets and studies.
    """

    classes_: NDArray[Any]
    pos_label_: Any
    threshold_: float
    group_columns_: tuple[int, ...]
    left_columns_: tuple[int, ...]
    n_features_in_: int
    by_name_: bool
    encoder_: Any
    model_: Any
    calibration_: Recalibration | None
    result_: FitResult
    small_groups: str
    _scores: Any

    def predict(self, X: Any, *, base_score: Any = None) -> NDArray[Any]:
        """Return the decided label of each row; `base_score` replaces the scores of the base."""
        return self._labels(decide(self._logits(X, base_score), self.threshold_))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, base_score: Any = None) -> float:
        """Return the accuracy, by weight."""
        decided = self.predict(X) if base_score is None else self.predict(X, base_score=base_score)
        labels = read_labels(y, len(decided), type(self).__name__)
        right = np.array([one == other for one, other in zip(labels.tolist(), decided.tolist(), strict=True)])
        return float(np.average(right, weights=read_weights(sample_weight, len(decided), "sample_weight")))

    def predict_proba(self, X: Any, *, base_score: Any = None) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in the order of `classes_`."""
        z = self._logits(X, base_score)
        p = probabilities(z) if self.calibration_ is None else self.calibration_(z)
        return p[:, ::-1] if self._flipped else p

    def decision_function(self, X: Any, *, base_score: Any = None) -> NDArray[np.float64]:
        """Return logits: one per class; for two classes that of `classes_[1]`, minus the logit of the threshold."""
        z = self._logits(X, base_score)
        if z.shape[1] > 1:
            return z
        margin = z[:, 0] - logit(self.threshold_)
        return -margin if self._flipped else margin

    def recalibrate(self, X: Any, y: Any, *, sample_weight: Any = None, base_score: Any = None) -> Self:
        """Calibrate the probabilities on rows that were not trained on, without changing a decision.

        Each side of the threshold is mapped onto itself by an increasing function.  So `predict` and every limit stay
        the same, and only `predict_proba` changes.
        """
        z = self._logits(X, base_score)
        labels = read_labels(y, len(z), type(self).__name__)
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        unknown = [label for label in np.unique(labels).tolist() if label not in places]
        if unknown:
            raise ValueError(f"y has the label {unknown[0]!r}, which is not in classes_: {list(places)}.")
        codes = np.array([places[label] for label in labels.tolist()])
        weights = read_weights(sample_weight, len(z), "sample_weight")
        self.calibration_ = fit_recalibration(z, 1 - codes if self._flipped else codes, weights, self.threshold_)
        return self

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Logits per unit of each column in `encoded_names_`; one row, or one per class.

        So `encoder_.transform(X) @ coef_.T + intercept_` are the logits, of `classes_[1]` if there are two classes.
        With a base, its scores come after the encoded columns.
        """
        return self._linear()[0]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Logits if every encoded column is 0."""
        return self._linear()[1]

    @property
    def _flipped(self) -> bool:
        """Whether the positive class, which is the last one for the model, comes first in `classes_`."""
        return len(self.classes_) == 2 and self.pos_label_ == self.classes_.tolist()[0]

    def _labels(self, decisions: NDArray[np.int64]) -> NDArray[Any]:
        return self.classes_[:: -1 if self._flipped else 1][decisions]

    def _logits(self, X: Any, base_score: Any = None) -> Floats:
        """Return logits of new rows, in the order of the model's classes."""
        check_is_fitted(self)
        inputs = self._read_new(X)
        scores, parts = None if base_score is None else read_base_score(base_score, inputs.n_rows), []
        at_once = ENCODED_AT_ONCE if inputs.encoded is None else inputs.n_rows  # shared inputs are kept encoded
        for start in range(0, inputs.n_rows, at_once):
            rows = slice(start, start + at_once)
            part = inputs.take(rows) if inputs.n_rows > at_once else inputs
            given = None if scores is None else scores[rows]
            parts.append(logits(self.model_, self._numbers(part, given), len(self.classes_)))
        found = np.concatenate(parts)
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
            raise ValueError(f"The network gives NaN or infinity for row {row} of X: the numbers there are too large.")
        return found

    def _numbers(self, inputs: Inputs, base_score: Any) -> NDArray[np.float64]:
        """Return the inputs of the model: encoded columns and, with a base, its scores or the given ones."""
        Z = encode(self.encoder_, inputs)
        if self._scores is not None:
            return self._scores.join_new(Z, inputs, base_score)
        if base_score is not None:
            raise ValueError("base_score= is given, but the model was fitted without a base: leave it out.")
        return model_inputs(self.model_, Z)

    @property
    def base_(self) -> FittedBase | None:
        """The base that scores new rows; None without a base, and if scores were given."""
        check_is_fitted(self)
        return None if self._scores is None else self._scores.fitted

    @property
    def base_score_(self) -> NDArray[np.float64] | None:
        """The scores of the training rows, as `base_score=` takes them; None without a base."""
        check_is_fitted(self)
        if self._scores is None or not len(self._scores.training):  # a model that was read from a folder has none
            return None
        return self._scores.as_given()

    def _read_new(self, X: Any) -> Inputs:
        inputs = read_inputs(X)
        learnt = getattr(self, "feature_names_in_", None)
        asked = [position for position in self.group_columns_ if position not in self.left_columns_]
        if inputs.names is not None and learnt is not None:
            absent = [repr(learnt[position]) for position in asked if learnt[position] not in inputs.names]
        else:
            absent = [f"number {each}" for each in asked if inputs.n_columns == self.n_features_in_ - len(asked)]
        if absent:
            raise ValueError(
                f"X lacks the column {absent[0]}. It is an input of the model, because it was trained with "
                "sensitive_as_input=True: add the column, or train without that option."
            )
        return check_names(self, inputs, self.left_columns_, by_name=self.by_name_, level=5)

    def _linear(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_is_fitted(self)
        found = coefficients(self.model_)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has coefficients only if it is linear (hidden=(), no module).")
        sign = -1.0 if self._flipped else 1.0
        return sign * found[0], sign * found[1]

    def settle_groups(self, cells: Cells) -> Cells:
        """Return cells with the groups of the limits.

        Small groups that `fit` left out or merged are left out or merged in these cells, too.
        """
        check_is_fitted(self)
        known: dict[str, list[Any]] = {}
        for each in self.result_.groups:
            known.setdefault(each.grouping, []).append(each.group)
        policy = self.small_groups if self.result_.limits else "error"
        return align_groups(cells, known, self.result_.small_groups, policy)  # type: ignore[arg-type]  # as checked

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, base: bool = True) -> None:
        """Write the model as a folder with one JSON file, which holds no code.  `fairbound.load` reads it.

        An existing model is replaced in one step, another file only with `overwrite=True`.  If `path` is a link, the
        folder that it points to is used.

        A base is written, too, if that is possible without pickle: models of LightGBM and XGBoost, and those of
        scikit-learn by skops.  With `base=False` it is left out, and `load(path, base=...)` takes it again.
        """
        from fairbound.persistence import save_estimator

        check_is_fitted(self)
        save_estimator(self, path, overwrite=overwrite, base=base)

    def to_onnx(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model with its preprocessing as one ONNX file; needs the extra `onnx`.

        If all columns are numbers, the input is a matrix "X".  Otherwise each column is an input of shape (n, 1); a
        missing number is NaN, missing text is "".  Group columns that are not inputs of the model are left out.
        The outputs are "label", "probabilities" and "margin".  An existing file is replaced if `to_onnx` has written
        it, any other only with `overwrite=True`.
        """
        from fairbound.persistence import export_onnx

        check_is_fitted(self)
        export_onnx(self, path, overwrite=overwrite)
