"""The protocol of the paper's experiments (section Experiments, Appendices C to E): constants, runs, printed numbers.

- Networks: linear for Law, 32 hidden units for Dutch, 256 for ACSIncome, leaky ReLU.
- Training: 500 epochs of full batches, or of mini-batches of 5,000 rows with the constraints on a fixed third of all.
- Limits on the covariance: {1, 5} × 10^{−4 ... −1}.  A covariance is at most 0.25 in size, so those of the ratios would
  never bind.
- Penalties: λ of the objective f + r/λ, from 1e-4 (strong) to 1e3 (weak).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from fairbound._json import as_record

if TYPE_CHECKING:
    from fairbound.experiments.runs import Results

SolverName = Literal["paper", "fast"]
PartName = Literal["train", "test"]

ITEMS: dict[str, str] = {
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

SCENARIOS: dict[str, tuple[str, ...]] = {
    "only DI": ("disparate_impact",),
    "only EI": ("equal_impact",),
    "both": ("disparate_impact", "equal_impact"),
}


# --- runs ------------------------------------------------------------------------------------------------------------

# The definition of a run, which is the key of its result, and the runs that each item needs.  Items share runs: a run
# that one item has trained is looked up by the next.


Limits = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Run:
    """One training.  Equal runs give the same numbers.

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
    limits: Limits = ()
    penalty: float | None = None
    batches: bool = False
    seed: int = SEED
    epochs: int = EPOCHS

    @cached_property
    def key(self) -> str:
        """A hash of all fields."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    @property
    def cost(self) -> float:
        """An estimate of the duration, comparable between runs of one data set and solver."""
        width = max([1, *NETWORKS[self.dataset]])
        if self.solver == "fast":
            return 100.0 * (20 + width)
        return self.epochs * (20 + width) * (4.0 if self.batches else 1.0)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Build a run from `as_dict` after a round trip through JSON, which turns tuples into lists."""
        return as_record(values, cls)


@dataclass(frozen=True)
class Setting:
    """The conditions of an item: a data set, a solver and the reported rows; its methods build runs."""

    dataset: str
    data: str
    solver: SolverName = "paper"
    part: PartName = "train"
    batches: bool = False
    epochs: int = EPOCHS
    seeds: tuple[int, ...] = ()

    def free(self, **options: Any) -> Run:
        """Return a run without limits."""
        return Run(self.dataset, self.data, self.solver, batches=self.batches, epochs=self.epochs, **options)

    def limited(self, bound: float, measure: str = "disparate_impact", **options: Any) -> Run:
        """Return a run with one limit."""
        return replace(self.free(**options), limits=((measure, bound),))

    def covariance(self, bound: float) -> Run:
        """Return a run with a limit on the covariance."""
        return self.limited(bound, "covariance", surrogate="covariance", scale=1.0)

    def penalized(self, penalty: float, surrogate: str = "smoothed_step") -> Run:
        """Return a run with a penalty of weight 1/λ on the difference of selection rates."""
        scale = 1.0 if surrogate == "covariance" else SCALE
        return self.free(penalty=penalty, surrogate=surrogate, scale=scale)


SCALE_RATIOS = (0.8, 0.9)
"""The ratios at which scales are compared.  They bind on every data set, or on all but one."""

SEARCH_TOLERANCE = 0.01
SEARCH_FITS = 12
"""Bisection over seven decades leaves a factor of 1.004 after twelve fits.  More fits would not help a search."""


def unscaled(setting: Setting) -> list[Run]:
    """Return the runs with limits on ratios, for surrogates without scaling."""
    return [
        setting.free(),
        *(setting.limited(bound, surrogate=name, scale=UNSCALED) for name in SURROGATES for bound in RATIOS),
    ]


def scaled(setting: Setting) -> list[Run]:
    """Return the runs with limits on ratios, for scaled surrogates, and those with limits on the covariance."""
    return [
        setting.free(),
        *(setting.limited(bound, surrogate=name) for name in SURROGATES for bound in RATIOS),
        *(setting.covariance(bound) for bound in COVARIANCES),
    ]


def scales(setting: Setting) -> list[Run]:
    """Return the runs with the same limits at several scales."""
    return [
        setting.free(),
        *(
            setting.limited(bound, surrogate=name, scale=scale)
            for bound in SCALE_RATIOS
            for name in SURROGATES
            for scale in SCALES
        ),
    ]


def penalties(setting: Setting) -> list[Run]:
    """Return the runs that compare constraints with regularisation."""
    return [*scaled(setting), *(setting.penalized(penalty, name) for name in APPROACHES for penalty in PENALTIES)]


def scenario(setting: Setting, name: str, bound: float) -> Run:
    """Return the run of a row of Table 2 or 4."""
    return replace(setting.free(), limits=tuple((measure, bound) for measure in SCENARIOS[name]))


def scenarios(bound: float, setting: Setting) -> list[Run]:
    """Return the runs of Table 2 or 4, given the ratio."""
    return [scenario(setting, name, bound) for name in SCENARIOS]


