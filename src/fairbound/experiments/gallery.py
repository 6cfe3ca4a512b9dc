"""The gallery: verdicts on the paper's claims, figures and tables on one self-contained page, in the report's style.

Each item comes with the paper's claims and their verdicts, which are computed from the numbers, and the checks behind
them.  Neither this module nor the template contains a verdict.
"""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

import fairbound
from fairbound._words import count
from fairbound.experiments.claims import ClaimVerdict, verdicts
from fairbound.experiments.exhibits import COLORS, GRID, INK, QUIET, ResultTable
from fairbound.experiments.protocol import DATASETS, EPOCHS, SCALE_RATIOS, SEEDS
from fairbound.experiments.running import load_rows
from fairbound.report import MINUS, environment, policy, resource

if TYPE_CHECKING:
    from markupsafe import Markup

    from fairbound.experiments.reproduction import Exhibit, Reproduction, Request

PACKAGE = "fairbound.experiments"
TONES = {"holds": ("good", "✓"), "holds in part": ("open", "◐"), "does not hold": ("bad", "✗")}
SOLVERS = {"paper": "paper’s solver", "fast": "fast solver", "": "no training"}

LONG = 12
"""A longer table is folded if a figure shows the same numbers."""


def render_gallery(made: Reproduction, command: str = "") -> str:
    """Return the page; it shows the command line, unless that is empty."""
    from markupsafe import Markup

    request, script = made.request, resource("gallery.js", PACKAGE)
    engine = environment(PACKAGE)
    engine.filters |= {"count": count, "duration": duration, "label": label_of, "picture": picture, "cells": cells}
    engine.filters["files"] = lambda paths: [(path.suffix[1:].upper(), _address(path, made.out)) for path in paths]
    claims = judge(made.exhibits)
    by_item = {name: list(found) for name, found in groupby(made.exhibits, lambda exhibit: exhibit.item.name)}
    return str(
        engine.get_template("gallery.html").render(
            command=command,
            suffix=request.suffix,
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            versions={
                "fairbound": fairbound.__version__,
                "torch": str(torch.__version__),
                "Python": platform.python_version(),
                "": f"{platform.system()} {platform.machine()}",
            },
            data=[_rows(name, request) for name in request.datasets],
            conditions=conditions(request),
            work=spent(made.exhibits),
            trained=made.trained,
            seconds=made.seconds,
            costs=costs(made.exhibits),
            prices=prices(made),
            claims=claims,
            seen={claim: [name for name, found in by_item.items() if _checks(found, claim)] for claim in claims},
            solvers=[solver for solver in request.solvers if any(solver in found for found in claims.values())],
            tallies=tallies(claims),
            sections=[(found[0].item, found, judge(found), spent(found)) for found in by_item.values()],
            datasets=DATASETS,
            long=LONG,
            tones=TONES,
            solver_words=SOLVERS,
            policy=policy([script]),
            style=Markup(resource("page.css") + resource("gallery.css", PACKAGE)),
            scripts=[Markup(script)],
            figures={},
        )
    )


def _address(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out)).as_posix()


def _checks(exhibits: Iterable[Exhibit], claim: str) -> bool:
    return any(check.claim == claim for exhibit in exhibits for check in exhibit.checks)


def judge(exhibits: Iterable[Exhibit]) -> dict[str, dict[str, ClaimVerdict]]:
    """Return the verdicts by claim and solver, in the order of the items."""
    claims: dict[str, dict[str, ClaimVerdict]] = {}
    for verdict in verdicts(
        (exhibit.setting.solver if exhibit.item.trains else "", check)
        for exhibit in exhibits
        for check in exhibit.checks
    ):
        claims.setdefault(verdict.claim, {})[verdict.solver] = verdict
    return claims


class Work(NamedTuple):
    """The number of runs, each counted once, and their processor seconds."""

    runs: int
    seconds: float


def spent(exhibits: Iterable[Exhibit]) -> Work:
    """Return the work of the runs of some exhibits."""
    outcomes = {outcome.run: outcome.processor_seconds for exhibit in exhibits for outcome in exhibit.outcomes}
    return Work(len(outcomes), sum(outcomes.values()))


class DataDescription(NamedTuple):
    """The description of a data set on the page."""

    title: str
    train: int
    test: int
    text: str
    warning: str


