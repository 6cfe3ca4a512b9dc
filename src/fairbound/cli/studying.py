"""Run a study from a command, with progress, and print its tables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from fairbound.cli.errors import INTERRUPTED, KEPT, NOT_KEPT, complain, option_name
from fairbound.cli.output import Interruptible, Output

if TYPE_CHECKING:
    from fairbound._tables import TextTable
    from fairbound.cli.options import ReadingOptions
    from fairbound.studies import Study, StudySettings


def read_study(
    source: str, test_file: str | None, reading: ReadingOptions, settings: StudySettings, output: Output
) -> Study:
    """Read the rows, and show what is known of them before anything is trained."""
    from fairbound.cli.first_look import show_columns, show_label
    from fairbound.cli.inputs import load_parts
    from fairbound.studies import Study

    with output.stage(f"Reading {source}"):
        data, held_out = load_parts(source, test_file, reading, quiet=output.silent)
    study = Study(data, settings, held_out=held_out)
    output.text(study.describe())
    show_label(output, data)
    show_columns(output, data)
    return study


def run_study(study: Study, output: Output, context: typer.Context) -> None:
    """Train the models of a study, and show the progress.  The first interrupt ends training with the best model."""
    study.command, study.name_of = command_of(context), option_name
    with Interruptible() as interrupt:

        def watch(row: dict[str, Any]) -> bool:
            step = row.get("iteration", row.get("epoch", 0))
            bound = f", bound {row['bound']:g}" if isinstance(row.get("bound"), float) else ""
            output.update(f"{row['stage']}{bound}: {row.get('phase', 'training')}, step {step}")
            return interrupt.asked(row)

        study.run(watch, stage=output.stage)


def command_of(context: typer.Context) -> str:
    """Return the command that was given."""
    return shlex.join([*context.command_path.split(), *context.meta.get("arguments", [])])


def show_table(output: Output, table: TextTable) -> None:
    """Print a table."""
    output.table(table.title, table.header, table.rows, left=table.left)


def show_summary(output: Output, summary: Mapping[str, Any]) -> None:
    """Print the tables of groups and limits, without and with limits."""
    from fairbound.studies import summary_tables

    for position, table in enumerate(summary_tables(summary)):
        if position:
            output.text()
        show_table(output, table)


def show_frontier(output: Output, frontier: Mapping[str, Any]) -> None:
    """Print the value and the cost of each bound."""
    from fairbound.studies import GAIN, frontier_table

    show_table(output, frontier_table(frontier))
    output.text(GAIN)


def show_notes(output: Output, summary: Mapping[str, Any]) -> None:
    """Print the notes, but not the last one: it says where the rows come from."""
    for note in summary["notes"][:-1]:
        output.text(f"Note: {note}")


def exit_after(study: Study, out: str, *, kept: bool) -> NoReturn:
    """Exit with the code for an interrupt, or for whether every limit is kept."""
    if study.interrupted:
        complain(f"Interrupted: {out} has {study.interruption}")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(KEPT if kept else NOT_KEPT)
