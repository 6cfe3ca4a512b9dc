"""Scores that rise, or fall, with a column: of a linear model where asked, of a base by its own constraints.

    logit(x) = v · s(x) + h(x)          v ≥ 0, and h is linear with weights of the same signs as s

The weights that are bounded by zero are those of `LinearModel.keep_signs`.
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
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.models import is_linear
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.scores import BaseScores

OPTIONS = ("monotonic_cst", "monotone_constraints", "monotone_constraint", "mc")
"""The option of scikit-learn, of XGBoost and LightGBM, and other names that LightGBM knows it by."""

Floats = NDArray[np.float64]


def monotone_signs(
    params: Parameters, base: BaseScores | None, encoder: Any, inputs: Inputs, shape: tuple[int, int]
) -> Floats | None:
    """Return the signs that the weights of the model may have, 0 for any; None if nothing is asked for.

    Parameters
    ----------
    params : Parameters
    base : BaseScores, or None
    encoder : transformer, or None
    inputs : Inputs
    shape : tuple of int
        The number of classes, and of the inputs of the model: encoded columns and, with a base, its score.
    """
    asked, who, encoded = params.training.monotonic, Message("{training.monotonic=} is kept"), False
    if base is not None and base.fitted is not None:
        if asked:
            raise InputError(
                "{training.monotonic=} is for linear models without a base.", "Give the base its own constraints."
            )
        asked, within_pipeline = base_constraints(base.fitted.estimators[0])
        name = named_base(base.fitted.estimators[0])
        who = Message("{base} has monotone constraints, which a correction keeps", base=name)
        encoded = isinstance(base.fitted.models[0].columns, EncodedColumns)
        if asked and (within_pipeline or params.base.correction != "columns"):
            raise InputError("{who} on columns of X only, without estimates of the group.", who=who)
    if not asked:
        return None
    if shape[0] > 2 or not is_linear(params.module, params.hidden):
        raise InputError("{who} for two classes only, if it is linear.", "Leave {hidden=} out.", who=who)
    if not (encoder is None or isinstance(encoder, TableEncoder)):
        raise InputError(
            "{who} on columns of X, not on those that a transformer makes.", "Use {encoder='auto'}.", who=who
        )
    signs = np.zeros(shape[1])
    for column, sign in asked.items():
        place = column if encoded else inputs.position(column, "training.monotonic=")
        if encoder is not None and not encoded:
            kind = encoder.columns_[place]
            if not isinstance(kind, NumberColumn):
                raise InputError("{who} in columns of numbers, but {column!r} has categories.", who=who, column=column)
            place = sum(len(each.outputs) for each in encoder.columns_[:place])
        if sign not in (-1, 0, 1):
            raise InputError("{who} with signs 1 and -1, not {sign!r}.", who=who, sign=sign)
        signs[place] = sign
    if base is not None:
        signs *= -1.0 if base.flipped else 1.0
        signs[-1] = 1.0
    return signs


def base_constraints(estimator: Any) -> tuple[dict[Any, int], bool]:
    """Return the constraints of a base by column, a name or number, and whether a pipeline comes before it."""
    within_pipeline = False
    while estimator is not None:
        options = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
        stated = next((options[name] for name in OPTIONS if options.get(name) is not None), ())
        if isinstance(stated, str):
            stated = [int(each) for each in stated.strip("()[] ").split(",") if each.strip()]
        of_columns = stated.items() if isinstance(stated, Mapping) else enumerate(np.asarray(stated).tolist())
        if found := {column: int(sign) for column, sign in of_columns if sign}:
            return found, within_pipeline
        within_pipeline |= isinstance(estimator, Pipeline)
        estimator = inner_estimator(estimator)
    return {}, within_pipeline
