"""The state file of a monitor.  A digest of the state shows whether the file is as a monitor wrote it."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from fairbound._files import existing_file
from fairbound._json import decode
from fairbound.evaluation.e_processes import MEMORIES, EProcesses
from fairbound.evaluation.monitor_records import CountedBatch, MonitorAlarm
from fairbound.evaluation.watching import WatchedRequirement
from fairbound.fairness import parse_constraint

if TYPE_CHECKING:
    from fairbound.evaluation.monitoring import Monitor

VERSION = 4


@dataclass(frozen=True)
class StateFile:
    """The content of a state file."""

    format: Literal["fairbound monitor"]
    version: int
    digest: str
    state: msgspec.Raw


@dataclass(frozen=True)
class StateRecord:
    """The attributes of a `Monitor`, and the text of its limits."""

    limits: tuple[str, ...]
    confidence: float
    groups: Literal["each", "intersection", "both"]
    pos_label: Hashable
    positive_decision: Hashable
    seed: int
    rows: int
    n_batches: int
    batches: list[CountedBatch]
    alarms: list[MonitorAlarm | None]
    history: list[tuple[int, tuple[float, ...]]]
    columns: list[str]
    known: dict[str, list[tuple[Hashable, int]]]
    values: tuple[tuple[Hashable, Hashable], tuple[Hashable, Hashable]]
    watched: list[WatchedRequirement]
    log_capital: np.ndarray
    waiting: np.ndarray
    totals: np.ndarray
    processes: EProcesses


KEPT = [each.name for each in fields(StateRecord)][1:]


def write_state(monitor: Monitor) -> bytes:
    """Return the state of a monitor as JSON; floats are written with enough digits to read back the same."""
    texts = tuple(map(str, monitor.constraints))
    for text, limit in zip(texts, monitor.constraints, strict=True):
        try:
            same = str(parse_constraint(text)) == text
        except ValueError:
            same = False
        if not same:
            raise ValueError(f"The limit {limit} cannot be saved: only built-in measures can be written to a file.")
    record = StateRecord(texts, **{name: getattr(monitor, name) for name in KEPT})
    state = msgspec.json.encode(record, enc_hook=lambda value: value.tolist())
    return msgspec.json.encode(StateFile("fairbound monitor", VERSION, _digest(state), msgspec.Raw(state))) + b"\n"


def read_state(kind: type[Monitor], path: str | os.PathLike[str]) -> Monitor:
    """Return the monitor of a state file; raise an error for any other file, or a file that was changed."""
    try:
        content = existing_file(path).read_bytes()
        if b'"fairbound monitor"' not in content[:100]:
            raise ValueError("it was not written by a monitor")
        file = decode(content, StateFile)
        if file.version != VERSION:
            raise ValueError(f"its version is {file.version}, and this fairbound reads {VERSION}")
        if _digest(bytes(file.state)) != file.digest:
            raise ValueError("it was changed after a monitor wrote it")
        return _restored(kind, decode(file.state, StateRecord))
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)} cannot be used as the state of a monitor: {str(error).rstrip('.')}."
        ) from error


def _digest(state: bytes) -> str:
    return blake2b(state, digest_size=16).hexdigest()


def _restored(kind: type[Monitor], record: StateRecord) -> Monitor:
    settings = ("groups", "pos_label", "positive_decision", "seed")
    monitor = kind(record.limits, record.confidence, **{name: getattr(record, name) for name in settings})
    vars(monitor).update((name, getattr(record, name)) for name in KEPT)
    # An empty list has lost the further dimensions of its array.
    monitor.waiting, monitor.totals = (each.reshape(-1, 4) for each in (record.waiting, record.totals))
    processes = record.processes
    processes.counts = processes.counts.reshape(-1, len(MEMORIES), 4)
    processes.log_invested = processes.log_invested.reshape(-1, len(MEMORIES))
    return monitor
