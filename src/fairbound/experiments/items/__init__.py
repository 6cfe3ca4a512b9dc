"""The figures and tables of the paper by name, as `fairbound reproduce --list` shows them: runs, tables and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fairbound.experiments.claims import Check
from fairbound.experiments.exhibits import ResultTable
from fairbound.experiments.items import penalties, printed, ratios, scales, starts
from fairbound.experiments.protocol import (
    APPROACHES,
    SCALE,
    SCALE_RATIOS,
    SCENARIOS,
    SURROGATES,
    TITLES,
    UNSCALED,
    VARIANCE_RATIOS,
    Run,
)
from fairbound.experiments.runs import Evidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Item:
    """A figure or a table of the paper.

    Attributes
    ----------
    name : str
    plan : function of the evidence so far, optional
        Return the runs that the item needs.  It is called again until none is missing.  None: no training is involved.
    tabulate : function of the evidence
        Return the table.
    check : function of the evidence
        Return the checks of the claims.
    draw : function of the evidence, optional
        Return the figure.
    """

    name: str
    plan: Callable[[Evidence], Iterable[Run]] | None
    tabulate: Callable[[Evidence], ResultTable]
    check: Callable[[Evidence], Iterable[Check]]
    draw: Callable[[Evidence], Figure] | None = None

    @property
    def title(self) -> str:
        """The title of the item."""
        return TITLES[self.name]

    @property
    def trains(self) -> bool:
        """Whether the item depends on a solver."""
        return self.plan is not None

    def runs(self, evidence: Evidence) -> list[Run]:
        """Return the runs of the item that are known so far."""
        return list(self.plan(evidence)) if self.plan else []


def _unscaled(evidence: Evidence) -> list[Run]:
    return [evidence.free_run(), *(run for name in SURROGATES for run in evidence.constrained_runs(name, UNSCALED))]


def _scaled(evidence: Evidence) -> list[Run]:
    return [evidence.free_run(), *(run for name in APPROACHES for run in evidence.constrained_runs(name))]


def _scales(evidence: Evidence) -> list[Run]:
    runs = (run for bound in SCALE_RATIOS for name in SURROGATES for run in evidence.scales(bound, name))
    return [evidence.free_run(), *runs]


def _penalties(evidence: Evidence) -> list[Run]:
    return [*_scaled(evidence), *(run for name in APPROACHES for run in evidence.penalty_runs(name))]


def _searches(evidence: Evidence) -> list[Run]:
    """Return the constrained fits, and the runs of each search up to the next one."""
    runs = [evidence.free_run(), *(evidence.limited(target) for target in SCALE_RATIOS)]
    for target in SCALE_RATIOS:
        search = evidence.search(target)
        runs += [*search.fits, *([] if search.next is None else [search.next])]
    return runs


def _starts(evidence: Evidence) -> list[Run]:
    return [run for bound in VARIANCE_RATIOS for run in evidence.starts(bound)]


def _limits(name: str, bound: float) -> Item:
    return Item(
        name,
        lambda evidence: [evidence.scenario(scenario, bound) for scenario in SCENARIOS],
        partial(printed.tabulate_limits, bound=bound),
        partial(printed.check_limits, bound=bound),
    )


def _ratios(
    name: str, scale: float, plan: Callable[[Evidence], list[Run]], check: Callable[..., Iterable[Check]]
) -> Item:
    return Item(
        name, plan, partial(ratios.tabulate_ratios, scale=scale), check, partial(ratios.draw_ratios, scale=scale)
    )


_ITEMS = (
    Item("figure-1", None, scales.tabulate_functions, scales.check_functions, scales.draw_functions),
    _ratios("figure-2", UNSCALED, _unscaled, ratios.check_unscaled),
    _ratios("figure-3", SCALE, _scaled, ratios.check_scaled),
    Item("scale-selection", _scales, scales.tabulate_scales, scales.check_scales, scales.draw_scales),
    Item("figure-4", _scaled, ratios.tabulate_accuracy, ratios.check_accuracy, ratios.draw_accuracy),
    Item("figure-5", _penalties, penalties.tabulate_penalized, penalties.check_penalized, penalties.draw_penalized),
    Item("search-cost", _searches, penalties.tabulate_search, penalties.check_search),
    Item("figure-variance", _starts, starts.tabulate_starts, starts.check_starts, starts.draw_starts),
    Item("table-1", None, printed.tabulate_statistics, printed.check_statistics),
    _limits("table-2", 0.8),
    Item("table-3", _penalties, penalties.tabulate_cost, penalties.check_cost),
    _limits("table-4", 0.9),
)

ITEMS: dict[str, Item] = {item.name: item for item in _ITEMS}
