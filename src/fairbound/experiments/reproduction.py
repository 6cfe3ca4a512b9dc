"""The way from names to files: run what is missing, then draw, tabulate and judge.

out/results.jsonl             one line for each finished run; what is there is not run again
out/figures/NAME-DATA-SOLVER  .png and .svg
out/tables/NAME-DATA-SOLVER   .csv and .md
out/verdicts.json             the claims, computed; with -batches and -test in their names where asked for
out/gallery.html              all of it on one page
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbound._drafts import sweep, write_file
from fairbound._files import as_utf8
from fairbound._words import lookup
from fairbound.experiments import drawing
from fairbound.experiments.gallery import write_gallery
from fairbound.experiments.items import ITEMS, Item
from fairbound.experiments.plans import Study
from fairbound.experiments.protocol import DATASETS, EPOCHS, PartName, SolverName
from fairbound.experiments.running import Progress, complete, fingerprint, load_rows
from fairbound.experiments.runs import Run, Setting
from fairbound.experiments.sections import Check, ClaimVerdict, verdicts
from fairbound.experiments.store import Results
from fairbound.experiments.tables import Table

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Exhibit:
    """An item made for one setting: its tables, what its claims came to, the files of its figure and of its tables."""

    item: Item
    setting: Setting
    tables: tuple[Table, ...]
    checks: tuple[Check, ...]
    figures: tuple[Path, ...] = ()
    table_files: tuple[Path, ...] = ()


@dataclass
class Reproduction:
    """What `reproduce` has made, in how many seconds, and how many runs were not there before."""

    out: Path
    exhibits: list[Exhibit] = field(default_factory=list)
    results: Results = field(default_factory=Results)
    seconds: float = 0.0
    trained: int = 0

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        """The claims of all exhibits."""
        return verdicts(
            (exhibit.setting.solver if exhibit.item.trains else "", check)
            for exhibit in self.exhibits
            for check in exhibit.checks
        )


@dataclass(frozen=True)
class Request:
    """What to reproduce.

    Parameters
    ----------
    names : names of items
    datasets, solvers
    part : the rows that are reported on
    batches : whether training goes by mini-batches
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
        """What tells the files of mini-batches and of test rows from the others in one folder."""
        return "-batches" * self.batches + "-test" * (self.part == "test")

    def items(self) -> list[Item]:
        """The items, in the order of the paper."""
        for name in self.names:
            lookup(ITEMS, name, "item")
        return [item for name, item in ITEMS.items() if name in self.names]

    def settings(self, item: Item) -> list[Setting]:
        """What the item is made for; once only where no training is involved."""
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
    """All runs that the request needs, as far as the results tell."""
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
    """Run what is missing, and write figures, tables, verdicts and the gallery, which records the command.

    Parameters
    ----------
    request : Request
    out : Path
        The folder.
    jobs : int
        Processes.
    report : function of Progress, optional
        Called after each run.
    command : str
    overwrite : bool
        Whether files of our names in `out` that are not ours may be replaced.
    exact : bool
        Whether text in CSV tables is written as it is, even if a spreadsheet would take it for a formula.
    """
    started = time.perf_counter()
    if not overwrite:
        refuse_foreign(out)
    out.mkdir(parents=True, exist_ok=True)
    for folder in (out, out / "figures", out / "tables"):
        sweep(folder)
    results = Results(out / RESULTS)
    known = len(results)
    # A search asks for its next step when it knows the last: several rounds.
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
    """Raise if the folder has files of our names without the results that we would have left beside them."""
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
    study = Study(setting, results, load_rows(setting.dataset, request.data_dir, request.limit))
    tables, checks = item.tabulate(study), item.check(study)
    stem = _stem(item, setting)
    table_files: list[Path] = []
    for index, table in enumerate(tables):
        name = stem if len(tables) == 1 else f"{stem}-{index + 1}"
        for suffix, text in (("csv", table.to_csv(exact=exact)), ("md", f"{table.title}\n\n{table.to_markdown()}")):
            table_files.append(out / "tables" / f"{name}.{suffix}")
            _write(table_files[-1], text)
    figures: Sequence[Path] = ()
    if item.draw is not None:
        with drawing.style():
            figures = drawing.save(item.draw(study), out / "figures" / stem)
    return Exhibit(item, setting, tuple(tables), tuple(checks), tuple(figures), tuple(table_files))


def _stem(item: Item, setting: Setting) -> str:
    """The name of an exhibit's files."""
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
