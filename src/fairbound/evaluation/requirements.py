"""Split a limit into requirements "a quantity is at least `limit`", and bound each quantity from the rows.

    ratio        r_a / r_b ≥ δ,  and the reverse               difference   r_a − r_b ≥ −ε,  and the reverse
    value        r_a ≥ l,        and  1 − r_a ≥ 1 − u

`worst` is a lower bound on the quantity at level α, from `bounds`.  A limit is kept if all its requirements hold.  So
PASS rejects the hypothesis that at least one of them is broken (*intersection-union test*).  Each requirement may be
tested at level α.  Suppose that one is broken: a PASS means that its test is wrong, and that has probability at most α.
For the same reason the least of the `worst` values bounds the measure at level α.

`best` is an upper bound, from intervals that hold simultaneously for all rates (Bonferroni).  One broken requirement
breaks the limit, so FAIL may choose any of them, and needs intervals that hold simultaneously.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from scipy import special

from fairbound._words import group_text
from fairbound.evaluation.bounds import (
    LimitLine,
    QuantityKind,
    can_be_enumerated,
    lower_bound_against_everyone,
    lower_bound_by_score_test,
    lower_bound_complementary,
    lower_bound_independent,
    lower_bound_separate,
    quantity,
)
from fairbound.evaluation.intervals import Share, Statistic, WeightedShare
from fairbound.evaluation.tally import Tally
from fairbound.fairness import Constraint, ConstraintSystem, RateBlock, RateFunction, resolve_measure, share_of_selected


@dataclass(frozen=True)
class RateKey:
    """Identifies a rate: its name, its group (None: everyone) and its class."""

    grouping: str
    group: Hashable
    label: Hashable | None
    rate: str

    def __str__(self) -> str:
        where = "" if self.label is None else f", class {self.label}"
        return f"{self.rate}({group_text(self.group)}{where})"


@dataclass(frozen=True)
class Requirement:
    """A quantity that must be at least `limit`.

    Attributes
    ----------
    kind : {"ratio", "difference", "value"}
    side : {"at least", "at most"}
        The side of the limit on the measure.
    limit : float
        The least allowed value of the quantity.
    keys : tuple of RateKey
        The rates of the quantity.
    first, second : Statistic
        The quantity increases in the first rate and decreases in the second; `second` is None for a single rate.
    relation : {"independent", "separate", "complementary", "group first", "everyone first", "alone"}
        How the two rates depend on each other, which decides which bound is valid.
    """

    kind: str
    side: str
    limit: float
    keys: tuple[RateKey, ...]
    first: Statistic
    second: Statistic | None
    relation: str

    def __str__(self) -> str:
        return requirement_text(LimitSide(self.kind, self.side, self.limit), self.keys)

    def rates(self) -> list[tuple[RateKey, Statistic]]:
        """Return the rates with their statistics; for a quantity 1 − rate, the rate itself."""
        first = _complement(self.first) if self.kind == "value" and self.side == "at most" else self.first
        return list(zip(self.keys, [first] if self.second is None else [first, self.second], strict=True))

    @property
    def slack(self) -> float:
        """Return the distance of the observed rates from the limit: negative if broken; also defined for zero rates."""
        if self.second is None:
            return self.first.value - self.limit
        if self.kind == "ratio":
            return self.first.value - self.limit * self.second.value
        return self.first.value - self.second.value - self.limit

    def worst(self, alpha: float) -> float:
        """Return a lower bound on the quantity that is wrong with probability at most α."""
        if self.second is None:
            return self.first.lower(alpha)
        kind = _pair_kind(self.kind)
        compare = quantity(kind)
        if isinstance(self.first, Share) and isinstance(self.second, Share):
            if self.relation == "independent" and can_be_enumerated(self.first, self.second):
                return lower_bound_by_score_test(self.first, self.second, alpha, kind, self.limit)
            if self.relation == "independent":
                return lower_bound_independent(self.first, self.second, alpha, compare, LimitLine.of(kind, self.limit))
            if self.relation == "complementary":
                return lower_bound_complementary(self.first, alpha, compare)
            if self.relation == "group first":
                return lower_bound_against_everyone(self.first, self.second, alpha, kind, self.limit, group_first=True)
            if self.relation == "everyone first":
                return lower_bound_against_everyone(self.second, self.first, alpha, kind, self.limit, group_first=False)
        return lower_bound_separate(self.first, self.second, alpha, compare)

    def best(self, level: float) -> float:
        """Return an upper bound on the quantity, from intervals of the rates at `level`."""
        highest = self.first.interval(level)[1]
        if self.second is None:
            return highest
        return float(quantity(_pair_kind(self.kind))(highest, self.second.interval(level)[0]))

    def scaled(self, factor: float) -> Requirement:
        """Return the same rates on `factor` times as many rows."""
        return replace(
            self, first=self.first.scaled(factor), second=None if self.second is None else self.second.scaled(factor)
        )


def _pair_kind(kind: str) -> QuantityKind:
    return "ratio" if kind == "ratio" else "difference"


def requirements_of(system: ConstraintSystem, tally: Tally) -> list[Requirement]:
    """Return the requirements of a compiled system with one limit."""
    (limit,) = system.constraints
    return [
        requirement
        for comparison in system.comparisons
        for requirement in _block_requirements(limit, comparison.block, comparison.pairs, tally)
    ]


def _block_requirements(
    limit: Constraint, block: RateBlock, pairs: Sequence[tuple[int, int]], tally: Tally
) -> list[Requirement]:
    measure = resolve_measure(limit.measure)
    known = tally.statistics(block.rate, block.grouping, block.outcome, monotone=measure.monotone)
    assert known is not None, "asked before"
    several = tally.cells.n_labels > 2 and measure.per_class
    label = tally.cells.classes[block.outcome] if several else None
    groups = (*block.grouping.groups, None)
    name = rate_name(block.rate, measure.name)
    keys = [RateKey(block.grouping.name, group, label, name) for group in groups]

    found = []
    for a, b in pairs:
        for side in sides_of(limit):
            if side.kind == "value":
                own = known[a] if side.side == "at least" else _complement(known[a])
                found.append(Requirement(side.kind, side.side, side.limit, (keys[a],), own, None, "alone"))
                continue
            first, second = (b, a) if side.reversed else (a, b)
            relation = _relation(block.rate, first, second, len(groups) - 1)
            rates = known[first], known[second]
            found.append(Requirement(side.kind, side.side, side.limit, (keys[first], keys[second]), *rates, relation))
    return found


@dataclass(frozen=True)
class LimitSide:
    """One side of a limit for a pair of groups (a, b), as a quantity that must be at least `limit`.

    Attributes
    ----------
    kind : {"ratio", "difference", "value"}
    side : {"at least", "at most"}
        The side of the limit on the measure.
    limit : float
    reversed : bool
        Whether the quantity is that of (b, a); for a value of the side "at most" it is 1 minus the rate of a.
    """

    kind: str
    side: str
    limit: float
    reversed: bool = False

    @property
    def line(self) -> tuple[float, float]:
        """Return slope and shift of the requirement p ≥ slope · r + shift."""
        return {"ratio": (self.limit, 0.0), "difference": (1.0, self.limit)}.get(self.kind, (0.0, self.limit))


def requirement_text(side: LimitSide, keys: Sequence[RateKey]) -> str:
    """Return a requirement on the rates `keys` as text."""
    if side.kind == "value":
        bound = side.limit if side.side == "at least" else 1.0 - side.limit
        return f"{keys[0]} {'>=' if side.side == 'at least' else '<='} {bound:g}"
    if side.kind == "ratio":
        return f"{keys[0]} >= {side.limit:g} {keys[1]}"
    return f"{keys[0]} - {keys[1]} >= {side.limit:g}"


def sides_of(limit: Constraint) -> list[LimitSide]:
    """Return the sides of a limit."""
    lower, upper = limit.limits
    kind = resolve_measure(limit.measure).comparison
    found = []
    if lower > 0 if kind == "ratio" else math.isfinite(lower):
        found.append(LimitSide(kind, "at least", lower))
    if math.isfinite(upper):
        turned = {"value": 1.0 - upper, "difference": -upper}.get(kind)
        if turned is None:
            turned = 1.0 / upper if isinstance(limit.bound, tuple) else lower
        found.append(LimitSide(kind, "at most", turned, reversed=kind != "value"))
    return found


def _relation(rate: RateFunction, a: int, b: int, everyone: int) -> str:
    if rate is share_of_selected:
        return "complementary" if everyone == 2 and everyone not in (a, b) else "separate"
    if b == everyone:
        return "group first"
    return "everyone first" if a == everyone else "independent"


@dataclass(frozen=True)
class _Complement:
    """1 − rate, for a user-defined rate."""

    rate: Statistic

    @property
    def value(self) -> float:
        return 1.0 - self.rate.value

    @property
    def n_rates(self) -> int:
        return self.rate.n_rates

    def lower(self, level: float) -> float:
        return 1.0 - self.rate.upper(level)

    def upper(self, level: float) -> float:
        return 1.0 - self.rate.lower(level)

    def interval(self, level: float) -> tuple[float, float]:
        lower, upper = self.rate.interval(level)
        return 1.0 - upper, 1.0 - lower

    def scaled(self, factor: float) -> Statistic:
        return _Complement(self.rate.scaled(factor))


def _complement(statistic: Statistic) -> Statistic:
    if isinstance(statistic, _Complement):
        return statistic.rate
    return statistic.complement() if isinstance(statistic, Share | WeightedShare) else _Complement(statistic)


def rate_name(rate: RateFunction, otherwise: str) -> str:
    """Return the name of the function, or `otherwise` if it has none."""
    return getattr(rate, "__name__", otherwise)


# --- planning --------------------------------------------------------------------------------------------------------

# The number of rows that would decide a limit, if the population had the observed rates.
#
# A test at level α decides if its statistic exceeds z_α standard errors.  It does so with probability β (the power)
# if the mean of the statistic is z_α + z_β standard errors.  So we look for the number of rows at which the observed
# rates, taken as they are, decide at the stricter level Φ(−z_α − z_β).  The power is 0.9.


POWER = 0.9
MOST_TIMES = 1e6  # largest factor tried; a larger one would be no useful answer


def times_as_many(requirements: Sequence[Requirement], alpha: float, level: float) -> float | None:
    """Return how many times as many rows, in the same proportions, would decide with probability 0.9.

    Parameters
    ----------
    requirements : sequence of Requirement
        Requirements of one limit.
    alpha : float
        Level at which a requirement is tested for PASS.
    level : float
        Level of the interval of each rate, for FAIL.

    Returns
    -------
    float or None
        None if no number of rows would decide: the rates are at the limit, or a group has no rows.
    """
    if any(math.isnan(requirement.slack) for requirement in requirements):
        return None
    # Sorted by slack, the requirement that determines the result usually comes first, so the later searches are short.
    # An interval at `level` has level/2 on each side, so the stricter level applies to level/2.
    ordered = sorted(requirements, key=lambda requirement: requirement.slack)
    broken = [requirement for requirement in ordered if requirement.slack < 0]
    return _times_to_fail(broken, 2.0 * _stricter(level / 2.0)) if broken else _times_to_pass(ordered, _stricter(alpha))


def _times_to_fail(broken: Sequence[Requirement], level: float) -> float | None:
    """Return the least factor at which one of the requirements is shown to be broken; one suffices for FAIL."""
    found = None
    for requirement in broken:
        found = _least_times(_Fails(requirement, level), 1.0, MOST_TIMES if found is None else found) or found
    return found


def _times_to_pass(requirements: Sequence[Requirement], alpha: float) -> float | None:
    """Return the least factor at which all requirements are shown to hold; PASS needs all of them."""
    found: float | None = 1.0
    for requirement in requirements:
        if found is not None:
            found = _least_times(_Passes(requirement, alpha), found, MOST_TIMES)
    return found


class _Passes:
    """Tells whether a requirement would be shown to hold on `factor` times as many rows."""

    def __init__(self, requirement: Requirement, alpha: float) -> None:
        self.requirement, self.alpha = requirement, alpha

    def __call__(self, factor: float) -> bool:
        return self.requirement.scaled(factor).worst(self.alpha) >= self.requirement.limit


class _Fails:
    """Tells whether a requirement would be shown to be broken on `factor` times as many rows."""

    def __init__(self, requirement: Requirement, level: float) -> None:
        self.requirement, self.level = requirement, level

    def __call__(self, factor: float) -> bool:
        return self.requirement.scaled(factor).best(self.level) < self.requirement.limit


def _stricter(level: float) -> float:
    """Return Φ(−z_level − z_β)."""
    return float(special.ndtr(special.ndtri(level) - special.ndtri(POWER)))


def _least_times(decides: Callable[[float], bool], low: float, most: float) -> float | None:
    """Return the least factor from `low` to `most` that decides, to 0.5%; None if `most` does not decide."""
    if decides(low):
        return low
    high = low
    while True:
        low, high = high, min(2.0 * high, most)
        if decides(high):
            break
        if high >= most:
            return None
    while high > 1.005 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high
