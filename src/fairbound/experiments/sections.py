"""What the gallery shows of each item: its claims with their verdicts, its figures and its tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairbound.experiments.claims import ClaimVerdict, Word
from fairbound.experiments.embedding import WIDE, embed, width_of
from fairbound.experiments.protocol import TITLES
from fairbound.experiments.tables import Table
from fairbound.report import MINUS

if TYPE_CHECKING:
    from markupsafe import Markup

    from fairbound.experiments.outcomes import Outcome
    from fairbound.experiments.reproduction import Exhibit, Reproduction

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
