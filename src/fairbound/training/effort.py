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
    coarseness : float
        The scale of the coarse phase, as a fraction of the surrogate's own.
    loss_slack : float
        How far the loss may lie above the least found under the limits, relative to it, for the sake of accuracy.
    worth : float
        The accuracy that the limits must have cost for that: where they cost next to nothing there is nothing to win
        back, and more accurate decisions on the training rows would fit noise.
    tolerance : float
        On the KKT residuals.
    epochs, batch_size : int
        Of the mini-batches, where the data are too large for whole passes.
    """

    free: Phase = Phase(80, progress=5e-3, least=50)
    coarse: Phase = Phase(20, window=5)
    exact: Phase = Phase(15, window=5, rounding=1e-3)
    accurate: Phase = Phase(30, rounding=1e-3)
    most_accurate: Phase = Phase(40, rounding=1e-3)
    repair: Phase = Phase(20, rounding=1e-3)
    coarseness: float = 0.4
    loss_slack: float = 0.05
    worth: float = 0.005
    tolerance: float = 1e-4
    epochs: int = 20
    batch_size: int = 8192
