"""Cells: every row belongs to one cell (group, label), and every measure is a function of sums over cells.

    S_k(w) = Σ_{i in cell k} ω_i φ(scale · t_i)        N_k = Σ_{i in cell k} ω_i

Several sensitive columns partition the rows into *atoms*, one for each combination of values that occurs; "missing" is
a value of its own.  A cell is (atom, label), and a group is a union of atoms.  So a sensitive column, or an
intersection of columns, is a `Grouping`: a 0/1 matrix from atoms to groups.  Rows with a missing value belong to no
group of that grouping.  They count in the loss, but not in its constraints.

If a column has probabilities of groups, a row is *divided*: it has one *entry* in each group, and the probability is
the weight of the entry.  Then S_k = Σ ω_i p_ik φ_i.  With several such columns the probabilities are multiplied, as if
the columns were independent given the row.  All other rows have one entry.  Rows that do not fit in memory are counted:
one entry stands for all `counts` rows with the same groups and label, and its weight is their mean weight.

Several processes may share the rows.  Then each has the index, labels and weights of its own rows; numbers and sums are
those of all rows, the same in every process.

Conventions
-----------
n rows (entries, if some are divided), A atoms, L labels, K = A·L cells; cell = atom · L + label.  Labels are indices
into `classes`; with two classes, class 1 is the positive one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound._distinct import combine_codes
from fairbound._errors import InputError, bad_value
from fairbound._sharing import gathered, joined, total
from fairbound._values import find_value
from fairbound._weights import WeightParts, check_magnitude, check_weights
from fairbound._words import did_you_mean
from fairbound.fairness.columns import MOST_GROUPS, encode_labels
from fairbound.fairness.decisions import decision_indicators
from fairbound.fairness.sensitive import SUM_TOLERANCE, Division, encode_columns, read_columns

Floats = NDArray[np.float64]

Combine = Literal["each", "intersection", "both"]

WITHIN = "within "
"""How the name of a column of strata begins: limits "within grade" compare groups in each stratum of "within grade"."""

FROM = "from "
"""How the name of a column of earlier decisions begins: limits "changed <= 2% from x" need the column "from x"."""

OVERALL = "overall"
"""The name of everyone, as a group and in the text of a limit."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of one sensitive column, or of an intersection of columns.

    Attributes
    ----------
    name : str
        The column, or the columns joined by " & ".
    groups : tuple
        The values as given; tuples of values for an intersection.
    membership : array of shape (G + 1, A)
        1 where an atom belongs to a group.  The last row stands for everyone whose group is known.
    within : str
        The factor within whose strata groups are compared.  A group is then that of a column in one stratum, a tuple
        (group, stratum).  Empty if all groups are compared.
    parts : tuple of pairs
        The group of the column and the stratum of each group, where `groups` have texts in place of tuples.
    """

    name: str
    groups: tuple[Hashable, ...]
    membership: Floats = field(repr=False)
    within: str = ""
    parts: tuple[tuple[Hashable, Hashable], ...] = ()

    @property
    def column(self) -> str:
        """Return the sensitive column, or the columns joined by " & "."""
        return self.name.removesuffix(f" {WITHIN}{self.within}") if self.within else self.name

    def stratum(self, place: int) -> Hashable:
        """Return the stratum of a group; groups of the same stratum are compared."""
        return self.divided[place][1] if self.within else None

    @property
    def divided(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """Return the group of the column and the stratum of each group of a factor."""
        whole: Any = self.groups
        return self.parts or tuple((each[:-1] if len(each) > 2 else each[0], each[-1]) for each in whole)

    def places(self, group: Hashable) -> list[int]:
        """Return the indices of a group, one for each stratum that has it; raise an error if there is none."""
        if not self.within:
            return [self.position(group)]
        found = [place for place, (own, _) in enumerate(self.divided) if find_value(group, [own]) is not None]
        return found or [self.position(group)]

    def find(self, group: Hashable) -> int | None:
        """Return the index of a group, or None if there is no such group.  Compare values first, then texts.

        "1" also matches 1.0, because a column of integers with missing values often arrives as floats.
        """
        return find_value(group, self.groups)

    def position(self, group: Hashable) -> int:
        """Return the index of a group, as `find` does; raise an error that lists the known groups if it is unknown."""
        index = self.find(group)
        if index is None:
            known_groups = ", ".join(repr(known) for known in self.groups)
            near = did_you_mean(str(group), map(str, self.groups))
            raise ValueError(f"Unknown group {group!r} in {self.name!r}.{near} Known groups: {known_groups}.")
        return index

    def has(self, group: Hashable) -> bool:
        """Return whether there is such a group, in any stratum."""
        if not self.within:
            return self.find(group) is not None
        try:
            return bool(self.places(group))
        except ValueError:
            return False

    def only(self, group: Hashable) -> Grouping:
        """Return a grouping that has only this group, and everyone."""
        places = self.places(group)
        return replace(
            self,
            groups=tuple(self.groups[each] for each in places),
            membership=self.membership[[*places, -1]],
            parts=tuple(self.parts[each] for each in places) if self.parts else (),
        )

    def without(self, positions: Sequence[int], *, merged: Hashable | None = None) -> Grouping:
        """Return this grouping without some of its groups; a group named `merged`, if given, replaces them."""
        kept = [each for each in range(len(self.groups)) if each not in set(positions)]
        known = self.membership
        parts, groups = [known[kept]], tuple(self.groups[each] for each in kept)
        if merged is not None:
            parts, groups = [*parts, known[list(positions)].sum(axis=0, keepdims=True)], (*groups, merged)
        return _grouping(self.name, groups, np.concatenate(parts) > 0, self.within)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cell of each row, and the groups that the cells form.  Make it with `Cells.build`.

    Attributes
    ----------
    index : array of shape (n,)
        Cell of each row.
    labels : array of shape (n,)
        Class index of each row.
    weights : array of shape (n,)
        Weight ω of each row in the constraints.
    totals : array of shape (K,)
        N_k, the total weight of each cell.
    classes : tuple
        The labels as given; with two classes, `classes[1]` is the positive one.
    groupings : tuple of Grouping
    division : Division or None
        Set if rows are divided among groups; then "row" above means an entry.
    counts : array of shape (n,), or None
        The number of rows that each entry stands for; None for one each.
    targets : array of shape (n,), or None
        The best decision about each row, which training aims at; None if it is the label.  The target of a regression.
    previous : array of shape (A,), or None
        With two classes: the class index of an earlier decision about the rows of each atom; `previous_name` is its
        column.
    processes : Processes or None
        Those that share the rows; all call the same methods in the same order.
    """

    index: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: NDArray[Any]
    totals: NDArray[Any]
    classes: tuple[Hashable, ...]
    groupings: tuple[Grouping, ...]
    division: Division | None = None
    counts: NDArray[np.int64] | None = None
    targets: NDArray[Any] | None = None
    previous: NDArray[np.int64] | None = None
    previous_name: str = ""
    processes: Any = None

    @classmethod
    def build(
        cls,
        y: Any,
        sensitive_features: Any = None,
        *,
        weights: Any = None,
        groups: Combine = "each",
        pos_label: Hashable | None = None,
        classes: Iterable[Hashable] | None = None,
        processes: Any = None,
    ) -> Cells:
        """Assign rows to cells.

        Parameters
        ----------
        y : sequence of n labels
            Any values; two or more classes.
        sensitive_features : None, mapping or table of columns, or array of shape (n,) or (n, columns)
            Strings, numbers, booleans or categoricals; None and NaN are missing.  In a mapping, a column may be a table
            of probabilities with one column for each group, such as {"race": {"black": [0.1, 0.7], ...}}.
        weights : sequence of n numbers, optional
            Weight of each row in the constraints; 1 by default.
        groups : {"each", "intersection", "both"}
            With several columns: the groups of each column, of their intersection, or both.
        pos_label : label, optional
            Which of two labels is the positive one.  By default the conventional one, such as 1 or "yes"; if there
            is none, the last in sorted order.
        classes : labels, optional
            All classes, of which the rows may lack some; by default those of the rows.
        processes : Processes, optional
            Those that share the rows; then `classes` are those of all.

        Examples
        --------
        >>> cells = Cells.build([0, 1, 1, 0], ["a", "a", "b", None])
        >>> cells.groupings[0].groups
        ('a', 'b')
        >>> cells.group_counts()["sensitive_feature"]
        {'a': {0: 1.0, 1: 1.0}, 'b': {0: 0.0, 1: 1.0}}
        """
        if processes is not None and classes is None:
            classes = np.unique(np.concatenate(processes.gather(np.unique(y)))).tolist()
        labels, known = encode_labels(y, pos_label, classes)
        return cls._assign(labels, known, sensitive_features, weights, groups, processes)

    @classmethod
    def unlabelled(
        cls,
        n: int,
        classes: tuple[Hashable, ...],
        sensitive_features: Any,
        *,
        weights: Any = None,
        groups: Combine = "each",
    ) -> Cells:
        """Assign rows without labels to cells.

        All rows are put in the cells of the first class.  So only rates that do not use the label are meaningful.
        """
        return cls._assign(np.zeros(n, dtype=np.int64), classes, sensitive_features, weights, groups)

    @classmethod
    def _assign(
        cls,
        labels: np.ndarray,
        classes: tuple[Hashable, ...],
        sensitive_features: Any,
        weights: Any,
        groups: Combine,
        processes: Any = None,
    ) -> Cells:
        n = len(labels)
        weight = np.ones(n) if weights is None else check_magnitude(check_weights(weights, n, "weights"), "weights")
        columns = read_columns(sensitive_features, n)
        codes, values, division = encode_columns(columns, n, processes)
        if division is not None:
            labels, weight = labels[division.rows], weight[division.rows] * division.shares
        if codes:
            combinations, atom = combine_codes(codes, [len(found) for found in values])
        else:
            combinations, atom = np.zeros((1, 0), dtype=np.int64), np.zeros(n, dtype=np.int64)
        if processes is not None:
            each = processes.gather(combinations)
            combinations, place = np.unique(np.concatenate(each), axis=0, return_inverse=True)
            atom = place[sum(map(len, each[: processes.rank])) + atom]
        index = atom * len(classes) + labels
        before = next((place for place, name in enumerate(columns) if name.startswith(FROM)), None)
        names = list(columns)
        return cls(
            index=index.astype(np.int64),
            labels=labels,
            weights=weight,
            totals=_exact_sums(index, weight, None, len(combinations) * len(classes), processes),
            classes=classes,
            groupings=_make_groupings(names, values, combinations, groups),
            division=division,
            previous=None
            if before is None
            else _earlier(names[before], values[before], combinations[:, before], classes),
            previous_name="" if before is None else names[before],
            processes=processes,
        )

    def __len__(self) -> int:
        return len(self.index) if self.counts is None else int(self.counts.sum())

    def standing_for(self, counts: Any) -> Cells:
        """Return cells in which entry i stands for `counts[i]` rows; for one row each if `counts` is None."""
        each = None if counts is None else np.asarray(counts, dtype=np.int64)
        found = replace(self, counts=each)
        totals = _exact_sums(self.index, found._times(self.weights), None, self.n_cells, self.processes)
        return replace(found, totals=totals)

    def _times(self, values: NDArray[Any]) -> NDArray[Any]:
        """Multiply the value of each entry by the number of rows that the entry stands for."""
        return values if self.counts is None else values * self.counts

    @cached_property
    def n_cells(self) -> int:
        """Return K, the number of cells."""
        return len(self.totals)

    @cached_property
    def n_labels(self) -> int:
        """Return L, the number of classes."""
        return len(self.classes)

    @cached_property
    def n_rows(self) -> int:
        """Return the number of rows; a divided row counts once."""
        return sum(gathered(self.n_own_rows, self.processes))

    @property
    def n_own_rows(self) -> int:
        """Return the number of rows of this process."""
        return len(self) if self.division is None else self.division.n_rows

    def share(self, chosen: NDArray[np.bool_], weights: Floats | None = None) -> float:
        """Return the share of rows that are chosen, by their weights in the limits or by other ones."""
        given = self.weights if weights is None else weights
        both = np.stack([chosen, np.ones_like(chosen)], axis=1)
        some, every = _exact_sums(np.zeros_like(self.index), given, both, 1, self.processes)[0].tolist()
        return float(some / every)

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of arrays over all processes."""
        return total(values, self.processes)

    def joined(self) -> Cells:
        """Return the cells of the rows of all processes, in one."""
        index, labels, weights = (joined(each, self.processes) for each in (self.index, self.labels, self.weights))
        return replace(self, index=index, labels=labels, weights=weights, processes=None)

    def of_entries(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of its row for each entry.  If no row is divided, the entries are the rows."""
        return values if self.division is None else values[self.division.rows]

    def of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value per row.  The values of entries must be equal within each row."""
        return values if self.division is None else values[np.unique(self.division.rows, return_index=True)[1]]

    def group_sizes(self, grouping: Grouping, *, weightless: bool = False) -> list[int]:
        """Return the (rounded) number of rows in each group; rows of weight 0 count only with `weightless`."""
        counted = np.full(len(self.index), weightless) | (self.weights > 0)
        shares = self._times(counted) if self.division is None else counted * self.division.shares
        of_atoms = self.total(np.bincount(self.index // self.n_labels, shares, grouping.membership.shape[1]))
        return np.rint(grouping.membership[:-1] @ of_atoms).astype(int).tolist()

    def missing_rows(self, grouping: Grouping) -> int:
        """Return the number of rows whose group is unknown.  A divided row counts if all of its groups are unknown."""
        known = grouping.membership[-1][self.index // self.n_labels] > 0
        own = self._times(known).sum() if self.division is None else len(np.unique(self.division.rows[known]))
        return self.n_rows - sum(gathered(int(own), self.processes))

    def by_group(self, grouping: Grouping) -> tuple[Cells, Grouping]:
        """Return cells in which a divided row has at most one entry in each group, and one in "everyone".

        A group can consist of several atoms, and a divided row can have an entry in each.  These entries depend on each
        other.  One entry with the sum of their weights replaces them, so that entries are as independent as rows.
        """
        assert self.division is not None
        index, given = self.index, self.weights
        rows = np.unique(self.division.rows, return_inverse=True)[1]
        member = grouping.membership[:, index // self.n_labels]
        whole = np.stack([np.bincount(rows, given * each) for each in member])
        whole[np.abs(whole - 1.0) < SUM_TOLERANCE] = 1.0  # rounding errors of probabilities that add up to 1
        labels = self.of_rows(index % self.n_labels)
        atom, row = np.nonzero(whole)
        weights, cell = whole[atom, row], atom * self.n_labels + labels[row]
        totals = self.total(np.bincount(cell, weights, len(member) * self.n_labels))
        own = replace(grouping, membership=np.eye(len(member)))
        shares = Division(row, np.ones(len(row)))
        found = Cells(cell, labels[row], weights, totals, self.classes, (own,), shares, processes=self.processes)
        return found, own

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Return the number of rows of each cell, of shape (K,)."""
        return self.total(np.bincount(self.index, self.counts, self.n_cells).astype(np.int64))

    @cached_property
    def outcomes(self) -> tuple[int, ...]:
        """Return the classes whose selection is counted: the positive one of two classes, or all of several."""
        return (1,) if self.n_labels == 2 else tuple(range(self.n_labels))

    def rows_by_class(self, classes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of rows of each class, in all processes, from the class of each entry."""
        return self.total(np.bincount(self.of_rows(classes), minlength=self.n_labels))

    @cached_property
    def smallest_weight(self) -> float:
        """Return the least positive weight of a row."""
        return self._least(self.weights)

    def _least(self, weights: NDArray[Any]) -> float:
        return min(gathered(float(weights[weights > 0].min(initial=np.inf)), self.processes))

    @property
    def row_weight(self) -> float:
        """Return the weight that counts as one row: the lightest, of which a divided row has one for all its entries.

        So a row of weight 2 counts as two rows, one of weight 0 as none, and a common factor means nothing.
        """
        if self.division is None:
            return self.smallest_weight
        return self._least(np.bincount(self.division.rows, self.weights))

    def take(self, rows: Any) -> Cells:
        """Return the cells of some of the rows, with the same groups and labels."""
        index, division = self.index[rows], self.division
        if division is not None:
            division = Division(division.rows[rows], division.shares[rows])
        found = replace(
            self,
            index=index,
            labels=self.labels[rows],
            division=division,
            targets=None if self.targets is None else self.targets[rows],
        )
        return found.weighing(self.weights[rows])

    def weighing(self, weights: Floats) -> Cells:
        """Return the cells of the same rows with other weights."""
        totals = _exact_sums(self.index, weights, None, self.n_cells, self.processes)
        return replace(self, weights=weights, totals=totals)

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return weighted sums of values (n, O) over cells, (K, O); those of 0 and 1 are exact."""
        n = len(self.index)
        if values.ndim != 2 or len(values) != n:
            raise ValueError(f"values must have shape ({n}, outcomes), but have shape {values.shape}.")
        return _exact_sums(self.index, self._times(self.weights), values, self.n_cells, self.processes)

    def decided(self, decisions: NDArray[np.int64]) -> Floats:
        """Return sums over cells of the entries decided for each outcome, and of those decided otherwise, (K, 2·O)."""
        return self.sums(decision_indicators(decisions, self.outcomes))

    @cached_property
    def everyone(self) -> Grouping:
        """Return the grouping whose one group has all rows, also those whose group is unknown."""
        return Grouping(OVERALL, (OVERALL,), np.ones((2, len(self.totals) // self.n_labels)))

    def grouping(self, name: str) -> Grouping:
        """Return the grouping of that name; raise an error that lists the known names if it is unknown."""
        for grouping in self.groupings:
            if grouping.name == name:
                return grouping
        if name == OVERALL:
            return self.everyone
        known = ", ".join(repr(grouping.name) for grouping in self.groupings) or "none"
        raise ValueError(f"Unknown sensitive column {name!r}. Known: {known}.")

    def find_class(self, label: Hashable) -> int | None:
        """Return the index of a class, or None if there is no such class.  Compare values first, then texts."""
        return find_value(label, self.classes)

    def group_counts(self) -> dict[str, dict[Hashable, dict[Hashable, float]]]:
        """Return the total weight of each label in each group of each grouping."""
        by_atom = self.totals.reshape(-1, self.n_labels)
        return {
            grouping.name: {
                group: dict(zip(self.classes, row, strict=True))
                for group, row in zip(grouping.groups, (grouping.membership[:-1] @ by_atom).tolist(), strict=True)
            }
            for grouping in self.groupings
        }


def _exact_sums(
    index: NDArray[np.int64], weights: NDArray[Any], values: NDArray[Any] | None, size: int, processes: Any
) -> Floats:
    """Return the sums over cells of values (n, O) times weights; of the weights alone without values."""
    parts = WeightParts.build(weights, processes)
    each = np.ones((len(weights), 1)) if values is None else values
    found: Floats = parts.unit * total(parts.sums(index, weights, each, size), processes).sum(axis=0)
    return found[:, 0] if values is None else found


def _make_groupings(
    names: Sequence[str], values: Sequence[tuple[Hashable, ...]], combinations: np.ndarray, groups: str
) -> tuple[Grouping, ...]:
    factors = [place for place, name in enumerate(names) if name.startswith(WITHIN)]
    if any(name.startswith((WITHIN, FROM)) for name in names):
        own = [place for place, name in enumerate(names) if not name.startswith((WITHIN, FROM))]
        plain = _make_groupings(
            [names[each] for each in own], [values[each] for each in own], combinations[:, own], groups
        )
        further = [
            _within(grouping, names[each].removeprefix(WITHIN), values[each], combinations[:, each])
            for each in factors
            for grouping in plain
        ]
        return (*plain, *further)
    if not isinstance(groups, str) or groups not in ("each", "intersection", "both"):
        raise bad_value("groups", groups, "'each', 'intersection' or 'both'")
    result = []
    if groups in ("each", "both") or len(names) < 2:
        for position, (name, column_values) in enumerate(zip(names, values, strict=True)):
            member = combinations[:, position] == np.arange(len(column_values))[:, None]
            result.append(_grouping(name, column_values, member))
    if groups in ("intersection", "both") and len(names) >= 2:
        whole = combinations[(combinations >= 0).all(axis=1)]
        known = np.unique(whole, axis=0)  # strata divide an intersection into several atoms
        if not 0 < len(known) <= MOST_GROUPS:
            raise InputError(
                "The intersection of {columns} has {count:,} groups (combinations of known values that occur), but "
                "must have 1 to {most:,}.",
                "Choose other columns, or {groups='each'}.",
                columns=", ".join(names),
                count=len(known),
                most=MOST_GROUPS,
            )
        tuples = tuple(tuple(column[code] for column, code in zip(values, each, strict=True)) for each in known)
        member = (combinations == known[:, None]).all(axis=2)
        result.append(_grouping(" & ".join(names), tuples, member))
    return tuple(result)


def _earlier(
    name: str, values: Sequence[Hashable], codes: NDArray[np.int64], classes: tuple[Hashable, ...]
) -> NDArray[np.int64]:
    """Return the class index of the earlier decision of each atom."""
    places = [find_value(value, classes) for value in values]
    if len(classes) != 2 or None in places or (codes < 0).any():
        odd = next(
            (repr(value) for value, place in zip(values, places, strict=True) if place is None), "a missing value"
        )
        raise InputError(
            "The column {name!r} of decisions before has {odd}.",
            "Give each row one of the two labels, {labels}.",
            name=name,
            odd=odd if len(classes) == 2 else f"{len(classes)} labels",
            labels=", ".join(map(repr, classes)),
        )
    return np.array(places, dtype=np.int64)[codes]


def _within(grouping: Grouping, factor: str, strata: tuple[Hashable, ...], codes: np.ndarray) -> Grouping:
    """Return the groups of a grouping in each stratum of a factor, where both occur together."""
    groups, member = [], []
    for place, group in enumerate(grouping.groups):
        for code, stratum in enumerate(strata):
            both = (grouping.membership[place] > 0) & (codes == code)
            if both.any():
                groups.append((*group, stratum) if isinstance(group, tuple) else (group, stratum))
                member.append(both)
    return _grouping(f"{grouping.name} {WITHIN}{factor}", tuple(groups), np.array(member), factor)


def _grouping(name: str, groups: tuple[Hashable, ...], member: np.ndarray, within: str = "") -> Grouping:
    everyone = member.any(axis=0, keepdims=True)
    return Grouping(name, groups, np.concatenate([member, everyone]).astype(np.float64), within)
