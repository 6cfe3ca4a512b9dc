"""The names of the columns of X: those of `fit` are expected by `predict`.

A model fitted to a table X in Python expects the columns of that table, in the same order: this is the convention of
scikit-learn, whose messages are used.  A model of a file, a data set or a study never had such a table X.  It finds
its columns, which were named, in any table that has them (`by_name_`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound._errors import InputError
from fairbound._words import did_you_mean, listed

if TYPE_CHECKING:
    from fairbound.estimator.inputs import Inputs


def column_names(columns: Sequence[Any]) -> tuple[str, ...] | None:
    """Return the names of columns if all are text, None if none is; a mixture raises an error."""
    kinds = {isinstance(name, str) for name in columns}
    if len(kinds) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but some columns of X are "
            "named by text and others are not; rename them, for example X.columns = X.columns.astype(str)."
        )
    return tuple(columns) if kinds == {True} else None


def learn_names(estimator: Any, inputs: Inputs) -> None:
    """Set `n_features_in_` and, if the columns have names, `feature_names_in_`."""
    estimator.n_features_in_ = inputs.n_columns
    if inputs.names is not None:
        estimator.feature_names_in_ = np.array(inputs.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_names(
    estimator: Any, inputs: Inputs, optional: Sequence[int] = (), *, by_name: bool = False, level: int = 4
) -> Inputs:
    """Raise an error if columns differ from those of `fit`; return the inputs without the `optional` columns.

    Optional columns may be missing; without names, all or none of them.  `level` is the stack level of warnings.
    With `by_name`, X may have further columns, and any order.
    """
    kind, learnt = type(estimator).__name__, getattr(estimator, "feature_names_in_", None)
    expected = estimator.n_features_in_
    needed = [position for position in range(expected) if position not in set(optional)]
    if learnt is not None and inputs.names is not None:
        if by_name:
            return _select(inputs, [learnt[position] for position in needed])
        spare = {learnt[position] for position in optional}
        if [name for name in inputs.names if name not in spare] != [learnt[position] for position in needed]:
            raise ValueError(_difference(learnt.tolist(), inputs.names, spare))
        return inputs.without([position for position, name in enumerate(inputs.names) if name in spare])
    if learnt is not None:
        warnings.warn(
            f"X does not have valid feature names, but {kind} was fitted with feature names",
            UserWarning,
            stacklevel=level,
        )
    elif inputs.names is not None:
        warnings.warn(
            f"X has feature names, but {kind} was fitted without feature names", UserWarning, stacklevel=level
        )
    if inputs.n_columns == expected:
        return inputs.without(list(optional))
    if optional and inputs.n_columns == len(needed):
        return inputs
    raise ValueError(
        f"X has {inputs.n_columns} features, but {kind} is expecting {expected} features as input"
        + (f" (or {len(needed)}, without the group)." if optional else ".")
    )


def _select(inputs: Inputs, needed: Sequence[str]) -> Inputs:
    """Return the needed columns, in that order; a missing one raises an error."""
    given = inputs.names or ()
    missing = [name for name in needed if name not in given]
    if missing:
        near = did_you_mean(missing[0], [name for name in given if name not in needed]) if len(missing) == 1 else ""
        raise InputError(
            "X lacks {what} {missing}, which the model needs.{near} X has {known}.",
            what="the column" if len(missing) == 1 else "the columns",
            missing=listed(missing, 5),
            near=near,
            known=listed(given),
        )
    return inputs.select([given.index(name) for name in needed])


def _difference(learnt: Sequence[str], given: Sequence[str], optional: Set[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    unseen = sorted(set(given) - set(learnt))
    missing = sorted(set(learnt) - set(given) - optional)
    if unseen:
        message += "Feature names unseen at fit time:\n" + _bullets(unseen)
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    if not missing:
        message += "Select the columns of the fit by name: X[list(model.feature_names_in_)].\n"
    return message


def _bullets(names: Sequence[str]) -> str:
    return "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")
