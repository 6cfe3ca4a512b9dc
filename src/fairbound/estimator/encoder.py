"""Encode a table as numbers.  The encoding is learnt from the weighted training rows, and applies to any rows.

    number     (x − mean) / standard deviation, or 0 if x is missing.  If training rows have missing values, a further
               0/1 column marks them
    category   one 0/1 column per word.  Beyond a maximum, the rarest words share "(other)".  "(missing)" has its own

A word that is not in the training rows counts as "(other)".  Without such a column, all its 0/1 columns are 0.  The
encoding of a row does not depend on the other rows.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fairbound._errors import InputError, Message, argument, bad_value
from fairbound._values import has_infinity
from fairbound.data import as_word
from fairbound.estimator.inputs import NUMBERS, Floats, Inputs, Words, read_inputs
from fairbound.estimator.names import check_names, learn_names
from fairbound.estimator.rows import read_weights

FARTHEST = 1e100
"""Scaled numbers are clipped here, so that no product of them overflows."""

OTHER, MISSING = "(other)", "(missing)"
MOST_RARE = 10_000
"""The most rare words of a column that are remembered, to tell them from words that are not in the training rows."""


@dataclass(frozen=True)
class NumberColumn:
    """How a column of numbers is scaled.

    Attributes
    ----------
    name : str
    mean, scale : float
        Of the training rows; the scale of a constant column is 1.
    missing : bool
        Whether a second column says where the number is missing.
    """

    name: str
    mean: float
    scale: float
    missing: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name, f"{self.name}={MISSING}") if self.missing else (self.name,)

    def encode(self, values: Floats) -> Floats:
        """Return the scaled numbers and, if needed, a 0/1 column for missing values."""
        gaps = np.isnan(values)
        scaled = standardize(values, self.mean, self.scale)
        scaled[gaps] = 0.0
        return np.stack([scaled, gaps.astype(np.float64)], axis=1) if self.missing else scaled[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """How a column of categories is encoded: the words that have a 0/1 column each.

    Attributes
    ----------
    name : str
    words : tuple of str
    numeric : bool
        Whether the words are numbers, read from codes.
    other, missing : bool
        Whether there are columns for rarer words and for missing ones.
    rare : tuple of str
        The rarer words of the training rows, at most `MOST_RARE` of them.
    """

    name: str
    words: tuple[str, ...]
    numeric: bool
    other: bool
    missing: bool
    rare: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        further = [OTHER] * self.other + [MISSING] * self.missing
        return tuple(f"{self.name}={word}" for word in (*self.words, *further))

    def read(self, inputs: Inputs, position: int) -> Words:
        """Read a column as the words of the training rows, whatever type it has now.

        Codes that were numbers in training may come as text: "01" and "1.0" are the word "1" then.  Words that were
        text in training may come as numbers, because libraries guess types anew in each file.  Then 1 is read as "1",
        although the file may have had "01".
        """
        found = inputs.words(position)
        if self.numeric:
            plain = {word: canonical(word) for word in set(found.tolist()) - {None}}
            return np.array([plain.get(word) for word in found.tolist()], dtype=object)
        lost = {canonical(word): word for word in (*self.words, *self.rare) if canonical(word) != word}
        if lost:
            for row, value in enumerate(inputs.values(position).tolist()):
                if found[row] in lost and not isinstance(value, str):
                    raise InputError(
                        "Column {column} was text in training, with values such as {known!r}, but has the number "
                        "{value!r} in row {row} of {place}, which may have been that value.",
                        "Give the column as text, {how}.",
                        column=inputs.label(position),
                        known=lost[found[row]],
                        value=value,
                        row=row,
                        place="X",
                        how="with pandas by read_csv(..., dtype=str)",
                    )
        return found

    def unseen(self, values: Words) -> Counter[str]:
        """Count the words that no training row has.  If there were too many to remember, rare words count, too."""
        known = {*self.words, *self.rare, None}
        return Counter(word for word in values.tolist() if word not in known)

    def codes(self, values: Words) -> NDArray[np.int64]:
        """Return the index of the 0/1 column of each value, or -1."""
        places: dict[Any, int] = {word: place for place, word in enumerate(self.words)}
        unknown = len(self.words) if self.other else -1
        gap = len(self.words) + self.other if self.missing else unknown
        found = [gap if value is None else places.get(value, unknown) for value in values.tolist()]
        return np.array(found, dtype=np.int64)

    def encode(self, values: Words) -> Floats:
        """Return the 0/1 columns."""
        return (self.codes(values)[:, None] == np.arange(len(self.outputs))).astype(np.float64)


def canonical(word: str) -> str:
    """Return text in one form: a number without leading or trailing zeros, "True" or "False", else unchanged.

    >>> canonical("01"), canonical("2.50"), canonical("true"), canonical("A1")
    ('1', '2.5', 'True', 'A1')
    """
    if word.lower() in ("true", "false"):
        return word.capitalize()
    number = NUMBERS.number(word.strip())
    return word if number is None or math.isinf(number) else as_word(number)


Column = NumberColumn | CategoryColumn


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table or an array as numbers.

    Parameters
    ----------
    categorical : sequence of column names or numbers, optional
        Columns of numbers that are categories, such as codes.  Columns of words always are.
    max_categories : int
        The most 0/1 columns of one category, not counting the one for missing values.
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002 (as all transformers)
        """Learn means, deviations and words from the training rows."""
        if not isinstance(self.max_categories, int) or self.max_categories < 2:
            raise bad_value(
                "max_categories", self.max_categories, "a whole number of at least 2, the most columns for one category"
            )
        inputs = read_inputs(X)
        weights = read_weights(sample_weight, inputs.n_rows, "sample_weight")
        learn_names(self, inputs)
        named = _listed(self.categorical)
        chosen = {inputs.position(column, argument("categorical")) for column in named}
        names = inputs.names or [f"x{position}" for position in range(inputs.n_columns)]
        matrix = plain_numbers(inputs) if self.strict else inputs.matrix()
        self.columns_ = tuple(
            self._learn_words(name, inputs, position, weights)
            if position in chosen or (matrix is None and not inputs.is_numeric(position))
            else self._learn_numbers(name, inputs.numbers(position) if matrix is None else matrix[:, position], weights)
            for position, name in enumerate(names)
        )
        self._warn_of_rounding(inputs, chosen)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the encoded rows, of shape (n, encoded columns)."""
        check_is_fitted(self)
        inputs = read_inputs(X)
        check_names(self, inputs)
        return self.encoded(inputs)

    def encoded(self, inputs: Inputs) -> Floats:
        """Return the encoded rows of checked inputs; shared inputs are encoded once."""
        return inputs.encoded_once((self.strict, self.columns_), self.encode)

    def encode(self, inputs: Inputs) -> Floats:
        """Encode the rows of inputs whose columns have been checked against those of `fit`."""
        matrix = plain_numbers(inputs) if self.strict else inputs.matrix()
        if matrix is not None and all(
            isinstance(column, NumberColumn) and not column.missing for column in self.columns_
        ):
            return self._scale_all(matrix)
        parts = []
        for position, column in enumerate(self.columns_):
            if isinstance(column, CategoryColumn):
                parts.append(column.encode(column.read(inputs, position)))
            else:
                parts.append(column.encode(inputs.numbers(position) if matrix is None else matrix[:, position].copy()))
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

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
                warnings.warn(UserWarning(message), stacklevel=3)

    def _scale_all(self, matrix: Floats) -> Floats:
        """Scale all columns at once, with the same result as one by one."""
        means = np.array([column.mean for column in self.columns_])  # type: ignore[union-attr]
        scales = np.array([column.scale for column in self.columns_])  # type: ignore[union-attr]
        scaled = np.ascontiguousarray(standardize(matrix, means, scales))
        if np.isnan(scaled.sum()):
            scaled[np.isnan(scaled)] = 0.0
        return scaled

    def _learn_numbers(self, name: str, values: Floats, weights: Floats) -> NumberColumn:
        gaps, used = np.isnan(values), weights > 0
        known = used & ~gaps
        missing = bool((used & gaps).any())
        if not self.scale or not known.any():
            return NumberColumn(name, 0.0, 1.0, missing)
        mean, scale = _moments(values, weights) if known.all() else _moments(values[known], weights[known])
        return NumberColumn(name, mean, scale, missing)

    def _learn_words(self, name: str, inputs: Inputs, position: int, weights: Floats) -> CategoryColumn:
        totals: dict[str, float] = {}
        missing = False
        for word, weight in zip(inputs.words(position).tolist(), weights.tolist(), strict=True):
            if weight > 0:
                if word is None:
                    missing = True
                else:
                    totals[word] = totals.get(word, 0.0) + weight
        words = _in_order(totals)
        by_weight = sorted(words, key=lambda word: -totals[word])  # stable: ties in order
        other = len(words) > self.max_categories
        rare = by_weight[self.max_categories - 1 :][:MOST_RARE] if other else []
        if other:
            most = set(by_weight[: self.max_categories - 1])
            words = [word for word in words if word in most]
        return CategoryColumn(name, tuple(words), inputs.is_numeric(position), other, missing, tuple(rare))


