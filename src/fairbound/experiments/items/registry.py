"""The list of the paper's figures and tables, as `fairbound reproduce --list` shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fairbound.experiments import plans
from fairbound.experiments.claims import Check
from fairbound.experiments.items import (
    accuracy,
    cost,
    demanded,
    functions,
    limits,
    penalized,
    scales,
    spread,
    statistics,
)
from fairbound.experiments.protocol import SCALE, UNSCALED
from fairbound.experiments.runs import Run, Setting
from fairbound.experiments.store import Results
from fairbound.experiments.study import Study
from fairbound.experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _no_runs(_: Setting, __: Results) -> list[Run]:
    return []


def _planned(plan: Callable[[Setting], list[Run]]) -> Callable[[Setting, Results], list[Run]]:
    """A plan that does not depend on what was found so far."""
    return lambda setting, _: plan(setting)


@dataclass(frozen=True)
class Item:
    """A figure or a table of the paper.

    Attributes
    ----------
    name : str
    title : str
        What it shows.
    runs : function of a setting and the results so far
        The runs it needs; asked for again until none is missing.
    tabulate : function of a study
    check : function of a study
        What the claims come to.
    draw : function of a study, optional
    trains : bool
        Whether it depends on a solver at all.
    """

    name: str
    title: str
    runs: Callable[[Setting, Results], list[Run]]
    tabulate: Callable[[Study], list[Table]]
    check: Callable[[Study], list[Check]]
    draw: Callable[[Study], Figure] | None = None
    trains: bool = True


def _check_scaled(study: Study) -> list[Check]:
    return [*demanded.check_scaled(study), *demanded.check_unseen(study)]


_ITEMS = (
    Item("figure-1", "the surrogates, as they are and scaled", _no_runs, functions.tabulate, functions.check,
         functions.draw, trains=False),
    Item("figure-2", "ratios demanded and achieved without scaling", _planned(plans.unscaled),
         partial(demanded.tabulate_ratios, scale=UNSCALED), demanded.check_unscaled,
         partial(demanded.draw_ratios, scale=UNSCALED)),
    Item("figure-3", "ratios demanded and achieved with scaling, and limits on the covariance",
         _planned(plans.scaled), partial(demanded.tabulate_ratios, scale=SCALE), _check_scaled,
         partial(demanded.draw_ratios, scale=SCALE)),
    Item("scale-selection", "the choice of the scale among 1, 5, 10, 20, 50, 100",
         _planned(lambda setting: [setting.free(), *plans.scales(setting)]), scales.tabulate,
         scales.check, scales.draw),
    Item("figure-4", "accuracy and violation under each limit", _planned(plans.scaled), accuracy.tabulate,
         accuracy.check, accuracy.draw),
    Item("figure-5", "constraints against regularisation", _planned(plans.penalties), penalized.tabulate,
         penalized.check, penalized.draw),
    Item("search-cost", "what a demanded ratio costs: one constrained fit, or a search over penalties",
         lambda setting, results: [setting.free(), *plans.searches(setting, results)], penalized.tabulate_search,
         penalized.check_search),
    Item("figure-variance", "accuracy and violation over five random starts", _planned(plans.seeds), spread.tabulate,
         spread.check, spread.draw),
    Item("table-1", "statistics of the data", _no_runs, statistics.tabulate, statistics.check, trains=False),
    Item("table-2", "limits on disparate impact, equal impact and both, at 0.8",
         _planned(partial(plans.scenarios, 0.8)), partial(limits.tabulate, bound=0.8),
         partial(limits.check, bound=0.8)),
    Item("table-3", "time and memory", _planned(plans.penalties), cost.tabulate, cost.check),
    Item("table-4", "limits on disparate impact, equal impact and both, at 0.9",
         _planned(partial(plans.scenarios, 0.9)), partial(limits.tabulate, bound=0.9),
         partial(limits.check, bound=0.9)),
)  # fmt: skip

ITEMS: dict[str, Item] = {item.name: item for item in _ITEMS}
