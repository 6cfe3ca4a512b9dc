"""The phases of a fit, and limits on their work: iterations, and when a phase stops for lack of progress."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """Stopping rule of one phase.

    Parameters
    ----------
    iterations : int
        Largest number of iterations.
    progress : float
        The phase ends when the best merit value has fallen by less than this fraction over the last `window`
        iterations.
    window : int
        Number of iterations over which progress is measured.
    least : int
        Number of iterations before progress is first checked.
    rounding : float
        Relative noise of the merit function.  It is large for exact measures, which change in jumps of one row.
    """

    iterations: int
    progress: float = 1e-3
    window: int = 10
    least: int = 0
    rounding: float = 1e-8


@dataclass(frozen=True)
class Effort:
    """The phases of a fit; the defaults suit linear models and networks, on small and large data.

    Parameters
    ----------
    free, coarse, exact, accurate, most_accurate, repair : Phase
        Stopping rules of the phases that `fairbound.training.stages` describes.  `most_accurate` replaces `accurate` if
        the objective is "accuracy".
    coarseness : float, optional
        First scale of the coarse phase, as a fraction of the surrogate's full scale.  By default it is chosen from the
        margins of the rows.
    sharpening : float
        Largest factor from one scale to the next.
    loss_slack : float
        Allowed increase of the loss for the sake of accuracy, relative to the least loss found under the limits.
    worth : float
        The accurate phase runs only if the limits cost more accuracy than this.  If they cost almost nothing, there is
        nothing to regain, and more accurate decisions on the training rows would fit noise.
    tolerance : float
        Tolerance of the KKT residuals.
    accurate_rounds : int
        Largest number of rounds of the accurate phase with exact values.  If it is above two, the phase first minimises
        the smoothed error (`stages.follow_error`), and ends after a round that gains almost nothing.
    starts : int
        Above 1, with few rows and few parameters, a random search follows the exact phase (`random_search`).  Above 1,
        with few rows and many parameters, the limits are approached again from up to this number of starting points.
    epochs : int
        Passes over the rows by mini-batches: half without limits, half with them.
    batch_size : int, optional
        Rows of a mini-batch.  By default a fiftieth of the rows, between 64 and 8,192.
    learning_rate : float
        First learning rate of Adam, which trains without limits by mini-batches.
    constraint_share : float
        Share of the rows on which mini-batches evaluate the constraints, at most 50,000 rows.
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
    worth: float = 0.0005
    tolerance: float = 1e-4
    starts: int = 1
    accurate_rounds: int = 6
    epochs: int = 20
    batch_size: int | None = None
    learning_rate: float = 0.02
    constraint_share: float = 1 / 3


SMALL_UP_TO = 1e5
"""Rows times parameters up to which `SMALL_EFFORT` applies: iterations are cheap, so phases may take more of them."""

TINY_UP_TO = 5e4
"""Rows times parameters up to which `TINY_EFFORT` applies."""

SMALL_EFFORT = Effort(coarse=Phase(60, window=6), exact=Phase(60, window=20, rounding=1e-3))
"""With few rows, each row makes the measures jump.  A longer window keeps a phase from ending at the first plateau."""


TINY_EFFORT = Effort(coarse=Phase(60, window=4), exact=Phase(30, window=8, rounding=1e-3), starts=5, accurate_rounds=2)
"""With very few rows, rounding errors decide where a solve ends, so a random search follows it (`random_search`)."""


def is_small(n_rows: int, n_parameters: int) -> bool:
    """Return whether a fit is small enough for more iterations and double precision."""
    return n_rows * n_parameters <= SMALL_UP_TO


def choose_effort(n_rows: int, n_parameters: int) -> Effort:
    """Return the default effort for the size of data and model."""
    if not is_small(n_rows, n_parameters):
        return Effort()
    return TINY_EFFORT if n_rows * n_parameters <= TINY_UP_TO else SMALL_EFFORT


# --- phases ----------------------------------------------------------------------------------------------------------

# The phases of a fit: `fit` runs them in this order, and histories and reports use their names.


PHASES: dict[str, str] = {
    "free": "minimise the loss without limits",
    "sample": "approach the limits in mini-batches",
    "coarse": "approach the limits by surrogates, from a small scale to the full one",
    "exact": "reach the limits by the exact measures of the decisions",
    "search": "draw random models of few parameters, and keep the best ones",
    "repair": "find the nearest model that keeps the limits, whatever its loss",
    "accurate": "make decisions more accurate under the same limits, for at most 5% more loss",
}
"""Name and description of each phase."""
