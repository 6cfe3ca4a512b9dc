"""The state file of a monitor, which is checked when it is read."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from fairbound._files import UnfitFileError, read_json
from fairbound._json import as_record
from fairbound.evaluation.e_processes import MEMORIES, EProcesses
from fairbound.evaluation.monitor_records import CountedBatch, MonitorAlarm
from fairbound.evaluation.watching import (
    MOST_REQUIREMENTS,
    WatchedRequirement,
    check_number_of_groups,
    new_requirements,
)
from fairbound.fairness import parse_constraint

if TYPE_CHECKING:
    from fairbound.evaluation.monitoring import Monitor

VERSION = 3
LARGEST_STATE = 2**26  # bytes
LARGEST_NUMBER = 1e15  # largest count or logarithm in a state file, so that sums stay finite
MOST_POINTS = 400
"""Largest number of points in the recorded history; when there are more, every second one is dropped."""


@dataclass(frozen=True)
class StateRecord:
    """The content of a state file: the attributes of a `Monitor`, and the text of its limits."""

    format: Literal["fairbound monitor"]
    version: int
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


FIELDS = [each.name for each in fields(StateRecord)]
KEPT = FIELDS[3:]


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
    kept = {name: getattr(monitor, name) for name in KEPT}
    record = StateRecord("fairbound monitor", VERSION, texts, **kept)
    return msgspec.json.encode(record, enc_hook=np.ndarray.tolist) + b"\n"


def read_state(kind: type[Monitor], path: str | os.PathLike[str]) -> Monitor:
    """Return the monitor of a state file, checked."""
    try:
        values = read_json(path, LARGEST_STATE)
        if not isinstance(values, dict) or values.get("format") != "fairbound monitor":
            raise ValueError("it was not written by a monitor")
        if values.get("version") != VERSION:
            raise ValueError(f"its version is {values.get('version')!r:.20}, and this fairbound reads {VERSION}")
        for name in values:
            if name not in FIELDS:
                raise ValueError(f"it has the unknown field {name!r:.80}")
        return _restored(kind, as_record(values, StateRecord))
    except (UnfitFileError, ValueError) as error:
        raise ValueError(
            f"{os.fspath(path)} cannot be used as the state of a monitor: {str(error).rstrip('.')}."
        ) from error


def _restored(kind: type[Monitor], record: StateRecord) -> Monitor:
    settings = ("groups", "pos_label", "positive_decision", "seed")
    monitor = kind(record.limits, record.confidence, **{name: getattr(record, name) for name in settings})
    R, J, L = len(record.watched), len(MEMORIES), len(record.limits)
    looks = [rows for rows, _ in record.history]
    _check(record.rows >= record.n_batches >= len(record.batches), "rows")
    _check(all(batch.rows > 0 for batch in record.batches), "batches")
    _check(sum(batch.rows for batch in record.batches) <= record.rows, "batches")
    _check(len(record.alarms) == L, "alarms")
    _check(all(each is None or 0 < each.row <= record.rows for each in record.alarms), "alarms")
    _check(looks == sorted(looks) and len(looks) <= MOST_POINTS, "history")
    _check((looks[0] > 0 and looks[-1] == record.rows) if looks else record.rows == 0, "history")
    _check(all(len(logs) == L for _, logs in record.history), "history")
    _check(R <= MOST_REQUIREMENTS and len(record.known) <= len(record.columns) + 1, "known")
    for name, groups in record.known.items():
        check_number_of_groups(name, groups)
    vars(monitor).update((name, getattr(record, name)) for name in KEPT)
    expected = list(islice(_expected(monitor), R + 1))  # no more: a small file may describe very many
    _check(sorted(map(str, record.watched)) == sorted(map(str, expected)), "watched")
    _check_arrays(monitor, {"log_capital": (R,), "waiting": (R, 4), "totals": (R, 4)})
    shapes = {"slope": (R,), "shift": (R,), "rows": (R,), "counts": (R, J, 4), "log_invested": (R, J)}
    _check_arrays(monitor.processes, shapes)
    for counts in (monitor.waiting, monitor.totals, monitor.processes.counts):  # rows, and positive ones among them
        part, whole = counts[..., 1::2], counts[..., ::2]
        _check(bool((part >= 0).all() and (part <= whole * (1.0 + 1e-9)).all()), "totals")
    _check(bool((monitor.processes.rows >= 0).all()), "rows")
    lines = [each.limit_side(monitor.constraints).line for each in monitor.watched]
    _check(lines == list(zip(monitor.processes.slope.tolist(), monitor.processes.shift.tolist(), strict=True)), "slope")
    return monitor


def _expected(monitor: Monitor) -> Iterator[WatchedRequirement]:
    """Yield the requirements of the limits for the groups in the state."""
    for grouping, groups in monitor.known.items():
        known: list[Hashable] = []
        for group, _ in groups:
            yield from new_requirements(monitor.constraints, grouping, known, group)
            known.append(group)


def _check_arrays(owner: object, shapes: dict[str, tuple[int, ...]]) -> None:
    """Check the shapes and values of arrays; one without requirements gets its further dimensions."""
    for name, shape in shapes.items():
        array = getattr(owner, name)
        _check(array.shape[:1] == shape[:1] and bool((np.abs(array) <= LARGEST_NUMBER).all()), name)
        setattr(owner, name, array.reshape(shape) if not shape[0] else array)
        _check(getattr(owner, name).shape == shape, name)


def _check(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"the field {name!r} contradicts the others")
