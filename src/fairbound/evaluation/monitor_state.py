"""The records of a monitor (batches, alarms, evidence), and its state file, which is checked when it is read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairbound._files import UnfitFileError, read_json
from fairbound._json import as_json, as_record
from fairbound._words import TextTable, count, number
from fairbound.evaluation.e_processes import MEMORIES, RECENT, EProcesses
from fairbound.evaluation.requirements import LimitSide
from fairbound.evaluation.watching import (
    MOST_REQUIREMENTS,
    WatchedRequirement,
    check_number_of_groups,
    new_requirements,
)
from fairbound.fairness import parse_constraint

if TYPE_CHECKING:
    from fairbound.evaluation.monitoring import Monitor

FORMAT: Literal["fairbound monitor"] = "fairbound monitor"
VERSION = 2
LARGEST_STATE = 2**26  # bytes
LARGEST_NUMBER = 1e15  # largest count or logarithm in a state file, so that sums stay finite
MOST_POINTS = 400
"""Largest number of points in the recorded history; when there are more, every second one is dropped."""

History = list[tuple[int, tuple[float, ...]]]


@dataclass(frozen=True)
class CountedBatch:
    """A batch that was counted: its name, the digest of its content if given, and its number of rows."""

    name: str
    digest: str | None
    rows: int


def was_counted(batches: Sequence[CountedBatch], name: str, digest: str | None) -> bool:
    """Return whether a batch was counted; a batch that matches only by name or only by content raises an error."""
    for batch in batches:
        if batch.name == name:
            if digest is not None and batch.digest is not None and digest != batch.digest:
                raise ValueError(
                    f"{name} was counted already, with other content. A counted batch must not change or grow: put new "
                    "rows into a new batch."
                )
            return True
        if digest is not None and batch.digest == digest:
            raise ValueError(
                f"{name} has the same content as {batch.name}, which was counted already. If these are different "
                "decisions, add a column that distinguishes them, such as a date."
            )
    return False


@dataclass(frozen=True)
class MonitorAlarm:
    """The alarm of a limit.

    Attributes
    ----------
    row : int
        The number of rows counted when the alarm was raised.
    batch : int
        The number of batches counted at that time.
    name : str or None
        The name of the last of these batches.
    log_evidence : float
        The natural logarithm of the evidence at that time.
    """

    row: int
    batch: int
    name: str | None
    log_evidence: float


@dataclass(frozen=True)
class RequirementEvidence:
    """The evidence against one requirement of a limit.

    Attributes
    ----------
    text : str
    log_evidence : float
        The natural logarithm of the evidence since the requirement joined.
    rates : tuple of float or None
        The rates over all rows; None without rows.
    recent : tuple of float or None
        The rates over recent rows: older rows count less.
    rows : tuple of int
        The rows of each rate.
    margin : float or None
        By how much the rates over all rows keep the requirement; negative if they break it, None without rows.
    """

    text: str
    log_evidence: float
    rates: tuple[float | None, ...]
    recent: tuple[float | None, ...]
    rows: tuple[int, ...]
    margin: float | None

    @classmethod
    def of(
        cls, text: str, log_evidence: float, totals: np.ndarray, recent: np.ndarray, side: LimitSide
    ) -> RequirementEvidence:
        """Return the record for counts of shape (4,)."""
        places = (0,) if side.kind == "value" else (0, 2)
        one_minus = side.kind == "value" and side.side == "at most"

        def rate(counts: np.ndarray, place: int) -> float | None:
            if counts[place] == 0:
                return None
            share = float(counts[place + 1] / counts[place])
            return 1.0 - share if one_minus else share

        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = totals[[1, 3]] / totals[[0, 2]]
        slope, shift = side.line
        margin = float(first - shift - (slope * second if slope else 0.0))
        return cls(
            text,
            log_evidence,
            tuple(rate(totals, place) for place in places),
            tuple(rate(recent, place) for place in places),
            tuple(int(totals[place]) for place in places),
            margin if math.isfinite(margin) else None,
        )


@dataclass(frozen=True)
class LimitEvidence:
    """The evidence against a limit, and its alarm if it has raised one."""

    limit: str
    log_evidence: float
    alarm: MonitorAlarm | None
    requirements: tuple[RequirementEvidence, ...]

    @property
    def strongest(self) -> RequirementEvidence | None:
        """Return the requirement most in doubt: with the most evidence against it or, without any, the least margin."""
        return min(self.requirements, key=_doubt, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json(
            {
                "limit": self.limit,
                "log10_evidence": self.log_evidence / math.log(10.0),
                "alarm": None if self.alarm is None else asdict(self.alarm),
                "requirements": [asdict(each) for each in self.requirements],
            }
        )


def _doubt(requirement: RequirementEvidence) -> tuple[float, float]:
    return min(-requirement.log_evidence, 0.0), math.inf if requirement.margin is None else requirement.margin


def evidence_text(log_evidence: float) -> str:
    """Return evidence as text; large and small values as a power of ten.

    >>> evidence_text(0.0), evidence_text(10.0), evidence_text(-20.0)
    ('1.00', '2.2e+04', '2.1e-09')
    """
    exponent = log_evidence / math.log(10.0)
    if -2.0 <= exponent < 4.0:
        return f"{math.exp(log_evidence):.2f}"
    power = math.floor(exponent)
    return f"{10.0 ** (exponent - power):.1f}e{power:+03d}"


def monitor_page(monitor: Monitor) -> tuple[str, list[TextTable], list[str]]:
    """Return heading, tables and notes of a monitor."""
    memory = f"{MEMORIES[RECENT]:,.0f} rows"
    lines = []
    for each in monitor.limits:
        state = "no alarm" if each.alarm is None else f"ALARM at row {count(each.alarm.row)}"
        most = each.strongest
        shown = ("-", "-", "-") if most is None else (most.text, _in_words(most.rates), _in_words(most.recent))
        lines.append((each.limit, state, evidence_text(each.log_evidence), *shown))
    batches = "1 batch" if monitor.n_batches == 1 else f"{monitor.n_batches:,} batches"
    heading = (
        f"Monitor: {count(monitor.rows)} rows, {batches}; an alarm needs evidence of {number(monitor.threshold, 0)}."
    )
    header = ("limit", "", "evidence", "requirement most in doubt", "rates", "recently")
    notes = [*monitor.notes, f'"Recently" means about the last {memory} of the smaller group; older rows count less.']
    return heading, [TextTable("Limits", header, tuple(lines), left=2)], notes


def _in_words(rates: tuple[float | None, ...]) -> str:
    return " and ".join(map(number, rates))


def thinned(history: History) -> History:
    """Return the history with at most `MOST_POINTS` points, the last among them."""
    return [*history[:-1:2], history[-1]] if len(history) > MOST_POINTS else history


# --- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateRecord:
    """The content of a state file; see `Monitor` for the meaning of the fields."""

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
    batches: tuple[CountedBatch, ...]
    alarms: tuple[MonitorAlarm | None, ...]
    history: tuple[tuple[int, tuple[float, ...]], ...]
    columns: tuple[str, ...]
    known: dict[str, tuple[tuple[Hashable, int], ...]]
    values: tuple[tuple[Hashable, Hashable], ...]
    watched: tuple[WatchedRequirement, ...]
    log_capital: tuple[float, ...]
    waiting: list[list[float]]
    totals: list[list[float]]
    remembered: list[list[list[float]]]
    passed: tuple[float, ...]
    log_invested: list[list[float]]


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
    processes = monitor._processes
    record = StateRecord(
        format=FORMAT,
        version=VERSION,
        limits=texts,
        confidence=monitor.confidence,
        groups=monitor.groups,
        pos_label=monitor.pos_label,
        positive_decision=monitor.positive_decision,
        seed=monitor.seed,
        rows=monitor.rows,
        n_batches=monitor.n_batches,
        batches=tuple(monitor.batches),
        alarms=tuple(monitor.alarms),
        history=tuple(monitor.history),
        columns=tuple(monitor._columns),
        known={name: tuple(groups.items()) for name, groups in monitor._known.items()},
        values=tuple(monitor._values),
        watched=tuple(monitor._watched),
        log_capital=tuple(monitor._log_capital.tolist()),
        waiting=monitor._waiting.tolist(),
        totals=monitor._totals.tolist(),
        remembered=processes.counts.tolist(),
        passed=tuple(processes.rows.tolist()),
        log_invested=processes.log_invested.tolist(),
    )
    return (json.dumps(asdict(record), allow_nan=False) + "\n").encode()


def read_state(kind: type[Monitor], path: str | os.PathLike[str]) -> Monitor:
    """Return the monitor of a state file, checked."""
    try:
        values = read_json(path, LARGEST_STATE)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ValueError("it was not written by a monitor")
        if values.get("version") != VERSION:
            raise ValueError(f"its version is {values.get('version')!r:.20}, and this fairbound reads {VERSION}")
        unknown = sorted(set(values) - {each.name for each in fields(StateRecord)})
        if unknown:
            raise ValueError(f"it has the unknown field {unknown[0]!r:.80}")
        return _restored(kind, as_record(values, StateRecord))
    except (UnfitFileError, ValueError) as error:
        raise ValueError(
            f"{os.fspath(path)} cannot be used as the state of a monitor: {str(error).rstrip('.')}."
        ) from error


def _restored(kind: type[Monitor], record: StateRecord) -> Monitor:
    monitor = kind(
        record.limits,
        record.confidence,
        groups=record.groups,
        pos_label=record.pos_label,
        positive_decision=record.positive_decision,
        seed=record.seed,
    )
    monitor.rows, monitor.n_batches, monitor.batches = record.rows, record.n_batches, list(record.batches)
    monitor.alarms, monitor.history = list(record.alarms), list(record.history)
    monitor._columns, monitor._values = list(record.columns), [(low, high) for low, high in record.values]
    monitor._known = {name: dict(groups) for name, groups in record.known.items()}
    monitor._watched = list(record.watched)
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
    _check(len(record.values) == 2, "values")
    _check(R <= MOST_REQUIREMENTS and len(record.known) <= len(record.columns) + 1, "known")
    for name, groups in monitor._known.items():
        check_number_of_groups(name, groups)
    expected = list(islice(_expected(monitor), R + 1))  # no more: a small file may describe very many
    _check(sorted(map(str, record.watched)) == sorted(map(str, expected)), "watched")
    monitor._log_capital = _array(record.log_capital, (R,), "log_capital")
    monitor._waiting = _counts(record.waiting, (R, 4), "waiting")
    monitor._totals = _counts(record.totals, (R, 4), "totals")
    lines = _array([each.line(monitor.constraints) for each in record.watched], (R, 2), "watched")
    passed = _array(record.passed, (R,), "passed")
    _check(bool((passed >= 0).all()), "passed")
    monitor._processes = EProcesses(
        lines[:, 0].copy(),
        lines[:, 1].copy(),
        _counts(record.remembered, (R, J, 4), "remembered"),
        passed,
        _array(record.log_invested, (R, J), "log_invested"),
    )
    return monitor


def _expected(monitor: Monitor) -> Iterator[WatchedRequirement]:
    """Yield the requirements of the limits for the groups in the state."""
    for grouping, groups in monitor._known.items():
        known: list[Hashable] = []
        for group in groups:
            for place, limit in enumerate(monitor.constraints):
                if limit.columns is None or grouping in limit.columns:
                    yield from new_requirements(monitor.constraints, place, grouping, known, group)
            known.append(group)


def _array(values: Sequence[Any], shape: tuple[int, ...], name: str) -> np.ndarray:
    try:
        array = np.array(values, dtype=np.float64).reshape(shape if not len(values) else (len(values), *shape[1:]))
    except ValueError:  # lists of different lengths
        array = np.zeros(0)
    _check(array.shape == shape and bool((np.abs(array) <= LARGEST_NUMBER).all()), name)
    return array


def _counts(values: Sequence[Any], shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return rows and positive outcomes; there are never more positive outcomes than rows."""
    array = _array(values, shape, name)
    part, whole = array[..., 1::2], array[..., ::2]
    _check(bool((part >= 0).all() and (part <= whole * (1.0 + 1e-9)).all()), name)
    return array


def _check(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"the field {name!r} contradicts the others")
