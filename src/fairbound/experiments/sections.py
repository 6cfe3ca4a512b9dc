"""The sections of the gallery: verdicts on the paper's claims, figures and tables of each item, and headlines."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fairbound.experiments.exhibits import WIDE, ResultTable, embed, width_of
from fairbound.experiments.protocol import SCALE_RATIOS, TITLES, search
from fairbound.report import MINUS

if TYPE_CHECKING:
    from markupsafe import Markup

    from fairbound.experiments.reproduction import Exhibit, Reproduction
    from fairbound.experiments.runs import Outcome, Results


# --- claims ----------------------------------------------------------------------------------------------------------

# Verdicts on the paper's claims are computed from the outcomes, never written by hand.
#
# A claim has several checks, each about one data set, with its figures.  If all are true, the claim holds.  If some
# are, it holds in part.  If none is, it does not hold.  Each solver gets its own verdict: an observation about the
# paper's solver need not be true of a better one.


Word = Literal["holds", "holds in part", "does not hold", "not measured"]


@dataclass(frozen=True)
class Check:
    """One statement of a claim, and whether the numbers support it.

    Attributes
    ----------
    claim : str
        The claim, as a sentence.
    holds : bool
    figures : str
        A sentence with the numbers.
    because : str
        The reason, if the check is false and the reason is known.
    """

    claim: str
    holds: bool
    figures: str
    because: str = ""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and its checks, for one solver.  The solver is empty if no training is involved."""

    claim: str
    solver: str
    checks: tuple[Check, ...]

    @property
    def word(self) -> Word:
        """The verdict as text."""
        held = [check.holds for check in self.checks]
        if not held:
            return "not measured"
        if all(held):
            return "holds"
        return "holds in part" if any(held) else "does not hold"


def verdicts(checks: Iterable[tuple[str, Check]]) -> list[ClaimVerdict]:
    """Group pairs of a solver and a check by claim and solver, in the order of the first check of each claim."""
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
"""A longer table is folded if a figure shows the same numbers."""


@dataclass(frozen=True)
class Judged:
    """A claim, its verdicts by solver, and the items that check it."""

    claim: str
    verdicts: dict[str, ClaimVerdict]
    items: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure of the page, and links to its files."""

    solver: str
    svg: Markup
    wide: bool
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table as text, with marks for numbers and for values printed in the paper, and links to its files."""

    title: str
    folded: bool
    headings: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], bool], ...]
    numeric: tuple[bool, ...]
    printed: tuple[bool, ...]
    files: tuple[tuple[str, str], ...]

    @property
    def narrow(self) -> bool:
        """Whether the table needs only a part of the page's width."""
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
    """An item with its claims, figures and tables."""

    name: str
    label: str
    title: str
    claims: tuple[Judged, ...]
    shown: tuple[Shown, ...]
    runs: int
    seconds: float

    @property
    def compact(self) -> bool:
        """Whether the data sets fit side by side."""
        return all(not each.pictures and all(table.narrow for table in each.tables) for each in self.shown)

    @property
    def words(self) -> list[Word]:
        """Its verdicts, for the table of contents."""
        return [verdict.word for judged in self.claims for verdict in judged.verdicts.values()]


def label_of(name: str) -> str:
    """Return the name of an item for headings and text.

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
    """Return the outcomes of all runs of the exhibits, each once."""
    runs = (run for exhibit in made.exhibits for run in exhibit.item.runs(exhibit.setting, made.results))
    return [made.results[run] for run in dict.fromkeys(runs)]


def _items_of(claim: str, exhibits: Iterable[Exhibit]) -> tuple[str, ...]:
    names = (exhibit.item.name for exhibit in exhibits for check in exhibit.checks if check.claim == claim)
    return tuple(dict.fromkeys(names))


def sections(made: Reproduction) -> list[Section]:
    """Return the sections of the page, one per item."""
    by_item: dict[str, list[Exhibit]] = {}
    for exhibit in made.exhibits:
        by_item.setdefault(exhibit.item.name, []).append(exhibit)
    return [_section(replace(made, exhibits=exhibits)) for exhibits in by_item.values()]


def _section(made: Reproduction) -> Section:
    """Return the section of one item."""
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
    # Figure 1 shows the surrogates, which do not depend on the data.
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
    """Return the kind of each file, and its address relative to the page."""
    return tuple((path.suffix[1:].upper(), Path(os.path.relpath(path, out)).as_posix()) for path in paths)


def _grid(exhibit: Exhibit, table: ResultTable, files: tuple[tuple[str, str], ...]) -> Grid:
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

# The numbers at the top of the gallery: how many claims hold, and the cost of the runs and of a demanded limit.


@dataclass
class ClaimCounts:
    """The number of verdicts of each kind, and the number of true checks."""

    words: Counter[str] = field(default_factory=Counter)
    true: int = 0
    checks: int = 0


def tallies(judged: Iterable[Judged]) -> dict[str, ClaimCounts]:
    """Count the verdicts of each solver; claims that involve no solver come last."""
    found: dict[str, ClaimCounts] = {}
    for claim in judged:
        for solver, verdict in claim.verdicts.items():
            tally = found.setdefault(solver, ClaimCounts())
            tally.words[verdict.word] += 1
            tally.true += sum(check.holds for check in verdict.checks)
            tally.checks += len(verdict.checks)
    return dict(sorted(found.items(), key=lambda entry: entry[0] == ""))


def costs(exhibits: Iterable[Exhibit]) -> dict[str, tuple[float, float]]:
    """Return the processor seconds of the runs of Table 3 by solver, ours and printed; empty without that table."""
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
    """The cost of limits that bind, by constraint and by a search over penalties.

    Attributes
    ----------
    limits : number of limits
    seconds : processor seconds of the constrained fits
    fits : number of fits of the searches
    search_seconds : processor seconds of the searches
    reached : number of searches that reached the demanded ratio
    """

    limits: int
    seconds: float
    fits: int
    search_seconds: float
    reached: int


def prices(exhibits: Iterable[Exhibit], results: Results) -> dict[str, Price]:
    """Return the cost of demanded ratios by solver, summed over the data sets of the item `search-cost`."""
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
