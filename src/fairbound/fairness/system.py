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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairbound._values import torch
from fairbound.fairness.cells import Cells
from fairbound.fairness.columns import Array, concatenate, like
from fairbound.fairness.compiler import Compiler, GroupComparison, RateBlock, Row, group_shares
from fairbound.fairness.constraints import KEPT_TOLERANCE, Constraint
from fairbound.fairness.decisions import DecisionSurrogate, check_threshold, group_sums
from fairbound.fairness.measures import AFFINE_RATES, evaluate, resolve_measure
from fairbound.fairness.text import as_constraints, distinct_texts


@dataclass(frozen=True)
class ComparedPair:
    """Two groups of a block (the last place is everyone), their rates, and the measure of the pair."""

    block: RateBlock
    places: tuple[int, int]
    rates: tuple[float, float]
    value: float


class LimitValues(NamedTuple):
    """Values c and c̄ of a model; the violations of both; the measured values; whether all limits are kept."""

    surrogate: Array
    exact: Array
    beyond: tuple[Array, Array]
    measured: list[float]
    kept: bool


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
        return cls._of(Compiler(constraints, cells, threshold))

    @classmethod
    def compare(cls, constraints: Iterable[Constraint], cells: Cells) -> ConstraintSystem:
        """Compile which groups each constraint compares, without the rows of c.

        This is enough to judge counted decisions.  The caller must handle groups in which a rate is undefined.
        """
        constraints = tuple(constraints)
        if constraints and not cells.groupings:
            raise ValueError("Constraints need groups: pass sensitive_features.")
        return cls._of(Compiler(constraints, cells, 0.5, with_rows=False))

    @classmethod
    def _of(cls, compiled: Compiler) -> ConstraintSystem:
        """Return the system, with arrays of the same type as those of the cells: numpy or torch."""
        totals = compiled.cells.totals
        lower, upper = compiled.bounds()
        return cls(
            constraints=compiled.constraints,
            cells=compiled.cells,
            threshold=compiled.threshold,
            surrogates=tuple(compiled.surrogates),
            blocks=tuple(compiled.blocks.values()),
            coefficients=like(compiled.coefficients(), totals),
            lower=like(lower, totals),
            upper=like(upper, totals),
            rows=tuple(compiled.rows),
            comparisons=tuple(compiled.comparisons),
        )

    def smoothed(self, surrogate: DecisionSurrogate) -> ConstraintSystem:
        """Return the same limits with every decision replaced by one surrogate."""
        found = replace(
            self,
            surrogates=(surrogate,) if self.surrogates else (),
            blocks=tuple(replace(block, surrogate=0) for block in self.blocks),
        )
        if len(found.surrogates) == len(self.surrogates):  # c is the same function of S
            vars(found).update((name, getattr(self, name)) for name in ("_affine", "change_by_a_row", "texts"))
        return found

    def select(self, positions: Sequence[int]) -> ConstraintSystem:
        """Return the system of some of the constraints, by their positions, without rows of c."""
        places = {position: place for place, position in enumerate(positions)}
        comparisons = [each for each in self.comparisons if each.constraint in places]
        blocks: dict[RateBlock, RateBlock] = {}
        start = 0
        for block in dict.fromkeys(each.block for each in comparisons):
            blocks[block] = replace(block, start=start)
            start = blocks[block].stop
        return replace(
            self,
            constraints=tuple(self.constraints[position] for position in positions),
            blocks=tuple(blocks.values()),
            coefficients=self.coefficients[:0, :start],
            lower=self.lower[:0],
            upper=self.upper[:0],
            rows=(),
            comparisons=tuple(
                replace(each, constraint=places[each.constraint], block=blocks[each.block]) for each in comparisons
            ),
        )

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Return the constraints as text, each different from the others."""
        return tuple(distinct_texts(self.constraints))

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
        """Return c(S) = A · r(S).  S is a tensor, and may have leading dimensions."""
        if self._affine is None:
            return self.rates(S) @ self.coefficients.T
        constant, derivative = self._affine
        return constant + S.flatten(-3) @ derivative.flatten(1).T

    @cached_property
    def _affine(self) -> tuple[Array, Array] | None:
        """Return c(0) and ∂c/∂S if all rates are affine in S, else None.

        Solvers evaluate c thousands of times; one small product is much faster than the rates of all groups.
        """
        if not all(block.rate in AFFINE_RATES for block in self.blocks):
            return None
        shape = (len(self.surrogates), self.cells.n_cells, len(self.cells.outcomes))
        return self._differentiate(self.cells.totals.new_zeros(shape))

    def exact(self, sums: Array) -> Array:
        """Return c̄ from sums of decisions over cells, (K, 2·O).  It uses the same rates as `measured`."""
        return self.rates(sums.expand(len(self.surrogates), -1, -1)) @ self.coefficients.T

    def values_and_derivative(self, S: Array) -> tuple[Array, Array]:
        """Return c and ∂c/∂S, of shapes (m,) and (m, P, K, O)."""
        if self._affine is not None:
            return self.values(S), self._affine[1]
        return self._differentiate(S)

    def evaluate(self, S: Array, sums: Array) -> tuple[LimitValues, Array]:
        """Return the values of the limits and ∂c/∂S, from the sums of one pass over the rows."""
        c, derivative = self.values_and_derivative(S)
        return self._judge(c, sums), derivative

    def _differentiate(self, S: Array) -> tuple[Array, Array]:
        """Return c and ∂c/∂S by autograd.

        Entry r_i is computed from copy i of S.  The gradient of Σ r_i with respect to copy i is then ∂r_i/∂S, so one
        backward pass gives all of ∂r/∂S.
        """
        n_rates = self.coefficients.shape[1]
        if n_rates == 0:
            return S.new_zeros(0), S.new_zeros((0, *S.shape))
        copies = S.detach().expand(n_rates, *S.shape).clone().requires_grad_(True)
        with torch.enable_grad():
            rates = self.rates(copies).diagonal()
            (derivative,) = torch.autograd.grad(rates.sum(), copies)
        return self.coefficients @ rates.detach(), torch.tensordot(self.coefficients, derivative, dims=1)

    @cached_property
    def change_by_a_row(self) -> Array:
        """Return the largest change that the decision of the lightest row can make in each row of c̄, of shape (m,).

        A decision changes one cell sum by the weight of its row, so it changes c̄ by at most weight · max |∂c/∂S|.  The
        derivative is constant for affine rates; for quotients of sums it is taken at S = N/2.
        """
        if not self.rows:
            return self.cells.totals.new_zeros(0)
        halves = 0.5 * self.cells.totals[None, :, None].expand(len(self.surrogates), -1, len(self.cells.outcomes))
        _, derivative = self.values_and_derivative(halves)
        return self.cells.smallest_weight * derivative.abs().flatten(1).amax(dim=1)

    def rate_spread(self, indicators: Array, added: float = 0.5) -> Array:
        """Return the covariance of the exact rates over independent draws of the rows, of shape (R, R).

        Each row falls into one entry of a table T: its cell, and the decision about it.  For n independent rows the
        covariance of T is diag(Σω²) − T·Tᵀ/n.  Let D be the derivative of the rates with respect to T.  A rate does not
        change if all entries are multiplied by the same number, so D · T = 0 (Euler's theorem), and the second term
        vanishes.  To first order, the covariance of the rates is D · diag(Σω²) · Dᵀ.

        Half a row is added to each entry of a cell that has rows.  Otherwise a rate of 0 in a small group would seem to
        be known exactly.  If the model decides the same for every row, its rates *are* known exactly: set `added` to 0.
        A row that is divided among groups changes several entries at once.  It contributes v·vᵀ with v = D · (its
        weights in the entries).

        Parameters
        ----------
        indicators : Tensor of shape (n, 2·O)
            Which rows are selected for each outcome, and which are not.
        added : float
            Number of rows to add to each entry.
        """
        cells = self.cells
        n_outcomes = len(cells.outcomes)
        columns = slice(None) if n_outcomes == 1 else slice(n_outcomes)
        row = float(cells.totals.sum()) / cells.n_rows
        some = (cells.totals > 0)[:, None]

        def rates(table: Array) -> Array:
            totals = table.sum(dim=1)
            sums = table if n_outcomes == 1 else torch.cat([table, totals[:, None] - table], dim=1)
            counted = replace(self, cells=replace(self.cells, totals=totals))
            return counted.rates(sums.expand(len(self.surrogates), -1, -1))

        table = torch.where(some, cells.sums(indicators)[:, columns] + added * row, 0.0)
        slopes = torch.autograd.functional.jacobian(rates, table).flatten(1)
        slopes = torch.where(torch.isfinite(slopes), slopes, 0.0)
        squares = added * row**2 * some.expand_as(table)
        if cells.division is None:
            squares = squares + replace(cells, weights=cells.weights.square()).sums(indicators)[:, columns]
        spread = (slopes * squares.flatten()) @ slopes.T
        if cells.division is not None:
            entry = cells.index * table.shape[1] + indicators[:, columns].argmax(dim=1)
            rows = torch.from_numpy(np.unique(cells.division.rows, return_inverse=True)[1])
            moved = slopes.new_zeros(len(slopes), cells.n_rows).index_add(1, rows, cells.weights * slopes[:, entry])
            spread = spread + moved @ moved.T
        return spread

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
        return self._measured(self.rates(S))

    def _measured(self, rates: Array) -> list[float]:
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

    def judge(self, S: Array, sums: Array) -> LimitValues:
        """Compare the surrogate values c, and the exact values of decisions, with the bounds.

        `sums` holds the sums of decisions over cells, of shape (K, 2·O).
        """
        return self._judge(self.values(S), sums)

    def _judge(self, c: Array, sums: Array) -> LimitValues:
        rates = self.rates(sums.expand(len(self.surrogates), -1, -1))
        measured, exact = self._measured(rates), rates @ self.coefficients.T
        kept = all(limit.keeps(value) for limit, value in zip(self.constraints, measured, strict=True))
        if any(limit.reserve for limit in self.constraints):  # a reserve tightens rows of c, not the bound of the limit
            kept = kept and bool(
                ((exact >= self.lower - KEPT_TOLERANCE) & (exact <= self.upper + KEPT_TOLERANCE)).all()
            )
        both = torch.stack([c, exact])
        beyond = (both - both.clamp(self.lower, self.upper)).abs()
        return LimitValues(c, exact, (beyond[0], beyond[1]), measured, kept)

    def worst(self, S: Array) -> list[ComparedPair | None]:
        """Return, for each constraint, the pair of groups that determines its measured value; None if there is none."""
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
        shares = group_shares(self.cells, comparison.block.grouping) if covariance else [1.0] * len(rates)
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
        return math.nan  # the result of `min` and `max` with a NaN depends on the order of the values
    if measure.comparison == "value" or isinstance(constraint.bound, tuple):
        lower, upper = constraint.limits
        return min(values, key=lambda value: (min(value - lower, upper - value), value))
    return min(values) if measure.larger_is_stricter else max(values)
