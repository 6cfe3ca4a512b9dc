"""Constraints on given cells, compiled to c(w) = A · r(S(w)) and its derivative with respect to S.

S has one column of cell sums for each `DecisionSurrogate` and outcome.  r stacks the rates that occur, each once.  A
has the coefficients of the rows.  The exact values c̄ are the same function of the sums of decisions, so surrogate and
exact values share one formula.

Conventions
-----------
S : (P, K, O) for P surrogates, K cells, O outcomes.    r : (R,).    A : (m, R).    c : (m,).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fairbound._torch import torch
from fairbound._words import group_text
from fairbound.fairness.cells import Cells, Grouping
from fairbound.fairness.columns import Array, concatenate, like
from fairbound.fairness.constraints import Constraint
from fairbound.fairness.decisions import DecisionSurrogate, check_threshold
from fairbound.fairness.measures import compared_pairs, resolve_measure
from fairbound.fairness.rates import AFFINE_RATES, RateFunction, evaluate, group_sums, undefined_groups
from fairbound.fairness.surrogates import resolve_surrogate
from fairbound.fairness.text import as_constraints

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
    """The pairs of groups that one constraint compares in one block, for the reported value."""

    constraint: int
    block: RateBlock
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ComparedPair:
    """Two groups of a block (the last place is everyone), their rates, and the measure of the pair."""

    block: RateBlock
    places: tuple[int, int]
    rates: tuple[float, float]
    value: float


@dataclass(frozen=True, eq=False)
class ConstraintSystem:
    """Compiled constraints.  Build it with `ConstraintSystem.build`."""

    constraints: tuple[Constraint, ...]
    cells: Cells = field(repr=False)
    threshold: float
    surrogates: tuple[DecisionSurrogate, ...]
    blocks: tuple[RateBlock, ...] = field(repr=False)
    coefficients: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    rows: tuple[Row, ...] = field(repr=False)
    comparisons: tuple[GroupComparison, ...] = field(repr=False)

    @classmethod
    def build(
        cls, constraints: Constraint | str | Iterable[Constraint | str], cells: Cells, *, threshold: float = 0.5
    ) -> ConstraintSystem:
        """Compile constraints for the groups and labels of `cells`; raise an error if a rate is undefined there."""
        constraints = as_constraints(constraints)
        check_threshold(threshold, cells.n_labels)
        if constraints and not cells.groupings:
            raise ValueError("Constraints need groups: pass sensitive_features.")
        return _Compiler(constraints, cells, threshold).compile()

    @classmethod
    def compare(cls, constraints: Iterable[Constraint], cells: Cells) -> tuple[ConstraintSystem, ...]:
        """Compile which groups each constraint compares, without the rows of c; return a system for each constraint.

        This is all that counted decisions need.  Groups in which a rate is undefined are left to the caller.
        """
        constraints = tuple(constraints)
        if constraints and not cells.groupings:
            raise ValueError("Constraints need groups: pass sensitive_features.")
        whole = _Compiler(constraints, cells, 0.5, with_rows=False).compile()
        return tuple(
            whole.select([each for each in whole.comparisons if each.constraint == position])
            for position in range(len(constraints))
        )

    def select(self, comparisons: Sequence[GroupComparison]) -> ConstraintSystem:
        """Return the system of some comparisons of one constraint, without rows of c."""
        blocks: dict[RateBlock, RateBlock] = {}
        start = 0
        for block in dict.fromkeys(each.block for each in comparisons):
            blocks[block] = replace(block, start=start)
            start = blocks[block].stop
        return replace(
            self,
            constraints=(self.constraints[comparisons[0].constraint],),
            blocks=tuple(blocks.values()),
            coefficients=self.coefficients[:0, :start],
            lower=self.lower[:0],
            upper=self.upper[:0],
            rows=(),
            comparisons=tuple(replace(each, constraint=0, block=blocks[each.block]) for each in comparisons),
        )

    @cached_property
    def n_rows(self) -> int:
        """Return m, the number of rows of c."""
        return len(self.rows)

    def rates(self, S: Array) -> Array:
        """Return r(S); S may have leading dimensions."""
        parts = [
            evaluate(block.rate, group_sums(S[..., block.surrogate, :, :], self.cells, block.grouping, block.outcome))
            for block in self.blocks
        ]
        return concatenate(parts) if parts else like(np.zeros((*S.shape[:-3], 0)), S)

    def values(self, S: Array) -> Array:
        """Return c(S) = A · r(S)."""
        return self.rates(S) @ self.coefficients.T

    @cached_property
    def _constant_derivative(self) -> Array | None:
        """Return ∂c/∂S if all rates are affine in S, else None."""
        if not all(block.rate in AFFINE_RATES for block in self.blocks):
            return None
        shape = (len(self.surrogates), self.cells.n_cells, len(self.cells.outcomes))
        return self._differentiate(self.cells.totals.new_zeros(shape))[1]

    def exact(self, sums: Array) -> Array:
        """Return c̄ from sums of decisions over cells, (K, 2·O)."""
        return self.values(sums.expand(len(self.surrogates), -1, -1))

    def values_and_derivative(self, S: Array) -> tuple[Array, Array]:
        """Return c and ∂c/∂S, of shapes (m,) and (m, P, K, O)."""
        if self._constant_derivative is not None:
            return self.values(S), self._constant_derivative
        return self._differentiate(S)

    def _differentiate(self, S: Array) -> tuple[Array, Array]:
        """Return c and ∂c/∂S by autograd.

        Each entry of r is computed on its own copy of S.  So the gradient of their sum, from one backward pass, holds
        the whole of ∂r/∂S.
        """
        n_rates = self.coefficients.shape[1]
        if n_rates == 0:
            return S.new_zeros(0), S.new_zeros((0, *S.shape))
        copies = S.detach().expand(n_rates, *S.shape).clone().requires_grad_(True)
        with torch.enable_grad():
            rates = self.rates(copies).diagonal()
            (derivative,) = torch.autograd.grad(rates.sum(), copies)
        return self.coefficients @ rates.detach(), torch.tensordot(self.coefficients, derivative, dims=1)

    def gap_bound(self, S: Array, gaps: Array) -> Array:
        """Return a bound on |c̄ − c| for each row: Σ_k |∂c_j/∂S_k| · gap_k (a computable form of Theorem 1).

        `gaps` has the shape of S and holds Σ_{i in cell k} ω_i |φ_i − ŷ_i|, which bounds |S̄_k − S_k|.  The bound
        follows because c is affine in S.  For rows with other rates it is inf.
        """
        _, derivative = self.values_and_derivative(S)
        bound = (derivative.abs() * gaps).sum(dim=(1, 2, 3))
        for block in self.blocks:
            if block.rate not in AFFINE_RATES:
                bound[(self.coefficients[:, block.start : block.stop] != 0).any(dim=1)] = math.inf
        return bound

    def measured(self, S: Array) -> list[float]:
        """Return one value per constraint: the least ratio, largest difference or worst rate over groups and classes.

        If the bound is a pair, the value has a direction: r_a/r_b, r_a − r_b or the covariance with its sign.  Of all
        pairs of groups, it is the value nearest to a bound, or furthest beyond it.
        """
        rates = self.rates(S)
        numbers: list[list[float]] = [[] for _ in self.constraints]
        for comparison in self.comparisons:
            constraint = self.constraints[comparison.constraint]
            measure = resolve_measure(constraint.measure)
            part = rates[comparison.block.start : comparison.block.stop].tolist()
            directed = isinstance(constraint.bound, tuple) or measure.comparison in ("value", "covariance")
            if directed or any(math.isnan(part[a] - part[b]) for a, b in comparison.pairs):
                found = [each.value for each in self._compared(comparison, part)]
            else:
                found = [measure.scalar(part, comparison.pairs)]  # faster than pair by pair: there may be thousands
            numbers[comparison.constraint] += found
        return [_worst(constraint, found) for constraint, found in zip(self.constraints, numbers, strict=True)]

    def worst(self, S: Array) -> list[ComparedPair | None]:
        """Return for each constraint the pair of groups that determines its measured value; None if there is none."""
        rates = self.rates(S)
        compared: list[list[ComparedPair]] = [[] for _ in self.constraints]
        for comparison in self.comparisons:
            part = rates[comparison.block.start : comparison.block.stop].tolist()
            compared[comparison.constraint] += self._compared(comparison, part)
        found: list[ComparedPair | None] = []
        for constraint, candidates in zip(self.constraints, compared, strict=True):
            value = _worst(constraint, [each.value for each in candidates]) if candidates else None
            found.append(next((each for each in candidates if each.value == value), None))
        return found

    def _compared(self, comparison: GroupComparison, rates: Sequence[float]) -> list[ComparedPair]:
        constraint = self.constraints[comparison.constraint]
        covariance = resolve_measure(constraint.measure).comparison == "covariance"
        shares = _group_shares(self.cells, comparison.block.grouping) if covariance else [1.0] * len(rates)
        return [
            ComparedPair(
                comparison.block, (a, b), (rates[a], rates[b]), _number(constraint, rates[a], rates[b], shares[a])
            )
            for a, b in comparison.pairs
        ]


def _number(constraint: Constraint, a: float, b: float, share: float) -> float:
    """Return the measure of one pair of groups with rates a and b; for limits on a rate itself, a.

    `share` is the first group's share of the rows, which scales a covariance.
    """
    measure = resolve_measure(constraint.measure)
    directed = isinstance(constraint.bound, tuple)
    if measure.comparison == "value":
        return a
    if measure.comparison == "covariance":
        return share * (a - b) if directed else abs(share * (a - b))
    if directed:
        return _directed_ratio(a, b, *constraint.limits) if measure.comparison == "ratio" else a - b
    return math.nan if math.isnan(a - b) else measure.scalar((a, b), ((0, 1),))


def _directed_ratio(a: float, b: float, lower: float, upper: float) -> float:
    """Return a/b.  Two zero rates keep every limit on their ratio, so return the allowed value nearest to 1."""
    if b > 0 or math.isnan(a - b):
        return a / b
    return math.inf if a > 0 else min(max(1.0, lower), upper)


def _worst(constraint: Constraint, values: Sequence[float]) -> float:
    measure = resolve_measure(constraint.measure)
    if any(map(math.isnan, values)):
        return math.nan  # `min` and `max` would ignore NaN, depending on the order
    if measure.comparison == "value" or isinstance(constraint.bound, tuple):
        lower, upper = constraint.limits
        return min(values, key=lambda value: (min(value - lower, upper - value), value))
    return min(values) if measure.larger_is_stricter else max(values)


def _group_shares(cells: Cells, grouping: Grouping) -> list[float]:
    sizes = grouping.membership @ cells.totals.reshape(-1, cells.n_labels).sum(axis=1)
    return (sizes / sizes[-1]).tolist()


class _Compiler:
    """Collects the blocks and rows of all constraints × groupings × outcomes × rates."""

    def __init__(
        self, constraints: tuple[Constraint, ...], cells: Cells, threshold: float, *, with_rows: bool = True
    ) -> None:
        self.constraints, self.cells, self.threshold, self.with_rows = constraints, cells, threshold, with_rows
        self.surrogates: dict[DecisionSurrogate, int] = {}
        self.blocks: dict[tuple[int, str, tuple[Hashable, ...], int, RateFunction], RateBlock] = {}
        self.n_rates = 0
        self.entries: list[tuple[dict[int, float], float, float]] = []
        self.rows: list[Row] = []
        self.comparisons: list[GroupComparison] = []

    def compile(self) -> ConstraintSystem:
        for position, constraint in enumerate(self.constraints):
            for grouping in self._groupings(constraint):
                for outcome in self._outcomes(constraint):
                    for rate in resolve_measure(constraint.measure).rates:
                        self._add(position, constraint, self._block(constraint, grouping, outcome, rate))
        numbers = self.n_rates * len(self.surrogates) * self.cells.n_cells * len(self.cells.outcomes)
        if self.with_rows and numbers > MOST_NUMBERS:
            raise ValueError(
                f"Limits on {self.n_rates:,} rates of {self.cells.n_cells:,} cells (groups times labels) need "
                f"{8 * numbers / 2**30:.1f} GiB for their derivative, more than {8 * MOST_NUMBERS / 2**30:g}: limit "
                f"fewer groups or columns"
                + (", or name the classes that matter by classes=." if self.cells.n_labels > 2 else ".")
            )
        coefficients = np.zeros((len(self.entries), self.n_rates))
        for row, (entry, _, _) in enumerate(self.entries):
            for column, coefficient in entry.items():
                coefficients[row, column] += coefficient
        return ConstraintSystem(
            constraints=self.constraints,
            cells=self.cells,
            threshold=self.threshold,
            surrogates=tuple(self.surrogates),
            blocks=tuple(self.blocks.values()),
            coefficients=like(coefficients, self.cells.totals),
            lower=like(np.array([low for _, low, _ in self.entries], dtype=np.float64), self.cells.totals),
            upper=like(np.array([high for _, _, high in self.entries], dtype=np.float64), self.cells.totals),
            rows=tuple(self.rows),
            comparisons=tuple(self.comparisons),
        )

    def _groupings(self, constraint: Constraint) -> list[Grouping]:
        if constraint.columns is None:
            groupings = list(self.cells.groupings)
            wanted = constraint.reference if constraint.reference is not None else constraint.group
            if wanted is not None and len(groupings) > 1:
                # The limit applies to the columns that have the named group.
                groupings = [g for g in groupings if g.find(wanted) is not None]
                if not groupings:
                    known = "; ".join(f"{g.name}: {', '.join(map(str, g.groups))}" for g in self.cells.groupings)
                    raise ValueError(f"{constraint}: unknown group {wanted!r}. Known groups: {known}.")
        else:
            groupings = [self.cells.grouping(column) for column in constraint.columns]
        if constraint.group is not None:
            # The rate may be undefined for the other groups, which are not limited.
            groupings = [grouping.only(constraint.group) for grouping in groupings]
        measure = resolve_measure(constraint.measure)
        for grouping in groupings:
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

    def _block(self, constraint: Constraint, grouping: Grouping, outcome: int, rate: RateFunction) -> RateBlock:
        measure = resolve_measure(constraint.measure)
        surrogate = resolve_surrogate(constraint.surrogate or measure.default_surrogate)
        index = self.surrogates.setdefault(
            DecisionSurrogate(surrogate, constraint.margin, self.threshold), len(self.surrogates)
        )
        key = (index, grouping.name, grouping.groups, outcome, rate)
        if key not in self.blocks:
            undefined = undefined_groups(rate, self.cells, grouping, outcome) if self.with_rows else []
            for position in undefined:
                group = grouping.groups[position]
                counts = self.cells.group_counts()[grouping.name][group]
                has = ", ".join(f"{count:g} with label {label!r}" for label, count in counts.items())
                raise ValueError(
                    f"{measure.name} is undefined for group {group!r} of {grouping.name!r}, which has rows: {has}. "
                    "Merge it with another group or leave it out (mark it as missing)."
                )
            self.blocks[key] = RateBlock(index, grouping, outcome, rate, self.n_rates)
            self.n_rates += len(grouping.groups) + 1
        return self.blocks[key]

    def _add(self, position: int, constraint: Constraint, block: RateBlock) -> None:
        measure = resolve_measure(constraint.measure)
        grouping, start = block.grouping, block.start
        n_groups = len(grouping.groups)
        names = [group_text(group) for group in (*grouping.groups, None)]
        lower, upper = constraint.limits
        rate_name = getattr(block.rate, "__name__", measure.name)
        one_class = self.cells.n_labels > 2 and measure.per_class
        where = f", class {self.cells.classes[block.outcome]}" if one_class else ""

        def rate_of(group: int) -> str:
            return f"{rate_name}({names[group]}{where})"

        def add(entry: dict[int, float], low: float, high: float, text: str) -> None:
            if not self.with_rows:
                return
            self.entries.append(({start + column: value for column, value in entry.items()}, low, high))
            self.rows.append(Row(position, f"{constraint} [{grouping.name}]: {text}"))

        if measure.comparison == "value":
            pairs = [(a, a) for a in range(n_groups)]
            for a in range(n_groups):
                add({a: 1.0}, lower, upper, _between(lower, rate_of(a), upper))
        else:
            reference = None if constraint.reference is None else grouping.position(constraint.reference)
            against = constraint.against if reference is None else "reference"
            if measure.comparison == "covariance":
                shares = _group_shares(self.cells, grouping)
                # With two groups both rows are equal up to the sign: keep the second, which is the paper's s = 1.
                pairs = compared_pairs(n_groups, "overall")[1 if n_groups == 2 else 0 :]
                for a, b in pairs:
                    text = _between(lower, f"cov({rate_of(a)})", upper)
                    add({a: shares[a], b: -shares[a]}, lower, upper, text)
            else:
                pairs = compared_pairs(n_groups, against, reference)
                for a, b in pairs:
                    if measure.comparison == "difference" or constraint.bound is None:
                        add({a: 1.0, b: -1.0}, lower, upper, _between(lower, f"{rate_of(a)} - {rate_of(b)}", upper))
                        continue
                    # δ·r_b ≤ r_a, and r_a ≤ r_b/δ as δ·r_a ≤ r_b, so that both rows have the scale of the paper.
                    if lower > 0:
                        add({b: lower, a: -1.0}, -math.inf, 0.0, f"{lower:g} {rate_of(b)} <= {rate_of(a)}")
                    if math.isfinite(upper):
                        inverse = lower if not isinstance(constraint.bound, tuple) else 1.0 / upper
                        add({a: inverse, b: -1.0}, -math.inf, 0.0, f"{inverse:g} {rate_of(a)} <= {rate_of(b)}")
        self.comparisons.append(GroupComparison(position, block, tuple(pairs)))


def _between(lower: float, text: str, upper: float) -> str:
    left = f"{lower:g} <= " if math.isfinite(lower) else ""
    right = f" <= {upper:g}" if math.isfinite(upper) else ""
    return f"{left}{text}{right}"
