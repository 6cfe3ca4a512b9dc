"""The verdict on one limit: test its requirements, and express the bounds in the unit of its measure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from fairbound._errors import Message
from fairbound._json import as_json, as_record
from fairbound._words import at_least, at_most, count, factor_text, group_text, percent
from fairbound.evaluation.requirements import Requirement, times_as_many
from fairbound.evaluation.tally import WHOLES, Tally
from fairbound.fairness import Constraint, ConstraintSystem, parse_constraint, resolve_measure

Side = Literal["at least", "at most"]
GroupRows = dict[str, dict[Hashable, int]]  # rows of each group of each grouping


class Verdict(Enum):
    """The verdict on a limit."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_CERTIFIABLE = "NOT CERTIFIABLE"


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

    side: str
    limit: float
    worst: float
    best: float


@dataclass(frozen=True)
class StatedRequirement:
    """The text and limit of a requirement; a certificate that was loaded does not have its rates."""

    text: str
    limit: float

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class LimitCertificate:
    """The verdict on one limit, with bounds.

    Attributes
    ----------
    limit : Constraint, or str
        Only its text if the certificate was loaded and the measure is unknown.
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
    requirements : tuple of (Requirement, float, float)
        Each requirement with its worst and best value.
    """

    limit: Constraint | str
    verdict: Verdict
    value: float | None
    bounds: tuple[Bounds, ...]
    reason: str
    times_as_many: float | None = None
    rows_needed: dict[str, dict[Hashable, int]] | None = None
    requirements: tuple[tuple[Requirement | StatedRequirement, float, float], ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json(
            {
                "limit": str(self.limit),
                "measure": self.limit if isinstance(self.limit, str) else self.limit.name,
                "verdict": self.verdict.value,
                "value": self.value,
                "bounds": [dict(vars(side)) for side in self.bounds],
                "reason": self.reason,
                "times_as_many": self.times_as_many,
                "rows_needed": self.rows_needed,
                "requirements": [
                    {"text": str(requirement), "limit": requirement.limit, "worst": worst, "best": best}
                    for requirement, worst, best in self.requirements
                ],
            }
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LimitCertificate:
        """Return a record from the dictionary of `to_dict`; the groups of `rows_needed` are text."""
        text = as_record(values["limit"], str)
        try:
            limit: Constraint | str = parse_constraint(text)
        except ValueError:  # a user-defined measure
            limit = text
        return cls(
            limit,
            as_record(values["verdict"], Verdict),
            as_record(values["value"], float | None),
            tuple(
                Bounds(
                    as_record(each["side"], Side),
                    as_record(each["limit"], float),
                    *_read_open(each, each["side"]),
                )
                for each in as_record(values["bounds"], list[dict[str, Any]])
            ),
            as_record(values["reason"], str),
            as_record(values["times_as_many"], float | None),
            as_record(values["rows_needed"], dict[str, dict[str, int]] | None),
            tuple(
                (
                    StatedRequirement(as_record(each["text"], str), as_record(each["limit"], float)),
                    *_read_open(each, "at least"),
                )
                for each in as_record(values["requirements"], list[dict[str, Any]])
            ),
        )


def _read_open(values: Mapping[str, Any], side: str) -> tuple[float, float]:
    """Return the worst and the best value; JSON has no infinities, so they were written as null."""
    end = math.inf if side == "at most" else -math.inf
    worst, best = (as_record(values[name], float | None) for name in ("worst", "best"))
    return end if worst is None else worst, -end if best is None else best


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


def groups_concerned(system: ConstraintSystem, tally: Tally) -> dict[str, dict[Hashable, int]]:
    """Return the numbers of rows of the groups that a limit uses."""
    found: dict[str, dict[Hashable, int]] = {}
    for block in system.blocks:
        rows = tally.group_rows(block.grouping)[:-1]
        found.setdefault(block.grouping.name, {}).update(zip(block.grouping.groups, rows, strict=True))
    return found


def certify_limit(
    system: ConstraintSystem, requirements: list[Requirement], tally: Tally, alpha: float, level: float
) -> LimitCertificate:
    """Test the requirements of one limit: each at level α for PASS, each rate's interval at `level` for FAIL."""
    (limit,) = system.constraints
    tested = tuple((each, each.worst(alpha), each.best(level)) for each in requirements)
    bounds = _bounds(limit, tested)
    value = tally.measured(system)
    sure = f"with {percent(1.0 - alpha)} confidence"
    if all(worst >= each.limit for each, worst, _ in tested):
        return LimitCertificate(limit, Verdict.PASS, value, bounds, f"kept {sure}.", requirements=tested)
    broken = [(each, best) for each, _, best in tested if best < each.limit]
    if broken:
        furthest, _ = min(broken, key=lambda pair: pair[1] - pair[0].limit)
        reason = f"broken {sure}: it needs {furthest}."
        return LimitCertificate(limit, Verdict.FAIL, value, bounds, reason, requirements=tested)
    times = times_as_many(requirements, alpha, level)
    rows = groups_concerned(system, tally)
    needed = None
    if times is not None:
        needed = {
            name: {group: math.ceil(times * here) for group, here in groups.items()} for name, groups in rows.items()
        }
    reason = _inconclusive_reason(tested, rows, times, needed)
    return LimitCertificate(limit, Verdict.INCONCLUSIVE, value, bounds, reason, times, needed, tested)


def _inconclusive_reason(
    tested: Sequence[tuple[Requirement, float, float]],
    rows: GroupRows,
    times: float | None,
    needed: GroupRows | None,
) -> str:
    unknown = {str(key) for each, _, _ in tested for key, known in each.rates() if math.isnan(known.value)}
    if unknown:
        return f"there are no rows to measure {', '.join(sorted(unknown))}."
    least_sure = _least_certain(tested, rows, needed)
    if needed is not None and times is not None:
        listed = "; ".join(
            f"{name}: {', '.join(f'{group_text(group)} {count(rows)}' for group, rows in groups.items())}"
            for name, groups in needed.items()
        )
        many = f"about {factor_text(times)} times as many rows would decide at the observed rates ({listed})."
        return f"{many} {least_sure}"
    return f"not even a million times as many rows would decide at the observed rates. {least_sure}"


def _least_certain(
    tested: Sequence[tuple[Requirement, float, float]],
    rows: GroupRows,
    needed: GroupRows | None,
) -> str:
    """Return a sentence with the requirement that is furthest from being shown, and its group with the fewest rows."""
    requirement, _, _ = min(tested, key=lambda each: each[1] - each[0].limit)
    known = [key for key in requirement.keys if key.group is not None]
    fewest = min(known, key=lambda key: rows[key.grouping][key.group])
    here = f"{group_text(fewest.group)} has {count(rows[fewest.grouping][fewest.group])} rows"
    there = "" if needed is None else f", and about {count(needed[fewest.grouping][fewest.group])} would decide"
    return f"Least sure is {requirement}: {here}{there}."


def _bounds(limit: Constraint, tested: Sequence[tuple[Requirement, float, float]]) -> tuple[Bounds, ...]:
    """Return the bounds in the unit of the measure, from the bounds on the quantities of the requirements."""
    kind = resolve_measure(limit.measure).comparison
    lower, upper = limit.limits
    both = isinstance(limit.bound, tuple)
    found = []
    if both or kind == "ratio":
        chosen = [(worst, best) for each, worst, best in tested if each.side == "at least" or not both]
        if chosen:
            worst, best = (min(values) for values in zip(*chosen, strict=True))
            found.append(Bounds("at least", lower, worst, best if both else min(best, 1.0)))
    if both or kind == "difference":
        chosen = [(worst, best) for each, worst, best in tested if each.side == "at most" or not both]
        if chosen:
            worst, best = (_to_measure(kind, min(values)) for values in zip(*chosen, strict=True))
            found.append(Bounds("at most", upper, worst, best if both else max(best, 0.0)))
    return tuple(found)


def _to_measure(kind: str, value: float) -> float:
    """Convert the quantity of an upper side back to the measure: −(r_b − r_a), 1 / (r_b / r_a), 1 − (1 − r)."""
    if kind == "ratio":
        return 1.0 / value if value > 0 else math.inf
    return 1.0 - value if kind == "value" else -value


def sides_in_words(limit: LimitCertificate) -> str:
    """Return the bounds as text: the best compatible values if the limit is broken, else the worst ones."""
    if limit.verdict is Verdict.FAIL:
        turned = {"at least": "at most", "at most": "at least"}
        broken = [side for side in limit.bounds if _is_broken(side)] or limit.bounds
        return " and ".join(_in_words(turned[side.side], side.best) for side in broken)
    return " and ".join(_in_words(side.side, side.worst) for side in limit.bounds) or "-"


def _in_words(side: str, value: float) -> str:
    return f"{side} {at_least(value) if side == 'at least' else at_most(value)}"


def _is_broken(side: Bounds) -> bool:
    return side.best < side.limit if side.side == "at least" else side.best > side.limit
