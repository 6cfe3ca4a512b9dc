"""The protocol of the paper's experiments (section Experiments, Appendices C to E): constants, runs, printed numbers.

- Networks: linear for Law, 32 hidden units for Dutch, 256 for ACSIncome, leaky ReLU.
- Training: 500 epochs of full batches, or of mini-batches of 5,000 rows with the constraints on a fixed third of all.
- Limits on the covariance: {1, 5} × 10^{−4 ... −1}.  A covariance is at most 0.25 in size, so those of the ratios would
  never bind.
- Penalties: λ of the objective f + r/λ, from 1e-4 (strong) to 1e3 (weak).

The numbers printed in the paper are in `printed.json`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal

SolverName = Literal["paper", "fast"]
PartName = Literal["train", "test"]

TITLES: dict[str, str] = {
    "figure-1": "the surrogates, as they are and scaled",
    "figure-2": "ratios demanded and achieved without scaling",
    "figure-3": "ratios demanded and achieved with scaling, and limits on the covariance",
    "scale-selection": "the choice of the scale among 1, 5, 10, 20, 50, 100",
    "figure-4": "accuracy and violation under each limit",
    "figure-5": "constraints against regularisation",
    "search-cost": "what a demanded ratio costs: one constrained fit, or a search over penalties",
    "figure-variance": "accuracy and violation over five random starts",
    "table-1": "statistics of the data",
    "table-2": "limits on disparate impact, equal impact and both, at 0.8",
    "table-3": "time and memory",
    "table-4": "limits on disparate impact, equal impact and both, at 0.9",
}
"""Names and titles of the figures and tables that can be reproduced, in the order of the paper."""

DATASETS = {"law": "Law", "dutch": "Dutch", "acsincome": "ACSIncome"}
NETWORKS: dict[str, tuple[int, ...]] = {"law": (), "dutch": (32,), "acsincome": (256,)}

SURROGATES = ("smoothed_step", "sigmoid")
APPROACHES = (*SURROGATES, "covariance")

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

SCENARIOS: dict[str, tuple[str, ...]] = {
    "only DI": ("disparate_impact",),
    "only EI": ("equal_impact",),
    "both": ("disparate_impact", "equal_impact"),
}

SCALE_RATIOS = (0.8, 0.9)
"""The ratios at which scales are compared.  They bind on every data set, or on all but one."""

SEARCH_TOLERANCE = 0.01
SEARCH_FITS = 12
"""Bisection over seven decades leaves a factor of 1.004 after twelve fits.  More fits would not help a search."""


PRINTED: dict[str, Any] = json.loads(files("fairbound.experiments").joinpath("printed.json").read_bytes())
"""The numbers of the paper.

limits          rows of Tables 2 and 4 by ratio, data set and scenario, in percent: accuracy, that of men and of women
                (White and non-White for Law); violations of DI and EI by surrogate (c) and by decisions (c̄)
cost            rows of Table 3 by data set, surrogate and approach: mean minutes per run, largest megabytes, total
                core-hours of the eight runs
statistics      Table 1
active          the two ratios between which the limit begins to bind, according to the text
spread          accuracies of the paper's own program under DI alone, in percent: printed, and the highest of any seed
"""


@dataclass(frozen=True)
class Run:
    """One training.  Equal runs give the same numbers, so items share runs, and finished ones are looked up.

    Parameters
    ----------
    dataset : str
    data : str
        A hash of the rows, so that results for other rows are never used by mistake.
    solver : {"paper", "fast"}
        "paper" is the last iterate of `StochasticSQP` with the paper's constants.  "fast" is `fit`.
    surrogate : {"smoothed_step", "sigmoid", "covariance"}
        The surrogate of the decisions in the limits and in the penalty.
    scale : float
    limits : pairs of a measure and its bound
    penalty : float, optional
        λ of the objective f + r/λ.  r is the squared difference of selection rates by surrogate.
    batches : bool
        Whether to use mini-batches instead of full batches.
    seed : int
    epochs : int
    """

    dataset: str
    data: str
    solver: SolverName
    surrogate: str = "smoothed_step"
    scale: float = SCALE
    limits: tuple[tuple[str, float], ...] = ()
    penalty: float | None = None
    batches: bool = False
    seed: int = SEED
    epochs: int = EPOCHS

    @cached_property
    def key(self) -> str:
        """A hash of all fields."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    @property
    def bound(self) -> float:
        """The bound of the one limit, or the λ of the penalty."""
        return self.limits[0][1] if self.penalty is None else self.penalty

    @property
    def cost(self) -> float:
        """An estimate of the duration, comparable between runs of one data set and solver."""
        width = max([1, *NETWORKS[self.dataset]])
        if self.solver == "fast":
            return 100.0 * (20 + width)
        return self.epochs * (20 + width) * (4.0 if self.batches else 1.0)
