"""The monitor watches limits after release, with a bounded probability of any false alarm.

The evidence against a limit is a sum of e-processes, one for each requirement of the limit (`watching`).
Their initial capitals add up to 1, so the sum is an e-process, too.  With L limits and confidence 1 − α, a limit
raises an alarm when its evidence reaches L/α.  If all limits are kept, the probability that any alarm is ever raised
is at most α.  This holds for any number of looks and any length of the stream, by Ville's inequality for each limit
and Bonferroni's inequality over the limits.

**Order of rows.**  The rows of a group in a batch are taken in a random order, drawn from the seed and the number of
the batch.  An export is often sorted by decision or outcome, and then the rows of a block would have other rates than
the group.  The same batches in the same order give the same evidence, also after a restart.

**New groups.**  When a group appears for the first time, its requirements join before its outcomes are counted.  Each
new requirement gets an equal share of the limit's present capital, taken from the others in proportion.  So the sum
does not change at that moment, and remains an e-process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from fairbound._errors import InputError, argument, bad_value
from fairbound._files import write_file
from fairbound._text_tables import Page, TextTable
from fairbound._words import as_level, count, listed, number
from fairbound.evaluation.e_processes import MEMORIES, RECENT, EProcesses
from fairbound.evaluation.intervals import check_confidence
from fairbound.evaluation.matching import check_needs_no_labels, read_two_values
from fairbound.evaluation.monitor_records import (
    CountedBatch,
    LimitEvidence,
    MonitorAlarm,
    RequirementEvidence,
    evidence_text,
)
from fairbound.evaluation.monitor_rows import divide, group_rows, outcomes
from fairbound.evaluation.monitor_state import read_state, write_state
from fairbound.evaluation.watching import (
    MOST_REQUIREMENTS,
    WatchedRequirement,
    check_number_of_groups,
    check_watchable,
    new_requirements,
)
from fairbound.fairness import OVERALL, Combine, Constraint, RateFunction, as_constraints

Pair = tuple[Hashable, Hashable]

MOST_POINTS = 400
"""Largest number of points in the recorded history; when there are more, every second one is dropped."""

LATE = (
    "Groups that appeared later are watched from then on: {groups}. If one of them is an earlier group in other words, "
    "write it in one way in all batches, and start a new state file."
)


class Monitor(Page):
    """Watches limits on a stream of decisions, and raises an alarm once a limit is broken with the stated confidence.

    Parameters
    ----------
    limits : Constraint, str, or several of them
        As for training: `DisparateImpact(0.8)` or "disparate_impact >= 0.8".  Differences, ratios, and limits on a
        group's rate; groups are compared pairwise or with a reference group.
    confidence : float
        1 − α, at least 0.5 and below 1.  If all limits are kept, the probability of any alarm ever is at most α.
    groups : {"each", "intersection", "both"}
        With several sensitive columns: the groups of each column, of their intersection, or both.
    pos_label : label, optional
        The positive one of two labels.  It may be left out for common pairs such as 0 and 1, or "no" and "yes".
    positive_decision : value, optional
        The decision that selects, if decisions have other values than labels.
    seed : int
        Seed of the random order in which the rows of each batch are taken.

    Attributes
    ----------
    rows : int
        The number of rows counted.
    n_batches : int
        The number of batches counted.
    batches : list of CountedBatch
        The counted batches that have a name, in order.
    limits : tuple of LimitEvidence
        The evidence against each limit.
    alarm : bool
        Whether any limit has raised an alarm.  An alarm stays.

    Examples
    --------
    >>> monitor = Monitor("disparate_impact >= 0.8")
    >>> for day in range(5):
    ...     monitor.update([1, 1, 1, 0] * 10 + [1, 0, 0, 0] * 10, ["a"] * 40 + ["b"] * 40)
    >>> monitor.alarm, monitor.limits[0].alarm.row
    (True, 160)
    """

    def __init__(
        self,
        limits: Constraint | str | Iterable[Constraint | str],
        confidence: float = 0.95,
        *,
        groups: Combine = "each",
        pos_label: Hashable | None = None,
        positive_decision: Hashable | None = None,
        seed: int = 0,
    ) -> None:
        self.constraints = as_constraints(limits)
        if not self.constraints:
            raise ValueError('limits is empty: give at least one, such as "disparate_impact >= 0.8".')
        for limit in self.constraints:
            check_watchable(limit)
        if groups not in ("each", "intersection", "both"):
            raise bad_value("groups", groups, "'each', 'intersection' or 'both'")
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise bad_value("seed", seed, "a whole number of at least 0")
        self.confidence = check_confidence(confidence)
        self.groups, self.pos_label, self.positive_decision, self.seed = groups, pos_label, positive_decision, seed
        self.rows = self.n_batches = 0
        self.batches: list[CountedBatch] = []
        self.alarms: list[MonitorAlarm | None] = [None] * len(self.constraints)
        self.history: list[tuple[int, tuple[float, ...]]] = []
        self.columns: list[str] = []
        self.known: dict[str, list[tuple[Hashable, int]]] = {}  # the groups of each grouping, and when first seen
        self.values: tuple[Pair, Pair] = (None, None), (None, None)  # of decisions, of labels
        self.watched: list[WatchedRequirement] = []
        self.log_capital = np.zeros(0)  # the logarithm of the initial capital of each requirement
        self.waiting = np.zeros((0, 4))
        self.totals = np.zeros((0, 4))
        self.processes = EProcesses.start([], [])

    def update(
        self,
        prediction: Any,
        sensitive_features: Any,
        y: Any = None,
        *,
        name: str | None = None,
        digest: str | None = None,
    ) -> None:
        """Count one batch of decisions; a batch may be a single row.

        If a batch is rejected by an error, the monitor is unchanged.

        Parameters
        ----------
        prediction : sequence of n decisions
        sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
        y : sequence of n labels, optional
            Needed by limits that compare decisions with labels.
        name : str, optional
            A name of the batch.  A name that was counted already raises an error.
        digest : str, optional
            A digest of the batch's content, which recognises the batch under another name.
        """
        if name is not None and self.has_counted(name, digest):
            raise ValueError(f"The batch {name!r} was counted already; give each batch once.")
        chosen = self.pos_label if self.positive_decision is None else self.positive_decision
        decided, decisions = read_two_values(
            prediction, self.values[0], chosen, argument("prediction"), "positive_decision"
        )
        labelled, labels = np.zeros(len(decided), dtype=bool), self.values[1]
        if y is None:
            check_needs_no_labels(self.constraints)
        else:
            labelled, labels = read_two_values(y, labels, self.pos_label, argument("y"), "pos_label")
        if len(labelled) != len(decided):
            raise InputError(
                "{y=} has {labels:,} rows, but {prediction=} has {rows:,}.", labels=len(labelled), rows=len(decided)
            )
        if not len(decided):
            raise ValueError("The batch has no rows; give at least one.")
        rng = np.random.default_rng([self.seed, self.n_batches])
        columns, found = group_rows(sensitive_features, len(decided), self.groups, rng)
        if OVERALL in found:
            raise ValueError(f"A sensitive column is named {OVERALL!r}, which means everyone here; rename the column.")
        if any(limit.concerns_everyone(grouped=bool(columns)) for limit in self.constraints):
            found[OVERALL] = {OVERALL: rng.permutation(len(decided))}
        self._check_columns(columns, list(found))
        joining = self._new_requirements(found, columns)
        # Nothing below raises an error, so that a batch is counted as a whole or not at all.
        self.columns, self.values = columns, (decisions, labels)
        self._join(joining)
        for grouping, groups in found.items():
            there = self.known.setdefault(grouping, [])
            seen = dict(there)
            there += [(group, self.rows + 1) for group in groups if group not in seen]
        self._count(found, 2 * labelled.astype(np.int64) + decided)
        self.rows += len(decided)
        self.n_batches += 1
        if name is not None:  # batches without a name are not stored: a stream of single rows would fill the memory
            self.batches.append(CountedBatch(name, digest, len(decided)))
        self._look(name)

    def has_counted(self, name: str, digest: str | None = None) -> bool:
        """Return whether a batch was counted already.

        The same name with other content, or the same content under another name, raises an error: counting rows twice
        would invalidate the evidence.
        """
        for batch in self.batches:
            same = None not in (digest, batch.digest) and digest == batch.digest
            if batch.name == name:
                if not same and None not in (digest, batch.digest):
                    raise ValueError(
                        f"{name} was counted already, with other content. A counted batch must not change or grow: put "
                        "new rows into a new batch."
                    )
                return True
            if same:
                raise ValueError(
                    f"{name} has the same content as {batch.name}, which was counted already. If these are different "
                    "decisions, add a column that distinguishes them, such as a date."
                )
        return False

    def _check_columns(self, columns: list[str], groupings: list[str]) -> None:
        if self.columns and columns != self.columns:
            raise InputError(
                "{sensitive_features=} has the columns {columns}, but earlier batches had {known}.",
                "Give the same columns in the same order.",
                columns=listed(columns),
                known=listed(self.columns),
            )
        for limit in self.constraints:
            if not columns and not limit.concerns_everyone(grouped=False):
                raise ValueError(f"sensitive_features has no columns, but {limit} needs groups: give at least one.")
            for name in limit.columns or ():
                if name not in groupings:
                    raise ValueError(f"{limit} names the column {name!r}. The batch has {listed(groupings)}.")

    def _new_requirements(
        self, found: Mapping[str, Iterable[Hashable]], columns: list[str]
    ) -> list[WatchedRequirement]:
        """Return the requirements that new groups add."""
        joining: list[WatchedRequirement] = []
        for grouping, groups in found.items():
            known = [group for group, _ in self.known.get(grouping, ())]
            there = set(known)
            new = [group for group in groups if group not in there]
            check_number_of_groups(grouping, [*known, *new])
            for group in new:
                joining += new_requirements(self.constraints, grouping, known, group, grouped=bool(columns))
                known.append(group)
                if len(self.watched) + len(joining) > MOST_REQUIREMENTS:
                    raise ValueError(
                        f"The {len(there) + len(new):,} groups of {grouping!r} have more than {MOST_REQUIREMENTS:,} "
                        "requirements on pairs of groups, which is the most that is watched: use columns with fewer "
                        "groups, or compare with a reference group."
                    )
        return joining

    def _join(self, joining: Sequence[WatchedRequirement]) -> None:
        """Start new requirements; they share the capital of their limit with those watched already."""
        for place in range(len(self.constraints)):
            new = [each for each in joining if each.limit == place]
            if not new:
                continue
            there = np.array([each.limit == place for each in self.watched], dtype=bool)
            old, log_total = int(there.sum()), self._log_evidence(place)
            share = math.log(len(new) + old)
            self.log_capital[there] += math.log(old) - share if old else 0.0
            self.log_capital = np.append(self.log_capital, np.full(len(new), log_total - share))
            self.watched += new
            started = EProcesses.start(*zip(*(each.limit_side(self.constraints).line for each in new), strict=True))
            for name, values in vars(started).items():
                setattr(self.processes, name, np.concatenate([getattr(self.processes, name), values]))
            self.waiting, self.totals = (
                np.concatenate([counts, np.zeros((len(new), 4))]) for counts in (self.waiting, self.totals)
            )

    def _count(self, found: dict[str, dict[Hashable, Any]], kinds: np.ndarray) -> None:
        @cache
        def seen(rate: RateFunction, grouping: str, group: Hashable) -> np.ndarray:
            rows = found[grouping].get(group)
            return np.zeros(0) if rows is None else outcomes(rate, kinds[rows])

        divided = []
        for place, each in enumerate(self.watched):
            rate = each.rate_function(self.constraints)
            first = seen(rate, each.grouping, each.first)
            if each.limit_side(self.constraints).of_complement:
                first = 1.0 - first
            second = None if each.second is None else seen(rate, each.grouping, each.second)
            waited = self.waiting[place].copy()
            self.waiting[place], blocks = divide(waited, first, second)
            self.totals[place] += blocks.sum(axis=0) + self.waiting[place] - waited
            divided.append(blocks)
        for turn in range(max(map(len, divided), default=0)):
            step = np.zeros((len(divided), 4))
            for place, blocks in enumerate(divided):
                if turn < len(blocks):
                    step[place] = blocks[turn]
            self.processes.play(step)

    def _look(self, name: str | None) -> None:
        """Compare the evidence with the threshold, and record it."""
        logs = tuple(self._log_evidence(place) for place in range(len(self.constraints)))
        for place, log_evidence in enumerate(logs):
            if self.alarms[place] is None and log_evidence >= math.log(self.threshold):
                self.alarms[place] = MonitorAlarm(self.rows, self.n_batches, name, log_evidence)
        self.history.append((self.rows, logs))
        if len(self.history) > MOST_POINTS:
            self.history = [*self.history[:-1:2], self.history[-1]]

    @property
    def threshold(self) -> float:
        """The evidence at which a limit raises an alarm: L/α."""
        return len(self.constraints) / (1.0 - self.confidence)

    @property
    def alarm(self) -> bool:
        """Whether any limit has raised an alarm."""
        return any(each is not None for each in self.alarms)

    def _log_evidence(self, place: int) -> float:
        there = [number for number, each in enumerate(self.watched) if each.limit == place]
        if not there:
            return 0.0
        return float(special.logsumexp((self.log_capital + self.processes.log_evidence)[there]))

    @property
    def limits(self) -> tuple[LimitEvidence, ...]:
        """The evidence against each limit, and its alarm."""
        recent = self.processes.counts[:, RECENT] + self.waiting
        found: list[list[RequirementEvidence]] = [[] for _ in self.constraints]
        own = self.processes.log_evidence.tolist()
        for place, each in enumerate(self.watched):
            text, side = each.text(self.constraints), each.limit_side(self.constraints)
            counts = self.totals[place], recent[place]
            found[each.limit].append(RequirementEvidence.of(text, own[place], *counts, side))
        return tuple(
            LimitEvidence(str(limit), self._log_evidence(place), self.alarms[place], tuple(found[place]))
            for place, limit in enumerate(self.constraints)
        )

    @property
    def claim(self) -> str:
        """Return the statistical meaning of an alarm as text."""
        return (
            "Claim: if every limit is kept at all times, the probability that any alarm is ever raised is at most "
            f"{as_level(1.0 - self.confidence)}, however often one looks. No alarm does not show that a limit is kept."
        )

    @property
    def notes(self) -> list[str]:
        """Return groups that joined late, limits without groups, and the claim."""
        late = [
            f"{group} ({grouping}) from row {count(row)}"
            for grouping, groups in self.known.items()
            for group, row in groups
            if row > self.history[0][0]  # the rows of the first batch
        ]
        found = [LATE.format(groups=", ".join(late[:20]))] if late else []
        watched = {each.limit for each in self.watched}
        found += [
            f"{limit}: nothing to watch yet, because its groups have not appeared."
            for place, limit in enumerate(self.constraints)
            if place not in watched and self.rows
        ]
        return [*found, self.claim]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return {
            "alarm": self.alarm,
            "confidence": self.confidence,
            "threshold": self.threshold,
            "rows": self.rows,
            "batches": self.n_batches,
            "limits": [each.to_dict() for each in self.limits],
            "history": [
                {"rows": rows, "log10_evidence": [log / math.log(10.0) for log in logs]} for rows, logs in self.history
            ],
            "notes": self.notes,
        }

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        lines = []
        for each in self.limits:
            state = "no alarm" if each.alarm is None else f"ALARM at row {count(each.alarm.row)}"
            most, shown = each.strongest, ["-", "-", "-"]
            if most is not None:
                shown = [most.text, *(" and ".join(map(number, rates)) for rates in (most.rates, most.recent))]
            lines.append((each.limit, state, evidence_text(each.log_evidence), *shown))
        batches = "1 batch" if self.n_batches == 1 else f"{self.n_batches:,} batches"
        needed = f"an alarm needs evidence of {number(self.threshold, 0)}"
        header = ("limit", "", "evidence", "requirement most in doubt", "rates", "recently")
        memory = f"about the last {MEMORIES[RECENT]:,.0f} rows of the smaller group; older rows count less"
        notes = [*self.notes, f'"Recently" means {memory}.']
        heading = f"Monitor: {count(self.rows)} rows, {batches}; {needed}."
        return heading, [TextTable("Limits", header, tuple(lines), left=2)], notes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a JSON file.  After a kill the file has the old state or the new one, never a mixture."""
        write_file(path, write_state(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Monitor:
        """Return the monitor whose state is in a file; raise ValueError if the file is not such a state."""
        return read_state(cls, path)
