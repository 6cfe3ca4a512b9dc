"""What the gallery shows of each item: its claims with their verdicts, its figures and its tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fairbound.experiments.drawing import WIDE, embed, width_of
from fairbound.experiments.plans import SCALE_RATIOS, search
from fairbound.experiments.protocol import TITLES
from fairbound.experiments.tables import Table
from fairbound.report import MINUS

if TYPE_CHECKING:
    from markupsafe import Markup

    from fairbound.experiments.outcomes import Outcome
    from fairbound.experiments.reproduction import Exhibit, Reproduction
    from fairbound.experiments.store import Results


# --- claims ----------------------------------------------------------------------------------------------------------

# Verdicts on the paper's claims, computed from outcomes and never written by hand.
#
# A claim is looked at through checks, each of which says one thing of one data set with its figures.  All true: the
# claim holds; some: it holds in part; none: it does not hold.  The two solvers are judged apart: what the paper
# observed of its own need not be true of a better one.


Word = Literal["holds", "holds in part", "does not hold", "not measured"]


@dataclass(frozen=True)
class Check:
    """One thing that a claim says, and whether the numbers bear it out.

    Attributes
    ----------
    claim : str
        The claim that it belongs to, in a sentence.
    holds : bool
    figures : str
        The numbers, in a sentence.
    because : str
        Where it does not hold and the reason is known: the reason.
    """

    claim: str
    holds: bool
    figures: str
    because: str = ""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and its checks, for one solver; the empty name is for what involves no training."""

    claim: str
    solver: str
    checks: tuple[Check, ...]

    @property
    def word(self) -> Word:
        """The verdict in a word or two."""
        held = [check.holds for check in self.checks]
        if not held:
            return "not measured"
        if all(held):
            return "holds"
        return "holds in part" if any(held) else "does not hold"


def verdicts(checks: Iterable[tuple[str, Check]]) -> list[ClaimVerdict]:
    """Gather checks, each with its solver, by claim and solver, in the order in which the claims come first."""
    by_claim: dict[str, dict[str, list[Check]]] = {}
    for solver, check in checks:
        by_claim.setdefault(check.claim, {}).setdefault(solver, []).append(check)
    return [
        ClaimVerdict(claim, solver, tuple(found))
        for claim, solvers in by_claim.items()
        for solver, found in solvers.items()
    ]


# --- sections --------------------------------------------------------------------------------------------------------


TONES: dict[Word, tuple[str, str]] = {
    "holds": ("good", "✓"),
    "holds in part": ("open", "◐"),
    "does not hold": ("bad", "✗"),
    "not measured": ("plain", "–"),
}
SOLVERS = {"paper": "paper’s solver", "fast": "fast solver", "": "no training"}

LONG = 12
"""Tables of more rows are folded where a figure shows the same."""


@dataclass(frozen=True)
class Judged:
    """A claim, its verdicts by solver, and the items it is looked at in."""

    claim: str
    verdicts: dict[str, ClaimVerdict]
    items: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure within the page, and its files beside it."""

    solver: str
    svg: Markup
    wide: bool
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table as text, with what is a number, what is printed in the paper, and its files."""

    title: str
    folded: bool
    headings: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], bool], ...]
    numeric: tuple[bool, ...]
    printed: tuple[bool, ...]
    files: tuple[tuple[str, str], ...]

    @property
    def narrow(self) -> bool:
        """Whether it needs only a part of the width."""
        return len(self.headings) <= 4


@dataclass(frozen=True)
class Shown:
    """Figures and tables for one data set."""

    title: str
    anchor: str
    pictures: tuple[Picture, ...]
    tables: tuple[Grid, ...]


@dataclass(frozen=True)
class Section:
    """An item with all that was made for it."""

    name: str
    label: str
    title: str
    claims: tuple[Judged, ...]
    shown: tuple[Shown, ...]
    runs: int
    seconds: float

    @property
    def compact(self) -> bool:
        """Whether the data sets have room beside each other."""
        return all(not each.pictures and all(table.narrow for table in each.tables) for each in self.shown)

    @property
    def words(self) -> list[Word]:
        """Its verdicts, for the table of contents."""
        return [verdict.word for judged in self.claims for verdict in judged.verdicts.values()]


def label_of(name: str) -> str:
    """Return what an item is called in a text.

    >>> label_of("figure-2"), label_of("scale-selection"), label_of("figure-variance")
    ('Figure 2', 'Scale selection', 'Variance')
    """
    name = name.removeprefix("figure-") if not name[-1].isdigit() else name
    return name.replace("-", " ").capitalize()


