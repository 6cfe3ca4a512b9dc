"""The names of the phases of a fit."""

from __future__ import annotations

PHASES: dict[str, str] = {
    "free": "minimise the loss without limits",
    "sample": "approach the limits in mini-batches",
    "limits": "minimise the loss under smoothed limits, from a wide bandwidth to a narrow one",
    "accuracy": "minimise the smoothed error, mixed with the loss, under the same limits",
    "exact": "move the bounds until the decisions keep the limits, with few rows to spare",
}
"""Name and description of each phase; histories and reports use them."""
