"""Every rate, measure, interval and verdict once more, from the rows themselves, with numpy and scipy alone.

Written from the documented definitions (docs/auditing.md, docs/new_rows.md) and not from the code: a rate is counted by
masks over the rows, where the package sums over cells; Clopper-Pearson comes from the
inverse of the binomial distribution; the Bernstein bound is
evaluated on the rows, where the package has closed forms of sums; two independent rates are tested by enumeration if
they have few outcomes, with the likeliest rates found by halving, and else bounded by a scan.

Conventions
-----------
Labels and decisions are codes, and of two classes 1 is the positive one.  A group is a mask over the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

Mask = np.ndarray

# What each rate is a share of, and which of those count: functions of (label is the class, decision is the class).
RATES: dict[str, tuple[Callable[[Mask, Mask], Mask], Callable[[Mask, Mask], Mask]]] = {
    "selection_rate": (lambda y, d: y | ~y, lambda y, d: d),
    "true_positive_rate": (lambda y, d: y, lambda y, d: d),
    "false_positive_rate": (lambda y, d: ~y, lambda y, d: d),
    "true_negative_rate": (lambda y, d: ~y, lambda y, d: ~d),
    "false_negative_rate": (lambda y, d: y, lambda y, d: ~d),
    "precision": (lambda y, d: d, lambda y, d: y),
    "negative_predictive_value": (lambda y, d: ~d, lambda y, d: ~y),
}

MEASURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "demographic_parity": ("difference", ("selection_rate",)),
    "disparate_impact": ("ratio", ("selection_rate",)),
    "equal_impact": ("ratio", ("true_positive_rate",)),
    "equal_opportunity": ("difference", ("true_positive_rate",)),
    "predictive_equality": ("difference", ("false_positive_rate",)),
    "equalized_odds": ("difference", ("true_positive_rate", "false_positive_rate")),
    "accuracy_parity": ("difference", ("accuracy",)),
    "predictive_parity": ("difference", ("precision",)),
    "negative_predictive_parity": ("difference", ("negative_predictive_value",)),
    "sufficiency": ("difference", ("precision", "negative_predictive_value")),
    "representation": ("difference", ("share_of_selected",)),
    "covariance": ("covariance", ("selection_rate",)),
}
RATE_NAMES = (*RATES, "accuracy", "share_of_selected")
ALL_CLASSES = ("accuracy", "accuracy_parity")


def comparison_of(measure: str) -> tuple[str, tuple[str, ...]]:
    """Return how a measure compares which rates; a rate by its own name compares nothing."""
    return MEASURES.get(measure, ("value", (measure,)))


@dataclass(frozen=True)
class Sample:
    """The rows of the whole of a rate, with their weights, and which are in its part."""

    part: np.ndarray
    weights: np.ndarray
    weighted: bool

    @property
    def value(self) -> float | None:
        """The rate; None where there is no row."""
        scaled = self.weights / self.weights.max() if len(self.weights) else self.weights
        return float(scaled[self.part].sum() / scaled.sum()) if len(scaled) else None

    def lower(self, level: float, largest: float | None) -> float:
        """Return the bound from below that errs with probability `level`."""
        if not self.weighted:
            x, n = int(self.part.sum()), len(self.part)
            return 1.0 - float(special.bdtri(n - x, n, level)) if x else 0.0
        return 1.0 - self.complement().upper(level, largest)

    def upper(self, level: float, largest: float | None) -> float:
        """Return the bound from above that errs with probability `level`."""
        if not self.weighted:
            return 1.0 - self.complement().lower(level, largest)
        return bernstein_upper(self.part, self.weights / largest, level) if largest else 1.0

    def interval(self, level: float, largest: float | None) -> tuple[float, float]:
        """Return both bounds, with half the level each."""
        return self.lower(level / 2, largest), self.upper(level / 2, largest)

    def complement(self) -> Sample:
        """Return the share of the others."""
        return Sample(~self.part, self.weights, self.weighted)


def bernstein_upper(part: np.ndarray, shares: np.ndarray, level: float) -> float:
    """Maurer and Pontil's bound on the rate of which d = share · (part − rate) has mean 0, found by halving."""
    n = len(part)
    if n < 2:
        return 1.0
    log = math.log(2 / level)

    def left_open(rate: float) -> bool:
        d = shares * (part - rate)
        return d.mean() + math.sqrt(2 * d.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1)) >= 0

    if left_open(1.0):
        return 1.0
    low, high = float((shares * part).sum() / shares.sum()), 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if left_open(middle) else (low, middle)
    return high


@dataclass(frozen=True)
class Grouping:
    """One sensitive column, or an intersection: the groups that occur, as masks."""

    name: str
    groups: dict[Hashable, Mask]

    @property
    def everyone(self) -> Mask:
        """The rows whose group is known."""
        return np.any(list(self.groups.values()), axis=0)


