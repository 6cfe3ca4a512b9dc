"""The few numbers at the top of the gallery: how many claims hold, and what the runs and a demanded limit cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairbound.experiments.plans import SCALE_RATIOS, search
from fairbound.experiments.sections import Judged

if TYPE_CHECKING:
    from fairbound.experiments.reproduction import Exhibit
    from fairbound.experiments.store import Results


@dataclass
class ClaimCounts:
    """How many verdicts there are of each word, and how many of their checks are true."""

    words: Counter[str] = field(default_factory=Counter)
    true: int = 0
    checks: int = 0


def tallies(judged: Iterable[Judged]) -> dict[str, ClaimCounts]:
    """Count the verdicts of each solver, and last of what involves none."""
    found: dict[str, ClaimCounts] = {}
    for claim in judged:
        for solver, verdict in claim.verdicts.items():
            tally = found.setdefault(solver, ClaimCounts())
            tally.words[verdict.word] += 1
            tally.true += sum(check.holds for check in verdict.checks)
            tally.checks += len(verdict.checks)
    return dict(sorted(found.items(), key=lambda entry: entry[0] == ""))


def costs(exhibits: Iterable[Exhibit]) -> dict[str, tuple[float, float]]:
    """Return the processor seconds of the runs of Table 3 by solver, ours and printed, where that table was made."""
    found: dict[str, tuple[float, float]] = {}
    for exhibit in exhibits:
        if exhibit.item.name == "table-3":
            (table,) = exhibit.tables
            headings = [column.heading for column in table.columns]
            ours, hours = headings.index("processor seconds in all"), headings.index("printed, hours")
            before = found.get(exhibit.setting.solver, (0.0, 0.0))
            found[exhibit.setting.solver] = (
                before[0] + sum(float(row[ours] or 0) for row in table.rows),
                before[1] + sum(3600 * float(row[hours] or 0) for row in table.rows),
            )
    return found


@dataclass(frozen=True)
class Price:
    """What limits cost that bind: how many there are, seconds by constraint, then fits and seconds by search.

    `reached` counts the searches that came to what was demanded.
    """

    limits: int
    seconds: float
    fits: int
    search_seconds: float
    reached: int


def prices(exhibits: Iterable[Exhibit], results: Results) -> dict[str, Price]:
    """Return the cost of demanded ratios by solver, over the data sets that the search was made for."""
    found: dict[str, Price] = {}
    for exhibit in exhibits:
        setting = exhibit.setting
        if exhibit.item.name != "search-cost":
            continue
        for target in SCALE_RATIOS:
            if target <= results[setting.free()].train.ratio():
                continue
            looked = search(setting, results, target)
            before = found.get(setting.solver, Price(0, 0.0, 0, 0.0, 0))
            found[setting.solver] = Price(
                before.limits + 1,
                before.seconds + results[setting.limited(target)].processor_seconds,
                before.fits + len(looked.fits),
                before.search_seconds + sum(results[fit].processor_seconds for fit in looked.fits),
                before.reached + looked.found,
            )
    return found
