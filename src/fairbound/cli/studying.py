"""Run a study from a command, in one process or in several, with progress, and print its tables."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from fairbound._errors import need_torch, render, together
from fairbound._text_tables import TextTable
from fairbound._words import number
from fairbound.cli.endings import KEPT, NOT_KEPT, complain, exit_code
from fairbound.cli.names import option_name
from fairbound.cli.options import held_out
from fairbound.cli.output import Interruptible, Output, check_source, finishing, out_folder, refuse_existing

if TYPE_CHECKING:
    from fairbound._study_settings import FrontierChoices
    from fairbound.cli.options import JournalOptions, ReadingOptions
    from fairbound.data import Dataset
    from fairbound.studies import Study, Summary
    from fairbound.training import Passes, Processes


MOST_VALUES = 20
"""The largest number of label values that are listed; the most frequent ones come first."""

STEPS: dict[str, tuple[float, ...]] = {
    "disparate_impact": (0.8, 0.9),
    **dict.fromkeys(("demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds"), (0.1, 0.05)),
}
"""Bounds to try, from loose to strict; four fifths is the rule of thumb of US employment law."""


def show_label(output: Output, data: Dataset) -> None:
    """Print the values of the label with their numbers of rows and the classes that they count as."""
    from fairbound.studies import label_values

    values = label_values(data)
    shown = sorted(values, key=lambda each: -each.rows)[:MOST_VALUES]
    rest = [each for each in values if each not in shown]
    rows = [(each.value, each.counts_as, f"{each.rows:,}") for each in values if each in shown]
    if rest:  # the remaining values are all on one side, because favourable values are listed one by one
        sides = ", ".join(sorted({each.counts_as for each in rest}))
        rows.append((f"({len(rest):,} other values)", sides, f"{sum(each.rows for each in rest):,}"))
    output.tables(TextTable(f"Label {data.target}", ("value", "counts as", "rows"), tuple(rows), left=2))


def show_columns(output: Output, data: Dataset) -> None:
    """Print the types of a file's columns that are not obvious; nothing for known data sets."""
    from fairbound.studies import columns_taken

    if not data.formats:
        return
    categories = len(data.categorical)
    numbers = len(data.schema) - categories
    output.text(
        f"Inputs: {numbers:,} {'number' if numbers == 1 else 'numbers'}, "
        f"{categories:,} {'category' if categories == 1 else 'categories'}."
    )
    rows = [
        (each.column, f"{each.kind}, {each.remark}", each.example, each.option)
        for each in columns_taken(data, option_name)
    ]
    if rows:
        output.tables(
            TextTable("How columns are read", ("column", "read as", "example", "to change it"), tuple(rows), left=4)
        )


def suggested(measure: str, value: float | None, column: str | None = None) -> str | None:
    """Return a limit with the loosest bound that is not kept yet, on all groups or on those of one column.

    >>> suggested("disparate_impact", 0.7, "sex")
    'disparate_impact(sex) >= 0.8'
    >>> suggested("disparate_impact", 0.7), suggested("disparate_impact", 0.85), suggested("equal_opportunity", 0.02)
    ('disparate_impact >= 0.8', 'disparate_impact >= 0.9', None)
    """
    ratio = measure == "disparate_impact"
    for bound in STEPS[measure]:
        if value is not None and (value < bound if ratio else value > bound):
            from fairbound.fairness import parse_constraint

            limit = parse_constraint(f"{measure} {'>=' if ratio else '<='} {bound:g}")
            return str(limit if column is None else replace(limit, columns=(column,)))
    return None


def suggest(output: Output, summary: Summary) -> None:
    """Print the measures of a model without limits, and for each a limit that it does not keep."""
    measures = summary.main.after.measures
    several = len({found.grouping for found in measures}) > 1
    rows = []
    for found in measures:
        if found.measure in STEPS and found.label is None:
            limit = suggested(found.measure, found.value, found.grouping if several else None)
            rows.append((found.grouping, found.measure, number(found.value, 4), limit or "kept already"))
    output.text()
    output.tables(TextTable("Limits to try", ("groups", "measure", "now", "--require"), tuple(rows), left=2))
    output.text(
        "Which measure suits the decision, if any, is a question for the people concerned and for the law. "
        "A limit on one measure can increase another disparity."
    )


SLOW_STEP = 1.0
"""Steps that take at least this many seconds are shown with their time."""


TIME_OUT = timedelta(minutes=30)
"""If another process does not answer for this time, a run ends."""