def judge(made: Reproduction) -> list[Judged]:
    """Gather the verdicts on each claim, in the order of the items."""
    by_claim: dict[str, dict[str, ClaimVerdict]] = {}
    for verdict in made.verdicts:
        by_claim.setdefault(verdict.claim, {})[verdict.solver] = verdict
    return [Judged(claim, found, _items_of(claim, made.exhibits)) for claim, found in by_claim.items()]


def outcomes_of(made: Reproduction) -> list[Outcome]:
    """Return what came out of all the runs that were needed, each once."""
    runs = (run for exhibit in made.exhibits for run in exhibit.item.runs(exhibit.setting, made.results))
    return [made.results[run] for run in dict.fromkeys(runs)]


def _items_of(claim: str, exhibits: Iterable[Exhibit]) -> tuple[str, ...]:
    names = (exhibit.item.name for exhibit in exhibits for check in exhibit.checks if check.claim == claim)
    return tuple(dict.fromkeys(names))


def sections(made: Reproduction) -> list[Section]:
    """Everything, item by item."""
    by_item: dict[str, list[Exhibit]] = {}
    for exhibit in made.exhibits:
        by_item.setdefault(exhibit.item.name, []).append(exhibit)
    return [_section(replace(made, exhibits=exhibits)) for exhibits in by_item.values()]


def _section(made: Reproduction) -> Section:
    """What was made for one item."""
    item, outcomes = made.exhibits[0].item, outcomes_of(made)
    by_dataset: dict[str, list[Exhibit]] = {}
    for exhibit in made.exhibits:
        by_dataset.setdefault(exhibit.setting.dataset, []).append(exhibit)
    return Section(
        item.name,
        label_of(item.name),
        item.title,
        tuple(judge(made)),
        tuple(_shown(item.name, dataset, found, made.out) for dataset, found in by_dataset.items()),
        len(outcomes),
        sum(outcome.processor_seconds for outcome in outcomes),
    )


def _shown(name: str, dataset: str, exhibits: list[Exhibit], out: Path) -> Shown:
    # The surrogates themselves are the same for all data.
    title = "" if name == "figure-1" else TITLES.get(dataset, dataset)
    return Shown(
        title,
        f"{name}-{dataset}",
        tuple(_picture(exhibit, out) for exhibit in exhibits if exhibit.figures),
        tuple(
            _grid(exhibit, table, _links((path for path in exhibit.table_files if path.stem == stem), out))
            for exhibit in exhibits
            for table, stem in zip(
                exhibit.tables, dict.fromkeys(path.stem for path in exhibit.table_files), strict=True
            )
        ),
    )


def _picture(exhibit: Exhibit, out: Path) -> Picture:
    path = next(path for path in exhibit.figures if path.suffix == ".svg")
    svg = path.read_text(encoding="utf-8")
    label = f"{label_of(exhibit.item.name)}: {exhibit.item.title}. {path.stem}; the table below has its numbers."
    solver = exhibit.setting.solver if exhibit.item.trains else ""
    return Picture(solver, embed(svg, path.stem, label), width_of(svg) > WIDE, _links(exhibit.figures, out))


def _links(paths: Iterable[Path], out: Path) -> tuple[tuple[str, str], ...]:
    """The kind and the address of files, as seen from the page."""
    return tuple((path.suffix[1:].upper(), Path(os.path.relpath(path, out)).as_posix()) for path in paths)


def _grid(exhibit: Exhibit, table: Table, files: tuple[tuple[str, str], ...]) -> Grid:
    written = table.written()
    numeric = tuple(_is_numeric([row[place] for row in written]) for place in range(len(table.columns)))
    rows = tuple(
        (
            tuple(
                re.sub(r"^-|(?<=e)-", MINUS, cell) if number else cell
                for cell, number in zip(row, numeric, strict=True)
            ),
            "printed" in row,
        )
        for row in written
    )
    headings = tuple(column.heading for column in table.columns)
    printed = tuple(heading.startswith("printed") for heading in headings)
    folded = len(rows) > LONG and bool(exhibit.figures)
    return Grid(table.title, folded, headings, rows, numeric, printed, files)


def _is_numeric(cells: list[str]) -> bool:
    full = [cell for cell in cells if cell]
    return bool(full) and all(re.fullmatch(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?|nan|inf", cell) for cell in full)


# --- headlines -------------------------------------------------------------------------------------------------------

# The few numbers at the top of the gallery: how many claims hold, and what the runs and a demanded limit cost.


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
