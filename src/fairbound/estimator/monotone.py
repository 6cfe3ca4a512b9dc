"""Bases whose score rises, or falls, with a column: their correction must keep that.

    logit(x) = v · s(x) + h(x)          v ≥ 0, and h does not depend on the monotone columns of s

h gets 0 in place of these columns, so that no rounding depends on them either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fairbound._errors import InputError
from fairbound.estimator.base_columns import EncodedColumns
from fairbound.estimator.base_kinds import inner_estimator, named_base
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs
from fairbound.estimator.models import score_slope
from fairbound.estimator.parameters import Parameters

OPTIONS = ("monotonic_cst", "monotone_constraints", "monotone_constraint", "mc")
"""The option of scikit-learn, of XGBoost and LightGBM, and other names that LightGBM knows it by."""

Places = NDArray[np.intp]


def monotone_places(params: Parameters, fitted: FittedBase | None, encoder: Any, inputs: Inputs) -> Places:
    """Return the positions of the encoded columns in which a fitted base is monotone."""
    estimator, within_pipeline = None if fitted is None else fitted.estimators[0], False
    while estimator is not None and not (stated := _constraints(estimator)):
        within_pipeline |= isinstance(estimator, Pipeline)
        estimator = inner_estimator(estimator)
    if fitted is None or estimator is None:
        return np.zeros(0, dtype=np.intp)
    if len(fitted.classes) > 2:
        raise _not_kept(fitted, "for two classes only", "Train the base without them.")
    if params.base.correction != "columns":
        raise _not_kept(fitted, "only without estimates of the group", "Use {base.correction='columns'}.")
    if within_pipeline or not (encoder is None or isinstance(encoder, TableEncoder)):
        raise _not_kept(fitted, "on columns of X only, not on those that a transformer makes", "Use {encoder='auto'}.")
    encoded = isinstance(fitted.models[0].columns, EncodedColumns)
    at = [(inputs.names or ()).index(each) if isinstance(each, str) else int(each) for each in stated]
    if encoded or encoder is None:
        return np.array(at, dtype=np.intp)
    ends = np.cumsum([0, *(len(column.outputs) for column in encoder.columns_)])
    return np.concatenate([np.arange(ends[each], ends[each + 1]) for each in at])


def _not_kept(fitted: FittedBase, when: str, remedy: str) -> InputError:
    base = named_base(fitted.estimators[0])
    return InputError("{base} has monotone constraints, which a correction keeps {when}.", remedy, base=base, when=when)


def _constraints(estimator: Any) -> list[Any]:
    """Return the columns on which an estimator states a monotone constraint, by name or number."""
    options = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    stated = next((options[name] for name in OPTIONS if options.get(name) is not None), ())
    if isinstance(stated, str):
        stated = [int(each) for each in stated.strip("()[] ").split(",") if each.strip()]
    of_columns = stated.items() if isinstance(stated, Mapping) else enumerate(np.asarray(stated).tolist())
    return [column for column, sign in of_columns if sign]


def check_slope(model: Any, places: Places) -> None:
    """Raise an error if the model falls with the score of a monotone base."""
    if len(places) and score_slope(model) < 0.0:
        raise InputError(
            "Under these limits the best correction falls with the score of the base, against its constraints.",
            "Loosen the limits, or train the base without the constraints.",
        )
