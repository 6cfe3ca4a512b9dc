"""Treat groups of few rows by the stated policy.

The rate of a few people is mostly noise, and a limit on it would limit noise.  A group that has fewer rows than
`min_group_size`, or in which a limited rate is undefined, is never dropped silently.  The policies for such groups:

    error   names them with their counts
    warn    leaves them out of the limits (they stay in the loss), with a warning
    merge   merges them into a group "(other)"; if it is still too small, adds the next smallest group, with a warning

The groups of a stratum, of limits "within grade", are groups like others, but they are not merged: "merge" leaves the
small ones out.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairbound._errors import InputError, Message, SmallGroupWarning
from fairbound._words import quoted
from fairbound.estimator.groups import LISTED, concerns
from fairbound.fairness import Cells, Constraint, Grouping, resolve_measure, undefined_groups

SmallGroups = Literal["error", "warn", "merge"]
OTHER = "(other)"


@dataclass(frozen=True)
class SmallGroup:
    """A small group that was left out of the limits, or merged.

    Attributes
    ----------
    grouping : str
    group : group
    rows : int
    fate : {"left out", "merged"}
    """

    grouping: str
    group: Hashable
    rows: int
    fate: str

    def __str__(self) -> str:
        # The merged group may have another name than "(other)", if the data have a group of that name.
        fate = "merged into one group with others" if self.fate == "merged" else "left out of the limits"
        return f"{self.grouping}: {quoted(self.group)} ({self.rows} rows) {fate}"


def settle_small_groups(
    cells: Cells, constraints: Sequence[Constraint], stated: SmallGroups, least: int
) -> tuple[Cells, tuple[SmallGroup, ...]]:
    """Apply the policy to groups of few rows; return the cells, and the groups that were left out or merged.

    Columns that no limit refers to are not changed.
    """
    found: list[SmallGroup] = []
    large: list[tuple[Grouping, list[int], int, list[int]]] = []
    groupings = []
    for grouping in cells.groupings:
        if not any(concerns(constraint, grouping) for constraint in constraints):
            groupings.append(grouping)
            continue
        rows = cells.group_sizes(grouping)
        policy = "warn" if stated == "merge" and grouping.within else stated  # small groups of a stratum are left out
        few = [position for position, count in enumerate(rows) if count < least]
        if policy == "error":
            if few:
                raise _too_few(grouping, rows, few, least)
            groupings.append(grouping)
            continue
        small = sorted({*few, *_undefined(cells, grouping, constraints)})
        if len(small) == len(rows) and policy == "warn":
            raise InputError(
                "All groups of {grouping!r} have fewer than {groups.min_size=least} rows: {groups}.",
                "Give more rows, or lower {groups.min_size=}.",
                grouping=grouping.name,
                least=least,
                groups=", ".join(
                    f"{quoted(name)} ({count})" for name, count in zip(grouping.groups, rows, strict=True)
                ),
            )
        if small and policy == "merge":
            pool = _pool(cells, grouping, constraints, small, rows, least)
            _check_merged(grouping, pool, constraints, rows)
            large += [(grouping, small, each, rows) for each in pool if each not in small]
            small = pool
        if small:
            fate = "merged" if policy == "merge" else "left out"
            found += [SmallGroup(grouping.name, grouping.groups[each], rows[each], fate) for each in small]
            grouping = _without(grouping, small, merge=policy == "merge")
        groupings.append(grouping)
    for merged in large:
        warnings.warn(SmallGroupWarning(_merged_large(*merged)), stacklevel=4)
    left_out = [each for each in found if each.fate == "left out"]
    if left_out:
        warnings.warn(
            "Groups too small to be limited are left out of the limits, but stay in the loss: "
            + "; ".join(f"{each.grouping}: {quoted(each.group)} ({each.rows} rows)" for each in left_out)
            + ".",
            SmallGroupWarning,
            stacklevel=4,  # the line that called the estimator
        )
    return replace(cells, groupings=tuple(groupings)), tuple(found)


def treat_alike(cells: Cells, small: Sequence[SmallGroup]) -> Cells:
    """Return the cells of other rows, with the small groups of the training rows left out or merged, too."""
    groupings = []
    for grouping in cells.groupings:
        concerned = [each for each in small if each.grouping == grouping.name]
        places = [place for each in concerned if (place := grouping.find(each.group)) is not None]
        groupings.append(_without(grouping, places, merge=concerned[0].fate == "merged") if places else grouping)
    return replace(cells, groupings=tuple(groupings))


def align_groups(
    cells: Cells, known: Mapping[str, Sequence[Hashable]], small: Sequence[SmallGroup], unseen: SmallGroups
) -> Cells:
    """Return the cells of any rows, with the groups of a fit.

    Parameters
    ----------
    cells : Cells
    known : mapping of grouping to groups
        The groups of the fit, after small groups were merged or left out.  Groups without a row here are kept.
    small : sequence of SmallGroup
        The small groups of the fit, and how they were treated.
    unseen : {"error", "warn", "merge"}
        The policy of the fit for small groups, applied to groups that had no row in the fit: keep them as groups
        ("error"), leave them out of the limits ("warn"), or merge them with the other small ones ("merge").
    """
    return replace(cells, groupings=tuple(_aligned(each, known, small, unseen) for each in cells.groupings))


def _aligned(
    grouping: Grouping, known: Mapping[str, Sequence[Hashable]], small: Sequence[SmallGroup], unseen: SmallGroups
) -> Grouping:
    if grouping.name not in known:
        return grouping
    groups = list(known[grouping.name])
    treated = [each for each in small if each.grouping == grouping.name]
    pooled = [each.group for each in treated if each.fate == "merged"]
    pool = groups.index(_pool_name([*groups[:-1], *pooled])) if pooled else None
    members: list[list[int]] = [[] for _ in groups]
    for place, group in enumerate(grouping.groups):
        if group in pooled:
            assert pool is not None
            members[pool].append(place)
        elif group in groups and groups.index(group) != pool:
            members[groups.index(group)].append(place)
        elif group not in [each.group for each in treated]:  # no row of the fit is of this group
            if unseen == "error":
                groups.append(group)
                members.append([place])
            elif unseen == "merge" and pool is not None:
                members[pool].append(place)
    membership = np.stack([grouping.membership[places].sum(axis=0) for places in members])
    everyone = (membership.sum(axis=0, keepdims=True) > 0).astype(membership.dtype)
    return replace(grouping, groups=tuple(groups), membership=np.concatenate([membership, everyone]))


def _pool_name(groups: Sequence[Hashable]) -> str:
    """Return a name for the merged group that no group of the data has."""
    name = OTHER
    while name in groups:
        name = f"({name})"
    return name


def _undefined(cells: Cells, grouping: Grouping, constraints: Sequence[Constraint]) -> set[int]:
    """Return the groups in which a limited rate is undefined."""
    found: set[int] = set()
    for constraint in constraints:
        if not concerns(constraint, grouping):
            continue
        measure = resolve_measure(constraint.measure)
        for rate in measure.rates:
            for outcome in cells.outcomes if measure.per_class else cells.outcomes[:1]:
                if constraint.classes is not None and outcome not in map(cells.find_class, constraint.classes):
                    continue
                positions = undefined_groups(rate, cells, grouping, outcome)
                if constraint.group is not None:
                    positions = [each for each in positions if each in grouping.places(constraint.group)]
                found |= set(positions)
    return found


def _pool(
    cells: Cells, grouping: Grouping, constraints: Sequence[Constraint], small: list[int], rows: list[int], least: int
) -> list[int]:
    """Return the small groups, and the next smallest ones until together they are large enough."""
    others = sorted((each for each in range(len(rows)) if each not in small), key=lambda each: rows[each])
    pool = list(small)
    while True:
        merged = _without(grouping, pool, merge=True)
        last = len(merged.groups) - 1
        if sum(rows[each] for each in pool) >= least and last not in _undefined(cells, merged, constraints):
            return sorted(pool)
        if not others:
            raise InputError(
                "All groups of {grouping!r} together have {rows} rows, too few with {groups.min_size=least}.",
                "Give more rows, or lower {groups.min_size=}.",
                grouping=grouping.name,
                rows=sum(rows),
                least=least,
            )
        pool.append(others.pop(0))


def _check_merged(grouping: Grouping, pool: list[int], constraints: Sequence[Constraint], rows: list[int]) -> None:
    """Raise an error if a merge leaves nothing to compare, or merges a group that a limit names."""
    told = ", ".join(f"{quoted(grouping.groups[each])} ({rows[each]} rows)" for each in pool)
    concerned = [constraint for constraint in constraints if concerns(constraint, grouping)]
    compares = any(resolve_measure(constraint.measure).comparison != "value" for constraint in concerned)
    if compares and len(pool) == len(grouping.groups):
        raise InputError(
            "{groups.small='merge'} makes one group of all groups of {grouping!r}: {groups}. Nothing is left to "
            "compare.",
            "Leave the small ones out of the limits with {groups.small='warn'}, or lower {groups.min_size=}.",
            grouping=grouping.name,
            groups=told,
        )
    for constraint in concerned:
        named = constraint.reference if constraint.reference is not None else constraint.group
        if named is not None and set(grouping.places(named)) & set(pool):
            raise InputError(
                "{limit} names the group {group!r} of {grouping!r}, which {groups.small='merge'} merges with others: "
                "{groups}.",
                "Name a larger group, leave small groups out of the limits with {groups.small='warn'}, or lower "
                "{groups.min_size=}.",
                limit=constraint,
                group=named,
                grouping=grouping.name,
                groups=told,
            )


def _merged_large(grouping: Grouping, few: list[int], large: int, rows: list[int]) -> Message:
    """Return the warning that a large group was merged, because the small groups together have too few rows."""
    return Message(
        "{grouping!r}: the small groups ({groups}) have too few rows even together, so {large} ({rows:,} rows) is "
        "merged with them, and has no limit of its own. To keep it apart, leave small groups out of the limits with "
        "{groups.small='warn'}, or lower {groups.min_size=}.",
        grouping=grouping.name,
        groups=", ".join(f"{quoted(grouping.groups[each])}: {rows[each]}" for each in few[:LISTED]),
        large=quoted(grouping.groups[large]),
        rows=rows[large],
    )


def _without(grouping: Grouping, positions: Sequence[int], *, merge: bool) -> Grouping:
    """Return the grouping without some groups, or with one merged group in their place."""
    return grouping.without(positions, merged=_pool_name(grouping.groups) if merge else None)


def _too_few(grouping: Grouping, rows: list[int], few: list[int], least: int) -> InputError:
    listed = ", ".join(f"{quoted(grouping.groups[each])} ({rows[each]})" for each in few[:LISTED])
    if len(few) > LISTED:
        listed += f", and {len(few) - LISTED} more"
    if len(few) > LISTED and all(isinstance(grouping.groups[each], float | int) for each in few):
        return InputError(
            "{grouping!r} has {count:,} different numbers, most of them with fewer than {groups.min_size=least} rows: "
            "{groups}.",
            "If it is a measurement, sort it into meaningful bins, and pass the bins.",
            grouping=grouping.name,
            count=len(grouping.groups),
            least=least,
            groups=listed,
        )
    return InputError(
        "{grouping!r} has groups with fewer than {groups.min_size=least} rows: {groups}. A limit on a rate of so few "
        "rows says little.",
        "Merge them with {groups.small='merge'}, leave them out of the limits with {groups.small='warn'}, or lower "
        "{groups.min_size=}.",
        grouping=grouping.name,
        least=least,
        groups=listed,
    )
