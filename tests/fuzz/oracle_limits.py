"""Limits once more: which rates of which groups a limit compares, its value, and whether decisions keep it."""

from __future__ import annotations

import math
from collections.abc import Hashable

from tests.fuzz import oracle
from tests.fuzz.oracle import Counted, Grouping

from fairbound import Constraint

KEPT_TOLERANCE = 1e-12
"""By how much rounding may exceed a bound, as the package documents it."""


def concerned(limit: Constraint, counted: Counted) -> list[Grouping]:
    """Return the groupings that a limit speaks of: those it names, or those that have the group it names."""
    if limit.columns is not None:
        return [grouping for name in limit.columns for grouping in counted.groupings if grouping.name == name]
    wanted = limit.reference if limit.reference is not None else limit.group
    if wanted is None or len(counted.groupings) == 1:
        return counted.groupings
    return [grouping for grouping in counted.groupings if has(grouping, wanted)]


def has(grouping: Grouping, group: Hashable) -> bool:
    """Tell whether a grouping has a group, by its value or by its text."""
    return own_name(grouping, group) is not None


def own_name(grouping: Grouping, group: Hashable) -> Hashable:
    if group in grouping.groups:
        return next(each for each in grouping.groups if each == group)
    return next((each for each in grouping.groups if str(each) == str(group)), None)


def compared(
    limit: Constraint, counted: Counted, names: tuple[Hashable, ...]
) -> list[tuple[Grouping, int, str, Hashable, Hashable]]:
    """Return what a limit compares: grouping, class, rate, and the two groups (twice the same for a rate)."""
    kind, rates = oracle.comparison_of(limit.name)
    outcomes = counted.classes_of(limit.name)
    if limit.classes is not None:
        outcomes = [names.index(label) for label in limit.classes]
    found = []
    for grouping in concerned(limit, counted):
        if kind == "value":
            wanted = list(grouping.groups) if limit.group is None else [own_name(grouping, limit.group)]
            pairs = [(group, group) for group in wanted]
        elif kind == "covariance" or limit.against == "overall":
            pairs = oracle.pairs_of(grouping, "overall")
            if kind == "covariance" and len(pairs) == 2:  # they differ in sign alone: that of the second group counts
                pairs = [max(pairs, key=lambda pair: pair[0])]  # type: ignore[type-var]
        elif limit.reference is not None:
            pairs = oracle.pairs_of(grouping, "reference", own_name(grouping, limit.reference))
        else:
            pairs = oracle.pairs_of(grouping, "pairwise")
        found += [(grouping, outcome, rate, a, b) for outcome in outcomes for rate in rates for a, b in pairs]
    return found


def measured(
    limit: Constraint, counted: Counted, names: tuple[Hashable, ...], *, empty_is_zero: bool = False
) -> list[float]:
    """Return the values that a limit compares, of which the worst is reported; rates of nothing are left out or 0."""
    kind, _ = oracle.comparison_of(limit.name)
    directed = isinstance(limit.bound, tuple)
    lower, upper = limit.limits
    values = []
    for grouping, outcome, rate, a, b in compared(limit, counted, names):
        first = counted.sample(rate, grouping, a, outcome).value
        second = counted.sample(rate, grouping, b, outcome).value
        if empty_is_zero:
            first, second = first or 0.0, second or 0.0
        if first is None or second is None:
            continue
        if kind == "covariance":
            values.append(counted.share(grouping, a) * (first - second))
        elif kind == "value":
            values.append(first)
        elif not directed:
            values.append(oracle.compare(kind, first, second))
        elif kind == "difference":
            values.append(first - second)
        elif second > 0:
            values.append(first / second)
        else:
            values.append(math.inf if first > 0 else min(max(1.0, lower), upper))
    return values


def room(limit: Constraint, value: float) -> float:
    """Return how far a value is within the bounds of a limit; less is worse."""
    kind, _ = oracle.comparison_of(limit.name)
    if isinstance(limit.bound, tuple):
        lower, upper = limit.limits
        return min(value - lower, upper - value)
    return value if kind == "ratio" else -abs(value)


def fits(limit: Constraint, counted: Counted, names: tuple[Hashable, ...]) -> bool:
    """Tell whether a limit can be tested on these rows: its groups are there, and there is something to compare."""
    groupings = concerned(limit, counted)
    wanted = limit.reference if limit.reference is not None else limit.group
    if not groupings or (wanted is not None and not all(has(grouping, wanted) for grouping in groupings)):
        return False
    if limit.classes is not None and (counted.n_classes == 2 or limit.name in oracle.ALL_CLASSES):
        return False
    kind, _ = oracle.comparison_of(limit.name)
    return kind == "value" or all(len(grouping.groups) > 1 for grouping in groupings)


def exceeded(limit: Constraint, counted: Counted, names: tuple[Hashable, ...]) -> float:
    """Return by how much the decisions exceed a limit, in the form that is linear in the rates; at most 0 is kept.

    As in training, a precision of nobody is 0: what the decisions leave empty is no way out of a limit.
    """
    kind, _ = oracle.comparison_of(limit.name)
    lower, upper = limit.limits
    beyond = [-math.inf]
    for grouping, outcome, rate, a, b in compared(limit, counted, names):
        first = counted.sample(rate, grouping, a, outcome).value or 0.0
        second = counted.sample(rate, grouping, b, outcome).value or 0.0
        if kind == "ratio":
            inverse = 1.0 / upper if isinstance(limit.bound, tuple) else lower
            beyond.append(lower * second - first if lower > 0 else -math.inf)
            beyond.append(inverse * first - second if math.isfinite(upper) else -math.inf)
            continue
        value = first if kind == "value" else first - second
        if kind == "covariance":
            value *= counted.share(grouping, a)
        beyond += [lower - value, value - upper]
    return max(beyond)
