"""The phases of a fit: `fit` runs them in this order, and histories and reports use their names."""

from __future__ import annotations

PHASES: dict[str, str] = {
    "free": "minimise the loss without limits",
    "sample": "approach the limits in mini-batches",
    "coarse": "approach the limits by surrogates, from a small scale to the full one",
    "exact": "reach the limits by the exact measures of the decisions",
    "repair": "find the nearest model that keeps the limits, whatever its loss",
    "accurate": "make decisions more accurate under the same limits, with the loss held",
}
"""Name and description of each phase."""
