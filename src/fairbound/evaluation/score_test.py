"""The exact unconditional score test of two independent rates, and the lower bound that it gives.  For small counts.

The hypothesis that the test rejects is Q ≤ δ, with Q the ratio r₁/r₂ or the difference r₁ − r₂.  On the line Q = δ
the first rate is a function of the second, r₁ = ℓ(r₂).  The outcomes (x₁, x₂) are ordered by the score statistic
(Miettinen and Nurminen 1985)

    T = (x₁/n₁ − ℓ(x₂/n₂)) / √Var,          Var at the rates on the line Q = limit that maximise the likelihood.

R is the set of outcomes that are at least as extreme as the observed one, extended so that an outcome in R stays in R
if x₁ rises or x₂ falls.  So P(R | r₁, r₂) rises with r₁ and falls with r₂, and under the hypothesis it is largest on
the line.  Let C be a confidence interval of r₂ that is wrong with probability γ (Berger and Boos 1994).  Then

    p(δ) = γ + sup over r₂ in C of P(R | ℓ(r₂), r₂)

is a valid p-value for every n: if r₂ is in C, then p(δ) is at least P(R) + γ at the true rates.  R is fixed and ℓ
rises with δ, so p(δ) rises, too.  The largest δ with p(δ) ≤ α is a lower bound on Q, wrong with probability ≤ α.

**Between grid points**: on a cell [a, b] of r₂, P(R | ℓ(r₂), r₂) ≤ P(R | ℓ(b), a).  Cells whose bound exceeds α − γ
are halved, until no cell exceeds it, or a point on the line does.  A very narrow cell that exceeds it counts, too.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from fairbound.evaluation.bounds import LimitLine, quantity
from fairbound.evaluation.intervals import FloatArray, Share

MOST_OUTCOMES = 1_000_000
"""Largest number of outcomes (n₁ + 1)(n₂ + 1) that are enumerated."""

SET_ASIDE = 1.0 / 50.0  # γ/α: 0.001 at the usual α of 0.05
_FIRST_CELLS = 32
_NARROWEST = 2.0**-10  # width of the narrowest cell, as a share of C
_FARTHEST = 1e12
_NEGLIGIBLE = 1e-10  # largest probability of the counts that are not summed; this bound is added instead


def can_be_enumerated(first: Share, second: Share) -> bool:
    """Return whether the counts are whole numbers, and their outcomes few enough."""
    counts = (first.successes, first.trials, second.successes, second.trials)
    return (
        all(float(each).is_integer() for each in counts)
        and min(first.trials, second.trials) > 0
        and (first.trials + 1) * (second.trials + 1) <= MOST_OUTCOMES
    )


@lru_cache(maxsize=4096)
def lower_bound_by_score_test(first: Share, second: Share, alpha: float, kind: str, limit: float) -> float:
    """Return a lower bound on Q; it is at least `limit` exactly if the test rejects Q ≤ limit.

    Examples
    --------
    >>> print(f"{lower_bound_by_score_test(Share(90, 200), Share(400, 800), 0.05, 'ratio', 0.8):.3f}")
    0.772
    """
    test = ScoreTest(first, second, alpha, kind, limit)
    seen = float(quantity(kind)(first.value, second.value))
    least, most = (0.0, min(seen, 2.0**20)) if kind == "ratio" else (-1.0, seen)
    passes = seen > limit and test.rejects(limit)
    low, high = (limit, most) if passes else (least, min(most, limit))
    # On a grid without cells, p(δ) = α has a root near the bound.  Go down from it until the test surely rejects.
    beyond = test.root(low, high)
    step = max(0.01 * (min(seen, 2.0) - beyond), 1e-6)
    while beyond - step > low and not test.rejects(beyond - step):
        beyond, step = beyond - step, 2.0 * step
    return max(beyond - step, low)


class ScoreTest:
    """The test with the outcomes ordered for one limit: R as the least x₁ for each x₂, and the interval C."""

    def __init__(self, first: Share, second: Share, alpha: float, kind: str, limit: float) -> None:
        n1, n2 = int(first.trials), int(second.trials)
        self.kind = kind
        aside = alpha * SET_ASIDE
        self.level = alpha - aside
        self.interval = second.interval(aside)
        # T rises with x₁, so bisection finds the least x₁ in R for each x₂.
        columns = np.arange(n2 + 1.0)
        seen = float(score_statistic(np.array(first.successes), n1, np.array(second.successes), n2, kind, limit))
        seen -= 1e-9 * abs(seen)  # ties differ by rounding only
        below, least = np.full(n2 + 1, -1.0), np.full(n2 + 1, n1 + 1.0)
        while (least - below > 1).any():
            middle = np.floor(0.5 * (below + least))
            extreme = score_statistic(np.clip(middle, 0, n1), n1, columns, n2, kind, limit) >= seen
            inside = least - below > 1
            least, below = np.where(inside & extreme, middle, least), np.where(inside & ~extreme, middle, below)
        self.least = np.minimum.accumulate(least[::-1])[::-1].astype(int)
        self.first, self.second = _Counts(n1), _Counts(n2)

    def probability(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return P(R | r₁, r₂), plus a bound on the counts that are not summed; 0 for a first rate below 0."""
        start, mass = self.second.masses(second)
        lowest, tails = self.first.tails(np.clip(first, 0.0, 1.0))
        least = self.least[start : start + mass.shape[1]] - lowest
        reached = tails[:, np.clip(least, 0, tails.shape[1] - 1)]
        reached = np.where(least >= tails.shape[1], 0.0, reached)  # counts this large have a negligible probability
        return np.where(first < 0.0, 0.0, (mass * reached).sum(axis=1) + 2.0 * _NEGLIGIBLE)

    def on_line(self, bound: float, line_rates: FloatArray, rates: FloatArray) -> FloatArray:
        """Return P(R | ℓ(r), r₂), where Q = bound on the line ℓ, for each r of `line_rates` and r₂ of `rates`."""
        return self.probability(LimitLine.of(self.kind, bound).at(line_rates), rates)

    def root(self, low: float, high: float) -> float:
        """Return the δ at which the largest P(R) on the line, over a grid of r₂, equals the level α − γ."""
        rates = np.linspace(*self.interval, _FIRST_CELLS + 1)

        def excess(bound: float) -> float:
            return float(self.on_line(bound, rates, rates).max()) - self.level

        if excess(low) >= 0.0:
            return low
        return float(optimize.brentq(excess, low, high, xtol=1e-6)) if excess(high) > 0.0 else high

    def rejects(self, bound: float) -> bool:
        """Return whether p(bound) is proved to be at most α, also between grid points."""
        edges = np.linspace(*self.interval, _FIRST_CELLS + 1)
        left, right = edges[:-1], edges[1:]
        width = _FIRST_CELLS**-1.0
        while True:
            if (self.on_line(bound, left, left) > self.level).any():
                return False
            doubtful = self.on_line(bound, right, left) > self.level
            if not doubtful.any():
                return True
            if width <= _NARROWEST:
                return False
            left, right = left[doubtful], right[doubtful]
            middle = 0.5 * (left + right)
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
            width /= 2.0


