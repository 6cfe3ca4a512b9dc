"""A fitted base model: any classifier with scores, and the columns that it sees.

It returns probabilities or margins, which `ScoreScale` turns into scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from fairbound._errors import InputError, InputTypeError, Message, message_of
from fairbound.estimator.base_columns import CodedColumns, Columns
from fairbound.estimator.base_kinds import gives_probabilities, has_scores, is_a, named_base, no_scores, weight_argument

Floats = NDArray[np.float64]

PROBABILITY_TOLERANCE = 1e-6
"""By rounding, a probability may be this much below 0 or above 1."""


@dataclass(frozen=True, eq=False)
class BaseModel:
    """A fitted base and the columns that it sees."""

    estimator: Any
    columns: Columns

    def outputs(self, table: Any, classes: Sequence[Hashable]) -> Floats:
        """Return probabilities or margins, one column per class in order; for two classes only the last, (n, 1).

        Without classes, return the predictions of a regressor, (n, 1).
        """
        name = named_base(self.estimator)
        if classes and not has_scores(self.estimator):
            raise no_scores(self.estimator)
        method = "predict_proba" if gives_probabilities(self.estimator) else "decision_function"
        method = method if classes else "predict"
        try:
            with sklearn.config_context(enable_metadata_routing=False, transform_output="default"):
                found = np.asarray(getattr(self.estimator, method)(table), dtype=np.float64)
        except MemoryError:
            raise
        except Exception as error:
            raise InputError(
                "{base} failed in {method}: {error}", base=name, method=method, error=_said(error)
            ) from error
        if not classes and np.isfinite(found).all():
            return found.reshape(len(found), 1)
        places = self.places(classes) if classes else [0]
        if found.ndim == 1 and len(classes) == 2:
            found = np.stack([1.0 - found if method == "predict_proba" else -found, found], axis=1)
        needed = _num_samples(table), len(classes)
        if found.shape != needed:
            raise InputError(
                "{base} gives scores of shape {shape} by {method}, but {rows} rows of {count} classes need {needed}.",
                base=name,
                shape=found.shape,
                method=method,
                rows=needed[0],
                count=needed[1],
                needed=needed,
            )
        allowed = np.isfinite(found)
        if method == "predict_proba":
            allowed &= (found >= -PROBABILITY_TOLERANCE) & (found <= 1.0 + PROBABILITY_TOLERANCE)
        if not allowed.all():
            row, column = np.argwhere(~allowed)[0].tolist()
            raise InputError(
                "{base} gives {value} by {method}, first for row {row} of those that it scored.",
                "Scores must be finite, and probabilities from 0 to 1.",
                base=name,
                value="NaN or infinity" if not np.isfinite(found[row, column]) else float(found[row, column]),
                method=method,
                row=row,
            )
        found = found[:, places]
        return found[:, 1:] if len(classes) == 2 else found

    def places(self, classes: Sequence[Hashable]) -> list[int]:
        """Return the position of each class among the outputs of the base."""
        known = getattr(self.estimator, "classes_", ())
        own = [each.item() if isinstance(each, np.generic) else each for each in known]
        return _places(own, classes, named_base(self.estimator))


def _places(own: Sequence[Any], classes: Sequence[Hashable], base: Message) -> list[int]:
    """Return the position of each class among the base's classes, which are labels or the numbers 0, 1, ..."""
    in_order = np.unique(np.asarray(classes)).tolist()
    if not own or (own == list(range(len(classes))) and set(own) != set(classes)):
        return [in_order.index(each) for each in classes]
    if set(own) != set(classes):
        raise InputError(
            "{base} was trained on the classes {own}, but y has {classes}.",
            "Train it on the same labels.",
            base=base,
            own=list(own),
            classes=in_order,
        )
    return [own.index(each) for each in classes]


def fit_base(base: Any, columns: Columns, table: Any, y: NDArray[Any], weights: Floats, where: str) -> BaseModel:
    """Fit a copy of the base.

    Parameters
    ----------
    base : estimator
    columns : Columns
        Already fitted.
    table : table of n rows
        The rows in the form of `columns`.
    y, weights : arrays of shape (n,)
    where : str
        A description of the rows, for messages.
    """
    if not hasattr(base, "get_params"):
        raise InputTypeError(
            "{base} has no method get_params, so no copies of it can be trained.",
            "Derive it from sklearn.base.BaseEstimator, or fit it and use {cv='prefit'}.",
            base=named_base(base),
        )
    estimator, options = clone(base), _category_options(base, columns)
    if is_a(base, "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"):
        estimator.set_params(**options)
        options = {}
    weighted = weight_argument(base)
    if weighted is not None and (weights != 1.0).any():
        options[weighted] = weights
    if is_a(base, "XGBClassifier"):  # XGBoost accepts only the labels 0, 1, ...
        y = np.unique(y, return_inverse=True)[1]
    try:
        with sklearn.config_context(enable_metadata_routing=False, transform_output="default"):
            estimator.fit(table, y, **options)
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            "{base} failed when it was fitted on {where}: {error}",
            base=named_base(base),
            where=where,
            error=_said(error),
        ) from error
    return BaseModel(estimator, columns)


def _said(error: Exception) -> str:
    """Return the message of an error of the base; the name of its class if it has none."""
    return message_of(error) or type(error).__name__


def _category_options(base: Any, columns: Columns) -> dict[str, Any]:
    """Return the arguments that tell a booster which columns are codes."""
    if not isinstance(columns, CodedColumns) or not columns.categories:
        return {}
    named = "categorical_features" if hasattr(base, "categorical_features") else "categorical_feature"
    return {named: columns.categories}
