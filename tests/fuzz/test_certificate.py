"""`certify`: values, bounds, intervals and verdicts of random limits against the recomputation."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from tests.fuzz import generators as draw
from tests.fuzz import oracle
from tests.fuzz.harness import Refused, attempt, cases, expect, expect_close
from tests.fuzz.oracle import Counted, Grouping, Sample
from tests.fuzz.oracle_limits import compared, fits, measured, room
from tests.fuzz.test_audit import count, refusable

from fairbound import Constraint
from fairbound.evaluation import Certificate, Verdict, certify
from fairbound.evaluation.certificate import LimitCertificate

BETWEEN_POINTS = 0.02
"""By how much the package's bound may lie below a scan, which sees no worst case between its points."""


@cases("certify", few=30, many=8_000)
def test_certificates_agree_with_the_recomputation(cases):
    cases.run(one_certificate)


def one_certificate(rng: np.random.Generator) -> None:
    rows = draw.draw_rows(rng, most=int(draw.pick(rng, [30, 300, 3000])))
    names = draw.label_names(rng, rows.n_classes)
    combine = draw.pick(rng, ["each", "each", "intersection", "both"])
    confidence = draw.pick(rng, [0.95, 0.95, 0.8, 0.5, 0.999])
    counted = count(rows, combine)
    groupings = [grouping.name for grouping in counted.groupings]
    limits = [draw.draw_limit(rng, rows, groupings) for _ in range(int(draw.pick(rng, [1, 1, 2, 3])))]
    limits = [_named(limit, names) for limit in limits]
    largest = None
    if rows.weights is not None and draw.chance(rng, 0.7):
        largest = float(rows.weights.max()) * draw.pick(rng, [1.0, 3.0])
    sensitive = {name: draw.code_groups(rng, codes, rows.groups[name]) for name, codes in rows.columns.items()}
    found = attempt(
        certify,
        draw.code_labels(rng, rows.y, rows.n_classes, names).given,
        draw.code_labels(rng, rows.decided, rows.n_classes, names).given,
        sensitive,
        limits,
        confidence,
        sample_weight=rows.weights,
        largest_weight=largest,
        groups=combine,
        pos_label=draw.pos_label_of(rng, names),
    )
    if isinstance(found, Refused):
        known = all(grouping.groups for grouping in counted.groupings)  # a column without any group is refused
        fit = all(fits(limit, counted, names) for limit in limits)
        expect(refusable(rows) or not known or not fit, "refused:", found, limits)
        return
    agree(found, limits, counted, names, 1.0 - confidence, largest)
    json.loads(found.to_json())
    str(found)
    again = Certificate.from_dict(json.loads(found.to_json()))
    expect(again.verdict is found.verdict, "read back", again.verdict)


def _named(limit: Constraint, names: tuple[Hashable, ...]) -> Constraint:
    """Name the classes of a limit by their labels."""
    if limit.classes is None:
        return limit
    return type(limit)(**{**vars(limit), "classes": tuple(names[code] for code in limit.classes)})


def agree(
    found: Certificate,
    limits: list[Constraint],
    counted: Counted,
    names: tuple[Hashable, ...],
    alpha: float,
    largest: float | None,
) -> None:
    rates = {(each.grouping, each.group, each.label, each.rate) for each in found.rates}
    level = alpha / max(1, len(rates))
    for each in found.rates:
        grouping = next(one for one in counted.groupings if one.name == each.grouping)
        outcome = counted.outcomes[0] if each.label is None else names.index(each.label)
        sample = counted.sample(each.rate, grouping, each.group, outcome)
        if sample.value is None:
            expect((each.lower, each.upper) == (0.0, 1.0), str(each), "of no rows is", each.lower, each.upper)
            continue
        expect_close(each.value, sample.value, str(each))
        low, high = sample.interval(level, largest)
        expect_close(each.lower, low, str(each), "lower", tolerance=1e-7)
        expect_close(each.upper, high, str(each), "upper", tolerance=1e-7)
    for limit, verdict in zip(limits, found.limits, strict=True):
        agree_limit(limit, verdict, counted, names, alpha, level, largest)


