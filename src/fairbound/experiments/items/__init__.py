"""The figures and tables of the paper by name, as `fairbound reproduce --list` shows them: runs, tables and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fairbound.experiments import protocol
from fairbound.experiments.exhibits import ResultTable
from fairbound.experiments.items import demanded, figures, penalized, tables
from fairbound.experiments.protocol import ITEMS as TITLES
from fairbound.experiments.protocol import SCALE, UNSCALED, Run, Setting
from fairbound.experiments.runs import Evidence, Results
from fairbound.experiments.sections import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _no_runs(_: Setting, __: Results) -> list[Run]:
    return []


def _planned(plan: Callable[[Setting], list[Run]]) -> Callable[[Setting, Results], list[Run]]:
    """Return a plan that ignores the results so far."""
    return lambda setting, _: plan(setting)


@dataclass(frozen=True)
class Item:
    """A figure or a table of the paper.

    Attributes
    ----------
    name : str
    runs : function of a setting and the results so far
        Return the runs that the item needs.  It is called again until none is missing.
    tabulate : function of the evidence
        Return the tables.
    check : function of the evidence
        Return the checks of the claims.
    draw : function of the evidence, optional
        Return the figure.
    trains : bool
        Whether the item depends on a solver.
    """

    name: str
    runs: Callable[[Setting, Results], list[Run]]
    tabulate: Callable[[Evidence], list[ResultTable]]
    check: Callable[[Evidence], list[Check]]
    draw: Callable[[Evidence], Figure] | None = None
    trains: bool = True

    @property
    def title(self) -> str:
        """The title of the item."""
        return TITLES[self.name]


def _check_scaled(evidence: Evidence) -> list[Check]:
    return [*demanded.check_scaled(evidence), *demanded.check_unseen(evidence)]


def _scenarios(name: str, bound: float) -> Item:
    return Item(
        name,
        runs=_planned(partial(protocol.scenarios, bound)),
        tabulate=partial(tables.tabulate_limits, bound=bound),
        check=partial(tables.check_limits, bound=bound),
    )


_ITEMS = (
    Item(
        "figure-1",
        _no_runs,
        figures.tabulate_functions,
        figures.check_functions,
        figures.draw_functions,
        trains=False,
    ),
    Item(
        "figure-2",
        runs=_planned(protocol.unscaled),
        tabulate=partial(demanded.tabulate_ratios, scale=UNSCALED),
        check=demanded.check_unscaled,
        draw=partial(demanded.draw_ratios, scale=UNSCALED),
    ),
    Item(
        "figure-3",
        runs=_planned(protocol.scaled),
        tabulate=partial(demanded.tabulate_ratios, scale=SCALE),
        check=_check_scaled,
        draw=partial(demanded.draw_ratios, scale=SCALE),
    ),
    Item(
        "scale-selection",
        _planned(protocol.scales),
        figures.tabulate_scales,
        figures.check_scales,
        figures.draw_scales,
    ),
    Item(
        "figure-4",
        _planned(protocol.scaled),
        demanded.tabulate_accuracy,
        demanded.check_accuracy,
        demanded.draw_accuracy,
    ),
    Item(
        "figure-5",
        _planned(protocol.penalties),
        penalized.tabulate_penalized,
        penalized.check_penalized,
        penalized.draw_penalized,
    ),
    Item("search-cost", protocol.searches, penalized.tabulate_search, penalized.check_search),
    Item("figure-variance", _planned(protocol.seeds), figures.tabulate_seeds, figures.check_seeds, figures.draw_seeds),
    Item("table-1", _no_runs, tables.tabulate_statistics, tables.check_statistics, trains=False),
    _scenarios("table-2", 0.8),
    Item("table-3", _planned(protocol.penalties), penalized.tabulate_cost, penalized.check_cost),
    _scenarios("table-4", 0.9),
)

ITEMS: dict[str, Item] = {item.name: item for item in _ITEMS}
