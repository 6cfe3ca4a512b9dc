"""`fairbound monitor`: watch limits on batches of decisions after release."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairbound.cli.decisions import DecisionOptions
from fairbound.cli.endings import KEPT, NOT_KEPT
from fairbound.cli.options import command
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.evaluation import Monitor
    from fairbound.fairness import Constraint


@command("monitor")
def monitor(
    batches: list[str],
    *,
    reading: DecisionOptions,
    limits: list[str],
    state: str,
    confidence: float = 0.95,
    out: str | None = None,
    output: Output,
) -> None:
    """Watch limits on decisions after release, batch by batch.

    The state file holds the evidence against each limit. An alarm is raised when the evidence passes a threshold, and
    it stays. If all limits are kept, the probability of any alarm ever is at most 5% (1 - confidence), for any number
    of looks. Batches that were counted already are skipped. The exit code is 1 after an alarm.

    Parameters
    ----------
    batches : BATCH...
        CSV or Parquet files of decisions, in the order of time.
    limits : LIMIT...
        A limit, such as "disparate_impact >= 0.8".
    state : FILE
        The file that holds the evidence; created by the first run.
    confidence : float
        The confidence level of intervals and verdicts, below 1.
    out : FILE
        Also write an HTML page with the evidence over time.

    Examples
    --------
    Each day the same command:
      $ fairbound monitor decisions-*.csv --prediction decision --sensitive sex --require "disparate_impact >= 0.8"
          --state state.json
    With a page:
      $ fairbound monitor monday.csv --prediction decision --sensitive sex --require "disparate_impact >= 0.8"
          --state state.json --out monitor.html
    Labels that came later:
      $ fairbound monitor may.csv --target repaid --prediction decision --sensitive sex
          --require "equal_opportunity <= 0.1" --state state.json
    """
    from fairbound._files import as_utf8, existing_file, write_file
    from fairbound.cli.inputs import read_decided_columns
    from fairbound.fairness import as_constraints

    positive = reading.positive
    if reading.weight is not None:
        raise ValueError("A monitor counts each row once, so --weight cannot be used; give the rows without weights.")
    if positive and len(positive) > 1:
        raise ValueError("--positive names several values, but a monitor needs labels of two values; name one.")
    for batch in batches:
        existing_file(batch)
    if out is not None:
        _check_page(Path(out))
    settings = {
        "groups": reading.groups,
        "pos_label": positive[0] if positive else None,
        "positive_decision": reading.positive_decision,
    }
    watcher = _resumed(state, as_constraints(limits), confidence, settings, reading.sensitive)
    before = _content(state)
    skipped = []
    for batch in batches:
        name, digest = os.path.normpath(batch), _digest(batch)
        if watcher.has_counted(name, digest):
            skipped.append(name)
            continue
        columns, found, _ = read_decided_columns(batch, reading)
        labels = None if reading.target is None else columns[reading.target]
        watcher.update(columns[reading.prediction], found, labels, name=name, digest=digest)
        if _content(state) != before:
            raise ValueError(f"{state} (--state) was changed by another run at the same time; run the command again.")
        watcher.save(state)
        before = _content(state)
    if out is not None:
        from fairbound.report import monitor_to_html

        write_file(out, as_utf8(monitor_to_html(watcher.to_dict())))
    if skipped:
        shown = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        output.text(f"Counted already, and skipped: {shown}.\n")
    output.text(watcher.to_text().rstrip())
    if out is not None:
        output.text(f"\nWritten to {out}.")
    output.result({"command": "monitor", "skipped": skipped, **watcher.to_dict()})
    raise typer.Exit(NOT_KEPT if watcher.alarm else KEPT)


def _resumed(
    state: str, limits: Sequence[Constraint], confidence: float, settings: dict[str, Any], columns: list[str]
) -> Monitor:
    """Return the monitor of the state file, or a new one if there is no file."""
    from fairbound.evaluation import Monitor

    fresh = Monitor(limits, confidence, **settings)
    if not os.path.lexists(state):
        return fresh
    found = Monitor.load(state)
    for option, there, given in (
        ("--require", list(map(str, found.constraints)), list(map(str, fresh.constraints))),
        ("--confidence", found.confidence, fresh.confidence),
        ("--sensitive", found.columns or columns, columns),
        ("--groups", found.groups, fresh.groups),
        ("--positive", found.pos_label, fresh.pos_label),
        ("--positive-decision", found.positive_decision, fresh.positive_decision),
    ):
        if there != given:
            raise ValueError(
                f"{state} (--state) was begun with {option} {_stated(there)}, not {_stated(given)}; give the same "
                "again, or another --state."
            )
    return found


def _stated(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(f'"{each}"' if " " in each else each for each in value)
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
