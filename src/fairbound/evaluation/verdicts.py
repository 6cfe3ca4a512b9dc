"""The verdict on one limit: test its requirements, and express the bounds in the unit of its measure.

If they do not decide, it says how many rows would, in a population with the observed rates.  A test at level α decides
if its statistic exceeds z_α standard errors.  It does so with probability β (the power) if the mean of the statistic is
z_α + z_β standard errors.  So we look for the number of rows at which the observed rates, taken as they are, decide at
the stricter level Φ(−z_α − z_β).  The power is 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Literal

from scipy import special

from fairbound._errors import Message
from fairbound._json import Number
from fairbound._words import as_level, at_least, at_most, count, factor_text, group_text
from fairbound.evaluation.requirements import Requirement
from fairbound.evaluation.tally import WHOLES, Tally
from fairbound.fairness import Constraint, ConstraintSystem, resolve_measure

GroupRows = dict[str, dict[Hashable, int]]
"""Rows of each group of each grouping."""

Tested = Sequence[tuple[Requirement, float, float]]
"""Requirements, each with its worst and its best value."""


class Verdict(Enum):
    """The verdict on a limit."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_CERTIFIABLE = "NOT CERTIFIABLE"


def _set_open_ends(record: Bounds | RequirementBounds, worst: float) -> None:
    """Replace NaN, which is what JSON has in place of infinities, by the infinite end."""
    for name, end in (("worst", worst), ("best", -worst)):
        if math.isnan(getattr(record, name)):
            object.__setattr__(record, name, end)


@dataclass(frozen=True)
class Bounds:
    """One side of a limit, in the unit of the measure.

    Attributes
    ----------
    side : {"at least", "at most"}
    limit : float
        The stated bound.
    worst : float
        The worst value of the measure that is compatible with the rows: a one-sided confidence bound.
    best : float
        The best value that is compatible with them, from intervals that hold simultaneously for all rates.
    """

    side: Literal["at least", "at most"]
    limit: float
    worst: Number
    best: Number

    def __post_init__(self) -> None:
        open_end = -math.inf if self.side == "at least" else math.inf
        _set_open_ends(self, open_end)

    @property
    def broken(self) -> bool:
        """Return whether even the best value lies beyond the stated bound."""
        return self.best < self.limit if self.side == "at least" else self.best > self.limit

    def words(self, value: float, *, turned: bool = False) -> str:
        """Return a bound on the measure on this side as text; with `turned`, on the other side."""
        return f"at least {at_least(value)}" if (self.side == "at least") != turned else f"at most {at_most(value)}"


@dataclass(frozen=True)
class RequirementBounds:
    """A requirement as text, the least allowed value of its quantity, and the worst and the best possible one."""

    text: str
    limit: float
    worst: Number
    best: Number

    def __post_init__(self) -> None:
        _set_open_ends(self, -math.inf)


@dataclass(frozen=True)
class LimitCertificate:
    """The verdict on one limit, with bounds.

    Attributes
    ----------
    limit, measure : str
    verdict : Verdict
    value : float or None
        The measured value, over the groups where it is defined.
    bounds : tuple of Bounds
        One for each side of the limit.
    reason : str
        One sentence.
    times_as_many : float or None
        If inconclusive: how many times as many rows would decide with probability 0.9, at the observed rates.
    rows_needed : dict or None
        The same as numbers of rows, for each group of each grouping that the limit uses.
    requirements : tuple of RequirementBounds
    """

    limit: str
    measure: str
    verdict: Verdict
    value: float | None
    bounds: tuple[Bounds, ...]
    reason: str
    times_as_many: float | None = None
    rows_needed: dict[str, dict[Hashable, int]] | None = None
    requirements: tuple[RequirementBounds, ...] = field(default=(), repr=False)


def refusal(limit: Constraint, tally: Tally, largest_weight_stated: bool) -> str:
    """Return why the limit is not certifiable, or an empty text."""
    measure = resolve_measure(limit.measure)
    if measure.comparison == "covariance":
        return "no bound is claimed for a covariance; demographic_parity limits the selection rates themselves."
    if tally.weighted and not largest_weight_stated:
        return Message(
            "the rows have weights, and then a bound depends on the largest weight that a row can have by design: "
            "state it with {largest_weight=}."
        )
    if not measure.monotone and any(rate not in WHOLES for rate in measure.rates):
        return (
            "no bound is known for this user-defined rate. If it depends only on a group's share of positives, "
            "true-positive rate and false-positive rate, and is monotone in each, set monotone=True in its Measure."
        )
    return ""


def groups_concerned(system: ConstraintSystem, tally: Tally) -> GroupRows:
    """Return the numbers of rows of the groups that a limit uses."""
    found: GroupRows = {}
    for block in system.blocks:
        rows = tally.group_rows(block.grouping)[:-1]
        found.setdefault(block.grouping.name, {}).update(zip(block.grouping.groups, rows, strict=True))
    return found


