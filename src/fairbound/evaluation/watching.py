"""The requirements that a monitor watches, and the outcomes of rows that count in each.

A limit is split into requirements on pairs of groups (`requirements.sides_of`).  A requirement is watched as soon as
both of its groups have been seen.  Each rate is a share of outcomes among some rows of a group.

**Blocks.**  The rows of a group in a batch are divided into consecutive blocks of about equal size.  There are as many
blocks as rows of the smaller group, up to `MOST_BLOCKS`.  So all rows are used.  The order of the rows in a batch does
not matter, because those of each group are put into a random order first.  If one group has no rows in a batch, the
rows of the other wait, and count in the first block of a later batch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._values import find_value
from fairbound.evaluation.requirements import LimitSide, RateKey, rate_name, requirement_text, sides_of
from fairbound.evaluation.tally import WHOLES
from fairbound.fairness import (
    Constraint,
    GroupSums,
    RateFunction,
    as_array,
    evaluate,
    is_divided,
    is_missing,
    read_columns,
    resolve_measure,
    share_of_selected,
)

MOST_REQUIREMENTS = 10_000
MOST_GROUPS = 1000
MOST_BLOCKS = 200
"""Most blocks of a requirement in a batch.  Stakes are chosen once per block; more blocks would gain almost nothing."""

Waiting = NDArray[np.float64]  # rows and positive outcomes of both rates that have no counterpart yet, (4,)


def check_watchable(limit: Constraint) -> None:
    """Raise an error for a limit that cannot be monitored."""
    measure = resolve_measure(limit.measure)
    reason = ""
    if limit.bound is None:
        reason = "it has no bound; state one, such as disparate_impact >= 0.8"
    elif measure.comparison == "covariance":
        reason = "no e-process is known for a covariance; use demographic_parity, which limits the selection rates"
    elif limit.against == "overall":
        reason = "its comparison with everyone includes the group itself; compare pairwise or with a reference group"
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


# --- requirements ----------------------------------------------------------------------------------------------------


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

    def line(self, limits: Sequence[Constraint]) -> tuple[float, float]:
        """Return slope and shift of the requirement p ≥ slope · r + shift."""
        return self.limit_side(limits).line

    def text(self, limits: Sequence[Constraint]) -> str:
        """Return the requirement as text, as a certificate writes it."""
        side = self.limit_side(limits)
        name = rate_name(self.rate_function(limits), resolve_measure(limits[self.limit].measure).name)
        groups = (self.first,) if side.kind == "value" else (self.first, self.second)
        return requirement_text(side, [RateKey(self.grouping, group, None, name) for group in groups])


def new_requirements(
    limits: Sequence[Constraint], place: int, grouping: str, known: Sequence[Hashable], group: Hashable
) -> Iterator[WatchedRequirement]:
    """Yield the requirements of one limit between a new group and the groups that are known already."""
    limit = limits[place]
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


# --- rows ------------------------------------------------------------------------------------------------------------


def group_rows(
    sensitive_features: Any, n: int, groups: str, rng: np.random.Generator
) -> tuple[list[str], dict[str, dict[Hashable, NDArray[np.int64]]]]:
    """Return the names of the columns, and for each grouping its groups with the places of their rows, in random order.

    Rows without a known group are in none.
    """
    read = read_columns(sensitive_features, n)
    divided = [name for name, values in read.items() if is_divided(values)]
    if divided:
        raise ValueError(
            f"A monitor watches groups that are known, but {divided[0]!r} has probabilities of groups: give one group "
            "for each row."
        )
    columns = {name: list(map(in_one_form, as_array(values).tolist())) for name, values in read.items()}
    if not columns:
        raise ValueError("sensitive_features has no columns: give at least one.")
    keys: dict[str, list[Any]] = {}
    if groups in ("each", "both") or len(columns) < 2:
        keys |= {name: [(value,) for value in values] for name, values in columns.items()}
    if groups in ("intersection", "both") and len(columns) > 1:
        keys[" & ".join(columns)] = list(zip(*columns.values(), strict=True))
    found: dict[str, dict[Hashable, NDArray[np.int64]]] = {}
    for name, key in keys.items():
        places: dict[Hashable, list[int]] = {}
        for row, values in enumerate(key):
            if not any(map(is_missing, values)):
                places.setdefault(values if len(values) > 1 else values[0], []).append(row)
        check_number_of_groups(name, places)
        # The order of one group must not depend on that of another, nor on which of them comes first.
        mixed = {group: rng.permutation(places[group]) for group in sorted(places, key=repr)}
        found[name] = {group: mixed[group] for group in places}
    return list(columns), found


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?")
_EXACT_DIGITS = 15  # of a fraction; whole numbers are exact at any length


def in_one_form(group: Any) -> Any:
    """Return a group in the form that it has in every batch: as a number, even if a stray word made its column text.

    Codes such as 01 stay text, and truth values become text, as in files.

    >>> [in_one_form(group) for group in (1, 1.0, "1", "1.0", -0.0, "0.5", "01", True, "yes")]
    [1, 1, 1, 1, 0, 0.5, '01', 'True', 'yes']
    """
    if isinstance(group, bool):
        return str(group)
    if isinstance(group, str) and len(group) < 40:
        found = _NUMBER.fullmatch(group.strip())
        if found is not None and (found[2] is None or not found[2].strip(".0")):
            return int(found[0].partition(".")[0])
        if found is not None and len(group) <= _EXACT_DIGITS:
            return float(found[0])
    return int(group) if isinstance(group, float) and group.is_integer() else group


@cache
def _outcome_table(rate: RateFunction) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return, for each kind of row (2 · label + decision), whether it counts in a rate, and its outcome, 0 or 1.

    The rate itself is evaluated on single rows, so that a monitor needs no second formula for it.
    """
    label, decision = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    sums = GroupSums(
        selected_positives=label * decision,
        selected_negatives=(1.0 - label) * decision,
        rejected_positives=label * (1.0 - decision),
        rejected_negatives=(1.0 - label) * (1.0 - decision),
        positives=label,
        negatives=1.0 - label,
        correct=(label == decision).astype(np.float64),
        one_row=1.0,
    )
    whole = WHOLES[rate](sums)
    return whole > 0, np.nan_to_num(evaluate(rate, sums)) * whole


