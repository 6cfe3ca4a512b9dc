"""The requirements that a monitor watches.

A limit is split into requirements on pairs of groups (`requirements.sides_of`).  A requirement is watched as soon as
both of its groups have been seen.  Each rate is a share of outcomes among some rows of a group.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

from fairbound._values import find_value
from fairbound.evaluation.monitor_rows import in_one_form
from fairbound.evaluation.requirements import LimitSide, RateKey, rate_name, sides_of
from fairbound.evaluation.tally import WHOLES
from fairbound.fairness import OVERALL, Constraint, RateFunction, resolve_measure, share_of_selected

MOST_REQUIREMENTS = 10_000
MOST_GROUPS = 1000


def check_watchable(limit: Constraint) -> None:
    """Raise an error for a limit that cannot be monitored."""
    measure = resolve_measure(limit.measure)
    reason = ""
    if limit.bound is None:
        reason = "it has no bound; state one, such as disparate_impact >= 0.8"
    elif measure.comparison == "covariance":
        reason = "no e-process is known for a covariance; use demographic_parity, which limits the selection rates"
    elif limit.against == "overall" and measure.comparison != "value":
        reason = "its comparison with everyone includes the group itself; compare pairwise or with a reference group"
    elif limit.previous is not None:
        reason = "a monitor sees no decisions before; watch the share of changed decisions as a selection rate"
    elif limit.within is not None:
        reason = "it compares groups within strata; give a monitor the rows of each stratum"
    elif limit.classes is not None:
        reason = "it names classes, and a monitor has two decisions only"
    elif share_of_selected in measure.rates:
        reason = "shares of the selected depend on the sizes of the groups; disparate_impact compares selection rates"
    elif any(rate not in WHOLES for rate in measure.rates):
        reason = "its measure has a user-defined rate, but a monitor needs built-in rates, such as selection rates"
    if reason:
        raise ValueError(f"The limit {limit} cannot be monitored: {reason}.")


def check_number_of_groups(grouping: str, groups: Collection[Hashable]) -> None:
    """Raise an error for a column with too many groups, such as a column of identifiers."""
    if len(groups) > MOST_GROUPS:
        raise ValueError(
            f"Column {grouping!r} has {len(groups):,} groups, but at most {MOST_GROUPS:,} can be watched: use fewer, "
            "larger groups."
        )


@dataclass(frozen=True)
class WatchedRequirement:
    """One side of a limit for one pair of groups.

    Attributes
    ----------
    limit : int
        The place of the limit among those of the monitor.
    grouping : str
        The sensitive column, or several joined by " & ".
    rate : int
        The place of the rate among those of the limit's measure.
    side : int
        The place of the side among those of the limit.
    first, second : group
        The groups of the quantity; `second` is None for a limit on one rate.
    """

    limit: int
    grouping: str
    rate: int
    side: int
    first: Hashable
    second: Hashable | None

    def rate_function(self, limits: Sequence[Constraint]) -> RateFunction:
        """Return the rate that is compared."""
        return resolve_measure(limits[self.limit].measure).rates[self.rate]

    def limit_side(self, limits: Sequence[Constraint]) -> LimitSide:
        """Return the side of the limit."""
        return sides_of(limits[self.limit])[self.side]

    def text(self, limits: Sequence[Constraint]) -> str:
        """Return the requirement as text, as a certificate writes it."""
        side = self.limit_side(limits)
        name = rate_name(self.rate_function(limits), resolve_measure(limits[self.limit].measure).name)
        groups = (self.first,) if side.kind == "value" else (self.first, self.second)
        return side.text([RateKey(self.grouping, group, None, name) for group in groups])


def new_requirements(
    limits: Sequence[Constraint], grouping: str, known: Sequence[Hashable], group: Hashable, *, grouped: bool
) -> Iterator[WatchedRequirement]:
    """Yield the requirements of the limits between a new group of a grouping and its groups that are known already.

    `grouped` says whether rows have groups.  Without them there is everyone only.
    """
    for place, limit in enumerate(limits):
        if limit.concerns_everyone(grouped=grouped) != (grouping == OVERALL):
            continue
        if limit.columns is not None and grouping not in limit.columns:
            continue
        measure = resolve_measure(limit.measure)
        if measure.comparison == "value":
            pairs = [] if limit.group is not None and _find(limit.group, [group]) is None else [(group, group)]
        elif limit.reference is None or _find(limit.reference, [group]) is not None:
            pairs = [(old, group) for old in known]
        else:
            reference = _find(limit.reference, known)
            pairs = [] if reference is None else [(group, known[reference])]
        for rate in range(len(measure.rates)):
            for a, b in pairs:
                for number, side in enumerate(sides_of(limit)):
                    first, second = (b, a) if side.reversed else (a, b)
                    single = side.kind == "value"
                    yield WatchedRequirement(place, grouping, rate, number, first, None if single else second)


def _find(group: Hashable, known: Sequence[Hashable]) -> int | None:
    """Return the position of a group that a limit names among the known ones, or None."""
    return find_value(in_one_form(group), known)
