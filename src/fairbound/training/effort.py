"""How much work a fit may do, and the names of its phases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Limits on the work of a fit.

    Parameters
    ----------
    iterations : int
        Largest number of iterations of one solve.  A linear model takes 3 to 8, a network up to this.
    mixture : float
        Share of the smoothed error in the objective, in [0, 1); the rest is the loss, which bounds the margins.
    touches : int
        Largest number of solves that move the bounds by the gap between smoothed and exact values.
    sample : int
        Rows of the sample on which a fit of more than twice as many rows begins; a twentieth of the rows if that is
        more.
    epochs : int
        Passes over the rows by mini-batches: half without limits, half with them.
    batch_size : int, optional
        Rows of a mini-batch.  By default a fiftieth of the rows, between 64 and 8,192.
    learning_rate : float
        First learning rate of Adam, which trains without limits by mini-batches.
    constraint_share : float
        Share of the rows on which mini-batches evaluate the constraints, at most 50,000 rows.
    free : bool
        Whether the model without limits is trained first; otherwise the fit starts from the module as it is.
    """

    iterations: int = 80
    mixture: float = 0.8
    touches: int = 8
    sample: int = 10_000
    epochs: int = 20
    batch_size: int | None = None
    learning_rate: float = 0.02
    constraint_share: float = 1 / 3
    free: bool = True


PHASES: dict[str, str] = {
    "free": "minimise the loss without limits",
    "sample": "approach the limits in mini-batches",
    "limits": "minimise the loss under smoothed limits, from a wide bandwidth to a narrow one",
    "accuracy": "minimise the smoothed error, mixed with the loss, under the same limits",
    "exact": "move the bounds until the decisions keep the limits, with few rows to spare",
}
"""Name and description of each phase; histories and reports use them."""
