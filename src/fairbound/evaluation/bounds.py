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
`Requirement.worst` combines two bounds at level α/2 each, which is valid without independence.

**Small counts** of disjoint groups: the exact score test gives a sharper bound (`score_test`).

Conventions
-----------
first, second : statistics of the two rates.    alpha : probability that the returned bound is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from fairbound.evaluation.intervals import FloatArray, Share, lower_limit, upper_limit

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


def quantity(kind: str) -> Quantity:
    """Return Q: the ratio of two rates, or their difference.  A ratio with a denominator of 0 is infinite."""
    return _ratio if kind == "ratio" else np.subtract


def _ratio(first: Rates, second: Rates) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(second) > 0, np.divide(first, second), np.inf)


@dataclass(frozen=True)
class LimitLine:
    """The line r₁ = slope · r₂ + shift on which Q equals its limit.

    It determines the angle φ, which affects only the sharpness of a bound, not its validity.
    """

    slope: float
    shift: float

    @classmethod
    def of(cls, kind: str, limit: float) -> LimitLine:
        """Return the line on which the ratio or the difference equals the limit."""
        return cls(limit, 0.0) if kind == "ratio" else cls(1.0, limit)

    def at(self, rates: FloatArray) -> FloatArray:
        """Return r₁ on the line at each r₂."""
        return self.slope * rates + self.shift

    def tangents(self, rates: FloatArray, first_trials: float, second_trials: float) -> FloatArray:
        """Return tan φ = s·σ₂/σ₁ at each second rate, with σ² = rate · (1 − rate) / trials on the line."""
        on_line = np.clip(self.at(rates), 1e-6, 1.0 - 1e-6)
        variance_ratio = first_trials * rates * (1.0 - rates) / (second_trials * on_line * (1.0 - on_line))
        return np.minimum(max(self.slope, 0.0) * np.sqrt(variance_ratio), _STEEPEST)


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
    group: Share, everyone: Share, alpha: float, kind: str, limit: float, *, group_first: bool
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


def _line_against_rest(kind: str, limit: float, share: float, group_first: bool) -> LimitLine:
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
