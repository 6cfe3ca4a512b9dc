"""The gallery: all results of `reproduce` on one self-contained page, in the style of the report.

Each item comes with the paper's claims and their verdicts.  `sections` computes every verdict from the numbers, and the
page shows the checks behind it.  Neither this module nor the template contains a verdict.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import fairbound
from fairbound._files import as_utf8, write_file
from fairbound._words import count
from fairbound.experiments.protocol import EPOCHS, SEEDS, TITLES
from fairbound.experiments.running import load_rows
from fairbound.experiments.sections import (
    SOLVERS,
    TONES,
    costs,
    judge,
    label_of,
    outcomes_of,
    prices,
    sections,
    tallies,
)
from fairbound.report import environment, policy, resource

if TYPE_CHECKING:
    from fairbound.experiments.reproduction import Reproduction, Request

PACKAGE = "fairbound.experiments"


def write_gallery(made: Reproduction, request: Request, command: str = "") -> Path:
    """Write `gallery.html` (or `gallery-test.html`, ...) into the folder of the results.

    Parameters
    ----------
    made : Reproduction
    request : Request
    command : str
        The command line to show on the page; empty for none.

    Returns
    -------
    path : Path
    """
    from markupsafe import Markup

    script = resource("gallery.js", PACKAGE)
    engine = environment(PACKAGE)
    engine.filters |= {"count": count, "duration": duration, "label": label_of}
    page = engine.get_template("gallery.html").render(
        **page_context(made, request, command),
        policy=policy([script]),
        style=Markup(resource("page.css") + resource("gallery.css", PACKAGE)),
        script=Markup(script),
    )
    path = made.out / f"gallery{request.suffix}.html"
    write_file(path, as_utf8(page))
    return path


def page_context(made: Reproduction, request: Request, command: str) -> dict[str, Any]:
    """Return the variables of the template."""
    shown = sections(made)
    judged = judge(made)
    outcomes = outcomes_of(made)
    return {
        "command": command,
        "suffix": request.suffix,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": versions(),
        "data": [_rows(name, request) for name in request.datasets],
        "conditions": conditions(request),
        "runs": len(outcomes),
        "trained": made.trained,
        "seconds": made.seconds,
        "processor_seconds": sum(outcome.processor_seconds for outcome in outcomes),
        "costs": costs(made.exhibits),
        "prices": prices(made.exhibits, made.results),
        "judged": judged,
        "solvers": [solver for solver in request.solvers if any(solver in claim.verdicts for claim in judged)],
        "tallies": tallies(judged),
        "sections": shown,
        "tones": TONES,
        "solver_words": SOLVERS,
    }


def versions() -> dict[str, str]:
    """Return the versions of the software on which the numbers depend."""
    return {
        "fairbound": fairbound.__version__,
        "torch": str(torch.__version__),
        "Python": platform.python_version(),
        "": f"{platform.system()} {platform.machine()}",
    }


@dataclass(frozen=True)
class DataDescription:
    """The description of a data set on the page."""

    title: str
    train: int
    test: int
    description: str
    warning: str


def _rows(name: str, request: Request) -> DataDescription:
    split = load_rows(name, request.data_dir, request.limit)
    description = split.train.description
    return DataDescription(TITLES[name], len(split.train), len(split.test), description, sample_warning(description))


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
    found = []
    if request.part == "test":
        found.append("Ratios, accuracies and violations are those of the test rows, which no model was fitted to.")
    if request.batches:
        found.append("Training uses mini-batches, and the constraints are computed on a part of the rows.")
    if request.limit is not None:
        found.append(f"A quick look: only the first {request.limit:,} rows of each part. The paper uses all rows.")
    if request.epochs != EPOCHS:
        found.append(f"A quick look: {request.epochs:,} epochs in place of the paper’s {EPOCHS:,}.")
    if request.seeds and request.seeds != SEEDS:
        found.append(f"A quick look: {len(request.seeds)} random starts in place of the paper’s {len(SEEDS)}.")
    return found


def duration(seconds: float) -> str:
    """Return a duration as text, in suitable units.

    >>> [duration(seconds).replace("\N{NO-BREAK SPACE}", " ") for seconds in (0.36, 42.4, 754, 28260)]
    ['0.4 s', '42 s', '12 min 34 s', '7 h 51 min']
    """
    whole = round(seconds)
    if seconds < 10:
        text = f"{seconds:.1f} s"
    elif whole < 60:
        text = f"{whole} s"
    elif whole < 3600:
        text = f"{whole // 60} min {whole % 60} s"
    else:
        text = f"{whole // 3600} h {whole % 3600 // 60} min"
    return text.replace(" ", "\N{NO-BREAK SPACE}")