class _Counts:
    """The binomial distributions of one count for many rates at once, without counts of negligible probability."""

    def __init__(self, trials: int) -> None:
        self.trials = trials
        counts = np.arange(trials + 1.0)
        self.ways = -special.betaln(counts + 1.0, trials - counts + 1.0) - math.log(trials + 1.0)

    def masses(self, rates: FloatArray) -> tuple[int, FloatArray]:
        """Return the least count x that is not negligible, and P(X = x) for each rate, from there on."""
        low, high = float(rates.min()), float(rates.max())
        # Bernstein's inequality: beyond this distance from n·r the probability is below `_NEGLIGIBLE`.
        log, spread = -math.log(_NEGLIGIBLE / 2.0), self.trials / 4.0 if low < 0.5 < high else 0.0
        spread = max(spread, self.trials * low * (1.0 - low), self.trials * high * (1.0 - high))
        reach = log / 3.0 + math.sqrt((log / 3.0) ** 2 + 2.0 * log * spread)
        start = max(0, math.floor(self.trials * low - reach))
        stop = min(self.trials, math.ceil(self.trials * high + reach)) + 1
        x = np.arange(float(start), float(stop))
        r = np.clip(rates, 1e-300, 1.0 - 2.0**-53)[:, None]  # 0 · log 0 is 0
        return start, np.exp(self.ways[start:stop] + x * np.log(r) + (self.trials - x) * np.log1p(-r))

    def tails(self, rates: FloatArray) -> tuple[int, FloatArray]:
        """Return the least count x that is not negligible, and P(X ≥ x) for each rate, from there on."""
        start, mass = self.masses(rates)
        tails = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]
        if start > 0:
            tails[:, 0] = 1.0  # also for all smaller counts
        return start, np.minimum(tails, 1.0)


