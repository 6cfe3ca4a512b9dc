"""Runs that were made: the outcome of a run, the file of all results, and the evidence of an item.

The results file has one line of JSON for each finished run.  Lines are only added, each in one write.  So an interrupt
or a full disk loses at most the current run.  An incomplete last line is dropped when the file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal

import fairbound
from fairbound._files import UnfitFileError, read_bytes
from fairbound._json import Number, as_record, decode
from fairbound.data import Split
from fairbound.experiments.protocol import TITLES, PartName, Run, Setting

# --- outcomes --------------------------------------------------------------------------------------------------------

# The outcome of a run: sums over the cells (group, label) of the training rows and of the test rows.
#
# These sums are enough.  Accuracies, rates, ratios, violations and covariances are small functions of them, both by
# decisions and by surrogate.  This also holds for measures that the run did not limit.


Grid = tuple[tuple[Number, Number], tuple[Number, Number]]
By = Literal["decisions", "surrogate"]


@dataclass(frozen=True)
class CellSums:
    """Sums over the cells of the training rows or of the test rows, as [group][label].

    Attributes
    ----------
    groups : names of the two groups
    totals : numbers of rows
    decisions : numbers of rows with decision 1
    surrogate : sums of the surrogate φ
    margins : sums of the margin, for the covariance
    loss : float
    """

    groups: tuple[str, str]
    totals: Grid
    decisions: Grid
    surrogate: Grid
    margins: Grid
    loss: Number

    @property
    def accuracy(self) -> float:
        """The share of rows with the right decision."""
        return sum(self._right(group) for group in (0, 1)) / sum(map(sum, self.totals))

    def group_accuracy(self, group: int) -> float:
        """Return the accuracy within a group."""
        return self._right(group) / sum(self.totals[group])

    # `fairness` computes the same formulas from rows.  A stored run has only sums, and its surrogate sums may be
    # negative.  So the formulas are repeated here, and the gallery shows the same numbers for old results.

    def rates(self, measure: str, by: By = "decisions") -> tuple[float, float]:
        """Return the two rates that the measure compares: selection rates, or true-positive rates."""
        sums: Grid = getattr(self, by)
        if measure == "equal_impact":
            return (sums[0][1] / self.totals[0][1], sums[1][1] / self.totals[1][1])
        return (sum(sums[0]) / sum(self.totals[0]), sum(sums[1]) / sum(self.totals[1]))

    def ratio(self, measure: str = "disparate_impact", by: By = "decisions") -> float:
        """Return the largest δ that the rates keep; 1 if nobody is selected.

        Rates of a surrogate may be negative, and their quotient has no meaning.  So the result is at least 0.
        """
        lower, upper = sorted(self.rates(measure, by))
        return max(0.0, lower / upper) if upper > 0 else 1.0

    def violation(self, measure: str, bound: float, by: By = "decisions") -> float:
        """Return max(δ·r₀ − r₁, δ·r₁ − r₀), or |cov| − ε for the covariance; at most 0 if the limit is kept."""
        if measure == "covariance":
            return abs(self.covariance(by)) - bound
        first, second = self.rates(measure, by)
        return max(bound * first - second, bound * second - first)

    def reached(self, measure: str) -> float:
        """Return the value of a measure that a limit bounds: a ratio, or the size of the covariance."""
        return abs(self.covariance()) if measure == "covariance" else self.ratio(measure)

    def covariance(self, by: By = "decisions") -> float:
        """(N₀N₁/N²)(r₁ − r₀), with rates of decisions or, by surrogate, with mean margins (Theorem 2)."""
        sums = self.decisions if by == "decisions" else self.margins
        first, second = (sum(group) for group in self.totals)
        return first * second / (first + second) ** 2 * (sum(sums[1]) / second - sum(sums[0]) / first)

    def _right(self, group: int) -> float:
        return self.decisions[group][1] + self.totals[group][0] - self.decisions[group][0]


@dataclass(frozen=True)
class Outcome:
    """A run and its results.

    Attributes
    ----------
    run : Run
    train, test : CellSums
    kept : bool
        Whether the decisions on the training rows keep every limit.
    status : str
    history : lists with one entry per epoch, for the training rows: accuracy, loss, exact and surrogate violation
    seconds, processor_seconds, peak_megabytes : float
    version : str
        The version of the package that made the run.
    """

    run: Run
    train: CellSums
    test: CellSums
    kept: bool
    status: str
    seconds: float
    processor_seconds: float
    peak_megabytes: float
    version: str
    history: dict[str, list[Number]] = field(default_factory=dict, repr=False)

    def part(self, name: PartName) -> CellSums:
        """Return the sums of the training or of the test rows."""
        return self.train if name == "train" else self.test

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"key": self.run.key, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Build an outcome from `as_dict`."""
        return as_record({name: value for name, value in values.items() if name != "key"}, cls)


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LARGEST = 2**30
"""Largest size of the file in bytes.  A run takes about 40,000."""
START = b'{"key":'
"""The first characters of every line."""


