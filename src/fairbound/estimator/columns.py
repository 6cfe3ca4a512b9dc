"""The columns of X as `fit` learns them: how each is encoded, as a number or as a category."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._values import has_infinity
from fairbound.data import ColumnFormat, as_word

if TYPE_CHECKING:
    from fairbound.estimator.inputs import Inputs

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Words:
    """A column as words.

    Attributes
    ----------
    codes : array of shape (n,)
        The place of each row's word in `words`.
    words : list of str
        None stands for a missing value.  Several values may have the same word.
    given : list
        The value that each word stands for.
    """

    codes: NDArray[np.intp]
    words: list[str | None]
    given: list[Any]

    def sums(self, weights: NDArray[Any] | None = None) -> list[float]:
        """Return the sum of the weights of the rows of each word, or their number."""
        found: list[float] = np.bincount(self.codes, weights, minlength=len(self.words)).tolist()
        return found


NUMBERS = ColumnFormat("number")
"""How numbers are written as text, unless the file says otherwise."""

FARTHEST = 1e100
"""Scaled numbers are clipped here, so that no product of them overflows."""


OTHER, MISSING = "(other)", "(missing)"


MOST_RARE = 10_000
"""Most rare words that are stored for a column, to distinguish them from words that are not in the training rows."""


@dataclass(frozen=True)
class NumberColumn:
    """How a column of numbers is scaled.

    Attributes
    ----------
    name : str
    mean, scale : float
        Mean and standard deviation over the training rows; the scale of a constant column is 1.
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
        """Names of the encoded columns."""
        further = [OTHER] * self.other + [MISSING] * self.missing
        return tuple(f"{self.name}={word}" for word in (*self.words, *further))

    def read(self, inputs: Inputs, position: int) -> Words:
        """Read a column as the words of the training rows, whatever type it has now.

        If codes were numbers in training and are text now, "01" and "1.0" are both read as "1".  Words that were text
        in training may be numbers now, because libraries infer types file by file.  Then 1 is read as "1", although the
        file may have had "01".
        """
        found = inputs.words(position)
        if self.numeric:
            return replace(found, words=[None if word is None else plain_word(word) for word in found.words])
        lost = {plain_word(word): word for word in (*self.words, *self.rare) if plain_word(word) != word}
        for place, (word, value) in enumerate(zip(found.words, found.given, strict=True)):
            rows = found.codes == place if word in lost and not isinstance(value, str) else np.zeros(1, dtype=bool)
            if rows.any():
                raise InputError(
                    "Column {column} was text in training, with values such as {known!r}, but has the number "
                    "{value!r} in row {row} of {place}, which may have been that value.",
                    "Give the column as text, {how}.",
                    column=inputs.label(position),
                    known=lost[str(word)],
                    value=value,
                    row=inputs.row(rows),
                    place="X",
                    how="with pandas by read_csv(..., dtype=str)",
                )
        return found

    def unseen(self, values: Words) -> Counter[str]:
        """Count the words that no training row has.  Rare words beyond the first `MOST_RARE` are counted, too."""
        known, found = {*self.words, *self.rare, None}, Counter[str]()
        for word, rows in zip(values.words, values.sums(), strict=True):
            if word is not None and word not in known and rows:
                found[word] += int(rows)
        return found

    def codes(self, values: Words) -> NDArray[np.int64]:
        """Return the index of the 0/1 column of each value, or -1."""
        places: dict[Any, int] = {word: place for place, word in enumerate(self.words)}
        unknown = len(self.words) if self.other else -1
        gap = len(self.words) + self.other if self.missing else unknown
        found = [gap if word is None else places.get(word, unknown) for word in values.words]
        return np.array(found, dtype=np.int64)[values.codes]

    def encode(self, values: Words) -> Floats:
        """Return the 0/1 columns."""
        return (self.codes(values)[:, None] == np.arange(len(self.outputs))).astype(np.float64)


def plain_word(word: str) -> str:
    """Return text in one form: a number without leading or trailing zeros, "True" or "False", else unchanged.

    >>> plain_word("01"), plain_word("2.50"), plain_word("true"), plain_word("A1")
    ('1', '2.5', 'True', 'A1')
    """
    if word.lower() in ("true", "false"):
        return word.capitalize()
    number = NUMBERS.number(word.strip())
    return word if number is None or math.isinf(number) else as_word(number)


Column = NumberColumn | CategoryColumn


def category_column(
    name: str, totals: Mapping[str, float], most: int, *, missing: bool, numeric: bool
) -> CategoryColumn:
    """Return the encoding of a column of categories from the total weight of each word."""
    words = _sorted_words(totals)
    by_weight = sorted(words, key=lambda word: -totals[word])  # stable: ties in order
    other = len(words) > most
    rare = by_weight[most - 1 :][:MOST_RARE] if other else []
    if other:
        kept = set(by_weight[: most - 1])
        words = [word for word in words if word in kept]
    return CategoryColumn(name, tuple(words), numeric, other, missing, tuple(rare))


