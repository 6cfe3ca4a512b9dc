"""The phases of a fit, declared once: `fit` goes through them, and records and reports name them."""

from __future__ import annotations

PHASES: dict[str, str] = {
    "free": "to the optimum without limits",
    "sample": "towards the limits by mini-batches",
    "coarse": "towards the limits by surrogates from a gentle scale to the full one",
    "exact": "to the limits themselves, by the decisions",
    "repair": "to the nearest model within the limits, whatever its loss",
    "accurate": "more accurate decisions under the same limits, with the loss held",
}
"""What each phase does."""
