"""Matrix products that do not depend on the order of their sums.

A sum of floating-point numbers depends on the order in which it is taken, and a matrix library chooses the order by the
number of rows, the threads and the processor: the same row may get another last digit alone than among others.  A
decision that must be repeatable cannot rest on that.  So both factors are cut into integers of b bits,

    x = 2^e (x₁ + x₂ 2^-b) 2^-b + rest,     w = 2^f (w₁ + w₂ 2^-b) 2^-b + rest,     2b + log₂ K ≤ 53

whose products and sums over K terms are exact in double precision, in any order, on any machine.  The rest is at most
2^(e−2b−1): with b = 20 or more the result is right to about 12 digits of the largest term.  (Ozaki, Ogita, Oishi,
Rump: *Error-free transformations of matrix multiplication*, Numerical Algorithms 59, 2012.)

Conventions
-----------
x : (n, K), w : (out, K), both finite float64.    The result is x wᵀ + bias, (n, out).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WIDEST = 4096
"""Terms summed at once; longer sums are made of such parts, added in their order."""

_LEAST_EXPONENT = -900  # smaller numbers count as zero beside it, and powers of two stay in range


class ExactLinear:
    """A linear map whose result for a row depends on that row alone, to the last bit.

    >>> layer = ExactLinear(torch.tensor([[1.0, 2.0]]), torch.tensor([0.5]))
    >>> layer(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    tensor([[11.5000]], dtype=torch.float64)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach().to("cpu", torch.float64)
        self.bias = None if bias is None else bias.detach().to("cpu", torch.float64)
        self.parts = [
            (slice(start, start + part.shape[1]), *_cut(part.contiguous(), _bits(part.shape[1])))
            for start, part in zip(range(0, weight.shape[1], WIDEST), weight.split(WIDEST, dim=1), strict=True)
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """Return x wᵀ + bias."""
        result = None
        for columns, weights, exponents in self.parts:
            product = _product(x[:, columns].contiguous(), weights, exponents)
            result = product if result is None else result + product
        assert result is not None
        return result if self.bias is None else result + self.bias


def _bits(terms: int) -> int:
    """b: two integers of b bits each, multiplied and summed over the terms, stay below 2^53."""
    return (53 - math.ceil(math.log2(max(terms, 1)))) // 2


def _cut(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return x₁ and x₂, one above the other, as (2n, K), and the exponent e of each row, (n,)."""
    largest = x.abs().amax(dim=1)
    # The exponent from the bits themselves: every number of the row is below 2^e.
    exponent = ((largest.view(torch.int64) >> 52) - 1022).clamp(min=_LEAST_EXPONENT)
    scaled = x * _power_of_two(bits - exponent)[:, None]
    high = scaled.round()
    low = ((scaled - high) * float(2**bits)).round()
    return torch.cat([high, low]), exponent


def _product(x: Tensor, weights: Tensor, weight_exponents: Tensor) -> Tensor:
    bits = _bits(x.shape[1])
    numbers, exponents = _cut(x, bits)
    products = numbers @ weights.T  # integers below 2^53: exact
    n, out, unit = len(exponents), len(weight_exponents), float(2.0**-bits)
    high, middle = products[:n, :out], products[:n, out:] + products[n:, :out]
    total = high + (middle + products[n:, out:] * unit) * unit
    return total * _power_of_two(exponents - bits)[:, None] * _power_of_two(weight_exponents - bits)


def _power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent, made of its bits: a computed power may be off in the last."""
    return ((exponent + 1023) << 52).view(torch.float64)