def seeds(setting: Setting) -> list[Run]:
    """Return the runs with the same limits from several random starts."""
    return [setting.limited(bound, seed=seed) for bound in VARIANCE_RATIOS for seed in setting.seeds or SEEDS]


@dataclass(frozen=True)
class Search:
    """The search for the penalty that reaches a demanded ratio: bisection of log λ between 1e-4 and 1e3.

    Attributes
    ----------
    target : float
    fits : the finished runs of the search, in their order
    found : whether the last run is within the tolerance
    next : the next run of the search; None if the search has ended
    """

    target: float
    fits: tuple[Run, ...]
    found: bool
    next: Run | None


def search(setting: Setting, results: Results, target: float) -> Search:
    """Repeat the search with the results so far, up to the first run without a result."""
    strong, weak = math.log10(PENALTIES[0]), math.log10(PENALTIES[-1])
    fits: list[Run] = []
    while len(fits) < SEARCH_FITS:
        middle = (strong + weak) / 2
        run = setting.penalized(10.0**middle)
        if run not in results:
            return Search(target, tuple(fits), False, run)
        fits.append(run)
        reached = results[run].train.ratio()
        if abs(reached - target) <= SEARCH_TOLERANCE:
            return Search(target, tuple(fits), True, None)
        if reached < target:
            weak = middle
        else:
            strong = middle
    return Search(target, tuple(fits), False, None)


def searches(setting: Setting, results: Results) -> list[Run]:
    """Return the constrained fits, and the runs of each search up to the next one.

    It is called again after these runs are done, until none is missing.
    """
    runs = [setting.free(), *(setting.limited(target) for target in SCALE_RATIOS)]
    for target in SCALE_RATIOS:
        found = search(setting, results, target)
        runs += [*found.fits, *([] if found.next is None else [found.next])]
    return runs


# --- printed ---------------------------------------------------------------------------------------------------------

# The numbers printed in the paper: data statistics, accuracies and violations under limits, and computing time.


@dataclass(frozen=True)
class PrintedRow:
    """A row of Table 2 or 4: percent, and violations by surrogate (c) and by decisions (c̄).

    The columns "male" and "female" mean White and non-White for Law.
    """

    accuracy: float
    male: float
    female: float
    surrogate_di: float
    surrogate_ei: float
    exact_di: float
    exact_ei: float


TABLE_2 = {
    ("dutch", "only DI"): PrintedRow(78.004, 77.4006, 78.6038, 0.0, -0.1224, -0.0023, -0.1191),
    ("dutch", "only EI"): PrintedRow(82.2555, 78.6538, 85.8363, 0.1729, 0.0, 0.1711, -0.0023),
    ("dutch", "both"): PrintedRow(78.004, 77.4006, 78.6038, 0.0, -0.1224, -0.0023, -0.1191),
    ("law", "only DI"): PrintedRow(90.095, 92.3973, 77.9039, -0.0124, -0.1075, -0.0127, -0.1082),
    ("law", "only EI"): PrintedRow(90.0829, 92.3973, 77.8282, -0.012, -0.1073, -0.012, -0.1072),
    ("law", "both"): PrintedRow(90.089, 92.3973, 77.8661, -0.0124, -0.1076, -0.0131, -0.1082),
    ("acsincome", "only DI"): PrintedRow(78.5975, 78.2293, 79.0123, 0.0, -0.1139, 0.0001, -0.1139),
    ("acsincome", "only EI"): PrintedRow(78.8775, 78.3284, 79.496, 0.0549, -0.0472, 0.0548, -0.0482),
    ("acsincome", "both"): PrintedRow(78.5475, 78.2198, 78.9166, 0.0, -0.1135, -0.0002, -0.1128),
}

TABLE_4 = {
    ("dutch", "only DI"): PrintedRow(75.7034, 77.2097, 74.2058, 0.0, 0.0324, -0.0092, 0.0445),
    ("dutch", "only EI"): PrintedRow(82.0134, 77.8778, 86.1251, 0.1563, 0.0, 0.1565, -0.0009),
    ("dutch", "both"): PrintedRow(76.9116, 74.4917, 79.3176, 0.0, -0.0096, -0.0043, -0.0069),
    ("law", "only DI"): PrintedRow(89.8786, 92.383, 76.6175, 0.0, -0.0595, -0.0002, -0.06),
    ("law", "only EI"): PrintedRow(90.089, 92.3973, 77.8661, 0.087, -0.0078, 0.0872, -0.0079),
    ("law", "both"): PrintedRow(89.8786, 92.383, 76.6175, 0.0, -0.0595, -0.0002, -0.06),
    ("acsincome", "only DI"): PrintedRow(78.355, 77.9839, 78.7731, 0.0, -0.0523, 0.0001, -0.0525),
    ("acsincome", "only EI"): PrintedRow(78.62, 78.2246, 79.0654, 0.0754, 0.0, 0.075, -0.0001),
    ("acsincome", "both"): PrintedRow(78.3575, 77.9839, 78.7784, 0.0, -0.0523, 0.0, -0.0524),
}