def score_statistic(x1: FloatArray, n1: int, x2: FloatArray, n2: int, kind: str, limit: float) -> FloatArray:
    """Return T for arrays of counts: the score of the line Q = limit, in standard errors."""
    r1, r2 = (likeliest_of_ratio if kind == "ratio" else likeliest_of_difference)(x1, n1, x2, n2, limit)
    line = LimitLine.of(kind, limit)
    distance = x1 / n1 - line.at(x2 / n2)
    variance = r1 * (1.0 - r1) / n1 + line.slope**2 * r2 * (1.0 - r2) / n2
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = distance / np.sqrt(np.maximum(variance, 0.0))
    # 0/0 at a corner of the square means that the outcome lies on the line: 0.  Without variance, |T| is set to
    # `_FARTHEST`.
    return np.where(abs(distance) < 1e-14, 0.0, np.clip(scores, -_FARTHEST, _FARTHEST))


def likeliest_of_ratio(x1: FloatArray, n1: int, x2: FloatArray, n2: int, ratio: float) -> tuple[FloatArray, FloatArray]:
    """Return the rates with r₁ = ratio · r₂ that maximise the likelihood: a root of a quadratic equation."""
    a, b, c = ratio * (n1 + n2), -(ratio * (n1 + x2) + n2 + x1), x1 + x2
    # The derivative of the log-likelihood is 0 where a·r₂² + b·r₂ + c = 0.  Take the smaller root, (−b − √…)/(2a), in
    # the form 2c/(−b + √…), which has no cancellation.
    r2 = 2.0 * c / (-b + np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0)))
    r2 = np.clip(r2, 0.0, min(1.0, 1.0 / ratio) if ratio > 0 else 1.0)
    return ratio * r2, r2


def likeliest_of_difference(
    x1: FloatArray, n1: int, x2: FloatArray, n2: int, difference: float
) -> tuple[FloatArray, FloatArray]:
    """Return the rates with r₁ = r₂ + difference that maximise the likelihood: a root of a cubic equation."""
    d, n = difference, n1 + n2
    l2 = ((n1 + 2.0 * n2) * d - n - (x1 + x2)) / n
    l1 = (x1 + x2 - d * (n + 2.0 * x2) + n2 * d * d) / n
    l0 = x2 * d * (1.0 - d) / n
    q = (l2 / 3.0) ** 3 - l1 * l2 / 6.0 + l0 / 2.0
    p = np.sqrt(np.maximum((l2 / 3.0) ** 2 - l1 / 3.0, 0.0)) * np.where(q >= 0, 1.0, -1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.where(p == 0, 0.0, q / p**3)
    angle = (math.pi + np.arccos(np.clip(cosine, -1.0, 1.0))) / 3.0
    r2 = np.clip(2.0 * p * np.cos(angle) - l2 / 3.0, max(0.0, -d), min(1.0, 1.0 - d))
    return r2 + d, r2
