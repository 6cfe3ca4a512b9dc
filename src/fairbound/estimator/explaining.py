"""Reasons for decisions: what each column adds to the decision score of a row, and which change would turn it.

    decision score = constant + Σ contribution of each column

For a linear model this is exact: weight times encoded value, summed over the encoded columns of a column.  Over a base,
v · score takes the base's own additive values: those of linear models, of LightGBM and XGBoost, or of shap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fairbound._errors import InputError
from fairbound._text_tables import TextTable
from fairbound.data import is_missing
from fairbound.estimator.base import BaseModel
from fairbound.estimator.base_columns import EncodedColumns
from fairbound.estimator.base_kinds import is_a, named_base
from fairbound.estimator.columns import CategoryColumn
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs, dense, read_inputs

Floats = NDArray[np.float64]

BY_SHAP = ("HistGradientBoostingClassifier", "GradientBoostingClassifier")
"""Bases whose margins shap divides among the columns; for forests it divides probabilities, which are no scores."""

SHAP_ROUNDING = 1e-6

CANDIDATES = 50
"""Values of a column of numbers that are tried as a change: quantiles over the given rows."""


@dataclass(frozen=True)
class TurningChange:
    """The cheapest change of one column that turns the decision of a row.

    Its cost is 1 for another category; for a number it is the difference in standard deviations of the training rows.
    """

    column: Hashable
    value: Any
    instead_of: Any
    cost: float


@dataclass(frozen=True)
class Explanation:
    """The reasons for the decisions about some rows.

    Attributes
    ----------
    columns : tuple
        The columns of X that are inputs, and further inputs of a correction, such as the probability of a group.
    contributions : array of shape (n, columns), or (n, columns, classes) with several classes
        What each column adds to the decision score.
    constant : array of shape (n,), or (n, classes)
        What is left: `constant + contributions.sum(axis=1)` is `decision_function`.
    changes : tuple of TurningChange or None
        With `changeable=`, for each row the cheapest change that turns its decision; None if there is none.
    """

    columns: tuple[Hashable, ...]
    contributions: Floats
    constant: Floats
    changes: tuple[TurningChange | None, ...] = ()

    def largest(self, row: int, count: int = 5) -> list[tuple[Hashable, Floats]]:
        """Return the columns with the largest contributions to a row, the largest first."""
        found = self.contributions[row].reshape(len(self.columns), -1)
        order = np.argsort(-np.abs(found).max(axis=1), kind="stable")[:count]
        return [(self.columns[place], self.contributions[row, place]) for place in order]

    def table(self) -> TextTable:
        """Return the columns with the size of their contributions, the mean over rows, the largest first."""
        sizes = np.abs(self.contributions).reshape(*self.contributions.shape[:2], -1).mean(axis=(0, 2))
        rows = tuple((str(self.columns[place]), f"{sizes[place]:.4f}") for place in np.argsort(-sizes, kind="stable"))
        turned = sum(each is not None for each in self.changes)
        said = f"; a change that turns the decision was found for {turned:,}" if self.changes else ""
        return TextTable(f"Reasons of {len(self.constant):,} rows{said}", ("column", "mean size in the score"), rows)

    def __str__(self) -> str:
        return self.table().as_text()

    def _repr_html_(self) -> str:
        return self.table().as_html()


def column_blocks(encoder: Any, inputs: Inputs, width: int) -> list[tuple[Hashable, slice]]:
    """Return each column of X with its places among the encoded columns."""
    columns = encoder.columns_ if isinstance(encoder, TableEncoder) else None
    widths = [1] * width if columns is None else [len(column.outputs) for column in columns]
    names = inputs.names if columns is None or inputs.names is not None else [column.name for column in columns]
    ends = np.cumsum([0, *widths]).tolist()
    labels = [f"x{place}" for place in range(len(widths))] if names is None or len(names) != len(widths) else names
    return [(name, slice(*ends[place : place + 2])) for place, name in enumerate(labels)]


def contributions(
    weight: Floats, Z: Any, base: Any, inputs: Inputs, encoder: Any, names: Sequence[str]
) -> tuple[tuple[Hashable, ...], Floats]:
    """Return the columns, and what each adds to the logits, (n, columns, D).

    Parameters
    ----------
    weight : array of shape (D, inputs)
    Z : array of shape (n, inputs)
        Encoded columns and, with a base, probabilities and scores.
    base : BaseScores, or None
    inputs : Inputs
    encoder : transformer, or None
    names : sequence of str
        The names of the inputs of the model.
    """
    Z = dense(Z)
    n_scores, n_others = (0, 0) if base is None else (base.training.shape[1], base.n_others)
    n_encoded = Z.shape[1] - n_others
    terms = Z[:, :, None] * weight.T
    blocks = column_blocks(encoder, inputs, n_encoded) if n_encoded else []
    found = {name: terms[:, places].sum(axis=1) for name, places in blocks}
    divided = n_scores if n_scores and base.fitted is not None else 0
    found |= {names[place]: terms[:, place] for place in range(n_encoded, len(names) - divided)}
    if divided:
        for name, values in base_contributions(base.fitted, inputs, encoder).items():
            found[name] = found.get(name, 0.0) + values @ weight[:, -n_scores:].T
    return tuple(found), np.stack(list(found.values()), axis=1)


def base_contributions(fitted: FittedBase, inputs: Inputs, encoder: Any) -> dict[Hashable, Floats]:
    """Return what each column adds to the scores of a base, (n, scores)."""
    found: dict[Hashable, Floats] = {}
    for model in fitted.models:
        values = _additive(model, model.columns.table(inputs), fitted.classes) / len(fitted.models)
        values = values if fitted.scale.probabilities else values / fitted.scale.unit
        encoded = isinstance(model.columns, EncodedColumns)
        for name, places in column_blocks(encoder if encoded else None, inputs, values.shape[1]):
            found[name] = found.get(name, 0.0) + values[:, places].sum(axis=1)
    return found


def _additive(model: BaseModel, table: Any, classes: Sequence[Hashable]) -> Floats:
    """Return what each column of its table adds to the logits of a base: (n, columns, scores)."""
    estimator = model.estimator
    found: Any = None
    if is_a(estimator, "LGBMClassifier"):
        raw = np.asarray(estimator.predict(table, pred_contrib=True))
        found = raw.reshape(len(raw), -1, estimator.n_features_in_ + 1)[:, :, :-1]
    elif is_a(estimator, "XGBClassifier"):
        from xgboost import DMatrix  # type: ignore[import-not-found, unused-ignore]

        rows = DMatrix(table, enable_categorical=True)
        found = estimator.get_booster().predict(rows, pred_contribs=True, strict_shape=True)[:, :, :-1]
    elif hasattr(estimator, "coef_") and not isinstance(estimator, Pipeline):
        found = dense(table)[:, None, :] * np.asarray(estimator.coef_)
    elif is_a(estimator, *BY_SHAP) and find_spec("shap") is not None:
        from shap import TreeExplainer  # type: ignore[import-not-found, unused-ignore]

        raw = np.asarray(TreeExplainer(estimator).shap_values(table))
        found = raw[:, None, :] if raw.ndim == 2 else raw.transpose(0, 2, 1)
        left = np.asarray(estimator.decision_function(table)).reshape(len(raw), -1) - found.sum(axis=2)
        if np.ptp(left, axis=0).max() > SHAP_ROUNDING:  # it reads splits on categories as splits on numbers
            found = None
    if found is None:
        raise InputError(
            "{base} has no additive values, so its score cannot be divided among the columns.",
            "Linear models, LightGBM and XGBoost have them, and with shap boosted trees of scikit-learn on numbers. "
            "For other models, shap.Explainer(clf.decision_function, rows) estimates such shares.",
            base=named_base(estimator),
        )
    found, places = found.astype(np.float64).transpose(0, 2, 1), model.places(classes)
    if len(classes) == 2:
        return found if places[1] == 1 else -found
    return found[:, :, places] - found.mean(axis=2, keepdims=True)


def cheapest_changes(
    decide: Callable[[Any], NDArray[Any]], X: Any, inputs: Inputs, changeable: Sequence[Hashable], encoder: Any
) -> tuple[TurningChange | None, ...]:
    """Return for each row the cheapest change of one column that turns its decision; None if no change does.

    Numbers are changed to quantiles of the given rows, categories to any other that occurs there.

    Parameters
    ----------
    decide : function of a table
        Returns the decisions.
    X : table or array of shape (n, columns)
    inputs : Inputs
        The inputs of the model among these columns.
    changeable : sequence of names or numbers
        The columns that may be changed.
    encoder : transformer, or None
    """
    if not (isinstance(X, np.ndarray) or nw.dependencies.is_into_dataframe(X)):
        raise InputError("{changeable=} needs a table or an array, but X is a {kind}.", kind=type(X).__name__)
    whole, before = read_inputs(X), decide(X)
    best: list[TurningChange | None] = [None] * whole.n_rows
    for column in changeable:
        place = whole.position(column, "changeable=")
        values = _values(X, place)
        kinds = encoder.columns_ if isinstance(encoder, TableEncoder) else ()
        name = None if whole.names is None else whole.names[place]
        kind = next((each for each in kinds if inputs.names is not None and each.name == name), None)
        if isinstance(kind, CategoryColumn) or (kind is None and not whole.is_numeric(place)):
            _, rows, numbers = np.unique(values.astype(str), return_index=True, return_inverse=True)
            rows, scale = rows[~is_missing(values[rows])], 0.0
        else:
            numbers = values.astype(np.float64)
            scale = getattr(kind, "scale", 0.0) or float(np.nanstd(numbers)) or 1.0
            order = np.argsort(numbers, kind="stable")[: int(np.sum(~np.isnan(numbers)))]
            rows = order[np.linspace(0, len(order) - 1, min(CANDIDATES, len(order))).astype(np.intp)]
        for row in rows.tolist():
            apart = np.abs(numbers - numbers[row])
            costs = apart / scale if scale else (apart > 0).astype(np.float64)
            turned = (decide(_with_value_of(X, place, row)) != before) & ~np.isnan(costs)
            for each in np.flatnonzero(turned).tolist():
                held = best[each]
                if held is None or costs[each] < held.cost:
                    best[each] = TurningChange(column, values[row], values[each], float(costs[each]))
    return tuple(best)


def _values(X: Any, place: int) -> NDArray[Any]:
    if isinstance(X, np.ndarray):
        return np.asarray(X[:, place])
    return np.asarray(nw.from_native(X, eager_only=True)[:, place].to_list(), dtype=object)


def _with_value_of(X: Any, place: int, row: int) -> Any:
    """Return the rows with the value of one of them in a column."""
    if isinstance(X, np.ndarray):
        found = X.copy()
        found[:, place] = X[row, place]
        return found
    table = nw.from_native(X, eager_only=True)
    name = table.columns[place]
    return table.with_columns(table[name][[row] * len(table)].alias(name)).to_native()
