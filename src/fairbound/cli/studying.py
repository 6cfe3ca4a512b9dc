"""A study on the command line: how it is run, and what is shown of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from fairbound.cli.errors import option_name
from fairbound.cli.output import Interruptible, Output

if TYPE_CHECKING:
    from fairbound._tables import Table
    from fairbound.studies import Study


def run_study(study: Study, output: Output, context: typer.Context) -> None:
    """Train the models of a study and show how far it is; the first interrupt ends training with the best found."""
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


def show_table(output: Output, table: Table) -> None:
    """Print a table."""
    output.table(table.title, table.header, table.rows, left=table.left)


def show_summary(output: Output, summary: Mapping[str, Any]) -> None:
    """Print before and after by group, and what became of the limits."""
    from fairbound.studies import summary_tables

    for position, table in enumerate(summary_tables(summary)):
        if position:
            output.text()
        show_table(output, table)


def show_frontier(output: Output, frontier: Mapping[str, Any]) -> None:
    """Print what each bound reaches and costs."""
    from fairbound.studies import GAIN, frontier_table

    show_table(output, frontier_table(frontier))
    output.text(GAIN)


def show_notes(output: Output, summary: Mapping[str, Any]) -> None:
    """Print the notes, but not the last one: it says where the rows come from."""
    for note in summary["notes"][:-1]:
        output.text(f"Note: {note}")
