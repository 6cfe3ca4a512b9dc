"""`fairbound monitor`: watch limits on batches of decisions after release."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.decisions import GROUPS, Confidence, DecisionOptions
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Output
from fairbound.cli.program import KEPT, NOT_KEPT

if TYPE_CHECKING:
    from fairbound.evaluation import Monitor
    from fairbound.fairness import Constraint

Batches = Annotated[
    list[str],
    typer.Argument(
        metavar="BATCH...", help="CSV or Parquet files of decisions, in the order of time.", show_default=False
    ),
]
Limits = Annotated[
    list[str],
    typer.Option(
        "--require",
        "--limit",
        metavar="LIMIT...",
        help='A limit, such as "disparate_impact >= 0.8".',
        show_default=False,
    ),
]
State = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="FILE",
        help="The file that holds the evidence; created by the first run.",
        show_default=False,
    ),
]
Page = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FILE", help="Also write an HTML page with the evidence over time."),
]

WATCHED = '--prediction decision --sensitive sex --require "disparate_impact >= 0.8" --state state.json'

LABELLED = '--prediction decision --sensitive sex --require "equal_opportunity <= 0.1" --state state.json'


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    app.command(
        "monitor",
        cls=command,
        epilog=examples(
            ("Each day the same command", f"fairbound monitor decisions-*.csv {WATCHED}"),
            ("With a page", f"fairbound monitor monday.csv {WATCHED} --out monitor.html"),
            ("Labels that came later", f"fairbound monitor may.csv --target repaid {LABELLED}"),
        ),
    )(monitor_command)


@with_options
def monitor_command(
    *,
    batches: Batches,
    reading: DecisionOptions,
    require: Limits,
    state: State,
    confidence: Confidence = 0.95,
    out: Page = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Watch limits on decisions after release, batch by batch.

    The state file holds the evidence against each limit. An alarm is raised when the evidence passes a threshold, and
    it stays. If all limits are kept, the probability of any alarm ever is at most 5% (1 - confidence), for any number
    of looks. Batches that were counted already are skipped. The exit code is 1 after an alarm.
    """
    from fairbound._files import existing_file
    from fairbound.cli.inputs import check_choice, parse_limits, read_decided_columns
    from fairbound.cli.output import fresh_file

    check_choice(reading.groups, GROUPS, "--groups")
    positive = reading.positive
    if reading.weight is not None:
        raise ValueError("A monitor counts each row once, so --weight cannot be used; give the rows without weights.")
    if positive and len(positive) > 1:
        raise ValueError("--positive names several values, but a monitor needs labels of two values; name one.")
    for batch in batches:
        existing_file(batch)
    if out is not None:
        _check_page(Path(out))
    limits = parse_limits(require)
    output = Output(json, quiet)
    settings = {
        "groups": reading.groups,
        "pos_label": positive[0] if positive else None,
        "positive_decision": reading.positive_decision,
    }
    monitor = _resumed(state, limits, confidence, settings)
    before = _content(state)
    skipped = []
    for batch in batches:
        name, digest = os.path.normpath(batch), _digest(batch)
        if monitor.has_counted(name, digest):
            skipped.append(name)
            continue
        columns, found = read_decided_columns(batch, reading)
        labels = None if reading.target is None else columns[reading.target]
        monitor.update(columns[reading.prediction], found, labels, name=name, digest=digest)
        if _content(state) != before:
            raise ValueError(f"{state} (--state) was changed by another run at the same time; run the command again.")
        monitor.save(state)
        before = _content(state)
    if out is not None:
        from fairbound.report import monitor_to_html

        with fresh_file(out, replace=True) as draft:
            draft.write_text(monitor_to_html(monitor.to_dict()), encoding="utf-8")
    if skipped:
        shown = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        output.text(f"Counted already, and skipped: {shown}.\n")
    output.text(monitor.to_text().rstrip())
    if out is not None:
        output.text(f"\nWritten to {out}.")
    output.result({"command": "monitor", "skipped": skipped, **monitor.to_dict()})
    raise typer.Exit(NOT_KEPT if monitor.alarm else KEPT)


def _resumed(state: str, limits: Sequence[Constraint], confidence: float, settings: dict[str, Any]) -> Monitor:
    """Return the monitor of the state file, or a new one if there is no file."""
    from fairbound.evaluation import Monitor

    fresh = Monitor(limits, confidence, **settings)
    if not os.path.lexists(state):
        return fresh
    found = Monitor.load(state)
    for option, there, given in (
        ("--require", list(map(str, found.constraints)), list(map(str, fresh.constraints))),
        ("--confidence", found.confidence, fresh.confidence),
        ("--groups", found.groups, fresh.groups),
        ("--positive", found.pos_label, fresh.pos_label),
        ("--positive-decision", found.positive_decision, fresh.positive_decision),
    ):
        if there != given:
            raise ValueError(
                f"{state} (--state) was begun with {option} {_shown(there)}, not {_shown(given)}; give the same again, "
                "or another --state."
            )
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(f'"{each}"' for each in value)
    return "left out" if value is None else str(value)


def _content(state: str) -> str:
    return _digest(state) if os.path.lexists(state) else ""


def _digest(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_page(place: Path) -> None:
    """Raise an error unless the page is new, or replaces a page of fairbound."""
    from fairbound._files import begins_with

    if place.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{place} (--out) must end in .html: the evidence is written as a page.")
    if os.path.lexists(place) and not begins_with(place, b'name="generator" content="fairbound"'):
        raise FileExistsError(f"{place} (--out) exists and is not a page of fairbound; name another place.")
