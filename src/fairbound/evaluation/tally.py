"""Decisions counted over cells, and what each rate is a share *of*.

The rates themselves are those of `fairbound.fairness.rates`, evaluated on sums of decisions (c̄, the exact measures: the
formulas of training with the step in place of its surrogate).  An interval needs one fact more: the whole that a rate
is a share of, `WHOLES`.  The part is then rate × whole, and no rate is written a second time.

A rate of the user's own has an interval if it is declared *monotone*: it depends on a group's share of positives, its
true-positive rate and its false-positive rate alone, and moves one way in each of them while the others rest.  Then its
extremes over a box of the three, each a share with an interval of its own, are taken at corners of the box.

Conventions
-----------
Lists of statistics have one entry per group of a grouping, and last everyone whose group is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairbound._errors import bad_value
from fairbound.evaluation.intervals import Share, Statistic, WeightedShare
from fairbound.evaluation.matching import match_decisions
from fairbound.fairness import (
    Cells,
    Combine,
    ComparedPair,
    Constraint,
    ConstraintSystem,
    Grouping,
    GroupSums,
    RateFunction,
    accuracy,
    evaluate,
    false_negative_rate,
    false_positive_rate,
    group_sums,
    negative_predictive_value,
    precision,
    selection_rate,
    share_of_selected,
    true_negative_rate,
    true_positive_rate,
)

WHOLES: dict[RateFunction, Callable[[GroupSums], np.ndarray]] = {
    selection_rate: lambda g: g.size,
    true_positive_rate: lambda g: g.positives,
    false_negative_rate: lambda g: g.positives,
    false_positive_rate: lambda g: g.negatives,
    true_negative_rate: lambda g: g.negatives,
    precision: lambda g: g.selected,
    negative_predictive_value: lambda g: g.rejected,
    accuracy: lambda g: g.size,
    share_of_selected: lambda g: np.broadcast_to(g.selected[..., -1:], g.selected.shape),
}
"""What each rate is a share of."""


MERGED = "(other)"
"""The name of the group that small groups are merged into."""


def _share_of_positives(g: GroupSums) -> np.ndarray:
    return g.positives / g.size


@dataclass(frozen=True)
class MonotoneRate:
    """A user's rate, bounded through the three shares that determine it."""

    rate: RateFunction
    value: float
    shares: tuple[Statistic, Statistic, Statistic]
    two_classes: bool
    n_rates = 3

    def lower(self, level: float) -> float:
        """Return the least value at the corners, each share's interval erring with a third of the level."""
        return self.interval(level / 3.0)[0]

    def upper(self, level: float) -> float:
        """Return the largest value at the corners, each share's interval erring with a third of the level."""
        return self.interval(level / 3.0)[1]

    def interval(self, level: float) -> tuple[float, float]:
        """Return the extremes over the box of the three intervals, each of which errs at that level."""
        corners = np.array(list(itertools.product(*(share.interval(level) for share in self.shares))))
        positives, true_positives, false_positives = corners.T[..., None]
        selected_positives, selected_negatives = positives * true_positives, (1.0 - positives) * false_positives
        rejected_positives, rejected_negatives = positives - selected_positives, 1.0 - positives - selected_negatives
        sums = GroupSums(
            selected_positives=selected_positives,
            selected_negatives=selected_negatives,
            rejected_positives=rejected_positives,
            rejected_negatives=rejected_negatives,
            positives=positives,
            negatives=1.0 - positives,
            correct=selected_positives + rejected_negatives,
            one_row=1e-12,
        )
        if not self.two_classes:  # the three shares do not tell how many rows are right: a rate of that is not bounded
            sums = replace(sums, correct=np.full_like(sums.correct, math.nan))
        values = evaluate(self.rate, sums)
        if not np.isfinite(values).all():
            return -math.inf, math.inf
        return float(values.min()), float(values.max())

    def scaled(self, factor: float) -> MonotoneRate:
        """Return the same rates on `factor` times as many rows."""
        first, second, third = (share.scaled(factor) for share in self.shares)
        return replace(self, shares=(first, second, third))


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums of decisions over cells: of ones, and with weights also of w and w².  Build it with `Tally.build`.

    Attributes
    ----------
    powers : tuple of (Cells, np.ndarray of shape (K, 2·O))
        Cells weighted by w⁰ (rows of positive weight), and with weights by w and w², each with its sums.
    largest_weight : float or None
        The bound of the weights, None where rows count equally.
    merged : dict
        For each grouping the groups that were too small and merged into one, with their rows.
    min_group_size : int
        Rows below which groups are merged.
    """

    powers: tuple[tuple[Cells, np.ndarray], ...]
    largest_weight: float | None
    merged: dict[str, dict[Hashable, int]] = field(default_factory=dict)
    min_group_size: int = 1

    @classmethod
    def build(
        cls,
        y: Any,
        prediction: Any,
        sensitive_features: Any,
        *,
        sample_weight: Any = None,
        largest_weight: float | None = None,
        groups: Combine = "each",
        pos_label: Hashable | None = None,
        positive_decision: Hashable | None = None,
        min_group_size: int = 1,
    ) -> Tally:
        """Count the decisions; rows that all have the same weight, or none, are rows."""
        cells = Cells.count(y, sensitive_features, weights=sample_weight, groups=groups, pos_label=pos_label)
        cells, merged = merge_small_groups(cells, min_group_size)
        decisions = match_decisions(prediction, cells.classes, len(cells), positive_decision=positive_decision)
        indicators = _indicators(decisions, cells)
        weights = cells.weights
        known = weights[weights > 0]
        weighted = bool((known != known[0]).any())
        powers = []
        for weight in (weights > 0, weights, weights**2) if weighted else (weights > 0,):
            totals = np.bincount(cells.index, weight, minlength=cells.n_cells)
            counted = replace(cells, weights=weight.astype(np.float64), totals=totals)
            powers.append((counted, counted.sums(indicators)))
        if not weighted:
            return cls(tuple(powers), None, merged, min_group_size)
        largest = float(known.max()) if largest_weight is None else float(largest_weight)
        return cls(tuple(powers), largest, merged, min_group_size)

    @property
    def cells(self) -> Cells:
        """The cells with the weights that the measures have."""
        return self.powers[-1 if len(self.powers) == 1 else 1][0]

    @property
    def decisions(self) -> np.ndarray:
        """Weighted sums over cells of those selected for each outcome, and of those not selected, (K, 2·O)."""
        return self.powers[-1 if len(self.powers) == 1 else 1][1]

    @property
    def weighted(self) -> bool:
        """Whether rows have different weights."""
        return self.largest_weight is not None

    def recount(self, decisions: np.ndarray) -> Tally:
        """Return the sums of other decisions about the same rows, given as places in the classes."""
        indicators = _indicators(decisions, self.cells)
        return replace(self, powers=tuple((cells, cells.sums(indicators)) for cells, _ in self.powers))

    def sums(self, grouping: Grouping, outcome: int, power: int | None = None) -> GroupSums:
        """Sums over the groups: weighted as the measures are, or by that power of the weights."""
        cells, S = (self.cells, self.decisions) if power is None else self.powers[power]
        return group_sums(S, cells, grouping, outcome)

    def group_rows(self, grouping: Grouping) -> list[int]:
        """Count the rows of each group, and of everyone."""
        return [int(size) for size in self.sums(grouping, self.cells.outcomes[0], 0).size.tolist()]

    def confusion(self, grouping: Grouping) -> list[list[list[float]]]:
        """Return the weight of each label and prediction, for each group and everyone, in the order of the classes."""
        L = self.cells.n_labels
        counted = self.decisions.reshape(-1, L, self.decisions.shape[1])  # (A, L, 2·O)
        predicted = counted[..., [1, 0]] if L == 2 else counted[..., :L]
        return np.einsum("ga,alp->glp", grouping.membership, predicted).tolist()

    def missing(self, grouping: Grouping) -> int:
        """Count the rows whose group is not known."""
        known = grouping.membership[-1][self.cells.index // self.cells.n_labels]
        return int((known == 0).sum())

    def statistics(
        self, rate: RateFunction, grouping: Grouping, outcome: int, *, monotone: bool = False
    ) -> list[Statistic] | None:
        """Return what is known of one rate in each group; None where no interval is known for such a rate."""
        if rate in WHOLES:
            return self._shares(rate, WHOLES[rate], grouping, outcome)
        if not monotone:
            return None
        shares = zip(
            self._shares(_share_of_positives, lambda g: g.size, grouping, outcome),
            self._shares(true_positive_rate, WHOLES[true_positive_rate], grouping, outcome),
            self._shares(false_positive_rate, WHOLES[false_positive_rate], grouping, outcome),
            strict=True,
        )
        values = evaluate(rate, self.sums(grouping, outcome)).tolist()
        two = self.cells.n_labels == 2
        return [MonotoneRate(rate, value, three, two) for value, three in zip(values, shares, strict=True)]

    def _shares(
        self, rate: RateFunction, whole: Callable[[GroupSums], np.ndarray], grouping: Grouping, outcome: int
    ) -> list[Statistic]:
        wholes, parts = [], []
        for power in range(len(self.powers)):
            sums = self.sums(grouping, outcome, power)
            wholes.append(whole(sums).tolist())
            # An empty whole has no part, whatever the rate makes of it.
            parts.append((np.nan_to_num(evaluate(rate, sums)) * whole(sums)).tolist())
        if self.largest_weight is None:
            return [Share(round(part), trials) for part, trials in zip(parts[0], wholes[0], strict=True)]
        return [
            WeightedShare(rows, weight, part, squares, part_squares, self.largest_weight)
            for rows, weight, squares, part, part_squares in zip(*wholes, *parts[1:], strict=True)
        ]

    def compile(self, limit: Constraint) -> ConstraintSystem:
        """Compile one limit for these cells; groups in which a rate is undefined are left to the caller."""
        # The compiler refuses undefined rates, which for held-out rows are a finding: with a row in each cell none is.
        cells = self.cells
        system = ConstraintSystem.build(limit, replace(cells, totals=np.ones_like(cells.totals)))
        return replace(system, cells=cells)

    def defined(self, rate: RateFunction, grouping: Grouping, outcome: int) -> list[bool]:
        """Say for which groups, and everyone, the rate divides by something."""
        if rate in WHOLES:
            return (WHOLES[rate](self.sums(grouping, outcome, 0)) > 0).tolist()
        return np.isfinite(evaluate(rate, self.sums(grouping, outcome))).tolist()

    def measured(self, system: ConstraintSystem) -> float | None:
        """Return the number of the one limit of a system over the groups where it is defined; None without any."""
        here = self._where_defined(system)
        return here.measured(self._sums(here))[0] if here.comparisons else None

    def worst(self, system: ConstraintSystem) -> ComparedPair | None:
        """Return the groups, and their rates, that this number comes from."""
        here = self._where_defined(system)
        return here.worst(self._sums(here))[0] if here.comparisons else None

    def _where_defined(self, system: ConstraintSystem) -> ConstraintSystem:
        kept = []
        for comparison in system.comparisons:
            block = comparison.block
            defined = self.defined(block.rate, block.grouping, block.outcome)
            pairs = tuple((a, b) for a, b in comparison.pairs if defined[a] and defined[b])
            kept += [replace(comparison, pairs=pairs)] if pairs else []
        return replace(system, comparisons=tuple(kept))

    def _sums(self, system: ConstraintSystem) -> np.ndarray:
        return np.broadcast_to(self.decisions, (len(system.surrogates), *self.decisions.shape))


def _indicators(decisions: np.ndarray, cells: Cells) -> np.ndarray:
    """1{decision = outcome}, and then 1{decision ≠ outcome}, of shape (n, 2·O)."""
    selected = decisions[:, None] == np.array(cells.outcomes)
    return np.concatenate([selected, ~selected], axis=1).astype(np.float64)


def merge_small_groups(cells: Cells, least: int) -> tuple[Cells, dict[str, dict[Hashable, int]]]:
    """Merge the groups with fewer than `least` rows of each grouping; return the cells, and which groups these are.

    A single small group stays as it is: there is nothing to merge it with.
    """
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise bad_value("min_group_size", least, "a whole number of at least 1")
    if least == 1:  # every group stays, also one whose rows all weigh nothing
        return cells, {}
    merged: dict[str, dict[Hashable, int]] = {}
    groupings = []
    atoms = cells.index[cells.weights > 0] // cells.n_labels
    for grouping in cells.groupings:
        counts = np.bincount(atoms, minlength=grouping.membership.shape[1])
        rows = (grouping.membership[:-1] @ counts).astype(int).tolist()
        few = [place for place, count in enumerate(rows) if count < least]
        if len(few) < 2:
            groupings.append(grouping)
            continue
        if MERGED in grouping.groups:
            raise ValueError(f"{grouping.name!r} has a group named {MERGED}, where small groups go: rename that group.")
        merged[grouping.name] = {grouping.groups[place]: rows[place] for place in few}
        groupings.append(grouping.without(few, merged=MERGED))
    return replace(cells, groupings=tuple(groupings)), merged
