"""Compile limits for the groups and labels of given cells: the rates r that they need, and lower ≤ A · r ≤ upper.

A limit becomes one row for each pair of groups that it compares, or for each group whose rate it bounds.  Limits that
need the same rate share it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from fairbound._errors import InputError
from fairbound._words import group_text
from fairbound.fairness.cells import FROM, WITHIN, Cells, Grouping
from fairbound.fairness.constraints import Constraint, Quota
from fairbound.fairness.decisions import DecisionSurrogate, check_threshold
from fairbound.fairness.measures import resolve_measure
from fairbound.fairness.rates import RateFunction, evaluate
from fairbound.fairness.row_functions import Above, Prediction, Probability, RowFunction, RowLossOf
from fairbound.fairness.sums import group_sums
from fairbound.fairness.surrogates import resolve_surrogate

MOST_NUMBERS = 2**26
"""Largest number of entries of ∂r/∂S; more constraints would need too much memory."""


@dataclass(frozen=True, eq=False)
class RateBlock:
    """One rate of all groups of a grouping: a slice of r."""

    surrogate: int
    grouping: Grouping
    outcome: int
    rate: RateFunction
    start: int

    @property
    def stop(self) -> int:
        """Return the end of the slice, which has one entry per group and one for everyone."""
        return self.start + len(self.grouping.groups) + 1


@dataclass(frozen=True)
class Row:
    """The constraint that a row of c belongs to, and its text for messages and tables."""

    constraint: int
    text: str


@dataclass(frozen=True)
class GroupComparison:
    """The pairs of groups that one constraint compares in one block; the reported value is computed from them."""

    constraint: int
    block: RateBlock
    pairs: tuple[tuple[int, int], ...]


class Compiler:
    """Collects the blocks and rows of all constraints × groupings × outcomes × rates.

    Attributes
    ----------
    surrogates : dict of RowFunction to its place
    blocks : dict of RateBlock
    rows : list of Row
    comparisons : list of GroupComparison
    """

    def __init__(
        self, constraints: tuple[Constraint, ...], cells: Cells, threshold: float, *, with_rows: bool = True
    ) -> None:
        """Compile the constraints; without `with_rows`, only which groups they compare."""
        self.constraints, self.cells, self.threshold, self.with_rows = constraints, cells, threshold, with_rows
        self.surrogates: dict[RowFunction, int] = {}
        self.blocks: dict[tuple[int, str, tuple[Hashable, ...], int, RateFunction], RateBlock] = {}
        self.n_rates = 0
        self.entries: list[tuple[dict[int, float], float, float]] = []
        self.rows: list[Row] = []
        self.comparisons: list[GroupComparison] = []
        for position, constraint in enumerate(constraints):
            self.first_row = len(self.rows)
            for grouping in self._groupings(constraint):
                for outcome in self._outcomes(constraint):
                    for rate in resolve_measure(constraint.measure).rates:
                        for value in constraint.at or (None,):
                            block = self._block(constraint, grouping, outcome, rate, value)
                            self._add(position, constraint, block, value)
        if with_rows:
            self._check_memory()

    def coefficients(self) -> np.ndarray:
        """Return A."""
        found = np.zeros((len(self.entries), self.n_rates))
        for row, (entry, _, _) in enumerate(self.entries):
            for column, coefficient in entry.items():
                found[row, column] += coefficient
        return found

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound of each row."""
        lower, upper = ([entry[side] for entry in self.entries] for side in (1, 2))
        return np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)

    def _check_memory(self) -> None:
        numbers = self.n_rates * len(self.surrogates) * self.cells.n_cells * len(self.cells.outcomes)
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"Limits on {self.n_rates:,} rates of {self.cells.n_cells:,} cells (groups times labels) need "
                f"{8 * numbers / 2**30:.1f} GiB for their derivative, more than {8 * MOST_NUMBERS / 2**30:g}: limit "
                f"fewer groups or columns"
                + (", or name the classes that matter by classes=." if self.cells.n_labels > 2 else ".")
            )

    def _groupings(self, constraint: Constraint) -> list[Grouping]:
        if constraint.previous is not None and (
            f"{FROM}{constraint.previous}" != self.cells.previous_name or self.cells.division is not None
        ):
            raise ValueError(
                f"{constraint} needs the decisions before: beside the groups, a column {FROM + constraint.previous!r} "
                "with the labels of two classes; groups must be known."
            )
        if constraint.concerns_everyone(grouped=bool(self.cells.groupings)):
            return [self.cells.everyone]
        if not self.cells.groupings:
            raise ValueError(f"{constraint} needs groups: pass sensitive_features.")
        covered = [grouping for grouping in self.cells.groupings if grouping.within == constraint.factor]
        if not covered:
            known = ", ".join(dict.fromkeys(grouping.within for grouping in self.cells.groupings if grouping.within))
            raise ValueError(
                f"{constraint}: the rows have no column {WITHIN + constraint.factor!r} beside their groups. Factors: "
                f"{known or 'none'}."
            )
        if constraint.columns is None:
            groupings = covered
            wanted = constraint.reference if constraint.reference is not None else constraint.group
            if wanted is not None and len(groupings) > 1:
                # The limit applies to the columns that have the named group.
                groupings = [g for g in groupings if g.has(wanted)]
                if not groupings:
                    known = "; ".join(f"{g.name}: {', '.join(map(str, g.groups))}" for g in covered)
                    raise ValueError(f"{constraint}: unknown group {wanted!r}. Known groups: {known}.")
        else:
            suffix = f" {WITHIN}{constraint.factor}" if constraint.within else ""
            groupings = [self.cells.grouping(f"{column}{suffix}") for column in constraint.columns]
        if constraint.group is not None:
            # The rate may be undefined for the other groups, which are not limited.
            groupings = [grouping.only(constraint.group) for grouping in groupings]
        measure = resolve_measure(constraint.measure)
        for grouping in groupings:
            if measure.comparison != "value" and grouping.within and not grouping_pairs(grouping, constraint):
                raise ValueError(f"{constraint}: no stratum has two groups to compare.")
            if measure.comparison != "value" and len(grouping.groups) < 2:
                raise ValueError(
                    f"{constraint} compares groups, but {grouping.name!r} has only one: {grouping.groups[0]!r}."
                )
        return groupings

    def _outcomes(self, constraint: Constraint) -> tuple[int, ...]:
        measure = resolve_measure(constraint.measure)
        if constraint.classes is None:
            return self.cells.outcomes if measure.per_class else self.cells.outcomes[:1]
        if self.cells.n_labels == 2:
            raise ValueError(f"{constraint}: classes= needs more than two classes; with two use pos_label.")
        if not measure.per_class:
            raise ValueError(f"{constraint}: {measure.name} concerns all classes at once; leave classes= out.")
        found = [self.cells.find_class(label) for label in constraint.classes]
        if None in found:
            label, known = constraint.classes[found.index(None)], ", ".join(map(repr, self.cells.classes))
            raise ValueError(f"{constraint}: unknown class {label!r}. Known classes: {known}.")
        return tuple(place for place in found if place is not None)

    def _function(self, constraint: Constraint, value: float | str | None) -> RowFunction:
        """Return the function of rows that a limit has sums of."""
        measure = resolve_measure(constraint.measure)
        regression = self.cells.n_labels == 1
        if not (self.with_rows or regression) and (value is not None or measure.of != "decision"):
            raise ValueError(f"{constraint} is about scores, but only decisions are counted here: leave it out.")
        if isinstance(value, str):
            raise ValueError(f"{constraint}: quantiles are known after a model is trained; give values.")
        if measure.of == "loss":
            return RowLossOf()
        if measure.of == "prediction":
            if self.cells.n_labels > 2:
                raise ValueError(f"{constraint} needs one score for each row, but there are {self.cells.n_labels}.")
            return Prediction() if regression else Probability()
        if regression:
            if value is None or measure.uses_label:
                raise ValueError(
                    f"{constraint}: a regression has no decisions. Limit mean_difference, group_loss, or the shares "
                    'above some values, as in "demographic_parity <= 0.1 at quantiles 25%, 50%, 75%".'
                )
            return Above(value)
        if value is not None:
            check_threshold(value, self.cells.n_labels)
        surrogate = resolve_surrogate(constraint.surrogate or measure.default_surrogate)
        return DecisionSurrogate(surrogate, constraint.margin, self.threshold if value is None else value)

    def _block(
        self,
        constraint: Constraint,
        grouping: Grouping,
        outcome: int,
        rate: RateFunction,
        value: float | str | None = None,
    ) -> RateBlock:
        measure = resolve_measure(constraint.measure)
        index = self.surrogates.setdefault(self._function(constraint, value), len(self.surrogates))
        key = (index, grouping.name, grouping.groups, outcome, rate)
        if key not in self.blocks:
            undefined = undefined_groups(rate, self.cells, grouping, outcome) if self.with_rows else []
            for position in undefined:
                group = grouping.groups[position]
                counts = self.cells.group_counts()[grouping.name][group]
                has = ", ".join(f"{count:g} with label {label!r}" for label, count in counts.items())
                raise InputError(
                    "{measure} is undefined for group {group!r} of {column!r}. The rows of this group: {has}.",
                    "Merge it with another group, or leave it out (mark it as missing). A fit does that itself with "
                    "{small_groups='merge'} or {small_groups='warn'}.",
                    measure=measure.name,
                    group=group,
                    column=grouping.name,
                    has=has,
                )
            self.blocks[key] = RateBlock(index, grouping, outcome, rate, self.n_rates)
            self.n_rates += len(grouping.groups) + 1
        return self.blocks[key]

    def _add(self, position: int, constraint: Constraint, block: RateBlock, value: float | str | None = None) -> None:
        measure = resolve_measure(constraint.measure)
        grouping, start = block.grouping, block.start
        n_groups = len(grouping.groups)
        names = [group_text(group) for group in (*grouping.groups, None)]
        lower, upper = constraint.limits
        rate_name = measure.name if measure.of == "loss" else getattr(block.rate, "__name__", measure.name)
        one_class = self.cells.n_labels > 2 and measure.per_class
        where = f", class {self.cells.classes[block.outcome]}" if one_class else ""

        def rate_of(group: int) -> str:
            return f"{rate_name}({names[group]}{where})" + ("" if value is None else f" above {value:g}")

        def add(entry: dict[int, float], low: float, high: float, text: str) -> None:
            if not self.with_rows:
                return
            if isinstance(constraint, Quota):
                low = high  # a fit aims at the quota itself
            if constraint.reserve:
                low, high = _tightened(low, high, constraint.reserve[len(self.rows) - self.first_row])
            self.entries.append(({start + column: value for column, value in entry.items()}, low, high))
            self.rows.append(Row(position, f"{constraint} [{grouping.name}]: {text}"))

        if measure.comparison == "value":
            pairs = [(a, a) for a in range(n_groups)]
            for a in range(n_groups):
                add({a: 1.0}, lower, upper, _between(lower, rate_of(a), upper))
        else:
            if measure.comparison == "covariance":
                shares = group_shares(self.cells, grouping)
                # With two groups both rows are equal up to the sign: keep the second, which is the paper's s = 1.
                pairs = compared_pairs(n_groups, "overall")[1 if n_groups == 2 else 0 :]
                for a, b in pairs:
                    text = _between(lower, f"cov({rate_of(a)})", upper)
                    add({a: shares[a], b: -shares[a]}, lower, upper, text)
            else:
                pairs = grouping_pairs(grouping, constraint)
                for a, b in pairs:
                    if measure.comparison == "difference" or constraint.bound is None:
                        add({a: 1.0, b: -1.0}, lower, upper, _between(lower, f"{rate_of(a)} - {rate_of(b)}", upper))
                        continue
                    # Limit δ ≤ r_a/r_b ≤ 1/δ, written without division: δ·r_b ≤ r_a and δ·r_a ≤ r_b.  The second one
                    # could also be r_a ≤ r_b/δ.  With δ on the left, both rows have the scale of the paper.
                    if lower > 0:
                        add({b: lower, a: -1.0}, -math.inf, 0.0, f"{lower:g} {rate_of(b)} <= {rate_of(a)}")
                    if math.isfinite(upper):
                        inverse = lower if not isinstance(constraint.bound, tuple) else 1.0 / upper
                        add({a: inverse, b: -1.0}, -math.inf, 0.0, f"{inverse:g} {rate_of(a)} <= {rate_of(b)}")
        self.comparisons.append(GroupComparison(position, block, tuple(pairs)))


