"""What a base can do: its name, its scores, its weights, and the form of its columns."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fairbound._errors import InputTypeError, Message
from fairbound.estimator.parameters import Parameters

Floats = NDArray[np.float64]


def base_name(base: Any) -> str:
    """Return the name of a base for messages: its class, and that of the last step of a pipeline."""
    name, inner = type(base).__name__, inner_estimator(base)
    return name if inner is None else f"{name}({base_name(inner)})"


def named_base(base: Any) -> Message:
    """Return the base as the beginning of a message, with the argument that it came from."""
    return Message("The base {name} ({base=})", name=base_name(base))


def inner_estimator(base: Any) -> Any:
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
    if not has_scores(type(base)) and not has_scores(base):  # a StackingClassifier has them only after its fit
        raise no_scores(base)


def has_scores(base: Any) -> bool:
    """Return whether a base has scores, of either kind."""
    return hasattr(base, "predict_proba") or hasattr(base, "decision_function")


def no_scores(base: Any) -> InputTypeError:
    """Return the error of a base without scores."""
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
        inner = weight_argument(inner_estimator(base))
        return None if inner is None else f"{base.steps[-1][0]}__{inner}"
    parameters = inspect.signature(base.fit).parameters
    if "sample_weight" in parameters:
        return "sample_weight"
    passes_on = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    inner = inner_estimator(base)
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


def wants_raw(base: Any) -> bool:
    """Return whether a base gets the table as given: a pipeline, or a model whose options name its columns."""
    if isinstance(base, Pipeline) or isinstance(getattr(base, "monotone_constraints", None), dict):
        return True
    if is_a(base, "XGBClassifier", "XGBRegressor"):
        return bool(getattr(base, "enable_categorical", False))
    if is_a(base, "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"):
        return not (base.categorical_features is None or isinstance(base.categorical_features, str))
    if is_a(base, "LGBMClassifier", "LGBMRegressor"):
        return "categorical_feature" in base.get_params()
    inner = inner_estimator(base)
    return inner is not None and wants_raw(inner)


def gives_probabilities(base: Any) -> bool:
    """Return True if a base gives probabilities, False if it gives margins."""
    return hasattr(base, "predict_proba")
