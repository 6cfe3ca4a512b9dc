"""The requirements that a monitor watches, the outcomes of rows that count in each, and the evidence against it.

A limit is split into requirements on pairs of groups (`requirements.sides_of`).  A requirement is watched as soon as
both of its groups have been seen.  Each rate is a share of outcomes among some rows of a group.

**Blocks.**  The rows of a group in a batch are divided into consecutive blocks of about equal size.  There are as many
blocks as rows of the smaller group, up to `MOST_BLOCKS`.  So all rows are used, and a batch may be sorted by group.  If
one group has no rows in a batch, the rows of the other wait, and count in the first block of a later batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

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


def check_number_of_groups(grouping: str, groups: Sequence[Hashable]) -> None:
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
        pairs = [] if limit.group is not None and find_value(limit.group, [group]) is None else [(group, group)]
    elif limit.reference is None or find_value(limit.reference, [group]) is not None:
        pairs = [(old, group) for old in known]
    else:
        reference = find_value(limit.reference, known)
        pairs = [] if reference is None else [(group, known[reference])]
    for rate in range(len(measure.rates)):
        for a, b in pairs:
            for number, side in enumerate(sides_of(limit)):
                first, second = (b, a) if side.reversed else (a, b)
                single = side.kind == "value"
                yield WatchedRequirement(place, grouping, rate, number, first, None if single else second)


# --- rows ------------------------------------------------------------------------------------------------------------


def group_rows(
    sensitive_features: Any, n: int, groups: str
) -> tuple[list[str], dict[str, dict[Hashable, NDArray[np.int64]]]]:
    """Return the names of the columns, and for each grouping its groups with the places of their rows.

    Rows without a known group are in none.
    """
    read = read_columns(sensitive_features, n)
    divided = [name for name, values in read.items() if is_divided(values)]
    if divided:
        raise ValueError(
            f"A monitor watches groups that are known, but {divided[0]!r} has probabilities of groups: give one group "
            "for each row."
        )
    columns = {name: as_array(values).tolist() for name, values in read.items()}
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
        found[name] = {group: np.array(rows) for group, rows in places.items()}
    return list(columns), found


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


# --- e-processes -----------------------------------------------------------------------------------------------------

# E-processes: evidence against requirements on rates that stays valid however often it is looked at.
#
# A requirement says that two rates keep p ≥ slope · r + shift; a limit on one rate has slope 0.  Rows come in
# *blocks*. A block has n rows of the first group, with outcomes X, and m rows of the second, with outcomes Y.  Before
# it is seen, choose a point (p°, r°) on the line p° = slope · r° + shift, and a stake u ≥ 0.  The block multiplies the
# evidence by
#
#     e = Π (1 − u/n · (X − p°)) · Π (1 + slope · u/m · (Y − r°)),        u so small that no factor is negative.
#
# **Theorem.**  The rate of a row is the probability of its outcome given all earlier rows.  Let p̄ and r̄ be the means of
# these rates over the rows of a block.  If p̄ ≥ slope · r̄ + shift in every block, the probability that the evidence ever
# reaches 1/α is at most α.
#
# *Proof.*  Divide each factor by its expectation given the past, 1 + cᵢ (pᵢ − p°ᵢ), where c = −u/n or slope · u/m.
# The product of these quotients over all rows is a nonnegative martingale that starts at 1.  The product of the
# expectations over one block is at most 1, because log(1 + x) ≤ x:
#
#   Σ log(1 + cᵢ (pᵢ − p°ᵢ)) ≤ Σ cᵢ (pᵢ − p°ᵢ) = −u · ((p̄ − p°) − slope · (r̄ − r°)) = −u · (p̄ − slope · r̄ − shift) ≤ 0.
#
# So after each block the evidence is at most that martingale, which by Ville's inequality ever reaches 1/α with
# probability at most α.  Between the ends of blocks the evidence does not change, so one may look after each row.  ∎
#
# The rates may take any values that keep the limit, and may drift.  The sizes of the groups may be anything, provided
# that the groups of the rows in an unfinished block do not depend on the outcomes in it.  Neither estimates nor stakes
# have to be good: a bad bet costs power, but never validity.
#
# **Stakes.**  Estimates p̂ and r̂ from earlier blocks give the deficit D = slope · r̂ + shift − p̂.  If D ≤ 0 the
# limit seems to be kept, and nothing is staked.  Else (p°, r°) is the point of the line nearest to the estimates in
# units of their variances.  To second order the expectation of log e is u·D − ½u²·V, where V = E(X − p°)²/n +
# slope² · E(Y − r°)²/m.  So u = D / V is best.
#
# **Memory.**  Rates change, so old rows must count less.  The right speed is unknown, so the capital is divided among
# bettors who forget at different speeds (`MEMORIES`).  A bettor with memory M first invests half of its capital, and
# keeps the rest in reserve.  After every M rows it invests part of the reserve, so that the share 1/(k + 2) is left
# after k times.  Thus it can notice a change even after it has lost all that was invested before.  The sum of
# e-processes with fixed weights is an e-process, also if some of them start later.
#
# Conventions
# -----------
# R requirements, J bettors.    `blocks` has shape (R, 4): rows and positive outcomes of the first and the second rate.


FloatArray = NDArray[np.float64]

MEMORIES = np.array([200.0, 2000.0, 20000.0])
"""The memory of each bettor, in rows of the smaller group."""
RECENT = 1
"""The position of the bettor whose rates are shown as recent ones."""
LARGEST_STAKE = 0.5
"""The largest stake, as a share of the stake at which a single row could lose everything."""
UNSURE_ROWS = 20.0
"""Rows of the smaller group after which a bettor stakes half of D / V; with more rows the share tends to 1."""


@dataclass
class EProcesses:
    """The evidence against several requirements, updated block by block.

    Attributes
    ----------
    slope, shift : array of shape (R,)
        The requirement p ≥ slope · r + shift.
    counts : array of shape (R, J, 4)
        The memory of each bettor: discounted rows and positive outcomes of the two rates.
    rows : array of shape (R,)
        The number of rows of the smaller group so far.
    log_invested : array of shape (R, J)
        The logarithm of the present value of the capital that each bettor has invested.
    """

    slope: FloatArray
    shift: FloatArray
    counts: FloatArray
    rows: FloatArray
    log_invested: FloatArray

    @classmethod
    def start(cls, slope: Sequence[float] | FloatArray, shift: Sequence[float] | FloatArray) -> EProcesses:
        """Return processes without any rows, each with evidence 1."""
        R, J = len(slope), len(MEMORIES)
        return cls(
            np.asarray(slope, dtype=np.float64),
            np.asarray(shift, dtype=np.float64),
            np.zeros((R, J, 4)),
            np.zeros(R),
            np.full((R, J), np.log(1.0 - _reserve(np.zeros(1))[0, 0])),
        )

    @property
    def log_evidence(self) -> FloatArray:
        """Return the logarithm of the evidence against each requirement, (R,): the mean over the bettors."""
        capital = np.logaddexp(self.log_invested, np.log(_reserve(self.rows)))
        return special.logsumexp(capital, axis=1) - np.log(len(MEMORIES))

    def is_complete(self, blocks: FloatArray) -> NDArray[np.bool_]:
        """Return which blocks can be bet on: those with at least one row of each rate, (R,)."""
        return (blocks[:, 0] > 0) & ((blocks[:, 2] > 0) | (self.slope == 0))

    def play(self, blocks: FloatArray) -> None:
        """Bet on one block for each requirement; incomplete blocks are skipped."""
        here = np.flatnonzero(self.is_complete(blocks))
        if not len(here):
            return
        block, slope = blocks[here], self.slope[here]
        paired = slope > 0
        self.log_invested[here] += log_factor(block, slope, self.shift[here], self.counts[here])
        passed = np.where(paired, np.minimum(block[:, 0], block[:, 2]), block[:, 0])
        before = _reserve(self.rows[here])
        self.rows[here] += passed
        added = before - _reserve(self.rows[here])
        with np.errstate(divide="ignore"):  # nothing added has the logarithm −∞
            self.log_invested[here] = np.logaddexp(self.log_invested[here], np.log(added))
        kept = np.exp(-passed[:, None] / MEMORIES)
        self.counts[here] = kept[..., None] * self.counts[here] + block[:, None, :]


def _reserve(rows: FloatArray) -> FloatArray:
    """Return the share of its initial capital that each bettor has in reserve after that many rows, (R, J)."""
    return 1.0 / (np.floor(rows[:, None] / MEMORIES) + 2.0)


def log_factor(block: FloatArray, slope: FloatArray, shift: FloatArray, counts: FloatArray) -> FloatArray:
    """Return log e of one block for each requirement and bettor, (R, J).

    Parameters
    ----------
    block : array of shape (R, 4)
        A complete block: with rows of both rates, or with slope 0 of the first rate.
    slope, shift : array of shape (R,)
    counts : array of shape (R, J, 4)
        The past, from which stakes are chosen.
    """
    n, x, m, y = (block[:, None, each] for each in range(4))
    slope, shift = slope[:, None], shift[:, None]
    m = np.where(slope > 0, m, 1.0)  # with slope 0 there is no second rate
    p, r = (_estimate(counts[..., 2 * each], counts[..., 2 * each + 1]) for each in range(2))
    deficit = np.maximum(slope * r + shift - p, 0.0)
    first, second = p * (1.0 - p) / n, slope * r * (1.0 - r) / m
    point_r = r - deficit * second / (first + slope * second)
    point_p = slope * point_r + shift
    variance = first + (p - point_p) ** 2 / n + slope * (second + slope * (r - point_r) ** 2 / m)
    seen = np.where(slope > 0, np.minimum(counts[..., 0], counts[..., 2]), counts[..., 0])
    stake = deficit / variance * seen / (seen + UNSURE_ROWS)
    with np.errstate(divide="ignore"):
        most = np.minimum(
            np.where(point_p < 1.0, n / (1.0 - point_p), np.inf), np.where(point_r > 0.0, m / (slope * point_r), np.inf)
        )
    stake = np.minimum(stake, LARGEST_STAKE * most)
    lost, won = stake / n, slope * stake / m
    return (
        x * np.log1p(-lost * (1.0 - point_p))
        + (n - x) * np.log1p(lost * point_p)
        + y * np.log1p(won * (1.0 - point_r))
        + np.where(slope > 0, m - y, 0.0) * np.log1p(-won * point_r)
    )


def _estimate(rows: FloatArray, positive: FloatArray) -> FloatArray:
    """Return the rate after adding one row that is half positive, so that no estimate is 0 or 1."""
    return (positive + 0.5) / (rows + 1.0)
