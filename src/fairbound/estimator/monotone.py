"""Scores that rise, or fall, with a column: of a linear model where asked, of a base by its own constraints.

    logit(x) = v · s(x) + h(x)          v ≥ 0, and h is linear with weights of the same signs as s

The weights that are bounded by zero are those of `LinearModel.keep_signs`.  If h is a network, or the base was given, h
gets 0 in place of these columns, so that no rounding depends on them either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fairbound._errors import InputError, Message
from fairbound.estimator.base_columns import EncodedColumns
from fairbound.estimator.base_kinds import inner_estimator, named_base
from fairbound.estimator.columns import NumberColumn
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.models import is_linear, score_slope
from fairbound.estimator.parameters import Parameters

OPTIONS = ("monotonic_cst", "monotone_constraints", "monotone_constraint", "mc")
"""The option of scikit-learn, of XGBoost and LightGBM, and other names that LightGBM knows it by."""


def signs_of_base(params: Parameters, fitted: FittedBase | None, encoder: Any, inputs: Inputs) -> dict[int, int]:
    """Return the encoded columns in which a fitted base is monotone, with 1 where it rises and -1 where it falls."""
    estimator, within_pipeline = None if fitted is None else fitted.estimators[0], False
    while estimator is not None and not (stated := _constraints(estimator)):
        within_pipeline |= isinstance(estimator, Pipeline)
        estimator = inner_estimator(estimator)
    if fitted is None or estimator is None:
        return {}
    who = Message("{base} has monotone constraints, which a correction keeps", base=named_base(fitted.estimators[0]))
    if params.base.correction != "columns":
        raise InputError("{who} only without estimates of the group.", "Use {base.correction='columns'}.", who=who)
    if within_pipeline:
        raise InputError("{who} on columns of X, not on those that a transformer makes.", who=who)
    encoded = isinstance(fitted.models[0].columns, EncodedColumns)
    return _by_encoded_column(stated, len(fitted.classes), encoder, None if encoded else inputs, who)


def signs_asked(params: Parameters, n_labels: int, encoder: Any, inputs: Inputs) -> dict[int, int]:
    """Return the encoded columns in which a linear model is to be monotone, with their signs."""
    asked, who = params.training.monotonic, Message("{training.monotonic=} is kept")
    if asked and not (is_linear(params.module, params.hidden) and params.base.classifier is None):
        raise InputError("{who} by linear models without a base.", "Give a base its own constraints.", who=who)
    return _by_encoded_column(asked, n_labels, encoder, inputs, who) if asked else {}


def _by_encoded_column(
    stated: Mapping[Any, int], n_labels: int, encoder: Any, inputs: Inputs | None, who: Message
) -> dict[int, int]:
    """Return the signs of encoded columns; without `inputs`, they are stated by the numbers of these."""
    if n_labels > 2:
        raise InputError("{who} for two classes only.", "Leave it out.", who=who)
    if not (encoder is None or isinstance(encoder, TableEncoder)):
        raise InputError(
            "{who} on columns of X, not on those that a transformer makes.", "Use {encoder='auto'}.", who=who
        )
    found = {}
    for column, sign in stated.items():
        if sign not in (-1, 1):
            raise InputError("{who} with signs 1 and -1, not {sign!r}.", who=who, sign=sign)
        place = int(column) if inputs is None else inputs.position(column, "training.monotonic=")
        if inputs is not None and encoder is not None:
            kinds = encoder.columns_
            if not isinstance(kinds[place], NumberColumn):
                raise InputError("{who} in columns of numbers, but {column!r} has categories.", who=who, column=column)
            place = sum(len(each.outputs) for each in kinds[:place])
        found[place] = sign
    return found


def _constraints(estimator: Any) -> dict[Any, int]:
    """Return the columns on which an estimator states a monotone constraint, by name or number, with its sign."""
    options = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    stated = next((options[name] for name in OPTIONS if options.get(name) is not None), ())
    if isinstance(stated, str):
        stated = [int(each) for each in stated.strip("()[] ").split(",") if each.strip()]
    of_columns = stated.items() if isinstance(stated, Mapping) else enumerate(np.asarray(stated).tolist())
    return {column: int(sign) for column, sign in of_columns if sign}


def keep_signs(model: Any, params: Parameters, n_labels: int, base: Any, encoder: Any, inputs: Inputs) -> None:
    """Bound the weights of monotone columns of a linear model by zero; over a base, its score comes last."""
    signs = signs_asked(params, n_labels, encoder, inputs) if base is None else base.signs
    if signs:
        weights = np.zeros(model.n_inputs)
        weights[list(signs)] = list(signs.values())
        if base is not None:
            weights *= -1.0 if base.flipped else 1.0
            weights[-1] = 1.0
        model.keep_signs(weights)


def check_slope(model: Any, places: NDArray[np.intp]) -> None:
    """Raise an error if the model falls with the score of a base that is monotone in the columns at these places."""
    if len(places) and score_slope(model) < 0.0:
        raise InputError(
            "Under these limits the best correction falls with the score of the base, against its constraints.",
            "Loosen the limits, or train the base without the constraints.",
        )