def certify_limit(
    system: ConstraintSystem, requirements: list[Requirement], tally: Tally, alpha: float, level: float
) -> LimitCertificate:
    """Test the requirements of one limit: each at level α for PASS, each rate's interval at `level` for FAIL."""
    (limit,) = system.constraints
    tested = [(each, each.worst(alpha), each.best(level)) for each in requirements]
    sure = f"with {as_level(1.0 - alpha)} confidence"
    broken = [(best - each.side.limit, str(each)) for each, _, best in tested if best < each.side.limit]
    times, needed = None, None
    if all(worst >= each.side.limit for each, worst, _ in tested):
        verdict, reason = Verdict.PASS, f"kept {sure}."
    elif broken:
        furthest = min(broken, key=lambda pair: pair[0])
        verdict, reason = Verdict.FAIL, f"broken {sure}: it needs {furthest[1]}."
    else:
        verdict, times, rows = (
            Verdict.INCONCLUSIVE,
            times_as_many(requirements, alpha, level),
            groups_concerned(system, tally),
        )
        if times is not None:
            needed = {
                name: {group: math.ceil(times * n) for group, n in groups.items()} for name, groups in rows.items()
            }
        reason = _inconclusive_reason(tested, rows, times, needed)
    stated = tuple(RequirementBounds(str(each), each.side.limit, worst, best) for each, worst, best in tested)
    return LimitCertificate(
        str(limit),
        limit.name,
        verdict,
        tally.measured(system),
        tuple(_bounds(limit, tested)),
        reason,
        times,
        needed,
        stated,
    )


def _inconclusive_reason(tested: Tested, rows: GroupRows, times: float | None, needed: GroupRows | None) -> str:
    unknown = {str(key) for each, _, _ in tested for key, known in each.rates() if math.isnan(known.value)}
    if unknown:
        return f"there are no rows to measure {', '.join(sorted(unknown))}."
    # The requirement that is furthest from being shown, and its group with the fewest rows.
    requirement, _, _ = min(tested, key=lambda each: each[1] - each[0].side.limit)
    known = [key for key in requirement.keys if key.group is not None]
    fewest = min(known, key=lambda key: rows[key.grouping][key.group])
    here = f"{group_text(fewest.group)} has {count(rows[fewest.grouping][fewest.group])} rows"
    least_sure = f"Least sure is {requirement}: {here}"
    if times is None or needed is None:
        return f"not even a million times as many rows would decide at the observed rates. {least_sure}."
    listed = "; ".join(
        f"{name}: {', '.join(f'{group_text(group)} {count(n)}' for group, n in groups.items())}"
        for name, groups in needed.items()
    )
    return (
        f"about {factor_text(times)} times as many rows would decide at the observed rates ({listed}). {least_sure}, "
        f"and about {count(needed[fewest.grouping][fewest.group])} would decide."
    )


def _bounds(limit: Constraint, tested: Tested) -> list[Bounds]:
    """Return the bounds in the unit of the measure, from the bounds on the quantities of the requirements."""
    kind = resolve_measure(limit.measure).comparison
    lower, upper = limit.limits
    both = isinstance(limit.bound, tuple)

    def least(side: str) -> list[float]:
        chosen = [(worst, best) for each, worst, best in tested if each.side.side == side or not both]
        return [min(values) for values in zip(*chosen, strict=True)]

    found = []
    if (both or kind == "ratio") and (values := least("at least")):
        worst, best = values
        found.append(Bounds("at least", lower, worst, best if both else min(best, 1.0)))
    if (both or kind == "difference") and (values := least("at most")):
        worst, best = (_to_measure(kind, value) for value in values)
        found.append(Bounds("at most", upper, worst, best if both else max(best, 0.0)))
    return found


def _to_measure(kind: str, value: float) -> float:
    """Convert the quantity of an upper side back to the measure: −(r_b − r_a), 1 / (r_b / r_a), 1 − (1 − r)."""
    if kind == "ratio":
        return 1.0 / value if value > 0 else math.inf
    return 1.0 - value if kind == "value" else -value


def sides_in_words(limit: LimitCertificate) -> str:
    """Return the bounds as text: the best compatible values if the limit is broken, else the worst ones."""
    if limit.verdict is Verdict.FAIL:
        broken = [side for side in limit.bounds if side.broken] or limit.bounds
        return " and ".join(side.words(side.best, turned=True) for side in broken)
    return " and ".join(side.words(side.worst) for side in limit.bounds) or "-"


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
    ordered = sorted(requirements, key=lambda requirement: requirement.slack)
    broken = [requirement for requirement in ordered if requirement.slack < 0]
    found: float | None
    if broken:  # one that is shown to be broken suffices for FAIL
        found = None
        for requirement in broken:
            # An interval at `level` has level/2 on each side, so the stricter level applies to level/2.
            fails = partial(requirement.fails, level=2.0 * _stricter(level / 2.0))
            found = _least_times(fails, 1.0, MOST_TIMES if found is None else found) or found
        return found
    found = 1.0
    for requirement in ordered:  # all must be shown to hold for PASS
        if found is not None:
            found = _least_times(partial(requirement.passes, alpha=_stricter(alpha)), found, MOST_TIMES)
    return found


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