def _tightened(lower: float, upper: float, distance: float) -> tuple[float, float]:
    """Move both bounds inwards by `distance`, but not past the middle between them."""
    distance = min(distance, 0.5 * (upper - lower))
    return lower + distance, upper - distance


def _between(lower: float, text: str, upper: float) -> str:
    left = f"{lower:g} <= " if math.isfinite(lower) else ""
    right = f" <= {upper:g}" if math.isfinite(upper) else ""
    return f"{left}{text}{right}"


def group_shares(cells: Cells, grouping: Grouping) -> list[float]:
    """Return each group's share of the rows; the last is that of everyone, 1."""
    sizes = grouping.membership @ cells.totals.reshape(-1, cells.n_labels).sum(axis=1)
    return (sizes / sizes[-1]).tolist()


def compared_pairs(n_groups: int, against: str, reference: int | None = None) -> list[tuple[int, int]]:
    """Return the index pairs (a, b) to compare; index `n_groups` stands for everyone.

    >>> compared_pairs(3, "pairwise"), compared_pairs(2, "overall"), compared_pairs(3, "reference", 1)
    ([(0, 1), (0, 2), (1, 2)], [(0, 2), (1, 2)], [(0, 1), (2, 1)])
    """
    if against == "pairwise":
        return [(a, b) for a in range(n_groups) for b in range(a + 1, n_groups)]
    other = n_groups if against == "overall" else reference
    assert other is not None
    return [(a, other) for a in range(n_groups) if a != other]


def grouping_pairs(grouping: Grouping, constraint: Constraint) -> list[tuple[int, int]]:
    """Return the index pairs of groups that a limit compares: all pairs, or those with a reference, in each stratum."""
    n_groups = len(grouping.groups)
    if constraint.against == "overall":
        return compared_pairs(n_groups, "overall")
    references = None if constraint.reference is None else grouping.places(constraint.reference)
    if references is None:
        pairs = compared_pairs(n_groups, "pairwise")
    else:
        pairs = [pair for each in references for pair in compared_pairs(n_groups, "reference", each)]
    return [(a, b) for a, b in pairs if grouping.stratum(a) == grouping.stratum(b)]


def undefined_groups(rate: RateFunction, cells: Cells, grouping: Grouping, outcome: int) -> list[int]:
    """Return the groups for which the rate divides by zero, whatever the model predicts."""
    half = 0.5 * cells.totals[:, None][:, [0] * len(cells.outcomes)]
    values = evaluate(rate, group_sums(half, cells, grouping, outcome))[:-1]
    return [position for position, value in enumerate(values.tolist()) if not math.isfinite(value)]
