"""Count decisions over cells, and derive statistics with confidence bounds for each rate.

The rates are those of `fairbound.fairness`, evaluated on sums of decisions, as in training.  For an interval one more
fact is needed: the rows of which a rate is a share, its whole (`WHOLES`).  The part is then rate × whole, so that no
rate needs a second formula.

Conventions
-----------
Lists of statistics have one entry per group of a grouping; the last entry is everyone whose group is known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fairbound._errors import bad_value
from fairbound._sharing import gathered
from fairbound.evaluation.intervals import MonotoneRate, Share, Statistic, WeightedShare
from fairbound.evaluation.matching import check_needs_no_labels, match_decisions, read_decisions
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
    changed,
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


def share_of_positives(g: GroupSums) -> np.ndarray:
    """P(Y = 1 | group)."""
    return g.positives / g.size


WHOLES: dict[RateFunction, Callable[[GroupSums], np.ndarray]] = {
    share_of_positives: lambda g: g.size,
    selection_rate: lambda g: g.size,
    true_positive_rate: lambda g: g.positives,
    false_negative_rate: lambda g: g.positives,
    false_positive_rate: lambda g: g.negatives,
    true_negative_rate: lambda g: g.negatives,
    precision: lambda g: g.selected,
    negative_predictive_value: lambda g: g.rejected,
    accuracy: lambda g: g.size,
    changed: lambda g: g.size,
    share_of_selected: lambda g: np.broadcast_to(g.selected[..., -1:], g.selected.shape),
}
"""The whole of each rate: the rows of which it is a share."""


MERGED = "(other)"
"""The name of the group that small groups are merged into."""


class CountedRate(NamedTuple):
    """A rate of each group of a grouping, and last of everyone, for one outcome.

    `values` are weighted as the measures are.  `defined` says where the denominator is not 0.  `statistics` is None if
    no interval is known for such a rate.
    """

    values: list[float]
    defined: list[bool]
    statistics: list[Statistic] | None


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """The sums of one grouping for one outcome, and the rates that follow from them.

    Attributes
    ----------
    sums : tuple of GroupSums
        Sums with the weights w⁰ = 1; if rows are weighted, also with w and with w².
    largest_weight : float or None
        The bound of the weights, None where rows count equally.
    two_classes : bool
    """

    sums: tuple[GroupSums, ...]
    largest_weight: float | None
    two_classes: bool
    _known: dict[tuple[RateFunction, bool], CountedRate] = field(default_factory=dict, repr=False)

    def rate(self, rate: RateFunction, *, monotone: bool = False) -> CountedRate:
        """Return a rate of each group; each is counted once.  `monotone` is that of a measure with its own rate."""
        if (rate, monotone) not in self._known:
            self._known[rate, monotone] = self._count(rate, monotone)
        return self._known[rate, monotone]

    def _count(self, rate: RateFunction, monotone: bool) -> CountedRate:
        evaluated = [evaluate(rate, sums) for sums in self.sums]
        values = evaluated[:2][-1]
        if rate not in WHOLES:
            statistics = self._by_shares(rate, values) if monotone else None
            return CountedRate(values.tolist(), np.isfinite(values).tolist(), statistics)
        wholes = [WHOLES[rate](sums) for sums in self.sums]
        # The part of an empty whole is 0, also where the rate is NaN.
        parts = [np.nan_to_num(each) * whole for each, whole in zip(evaluated, wholes, strict=True)]
        known: list[Statistic]
        if self.largest_weight is None:
            known = [Share(round(x), n) for x, n in zip(parts[0].tolist(), wholes[0].tolist(), strict=True)]
        else:
            largest = np.full(len(values), self.largest_weight)
            sums = np.stack([wholes[0], wholes[1], parts[1], wholes[2], parts[2], largest], axis=1)
            known = [WeightedShare(*each) for each in sums.tolist()]
        return CountedRate(values.tolist(), (wholes[0] > 0).tolist(), known)

    def _by_shares(self, rate: RateFunction, values: np.ndarray) -> list[Statistic]:
        three = (
            self.rate(each).statistics or () for each in (share_of_positives, true_positive_rate, false_positive_rate)
        )
        return [
            MonotoneRate(rate, value, shares, self.two_classes)
            for value, shares in zip(values.tolist(), zip(*three, strict=True), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums of decisions over cells; if rows are weighted, also with weights w and w².  Build it with `Tally.build`.

    Attributes
    ----------
    powers : tuple of (Cells, np.ndarray of shape (K, 2·O))
        Cells and their sums with the weights w⁰ (1 for rows of positive weight); if weighted, also with w and w².
    largest_weight : float or None
        The bound of the weights, None where rows count equally.
    merged : dict
        For each grouping the small groups that were merged into one, with their numbers of rows.
    min_group_size : int
        Groups with fewer rows were merged.
    labelled : bool
        Whether the rows have labels; without them, only rates that do not use the label are counted.
    divided : array of shape (n,), or None
        The decisions, if rows are divided among groups by probabilities: sums of w² need whole rows.
    bounded : bool
        Whether the weights are probabilities alone, which are at most 1 by design.
    """

    powers: tuple[tuple[Cells, np.ndarray], ...]
    largest_weight: float | None
    merged: dict[str, dict[Hashable, int]] = field(default_factory=dict)
    min_group_size: int = 1
    labelled: bool = True
    divided: np.ndarray | None = None
    bounded: bool = False
    _counted: dict[tuple[Grouping, int], GroupCounts] = field(default_factory=dict, init=False, repr=False)

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
        repeats: np.ndarray | None = None,
        classes: Iterable[Hashable] | None = None,
        processes: Any = None,
    ) -> Tally:
        """Count the decisions; equal weights are ignored.  Without labels, y is None.

        The rows need not have all of the given `classes`; by default the classes are those of the rows.  If several
        `processes` share the rows, the sums are those of all.
        """
        if y is None:
            chosen = pos_label if positive_decision is None else positive_decision
            decisions, known = read_decisions(prediction, chosen)
            cells = Cells.unlabelled(len(decisions), known, sensitive_features, weights=sample_weight, groups=groups)
        else:
            options: dict[str, Any] = {"groups": groups, "pos_label": pos_label, "classes": classes}
            cells = Cells.build(y, sensitive_features, weights=sample_weight, processes=processes, **options)
            named: dict[str, Any] = {"positive_decision": positive_decision}
            decisions = match_decisions(prediction, cells.classes, cells.n_own_rows, **named)
        cells = cells if repeats is None else cells.standing_for(repeats)
        cells, merged = merge_small_groups(cells, min_group_size)
        found = cls.of(cells, decisions, largest_weight=largest_weight)
        return replace(found, merged=merged, min_group_size=min_group_size, labelled=y is not None)

    @classmethod
    def of(
        cls,
        cells: Cells,
        decisions: np.ndarray,
        *,
        largest_weight: float | None = None,
    ) -> Tally:
        """Count decisions about the rows of cells, given as indices of classes."""
        positive, processes = cells.weights[cells.weights > 0], cells.processes
        ends = gathered((positive.min(initial=np.inf), positive.max(initial=0.0)), processes)
        lightest, heaviest = min(each for each, _ in ends), float(max(each for _, each in ends))
        largest, bounded = None, False
        if cells.division is not None:
            of_rows = np.bincount(cells.division.rows, cells.weights)
            bounded = all(gathered(np.allclose(of_rows, 1.0), processes))  # the weights are probabilities alone
            # A row may count in a group with several entries.
            largest = 1.0 if bounded else max(gathered(float(of_rows.max()), processes))
        elif lightest < heaviest:
            largest = heaviest
        if largest_weight is not None and largest is not None and not bounded:
            largest = float(largest_weight)
        powers = _powers(cells, decisions, weighted=largest is not None)
        return cls(powers, largest, divided=None if cells.division is None else decisions, bounded=bounded)

    @property
    def cells(self) -> Cells:
        """Return the cells with the weights of the measures."""
        return self.powers[:2][-1][0]

    @property
    def decisions(self) -> np.ndarray:
        """Weighted sums over cells of those selected for each outcome, and of those not selected, (K, 2·O)."""
        return self.powers[:2][-1][1]

    @property
    def weighted(self) -> bool:
        """Return whether rows have different weights."""
        return self.largest_weight is not None

    def with_decisions(self, prediction: Any) -> Tally:
        """Return the sums of other decisions about the same rows, given in their labels."""
        n = self.cells.n_rows if self.cells.counts is None else len(self.cells.index)
        return self.recount(match_decisions(prediction, self.cells.classes, n))

    def recount(self, decisions: np.ndarray) -> Tally:
        """Return the tally of other decisions about the same rows, given as indices of classes."""
        powers = tuple((cells, cells.decided(cells.of_entries(decisions))) for cells, _ in self.powers)
        return replace(self, powers=powers, divided=None if self.divided is None else decisions)

    def group_rows(self, grouping: Grouping) -> list[int]:
        """Return the number of rows of each group, and of everyone; shares of divided rows add up."""
        if self.divided is not None:
            return [*self.cells.group_sizes(grouping), self.cells.n_rows - self.missing(grouping)]
        return [int(size) for size in self.counts(grouping, self.cells.outcomes[0]).sums[0].size.tolist()]

    def confusion(self, grouping: Grouping) -> list[list[list[float]]]:
        """Return the total weight by label and prediction, for each group and everyone, in the order of the classes."""
        L = self.cells.n_labels
        counted = self.decisions.reshape(-1, L, self.decisions.shape[1])  # (A, L, 2·O)
        predicted = counted[..., [1, 0]] if L == 2 else counted[..., :L]
        return np.einsum("ga,alp->glp", grouping.membership, predicted).tolist()

    def missing(self, grouping: Grouping) -> int:
        """Return the number of rows whose group is unknown."""
        return self.cells.missing_rows(grouping)

    def counts(self, grouping: Grouping, outcome: int) -> GroupCounts:
        """Return the sums of a grouping for one outcome, from which all its rates follow; they are added up once."""
        if (grouping, outcome) not in self._counted:
            powers, own, largest = self.powers, grouping, self.largest_weight
            if self.divided is not None:
                by_group, own = self.cells.by_group(grouping)
                weighted = any(gathered(bool((by_group.weights != 1.0).any()), by_group.processes))
                largest = largest if weighted else None
                powers = _powers(by_group, self.divided, weighted=largest is not None)
            sums = tuple(group_sums(S, cells, own, outcome) for cells, S in powers)
            self._counted[grouping, outcome] = GroupCounts(sums, largest, self.cells.n_labels == 2)
        return self._counted[grouping, outcome]

    def compile_all(self, limits: Iterable[Constraint]) -> tuple[ConstraintSystem, ...]:
        """Compile several limits in one go; return a system for each."""
        whole = self.compile_together(limits)
        return tuple(whole.select([position]) for position in range(len(whole.constraints)))

    def compile_together(self, limits: Iterable[Constraint]) -> ConstraintSystem:
        """Compile limits to one system; the caller handles groups in which a rate is undefined."""
        limits = list(limits)
        if not self.labelled:
            check_needs_no_labels(limits)
        return ConstraintSystem.compare(limits, self.cells)

    def measured(self, system: ConstraintSystem) -> float | None:
        """Return the measured value of a system's one limit, over groups where it is defined; None if there is none."""
        here = self._where_defined(system)
        return here.measured(self._sums(here))[0] if here.comparisons else None

    def checked(self, system: ConstraintSystem) -> dict[str, Any]:
        """Return the value of a system's one limit and whether it is kept; both None where nothing is defined."""
        (limit,) = system.constraints
        value = self.measured(system)
        return {"value": value, "kept": None if value is None else limit.keeps(value)}

    def worst(self, system: ConstraintSystem) -> list[ComparedPair | None]:
        """Return for each limit the pair of groups that determines the measured value, with their rates."""
        here = self._where_defined(system)
        return here.worst(self._sums(here))

    def _where_defined(self, system: ConstraintSystem) -> ConstraintSystem:
        kept = []
        for comparison in system.comparisons:
            block = comparison.block
            defined = self.counts(block.grouping, block.outcome).rate(block.rate).defined
            pairs = tuple((a, b) for a, b in comparison.pairs if defined[a] and defined[b])
            kept += [replace(comparison, pairs=pairs)] if pairs else []
        return replace(system, comparisons=tuple(kept))

    def _sums(self, system: ConstraintSystem) -> np.ndarray:
        return np.broadcast_to(self.decisions, (len(system.surrogates), *self.decisions.shape))