def _rows(name: str, request: Request) -> DataDescription:
    train, test = (split := load_rows(name, request.data_dir, request.limit)).train, split.test
    return DataDescription(DATASETS[name], len(train), len(test), train.description, sample_warning(train.description))


def sample_warning(description: str) -> str:
    """Return a sentence about the sample, if the data set's description says that its rows are one.

    >>> sample_warning("California: a sample of 46 of its 100 rows.")
    'These are drawn from a 46% sample of the rows (46 of 100), not from all of them as in the paper.'
    """
    found = re.search(r"a sample of ([\d,]+) of its ([\d,]+) rows", description)
    if found is None:
        return ""
    some, every = (int(number.replace(",", "")) for number in found.groups())
    where = "California rows" if "California" in description and every > 1000 else "rows"
    return (
        f"These are drawn from a {100 * some / every:.0f}% sample of the {where} ({some:,} of {every:,}), "
        "not from all of them as in the paper."
    )


def conditions(request: Request) -> list[str]:
    """Return the differences between this request and the paper's main experiments, one sentence each."""
    quick = "A quick look: "
    sentences = {
        "Ratios, accuracies and violations are those of the test rows, which no model was fitted to.": request.part
        == "test",
        "Training uses mini-batches, and the constraints are computed on a part of the rows.": request.batches,
        f"{quick}only the first {request.limit or 0:,} rows of each part. The paper uses all rows.": request.limit,
        f"{quick}{request.epochs:,} epochs in place of the paper’s {EPOCHS:,}.": request.epochs != EPOCHS,
        f"{quick}{len(request.seeds)} random starts in place of the paper’s {len(SEEDS)}.": request.seeds != SEEDS,
    }
    return [sentence for sentence, true in sentences.items() if true]


def label_of(name: str) -> str:
    """Return the name of an item for headings and text.

    >>> label_of("figure-2"), label_of("scale-selection"), label_of("figure-variance")
    ('Figure 2', 'Scale selection', 'Variance')
    """
    name = name.removeprefix("figure-") if not name[-1].isdigit() else name
    return name.replace("-", " ").capitalize()


def duration(seconds: float) -> str:
    """Return a duration as text, in suitable units.

    >>> [duration(seconds).replace("\N{NO-BREAK SPACE}", " ") for seconds in (0.36, 42.4, 754, 28260)]
    ['0.4 s', '42 s', '12 min 34 s', '7 h 51 min']
    """
    minutes, rest = divmod(round(seconds), 60)
    if seconds < 10:
        text = f"{seconds:.1f} s"
    elif minutes < 60:
        text = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    else:
        text = f"{minutes // 60} h {minutes % 60} min"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


class ClaimCounts(NamedTuple):
    """The number of verdicts of each kind, and of true and of all checks."""

    words: Counter[str]
    true: int
    checks: int


def tallies(claims: dict[str, dict[str, ClaimVerdict]]) -> dict[str, ClaimCounts]:
    """Count the verdicts of each solver; claims that involve no solver come last."""
    found = {}
    for solver in sorted({solver for by_solver in claims.values() for solver in by_solver}, reverse=True):
        judged = [by_solver[solver] for by_solver in claims.values() if solver in by_solver]
        held = [check.holds for verdict in judged for check in verdict.checks]
        found[solver] = ClaimCounts(Counter(verdict.word for verdict in judged), sum(held), len(held))
    return found


def costs(exhibits: Iterable[Exhibit]) -> dict[str, tuple[float, float]]:
    """Return the processor seconds of the runs of Table 3 by solver, ours and printed; empty without that table."""
    found: dict[str, tuple[float, float]] = {}
    for exhibit in exhibits:
        if exhibit.item.name == "table-3":
            ours, printed = found.get(exhibit.setting.solver, (0.0, 0.0))
            ours += sum(exhibit.table.column("processor seconds in all"))
            found[exhibit.setting.solver] = ours, printed + 3600 * sum(exhibit.table.column("printed, hours"))
    return found


class Price(NamedTuple):
    """The cost of limits that bind: processor seconds by constraint, and fits and seconds of searches over penalties.

    The last is the number of searches that reached the demanded ratio.
    """

    limits: int
    seconds: float
    fits: int
    search_seconds: float
    reached: int


