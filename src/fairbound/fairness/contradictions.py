"""Find limits that no decisions can keep, by their bounds alone.

Two limits contradict each other if they bound the same quantity, a rate r_a or a difference r_a − r_b, and their
intervals have no value in common:

    selection_rate <= 0.3           selection_rate[a] >= 0.6            r_a is in [0, 0.3] and in [0.6, 1]
    demographic_parity <= 0.1       0.2 <= demographic_parity <= 1 against a

Only certain cases are found, without data.  Ratios are never among them: constant decisions, with all rates 0, keep
every limit on ratios.  Limits that only no model of the given kind keeps are left to training, which has a status.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

from fairbound._errors import InputError
from fairbound.fairness.constraints import KEPT_TOLERANCE, Constraint
from fairbound.fairness.measures import resolve_measure


def refuse_contradictions(limits: Sequence[Constraint]) -> None:
    """Raise an error that names two limits which exclude each other, if there are any.

    >>> from fairbound.fairness import as_constraints
    >>> refuse_contradictions(as_constraints(["selection_rate >= 0.3", "selection_rate[a] <= 0.6"]))
    >>> try:
    ...     refuse_contradictions(as_constraints(["selection_rate <= 0.3", "selection_rate[a] >= 0.6"]))
    ... except ValueError as error:
    ...     print(str(error).split(":")[0])
    No model can keep both 'selection_rate <= 0.3' and 'selection_rate[a] >= 0.6'
    """
    for first, second in combinations(limits, 2):
        lower = max(first.limits[0], second.limits[0])
        upper = min(first.limits[1], second.limits[1])
        if lower > upper + 2.0 * KEPT_TOLERANCE and _share_a_quantity(first, second):
            raise InputError(
                "No model can keep both {first!r} and {second!r}: they bound the same {what}, which cannot be at least "
                "{lower:g} and at most {upper:g}.",
                "Loosen one of them, or leave it out.",
                first=str(first),
                second=str(second),
                what="rate" if resolve_measure(first.measure).comparison == "value" else "difference",
                lower=lower,
                upper=upper,
            )


def _share_a_quantity(first: Constraint, second: Constraint) -> bool:
    """Return whether two limits certainly bound the same rate, or the same difference, of some group."""
    measure = resolve_measure(first.measure)
    alike = measure == resolve_measure(second.measure) and first.factor == second.factor
    if not alike or not _meet(first.classes, second.classes):
        return False
    if measure.comparison == "value":
        return _share_a_group(first, second)
    if measure.comparison == "difference":
        return _meet(first.columns, second.columns) and _share_a_pair(first, second)
    return False


def _share_a_group(first: Constraint, second: Constraint) -> bool:
    if first.against != second.against:
        return False  # one is the rate of everyone
    if first.group is None and second.group is None:
        return _meet(first.columns, second.columns)
    if first.group is not None and second.group is not None:
        # A limit without columns applies to every column that has its group.
        return str(first.group) == str(second.group) and _meet(first.columns, second.columns)
    one, every = (first, second) if first.group is not None else (second, first)
    if every.columns is None:
        return True
    return one.columns is not None and _meet(one.columns, every.columns)


def _share_a_pair(first: Constraint, second: Constraint) -> bool:
    """Return whether two limits on differences compare a group with the same other group, or with everyone."""
    if first.against == "overall" or second.against == "overall":
        return first.against == second.against
    if first.reference is None or second.reference is None:
        # The pairs of a pairwise limit include those of a reference group.  Its own interval is symmetric.
        return True
    return str(first.reference) == str(second.reference)


def _meet(first: Sequence[Hashable] | None, second: Sequence[Hashable] | None) -> bool:
    """Return whether two lists of names have one in common; None stands for all names."""
    return first is None or second is None or bool({str(each) for each in first} & {str(each) for each in second})
