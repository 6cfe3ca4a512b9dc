"""Matrix products that do not depend on the order of their sums.

The rounding of a floating-point sum depends on its order.  A matrix library chooses the order by the number of rows,
the threads and the processor.  So the last digit of a row's result may depend on the other rows.  A reproducible
decision must not depend on them.  So both factors are cut into integers of b bits,

    x = 2^e (x₁ + x₂ 2^-b) 2^-b + rest,     w = 2^f (w₁ + w₂ 2^-b) 2^-b + rest,     2b + log₂ K ≤ 53

whose products and sums over K terms are exact in double precision, in any order, on any machine.  The rest is at most
2^(e−2b−1): with b = 20 or more the result is right to about 12 digits of the largest term.  (Ozaki, Ogita, Oishi, Rump:
*Error-free transformations of matrix multiplication*, Numerical Algorithms 59, 2012.)

Conventions
-----------
x : (n, K), dense or sparse by rows; w : (out, K); both finite float64.  The result is x wᵀ + bias, (n, out).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WIDEST = 4096
"""Number of terms summed at once.  Longer sums consist of such parts, added in their order."""

AT_ONCE = 4096
"""Rows that are multiplied at once, which bounds the memory."""

_LEAST_EXPONENT = -900  # numbers below 2^-900 count as zero, so that all powers of two stay in range


class ExactLinear:
    """A linear map whose result for a row depends on that row alone, to the last bit.

    >>> layer = ExactLinear(np.array([[1.0, 2.0]]), np.array([0.5]))
    >>> layer(np.array([[3.0, 4.0]]))
    array([[11.5]])
    """

    def __init__(self, weight: Floats, bias: Floats | None) -> None:
        self.bias, self.n_outputs = bias, len(weight)
        used = np.flatnonzero(weight.any(axis=0))  # no rounding depends on a column of weight 0
        columns = [used[start : start + WIDEST] for start in range(0, len(used), WIDEST)]
        self.parts = [(each, *_cut(weight[:, each], _bits(len(each)))) for each in columns]

    def __call__(self, x: Any) -> Floats:
        """Return x wᵀ + bias."""
        x = np.asarray(x) if isinstance(x, np.ndarray) else x  # slices of a mapped array are slow
        blocks = [self._block(x[start : start + AT_ONCE]) for start in range(0, x.shape[0], AT_ONCE)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.n_outputs))

    def _block(self, x: Any) -> Floats:
        result = np.zeros((x.shape[0], self.n_outputs))
        for columns, weights, exponents in self.parts:
            result = result + _product(x if len(columns) == x.shape[1] else x[:, columns], weights, exponents)
        return result if self.bias is None else result + self.bias


def _bits(terms: int) -> int:
    """b: two integers of b bits each, multiplied and summed over the terms, stay below 2^53."""
    return (53 - math.ceil(math.log2(max(terms, 1)))) // 2


def _cut(x: Any, bits: int) -> tuple[Any, Integers]:
    """Return x₁ and x₂, one above the other, as (2n, K), and the exponent e of each row, (n,)."""
    if sparse.issparse(x):
        rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
        largest = np.zeros(x.shape[0])
        np.maximum.at(largest, rows, np.abs(x.data))
        exponent = _exponents(largest)
        high, low = _halves(x.data * _power_of_two(bits - exponent)[rows], bits)
        return sparse.vstack([sparse.csr_array((each, x.indices, x.indptr), x.shape) for each in (high, low)]), exponent
    exponent = _exponents(np.abs(x).max(axis=1))
    return np.concatenate(_halves(x * _power_of_two(bits - exponent)[:, None], bits)), exponent


def _exponents(largest: Floats) -> Integers:
    # A positive double is 1.m · 2^(E − 1023), where E is stored from bit 52 on.  So it is below 2^e with e = E − 1022.
    return np.maximum((largest.view(np.int64) >> 52) - 1022, _LEAST_EXPONENT)


def _halves(scaled: Floats, bits: int) -> tuple[Floats, Floats]:
    high = np.round(scaled)
    return high, np.round((scaled - high) * 2.0**bits)


def _product(x: Any, weights: Floats, weight_exponents: Integers) -> Floats:
    bits = _bits(x.shape[1])
    numbers, exponents = _cut(x, bits)
    products = numbers @ weights.T  # integers below 2^53: exact
    n, out, unit = len(exponents), len(weight_exponents), 2.0**-bits
    # With u = 2^-b: (x₁ + x₂u)(w₁ + w₂u) = x₁w₁ + (x₁w₂ + x₂w₁)u + x₂w₂u².
    high, middle = products[:n, :out], products[:n, out:] + products[n:, :out]
    total = high + (middle + products[n:, out:] * unit) * unit
    return total * _power_of_two(exponents - bits)[:, None] * _power_of_two(weight_exponents - bits)


def _power_of_two(exponent: Integers) -> Floats:
    """Return 2^exponent, set bit by bit, because a computed power may be wrong in the last digit."""
    return ((exponent + 1023) << 52).view(np.float64)
