"""Check and scale the weights of rows, and add them up without rounding.

Sums of weights, and of their squares in some intervals, must neither overflow nor underflow.  A common factor of all
weights does not change a fit.  So a fit divides by a power of two, which changes no digit.

Sums of decisions determine whether a limit is kept.  So they must not depend on the order of the rows, or on the number
of processes that share them.  If all weights are equal, rows are counted.  Otherwise each weight is split into two
parts, and each part is rounded to a grid on which float64 adds without rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, bad_value
from fairbound._sharing import gathered, total
from fairbound._values import as_numbers

Floats = NDArray[np.float64]

WIDEST = 2.0**50
"""The largest weight may be at most this many times the smallest; a smaller weight would be lost in a sum."""


LEAST, MOST = 1e-100, 1e100
"""Range of the largest weight where weights are not rescaled."""


def check_weights(weights: Any, n_rows: int, name: str) -> Floats:
    """Return one finite weight of at least 0 for each row, not all 0, within a range that sums can hold.

    >>> check_weights([1, 2, 0], 3, "sample_weight")
    array([1., 2., 0.])
    """
    array = as_numbers(weights, name)
    if array.shape != (n_rows,):
        raise InputError(
            "{name} must have one weight for each row, shape ({rows},), but has shape {shape}.",
            name=name,
            rows=n_rows,
            shape=array.shape,
        )
    gaps = np.flatnonzero(np.isnan(array))
    if len(gaps):
        raise InputError(
            "{name} has no value in {gaps:,} of {rows:,} rows, first in row {row:,}.",
            "Give every row a weight.",
            name=name,
            gaps=len(gaps),
            rows=n_rows,
            row=gaps[0] + 1,
        )
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise InputError(
            "{name} is {value:g} in row {row:,}.",
            "Give finite weights of at least 0.",
            name=name,
            value=array[wrong[0]],
            row=wrong[0] + 1,
        )
    check_range(float(array[array > 0].min(initial=np.inf)), float(array.max(initial=0.0)), name)
    return array


def check_range(smallest: float, largest: float, name: str) -> None:
    """Raise an error unless sums can hold weights from the smallest above 0 to the largest, and there is one."""
    if not largest:
        raise InputError("{name} is zero in every row.", "Give at least one row a weight above 0.", name=name)
    if smallest < largest / WIDEST:
        raise InputError(
            "{name} ranges from {smallest:g} to {largest:g}, but weights more than {widest:.0e} times smaller than "
            "the largest do not count in a sum.",
            "Set the smallest weights to 0, or bring them closer to the others.",
            name=name,
            smallest=smallest,
            largest=largest,
            widest=WIDEST,
        )


def check_largest_weight(weights: Floats, largest_weight: float) -> None:
    """Raise an error if a row has a larger weight than the stated `largest_weight`."""
    if not 0 < largest_weight < math.inf:
        raise bad_value("largest_weight", largest_weight, "a finite number above 0")
    if len(weights) and weights.max() > largest_weight:
        raise InputError(
            "{largest_weight=value} is below the weight {weight:g} of a row.",
            "State the largest weight that a row can have by design.",
            value=largest_weight,
            weight=weights.max(),
        )


def check_magnitude(weights: Floats, name: str) -> Floats:
    """Return the weights; refuse those whose sums and squares a double cannot hold."""
    largest = float(weights.max())
    if not LEAST <= largest <= MOST:
        raise InputError(
            "The largest weight in {name} is {largest:g}, but must lie between {least:g} and {most:g}.",
            "Multiply all weights by the same factor.",
            name=name,
            largest=largest,
            least=LEAST,
            most=MOST,
        )
    return weights


def scale_weights(weights: Floats, processes: Any = None) -> Floats:
    """Return the weights times the power of two that brings the largest of all processes to at least 1 and below 2.

    >>> scale_weights(np.array([3.0, 6.0]))
    array([0.75, 1.5 ])
    """
    power = 1 - int(np.frexp(max(gathered(weights.max(initial=0.0), processes)))[1])
    return np.ldexp(weights, power) if power else weights


@dataclass(frozen=True)
class WeightParts:
    """Weights split into parts whose sums over all rows are exact, so that the order of addition does not matter.

    Equal weights are counted: one part, 1 for every row.  Others have two parts.  Each part is a multiple of its step,
    and all rows together have less than 2⁵³ steps, so float64 adds them without rounding.  The remainder beyond the
    second part is less than 2⁻⁵² of the largest weight, for up to 100 million rows.

    Attributes
    ----------
    unit : float
        Factor on all sums: the weight of a row if all weights are equal, else 1.
    steps : tuple of float
        The step of each part; empty if all weights are equal.
    total : float
        The sum of all weights, divided by `unit`.
    """

    unit: float
    steps: tuple[float, ...]
    total: float

    @classmethod
    def build(cls, weights: Floats, processes: Any = None) -> WeightParts:
        """Return the parts of the weights of all rows, also those of other processes."""
        own = float(weights.min(initial=math.inf)), float(weights.max(initial=0.0)), len(weights)
        least, largest, counts = zip(*gathered(own, processes), strict=True)
        unit, count = max(largest), sum(counts)
        if min(least) >= unit:
            return cls(unit if count else 1.0, (), float(count))
        blank = cls.of_size(unit, count)
        sums = np.array([sum(float(part.sum()) for part in blank.split(weights))])
        return replace(blank, total=float(total(sums, processes)[0]))

    @classmethod
    def of_size(cls, largest: float, count: int) -> WeightParts:
        """Return the parts of `count` weights of which the largest is known; the total is not."""
        # Adding `count` numbers needs log2(count) more bits than one number.  The sum must fit in 53 bits.
        bits = 52 - math.ceil(math.log2(max(count, 2)))
        first = 2.0 ** (math.frexp(largest)[1] - bits)
        return cls(1.0, (first, first * 2.0**-bits), math.nan)

    def __len__(self) -> int:
        return max(len(self.steps), 1)

    def scale(self, values: NDArray[Any], weights: Floats) -> NDArray[Any]:
        """Return values (..., n, D) times the weights of their rows."""
        return values * (weights.astype(values.dtype, copy=False)[:, None] if self.steps else self.unit)

    def split(self, weights: Floats) -> list[Floats]:
        """Return the parts of some weights."""
        parts, rest = [], weights
        for step in self.steps:
            parts.append(np.round(rest / step) * step)
            rest = rest - parts[-1]
        return parts or [np.ones_like(weights)]

    def sums(self, index: NDArray[np.int64], weights: Floats, values: NDArray[Any], size: int) -> Floats:
        """Return the sums of values (n, O) times weights over `size` bins, (parts, size, O), for this process."""
        split = self.split(weights) if self.steps else [None]
        columns = np.asarray(values, dtype=np.float64).T
        found = np.zeros((len(split), size, len(columns)))  # of no rows, `bincount` returns whole numbers
        for place, part in enumerate(split):
            for column, each in enumerate(columns):
                found[place, :, column] = np.bincount(index, each if part is None else part * each, size)
        return found
