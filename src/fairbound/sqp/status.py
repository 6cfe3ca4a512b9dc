"""Outcomes of a solve, each with a message.

A solve that does not converge raises no exception: the caller gets the best point found and its status.
"""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a solve ended.

    Examples
    --------
    >>> Status.CONVERGED.value
    'converged'
    >>> Status("infeasible").message
    'No point was found that keeps all limits; the one that violates them least is returned.'
    """

    CONVERGED = "converged"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    MAX_ITERATIONS = "max_iterations"
    DEGENERATE = "degenerate"

    @property
    def message(self) -> str:
        """Return a sentence for the user."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "All limits are kept, and the conditions of a local optimum hold.",
    Status.FEASIBLE: "All limits are kept. This is the best point found.",
    Status.INFEASIBLE: "No point was found that keeps all limits; the one that violates them least is returned.",
    Status.MAX_ITERATIONS: "The number of iterations ran out before the limits were kept; allow more iterations.",
    Status.DEGENERATE: "The limits are kept, but the result is no better than a constant prediction.",
}
