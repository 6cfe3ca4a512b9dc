"""A base model: any classifier with scores, its input columns, and its outputs.

A base gets the columns in one of three forms:

    raw       the table as given: for pipelines, and for models that are already fitted
    codes     numbers with NaN for missing values, categories as codes: for boosters that split on categories
    encoded   the encoded columns of the correction: for all other models

It returns probabilities or margins, which `ScoreScale` turns into scores.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from fairbound._errors import InputError, InputTypeError, Message, message_of
from fairbound._values import as_array
from fairbound.estimator.columns import CategoryColumn
from fairbound.estimator.encoder import TableEncoder, encode, fitted_encoder
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.rows import Data

Floats = NDArray[np.float64]

MOST_CODES = 10_000
"""Most categories of a column, for boosters that state no limit.  If there are more, the rarest share one code."""

PROBABILITY_TOLERANCE = 1e-6
"""By rounding, a probability may be this much below 0 or above 1."""


# --- what a base can do --------------------------------------------------------------------------------------------


def base_name(base: Any) -> str:
    """Return the name of a base for messages: its class, and that of the last step of a pipeline."""
    name, inner = type(base).__name__, _inner(base)
    return name if inner is None else f"{name}({base_name(inner)})"


def named_base(base: Any) -> Message:
    """Return the base as the beginning of a message, with the argument that it came from."""
    return Message("The base {name} ({base=})", name=base_name(base))


def _inner(base: Any) -> Any:
    """Return the estimator that a pipeline ends with, or that a search or a calibration wraps; None for others."""
    if isinstance(base, Pipeline):
        return base.steps[-1][1]
    inner = base.get_params(deep=False).get("estimator") if hasattr(base, "get_params") else None
    return inner if hasattr(inner, "fit") else None


def check_base(params: Parameters) -> None:
    """Raise an error if `base=` is not a classifier with scores."""
    base = params.base.classifier
    if base is None:
        return
    if isinstance(base, type):
        raise InputTypeError("{base=} is the class {name}.", "Give an instance, {name}().", name=base.__name__)
    if not hasattr(base, "fit"):
        raise InputTypeError(
            "{base=base} has no method fit.", "Give a classifier, such as HistGradientBoostingClassifier().", base=base
        )
    if not _has_scores(type(base)) and not _has_scores(base):  # a StackingClassifier has them only after its fit
        raise _no_scores(base)


def _has_scores(base: Any) -> bool:
    return hasattr(base, "predict_proba") or hasattr(base, "decision_function")


def _no_scores(base: Any) -> InputTypeError:
    return InputTypeError(
        "{base} has no scores: it needs the method predict_proba or decision_function.",
        "Give another classifier.",
        base=named_base(base),
    )


def is_a(base: Any, *names: str) -> bool:
    """Return whether a base is of one of these classes, without importing their libraries."""
    return any(kind.__name__ in names for kind in type(base).__mro__)


def weight_argument(base: Any) -> str | None:
    """Return the argument of `base.fit` for sample weights, or None."""
    if isinstance(base, Pipeline):
        inner = weight_argument(_inner(base))
        return None if inner is None else f"{base.steps[-1][0]}__{inner}"
    parameters = inspect.signature(base.fit).parameters
    if "sample_weight" in parameters:
        return "sample_weight"
    passes_on = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    inner = _inner(base)
    return weight_argument(inner) if passes_on and inner is not None else None


def warn_of_unused_weights(base: Any, weights: Floats, stacklevel: int) -> None:
    """Warn if rows have different weights and the base cannot take them."""
    if weights.min() < weights.max() and weight_argument(base) is None:
        message = Message(
            "{base} does not take sample weights, so it is trained without them. The correction and the limits use "
            "them.",
            base=named_base(base),
        )
        warnings.warn(UserWarning(message), stacklevel=stacklevel + 1)


# --- the columns that a base sees ----------------------------------------------------------------------------------


class Columns(Protocol):
    """The form in which a base gets the columns of X."""

    def fitted(self, data: Data) -> Columns:
        """Return the same form; a transformer that learns from labels is fitted again on these rows."""
        ...

    def table(self, inputs: Inputs) -> Any:
        """Return the input of the base."""
        ...


@dataclass(frozen=True, eq=False)
class RawColumns:
    """The table as given."""

    def fitted(self, data: Data) -> RawColumns:  # noqa: ARG002 (as the protocol)
        """Return itself: nothing is learnt."""
        return self

    def table(self, inputs: Inputs) -> Any:
        """Return X without the columns of the groups."""
        return inputs.native


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """Numbers as they are, categories as codes, NaN for missing values.  All training rows determine the codes."""

    encoder: TableEncoder

    def fitted(self, data: Data) -> CodedColumns:  # noqa: ARG002 (as the protocol)
        """Return itself: nothing is learnt from labels."""
        return self

    @property
    def categories(self) -> list[int]:
        """Positions of the columns that are codes."""
        return [position for position, column in enumerate(self.encoder.columns_) if isinstance(column, CategoryColumn)]

    def table(self, inputs: Inputs) -> Floats:
        """Return one column of numbers or codes for each column of X."""
        parts = []
        for position, column in enumerate(self.encoder.columns_):
            if isinstance(column, CategoryColumn):
                codes = column.codes(column.read(inputs, position)).astype(np.float64)
                parts.append(np.where(codes < 0, np.nan, codes))
            else:
                parts.append(inputs.numbers(position))
        return np.stack(parts, axis=1)


@dataclass(frozen=True, eq=False)
class EncodedColumns:
    """The columns of an encoder.  The user's own transformer may learn from labels, so each fold fits a copy."""

    params: Parameters | None
    encoder: Any

    def fitted(self, data: Data) -> EncodedColumns:
        """Return itself; the user's own transformer is copied and fitted on these rows."""
        if self.params is None:
            return self
        return EncodedColumns(self.params, fitted_encoder(self.params, data))

    def table(self, inputs: Inputs) -> Floats:
        """Return the encoded rows."""
        return encode(self.encoder, inputs)


