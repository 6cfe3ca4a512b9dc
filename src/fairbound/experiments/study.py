"""What the functions of an item are given: a setting, the outcomes, and the rows they are about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fairbound.data import Split
from fairbound.experiments.outcomes import Outcome, Part
from fairbound.experiments.protocol import TITLES
from fairbound.experiments.runs import Run, Setting
from fairbound.experiments.store import Results


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
