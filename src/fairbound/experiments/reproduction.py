"""Reproduce items by name: run the missing trainings, then write figures, tables, verdicts and the gallery.

    out/results.jsonl             one line for each finished run; finished runs are not repeated
    out/figures/NAME-DATA-SOLVER  .png and .svg
    out/tables/NAME-DATA-SOLVER   .csv and .md
    out/verdicts.json             the verdicts on the paper's claims
    out/gallery.html              everything on one page

The file names contain -batches for mini-batches, and -test for test rows.
"""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import fairbound
from fairbound._files import as_utf8, write_file
from fairbound._words import count, lookup
from fairbound.experiments import exhibits
from fairbound.experiments.exhibits import ResultTable
from fairbound.experiments.items import ITEMS, Item
from fairbound.experiments.protocol import DATASETS, EPOCHS, SEEDS, TITLES, PartName, Run, Setting, SolverName
from fairbound.experiments.running import Progress, complete, fingerprint, load_rows
from fairbound.experiments.runs import Evidence, Results
from fairbound.experiments.sections import (
    SOLVERS,
    TONES,
    Check,
    ClaimVerdict,
    costs,
    judge,
    label_of,
    outcomes_of,
    prices,
    sections,
    tallies,
    verdicts,
)
from fairbound.report import environment, policy, resource

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Exhibit:
    """An item for one setting: its tables, the checks of its claims, and the files of its figure and tables."""

    item: Item
    setting: Setting
    tables: tuple[ResultTable, ...]
    checks: tuple[Check, ...]
    figures: tuple[Path, ...] = ()
    table_files: tuple[Path, ...] = ()


@dataclass
class Reproduction:
    """The results of `reproduce`, its duration in seconds, and the number of new runs."""

    out: Path
    exhibits: list[Exhibit] = field(default_factory=list)
    results: Results = field(default_factory=Results)
    seconds: float = 0.0
    trained: int = 0

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        """The verdicts on the claims of all exhibits."""
        return verdicts(
            (exhibit.setting.solver if exhibit.item.trains else "", check)
            for exhibit in self.exhibits
            for check in exhibit.checks
        )


@dataclass(frozen=True)
class Request:
    """The items, data sets and solvers to reproduce.

    Parameters
    ----------
    names : names of items
    datasets, solvers
    part : the reported rows, "train" or "test"
    batches : whether training uses mini-batches
    epochs, limit, seeds : fewer epochs, rows and random starts, for a quick look
    data_dir : the folder with the data files
    """

    names: tuple[str, ...]
    datasets: tuple[str, ...] = DATASETS
    solvers: tuple[SolverName, ...] = ("paper", "fast")
    part: PartName = "train"
    batches: bool = False
    epochs: int = EPOCHS
    limit: int | None = None
    seeds: tuple[int, ...] = ()
    data_dir: str | None = None

    @property
    def suffix(self) -> str:
        """The part of file names that marks mini-batches and test rows."""
        return "-batches" * self.batches + "-test" * (self.part == "test")

    def items(self) -> list[Item]:
        """Return the items, in the order of the paper."""
        for name in self.names:
            lookup(ITEMS, name, "item")
        return [item for name, item in ITEMS.items() if name in self.names]

    def settings(self, item: Item) -> list[Setting]:
        """Return the settings of an item; only one if the item involves no training."""
        solvers = self.solvers if item.trains else self.solvers[:1]
        datasets = self.datasets if item.name != "figure-1" else self.datasets[:1]
        return [
            Setting(
                dataset,
                fingerprint(load_rows(dataset, self.data_dir, self.limit)),
                solver,
                self.part,
                self.batches,
                self.epochs,
                self.seeds,
            )
            for dataset in datasets
            for solver in solvers
        ]


def planned(request: Request, results: Results) -> list[Run]:
    """Return all runs of the request that are known so far; a search adds runs when its last one is done."""
    return [
        run for item in request.items() for setting in request.settings(item) for run in item.runs(setting, results)
    ]


