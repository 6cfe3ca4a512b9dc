"""The runs that each item needs, and the evidence that it computes its figures and tables from.

Items share runs: a run that one item has trained is looked up by the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from fairbound.data import Split
from fairbound.experiments import protocol
from fairbound.experiments.protocol import (
    APPROACHES,
    COVARIANCES,
    PENALTIES,
    RATIOS,
    SCALES,
    SEEDS,
    SURROGATES,
    TITLES,
    UNSCALED,
    VARIANCE_RATIOS,
)
from fairbound.experiments.runs import CellSums, Outcome, Results, Run, Setting

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
    return replace(setting.free(), limits=tuple((measure, bound) for measure in protocol.SCENARIOS[name]))


def scenarios(bound: float, setting: Setting) -> list[Run]:
    """Return the runs of Table 2 or 4, given the ratio."""
    return [scenario(setting, name, bound) for name in protocol.SCENARIOS]


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


# --- evidence --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """The argument of an item's functions: a data set, a solver, and the outcomes of the item's runs."""

    setting: Setting
    results: Results
    split: Split

    def outcome(self, run: Run) -> Outcome:
        """Return the outcome of a run."""
        return self.results[run]

    def part(self, run: Run) -> CellSums:
        """Return the sums of a run over the reported rows (training or test)."""
        return self.results[run].part(self.setting.part)

    @property
    def title(self) -> str:
        """The data set, the solver and the reported rows, as text."""
        rows = "training rows" if self.setting.part == "train" else "test rows"
        batches = ", mini-batches" if self.setting.batches else ""
        return f"{TITLES[self.setting.dataset]}, {self.setting.solver} solver, {rows}{batches}"

    @cached_property
    def free_ratio(self) -> float:
        """The ratio of selection rates without limits.  Stricter limits bind."""
        return self.outcome(self.setting.free()).train.ratio()

    def binding(self, ratios: tuple[float, ...]) -> list[float]:
        """Return the ratios that bind."""
        return [ratio for ratio in ratios if ratio > self.free_ratio]

    def gap(self, run: Run) -> float:
        """Return the distance between the ratio of the decisions and the demanded one."""
        ((_, demanded),) = run.limits
        return self.gap_to(run, demanded)

    def gap_to(self, run: Run, demanded: float) -> float:
        """Return the same distance for a run without a limit on the ratio."""
        return abs(self.part(run).ratio() - demanded)