class Counted:
    """Rows and decisions, ready to be counted."""

    def __init__(
        self,
        y: np.ndarray,
        decided: np.ndarray,
        n_classes: int,
        groupings: Sequence[Grouping],
        weights: np.ndarray | None,
    ) -> None:
        self.y, self.decided, self.n_classes, self.groupings = y, decided, n_classes, list(groupings)
        self.weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
        known = self.weights[self.weights > 0]
        self.weighted = bool((known != known[0]).any())
        self.outcomes = [1] if n_classes == 2 else list(range(n_classes))

    def sample(self, rate: str, grouping: Grouping, group: Hashable, outcome: int) -> Sample:
        """Return the rows that a rate of a group (None: everyone) is counted from."""
        member = grouping.everyone if group is None else grouping.groups[group]
        y, d = self.y == outcome, self.decided == outcome
        if rate == "accuracy":
            whole, part = member, self.y == self.decided
        elif rate == "share_of_selected":
            whole, part = grouping.everyone & d, member
        else:
            of, counts = RATES[rate]
            whole, part = member & of(y, d), counts(y, d)
        rows = whole & (self.weights > 0)
        return Sample(part[rows], self.weights[rows], self.weighted)

    def share(self, grouping: Grouping, group: Hashable) -> float:
        """Return the weight of a group among those whose group is known."""
        scaled = self.weights / self.weights.max()
        return float(scaled[grouping.groups[group]].sum() / scaled[grouping.everyone].sum())

    def classes_of(self, measure: str) -> list[int]:
        """Return the classes that a measure has a value for."""
        return self.outcomes[:1] if measure in ALL_CLASSES else self.outcomes


def pairs_of(grouping: Grouping, against: str, reference: Hashable = None) -> list[tuple[Hashable, Hashable]]:
    """Return the compared pairs: all, each with everyone (None), or each with the reference."""
    groups = list(grouping.groups)
    if against == "pairwise":
        return list(itertools.combinations(groups, 2))
    return [(group, reference) for group in groups if group != reference]


def compare(kind: str, a: float, b: float) -> float:
    """Return the number of one pair without a direction."""
    if kind == "ratio":
        return 1.0 if max(a, b) == 0 else min(a, b) / max(a, b)
    return abs(a - b)


def measure_values(
    counted: Counted,
    measure: str,
    grouping: Grouping,
    outcome: int,
    pairs: Sequence[tuple[Hashable, Hashable]] | None = None,
) -> Iterator[tuple[tuple[Hashable, Hashable, str], float, float]]:
    """Yield each compared pair where both rates are defined, with its rate's name, and the two rates."""
    _, rates = comparison_of(measure)
    for rate in rates:
        for a, b in pairs_of(grouping, "pairwise") if pairs is None else pairs:
            first = counted.sample(rate, grouping, a, outcome).value
            second = counted.sample(rate, grouping, b, outcome).value
            if first is not None and second is not None:
                yield (a, b, rate), first, second


def covariances(counted: Counted, grouping: Grouping, outcome: int) -> list[float]:
    """Return the covariance of the decision and each group's indicator, among those whose group is known."""
    rows = grouping.everyone & (counted.weights > 0)
    w = counted.weights[rows] / counted.weights[rows].max()
    w = w / w.sum()
    d = (counted.decided[rows] == outcome).astype(float)
    found = []
    for member in grouping.groups.values():
        s = member[rows].astype(float)
        found.append(float((w * d * s).sum() - (w * d).sum() * (w * s).sum()))
    return found


