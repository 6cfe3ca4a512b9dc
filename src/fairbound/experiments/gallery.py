"""The gallery: verdicts on the paper's claims, figures and tables on one self-contained page, in the report's style.

Each item comes with the paper's claims and their verdicts, which are computed from the numbers, and the checks behind
them.  Neither this module nor the template contains a verdict.
"""

from __future__ import annotations

import base64
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
from fairbound._words import count, duration
from fairbound.experiments.claims import ClaimVerdict, verdicts
from fairbound.experiments.exhibits import ResultTable
from fairbound.experiments.protocol import DATASETS, EPOCHS, SEEDS
from fairbound.experiments.running import load_rows
from fairbound.report import MINUS, environment, policy, resource

if TYPE_CHECKING:
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
    engine.filters["files"] = lambda paths: [
        (path.suffix[1:].upper(), Path(os.path.relpath(path, made.out)).as_posix()) for path in paths
    ]
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
            data={name: load_rows(name, request.data_dir, request.limit) for name in request.datasets},
            conditions=conditions(request),
            work=spent(made.exhibits),
            trained=made.trained,
            seconds=made.seconds,
            claims=claims,
            seen={claim: [name for name, found in by_item.items() if claim in judge(found)] for claim in claims},
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


def judge(exhibits: Iterable[Exhibit]) -> dict[str, dict[str, ClaimVerdict]]:
    """Return the verdicts by claim and solver, in the order of the items."""
    claims: dict[str, dict[str, ClaimVerdict]] = {}
    for verdict in verdicts(each for exhibit in exhibits for each in exhibit.judged):
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


WIDE = 520.0
"""A figure wider than this, in points, takes the whole width of the page."""


class Picture(NamedTuple):
    """A figure as an address that holds it, its description, and whether it needs the whole width of the page."""

    address: str
    label: str
    wide: bool


def picture(exhibit: Exhibit) -> Picture:
    """Return the figure of an exhibit for the page."""
    path = next(path for path in exhibit.figures if path.suffix == ".svg")
    content = path.read_bytes()
    width = re.search(rb'viewBox="0 0 ([\d.]+) ', content)
    label = f"{label_of(exhibit.item.name)}: {exhibit.item.title}. {path.stem}; the table below has its numbers."
    address = f"data:image/svg+xml;base64,{base64.b64encode(content).decode('ascii')}"
    return Picture(address, label, width is not None and float(width[1]) > WIDE)