def agree_limit(
    limit: Constraint,
    found: LimitCertificate,
    counted: Counted,
    names: tuple[Hashable, ...],
    alpha: float,
    level: float,
    largest: float | None,
) -> None:
    kind, _ = oracle.comparison_of(limit.name)
    values = measured(limit, counted, names)
    if not values:
        expect(found.value is None, limit, "of nothing is", found.value)
    else:
        wanted = min(room(limit, value) for value in values)
        said = (limit, "measured", found.value, "in", values)
        expect_close(room(limit, found.value), wanted, *said)
    uncertifiable = kind == "covariance" or (counted.weighted and largest is None)
    expect((found.verdict is Verdict.NOT_CERTIFIABLE) == uncertifiable, limit, "is", found.verdict)
    if uncertifiable:
        return
    tests = [test for entry in compared(limit, counted, names) for test in requirements(limit, counted, entry)]
    worst = [(bound - least, bound) for bound, least in (worst_of(test, alpha, largest) for test in tests)]
    best = [best_of(test, level, largest) - test[0] for test in tests]
    sure = 1e-7
    if all(slack > BETWEEN_POINTS for slack, _ in worst):
        expect(found.verdict is Verdict.PASS, limit, "is", found.verdict, "with room", worst)
    if any(slack < -sure for slack, _ in worst):
        expect(found.verdict is not Verdict.PASS, limit, "is PASS, beyond by", worst)
    if found.verdict is not Verdict.PASS:
        if any(slack < -sure for slack in best):
            expect(found.verdict is Verdict.FAIL, limit, "is", found.verdict, "and broken by", best)
        if all(slack > sure for slack in best):
            expect(found.verdict is Verdict.INCONCLUSIVE, limit, "is", found.verdict, "with", best)
    if found.verdict is Verdict.INCONCLUSIVE and found.times_as_many is not None:
        expect(found.times_as_many >= 1.0, limit, "needs", found.times_as_many, "times as many rows")


# A requirement: the least value allowed, kind, and the two samples (or one), with what is known of them together.
Test = tuple[float, str, Sample, Sample | None, tuple[Sample, str] | str | None]


def requirements(
    limit: Constraint, counted: Counted, entry: tuple[Grouping, int, str, Hashable, Hashable]
) -> list[Test]:
    grouping, outcome, rate, a, b = entry
    kind, _ = oracle.comparison_of(limit.name)
    lower, upper = limit.limits
    first, second = (counted.sample(rate, grouping, group, outcome) for group in (a, b))
    found: list[Test] = []
    if kind == "value":
        if math.isfinite(lower):
            found.append((lower, kind, first, None, None))
        if math.isfinite(upper):
            found.append((1.0 - upper, kind, first.complement(), None, None))
        return found

    def together(one: Sample, other: Sample, one_is: Hashable, other_is: Hashable) -> tuple[Sample, Sample, Any]:
        if counted.weighted or rate == "share_of_selected":
            two = len(grouping.groups) == 2 and not counted.weighted
            return one, other, "complementary" if two else "separate"
        if one_is is not None and other_is is not None:
            return one, other, None
        group, everyone, place = (one, other, "first") if other_is is None else (other, one, "second")
        name = one_is if other_is is None else other_is
        rest = counted_rest(counted, grouping, rate, name, outcome)
        share = Sample(np.arange(len(everyone.part)) < len(group.part), np.ones(len(everyone.part)), False)
        return (group, rest, (share, place)) if place == "first" else (rest, group, (share, place))

    if kind == "difference":
        sides = [(lower, *together(first, second, a, b)), (-upper, *together(second, first, b, a))]
        return [(bound, kind, *rest) for bound, *rest in sides if math.isfinite(bound)]
    if lower > 0:
        found.append((lower, kind, *together(first, second, a, b)))
    if math.isfinite(upper):
        inverse = 1.0 / upper if isinstance(limit.bound, tuple) else lower
        found.append((inverse, kind, *together(second, first, b, a)))
    return found


def counted_rest(counted: Counted, grouping: Grouping, rate: str, group: Hashable, outcome: int) -> Sample:
    """Return the sample of everyone but a group."""
    rest = Grouping(grouping.name, {"rest": grouping.everyone & ~grouping.groups[group]})
    return counted.sample(rate, rest, "rest", outcome)


def worst_of(test: Test, alpha: float, largest: float | None) -> tuple[float, float]:
    """Return a bound from below on the quantity, and the limit."""
    limit, kind, first, second, together = test
    if second is None:
        return first.lower(alpha, largest), limit
    if together == "separate":
        low, high = first.lower(alpha / 2, largest), second.upper(alpha / 2, largest)
    elif together == "complementary":
        low = first.lower(alpha, largest)
        high = 1.0 - low
    elif together is None and oracle.few_outcomes(first, second):
        return limit + alpha - oracle.score_p_value(first, second, alpha, kind, limit), limit
    else:
        return oracle.least_of_two(first, second, alpha, kind, limit, together), limit  # type: ignore[arg-type]
    return (low - high if kind == "difference" else low / high if high > 0 else math.inf), limit


def best_of(test: Test, level: float, largest: float | None) -> float:
    """Return a bound from above on the quantity, from intervals that hold together."""
    _, kind, first, second, together = test
    if second is None:
        return first.interval(level, largest)[1]
    if isinstance(together, tuple):  # compared with everyone, who are the group and the rest
        everyone = Sample(np.concatenate([first.part, second.part]), np.ones(len(first.part) + len(second.part)), False)
        first, second = (first, everyone) if together[1] == "first" else (everyone, second)
    high, low = first.interval(level, largest)[1], second.interval(level, largest)[0]
    return high - low if kind == "difference" else high / low if low > 0 else math.inf