def reproduce(
    request: Request,
    out: Path,
    *,
    jobs: int = 1,
    report: Callable[[Progress], None] | None = None,
    command: str = "",
    overwrite: bool = False,
    exact: bool = False,
) -> Reproduction:
    """Perform the missing runs, and write figures, tables, verdicts and the gallery.

    Parameters
    ----------
    request : Request
    out : Path
        The folder for the files.
    jobs : int
        The number of processes.
    report : function of Progress, optional
        Called after each run.
    command : str
        The command line, which the gallery shows.
    overwrite : bool
        Whether files in `out` with the same names may be replaced, even if another program wrote them.
    exact : bool
        Whether text in CSV tables is written unchanged, even if a spreadsheet would read it as a formula.
    """
    started = time.perf_counter()
    if not overwrite:
        refuse_foreign(out)
    out.mkdir(parents=True, exist_ok=True)
    results = Results(out / RESULTS)
    known = len(results)
    # A search needs the result of one run to plan the next, so several rounds may be needed.
    while missing := results.missing(planned(request, results)):
        complete(missing, results, jobs=jobs, data_dir=request.data_dir, limit=request.limit, report=report)
    made = Reproduction(out, results=results, trained=len(results) - known)
    for item in request.items():
        for setting in request.settings(item):
            made.exhibits.append(exhibit(item, setting, request, results, out, exact=exact))
    judged = json.dumps([_as_dict(verdict) for verdict in made.verdicts], indent=2)
    _write(out / f"verdicts{request.suffix}.json", f"{judged}\n")
    made.seconds = time.perf_counter() - started
    write_gallery(made, request, command)
    return made


def refuse_foreign(out: Path) -> None:
    """Raise an error for a folder that has files with our names but no results file: another program wrote them."""
    if out.is_dir() and not (out / RESULTS).exists():
        names = ("gallery*.html", "verdicts*.json", "figures", "tables")
        found = sorted(path.name for name in names for path in out.glob(name))
        if found:
            raise FileExistsError(
                f"{out / found[0]} exists, but no {RESULTS} of `fairbound reproduce` is beside it; name another folder "
                "with --out, or replace it with --overwrite."
            )


def exhibit(
    item: Item, setting: Setting, request: Request, results: Results, out: Path, *, exact: bool = False
) -> Exhibit:
    """Draw, tabulate and judge one item from finished runs."""
    evidence = Evidence(setting, results, load_rows(setting.dataset, request.data_dir, request.limit))
    tables, checks = item.tabulate(evidence), item.check(evidence)
    stem = _stem(item, setting)
    table_files: list[Path] = []
    for index, table in enumerate(tables):
        name = stem if len(tables) == 1 else f"{stem}-{index + 1}"
        for suffix, text in (("csv", table.to_csv(exact=exact)), ("md", f"{table.title}\n\n{table.to_markdown()}")):
            table_files.append(out / "tables" / f"{name}.{suffix}")
            _write(table_files[-1], text)
    figures: Sequence[Path] = ()
    if item.draw is not None:
        with exhibits.style():
            figures = exhibits.save(item.draw(evidence), out / "figures" / stem)
    return Exhibit(item, setting, tuple(tables), tuple(checks), tuple(figures), tuple(table_files))


def _stem(item: Item, setting: Setting) -> str:
    """Return the name of an exhibit's files, without the extension."""
    parts = [item.name]
    if item.name != "figure-1":
        parts.append(setting.dataset)
    if item.trains:
        parts.append(setting.solver)
        parts += ["batches"] if setting.batches else []
        parts += ["test"] if setting.part == "test" else []
    return "-".join(parts)


def _write(path: Path, text: str) -> None:
    write_file(path, as_utf8(text))


def _as_dict(verdict: ClaimVerdict) -> dict[str, Any]:
    return {
        "claim": verdict.claim,
        "solver": verdict.solver,
        "verdict": verdict.word,
        "checks": [
            {"holds": check.holds, "figures": check.figures, "because": check.because} for check in verdict.checks
        ],
    }


# --- the gallery -----------------------------------------------------------------------------------------------------

# All results on one self-contained page, in the style of the report.
# Each item comes with the paper's claims and their verdicts.  `sections` computes every verdict from the numbers, and
# the page shows the checks behind it.  Neither this module nor the template contains a verdict.


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
        scripts=[Markup(script)],
        figures={},
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
