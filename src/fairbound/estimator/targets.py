"""Check the labels and the weights of rows, and which of two labels is the positive one."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import type_of_target

from fairbound._errors import Message, PositiveLabelWarning
from fairbound._values import as_values, in_order, with_gaps
from fairbound._weights import check_weights, scale_weights
from fairbound.data import is_missing
from fairbound.fairness import Constraint, conventional_positive


def read_numbers(y: Any, n_rows: int, estimator: str) -> NDArray[np.float64]:
    """Return one finite number per row, the target of a regression."""
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None.")
    values = column_or_1d(check_array(with_gaps(y), ensure_2d=False, dtype=None, input_name="y"), warn=True)
    if len(values) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y has {len(values)}: one number for each row is needed.")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must have numbers, but {error}.") from error


def read_labels(y: Any, n_rows: int, estimator: str) -> NDArray[Any]:
    """Return one label per row; raise an error for labels that a classifier cannot learn."""
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None.")
    y = with_gaps(y)
    if nw.dependencies.is_into_series(y):
        y = nw.from_native(y, series_only=True).to_numpy()
    elif nw.dependencies.is_into_dataframe(y):
        try:
            table = nw.from_native(y, eager_only=True)
        except nw.exceptions.DuplicateError:
            raise ValueError("y has two columns of the same name: give one label for each row.") from None
        y = table[:, 0].to_numpy() if table.shape[1] == 1 else table.to_numpy()
    elif isinstance(y, Mapping) and len(y) == 1:
        y = next(iter(y.values()))
    elif isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = np.asarray(y) if all(isinstance(label, str) for label in y) else np.array(y, dtype=object)
    labels = column_or_1d(as_values(y, "y") if isinstance(y, list | tuple) else y, warn=True)
    if labels.dtype.kind in "Vc":
        raise TypeError(f"y has labels of type {labels.dtype}: give words or numbers.")
    if labels.dtype.kind in "SO" and any(isinstance(label, bytes) for label in labels.tolist()):
        raise TypeError("y has labels of type bytes: give words or numbers, for example with label.decode().")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity: drop the rows whose label is unknown.")
    if labels.dtype.kind == "O" and is_missing(labels).any():
        raise ValueError("Input y contains missing labels (None or NaN): drop the rows whose label is unknown.")
    if labels.dtype.kind == "O" and len({isinstance(label, str) for label in labels.tolist()}) > 1:
        text = next(label for label in labels.tolist() if isinstance(label, str))
        other = next(label for label in labels.tolist() if not isinstance(label, str))
        raise ValueError(f"y mixes text with other labels, {text!r} with {other!r}: give labels of one kind.")
    if labels.dtype.kind == "O":
        in_order(labels.tolist(), "y")  # raises an error for values that are not labels
    if len(labels) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y has {len(labels)}: one label for each row is needed.")
    with np.errstate(invalid="ignore"):  # numbers too large for an integer are rejected below
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. {estimator} predicts classes: give labels of two or more classes, or predict "
            "numbers with ConstrainedRegressor."
        )
    return labels


def read_weights(weights: Any, n_rows: int, name: str, *, scale: bool = True) -> NDArray[np.float64]:
    """Return one weight per row, 1 by default.  Scale by a power of two; a common factor does not change a fit."""
    if weights is None:
        return np.ones(n_rows)
    if nw.dependencies.is_into_series(weights):
        weights = nw.from_native(weights, series_only=True).to_numpy()
    if isinstance(weights, Real) and not isinstance(weights, bool):
        weights = np.full(n_rows, float(weights))
    found = check_weights(with_gaps(weights), n_rows, name)
    return scale_weights(found) if scale else found


def warn_if_guessed(classes: Sequence[Hashable], limits: Sequence[Constraint], *, who: str, stacklevel: int) -> None:
    """Warn if sorted order alone determined the positive class, and a limit depends on it.

    Parameters
    ----------
    classes : sequence of two labels
        The positive one is last.
    limits : sequence of Constraint
    who : str
        The class that guessed the label, for the message.
    stacklevel : int
        As for `warnings.warn`, seen from the caller.
    """
    concerned = [str(limit) for limit in limits if limit.depends_on_positive]
    if len(classes) != 2 or not concerned or conventional_positive(classes) is not None:
        return
    negative, positive = (each.item() if isinstance(each, np.generic) else each for each in classes)
    message = Message(
        "{who} takes {positive!r} for the positive label, because it comes after {negative!r} in sorted order. The "
        "meaning of {limits} depends on it: name the favourable label with {pos_label=negative} or "
        "{pos_label=positive}.",
        who=who,
        positive=positive,
        negative=negative,
        limits=", ".join(concerned),
    )
    warnings.warn(PositiveLabelWarning(message), stacklevel=stacklevel + 1)