def outcomes(rate: RateFunction, kinds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the outcomes of the rows that count in a rate, 1 or 0, in their order."""
    counts, positive = _outcome_table(rate)
    return positive[kinds[counts[kinds]]]


# --- blocks ----------------------------------------------------------------------------------------------------------


def divide(
    waiting: Waiting, first: NDArray[np.float64], second: NDArray[np.float64] | None
) -> tuple[Waiting, NDArray[np.float64]]:
    """Divide the outcomes of one batch into blocks; return the rows that must wait, and the blocks, of shape (B, 4).

    `second` is None for a requirement on one rate.  The division depends on numbers of rows only, never on outcomes.
    """
    parts = [_with_waiting(waiting[:2], first)]
    if second is not None:
        parts.append(_with_waiting(waiting[2:], second))
    n_blocks = min(MOST_BLOCKS, *(len(part) for part in parts))
    if n_blocks == 0:
        kept = np.zeros(4)
        for place, part in enumerate(parts):
            kept[2 * place : 2 * place + 2] = part.sum(axis=0)
        return kept, np.zeros((0, 4))
    blocks = np.zeros((n_blocks, 4))
    for place, part in enumerate(parts):
        starts = np.arange(n_blocks) * len(part) // n_blocks
        blocks[:, 2 * place : 2 * place + 2] = np.add.reduceat(part, starts, axis=0)
    return np.zeros(4), blocks


def _with_waiting(waiting: NDArray[np.float64], outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return pairs (rows, positive outcomes): one pair for all rows that waited, then one for each new row."""
    new = np.stack([np.ones(len(outcomes)), outcomes], axis=1)
    return np.concatenate([waiting[None], new]) if waiting[0] > 0 else new
