"""Confidence intervals of a rate: exact binomial (Clopper and Pearson 1934), or empirical Bernstein for weighted rows.

A rate is the share of a *part* in a *whole*: the selected among a group, the selected among its positives, the correct
among the selected.  Let rows be drawn independently.  Given which rows are in the whole, the number x in the part is
Binomial(n, r).  This also holds if the whole depends on the model (precision), because it holds for each n.

    lower(level)   the r with P(X ≥ x | r) = level              upper(level)   the r with P(X ≤ x | r) = level

Each is wrong with probability at most `level`, for every n and r.  Without rows they are 0 and 1.

With weights w in [0, W], the rate is E[w·part] / E[w·whole].  For a candidate r, each row of the whole has the value d
= (w/W)(part − r).  These values lie in an interval of length 1, and have mean 0 if r is the rate.  By Maurer and Pontil
(2009, Theorem 4), with probability at least 1 − level and V the sample variance of d,

    0 = E[d] ≤ mean(d) + √(2 V ln(2/level) / n) + 7 ln(2/level) / (3 (n − 1)).

So upper(level) is the largest r that satisfies this inequality.  lower(level) follows by exchanging the part and its
complement.  W must bound the weights *by design*; the largest weight in the sample is not such a bound.

A user-defined rate has an interval if it is declared *monotone*.  Then it depends only on a group's share of positives,
true-positive rate and false-positive rate, and is monotone in each of them.  Each of the three is a share with an
interval.  Over the box of these intervals, a monotone function has its extremes at corners.

Several intervals hold simultaneously with probability at least 1 − α if each is wrong with probability at most
α / (number of intervals).  (Bonferroni: groups and rates overlap, so their errors are dependent.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from numbers import Real
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from fairbound._errors import bad_value
from fairbound.fairness import GroupSums, RateFunction, evaluate

FloatArray = NDArray[np.float64]


class Statistic(Protocol):
    """A measured rate with confidence bounds: `Share`, `WeightedShare`, or `MonotoneRate`."""

    n_rates: ClassVar[int] = 1
    """Number of intervals from which the bounds are computed, for Bonferroni's correction."""

    @property
    def value(self) -> float:
        """Return the observed rate; NaN without rows."""

    def lower(self, level: float) -> float:
        """Return a lower bound that is wrong with probability at most `level`."""

    def upper(self, level: float) -> float:
        """Return an upper bound that is wrong with probability at most `level`."""

    def interval(self, level: float) -> tuple[float, float]:
        """Return both bounds, where each of the `n_rates` intervals is wrong with probability at most `level`."""
        return self.lower(level / 2.0), self.upper(level / 2.0)

    def complement(self) -> Statistic:
        """Return one minus the rate: the share of the other rows."""

    def scaled(self, factor: float) -> Statistic:
        """Return the same rate on `factor` times as many rows."""


def check_confidence(confidence: float) -> float:
    """Return the confidence; raise an error unless it is at least 0.5 and below 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real) or not 0.5 <= confidence < 1.0:
        raise bad_value("confidence", confidence, "a share from 0.5 up to, but not including, 1, as in 0.95")
    return float(confidence)


def lower_limit(successes: ArrayLike, trials: ArrayLike, level: ArrayLike) -> FloatArray:
    """Return r with P(X ≥ x | r) = level, for arrays; 0 if x = 0.  Counts need not be whole numbers (for planning)."""
    x, n, level = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float), np.asarray(level, float))
    some = x > 0
    return np.where(some, special.betaincinv(np.where(some, x, 1.0), n - np.where(some, x, n) + 1.0, level), 0.0)


def upper_limit(successes: ArrayLike, trials: ArrayLike, level: ArrayLike) -> FloatArray:
    """Return r with P(X ≤ x | r) = level, for arrays; 1 if x = n."""
    return 1.0 - lower_limit(np.asarray(trials, float) - np.asarray(successes, float), trials, level)


def binomial_interval(
    successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return Clopper–Pearson intervals of rates, for numbers or arrays of counts.

    >>> lower, upper = binomial_interval(7, 10)
    >>> print(f"{lower:.4f} {upper:.4f}")
    0.3475 0.9333
    """
    x, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    if not (np.isfinite(n).all() and (x >= 0).all() and (x <= n).all()):
        raise ValueError("successes and trials must be counts with 0 <= successes <= trials.")
    level = (1.0 - check_confidence(confidence)) / 2.0
    return lower_limit(x, n, level), upper_limit(x, n, level)


@dataclass(frozen=True)
class Share(Statistic):
    """The rate of x in n independent rows (binomial).

    >>> Share(45, 50).value, round(Share(45, 50).lower(0.05), 4)
    (0.9, 0.8012)
    """

    successes: float
    trials: float

    @property
    def value(self) -> float:
        """Return the observed rate; NaN without rows."""
        return self.successes / self.trials if self.trials > 0 else math.nan

    def lower(self, level: float) -> float:
        """Return a lower bound that is wrong with probability at most `level`."""
        return float(lower_limit(self.successes, self.trials, level))

    def upper(self, level: float) -> float:
        """Return an upper bound that is wrong with probability at most `level`."""
        return float(upper_limit(self.successes, self.trials, level))

    def tail(self, rates: FloatArray) -> FloatArray:
        """Return P(X ≤ x | r) for each r; it is small if r is too large for the observed x."""
        if self.successes >= self.trials:
            return np.ones_like(rates)
        return special.betaincc(self.successes + 1.0, self.trials - self.successes, rates)

    def complement(self) -> Share:
        """Return the share of the other rows."""
        return Share(self.trials - self.successes, self.trials)

    def scaled(self, factor: float) -> Share:
        """Return the same rate on `factor` times as many rows."""
        return Share(self.successes * factor, self.trials * factor)