def pair_interval(kind: str, first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest measure of one pair, if each rate may be anywhere in its interval."""
    corners = [compare(kind, a, b) for a in first for b in second]
    overlap = max(first[0], second[0]) <= min(first[1], second[1])
    nearest = compare(kind, max(first[0], second[0]), max(first[0], second[0]) if overlap else min(first[1], second[1]))
    if kind == "ratio":
        return min(corners), max([*corners, nearest]) if overlap else nearest
    return min([*corners, nearest]) if overlap else nearest, max(corners)


def few_outcomes(first: Sample, second: Sample) -> bool:
    """Tell whether the score test applies (docs/new_rows.md)."""
    n1, n2 = len(first.part), len(second.part)
    return min(n1, n2) > 0 and (n1 + 1) * (n2 + 1) <= 1_000_000


def score_p_value(first: Sample, second: Sample, alpha: float, kind: str, limit: float) -> float:
    """Return the p-value of the score test of Q <= limit, by enumeration of all outcomes on a grid of second rates."""
    x1, n1, x2, n2 = int(first.part.sum()), len(first.part), int(second.part.sum()), len(second.part)
    gamma = alpha / 50
    one, two = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")

    def first_rate(r: np.ndarray) -> np.ndarray:
        return np.clip(limit * r if kind == "ratio" else r + limit, 0.0, 1.0)

    slope = limit if kind == "ratio" else 1.0
    low = np.full(one.shape, max(0.0, -limit) if kind == "difference" else 0.0)
    high = np.full(one.shape, min(1.0, 1.0 / limit) if kind == "ratio" else min(1.0, 1.0 - limit))
    for _ in range(40):  # the derivative of the log-likelihood falls along the line
        r = (low + high) / 2
        q = first_rate(r)
        with np.errstate(divide="ignore", invalid="ignore"):
            rising = slope * (one - n1 * q) / (q * (1 - q)) + (two - n2 * r) / (r * (1 - r)) > 0
        low, high = np.where(rising, r, low), np.where(rising, high, r)
    r, q = (low + high) / 2, first_rate((low + high) / 2)
    distance = one / n1 - (limit * two / n2 if kind == "ratio" else two / n2 + limit)
    spread = np.sqrt(np.maximum(q * (1 - q) / n1 + slope**2 * r * (1 - r) / n2, 0.0))
    score = np.where(abs(distance) < 1e-12, 0.0, distance / np.maximum(spread, 1e-9))
    extreme = score >= score[x1, x2] - 1e-5 * abs(score[x1, x2])
    bottom, top = second.interval(gamma, None)
    rates = np.linspace(bottom, top, 60)[:, None]
    if kind == "difference":
        rates = rates[rates[:, 0] + limit >= 0]
    of_first = stats.binom.pmf(np.arange(n1 + 1), n1, first_rate(rates))
    of_second = stats.binom.pmf(np.arange(n2 + 1), n2, rates)
    chances = ((of_first @ extreme) * of_second).sum(axis=1).tolist()
    return gamma + max(chances, default=0.0)


def least_of_two(
    first: Sample, second: Sample, alpha: float, kind: str, limit: float, share: tuple[Sample, str] | None = None
) -> float:
    """Scan the confidence set of two independent rates for its least ratio or difference (docs/new_rows.md).

    With `share` one of the two is a group, the other the rest of everyone, and the group (named by its place) is
    compared with everyone; the worse end of the interval of its share counts.
    """
    c, aside = 2.0, alpha / 50
    q, ends = 0.0, (0.0, 0.0)
    if share is not None:
        ends, q = share[0].interval(aside, None), share[0].value or 0.0
        alpha, aside = alpha - aside, (alpha - aside) / 50

    def measure(r1: np.ndarray, r2: np.ndarray) -> np.ndarray:
        def ratio_or_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                return np.where(b > 0, a / b, np.inf) if kind == "ratio" else a - b

        if share is None:
            return ratio_or_difference(r1, r2)
        own, other = (r1, r2) if share[1] == "first" else (r2, r1)
        mixed = [end * own + (1 - end) * other for end in ends]
        both = [ratio_or_difference(own, m) if share[1] == "first" else ratio_or_difference(m, own) for m in mixed]
        return np.minimum(*both)

    x1, n1, x2, n2 = int(first.part.sum()), len(first.part), int(second.part.sum()), len(second.part)
    if n1 == 0 or n2 == 0:
        return float(measure(np.array(first.lower(alpha, None)), np.array(second.upper(alpha, None))))
    slope, shift = (limit, 0.0) if kind == "ratio" else (1.0, limit)
    if share is not None:
        q = min(q, 0.999)
        if kind == "difference":
            shift = limit / (1 - q)
        elif share[1] == "first":
            slope = limit * (1 - q) / max(1 - limit * q, 1e-3)
        else:
            slope = (limit - q) / (1 - q)
    t = stats.norm.isf((alpha - aside) / (1 + 2 * stats.norm.cdf(-c)))
    top = stats.beta.ppf(1 - aside / 2, x2 + 1, n2 - x2) if x2 < n2 else 1.0
    r = np.linspace(0, top, 1500)
    cell = np.minimum((np.arcsin(np.sqrt(r)) * 256 / np.pi).astype(int), 127)
    middle = np.sin((cell + 0.5) * np.pi / 256) ** 2
    line = np.clip(slope * middle + shift, 1e-6, 1 - 1e-6)
    tangent = np.minimum(max(slope, 0) * np.sqrt(n1 * middle * (1 - middle) / (n2 * line * (1 - line))), 20.0)
    z2 = np.maximum(stats.norm.isf(stats.binom.cdf(x2, n2, r)), -c)
    needed = t * np.sqrt(1 + tangent**2) - tangent * z2
    level = np.maximum(stats.norm.sf(needed), aside / 2)
    lowest = stats.beta.ppf(level, x1, n1 - x1 + 1) if x1 else np.zeros_like(r)
    return float(np.min(np.where(needed <= -c, np.inf, measure(lowest, r))))
