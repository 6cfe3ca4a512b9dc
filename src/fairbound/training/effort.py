"""How much work a fit may take: its phases, and when each has stopped paying."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """How long a solve may go on, and when it has stopped paying.

    Parameters
    ----------
    iterations : int
        The most.
    progress : float
        The solve ends when the best merit has fallen by less than this fraction over the last `window` iterations.
    window : int
    least : int
        Iterations before which progress is not asked for.
    rounding : float
        Relative noise of the merit function; exact measures move in steps of one row.
    """

    iterations: int
    progress: float = 1e-3
    window: int = 10
    least: int = 0
    rounding: float = 1e-8


@dataclass(frozen=True)
class Effort:
    """The phases of a fit; the defaults serve linear models and networks, small data and large.

    Parameters
    ----------
    free, coarse, exact, accurate, most_accurate, repair : Phase
        `most_accurate` is a round of the last phase for the objective "accuracy"; `repair` goes
        to the nearest model within the limits, and mends what rounding has broken.
    coarseness : float, optional
        The first scale of the coarse phase, as a fraction of the surrogate's own; by default chosen from the margins.
    sharpening : float
        The largest factor from one scale to the next.
    loss_slack : float
        How far the loss may lie above the least found under the limits, relative to it, for the sake of accuracy.
    worth : float
        The accuracy that the limits must have cost for that: where they cost next to nothing there is nothing to win
        back, and more accurate decisions on the training rows would fit noise.
    tolerance : float
        On the KKT residuals.
    accurate_rounds : int
        The most rounds of the accurate phase; they end when one wins less than a tenth of `worth`.
    starts : int
        Points from which the limits are approached; more than one suits small problems, which cost little.
    epochs, batch_size : int
        Of the mini-batches, where the data are too large for whole passes.
    """

    free: Phase = Phase(80, progress=5e-3, least=50)
    coarse: Phase = Phase(40, window=3)
    exact: Phase = Phase(15, window=5, rounding=1e-3)
    accurate: Phase = Phase(30, rounding=1e-3)
    most_accurate: Phase = Phase(40, rounding=1e-3)
    repair: Phase = Phase(20, rounding=1e-3)
    coarseness: float | None = None
    sharpening: float = 3.0
    loss_slack: float = 0.05
    worth: float = 0.002
    tolerance: float = 1e-4
    starts: int = 1
    accurate_rounds: int = 3
    epochs: int = 20
    batch_size: int = 8192


SMALL_UP_TO = 1e5
"""Rows times parameters up to which phases may take their time."""

TINY_UP_TO = 5e4
"""Rows times parameters up to which a fit may take several starts."""

SMALL_EFFORT = Effort(coarse=Phase(60, window=6), exact=Phase(60, window=20, rounding=1e-3))
"""With few rows each of them is a step in the measures, and a phase must not end at the first that does not pay."""


TINY_EFFORT = Effort(coarse=Phase(40, window=4), exact=Phase(40, window=12, rounding=1e-3), starts=4)
"""Several starts reach the same answer whatever the rounding, each with less work."""


def is_small(n_rows: int, n_parameters: int) -> bool:
    """Tell whether a fit may take its time."""
    return n_rows * n_parameters <= SMALL_UP_TO


def choose_effort(n_rows: int, n_parameters: int) -> Effort:
    """Return the default effort for the size of data and model."""
    if not is_small(n_rows, n_parameters):
        return Effort()
    return TINY_EFFORT if n_rows * n_parameters <= TINY_UP_TO else SMALL_EFFORT
