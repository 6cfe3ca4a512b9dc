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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness.cells import Cells
from fairbound.fairness.compiler import Compiler, GroupComparison, RateBlock, Row, group_shares
from fairbound.fairness.constraints import Constraint, Quota
from fairbound.fairness.decisions import DecisionSurrogate, check_threshold, decision_indicators
from fairbound.fairness.measures import resolve_measure
from fairbound.fairness.rates import AFFINE_RATES, differentiate, evaluate, mean, selection_rate
from fairbound.fairness.row_functions import RowFunction, RowLossOf
from fairbound.fairness.sums import group_sums
from fairbound.fairness.text import as_constraints, distinct_texts

Array = NDArray[np.float64]

PAIRS_AT_ONCE = 256
"""Pairs of groups that are compared at once for many draws, which bounds the memory."""

SMOOTH = 1e-6
"""The change that stands for a row where c̄ does not jump, as for means of predictions."""


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
    surrogates: tuple[RowFunction, ...]
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
        return cls._of(Compiler(constraints, cells, threshold))

    @classmethod
    def compare(cls, constraints: Iterable[Constraint], cells: Cells) -> ConstraintSystem:
        """Compile which groups each constraint compares, without the rows of c.

        This is enough to judge counted decisions.  The caller must handle groups in which a rate is undefined.
        """
        constraints = tuple(constraints)
        return cls._of(Compiler(constraints, cells, 0.5, with_rows=False))

    @classmethod
    def _of(cls, compiled: Compiler) -> ConstraintSystem:
        lower, upper = compiled.bounds()
        return cls(
            constraints=compiled.constraints,
            cells=compiled.cells,
            threshold=compiled.threshold,
            surrogates=tuple(compiled.surrogates),
            blocks=tuple(compiled.blocks.values()),
            coefficients=compiled.coefficients(),
            lower=lower,
            upper=upper,
            rows=tuple(compiled.rows),
            comparisons=tuple(compiled.comparisons),
        )

    def smoothed(self, bandwidth: float) -> ConstraintSystem:
        """Return the same limits with every decision smoothed alike."""
        places: dict[RowFunction, int] = {}
        for each in self.surrogates:
            places.setdefault(each.smoothed(bandwidth), len(places))
        found = replace(
            self,
            surrogates=tuple(places),
            blocks=tuple(
                replace(block, surrogate=places[self.surrogates[block.surrogate].smoothed(bandwidth)])
                for block in self.blocks
            ),
        )
        if len(found.surrogates) == len(self.surrogates):  # c is the same function of S
            same = "_affine", "_judged_lower", "change_by_a_row", "kept_constants", "texts"
            vars(found).update((name, getattr(self, name)) for name in same)
        return found

    def functions(self, loss: Any = None) -> list[RowFunction]:
        """Return the surrogates, where that of the loss of a row is this loss."""
        return [RowLossOf(loss) if isinstance(each, RowLossOf) else each for each in self.surrogates]

    @property
    def bounded(self) -> bool:
        """Return whether all functions of rows are shares, from 0 to 1."""
        return all(each.jumps for each in self.surrogates)

    @property
    def counts_decisions(self) -> bool:
        """Return whether all limits are about the decisions of the model, and about nothing else of a row."""
        return all(isinstance(each, DecisionSurrogate) and each.threshold == self.threshold for each in self.surrogates)

    @property
    def has_means(self) -> bool:
        """Return whether all rates are means over the rows of a group, so that `spread_of_means` knows their spread."""
        return all(block.rate in (mean, selection_rate) for block in self.blocks)

    def sums_of(self, z: Array, y: Any, loss: Any = None) -> Array:
        """Return the sums by which limits are judged, from the outputs of rows and their targets, (P, K, 2·O)."""
        whole = self.cells.totals[:, None]
        found = [self.cells.sums(each.exact(z, y)) for each in self.functions(loss)]
        return np.stack([np.hstack([each, whole - each]) for each in found])

    def spread_of_means(self, z: Array, y: Any, loss: Any = None) -> Array:
        """Return the covariance of rates that are means of functions of rows, over independent draws, (R, R)."""
        cells, parts = self.cells, []
        functions, atoms = self.functions(loss), self.cells.index // self.cells.n_labels
        for block in self.blocks:
            member = block.grouping.membership[:, atoms] * cells.weights  # (G + 1, n)
            values = functions[block.surrogate].exact(z, y)[:, 0]
            size, sums = cells.total(np.stack([member.sum(axis=1), member @ values]))[:, :, None]
            parts.append(member * (values - sums / size) / size)
        moved = np.concatenate(parts)
        return _products(moved, cells)

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
        return np.concatenate(parts, axis=-1) if parts else np.zeros((*S.shape[:-3], 0))

    def values(self, S: Array) -> Array:
        """Return c(S) = A · r(S).  S may have leading dimensions."""
        if self._affine is None:
            return self.rates(S) @ self.coefficients.T
        constant, derivative = self._affine
        size = math.prod(S.shape[-3:])
        return constant + S.reshape(*S.shape[:-3], size) @ derivative.reshape(len(derivative), size).T

    @cached_property
    def _affine(self) -> tuple[Array, Array] | None:
        """Return c(0) and ∂c/∂S if all rates are affine in S, else None.

        Solvers evaluate c thousands of times; one small product is much faster than the rates of all groups.
        """
        if not all(block.rate in AFFINE_RATES for block in self.blocks):
            return None
        shape = (len(self.surrogates), self.cells.n_cells, len(self.cells.outcomes))
        return self._differentiate(np.zeros(shape))

    def exact(self, sums: Array) -> Array:
        """Return c̄ from sums of decisions over cells, (K, 2·O).  It uses the same rates as `measured`."""
        return self.decided_rates(sums) @ self.coefficients.T

    def decided_rates(self, sums: Array) -> Array:
        """Return the rates of decisions, from their sums over cells, (K, 2·O).

        Where limits are about other functions of rows as well, the sums are those of each, (P, K, 2·O).
        """
        if sums.ndim == 2 and not self.counts_decisions:
            raise ValueError(f"{', '.join(self.texts)}: decisions alone do not say whether scores keep a limit.")
        return self.rates(np.broadcast_to(sums, (len(self.surrogates), *sums.shape[-2:])))

    def rates_of(self, decisions: NDArray[np.int64]) -> Array:
        """Return the exact rates of decisions about the entries of the cells."""
        return self.decided_rates(self.cells.decided(decisions))

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
        """Return c and ∂c/∂S."""
        rates = np.zeros(self.coefficients.shape[1])
        slopes = np.zeros((len(rates), *S.shape))
        for block in self.blocks:
            place, cells = slice(block.start, block.stop), self.cells
            sums = group_sums(S[block.surrogate], cells, block.grouping, block.outcome)
            rates[place], found = differentiate(block.rate, sums, cells, block.grouping, block.outcome)
            slopes[place, block.surrogate] = found.by_sum(cells, block.outcome)
        return self.coefficients @ rates, np.tensordot(self.coefficients, slopes, axes=1)

    @cached_property
    def change_by_a_row(self) -> Array:
        """Return the largest change that the decision of the lightest row can make in each row of c̄, of shape (m,).

        A decision changes one cell sum by the weight of its row, so it changes c̄ by at most weight · max |∂c/∂S|.  The
        derivative is constant for affine rates; for quotients of sums it is taken at S = N/2.
        """
        if not self.rows:
            return np.zeros(0)
        shape = (len(self.surrogates), self.cells.n_cells, len(self.cells.outcomes))
        _, derivative = self.values_and_derivative(np.broadcast_to(0.5 * self.cells.totals[:, None], shape))
        jumps = np.array([each.jumps for each in self.surrogates], dtype=bool)
        found = self.cells.smallest_weight * np.abs(derivative * jumps[:, None, None]).max(axis=(1, 2, 3))
        return found if jumps.all() else np.where(found > 0.0, found, SMOOTH)

    def rate_spread(self, decisions: NDArray[np.int64], added: float = 0.5) -> Array:
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
        decisions : array of shape (n,)
        added : float
            Number of rows to add to each entry.
        """
        cells, indicators = self.cells, decision_indicators(decisions, self.cells.outcomes)
        columns = slice(None) if cells.n_labels == 2 else slice(cells.n_labels)  # one for each decision
        row = float(cells.totals.sum()) / cells.n_rows
        some = (cells.totals > 0)[:, None]
        table = np.where(some, cells.sums(indicators)[:, columns] + added * row, 0.0)
        counted = replace(cells, totals=table.sum(axis=1))
        slopes = np.zeros((self.coefficients.shape[1], cells.n_cells, cells.n_labels))
        for block in self.blocks:
            sums = group_sums(_as_decided(table), counted, block.grouping, block.outcome)
            _, found = differentiate(block.rate, sums, counted, block.grouping, block.outcome)
            slopes[block.start : block.stop] = found.by_decision(counted, block.outcome)
        if cells.n_labels == 2:
            slopes = slopes[:, :, ::-1]  # the column of the selected rows comes first
        by_entry = np.where(np.isfinite(slopes), slopes, 0.0).reshape(len(slopes), table.size)
        squares = added * row**2 * np.broadcast_to(some, table.shape)
        if cells.division is None:
            squares = squares + replace(cells, weights=np.square(cells.weights)).sums(indicators)[:, columns]
        spread = (by_entry * squares.reshape(-1)) @ by_entry.T
        if cells.division is not None:
            entry = cells.index * table.shape[1] + indicators[:, columns].argmax(axis=1)
            rows = np.unique(cells.division.rows, return_inverse=True)[1]
            moved = np.stack([np.bincount(rows, cells.weights * each[entry]) for each in by_entry])
            spread = spread + _products(moved, cells)
        return spread

    def gap_bound(self, S: Array, gaps: Array) -> Array:
        """Return a bound on |c̄ − c| for each row: Σ_k |∂c_j/∂S_k| · gap_k (a computable form of Theorem 1).

        `gaps` has the shape of S and holds Σ_{i in cell k} ω_i |φ_i − ŷ_i|, which bounds |S̄_k − S_k|.  The bound
        follows because c is affine in S.  For rows with other rates it is inf.
        """
        _, derivative = self.values_and_derivative(S)
        bound = (np.abs(derivative) * gaps).sum(axis=(1, 2, 3))
        for block in self.blocks:
            if block.rate not in AFFINE_RATES:
                bound[(self.coefficients[:, block.start : block.stop] != 0).any(axis=1)] = math.inf
        return bound

    def measured(self, S: Array) -> list[float]:
        """Return one value per constraint: the least ratio, largest difference or worst rate over groups and classes.

        If the bound is a pair, the value has a direction: r_a/r_b, r_a − r_b or the covariance with its sign.  Of all
        pairs of groups, it is the value nearest to a bound, or furthest beyond it.
        """
        return self._measured(self.rates(S))

    def _measured(self, rates: Array) -> list[float]:
        return [math.nan if each is None else each.value for each in self._worst(rates)]

    def judge(self, S: Array, sums: Array) -> LimitValues:
        """Compare the surrogate values c, and the exact values of decisions, with the bounds.

        `sums` holds the sums of decisions over cells, of shape (K, 2·O).
        """
        return self._judge(self.values(S), sums)

    def _judge(self, c: Array, sums: Array) -> LimitValues:
        rates, lower = self.decided_rates(sums), self._judged_lower
        measured, exact = self._measured(rates), rates @ self.coefficients.T
        kept = all(limit.keeps(value) for limit, value in zip(self.constraints, measured, strict=True))
        if any(limit.reserve for limit in self.constraints):  # a reserve tightens rows of c, not the bound of the limit
            few = np.array([self.constraints[row.constraint].tolerance for row in self.rows])
            kept = kept and bool(((exact >= lower - few) & (exact <= self.upper + few)).all())
        beyond = tuple(np.maximum(np.maximum(each - self.upper, lower - each), 0.0) for each in (c, exact))
        return LimitValues(c, exact, (beyond[0], beyond[1]), measured, kept)

    @cached_property
    def quota(self) -> float | None:
        """Return the share of the rows that is to be selected; None without a quota."""
        return next((each.share for each in self.constraints if isinstance(each, Quota)), None)

    @cached_property
    def _judged_lower(self) -> Array:
        """Return the lower bounds by which decisions are judged: fewer rows than a quota are allowed, for ties."""
        free = [isinstance(self.constraints[row.constraint], Quota) for row in self.rows]
        return np.where(np.array(free, dtype=bool), -math.inf, self.lower)

    @cached_property
    def kept_constants(self) -> tuple[int, ...]:
        """Return the classes whose constant decision keeps every limit."""
        if self.quota is not None or any(isinstance(each, RowLossOf) for each in self.surrogates):
            return ()
        outcomes, totals = np.array(self.cells.outcomes), self.cells.totals[:, None]
        found = []
        for constant in range(self.cells.n_labels):
            counts = totals * np.concatenate([outcomes == constant, outcomes != constant])
            alike = np.broadcast_to(counts, (len(self.surrogates), *counts.shape))
            measured = self._measured(self.decided_rates(alike))
            if all(limit.keeps(value) for limit, value in zip(self.constraints, measured, strict=True)):
                found.append(constant)
        return tuple(found)

    def worst(self, S: Array) -> list[ComparedPair | None]:
        """Return, for each constraint, the pair of groups that determines its measured value; None if there is none."""
        return self._worst(self.rates(S))

    def _worst(self, rates: Array) -> list[ComparedPair | None]:
        found: list[list[ComparedPair]] = [[] for _ in self.constraints]
        for comparison in self.comparisons:
            place, value = (each[()] for each in self._worst_of(comparison, comparison.pairs, rates))
            a, b = comparison.pairs[place]
            first, second = (float(rates[comparison.block.start + each]) for each in (a, b))
            pair = ComparedPair(comparison.block, (a, b), (first, second), float(value))
            found[comparison.constraint].append(pair)
        return [
            each[int(_furthest(constraint, np.array([pair.value for pair in each])))] if each else None
            for constraint, each in zip(self.constraints, found, strict=True)
        ]

    def drawn(self, position: int, rates: Array) -> Array:
        """Return the measured value of one constraint for each of many draws of the rates, (draws, R)."""
        constraint = self.constraints[position]
        parts = [
            self._worst_of(comparison, comparison.pairs[start : start + PAIRS_AT_ONCE], rates)[1]
            for comparison in self.comparisons
            if comparison.constraint == position
            for start in range(0, len(comparison.pairs), PAIRS_AT_ONCE)
        ]
        values = np.stack(parts, axis=-1)
        return np.take_along_axis(values, _furthest(constraint, values)[:, None], axis=-1)[:, 0]

    def _worst_of(
        self, comparison: GroupComparison, pairs: Sequence[tuple[int, int]], rates: Array
    ) -> tuple[NDArray[np.intp], Array]:
        """Return the place of the pair that determines the value of some pairs, and that value; for each draw."""
        block, constraint = comparison.block, self.constraints[comparison.constraint]
        first, second = np.moveaxis(rates[..., block.start : block.stop][..., np.array(pairs)], -1, 0)
        shares = np.ones(len(pairs))
        if resolve_measure(constraint.measure).comparison == "covariance":
            shares = np.array(group_shares(self.cells, block.grouping))[[a for a, _ in pairs]]
        values = _of_pairs(constraint, first, second, shares)
        place = _furthest(constraint, values)
        return place, np.take_along_axis(values, place[..., None], axis=-1)[..., 0]


def _products(moved: NDArray[Any], cells: Cells) -> Array:
    """Return the sum of v·vᵀ over all rows, without the last digits, which depend on the order of the rows."""
    found = cells.total(moved @ moved.T)
    step = 2.0 ** (math.frexp(float(np.abs(found).max(initial=0.0)))[1] - 40)
    return np.round(found / step) * step


def _as_decided(table: Array) -> Array:
    """Return the sums over cells, (K, 2·O), from the rows of each cell that were decided each way."""
    return table if table.shape[1] == 2 else np.hstack([table, table.sum(axis=1, keepdims=True) - table])


def _of_pairs(constraint: Constraint, first: Array, second: Array, shares: Array) -> Array:
    """Return the measure of each pair of groups; for limits on a rate itself, the first rate.

    If the bound is a pair, the value has a direction.  A covariance has the shares of the first groups as a factor.
    """
    measure = resolve_measure(constraint.measure)
    if measure.comparison == "value":
        return first
    if not isinstance(constraint.bound, tuple):
        return shares * measure.compare(first, second)
    if measure.comparison != "ratio":
        return shares * (first - second)
    # Two zero rates keep every limit on their ratio: the allowed value nearest to 1.
    nobody = np.where(first > 0, math.inf, np.clip(1.0, *constraint.limits))
    return np.divide(first, second, out=nobody, where=(second > 0) | np.isnan(first - second))


def _furthest(constraint: Constraint, values: Array) -> NDArray[np.intp]:
    """Return the place of the value nearest to a bound, or furthest beyond it; of the first NaN, if there is any."""
    measure, unknown = resolve_measure(constraint.measure), np.isnan(values)
    if measure.comparison == "value" or isinstance(constraint.bound, tuple):
        lower, upper = constraint.limits
        with np.errstate(invalid="ignore"):
            room = np.fmin(values - lower, upper - values)
        place = np.lexsort((values, room), axis=-1)[..., 0]
    else:
        place = values.argmin(axis=-1) if measure.larger_is_stricter else values.argmax(axis=-1)
    return np.where(unknown.any(axis=-1), unknown.argmax(axis=-1), place)
