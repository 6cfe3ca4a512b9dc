"""E-processes: evidence against requirements on rates that stays valid however often it is looked at.

A requirement says that two rates keep p ≥ slope · r + shift; a limit on one rate has slope 0.  Rows come in
*blocks*. A block has n rows of the first group, with outcomes X, and m rows of the second, with outcomes Y.  Before
it is seen, choose a point (p°, r°) on the line p° = slope · r° + shift, and a stake u ≥ 0.  The block multiplies the
evidence by

    e = Π (1 − u/n · (X − p°)) · Π (1 + slope · u/m · (Y − r°)),        u so small that no factor is negative.

**Theorem.**  The rate of a row is the probability of its outcome given all earlier rows.  Let p̄ and r̄ be the means of
these rates over the rows of a block.  If p̄ ≥ slope · r̄ + shift in every block, the probability that the evidence ever
reaches 1/α is at most α.

*Proof.*  Divide each factor by its expectation given the past, 1 + cᵢ (pᵢ − p°ᵢ), where c = −u/n or slope · u/m.
The product of these quotients over all rows is a nonnegative martingale that starts at 1.  The product of the
expectations over one block is at most 1, because log(1 + x) ≤ x:

  Σ log(1 + cᵢ (pᵢ − p°ᵢ)) ≤ Σ cᵢ (pᵢ − p°ᵢ) = −u · ((p̄ − p°) − slope · (r̄ − r°)) = −u · (p̄ − slope · r̄ − shift) ≤ 0.

So after each block the evidence is at most that martingale, which by Ville's inequality ever reaches 1/α with
probability at most α.  Between the ends of blocks the evidence does not change, so one may look after each row.  ∎

The rates may take any values that keep the limit, and may drift.  The sizes of the groups may be anything, provided
that the groups of the rows in an unfinished block do not depend on the outcomes in it.  Neither estimates nor stakes
have to be good: a bad bet costs power, but never validity.

**Stakes.**  Estimates p̂ and r̂ from earlier blocks give the deficit D = slope · r̂ + shift − p̂.  If D ≤ 0 the
limit seems to be kept, and nothing is staked.  Else (p°, r°) is the point of the line nearest to the estimates in
units of their variances.  To second order the expectation of log e is u·D − ½u²·V, where V = E(X − p°)²/n +
slope² · E(Y − r°)²/m.  So u = D / V is best.

**Memory.**  Rates change, so old rows must count less.  The right speed is unknown, so the capital is divided among
bettors who forget at different speeds (`MEMORIES`).  A bettor with memory M first invests half of its capital, and
keeps the rest in reserve.  After every M rows it invests part of the reserve, so that the share 1/(k + 2) is left
after k times.  Thus it can notice a change even after it has lost all that was invested before.  The sum of
e-processes with fixed weights is an e-process, also if some of them start later.

Conventions
-----------
R requirements, J bettors.    `blocks` has shape (R, 4): rows and positive outcomes of the first and the second rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

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

    slope: np.ndarray
    shift: np.ndarray
    counts: np.ndarray
    rows: np.ndarray
    log_invested: np.ndarray

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
