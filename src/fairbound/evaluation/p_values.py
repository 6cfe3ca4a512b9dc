"""Adjust several p-values so that they can be read together; test two sets of decisions about the same rows.

Both adjustments step down: the p-values are taken in order, and each is adjusted for those that are left (`left`).

    holm                 choices · left · p                 comparisons with one that was named (Holm 1979)
    beside_the_highest   P(range of left + 1 ≥ √2 · |z|)    comparisons with the highest of all, p = P(|Z| ≥ |z|)

The range of k is that of k independent standard normal variables, the studentised range of Tukey.  If k rates are
equal, the largest |Z| of all their pairs exceeds |z| with at most this probability (Tukey 1953; Kramer 1956 and Hayter
1984 for groups of different sizes).  The group with the highest rate is in one of these pairs, whichever group it is.
After some groups have been found to differ, only the others may still be equal to the highest, so their range counts.
If the data have chosen among several references that are not independent, `holm` counts all of them (`choices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special


def holm(p_values: Iterable[float], choices: int = 1) -> list[float]:
    """Return p-values adjusted for their number, and for the number of references that they might have been beside.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    return _step_down(p_values, lambda p, left: choices * left * p)


def beside_the_highest(p_values: Iterable[float]) -> list[float]:
    """Return two-sided p-values of comparisons with the highest rate, adjusted for their number and for that choice.

    >>> [round(p, 3) for p in beside_the_highest([0.01, 0.04, 0.03])]
    [0.049, 0.076, 0.076]
    """
    from scipy import stats  # here, because its import takes as long as an audit

    def of_range(p: float, left: int) -> float:
        return float(stats.studentized_range.sf(-math.sqrt(2.0) * special.ndtri(p / 2), left + 1, math.inf))

    return _step_down(p_values, of_range)


def _step_down(p_values: Iterable[float], adjust: Callable[[float, int], float]) -> list[float]:
    given = np.array(list(p_values))
    order, left = given.argsort(kind="stable"), range(len(given), 0, -1)
    steps = [max(p, min(1.0, adjust(p, rest))) for p, rest in zip(given[order].tolist(), left, strict=True)]
    adjusted = np.empty(len(given))
    adjusted[order] = np.maximum.accumulate(steps) if steps else steps
    return adjusted.tolist()


@dataclass(frozen=True)
class PairedTest:
    """Two sets of decisions about the same rows: in how many rows only one of them is right (McNemar 1947).

    Attributes
    ----------
    only_first, only_second : int
        Rows in which only the first, or only the second, is right.
    difference : float
        Accuracy of the second minus that of the first.
    p : float
        Two-sided p-value of the exact test: if both are equally accurate, each such row is a toss of a fair coin.
    """

    only_first: int
    only_second: int
    difference: float
    p: float


def paired_test(first_right: NDArray[np.bool_], second_right: NDArray[np.bool_]) -> PairedTest:
    """Compare the accuracies of two sets of decisions about the same rows.

    >>> paired_test(np.array([True] * 8 + [False] * 2), np.array([False] * 5 + [True] * 5))
    PairedTest(only_first=5, only_second=2, difference=-0.3, p=0.453125)
    """
    from scipy import stats  # here, because its import takes as long as an audit

    only_first = int((first_right & ~second_right).sum())
    only_second = int((second_right & ~first_right).sum())
    either = only_first + only_second
    p = 1.0 if either == 0 else float(stats.binomtest(only_second, either, 0.5).pvalue)
    return PairedTest(only_first, only_second, (only_second - only_first) / len(first_right), p)
