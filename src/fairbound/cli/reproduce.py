"""`fairbound reproduce`: make the paper's figures and tables again, beside the printed numbers."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairbound._settings import Count, Range
from fairbound._text_tables import TextTable
from fairbound._words import duration, lookup
from fairbound.cli.endings import complain, exit_code
from fairbound.cli.options import command
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.experiments import Reproduction


@command("reproduce")
def reproduce(
    names: list[str] | None = None,
    *,
    listed: bool = False,
    dataset: list[str] | None = None,
    solver: Literal["paper", "fast", "both"] = "both",
    part: Literal["train", "test"] = "train",
    batches: bool = False,
    jobs: int = 1,
    out: str = "reproduction",
    epochs: Count | None = None,
    rows: Annotated[int, Range(least=100)] | None = None,
    overwrite: bool = False,
    exact: bool = False,
    data_dir: str | None = None,
    output: Output,
) -> None:
    """Repeat the experiments of the paper that fairbound implements, and check its claims by the numbers.

    Writes figures, tables, and a gallery that shows each item beside the printed values and the paper's claims. Every
    finished run is stored in the folder. After an interrupt, the same command continues from there. The exit code is 0
    when everything is done, whatever the verdicts are.

    Parameters
    ----------
    names : NAME...|all
        What to reproduce; --list shows the names.
    listed : bool
        List the names with their titles.
    dataset : law|dutch|acsincome...
        Which data sets; all three by default.
    solver : str
        The paper's algorithm, our fast solver, or both.
    part : str
        The rows of the reported numbers.
    batches : bool
        Train with mini-batches of 5,000 rows.
    jobs : int
        The number of processes, one core each; -1 for all cores.
    out : FOLDER
        The output folder; runs found there are not repeated.
    epochs : int
        Fewer epochs than the paper's 500, for a quick look.
    rows : int
        Use only so many rows of each part, for a quick look.
    overwrite : bool
        Replace files in --out that fairbound has not written.
    exact : bool
        Write text to CSV unchanged, even if a spreadsheet would read it as a formula.
    data_dir : FOLDER
        The folder in which known data sets are looked for first.

    Examples
    --------
    The names:
      $ fairbound reproduce --list
    A table on the shipped data, in seconds:
      $ fairbound reproduce table-2 --dataset law
    Everything on two cores:
      $ fairbound reproduce all --jobs 2 --out paper
    """
    from fairbound.experiments import DATASETS, TITLES

    if listed or not names:
        output.tables(TextTable("fairbound reproduce NAME", ("name", "title"), tuple(TITLES.items()), left=2))
        output.result({"command": "reproduce", "items": TITLES})
        return
    if jobs == 0:
        raise ValueError("--jobs must not be 0: give the number of processes, or -1 for one per core.")
    for name in names:
        if name != "all":
            lookup(TITLES, name, "item")
    for name in dataset or ():
        lookup(DATASETS, name, "data set")
    from fairbound import experiments

    begun, done = time.perf_counter(), 0

    def report(finished: int, total: int) -> None:
        """Show the progress: after every run on a terminal, after every tenth of them elsewhere."""
        nonlocal done
        done += 1
        left = (time.perf_counter() - begun) / done * (total - finished)
        text = f"{finished} of {total} runs, about {duration(left)} to go"
        output.update(text)
        tenth = 10 * finished // total > 10 * (finished - 1) // total
        if tenth and not output.quiet and not sys.stderr.isatty():
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    request = experiments.Request(
        names=tuple(TITLES) if "all" in names else tuple(names),
        datasets=tuple(name for name in DATASETS if dataset is None or name in dataset),
        solvers=("paper", "fast") if solver == "both" else (solver,),
        part=part,
        batches=batches,
        epochs=epochs or experiments.EPOCHS,
        limit=rows,
        data_dir=data_dir,
    )
    shared: dict[str, Any] = {"command": output.command, "overwrite": overwrite, "exact": exact}
    with output.stage("Reproducing"):
        try:
            made = experiments.reproduce(request, Path(out), jobs=jobs, report=report, **shared)
        except KeyboardInterrupt as interrupt:
            complain(
                f"Interrupted: {done} runs were finished and are kept in {out}; the same command continues from there."
            )
            raise typer.Exit(exit_code(interrupt)) from None
    _show(output, made)
    if made.results.outdated:
        output.text(f"{made.results.outdated} results of another version of fairbound were ignored.")
    output.text(
        f"Written to {out} in {duration(time.perf_counter() - begun)}: "
        f"gallery{request.suffix}.html, figures, tables, verdicts{request.suffix}.json."
    )
    output.result(
        {
            "command": "reproduce",
            "out": out,
            "runs": len(made.results),
            "verdicts": [{"claim": each.claim, "solver": each.solver, "verdict": each.word} for each in made.verdicts],
        }
    )


def _show(output: Output, made: Reproduction) -> None:
    """Print the tables of numbers, and the verdicts."""
    tables = []
    for table in (exhibit.table for exhibit in made.exhibits if exhibit.item.draw is None):
        left = next((place for place, form in enumerate(table.forms) if form), len(table.forms))
        tables.append(TextTable(table.title, table.headings, tuple(map(tuple, table.written())), left=left))
    rows = tuple((verdict.word, verdict.solver or "-", verdict.claim) for verdict in made.verdicts)
    claims = TextTable("The paper's claims, by the numbers", ("verdict", "solver", "claim"), rows, left=3)
    output.text()
    output.tables(*tables, claims)
