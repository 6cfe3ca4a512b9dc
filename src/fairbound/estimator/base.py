"""A base model: any classifier with scores, the columns that it sees, and its scores as logits.

A base sees the columns in one of three forms, whichever suits it:

    raw       the table as it came: pipelines, and models that are fitted already
    codes     numbers with NaN where a value is missing, categories as codes: boosters that split on categories
    encoded   the encoded columns of the correction: all others

and gives probabilities or margins.  Either becomes a score on the scale of the logits:

    probability p   log p/(1 − p), or with several classes log p_k less its mean; 0 counts as half the least p above 0
    margin m        m / deviation, so that its sign stays and v = 1 is a sensible start
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

from fairbound._values import as_array
from fairbound.estimator.encoder import CategoryColumn, TableEncoder
from fairbound.estimator.encoding import encode, fitted_encoder
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.rows import Data, Parameters

Floats = NDArray[np.float64]

MOST_CODES = 200
"""Categories of a column that a booster sees; the rarest beyond share one code."""

LEAST_CLIP, MOST_CLIP = 1e-6, 1e-2
"""Probabilities of 0 and 1 count as at least and at most this far from there."""


# --- what a base can do --------------------------------------------------------------------------------------------


def base_name(base: Any) -> str:
    """Return the name of a base for messages: its class, and that of the last step of a pipeline."""
    name, inner = type(base).__name__, _inner(base)
    return name if inner is None else f"{name}({base_name(inner)})"


def _inner(base: Any) -> Any:
    """Return the estimator that a pipeline ends with, or that a search or a calibration wraps; None for others."""
    if isinstance(base, Pipeline):
        return base.steps[-1][1]
    inner = base.get_params(deep=False).get("estimator") if hasattr(base, "get_params") else None
    return inner if hasattr(inner, "fit") else None


def check_base(params: Parameters) -> None:
    """Refuse what cannot be a base, in one sentence each."""
    base = params.base
    if base is None:
        return
    if isinstance(base, type):
        raise TypeError(f"base={base.__name__} is a class: give an instance, base={base.__name__}().")
    if params.module is not None:
        raise ValueError("base= and module= do not go together: shape the correction of a base by hidden=.")
    if not hasattr(base, "fit"):
        raise TypeError(
            f"base={base!r} has no method fit: give a classifier, such as HistGradientBoostingClassifier()."
        )
    if not hasattr(base, "predict_proba") and not hasattr(base, "decision_function"):
        raise TypeError(
            f"base={base_name(base)} gives no scores: it needs the method predict_proba or decision_function."
        )


def is_a(base: Any, *names: str) -> bool:
    """Tell whether a base is of one of these classes, without importing their libraries."""
    return any(kind.__name__ in names for kind in type(base).__mro__)


def weight_argument(base: Any) -> str | None:
    """Return the argument of `base.fit` that takes sample weights; None where there is none."""
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
        warnings.warn(
            f"base={base_name(base)} does not take sample weights, so it is trained without them; the correction and "
            "the limits use them.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


# --- the columns that a base sees ----------------------------------------------------------------------------------


class Columns(Protocol):
    """How a base sees the columns of X."""

    def fitted(self, data: Data) -> Columns:
        """Return the same, learnt from these rows where anything is learnt from labels."""
        ...

    def table(self, inputs: Inputs) -> Any:
        """Return what the base is given."""
        ...


@dataclass(frozen=True, eq=False)
class RawColumns:
    """The table as it came."""

    def fitted(self, data: Data) -> RawColumns:  # noqa: ARG002 (as the protocol)
        """Return itself: nothing is learnt."""
        return self

    def table(self, inputs: Inputs) -> Any:
        """Return X without the columns of the groups."""
        return inputs.native


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """Numbers as they are, categories as codes, NaN where a value is missing; the codes are of all training rows."""

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
    """The columns that an encoder makes; one of the user's own may learn from labels, so each fold has its own."""

    params: Parameters | None
    encoder: Any

    def fitted(self, data: Data) -> EncodedColumns:
        """Return itself, or for a transformer of the user's own one that is fitted on these rows."""
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
    base, stated = params.base, params.preprocessing
    if wants_raw(base):
        return RawColumns()
    if encoder is not None and not isinstance(encoder, TableEncoder):
        return EncodedColumns(params, encoder)
    if not is_a(base, "HistGradientBoostingClassifier", "LGBMClassifier") or stated is None:
        return EncodedColumns(None, encoder)
    categorical = stated.categorical if isinstance(stated, TableEncoder) else params.categorical
    most = min(MOST_CODES, getattr(base, "max_bins", MOST_CODES))
    codes = TableEncoder(categorical=categorical, max_categories=max(2, most), scale=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what there is to say of the columns the other encoder has said
        return CodedColumns(codes.fit(data.inputs, sample_weight=data.loss_weights))


def wants_raw(base: Any) -> bool:
    """Tell whether a base takes the table as it is: a pipeline, or one that was told which columns are categories."""
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
        """Return probabilities of the classes, in their order, or margins: (n, 1) for two classes, of the last."""
        name = base_name(self.estimator)
        method = "predict_proba" if gives_probabilities(self.estimator) else "decision_function"
        try:
            with sklearn.config_context(enable_metadata_routing=False, transform_output="default"):
                found = np.asarray(getattr(self.estimator, method)(table), dtype=np.float64)
        except Exception as error:
            raise ValueError(f"base={name} failed in {method}: {error}") from error
        own = [
            each.item() if isinstance(each, np.generic) else each for each in getattr(self.estimator, "classes_", ())
        ]
        places = _places(own, classes, name)
        if found.ndim == 1 and len(classes) == 2:
            found = np.stack([-found, found], axis=1)
        if found.ndim != 2 or found.shape[1] != len(classes):
            raise ValueError(
                f"base={name} gives scores of shape {found.shape} by {method}: {len(classes)} classes need one score "
                "for each class."
            )
        if not np.isfinite(found).all():
            row = int(np.argwhere(~np.isfinite(found))[0][0])
            raise ValueError(f"base={name} gives NaN or infinity by {method}, first for row {row} of those it scored.")
        found = found[:, places]
        return found[:, 1:] if len(classes) == 2 else found


def gives_probabilities(base: Any) -> bool:
    """Tell whether a base gives probabilities; else it gives margins."""
    return hasattr(base, "predict_proba")


def _places(own: Sequence[Any], classes: Sequence[Hashable], name: str) -> list[int]:
    """Return where the base has each of the classes: by its own labels, or by their numbers in order."""
    in_order = np.unique(as_array(classes)).tolist()
    if not own or (own == list(range(len(classes))) and set(own) != set(classes)):
        return [in_order.index(each) for each in classes]
    if set(own) != set(classes):
        raise ValueError(
            f"base={name} knows the classes {list(own)}, but y has {in_order}: train it on the same labels."
        )
    return [own.index(each) for each in classes]


def fit_base(base: Any, columns: Columns, table: Any, y: NDArray[Any], weights: Floats, where: str) -> BaseModel:
    """Fit a copy of the base.

    Parameters
    ----------
    base : estimator
    columns : Columns
        Fitted.
    table : table of n rows
        Of these columns.
    y, weights : arrays of shape (n,)
    where : str
        The rows in words, for a message.
    """
    estimator, options = clone(base), _category_options(base, columns)
    if is_a(base, "HistGradientBoostingClassifier"):
        estimator.set_params(**options)
        options = {}
    weighted = weight_argument(base)
    if weighted is not None and (weights != 1.0).any():
        options[weighted] = weights
    if is_a(base, "XGBClassifier"):  # which takes no labels but numbers from 0
        y = np.unique(y, return_inverse=True)[1]
    try:
        with sklearn.config_context(enable_metadata_routing=False, transform_output="default"):
            estimator.fit(table, y, **options)
    except Exception as error:
        raise ValueError(f"base={base_name(base)} failed when it was fitted on {where}: {error}") from error
    return BaseModel(estimator, columns)


def _category_options(base: Any, columns: Columns) -> dict[str, Any]:
    """Return what tells a booster which columns are codes."""
    if not isinstance(columns, CodedColumns) or not columns.categories:
        return {}
    named = "categorical_features" if is_a(base, "HistGradientBoostingClassifier") else "categorical_feature"
    return {named: columns.categories}


@dataclass(frozen=True)
class ScoreScale:
    """How the outputs of a base become scores.

    Attributes
    ----------
    probabilities : bool
        Whether the outputs are probabilities; else margins.
    unit : float
        Of probabilities the least distance from 0 and 1, of margins their deviation.
    """

    probabilities: bool
    unit: float

    @classmethod
    def learn(cls, outputs: Floats, probabilities: bool) -> ScoreScale:
        """Learn the scale from the outputs for the training rows."""
        if not probabilities:
            return cls(False, float(outputs.std()) or 1.0)
        distance = np.minimum(outputs, 1.0 - outputs)
        if distance.min() > 0:  # a smooth base: its probabilities mean what they say
            return cls(True, LEAST_CLIP)
        least = distance[distance > 0].min(initial=1.0)
        return cls(True, float(np.clip(0.5 * least, LEAST_CLIP, MOST_CLIP)))

    def __call__(self, outputs: Floats) -> Floats:
        """Return scores of outputs."""
        if not self.probabilities:
            return outputs / self.unit
        p = np.clip(outputs, self.unit, 1.0 - self.unit)
        if outputs.shape[1] == 1:
            return np.log(p) - np.log1p(-p)
        logs = np.log(p)
        return logs - logs.mean(axis=1, keepdims=True)