def _powers(cells: Cells, decisions: np.ndarray, *, weighted: bool) -> tuple[tuple[Cells, np.ndarray], ...]:
    """Return cells and sums of decisions with the weights w⁰; if weighted, also with w and w²."""
    weights, decided, found = cells.weights, cells.of_entries(decisions), []
    for weight in (weights > 0, weights, weights**2) if weighted else (weights > 0,):
        counted = replace(cells, weights=np.asarray(weight, dtype=np.float64)).standing_for(cells.counts)
        found.append((counted, counted.decided(decided)))
    return tuple(found)


def merge_small_groups(cells: Cells, least: int) -> tuple[Cells, dict[str, dict[Hashable, int]]]:
    """Merge the groups with fewer than `least` rows in each grouping; return the cells and the merged groups.

    A single small group is not merged, since there is no other to merge it with.
    """
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise bad_value("min_group_size", least, "a whole number of at least 1")
    if least == 1:  # merge nothing, not even a group whose rows all have weight 0
        return cells, {}
    merged: dict[str, dict[Hashable, int]] = {}
    groupings = []
    for grouping in cells.groupings:
        rows = cells.group_sizes(grouping)
        few = [place for place, count in enumerate(rows) if count < least]
        if len(few) < 2:
            groupings.append(grouping)
            continue
        if MERGED in grouping.groups:
            raise ValueError(f"{grouping.name!r} has a group {MERGED}, the name of merged small groups: rename it.")
        merged[grouping.name] = {grouping.groups[place]: rows[place] for place in few}
        groupings.append(grouping.without(few, merged=MERGED))
    return replace(cells, groupings=tuple(groupings)), merged
