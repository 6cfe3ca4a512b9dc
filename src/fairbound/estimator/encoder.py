"""Encode a table as numbers.  The encoding is learnt from the weighted training rows, and applies to any rows.

    number     (x − mean) / standard deviation, or 0 if x is missing.  If training rows have missing values, a further
               0/1 column marks them
    category   one 0/1 column per word.  Beyond a maximum, the rarest words share "(other)".  "(missing)" has its own

Columns of a sparse matrix are scaled, but the mean is not subtracted: so they stay sparse, and a linear model is the
same up to its intercept.

A word that is not in the training rows counts as "(other)".  Without such a column, all its 0/1 columns are 0.  The
encoding of a row does not depend on the other rows.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fairbound._errors import Message, argument, bad_value, together
from fairbound.estimator.columns import (
    CategoryColumn,
    ColumnFacts,
    Floats,
    Moments,
    NumberColumn,
    joined_facts,
    standardize,
)
from fairbound.estimator.feature_names import check_names, learn_names
from fairbound.estimator.inputs import Inputs, dense, read_inputs
from fairbound.estimator.targets import read_weights


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table or an array as numbers.

    Parameters
    ----------
    categorical : sequence of column names or numbers, optional
        Columns of numbers that are categories, such as codes.  Columns of words always are.
    max_categories : int
        Largest number of 0/1 columns of one category, without the one for missing values.
    scale : bool
        Whether numbers are scaled to mean 0 and deviation 1.
    strict : bool
        Whether words and missing values raise an error instead of being encoded.

    Attributes
    ----------
    columns_ : tuple of NumberColumn and CategoryColumn
        The learnt encoding of each column.

    Examples
    --------
    >>> encoder = TableEncoder().fit([["cook", 30.0], ["nurse", 50.0], ["cook", None]])
    >>> encoder.get_feature_names_out().tolist()
    ['x0=cook', 'x0=nurse', 'x1', 'x1=(missing)']
    >>> encoder.transform([["nurse", 50.0], ["smith", None]])
    array([[0., 1., 1., 0.], [0., 0., 0., 1.]])
    """

    def __init__(
        self,
        *,
        categorical: Sequence[Any] | None = None,
        max_categories: int = 50,
        scale: bool = True,
        strict: bool = False,
    ) -> None:
        self.categorical = categorical
        self.max_categories = max_categories
        self.scale = scale
        self.strict = strict

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (as all transformers)
        sample_weight: Any = None,
        *,
        processes: Any = None,
    ) -> Self:
        """Learn means, deviations and words from the training rows; several processes learn from the rows of all."""
        with together(processes):  # before any exchange: the others would wait for a process that has failed
            if not isinstance(self.max_categories, int) or self.max_categories < 2:
                expected = "a whole number of at least 2, the most columns for one category"
                raise bad_value("max_categories", self.max_categories, expected)
            inputs = read_inputs(X)
            facts = self.learn(
                inputs, read_weights(sample_weight, inputs.n_rows, "sample_weight", scale=processes is None)
            )
        if processes is not None:
            facts = joined_facts(processes.gather(facts))
        self.columns_ = tuple(each.column(self.max_categories, scale=self.scale) for each in facts)
        return self

    def learn(self, inputs: Inputs, weights: Floats) -> list[ColumnFacts]:
        """Return the statistics of each column over the training rows."""
        learn_names(self, inputs)
        chosen = {*inputs.positions(self.categorical, argument("categorical"))}
        names = inputs.names_or_numbers
        spelled = [
            position in chosen or not (self.strict or inputs.is_numeric(position))
            for position in range(inputs.n_columns)
        ]
        found: list[ColumnFacts] = []
        for rows in inputs.blocks():
            block = inputs if inputs.n_rows == rows.stop - rows.start else inputs.take(rows)
            facts = self._learn_block(block, names, spelled, weights[rows])
            found = joined_facts([found, facts]) if found else facts
        self._warn_of_rounding(inputs, chosen)  # after reading, which raises for numbers that no float can hold
        return found

    def _learn_block(
        self, inputs: Inputs, names: Sequence[str], spelled: Sequence[bool], weights: Floats
    ) -> list[ColumnFacts]:
        matrix = plain_numbers(inputs) if self.strict else inputs.matrix()

        def learn(position: int, name: str) -> ColumnFacts:
            if spelled[position]:
                return self._learn_words(name, inputs, position, weights)
            if inputs.is_sparse:
                values, rows = inputs.stored(position)
                return self._learn_numbers(name, values.astype(np.float64), weights[rows], weights.sum())
            return self._learn_numbers(
                name, inputs.numbers(position) if matrix is None else matrix[:, position], weights
            )

        return [learn(position, name) for position, name in enumerate(names)]

    def transform(self, X: Any) -> Any:
        """Return the encoded rows, of shape (n, encoded columns): those of a sparse matrix as one."""
        check_is_fitted(self)
        inputs = read_inputs(X)
        check_names(self, inputs)
        return self.encoded(inputs)

    def encoded(self, inputs: Inputs) -> Any:
        """Return the encoded rows of checked inputs; shared inputs are encoded once."""
        return inputs.encoded_once((self.strict, self.columns_), lambda own: own.by_blocks(self.encode))

    def encode(self, inputs: Inputs) -> Any:
        """Encode the rows of inputs whose columns have been checked against those of `fit`."""
        matrix = plain_numbers(inputs) if self.strict else inputs.matrix()
        numbers = [column for column in self.columns_ if isinstance(column, NumberColumn)]
        if matrix is not None and len(numbers) == len(self.columns_) and not any(each.missing for each in numbers):
            return self._scale_all(matrix)
        stays = inputs.is_sparse and not any(each.mean for each in numbers)
        parts = []
        for position, column in enumerate(self.columns_):
            part = (
                column.encode(column.read(inputs, position))
                if isinstance(column, CategoryColumn)
                else column.encode(inputs.numbers(position))
            )
            parts.append(sparse.csr_array(part) if stays else part)
        return sparse.hstack(parts, format="csr") if stays else np.ascontiguousarray(np.concatenate(parts, axis=1))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Names of the encoded columns."""
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.outputs], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = tags.input_tags.allow_nan = not self.strict
        return tags

    def unseen(self, X: Any) -> dict[str, Counter[str]]:
        """Count the words that are not in the training rows, by column."""
        check_is_fitted(self)
        inputs = read_inputs(X)
        found = {
            column.name: column.unseen(column.read(inputs, position))
            for position, column in enumerate(self.columns_)
            if isinstance(column, CategoryColumn)
        }
        return {name: counted for name, counted in found.items() if counted}

    def _warn_of_rounding(self, inputs: Inputs, chosen: Set[int]) -> None:
        for position in range(inputs.n_columns):
            if position not in chosen and inputs.is_rounded(position):
                message = Message(
                    "Column {column} of X has whole numbers beyond 2**53, which are rounded to the nearest float. If "
                    "it is an identifier, leave the column out, or name it in {categorical=}.",
                    column=inputs.label(position),
                )
                warnings.warn(UserWarning(message), stacklevel=4)

    def _scale_all(self, matrix: Any) -> Any:
        """Scale all columns at once, with the same result as one by one."""
        means = np.array([column.mean for column in self.columns_])  # type: ignore[union-attr]
        scales = np.array([column.scale for column in self.columns_])  # type: ignore[union-attr]
        if sparse.issparse(matrix):
            if not means.any():
                found = np.nan_to_num(standardize(matrix.data, 0.0, scales[matrix.indices]), copy=False)
                return sparse.csr_array((found, matrix.indices, matrix.indptr), matrix.shape)
            matrix = dense(matrix)
        scaled = np.ascontiguousarray(standardize(matrix, means, scales))
        if np.isnan(scaled.sum()):
            scaled[np.isnan(scaled)] = 0.0
        return scaled

    def _learn_numbers(self, name: str, values: Floats, weights: Floats, total: float | None = None) -> ColumnFacts:
        """Learn a column from its values and their weights; rows beyond those, up to the total weight, have a 0."""
        values = np.ascontiguousarray(values)  # a column of a matrix is read several times
        gaps, used = np.isnan(values), weights > 0
        known = used & ~gaps
        moments = Moments()
        if self.scale:
            moments.add(*((values, weights) if known.all() else (values[known], weights[known])))
            zeros = 0.0 if total is None else total - float(weights.sum())
            if zeros > 1e-12 * (total or 0.0):
                moments.add(np.zeros(1), np.array([zeros]))
        return ColumnFacts(name, moments, missing=bool((used & gaps).any()), centred=total is None)

    def _learn_words(self, name: str, inputs: Inputs, position: int, weights: Floats) -> ColumnFacts:
        totals: dict[str, float] = {}
        missing, found = False, inputs.words(position)
        for word, weight in zip(found.words, found.sums(weights), strict=True):
            if weight > 0 and word is not None:
                totals[word] = totals.get(word, 0.0) + weight
            missing = missing or (word is None and weight > 0)
        return ColumnFacts(name, None, totals, missing, inputs.is_numeric(position))


def plain_numbers(inputs: Inputs, whose: str = "Column") -> Any:
    """Return all columns as one matrix, dense or sparse; words and missing values raise an error.

    Parameters
    ----------
    inputs : Inputs
    whose : str
        The beginning of a message that names a column.
    """
    matrix = inputs.matrix()
    if matrix is None:
        for position in range(inputs.n_columns):
            if not inputs.is_numeric(position):
                raise ValueError(
                    f"{whose} {inputs.label(position)} holds words, where numbers are needed: encode it, or use "
                    'encoder="auto", which makes 0/1 columns of them.'
                )
        matrix = np.stack([inputs.numbers(position) for position in range(inputs.n_columns)], axis=1)
    gaps = np.isnan(matrix.data if inputs.is_sparse else matrix)
    if gaps.any():
        place = gaps.argmax()
        row, column = (each[place] for each in matrix.tocoo().coords) if inputs.is_sparse else np.argwhere(gaps)[0]
        raise ValueError(
            f"Input X contains NaN, first in row {inputs.first + row}, column {inputs.label(int(column))}: impute it, "
            'or use encoder="auto", which does.'
        )
    return matrix if inputs.is_sparse else np.ascontiguousarray(matrix)