def prices(made: Reproduction) -> dict[str, Price]:
    """Return the cost of demanded ratios by solver, summed over the data sets of the item `search-cost`."""
    found: dict[str, list[Price]] = {}
    results = made.results
    for setting in (exhibit.setting for exhibit in made.exhibits if exhibit.item.name == "search-cost"):
        for target in SCALE_RATIOS:
            if target > results[setting.free()].train.ratio():
                fits, reached, _ = setting.search(results, target)
                seconds = sum(results[fit].processor_seconds for fit in fits)
                one = results[setting.limited(target)].processor_seconds
                found.setdefault(setting.solver, []).append(Price(1, one, len(fits), seconds, reached))
    return {solver: Price(*map(sum, zip(*each, strict=True))) for solver, each in found.items()}


def cells(table: ResultTable) -> list[list[tuple[str, str]]]:
    """Return the headings and rows of a table as text, each cell with its kinds: "number", and "stated" if printed."""
    written = table.written()
    numeric = [_is_numeric([row[place] for row in written]) for place in range(len(table.headings))]
    kinds = [
        " ".join(["number"] * number + ["stated"] * heading.startswith("printed"))
        for heading, number in zip(table.headings, numeric, strict=True)
    ]
    signed = [
        [re.sub(r"^-|(?<=e)-", MINUS, cell) if number else cell for cell, number in zip(row, numeric, strict=True)]
        for row in written
    ]
    return [list(zip(row, kinds, strict=True)) for row in (table.headings, *signed)]


def _is_numeric(column: Sequence[str]) -> bool:
    full = [cell for cell in column if cell]
    return bool(full) and all(re.fullmatch(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?|nan|inf", cell) for cell in full)


VARIABLES = {
    INK: "--text",
    QUIET: "--quiet",
    GRID: "--grid",
    "#ffffff": "--card",
    **{color: f"--{name.replace('_', '-')}" for name, color in COLORS.items()},
}
"""The colours of figures, and their names in the style sheet of the page, for its dark mode and print style."""

WIDE = 520.0
"""A figure wider than this, in points, takes the whole width of the page."""

_REFERENCE = re.compile(r'url\(#([^)]+)\)|href="#([^"]+)"')


class Picture(NamedTuple):
    """An SVG element, and whether it needs the whole width of the page."""

    svg: Markup
    wide: bool


def picture(exhibit: Exhibit) -> Picture:
    """Return the figure of an exhibit for the page."""
    path = next(path for path in exhibit.figures if path.suffix == ".svg")
    item = exhibit.item
    label = f"{label_of(item.name)}: {item.title}. {path.stem}; the table below has its numbers."
    return embed(path.read_text(encoding="utf-8"), path.stem, label)


def embed(svg: str, prefix: str, label: str) -> Picture:
    """Return matplotlib's SVG as an element of a page, made smaller, with the font and colours of the page.

    Parameters
    ----------
    svg : str
        The content of an SVG file from matplotlib.
    prefix : str
        The prefix of its ids, different for every figure of a page; an id to which the figure does not refer goes.
    label : str
        A description for screen readers.
    """
    from markupsafe import Markup, escape

    width = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    if width is None:
        raise ValueError("The SVG is not a figure of matplotlib: it has no viewBox that begins at 0 0.")
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    referred = {first or second for first, second in _REFERENCE.findall(text)}
    text = re.sub(r"<[^>]+>", lambda tag: _tidy(tag[0], prefix, referred), text)
    text = re.sub(r">\s+<", "><", text).replace("<defs></defs>", "").strip()
    text = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]+\")[^>]*>", r"<svg \1 LABEL>", text, count=1)
    text = text.replace("LABEL", f'role="img" aria-label="{escape(label)}"', 1)
    return Picture(Markup(text), float(width[1]) > WIDE)


def _tidy(tag: str, prefix: str, referred: set[str]) -> str:
    """Return a tag with rounded numbers, prefixed ids, CSS variables for colours, and no font of its own."""
    tag = " ".join(tag.split()).replace("xlink:href", "href")
    tag = re.sub(r' id="([^"]*)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in referred else "", tag)
    tag = _REFERENCE.sub(
        lambda found: f"url(#{prefix}-{found[1]})" if found[1] else f'href="#{prefix}-{found[2]}"', tag
    )
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    for color, variable in VARIABLES.items():
        tag = tag.replace(color, f"var({variable})")
    return tag