@dataclass(frozen=True)
class WeightedShare(Statistic):
    """The weighted rate of rows with weights in [0, `largest`], from sums over the whole and over the part.

    Attributes
    ----------
    rows : float
        Number of rows in the whole.
    weight, part : float
        Σ w over the whole and over the part.
    squares, part_squares : float
        Σ w² over the whole and over the part.
    largest : float
        W, the bound of the weights.
    """

    rows: float
    weight: float
    part: float
    squares: float
    part_squares: float
    largest: float

    @property
    def value(self) -> float:
        """Return the observed rate; NaN without rows."""
        return self.part / self.weight if self.rows > 0 else math.nan

    def lower(self, level: float) -> float:
        """Return a lower bound that is wrong with probability at most `level`."""
        return 1.0 - self.complement().upper(level)

    def upper(self, level: float) -> float:
        """Return the largest rate that satisfies the inequality.

        Its right side is convex in r, and is positive at the observed rate.  So there is at most one root above that.
        """
        if self.rows < 2 or self._excess(1.0, level) >= 0.0:
            return 1.0
        return float(optimize.brentq(self._excess, self.value, 1.0, args=(level,), xtol=1e-12))

    def _excess(self, rate: float, level: float) -> float:
        """Return the right side of the inequality at r; Σd² = (Σ_part w²(1 − 2r) + r² Σ w²)/W²."""
        n, log = self.rows, math.log(2.0 / level)
        mean = (self.part - rate * self.weight) / (n * self.largest)
        second = (self.part_squares * (1.0 - 2.0 * rate) + rate**2 * self.squares) / self.largest**2
        variance = max(second - n * mean**2, 0.0) / (n - 1.0)
        return mean + math.sqrt(2.0 * variance * log / n) + 7.0 * log / (3.0 * (n - 1.0))

    def complement(self) -> WeightedShare:
        """Return the share of the other rows."""
        return replace(self, part=self.weight - self.part, part_squares=self.squares - self.part_squares)

    def scaled(self, factor: float) -> WeightedShare:
        """Return the same rate on `factor` times as many rows."""
        return replace(WeightedShare(*(factor * each for each in astuple(self))), largest=self.largest)


@dataclass(frozen=True)
class MonotoneRate(Statistic):
    """A user-defined rate, with bounds from the intervals of the three shares that determine it."""

    rate: RateFunction
    observed: float
    shares: tuple[Statistic, ...]
    two_classes: bool
    n_rates: ClassVar[int] = 3

    @property
    def value(self) -> float:
        """Return the observed rate."""
        return self.observed

    def lower(self, level: float) -> float:
        """Return the least value at the corners; each share's interval has a third of the level."""
        return self.interval(level / 3.0)[0]

    def upper(self, level: float) -> float:
        """Return the largest value at the corners; each share's interval has a third of the level."""
        return self.interval(level / 3.0)[1]

    def interval(self, level: float) -> tuple[float, float]:
        """Return the extremes over the box of the three intervals at `level`."""
        corners = np.array(list(itertools.product(*(share.interval(level) for share in self.shares))))
        positives, true_positives, false_positives = corners.T[..., None]
        negatives = 1.0 - positives
        sums = sums_of_counts(positives * true_positives, negatives * false_positives, positives, negatives, 1e-12)
        if not self.two_classes:  # then the shares do not determine `correct`; NaN makes rates that use it unbounded
            sums = replace(sums, correct=np.full_like(sums.correct, math.nan))
        values = evaluate(self.rate, sums)
        if not np.isfinite(values).all():
            return -math.inf, math.inf
        return float(values.min()), float(values.max())

    def complement(self) -> MonotoneRate:
        """Return one minus the rate."""
        return replace(self, rate=lambda sums: 1.0 - self.rate(sums), observed=1.0 - self.observed)

    def scaled(self, factor: float) -> MonotoneRate:
        """Return the same rates on `factor` times as many rows."""
        return replace(self, shares=tuple(share.scaled(factor) for share in self.shares))


def sums_of_counts(
    selected_positives: FloatArray,
    selected_negatives: FloatArray,
    positives: FloatArray,
    negatives: FloatArray,
    one_row: float = 1.0,
) -> GroupSums:
    """Return the sums of two classes, from the selected ones and all."""
    rejected = positives - selected_positives, negatives - selected_negatives
    correct = selected_positives + rejected[1]
    return GroupSums(selected_positives, selected_negatives, *rejected, positives, negatives, correct, one_row)


def simultaneous_level(statistics: Sequence[Statistic], confidence: float) -> float:
    """Return the level of each rate's interval at which all of them hold simultaneously (Bonferroni)."""
    return (1.0 - check_confidence(confidence)) / max(1, sum(statistic.n_rates for statistic in statistics))
