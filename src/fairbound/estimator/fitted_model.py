"""What every fitted model has: its inputs, its outputs for new rows, its base, and how it is saved."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fairbound._model_settings import Groups
from fairbound.data import Source
from fairbound.estimator.chosen_encoder import encode
from fairbound.estimator.correction import read_base_score
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.feature_names import check_names
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.models import coefficients, logits, model_inputs
from fairbound.estimator.parameters import NamedParameters
from fairbound.estimator.small_groups import align_groups
from fairbound.estimator.sources import new_tables
from fairbound.fairness import Cells

ENCODED_AT_ONCE = 2**16
"""Rows that are encoded at once, which bounds the memory of a prediction."""


class FittedModel(NamedParameters):
    """An estimator that is fitted under limits: a classifier or a regressor."""

    groups: Any
    encoder: Any
    encoder_: Any
    model_: Any
    result_: Any
    group_columns_: tuple[int, ...]
    left_columns_: tuple[int, ...]
    n_features_in_: int
    by_name_: bool
    _scores: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.encoder is not None
        return tags

    def _repr_mimebundle_(self, **given: Any) -> dict[str, str]:
        """Return what a notebook shows: the parameters as scikit-learn shows them and, after a fit, its result."""
        shown: dict[str, str] = super()._repr_mimebundle_(**given)
        if "text/html" in shown and hasattr(self, "result_"):
            shown["text/html"] += self.result_._repr_html_()
        return shown

    @property
    def _n_labels(self) -> int:
        """The number of classes; 1 for a regression."""
        return 1

    def _outputs(self, X: Any, base_score: Any = None) -> NDArray[np.float64]:
        """Return the outputs of the model for new rows."""
        check_is_fitted(self)
        source = Source.of(X)
        if source is not None:
            parts = [
                self._outputs(table, None if base_score is None else base_score[first : first + len(table)])
                for first, table in new_tables(self, source)
            ]
            if not parts:
                raise ValueError("The stream has no row; give at least one.")
            return np.concatenate(parts)
        inputs = self._read_new(X)
        scores = None if base_score is None else read_base_score(base_score, inputs.n_rows)
        parts = []
        at_once = ENCODED_AT_ONCE if inputs.encoded is None else inputs.n_rows  # shared inputs are kept encoded
        for start in range(0, inputs.n_rows, at_once):
            rows = slice(start, start + at_once)
            part = inputs.take(rows) if inputs.n_rows > at_once else inputs
            given = None if scores is None else scores[rows]
            parts.append(logits(self.model_, self._numbers(part, given), self._n_labels))
        found = np.concatenate(parts)
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
            raise ValueError(f"The network gives NaN or infinity for row {row} of X: the numbers there are too large.")
        return found

    def _numbers(self, inputs: Inputs, base_score: Any) -> NDArray[np.float64]:
        """Return the inputs of the model: encoded columns and, with a base, its scores or the given ones."""
        Z = encode(self.encoder_, inputs)
        if self._scores is not None:
            return self._scores.join_new(Z, inputs, base_score)
        if base_score is not None:
            raise ValueError("base_score= is given, but the model was fitted without a base: leave it out.")
        return model_inputs(self.model_, Z)

    @property
    def base_(self) -> FittedBase | None:
        """The base that scores new rows; None without a base, and if scores were given."""
        check_is_fitted(self)
        return None if self._scores is None else self._scores.fitted

    @property
    def base_score_(self) -> NDArray[np.float64] | None:
        """The scores of the training rows, as `base_score=` takes them; None without a base."""
        check_is_fitted(self)
        if self._scores is None or not len(self._scores.training):  # a model that was read from a folder has none
            return None
        return self._scores.as_given()

    def _read_new(self, X: Any) -> Inputs:
        inputs = read_inputs(X)
        learnt = getattr(self, "feature_names_in_", None)
        asked = [position for position in self.group_columns_ if position not in self.left_columns_]
        if inputs.names is not None and learnt is not None:
            absent = [repr(learnt[position]) for position in asked if learnt[position] not in inputs.names]
        else:
            absent = [f"number {each}" for each in asked if inputs.n_columns == self.n_features_in_ - len(asked)]
        if absent:
            raise ValueError(
                f"X lacks the column {absent[0]}. It is an input of the model, because it was trained with "
                "Groups(as_input=True): add the column, or train without that setting."
            )
        return check_names(self, inputs, self.left_columns_, by_name=self.by_name_, level=5)

    def _linear(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_is_fitted(self)
        found = coefficients(self.model_)
        if found is None:
            raise AttributeError(
                f"{type(self).__name__} has coefficients only if it is linear (hidden=()). A network is no "
                "sum over columns; shap.Explainer(clf.decision_function, rows) estimates shares of its score."
            )
        return found

    def settle_groups(self, cells: Cells) -> Cells:
        """Return cells with the groups of the limits.

        Small groups that `fit` left out or merged are left out or merged in these cells, too.
        """
        check_is_fitted(self)
        known: dict[str, list[Any]] = {}
        for each in self.result_.groups:
            known.setdefault(each.grouping, []).append(each.group)
        policy = Groups.of(self.groups).small if self.result_.limits else "error"
        return align_groups(cells, known, self.result_.small_groups, policy)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, base: bool = True) -> None:
        """Write the model as a folder with one JSON file, which holds no code.  `fairbound.load` reads it.

        An existing model is replaced in one step, another file only with `overwrite=True`.  If `path` is a link, the
        folder that it points to is used.

        A base is written, too, if that is possible without pickle: models of LightGBM and XGBoost, and those of
        scikit-learn by skops.  With `base=False` it is left out, and `load(path, base=...)` takes it again.
        """
        from fairbound.persistence import save_estimator

        check_is_fitted(self)
        save_estimator(self, path, overwrite=overwrite, base=base)