@contextmanager
def shared_run() -> Iterator[Processes | None]:
    """Join the processes that a launcher such as torchrun has started, and yield them; None without a launcher."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        yield None
        return
    need_torch("Several processes need")
    import torch
    import torch.distributed as dist

    from fairbound.training import Processes

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=TIME_OUT)
    try:
        yield Processes.present()
    finally:
        dist.destroy_process_group()


Limits = tuple[Sequence[Any], Sequence[float] | None]
"""The limits of a run, and the bounds of the first one."""


def write_study(
    source: str,
    out: str,
    limits: Callable[[], Limits],
    choices: FrontierChoices,
    reading: ReadingOptions,
    test: str,
    memory: str | None,
    journal: JournalOptions,
    output: Output,
    *,
    models: bool = True,
) -> tuple[Study, dict[str, Any], Checkpoint]:
    """Read the rows, show facts about them, train, and write the folder; return the study, and its content for JSON."""
    with ExitStack() as scratch:
        processes = scratch.enter_context(shared_run())
        with together(processes):
            folder = Path(out)
            if processes is not None and processes.rank:  # all but the first write to a temporary folder, silently
                folder, output = Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "out", Output(False, True)
            saved = Checkpoint(folder, journal, output, processes)
            check_source(source)
            share, test_file = held_out(test)
            from fairbound._json import plain  # what needs numpy, after the names of files are checked
            from fairbound.cli.inputs import load_parts, parse_memory
            from fairbound.studies import Study, StudySettings, remarks, write_files, write_lock

            settings = StudySettings.build(*limits(), **{**choices.get_params(deep=False), "test_size": share})
            budget = parse_memory(memory)
        place = Path(out).absolute().parent
        while not place.exists():
            place = place.parent
        how = {"memory": budget, "scratch": place, "processes": processes, "tell": output.rows}
        with saved.passes() as passes, out_folder(folder, replace=saved.replaces) as folder:
            with output.stage(f"Reading {source}"):
                data, test_rows = load_parts(source, test_file, reading, quiet=output.silent, **how)
            output.notes(render(note, option_name) for note in remarks(data))
            study = Study(data, settings, held_out=test_rows, command=output.command, name_of=option_name)
            study.passes = passes
            output.text(study.describe())
            show_label(output, data)
            show_columns(output, data)
            write_lock(study.lock, folder)
            saved.interrupt = run_study(study, output)
            if settings.bounds and study.interrupted and not study.frontier:
                raise saved.interrupt.exception
            with finishing(output):
                files = write_files(study, folder, models=models)
                found = {**plain(study.summary), "files": [str(Path(out) / name) for name in files]}
    return study, found, saved


def run_study(study: Study, output: Output) -> Interruptible:
    """Train the models of a study, and show the progress.  The first interrupt ends training with the best model."""
    began, steps = time.perf_counter(), 0

    @contextmanager
    def stage(name: str) -> Iterator[Callable[[dict[str, Any]], bool]]:
        def watch(row: dict[str, Any]) -> bool:
            nonlocal steps
            step, steps = row.get("iteration", row.get("epoch", 0)), steps + 1
            each = (time.perf_counter() - began) / steps
            rate = f", {each:.1f} s a step" if each >= SLOW_STEP else ""
            bound = f", bound {row['bound']:g}" if isinstance(row.get("bound"), float) else ""
            output.update(f"{name}{bound}: {row.get('phase', 'training')}, step {step}{rate}")
            return interrupt.asked(row)

        with output.stage(name):
            yield watch

    with Interruptible() as interrupt:
        study.run(stage=stage)
    return interrupt


class Checkpoint:
    """The journal of a run, beside its folder.

    Parameters
    ----------
    out : Path
        The folder of the run.
    stated : JournalOptions
    output : Output
    processes : Processes, optional
        The processes that share the run; the first one has the journal.

    Attributes
    ----------
    replaces : bool
        Whether the folder exists already, because the run was interrupted: `--resume` replaces it.
    """

    def __init__(self, out: Path, stated: JournalOptions, output: Output, processes: Processes | None = None) -> None:
        self.out, self.stated, self.output, self.processes = out, stated, output, processes
        self.interrupt = Interruptible()
        self.replaces = stated.resume and _was_interrupted(self.out)
        if not self.replaces:
            refuse_existing(self.out)
        self.path = self.out.with_name(f"{self.out.name}.journal")

    @contextmanager
    def passes(self) -> Iterator[Passes]:
        """Yield passes with the journal, which is removed at the end, unless there was an error or an interrupt."""
        from fairbound.training import Passes, open_journal

        if self.processes is not None and self.processes.rank:
            yield Passes(None, self.processes)
            return
        count = 1 if self.processes is None else self.processes.count
        journal = open_journal(self.path, resume=self.stated.resume, seconds=self.stated.checkpoint, processes=count)
        if journal.found:
            self.output.text(f"Continuing from {self.path}.")
        elif self.path.exists():
            self.output.text(f"{self.path} of an earlier run is not used, and will be replaced; --resume continues it.")
        passes, end = Passes(journal, self.processes), journal.close
        try:
            yield passes
            end = end if passes.stopped else journal.remove
        finally:
            end()


def _was_interrupted(folder: Path) -> bool:
    """Return whether a folder has the study of an interrupted run."""
    from fairbound.studies import holds_summary, read_summary

    return folder.is_dir() and holds_summary(folder) and bool(read_summary(folder / "summary.json").interrupted)


def show_frontier(output: Output, summary: Summary) -> None:
    """Print the value and the cost of each bound."""
    from fairbound.studies import GAIN, frontier_table

    output.tables(frontier_table(summary))
    output.text(GAIN)


MOST_NOTES = 6
"""The largest number of notes after a run; the report has all."""


def show_notes(output: Output, study: Study) -> None:
    """Print what is to be expected on new rows, and the notes that were not printed before training."""
    for line in study.about_new_rows:
        output.text(line)
    summary = study.summary
    notes = [*summary.rows_without_group(), *summary.notes[len(study.remarks) : -1]]  # the last one names the file
    output.notes(notes[:MOST_NOTES])
    if len(notes) > MOST_NOTES:
        output.text(f"Note: {len(notes) - MOST_NOTES} more are in report.html.")


def exit_after(study: Study, saved: Checkpoint, *, kept: bool) -> NoReturn:
    """Exit with the code for an interrupt, or for whether every limit is kept by a model that is of use."""
    if study.interrupted:
        further = " The same command with --resume continues the run." if saved.path.exists() else ""
        complain(f"{saved.interrupt.word}: {saved.out} has {study.interruption}{further}")
        raise typer.Exit(exit_code(saved.interrupt.exception))
    raise typer.Exit(KEPT if kept and not study.summary.useless else NOT_KEPT)
