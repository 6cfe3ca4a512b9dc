"""The constants of the paper's experiments (section Experiments, Appendices C to E), and the names of its data.

- Networks: linear for Law, 32 hidden units for Dutch, 256 for ACSIncome, leaky ReLU.
- Training: 500 epochs of full batches, or of mini-batches of 5,000 rows with the constraints on a fixed third of all.
- Limits on the covariance: {1, 5} × 10^{−4 ... −1}.  A covariance is at most 0.25 in size, so those of the ratios would
  never bind.
- Penalties: λ of the objective f + r/λ, from 1e-4 (strong) to 1e3 (weak).
"""

from __future__ import annotations

from typing import Literal

SolverName = Literal["paper", "fast"]
PartName = Literal["train", "test"]

DATASETS = ("law", "dutch", "acsincome")
TITLES = {"law": "Law", "dutch": "Dutch", "acsincome": "ACSIncome"}
NETWORKS: dict[str, tuple[int, ...]] = {"law": (), "dutch": (32,), "acsincome": (256,)}

SURROGATES = ("smoothed_step", "sigmoid")
APPROACHES = (*SURROGATES, "covariance")
WORDS = {
    "smoothed_step": "smoothed step",
    "sigmoid": "sigmoid",
    "covariance": "covariance",
    "disparate_impact": "DI",
    "equal_impact": "EI",
}

RATIOS = tuple(round(0.1 * tenth, 1) for tenth in range(2, 10))
COVARIANCES = tuple(digit * 10.0**power for power in range(-4, 0) for digit in (1, 5))
PENALTIES = tuple(10.0**power for power in range(-4, 4))
SCALES = (1.0, 5.0, 10.0, 20.0, 50.0, 100.0)
SCALE, UNSCALED = 50.0, 1.0

EPOCHS = 500
BATCH_SIZE = 5_000
SEED = 1
SEEDS = (42, 123, 456, 789, 999)
VARIANCE_RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9)