def _moments(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return mean and deviation by weight; a deviation that is only rounding counts as 0."""
    largest = float(np.abs(values).max())
    if values.min() == values.max():
        return float(values[0]), 1.0
    scaled, share = values / largest, weights / weights.sum()  # the sum of large numbers may overflow
    mean = float((share * scaled).sum())
    deviation = math.sqrt(float((share * (scaled - mean) ** 2).sum()))
    scale = deviation * largest
    return mean * largest, scale if deviation > 1e-13 and scale > 0 else 1.0


def _in_order(words: Iterable[str]) -> list[str]:
    """Return words in numerical order if all are numbers, else in alphabetical order."""
    listed = sorted(words)
    try:
        return sorted(listed, key=float)
    except ValueError:
        return listed


def _listed(columns: Any) -> list[Any]:
    if columns is None:
        return []
    if isinstance(columns, str | int | np.integer):
        return [columns]
    return list(columns)


def plain_numbers(inputs: Inputs, whose: str = "Column") -> Floats:
    """Return all columns as one matrix; words and missing values raise an error.

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
                    'preprocessing="auto", which makes 0/1 columns of them.'
                )
        matrix = np.stack([inputs.numbers(position) for position in range(inputs.n_columns)], axis=1)
    if np.isnan(matrix).any():
        row, column = np.argwhere(np.isnan(matrix))[0]
        raise ValueError(
            f"Input X contains NaN, first in row {row}, column {inputs.label(int(column))}: impute it, or use "
            'preprocessing="auto", which does.'
        )
    return np.ascontiguousarray(matrix)


def standardize(values: Floats, mean: Any, scale: Any) -> Floats:
    """Return (values − mean) / scale, clipped at `FARTHEST`; the difference itself may overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values - mean
        scaled /= scale
        if has_infinity(scaled):
            scaled = np.where(np.isinf(scaled), (0.5 * values - 0.5 * mean) / scale * 2.0, scaled)
    return np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)