def choose_columns(params: Parameters, data: Data, encoder: Any) -> Columns:
    """Return the columns in the form that suits the base.

    Parameters
    ----------
    params : Parameters
    data : Data
        The training rows.
    encoder : transformer, or None
        The fitted encoder of the correction.
    """
    base, stated = params.base.classifier, params.encoder
    if wants_raw(base):
        return RawColumns()
    if encoder is not None and not isinstance(encoder, TableEncoder):
        return EncodedColumns(params, encoder)
    if not is_a(base, "HistGradientBoostingClassifier", "LGBMClassifier") or stated is None:
        return EncodedColumns(None, encoder)
    categorical = stated.categorical if isinstance(stated, TableEncoder) else None
    # HistGradientBoostingClassifier has a bin for each category; "(missing)" may take one more.
    most = max(2, base.max_bins - 1) if hasattr(base, "max_bins") else MOST_CODES
    codes = TableEncoder(categorical=categorical, max_categories=most, scale=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the encoder of the correction has warned about these columns
        return CodedColumns(codes.fit(data.inputs, sample_weight=data.loss_weights))


def wants_raw(base: Any) -> bool:
    """Return whether a base gets the table as given: a pipeline, or a model with its own option for categories."""
    if isinstance(base, Pipeline):
        return True
    if is_a(base, "HistGradientBoostingClassifier"):
        return not (base.categorical_features is None or isinstance(base.categorical_features, str))
    if is_a(base, "LGBMClassifier"):
        return "categorical_feature" in base.get_params()
    inner = _inner(base)
    return inner is not None and wants_raw(inner)


# --- fitting and scoring -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BaseModel:
    """A fitted base and the columns that it sees."""

    estimator: Any
    columns: Columns

    def outputs(self, table: Any, classes: Sequence[Hashable]) -> Floats:
        """Return probabilities or margins, one column per class in order; for two classes only the last, (n, 1)."""
        name = named_base(self.estimator)
        if not _has_scores(self.estimator):
            raise _no_scores(self.estimator)
        method = "predict_proba" if gives_probabilities(self.estimator) else "decision_function"
        try:
            with sklearn.config_context(enable_metadata_routing=False, transform_output="default"):
                found = np.asarray(getattr(self.estimator, method)(table), dtype=np.float64)
        except MemoryError:
            raise
        except Exception as error:
            raise InputError(
                "{base} failed in {method}: {error}", base=name, method=method, error=_said(error)
            ) from error
        places = self.places(classes)
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


def gives_probabilities(base: Any) -> bool:
    """Return True if a base gives probabilities, False if it gives margins."""
    return hasattr(base, "predict_proba")


def _places(own: Sequence[Any], classes: Sequence[Hashable], base: Message) -> list[int]:
    """Return the position of each class among the base's classes, which are labels or the numbers 0, 1, ..."""
    in_order = np.unique(as_array(classes)).tolist()
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
    if is_a(base, "HistGradientBoostingClassifier"):
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
    named = "categorical_features" if is_a(base, "HistGradientBoostingClassifier") else "categorical_feature"
    return {named: columns.categories}