TABLES = {0.8: TABLE_2, 0.9: TABLE_4}

STATISTICS: dict[str, dict[str, float]] = {
    "dutch": {
        "rows": 60_420, "S = 1": 30_147, "S = 0": 30_273, "Y = 1": 31_657, "Y = 0": 28_763,
        "Y = 1, S = 1": 11_287, "Y = 1, S = 0": 20_370, "Y = 0, S = 1": 18_860, "Y = 0, S = 0": 9_903,
        "P(Y=1 | S=1)": 0.3744, "P(Y=1 | S=0)": 0.6730, "P(S=1 | Y=1)": 0.3565, "P(S=0 | Y=1)": 0.6435,
        "DPVRL": 0.2986, "DRIVRL": 0.2870, "DIRL": 0.5564, "all zero": 0.4758, "all one": 0.5242,
    },
    "law": {
        "rows": 16_638, "S = 1": 13_995, "S = 0": 2_643, "Y = 1": 14_826, "Y = 0": 1_812,
        "Y = 1, S = 1": 12_915, "Y = 1, S = 0": 1_911, "Y = 0, S = 1": 1_080, "Y = 0, S = 0": 732,
        "P(Y=1 | S=1)": 0.923, "P(Y=1 | S=0)": 0.723, "P(S=1 | Y=1)": 0.871, "P(S=0 | Y=1)": 0.129,
        "DPVRL": 0.200, "DRIVRL": 0.743, "DIRL": 0.784, "all zero": 0.109, "all one": 0.891,
    },
    "acsincome": {
        "rows": 50_000, "S = 1": 26_441, "S = 0": 23_559, "Y = 1": 20_661, "Y = 0": 29_339,
        "Y = 1, S = 1": 12_350, "Y = 1, S = 0": 8_311, "Y = 0, S = 1": 14_091, "Y = 0, S = 0": 15_248,
        "P(Y=1 | S=1)": 0.4672, "P(Y=1 | S=0)": 0.3528, "P(S=1 | Y=1)": 0.5975, "P(S=0 | Y=1)": 0.4025,
        "DPVRL": 0.1144, "DRIVRL": 0.1950, "DIRL": 0.7553, "all zero": 0.5868, "all one": 0.4132,
    },
}  # fmt: skip


@dataclass(frozen=True)
class PrintedCost:
    """A row of Table 3: mean minutes per run, largest megabytes, total core-hours of the eight runs."""

    minutes: float
    megabytes: float
    hours: float


TABLE_3 = {
    ("acsincome", "smoothed_step", "regularization"): PrintedCost(21.27, 2441.2, 7.54),
    ("acsincome", "smoothed_step", "constraint"): PrintedCost(23.82, 2565.9, 8.17),
    ("acsincome", "sigmoid", "regularization"): PrintedCost(20.25, 2230.4, 7.33),
    ("acsincome", "sigmoid", "constraint"): PrintedCost(49.84, 2244.8, 17.20),
    ("acsincome", "covariance", "regularization"): PrintedCost(30.32, 2315.8, 12.91),
    ("acsincome", "covariance", "constraint"): PrintedCost(52.13, 2226.0, 18.50),
    ("dutch", "smoothed_step", "regularization"): PrintedCost(32.49, 555.6, 5.21),
    ("dutch", "smoothed_step", "constraint"): PrintedCost(32.58, 555.7, 5.26),
    ("dutch", "sigmoid", "regularization"): PrintedCost(33.16, 562.5, 5.24),
    ("dutch", "sigmoid", "constraint"): PrintedCost(32.77, 561.2, 5.31),
    ("dutch", "covariance", "regularization"): PrintedCost(33.20, 589.3, 5.30),
    ("dutch", "covariance", "constraint"): PrintedCost(23.92, 557.3, 7.75),
    ("law", "smoothed_step", "regularization"): PrintedCost(6.84, 270.1, 1.51),
    ("law", "smoothed_step", "constraint"): PrintedCost(7.21, 366.9, 1.54),
    ("law", "sigmoid", "regularization"): PrintedCost(6.75, 289.6, 1.50),
    ("law", "sigmoid", "constraint"): PrintedCost(6.76, 266.4, 1.50),
    ("law", "covariance", "regularization"): PrintedCost(6.74, 281.3, 0.90),
    ("law", "covariance", "constraint"): PrintedCost(6.77, 282.8, 0.90),
}

ACTIVE = {"dutch": (0.5, 0.6), "law": (0.7, 0.8), "acsincome": (0.7, 0.8)}
"""The two ratios between which the limit begins to bind, according to the text."""

SPREAD = {("dutch", 0.8): (78.004, 79.19), ("dutch", 0.9): (75.7034, 77.75)}
"""Accuracies of the paper's own program under DI alone, in percent: printed, and the highest known of any seed."""
