"""Runs that were made: the outcome of a run, the file of all results, and the evidence of an item.

The results file has one line of JSON for each finished run.  Lines are only added, each in one write.  So an interrupt
or a full disk loses at most the current run.  An incomplete last line is dropped when the file is opened again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import fairbound
from fairbound._json import Number, as_record, decode
from fairbound.experiments.protocol import (
    COVARIANCES,
    DATASETS,
    EPOCHS,
    PENALTIES,
    RATIOS,
    SCALE,
    SCALES,
    SCENARIOS,
    SEARCH_FITS,
    SEARCH_TOLERANCE,
    SEEDS,
    PartName,
    Run,
    SolverName,
)

Grid = tuple[tuple[Number, Number], tuple[Number, Number]]
By = Literal["decisions", "surrogate"]
START = b'{"key":'
"""The first characters of every line."""


@dataclass(frozen=True)
class CellSums:
    """Sums over the cells of the training rows or of the test rows, as [group][label].

    They are enough for accuracies, rates, ratios, violations and covariances, also of measures that the run did not
    limit.  `fairness` computes the same formulas from rows; a stored run has only sums, and those of a surrogate may be
    negative.

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


class Results(dict[Run, Outcome]):
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
        super().__init__()
        self.path = path
        self.outdated = 0
        if path is not None:
            if not path.exists():
                path.touch()  # marks the folder as ours
            self._read(path)

    def _read(self, path: Path) -> None:
        whole, _, rest = path.read_bytes().rpartition(b"\n")
        for number, line in enumerate((*whole.splitlines(), rest), start=1):
            try:
                if line is rest:  # empty, unless an interrupt left an incomplete line
                    if rest[: len(START)] != START[: len(rest)]:
                        raise ValueError("a line that we did not write")
                    continue
                values = decode(line)
                # The version is checked first: results of another version may have other fields.
                if values["version"] != fairbound.__version__:
                    self.outdated += 1
                    continue
                del values["key"]
                outcome = as_record(values, Outcome)
                self[outcome.run] = outcome
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{path}, line {number}, is not a result of `fairbound reproduce`. Give another --out, or delete "
                    "the file to start again."
                ) from error
        if rest:  # its run is repeated
            os.truncate(path, len(whole) + 1 if whole else 0)

    def add(self, outcome: Outcome) -> None:
        """Store an outcome, on disk first."""
        if self.path is not None:
            line = json.dumps({"key": outcome.run.key, **asdict(outcome)}, separators=(",", ":")).encode() + b"\n"
            with self.path.open("ab") as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:  # such as a full disk: remove the incomplete line
                    os.truncate(self.path, end)
                    raise
        self[outcome.run] = outcome

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that have no outcome yet, each once, in their order."""
        return [run for run in dict.fromkeys(runs) if run not in self]


@dataclass(frozen=True)
class Point:
    """A finished run as a row of a table or a point of a figure: its outcome, and the sums of the reported rows."""

    run: Run
    outcome: Outcome
    part: CellSums

    @property
    def bound(self) -> float:
        """The demanded ratio, the limit on the covariance, or the λ of the penalty."""
        return self.run.bound

    @property
    def ratio(self) -> float:
        """The ratio of selection rates."""
        return self.part.ratio()

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * self.part.accuracy

    @property
    def gap(self) -> float:
        """The distance between the ratio of the decisions and the demanded one."""
        return abs(self.ratio - self.bound)

    @property
    def seconds(self) -> float:
        """Of processor time."""
        return self.outcome.processor_seconds

    def violation(self, by: By = "decisions") -> float:
        """Return the violation of the one limit."""
        return self.part.violation(*self.run.limits[0], by)


@dataclass(frozen=True)
class Evidence:
    """The argument of an item's functions: a data set, a solver, the reported rows, and the outcomes of finished runs.

    Its methods build the runs of the item, and return the points of finished ones.
    """

    dataset: str
    data: str
    solver: SolverName = "paper"
    part: PartName = "train"
    batches: bool = False
    epochs: int = EPOCHS
    seeds: tuple[int, ...] = SEEDS
    results: Results = field(default_factory=Results, repr=False)
    split: Any = field(default=None, repr=False)

    def free_run(self, **options: Any) -> Run:
        """Return a run without limits."""
        return Run(self.dataset, self.data, self.solver, batches=self.batches, epochs=self.epochs, **options)

    def limited(self, bound: float, measure: str = "disparate_impact", **options: Any) -> Run:
        """Return a run with one limit."""
        return replace(self.free_run(**options), limits=((measure, bound),))

    def constrained_runs(self, approach: str, scale: float = SCALE) -> list[Run]:
        """Return the runs with limits on ratios by a surrogate, or on the covariance."""
        if approach == "covariance":
            return [self.limited(bound, approach, surrogate=approach, scale=1.0) for bound in COVARIANCES]
        return [self.limited(bound, surrogate=approach, scale=scale) for bound in RATIOS]

    def penalty_run(self, penalty: float, approach: str = "smoothed_step") -> Run:
        """Return a run with a penalty of weight 1/λ on the difference of selection rates."""
        return self.free_run(penalty=penalty, surrogate=approach, scale=1.0 if approach == "covariance" else SCALE)

    def penalty_runs(self, approach: str) -> list[Run]:
        """Return the runs with a penalty."""
        return [self.penalty_run(penalty, approach) for penalty in PENALTIES]

    def scales(self, bound: float, surrogate: str) -> list[Run]:
        """Return the runs with the same limit at several scales."""
        return [self.limited(bound, surrogate=surrogate, scale=scale) for scale in SCALES]

    def scenario(self, name: str, bound: float) -> Run:
        """Return the run of a row of Table 2 or 4."""
        return replace(self.free_run(), limits=tuple((measure, bound) for measure in SCENARIOS[name]))

    def starts(self, bound: float) -> list[Run]:
        """Return the runs with the same limit from several random starts."""
        return [self.limited(bound, seed=seed) for seed in self.seeds]

    def search(self, target: float) -> Search:
        """Repeat the search for the penalty of a ratio by bisection of log λ, up to the first run without a result."""
        strong, weak = math.log10(PENALTIES[0]), math.log10(PENALTIES[-1])
        fits: list[Run] = []
        while len(fits) < SEARCH_FITS:
            middle = (strong + weak) / 2
            run = self.penalty_run(10.0**middle)
            if run not in self.results:
                return Search(fits, False, run)
            fits.append(run)
            reached = self.results[run].train.ratio()
            if abs(reached - target) <= SEARCH_TOLERANCE:
                return Search(fits, True, None)
            strong, weak = (strong, middle) if reached < target else (middle, weak)
        return Search(fits, False, None)

    def __getitem__(self, run: Run) -> Point:
        outcome = self.results[run]
        return Point(run, outcome, outcome.train if self.part == "train" else outcome.test)

    def points(self, runs: Iterable[Run]) -> list[Point]:
        """Return the points of some runs."""
        return [self[run] for run in runs]

    def constrained(self, approach: str, scale: float = SCALE) -> list[Point]:
        """Return the points under limits on ratios by a surrogate, or on the covariance."""
        return self.points(self.constrained_runs(approach, scale))

    def penalized(self, approach: str) -> list[Point]:
        """Return the points with a penalty."""
        return self.points(self.penalty_runs(approach))

    @property
    def title(self) -> str:
        """The data set, the solver and the reported rows, as text."""
        rows = "training rows" if self.part == "train" else "test rows"
        batches = ", mini-batches" if self.batches else ""
        return f"{DATASETS[self.dataset]}, {self.solver} solver, {rows}{batches}"

    @cached_property
    def free(self) -> Point:
        """The run without limits."""
        return self[self.free_run()]

    @cached_property
    def free_ratio(self) -> float:
        """The ratio of selection rates without limits, on training rows.  Stricter limits bind."""
        return self.free.outcome.train.ratio()

    def binding(self, ratios: Iterable[float]) -> list[float]:
        """Return the ratios that bind."""
        return [ratio for ratio in ratios if ratio > self.free_ratio]


class Search(NamedTuple):
    """The finished fits of a search, whether the last is within the tolerance, and the next one, if it goes on."""

    fits: list[Run]
    found: bool
    next: Run | None
