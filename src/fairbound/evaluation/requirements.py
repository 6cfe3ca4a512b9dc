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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from fairbound._words import group_text
from fairbound.evaluation.bounds import (
    LimitLine,
    lower_bound_against_everyone,
    lower_bound_independent,
    quantity,
)
from fairbound.evaluation.intervals import Share, Statistic
from fairbound.evaluation.score_test import can_be_enumerated, lower_bound_by_score_test
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

    @property
    def of_complement(self) -> bool:
        """Return whether the quantity is one minus a rate."""
        return self.kind == "value" and self.side == "at most"

    def text(self, keys: Sequence[RateKey]) -> str:
        """Return the requirement on the rates `keys` as text."""
        if self.kind == "ratio":
            return f"{keys[0]} >= {self.limit:g} {keys[1]}"
        if self.kind == "difference":
            return f"{keys[0]} - {keys[1]} >= {self.limit:g}"
        return f"{keys[0]} <= {1.0 - self.limit:g}" if self.of_complement else f"{keys[0]} >= {self.limit:g}"


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


@dataclass(frozen=True)
class Requirement:
    """A quantity that must be at least the limit of a side.

    Attributes
    ----------
    side : LimitSide
    keys : tuple of RateKey
        The rates of the quantity.
    first, second : Statistic
        The quantity increases in the first rate and decreases in the second; `second` is None for a single rate.
    relation : {"independent", "dependent", "complementary", "group first", "everyone first", "alone"}
        How the two rates depend on each other, which decides which bound is valid.
    """

    side: LimitSide
    keys: tuple[RateKey, ...]
    first: Statistic
    second: Statistic | None
    relation: str

    def __str__(self) -> str:
        return self.side.text(self.keys)

    def rates(self) -> list[tuple[RateKey, Statistic]]:
        """Return the rates with their statistics; for a quantity 1 − rate, the rate itself."""
        first = self.first.complement() if self.side.of_complement else self.first
        return list(zip(self.keys, [first] if self.second is None else [first, self.second], strict=True))

    @property
    def slack(self) -> float:
        """Return the distance of the observed rates from the limit: negative if broken; also defined for zero rates."""
        slope, shift = self.side.line
        return self.first.value - (0.0 if self.second is None else slope * self.second.value) - shift

    def worst(self, alpha: float) -> float:
        """Return a lower bound on the quantity that is wrong with probability at most α."""
        if self.second is None:
            return self.first.lower(alpha)
        kind, limit = self.side.kind, self.side.limit
        compare = quantity(kind)
        if isinstance(self.first, Share) and isinstance(self.second, Share):
            if self.relation == "independent" and can_be_enumerated(self.first, self.second):
                return lower_bound_by_score_test(self.first, self.second, alpha, kind, limit)
            if self.relation == "independent":
                return lower_bound_independent(self.first, self.second, alpha, compare, LimitLine.of(kind, limit))
            if self.relation == "complementary":  # Q(r, 1 − r) increases in r, so one bound on r suffices
                lowest = self.first.lower(alpha)
                return float(compare(lowest, 1.0 - lowest))
            if self.relation == "group first":
                return lower_bound_against_everyone(self.first, self.second, alpha, kind, limit, group_first=True)
            if self.relation == "everyone first":
                return lower_bound_against_everyone(self.second, self.first, alpha, kind, limit, group_first=False)
        # A bound on each rate at half the level is valid without independence.
        return float(compare(self.first.lower(alpha / 2.0), self.second.upper(alpha / 2.0)))

    def best(self, level: float) -> float:
        """Return an upper bound on the quantity, from intervals of the rates at `level`."""
        highest = self.first.interval(level)[1]
        if self.second is None:
            return highest
        return float(quantity(self.side.kind)(highest, self.second.interval(level)[0]))

    def passes(self, factor: float, alpha: float) -> bool:
        """Return whether it would be shown to hold on `factor` times as many rows with the same rates."""
        return self.scaled(factor).worst(alpha) >= self.side.limit

    def fails(self, factor: float, level: float) -> bool:
        """Return whether it would be shown to be broken on `factor` times as many rows with the same rates."""
        return self.scaled(factor).best(level) < self.side.limit

    def scaled(self, factor: float) -> Requirement:
        """Return the same rates on `factor` times as many rows."""
        second = None if self.second is None else self.second.scaled(factor)
        return replace(self, first=self.first.scaled(factor), second=second)


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
) -> Iterator[Requirement]:
    measure = resolve_measure(limit.measure)
    known = tally.counts(block.grouping, block.outcome).rate(block.rate, monotone=measure.monotone).statistics
    assert known is not None, "asked before"
    label = tally.cells.classes[block.outcome] if tally.cells.n_labels > 2 and measure.per_class else None
    groups = (*block.grouping.groups, None)
    name = rate_name(block.rate, measure.name)
    keys = [RateKey(block.grouping.name, group, label, name) for group in groups]
    for a, b in pairs:
        for side in sides_of(limit):
            if side.kind == "value":
                own = known[a].complement() if side.of_complement else known[a]
                yield Requirement(side, (keys[a],), own, None, "alone")
            else:
                first, second = (b, a) if side.reversed else (a, b)
                relation = _relation(block.rate, first, second, len(groups) - 1)
                yield Requirement(side, (keys[first], keys[second]), known[first], known[second], relation)


def _relation(rate: RateFunction, a: int, b: int, everyone: int) -> str:
    if rate is share_of_selected:
        return "complementary" if everyone == 2 and everyone not in (a, b) else "dependent"
    if b == everyone:
        return "group first"
    return "everyone first" if a == everyone else "independent"


def rate_name(rate: RateFunction, otherwise: str) -> str:
    """Return the name of the function, or `otherwise` if it has none."""
    return getattr(rate, "__name__", otherwise)
