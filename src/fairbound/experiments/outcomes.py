"""What came out of a run, in the cells (group, label) of the training and of the test part.

Sums over cells are enough: accuracies, rates, ratios, violations and covariances are small functions of them, by
decisions and by surrogate alike, for limits that the run had and for those that it had not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fairbound._records import read_record
from fairbound.experiments.protocol import PartName
from fairbound.experiments.runs import Run

Grid = tuple[tuple[float, float], tuple[float, float]]
By = Literal["decisions", "surrogate"]


@dataclass(frozen=True)
class Part:
    """Sums over the cells of one part of the rows: [group][label].

    Attributes
    ----------
    groups : names of the two groups
    totals : rows
    decisions : rows predicted 1
    surrogate : sums of the surrogate φ
    margins : sums of the margin itself, which the covariance is made of
    loss : float
    """

    groups: tuple[str, str]
    totals: Grid
    decisions: Grid
    surrogate: Grid
    margins: Grid
    loss: float

    @property
    def accuracy(self) -> float:
        """Share of the rows predicted right."""
        return sum(self._right(group) for group in (0, 1)) / sum(map(sum, self.totals))

    def group_accuracy(self, group: int) -> float:
        """The same within a group."""
        return self._right(group) / sum(self.totals[group])

    # `fairness` has these formulas for rows.  A stored run has no rows any more, only sums, and its surrogates may be
    # below zero: the gallery must show the same numbers whatever version has made the runs.

    def rates(self, measure: str, by: By = "decisions") -> tuple[float, float]:
        """The two rates that the measure compares: selection rates, or true-positive rates."""
        sums: Grid = getattr(self, by)
        if measure == "equal_impact":
            return (sums[0][1] / self.totals[0][1], sums[1][1] / self.totals[1][1])
        return (sum(sums[0]) / sum(self.totals[0]), sum(sums[1]) / sum(self.totals[1]))

    def ratio(self, measure: str = "disparate_impact", by: By = "decisions") -> float:
        """The largest δ that the rates keep; 1 where nobody is selected.

        A surrogate may dip below zero, where a quotient has no meaning: at least 0.
        """
        lower, upper = sorted(self.rates(measure, by))
        return max(0.0, lower / upper) if upper > 0 else 1.0

    def violation(self, measure: str, bound: float, by: By = "decisions") -> float:
        """max(δ·r₀ − r₁, δ·r₁ − r₀), which a kept ratio has at most 0; |cov| − ε for the covariance."""
        if measure == "covariance":
            return abs(self.covariance(by)) - bound
        first, second = self.rates(measure, by)
        return max(bound * first - second, bound * second - first)

    def covariance(self, by: By = "decisions") -> float:
        """(N₀N₁/N²)(r₁ − r₀), with rates of decisions or, by surrogate, with mean margins (Theorem 2)."""
        sums = self.decisions if by == "decisions" else self.margins
        first, second = (sum(group) for group in self.totals)
        return first * second / (first + second) ** 2 * (sum(sums[1]) / second - sum(sums[0]) / first)

    def _right(self, group: int) -> float:
        return self.decisions[group][1] + self.totals[group][0] - self.decisions[group][0]


@dataclass(frozen=True)
class Outcome:
    """A run and what came out of it.

    Attributes
    ----------
    run : Run
    train, test : Part
    kept : bool
        Whether the decisions on the training rows keep every limit.
    status : str
    history : lists by epoch, of training rows: accuracy, loss, exact and surrogate violation
    seconds, processor_seconds, peak_megabytes : float
    version : str
        Of the package.
    """

    run: Run
    train: Part
    test: Part
    kept: bool
    status: str
    seconds: float
    processor_seconds: float
    peak_megabytes: float
    version: str
    history: dict[str, list[float]] = field(default_factory=dict, repr=False)

    def part(self, name: PartName) -> Part:
        """The training or the test part."""
        return self.train if name == "train" else self.test

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"key": self.run.key, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Undo `as_dict`."""
        return read_record(cls, {name: value for name, value in values.items() if name != "key"})
