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
import time
from dataclasses import dataclass, field
from pathlib import Path

from fairbound._files import as_utf8, write_file
from fairbound._words import lookup
from fairbound.experiments import exhibits
from fairbound.experiments.claims import Check, ClaimVerdict, verdicts
from fairbound.experiments.exhibits import ResultTable
from fairbound.experiments.gallery import render_gallery
from fairbound.experiments.items import ITEMS, Item
from fairbound.experiments.protocol import DATASETS, EPOCHS, SEEDS, PartName, Run, SolverName
from fairbound.experiments.running import Report, complete, fingerprint, load_rows
from fairbound.experiments.runs import Evidence, Outcome, Results

RESULTS = "results.jsonl"


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
    datasets: tuple[str, ...] = tuple(DATASETS)
    solvers: tuple[SolverName, ...] = ("paper", "fast")
    part: PartName = "train"
    batches: bool = False
    epochs: int = EPOCHS
    limit: int | None = None
    seeds: tuple[int, ...] = SEEDS
    data_dir: str | None = None

    @property
    def suffix(self) -> str:
        """The part of file names that marks mini-batches and test rows."""
        return "-batches" * self.batches + "-test" * (self.part == "test")

    def evidence(self, results: Results) -> list[tuple[Item, Evidence]]:
        """Return the items in the order of the paper, each with its evidence; only one if no training is involved."""
        for name in self.names:
            lookup(ITEMS, name, "item")
        own = (self.part, self.batches, self.epochs, self.seeds, results)
        return [
            (item, Evidence(dataset, fingerprint(rows), solver, *own, rows))
            for item in ITEMS.values()
            if item.name in self.names
            for dataset in (self.datasets if item.name != "figure-1" else self.datasets[:1])
            for rows in [load_rows(dataset, self.data_dir, self.limit)]
            for solver in (self.solvers if item.trains else self.solvers[:1])
        ]


@dataclass(frozen=True)
class Exhibit:
    """An item for one setting: its runs, table and the checks of its claims, and the files of its figure and table."""

    item: Item
    evidence: Evidence
    outcomes: tuple[Outcome, ...]
    table: ResultTable
    checks: tuple[Check, ...]
    figures: tuple[Path, ...]
    table_files: tuple[Path, ...]

    @property
    def judged(self) -> list[tuple[str, Check]]:
        """Each check with its solver; empty if no training is involved."""
        return [(self.evidence.solver if self.item.trains else "", check) for check in self.checks]


@dataclass
class Reproduction:
    """The results of `reproduce`, its duration in seconds, and the number of new runs."""

    out: Path
    request: Request
    exhibits: list[Exhibit] = field(default_factory=list)
    results: Results = field(default_factory=Results)
    seconds: float = 0.0
    trained: int = 0

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        """The verdicts on the claims of all exhibits."""
        return verdicts(each for exhibit in self.exhibits for each in exhibit.judged)


def planned(request: Request, results: Results) -> list[Run]:
    """Return all runs of the request that are known so far; a search adds runs when its last one is done."""
    return [run for item, evidence in request.evidence(results) for run in item.runs(evidence)]


def reproduce(
    request: Request,
    out: Path,
    *,
    jobs: int = 1,
    report: Report | None = None,
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
    report : function of two numbers, optional
        Called after each run with the numbers of finished runs and of all.
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
    made = Reproduction(out, request, results=results, trained=len(results) - known)
    for item, evidence in request.evidence(results):
        made.exhibits.append(_exhibit(item, evidence, made, exact))
    judged = json.dumps([verdict.as_dict() for verdict in made.verdicts], indent=2)
    write_file(out / f"verdicts{request.suffix}.json", as_utf8(f"{judged}\n"))
    made.seconds = time.perf_counter() - started
    write_gallery(made, command)
    return made


def refuse_foreign(out: Path) -> None:
    """Raise an error for a folder that has files with our names but no results file: another program wrote them."""
    if not (out / RESULTS).exists():
        names = ("gallery*.html", "verdicts*.json", "figures", "tables")
        if found := sorted(path.name for name in names for path in out.glob(name)):
            raise FileExistsError(
                f"{out / found[0]} exists, but no {RESULTS} of `fairbound reproduce` is beside it; name another folder "
                "with --out, or replace it with --overwrite."
            )


def _exhibit(item: Item, evidence: Evidence, made: Reproduction, exact: bool) -> Exhibit:
    """Draw, tabulate and judge one item from finished runs."""
    table = item.tabulate(evidence)
    stem = item.name if item.name == "figure-1" else f"{item.name}-{evidence.dataset}"
    if item.trains:
        stem += f"-{evidence.solver}{made.request.suffix}"
    texts = {".csv": table.to_csv(exact=exact), ".md": f"{table.title}\n\n{table.to_markdown()}"}
    for suffix, text in texts.items():
        write_file(made.out / "tables" / f"{stem}{suffix}", as_utf8(text))
    figures: list[Path] = []
    if item.draw is not None:
        with exhibits.style():
            figures = exhibits.save(item.draw(evidence), made.out / "figures" / stem)
    return Exhibit(
        item,
        evidence,
        tuple(made.results[run] for run in dict.fromkeys(item.runs(evidence))),
        table,
        tuple(item.check(evidence)),
        tuple(figures),
        tuple(made.out / "tables" / f"{stem}{suffix}" for suffix in texts),
    )


def write_gallery(made: Reproduction, command: str = "") -> Path:
    """Write `gallery.html` (or `gallery-test.html`, ...) into the folder of the results, and return its path."""
    path = made.out / f"gallery{made.request.suffix}.html"
    write_file(path, as_utf8(render_gallery(made, command)))
    return path