class Moments:
    """Mean and deviation of a column by weight, computed from one block of rows after another.

    Two parts of weights W and W' with means m and m' and variances v and v' have together the variance
    (W v + W' v') / (W + W') + (m − m')² W W' / (W + W')².  Numbers are scaled by the largest, since squares of large
    numbers overflow.
    """

    def __init__(self) -> None:
        self.weight, self.mean, self.deviation = 0.0, 0.0, 0.0
        self.least, self.most = math.inf, -math.inf

    def add(self, values: Floats, weights: Floats) -> None:
        """Add the known values of a block, and their weights, which are positive."""
        if not len(values):
            return
        low, high, weight = float(values.min()), float(values.max()), float(weights.sum())
        self.least, self.most = min(self.least, low), max(self.most, high)
        largest = max(abs(low), abs(high))
        if low == high:
            mean, deviation = low, 0.0
        else:
            scaled, share = values / largest, weights / weight  # the sum of large numbers may overflow
            middle = float((share * scaled).sum())
            mean = middle * largest
            deviation = math.sqrt(float((share * (scaled - middle) ** 2).sum())) * largest
        self._join(weight, mean, deviation)

    def join(self, other: Moments) -> None:
        """Add the values of another part of the column."""
        if other.weight:
            self.least, self.most = min(self.least, other.least), max(self.most, other.most)
            self._join(other.weight, other.mean, other.deviation)

    def _join(self, weight: float, mean: float, deviation: float) -> None:
        if not self.weight:
            self.weight, self.mean, self.deviation = weight, mean, deviation
            return
        scale = max(abs(self.least), abs(self.most)) or 1.0
        before, after = self.weight / (self.weight + weight), weight / (self.weight + weight)
        apart = self.mean / scale - mean / scale
        variance = before * (self.deviation / scale) ** 2 + after * (deviation / scale) ** 2 + apart**2 * before * after
        self.weight, self.deviation = self.weight + weight, math.sqrt(variance) * scale
        self.mean = before * self.mean + after * mean

    @property
    def mean_and_scale(self) -> tuple[float, float]:
        """Return the mean and the deviation.  A deviation that is a rounding error counts as 0; 1 is returned then."""
        if self.least == self.most:
            return self.least, 1.0
        largest = max(abs(self.least), abs(self.most))
        return self.mean, self.deviation if self.deviation / largest > 1e-13 and self.deviation > 0 else 1.0


@dataclass
class ColumnFacts:
    """Statistics of one column, collected from the training rows part by part.

    Attributes
    ----------
    name : str
    moments : Moments or None
        Of a column of numbers.
    totals : dict of str to float
        The weight of each word of a category.
    missing : bool
        Whether a value is missing.
    numeric : bool
        Whether a category is a column of numbers.
    centred : bool
        Whether the mean is subtracted from numbers.
    """

    name: str
    moments: Moments | None = None
    totals: dict[str, float] = field(default_factory=dict)
    missing: bool = False
    numeric: bool = False
    centred: bool = True

    def join(self, other: ColumnFacts) -> None:
        """Add the statistics of other rows."""
        if other.name != self.name or (other.moments is None) != (self.moments is None):
            kinds = ["words" if each.moments is None else "numbers" for each in (self, other)]
            raise ValueError(
                f"The processes have different columns: {self.name!r} with {kinds[0]}, and {other.name!r} with "
                f"{kinds[1]}. Give all of them the same columns, of the same types."
            )
        if self.moments is not None and other.moments is not None:
            self.moments.join(other.moments)
        for word, total in other.totals.items():
            self.totals[word] = self.totals.get(word, 0.0) + total
        self.missing, self.numeric = self.missing or other.missing, self.numeric and other.numeric
        self.centred = self.centred and other.centred

    def column(self, max_categories: int, *, scale: bool = True) -> NumberColumn | CategoryColumn:
        """Return the encoding of the column."""
        if self.moments is None:
            return category_column(self.name, self.totals, max_categories, missing=self.missing, numeric=self.numeric)
        mean, width = self.moments.mean_and_scale if scale and self.moments.weight else (0.0, 1.0)
        return NumberColumn(self.name, mean if self.centred else 0.0, width, self.missing)


def joined_facts(parts: Sequence[list[ColumnFacts]]) -> list[ColumnFacts]:
    """Return the statistics of all columns over several parts of the rows; the first part is changed."""
    facts, *others = parts
    for other in others:
        if len(other) != len(facts):
            raise ValueError(
                f"One process has {len(facts)} columns, another {len(other)}: give all of them the same columns."
            )
        for mine, theirs in zip(facts, other, strict=True):
            mine.join(theirs)
    return facts


def _sorted_words(words: Iterable[str]) -> list[str]:
    """Return words in numerical order if all are numbers, else in alphabetical order."""
    ordered = sorted(words)
    try:
        return sorted(ordered, key=float)
    except ValueError:
        return ordered


def standardize(values: Floats, mean: Any, scale: Any) -> Floats:
    """Return (values − mean) / scale, clipped at `FARTHEST`; the difference itself may overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values - mean
        scaled /= scale
        if has_infinity(scaled):
            scaled = np.where(np.isinf(scaled), (0.5 * values - 0.5 * mean) / scale * 2.0, scaled)
    return np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)
