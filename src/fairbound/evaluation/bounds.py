"""Bounds from below on a comparison of two rates, each erring with probability at most α.

A comparison is a quantity Q(r₁, r₂) that rises with the first rate and falls with the second: their ratio r₁/r₂ or
their difference r₁ − r₂.  Every side of every limit is "Q at least so much", with the roles chosen accordingly.

**Two rates of disjoint groups** are independent given the sizes, and `least_independent` uses it.  For each candidate r
of the second rate, with p₂ = P(X₂ ≤ x₂ | r) and p₁ = P(X₁ ≥ x₁ | r₁), put z = Φ⁻¹(1 − p) and reject (r₁, r) when

    cos φ · max(z₁, −c) + sin φ · max(z₂, −c) ≥ t          or p₁ ≤ γ/2  or p₂ ≤ γ/2          (c = 2, γ = α/50)

Under (r₁, r) the z are independent and stochastically at most normal, whatever the sizes, so the first event has a
probability of at most

    P(cos φ Z₁ + sin φ Z₂ ≥ t) + P(Z₂ < −c, cos φ Z₁ ≥ t + c sin φ) + P(Z₁ < −c, sin φ Z₂ ≥ t + c cos φ)
    ≤ Φ(−t) (1 + 2Φ(−c)),

and t makes this α − γ.  What is not rejected is a confidence set for (r₁, r); the least Q in it is the bound.  Given r,
the set holds all r₁ above a Clopper–Pearson bound of the first rate, at a level that depends on r: confidence is traded
between the rates.  (The cut −c matters where one group is all or none: its z is −∞ then, and would veto the other.)
The angle φ(r) may be any function of r, of the sizes and of the stated limit.  With tan φ = s·σ₂/σ₁ at the limit (s its
slope, σ the standard errors there) the bound is nearly as sharp as the normal approximation: it asks for 1.68 standard
errors of Q, where two separate intervals ask for 1.96 to 2.77.  r runs over [0, 1] in cells; in each the smallest z₂
and the largest r are taken, so that nothing is lost between grid points.

**A group against everyone**: the overall rate contains the group, r_all = q·r₁ + (1−q)·r_rest with q the group's share
of the whole.  Q is written in r₁ and r_rest, which are independent; Q is monotone in q, so the worse end of q's own
interval (at level α/50) is taken.

**Dependent rates** (shares among the selected, which add up to one; rates of the user's own; weighted rows):
`least_separate` takes two bounds at level α/2 each, which needs no independence.

Conventions
-----------
first, second : statistics of the two rates.    alpha : probability of error of the one bound returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from fairbound.evaluation.intervals import FloatArray, Share, Statistic, lower_limit, upper_limit

QuantityKind = Literal["ratio", "difference"]
Rates = FloatArray | float
Quantity = Callable[[Rates, Rates], FloatArray]

_CUT = 2.0  # c
_SET_ASIDE = 1.0 / 50.0  # γ/α
_STEEPEST = 20.0  # tan φ stays below: beyond it the first rate would not count at all
# φ is constant on these cells, which depend on nothing; even steps on the scale where binomial errors are even.
_CELLS = np.sin(np.linspace(0.0, math.pi / 2.0, 129)) ** 2
_MIDDLES = np.sin((np.arange(128) + 0.5) * math.pi / 256.0) ** 2
_FINE = 64


def quantity(kind: QuantityKind) -> Quantity:
    """Return Q: the ratio of two rates, or their difference.  A ratio to a rate of 0 is infinite."""

    def ratio(first: Rates, second: Rates) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.asarray(second) > 0, np.divide(first, second), np.inf)

    return ratio if kind == "ratio" else np.subtract


@dataclass(frozen=True)
class Frontier:
    """Where a comparison meets its limit, r₁ = slope · r₂ + shift; it sets the angle φ: sharpness, not validity."""

    slope: float
    shift: float

    @classmethod
    def of(cls, kind: QuantityKind, limit: float) -> Frontier:
        """Return the line on which the ratio or the difference equals the limit."""
        return cls(limit, 0.0) if kind == "ratio" else cls(1.0, limit)

    def tangents(self, rates: FloatArray, first_trials: float, second_trials: float) -> FloatArray:
        """Tan φ at each second rate."""
        on_line = np.clip(self.slope * rates + self.shift, 1e-6, 1.0 - 1e-6)
        variance_ratio = first_trials * rates * (1.0 - rates) / (second_trials * on_line * (1.0 - on_line))
        return np.minimum(max(self.slope, 0.0) * np.sqrt(variance_ratio), _STEEPEST)


def least_separate(first: Statistic, second: Statistic, alpha: float, compare: Quantity) -> float:
    """Bound Q from below by a bound on each rate at half the level; valid however the two depend on each other."""
    return float(compare(first.lower(alpha / 2.0), second.upper(alpha / 2.0)))


def least_complementary(first: Share, alpha: float, compare: Quantity) -> float:
    """Bound Q(r, 1 − r) from below: one rate says it all, so it has the whole level."""
    lowest = first.lower(alpha)
    return float(compare(lowest, 1.0 - lowest))


def least_independent(
    first: Share, second: Share, alpha: float, compare: Quantity, frontier: Frontier, *, cap: bool = True
) -> float:
    """Bound Q from below for independent binomial rates.

    Examples
    --------
    >>> line = Frontier.of("ratio", 0.8)
    >>> print(f"{least_independent(Share(450, 1000), Share(500, 1000), 0.05, quantity('ratio'), line):.3f}")
    0.826
    >>> print(f"{least_separate(Share(450, 1000), Share(500, 1000), 0.05, quantity('ratio')):.3f}")
    0.788
    """
    if first.trials == 0 or second.trials == 0:  # one of the bounds is 0 or 1 and certain: the other has the level
        return float(compare(first.lower(alpha), second.upper(alpha)))
    aside = alpha * _SET_ASIDE / 2.0
    threshold = -special.ndtri((alpha - 2.0 * aside) / (1.0 + 2.0 * special.ndtr(-_CUT)))
    top = second.upper(aside)
    fine = upper_limit(second.successes, second.trials, special.ndtr(-np.linspace(-_CUT, -special.ndtri(aside), _FINE)))
    points = np.concatenate([_CELLS, fine])
    points = np.append(np.unique(points[points < top]), top)
    left, right = points[:-1], points[1:]
    middle = _MIDDLES[np.searchsorted(_CELLS, left, side="right") - 1]
    tangent = frontier.tangents(middle, first.trials, second.trials)
    z_second = np.full_like(left, -_CUT)
    above = left > fine[0]  # up to there z₂ is −c
    z_second[above] = np.maximum(-special.ndtri(second.tail(left[above])), -_CUT)
    z_needed = threshold * np.sqrt(1.0 + tangent**2) - tangent * z_second
    level = np.maximum(special.ndtr(-z_needed), aside)
    lowest = lower_limit(first.successes, first.trials, level)
    bound = float(np.min(np.where(z_needed <= -_CUT, np.inf, compare(lowest, right))))
    # Where the set is empty, or lies above what was seen, the value seen is a bound from below, too.
    return min(bound, float(compare(first.value, second.value))) if cap else bound


def least_against_everyone(
    group: Share, everyone: Share, alpha: float, kind: QuantityKind, limit: float, *, group_first: bool
) -> float:
    """Bound Q(r_group, r_all) from below, or Q(r_all, r_group) where the group comes second."""
    rest = Share(everyone.successes - group.successes, everyone.trials - group.trials)
    share = Share(group.trials, everyone.trials)
    ends = share.interval(alpha * _SET_ASIDE)
    plain = quantity(kind)

    def against_everyone(first: Rates, second: Rates) -> FloatArray:
        own, other = (first, second) if group_first else (second, first)
        mixed = [q * own + (1.0 - q) * other for q in ends]
        return np.minimum(*(plain(own, all_) if group_first else plain(all_, own) for all_ in mixed))

    frontier = _frontier_against_rest(kind, limit, share.value if share.trials else 0.0, group_first)
    first, second = (group, rest) if group_first else (rest, group)
    bound = least_independent(first, second, alpha * (1.0 - _SET_ASIDE), against_everyone, frontier, cap=False)
    seen = (group.value, everyone.value) if group_first else (everyone.value, group.value)
    return min(bound, float(plain(seen[0], seen[1]))) if group.trials else bound


def _frontier_against_rest(kind: QuantityKind, limit: float, share: float, group_first: bool) -> Frontier:
    """Return the limit as a line between the group and the rest.

    r₁ ≥ δ(q r₁ + (1−q) r₀)   ⟺  r₁ ≥ δ(1−q)/(1−δq) · r₀           r₁ − r_all = (1−q)(r₁ − r₀)
    q r₁ + (1−q) r₀ ≥ δ r₁    ⟺  r₀ ≥ (δ−q)/(1−q) · r₁
    """
    share = min(share, 0.999)
    if kind == "difference":
        return Frontier(1.0, limit / (1.0 - share))
    if group_first:
        return Frontier(limit * (1.0 - share) / max(1.0 - limit * share, 1e-3), 0.0)
    return Frontier((limit - share) / (1.0 - share), 0.0)
