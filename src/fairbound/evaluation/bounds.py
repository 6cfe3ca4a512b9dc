"""Lower confidence bounds on a comparison of two rates; each bound is wrong with probability at most α.

A comparison is a quantity Q(r₁, r₂) that increases in the first rate and decreases in the second: the ratio r₁/r₂ or
the difference r₁ − r₂.  Every side of every limit is a requirement "Q ≥ limit", with the two rates in the right order.

**Two rates of disjoint groups** are independent given the sizes of the groups; `lower_bound_independent` uses this.
For each candidate r of the second rate, let p₂ = P(X₂ ≤ x₂ | r) and p₁ = P(X₁ ≥ x₁ | r₁) be the p-values of the
observed counts, and z = Φ⁻¹(1 − p).  Reject the pair (r₁, r) if

    cos φ · max(z₁, −c) + sin φ · max(z₂, −c) ≥ t          or p₁ ≤ γ/2  or p₂ ≤ γ/2          (c = 2, γ = α/50)

Under (r₁, r) the z are independent and stochastically at most standard normal, for all sizes.  So the first event has
at most the probability

    P(cos φ Z₁ + sin φ Z₂ ≥ t) + P(Z₂ < −c, cos φ Z₁ ≥ t + c sin φ) + P(Z₁ < −c, sin φ Z₂ ≥ t + c cos φ)
    ≤ Φ(−t) (1 + 2Φ(−c)).

t is chosen such that this is α − γ.  The other two events add at most γ.  The pairs that are not rejected are a
confidence set for (r₁, r), and the least Q in it is the bound.  For given r, the set contains all r₁ above a
Clopper–Pearson bound whose level depends on r.  The cut at −c is needed if all or none of a group are selected.  Then
its z would be −∞ without the cut, and no value of the other z could reject the pair.

The bound is valid for any angle φ(r) that depends only on r, the sizes and the limit.  We choose tan φ = s·σ₂/σ₁, with
s the slope of the limit line and σ the standard errors on it.  Then the bound is nearly as sharp as the normal
approximation: a PASS needs 1.68 standard errors of Q, and two separate intervals would need 1.96 to 2.77.  The code
divides [0, 1] into cells of r.  In each cell it uses the smallest z₂ and the largest r, so that the bound also holds
between grid points.

**A group against everyone**: the overall rate contains the group, r_all = q·r₁ + (1−q)·r_rest, with q the group's share
of the rows.  Q is a function of r₁ and r_rest, which are independent, and of q.  It is monotone in q, so the worse end
of the interval of q (at level α/50) is used.

**Dependent rates** are shares among the selected (which add up to one), user-defined rates, and rates of weighted rows.
`lower_bound_separate` combines two bounds at level α/2 each, which is valid without independence.

**Small counts** of disjoint groups: the exact score test below gives a sharper bound, `lower_bound_by_score_test`.

Conventions
-----------
first, second : statistics of the two rates.    alpha : probability that the returned bound is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import optimize, special

from fairbound.evaluation.intervals import FloatArray, Share, Statistic, lower_limit, upper_limit

QuantityKind = Literal["ratio", "difference"]
Rates = FloatArray | float
Quantity = Callable[[Rates, Rates], FloatArray]

_CUT = 2.0  # c
_SET_ASIDE = 1.0 / 50.0  # γ/α
_STEEPEST = 20.0  # largest tan φ; with a larger one the first rate would hardly count
# φ is constant on each of these cells.  They have equal widths on the arcsine scale, where binomial errors are about
# equal.
_CELLS = np.sin(np.linspace(0.0, math.pi / 2.0, 129)) ** 2
_MIDDLES = np.sin((np.arange(128) + 0.5) * math.pi / 256.0) ** 2
_FINE = 64


def quantity(kind: QuantityKind) -> Quantity:
    """Return Q: the ratio of two rates, or their difference.  A ratio with a denominator of 0 is infinite."""

    def ratio(first: Rates, second: Rates) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.asarray(second) > 0, np.divide(first, second), np.inf)

    return ratio if kind == "ratio" else np.subtract


@dataclass(frozen=True)
class LimitLine:
    """The line r₁ = slope · r₂ + shift on which Q equals its limit.

    It determines the angle φ, which affects only the sharpness of a bound, not its validity.
    """

    slope: float
    shift: float

    @classmethod
    def of(cls, kind: QuantityKind, limit: float) -> LimitLine:
        """Return the line on which the ratio or the difference equals the limit."""
        return cls(limit, 0.0) if kind == "ratio" else cls(1.0, limit)

    def tangents(self, rates: FloatArray, first_trials: float, second_trials: float) -> FloatArray:
        """Return tan φ = s·σ₂/σ₁ at each second rate, with σ² = rate · (1 − rate) / trials on the line."""
        on_line = np.clip(self.slope * rates + self.shift, 1e-6, 1.0 - 1e-6)
        variance_ratio = first_trials * rates * (1.0 - rates) / (second_trials * on_line * (1.0 - on_line))
        return np.minimum(max(self.slope, 0.0) * np.sqrt(variance_ratio), _STEEPEST)


def lower_bound_separate(first: Statistic, second: Statistic, alpha: float, compare: Quantity) -> float:
    """Return a lower bound on Q from a bound on each rate at α/2; valid for dependent rates."""
    return float(compare(first.lower(alpha / 2.0), second.upper(alpha / 2.0)))


def lower_bound_complementary(first: Share, alpha: float, compare: Quantity) -> float:
    """Return a lower bound on Q(r, 1 − r).  It increases in r, so one bound on r at level α suffices."""
    lowest = first.lower(alpha)
    return float(compare(lowest, 1.0 - lowest))


def lower_bound_independent(
    first: Share, second: Share, alpha: float, compare: Quantity, line: LimitLine, *, cap: bool = True
) -> float:
    """Return a lower bound on Q for independent binomial rates.

    With `cap`, the bound is at most the observed value of Q.

    Examples
    --------
    >>> line = LimitLine.of("ratio", 0.8)
    >>> print(f"{lower_bound_independent(Share(450, 1000), Share(500, 1000), 0.05, quantity('ratio'), line):.3f}")
    0.826
    >>> print(f"{lower_bound_separate(Share(450, 1000), Share(500, 1000), 0.05, quantity('ratio')):.3f}")
    0.788
    """
    if first.trials == 0 or second.trials == 0:  # a rate without rows has the bound 0 or 1, which is never wrong
        return float(compare(first.lower(alpha), second.upper(alpha)))
    aside = alpha * _SET_ASIDE / 2.0
    threshold = -special.ndtri((alpha - 2.0 * aside) / (1.0 + 2.0 * special.ndtr(-_CUT)))
    top = second.upper(aside)
    fine = upper_limit(second.successes, second.trials, special.ndtr(-np.linspace(-_CUT, -special.ndtri(aside), _FINE)))
    points = np.concatenate([_CELLS, fine])
    points = np.append(np.unique(points[points < top]), top)
    left, right = points[:-1], points[1:]
    middle = _MIDDLES[np.searchsorted(_CELLS, left, side="right") - 1]
    tangent = line.tangents(middle, first.trials, second.trials)
    z_second = np.full_like(left, -_CUT)
    above = left > fine[0]  # below fine[0], z₂ is cut to −c
    z_second[above] = np.maximum(-special.ndtri(second.tail(left[above])), -_CUT)
    # cos φ · z₁ + sin φ · z₂ ≥ t  ⟺  z₁ ≥ t / cos φ − tan φ · z₂, and 1 / cos φ = √(1 + tan² φ).
    z_needed = threshold * np.sqrt(1.0 + tangent**2) - tangent * z_second
    level = np.maximum(special.ndtr(-z_needed), aside)
    lowest = lower_limit(first.successes, first.trials, level)
    bound = float(np.min(np.where(z_needed <= -_CUT, np.inf, compare(lowest, right))))
    # The confidence set can be empty or lie above the observed value.  A lower bound stays valid if it is made smaller.
    return min(bound, float(compare(first.value, second.value))) if cap else bound


def lower_bound_against_everyone(
    group: Share, everyone: Share, alpha: float, kind: QuantityKind, limit: float, *, group_first: bool
) -> float:
    """Return a lower bound on Q(r_group, r_all), or on Q(r_all, r_group) unless `group_first`."""
    rest = Share(everyone.successes - group.successes, everyone.trials - group.trials)
    share = Share(group.trials, everyone.trials)
    ends = share.interval(alpha * _SET_ASIDE)
    plain = quantity(kind)

    def against_everyone(first: Rates, second: Rates) -> FloatArray:
        own, other = (first, second) if group_first else (second, first)
        mixed = [q * own + (1.0 - q) * other for q in ends]
        return np.minimum(*(plain(own, all_) if group_first else plain(all_, own) for all_ in mixed))

    line = _line_against_rest(kind, limit, share.value if share.trials else 0.0, group_first)
    first, second = (group, rest) if group_first else (rest, group)
    bound = lower_bound_independent(first, second, alpha * (1.0 - _SET_ASIDE), against_everyone, line, cap=False)
    seen = (group.value, everyone.value) if group_first else (everyone.value, group.value)
    return min(bound, float(plain(seen[0], seen[1]))) if group.trials else bound


def _line_against_rest(kind: QuantityKind, limit: float, share: float, group_first: bool) -> LimitLine:
    """Return the limit as a line between the rates r₁ of the group and r₀ of the rest.

    r₁ ≥ δ(q r₁ + (1−q) r₀)   ⟺  r₁ ≥ δ(1−q)/(1−δq) · r₀           r₁ − r_all = (1−q)(r₁ − r₀)
    q r₁ + (1−q) r₀ ≥ δ r₁    ⟺  r₀ ≥ (δ−q)/(1−q) · r₁
    """
    share = min(share, 0.999)
    if kind == "difference":
        return LimitLine(1.0, limit / (1.0 - share))
    if group_first:
        return LimitLine(limit * (1.0 - share) / max(1.0 - limit * share, 1e-3), 0.0)
    return LimitLine((limit - share) / (1.0 - share), 0.0)


# --- the score test of few counts ------------------------------------------------------------------------------------

# The exact unconditional score test of two independent rates, and the lower bound that it gives.  For small counts.
#
# The hypothesis that the test rejects is Q ≤ δ, with Q the ratio r₁/r₂ or the difference r₁ − r₂.  On the line Q = δ
# the first rate is a function of the second, r₁ = ℓ(r₂).  The outcomes (x₁, x₂) are ordered by the score statistic
# (Miettinen and Nurminen 1985)
#
#     T = (x₁/n₁ − ℓ(x₂/n₂)) / √Var,          Var at the rates on the line Q = limit that maximise the likelihood.
#
# R is the set of outcomes that are at least as extreme as the observed one, extended so that an outcome in R stays in R
# if x₁ rises or x₂ falls.  So P(R | r₁, r₂) rises with r₁ and falls with r₂, and under the hypothesis it is largest on
# the line.  Let C be a confidence interval of r₂ that is wrong with probability γ (Berger and Boos 1994).  Then
#
#     p(δ) = γ + sup over r₂ in C of P(R | ℓ(r₂), r₂)
#
# is a valid p-value for every n: if r₂ is in C, then p(δ) is at least P(R) + γ at the true rates.  R is fixed and ℓ
# rises with δ, so p(δ) rises, too.  The largest δ with p(δ) ≤ α is a lower bound on Q, wrong with probability ≤ α.
#
# **Between grid points**: on a cell [a, b] of r₂, P(R | ℓ(r₂), r₂) ≤ P(R | ℓ(b), a).  Cells whose bound exceeds α − γ
# are halved, until no cell exceeds it, or a point on the line does.  A very narrow cell that exceeds it counts, too.


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


def lower_bound_by_score_test(first: Share, second: Share, alpha: float, kind: QuantityKind, limit: float) -> float:
    """Return a lower bound on Q; it is at least `limit` exactly if the test rejects Q ≤ limit.

    Examples
    --------
    >>> print(f"{lower_bound_by_score_test(Share(90, 200), Share(400, 800), 0.05, 'ratio', 0.8):.3f}")
    0.772
    """
    counts = (int(first.successes), int(first.trials), int(second.successes), int(second.trials))
    return _lower_bound(*counts, alpha, kind, limit)


@lru_cache(maxsize=4096)
def _lower_bound(x1: int, n1: int, x2: int, n2: int, alpha: float, kind: QuantityKind, limit: float) -> float:
    test = ScoreTest(x1, n1, x2, n2, alpha, kind, limit)
    seen = _observed(x1, n1, x2, n2, kind)
    least, most = (0.0, min(seen, 2.0**20)) if kind == "ratio" else (-1.0, seen)
    passes = seen > limit and test.rejects(limit)
    low, high = (limit, most) if passes else (least, min(most, limit))
    # On a grid without cells, p(δ) = α has a root near the bound.  Go down from it until the test surely rejects.
    beyond = test.root(low, high)
    step = max(0.01 * (min(seen, 2.0) - beyond), 1e-6)
    while beyond - step > low and not test.rejects(beyond - step):
        beyond, step = beyond - step, 2.0 * step
    return max(beyond - step, low)


def _observed(x1: int, n1: int, x2: int, n2: int, kind: QuantityKind) -> float:
    if kind == "difference":
        return x1 / n1 - x2 / n2
    return (x1 / n1) / (x2 / n2) if x2 else math.inf


class ScoreTest:
    """The test with the outcomes ordered for one limit: R as the least x₁ for each x₂, and the interval C."""

    def __init__(self, x1: int, n1: int, x2: int, n2: int, alpha: float, kind: QuantityKind, limit: float) -> None:
        self.n1, self.n2, self.kind = n1, n2, kind
        aside = alpha * SET_ASIDE
        self.level = alpha - aside
        self.interval = Share(x2, n2).interval(aside)
        # T rises with x₁, so bisection finds the least x₁ in R for each x₂.
        columns = np.arange(n2 + 1.0)
        seen = float(score_statistic(np.array(float(x1)), n1, np.array(float(x2)), n2, kind, limit))
        seen -= 1e-9 * abs(seen)  # ties differ by rounding only
        below, least = np.full(n2 + 1, -1.0), np.full(n2 + 1, n1 + 1.0)
        while (least - below > 1).any():
            middle = np.floor(0.5 * (below + least))
            extreme = score_statistic(np.clip(middle, 0, n1), n1, columns, n2, kind, limit) >= seen
            inside = least - below > 1
            least, below = np.where(inside & extreme, middle, least), np.where(inside & ~extreme, middle, below)
        least = np.minimum.accumulate(least[::-1])[::-1].astype(int)
        self.first = _Counts(n1)
        self.second = _Counts(n2)
        self.least = least

    def line(self, rates: FloatArray, bound: float) -> FloatArray:
        """Return ℓ(r₂), the first rate at which Q equals the bound."""
        return bound * rates if self.kind == "ratio" else rates + bound

    def probability(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return P(R | r₁, r₂), plus a bound on the counts that are not summed; 0 for a first rate below 0."""
        start, mass = self.second.masses(second)
        lowest, tails = self.first.tails(np.clip(first, 0.0, 1.0))
        least = self.least[start : start + mass.shape[1]] - lowest
        reached = tails[:, np.clip(least, 0, tails.shape[1] - 1)]
        reached = np.where(least >= tails.shape[1], 0.0, reached)  # counts this large have a negligible probability
        return np.where(first < 0.0, 0.0, (mass * reached).sum(axis=1) + 2.0 * _NEGLIGIBLE)

    def root(self, low: float, high: float) -> float:
        """Return the δ at which the largest P(R) on the line, over a grid of r₂, equals the level α − γ."""
        rates = np.linspace(*self.interval, _FIRST_CELLS + 1)

        def excess(bound: float) -> float:
            return float(self.probability(self.line(rates, bound), rates).max()) - self.level

        if excess(low) >= 0.0:
            return low
        return float(optimize.brentq(excess, low, high, xtol=1e-6)) if excess(high) > 0.0 else high

    def rejects(self, bound: float) -> bool:
        """Return whether p(bound) is proved to be at most α, also between grid points."""
        edges = np.linspace(*self.interval, _FIRST_CELLS + 1)
        left, right = edges[:-1], edges[1:]
        width = _FIRST_CELLS**-1.0
        while True:
            if (self.probability(self.line(left, bound), left) > self.level).any():
                return False
            doubtful = self.probability(self.line(right, bound), left) > self.level
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


def score_statistic(x1: FloatArray, n1: int, x2: FloatArray, n2: int, kind: QuantityKind, limit: float) -> FloatArray:
    """Return T for arrays of counts: the score of the line Q = limit, in standard errors."""
    if kind == "ratio":
        r1, r2 = likeliest_of_ratio(x1, n1, x2, n2, limit)
        distance = x1 / n1 - limit * (x2 / n2)
        variance = r1 * (1.0 - r1) / n1 + limit**2 * r2 * (1.0 - r2) / n2
    else:
        r1, r2 = likeliest_of_difference(x1, n1, x2, n2, limit)
        distance = x1 / n1 - x2 / n2 - limit
        variance = r1 * (1.0 - r1) / n1 + r2 * (1.0 - r2) / n2
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
