"""The runs that each item is made of.  Items share runs: what one has trained, the next only looks up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from fairbound.data import Split
from fairbound.experiments import printed
from fairbound.experiments.outcomes import Outcome, Part
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
from fairbound.experiments.runs import Run, Setting
from fairbound.experiments.store import Results

SCALE_RATIOS = (0.8, 0.9)
"""Where the scales are compared: limits that bind on every data set or on all but one."""

SEARCH_TOLERANCE = 0.01
SEARCH_FITS = 12
"""Bisection over seven decades leaves a factor of 1.004 after twelve fits; who has not arrived by then does not."""


def unscaled(setting: Setting) -> list[Run]:
    """Ratios demanded of surrogates as they are."""
    return [
        setting.free(),
        *(setting.limited(bound, surrogate=name, scale=UNSCALED) for name in SURROGATES for bound in RATIOS),
    ]


def scaled(setting: Setting) -> list[Run]:
    """Ratios demanded of scaled surrogates, and limits on the covariance."""
    return [
        setting.free(),
        *(setting.limited(bound, surrogate=name) for name in SURROGATES for bound in RATIOS),
        *(setting.covariance(bound) for bound in COVARIANCES),
    ]


def scales(setting: Setting) -> list[Run]:
    """The same limits at several scales."""
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
    """Constraints against regularisation."""
    return [*scaled(setting), *(setting.penalized(penalty, name) for name in APPROACHES for penalty in PENALTIES)]


def scenario(setting: Setting, name: str, bound: float) -> Run:
    """A row of Table 2 or 4."""
    return replace(setting.free(), limits=tuple((measure, bound) for measure in printed.SCENARIOS[name]))


def scenarios(bound: float, setting: Setting) -> list[Run]:
    """The rows of Table 2 or 4, by their ratio."""
    return [scenario(setting, name, bound) for name in printed.SCENARIOS]


def seeds(setting: Setting) -> list[Run]:
    """Limits from several random starts."""
    return [setting.limited(bound, seed=seed) for bound in VARIANCE_RATIOS for seed in setting.seeds or SEEDS]


@dataclass(frozen=True)
class Search:
    """The search for the penalty that gives a demanded ratio: bisection of log λ between 1e-4 and 1e3.

    Attributes
    ----------
    target : float
    fits : runs in the order of the search, as far as they have outcomes
    found : whether the last one is within the tolerance
    next : the run that is wanted next; None where the search is over
    """

    target: float
    fits: tuple[Run, ...]
    found: bool
    next: Run | None


def search(setting: Setting, results: Results, target: float) -> Search:
    """Follow the search as far as the results go."""
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
    """The constrained fits, and the next step of each search: asked for again until nothing is missing."""
    runs = [setting.free(), *(setting.limited(target) for target in SCALE_RATIOS)]
    for target in SCALE_RATIOS:
        found = search(setting, results, target)
        runs += [*found.fits, *([] if found.next is None else [found.next])]
    return runs


# --- study -----------------------------------------------------------------------------------------------------------

# What the functions of an item are given: a setting, the outcomes, and the rows they are about.


@dataclass(frozen=True)
class Study:
    """One data set under one solver, with all the outcomes that an item's runs asked for."""

    setting: Setting
    results: Results
    split: Split

    def outcome(self, run: Run) -> Outcome:
        """What came out of a run."""
        return self.results[run]

    def part(self, run: Run) -> Part:
        """The same on the rows that are reported on."""
        return self.results[run].part(self.setting.part)

    @property
    def title(self) -> str:
        """The data set, the solver and the rows, in words."""
        rows = "training rows" if self.setting.part == "train" else "test rows"
        batches = ", mini-batches" if self.setting.batches else ""
        return f"{TITLES[self.setting.dataset]}, {self.setting.solver} solver, {rows}{batches}"

    @cached_property
    def free_ratio(self) -> float:
        """The ratio of selection rates that training without limits reaches: stricter limits bind."""
        return self.outcome(self.setting.free()).train.ratio()

    def binding(self, ratios: tuple[float, ...]) -> list[float]:
        """Those of the ratios that bind."""
        return [ratio for ratio in ratios if ratio > self.free_ratio]

    def gap(self, run: Run) -> float:
        """How far the ratio reached by the decisions lies from the one demanded."""
        ((_, demanded),) = run.limits
        return self.gap_to(run, demanded)

    def gap_to(self, run: Run, demanded: float) -> float:
        """The same for a run that was not told what is demanded."""
        return abs(self.part(run).ratio() - demanded)