# --- the results file -------------------------------------------------------------------------------------------------


class Results:
    """Outcomes by run, and the file that stores them.

    Parameters
    ----------
    path : path, optional
        The file.  An existing file is read.  Without a path, outcomes are only in memory.

    Attributes
    ----------
    outdated : int
        The number of results in the file that are ignored because another version of the package made them.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.outdated = 0
        self._outcomes: dict[str, Outcome] = {}
        if path is not None:
            with _locked(path):
                self._read(path)

    def _read(self, path: Path) -> None:
        try:
            whole, _, rest = read_bytes(path, LARGEST).rpartition(b"\n")
        except UnfitFileError as error:
            raise ValueError(
                f"{path} is not a results file of `fairbound reproduce`: {error}. Give another --out."
            ) from error
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                values = decode(line)
                # The version is checked first: results of another version may have other fields.
                if values["version"] != fairbound.__version__:
                    self.outdated += 1
                    continue
                outcome = Outcome.from_dict(values)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(_foreign(path, number)) from error
            self._outcomes[outcome.run.key] = outcome
        if rest:
            # An interrupt left an incomplete line: its run is repeated.  A line that we did not write is an error.
            if rest[: len(START)] != START[: len(rest)]:
                raise ValueError(_foreign(path, len(whole.splitlines()) + 1))
            os.truncate(path, len(whole) + 1 if whole else 0)

    def add(self, outcome: Outcome) -> None:
        """Store an outcome, on disk first."""
        if self.path is not None:
            line = json.dumps(outcome.as_dict(), separators=(",", ":")).encode() + b"\n"
            with _locked(self.path) as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:  # such as a full disk: remove the incomplete line
                    os.truncate(self.path, end)
                    raise
        self._outcomes[outcome.run.key] = outcome

    def __getitem__(self, run: Run) -> Outcome:
        return self._outcomes[run.key]

    def __contains__(self, run: Run) -> bool:
        return run.key in self._outcomes

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._outcomes.values())

    def __len__(self) -> int:
        return len(self._outcomes)

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that have no outcome yet, each once, in their order."""
        return [run for run in dict.fromkeys(runs) if run not in self]


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file with a lock, and create it if it does not exist."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; give another --out.")
    with path.open("ab") as file:
        if fcntl is not None:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _foreign(path: Path, number: int) -> str:
    return (
        f"{path}, line {number}, is not a result of `fairbound reproduce`. Give another --out, or delete the file to "
        "start again."
    )


# --- evidence --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """The argument of an item's functions: a data set, a solver, and the outcomes of the item's runs."""

    setting: Setting
    results: Results
    split: Split

    def outcome(self, run: Run) -> Outcome:
        """Return the outcome of a run."""
        return self.results[run]

    def part(self, run: Run) -> CellSums:
        """Return the sums of a run over the reported rows (training or test)."""
        return self.results[run].part(self.setting.part)

    @property
    def title(self) -> str:
        """The data set, the solver and the reported rows, as text."""
        rows = "training rows" if self.setting.part == "train" else "test rows"
        batches = ", mini-batches" if self.setting.batches else ""
        return f"{TITLES[self.setting.dataset]}, {self.setting.solver} solver, {rows}{batches}"

    @cached_property
    def free_ratio(self) -> float:
        """The ratio of selection rates without limits.  Stricter limits bind."""
        return self.outcome(self.setting.free()).train.ratio()

    def binding(self, ratios: tuple[float, ...]) -> list[float]:
        """Return the ratios that bind."""
        return [ratio for ratio in ratios if ratio > self.free_ratio]

    def gap(self, run: Run) -> float:
        """Return the distance between the ratio of the decisions and the demanded one."""
        ((_, demanded),) = run.limits
        return self.gap_to(run, demanded)

    def gap_to(self, run: Run, demanded: float) -> float:
        """Return the same distance for a run without a limit on the ratio."""
        return abs(self.part(run).ratio() - demanded)
