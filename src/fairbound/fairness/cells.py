"""Cells: every row belongs to one (group, label), and every measure is a function of sums over cells.

    S_k(w) = Σ_{i in cell k} ω_i φ(scale · t_i)        N_k = Σ_{i in cell k} ω_i

Several sensitive columns give the finest partition of the rows into *atoms* (one per combination of values that
occurs, "missing" being a value of its own); a cell is (atom, label) and a group is a union of atoms.  So a column, or
an intersection of columns, is a `Grouping`: a 0/1 matrix from atoms to groups.  Rows whose value is missing are in no
group of that grouping, and count in the loss alone.

Conventions
-----------
n rows, A atoms, L labels, K = A·L cells; cell = atom · L + label.  Labels are indices into `classes`; with two classes,
class 1 is the positive one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.positive import conventional_positive

Combine = Literal["each", "intersection", "both"]
_MOST_GROUPS = 1000
_MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of one sensitive column, or of an intersection of columns.

    Attributes
    ----------
    name : str
        The column, or the columns joined by " & ".
    groups : tuple
        The values as given; tuples of values for an intersection.
    membership : Tensor of shape (G + 1, A)
        1 where an atom belongs to a group.  The last row is everyone whose group is known.
    """

    name: str
    groups: tuple[Hashable, ...]
    membership: Tensor = field(repr=False)

    def find(self, group: Hashable) -> int | None:
        """Index of a group, by its value or else by the text of its value; None where there is no such group.

        The text of 1.0 is "1.0" or "1": a column of integers in which some are missing often arrives as floats.
        """
        return find_value(group, self.groups)

    def position(self, group: Hashable) -> int:
        """Index of a group as `find` has it; an unknown one raises a sentence with the known ones."""
        index = self.find(group)
        if index is None:
            known_groups = ", ".join(repr(known) for known in self.groups)
            raise ValueError(f"Unknown group {group!r} in {self.name!r}. Known groups: {known_groups}.")
        return index

    def only(self, group: Hashable) -> Grouping:
        """Return this grouping with one of its groups, and everyone."""
        index = self.position(group)
        return Grouping(self.name, (self.groups[index],), self.membership[[index, -1]])


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cell each row belongs to, and how cells make up groups.  Build it with `Cells.build`.

    Attributes
    ----------
    index : Tensor of shape (n,)
        The cell of each row.
    labels : Tensor of shape (n,)
        The class index of each row.
    weights : Tensor of shape (n,)
        The weight of each row in the constraints, ω.
    totals : Tensor of shape (K,)
        N_k, the weight in each cell.
    classes : tuple
        The labels as given; `classes[1]` is the positive one of two.
    groupings : tuple of Grouping
    """

    index: Tensor
    labels: Tensor
    weights: Tensor
    totals: Tensor
    classes: tuple[Hashable, ...]
    groupings: tuple[Grouping, ...]

    @classmethod
    def build(
        cls,
        y: Any,
        sensitive_features: Any = None,
        *,
        weights: Any = None,
        groups: Combine = "each",
        pos_label: Hashable | None = None,
    ) -> Cells:
        """Sort rows into cells.

        Parameters
        ----------
        y : sequence of n labels
            Any values; two or more classes.
        sensitive_features : None, mapping or table of columns, or array of shape (n,) or (n, columns)
            Strings, numbers, booleans or categoricals; None and NaN are missing.
        weights : sequence of n numbers, optional
            Weight of each row in the constraints; 1 by default.
        groups : {"each", "intersection", "both"}
            What the groups of several columns are.
        pos_label : label, optional
            Which of two labels is the positive one; by default the conventional one (1 of 0 and 1, "yes" of "no" and
            "yes"; see `fairbound.fairness.positive`), elsewhere the last in sorted order.

        Examples
        --------
        >>> cells = Cells.build([0, 1, 1, 0], ["a", "a", "b", None])
        >>> cells.groupings[0].groups
        ('a', 'b')
        >>> cells.group_counts()["sensitive_feature"]
        {'a': {0: 1.0, 1: 1.0}, 'b': {0: 0.0, 1: 1.0}}
        """
        labels, classes = _encode_labels(y, pos_label)
        n = len(labels)
        weight = _check_weights(weights, n)
        columns = _as_columns(sensitive_features, n)
        codes, values = [], []
        for name, column in columns.items():
            column_codes, column_values = encode(column, name)
            codes.append(column_codes)
            values.append(column_values)
        if codes:
            combinations, atom = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
            atom = atom.reshape(n)
        else:
            combinations, atom = np.zeros((1, 0), dtype=np.int64), np.zeros(n, dtype=np.int64)
        index = atom * len(classes) + labels
        return cls(
            index=torch.from_numpy(index.astype(np.int64)),
            labels=torch.from_numpy(labels),
            weights=torch.from_numpy(weight),
            totals=torch.from_numpy(np.bincount(index, weights=weight, minlength=len(combinations) * len(classes))),
            classes=classes,
            groupings=_make_groupings(list(columns), values, combinations, groups),
        )

    def __len__(self) -> int:
        return len(self.index)

    @property
    def n_cells(self) -> int:
        """K."""
        return len(self.totals)

    @property
    def n_labels(self) -> int:
        """L, the number of classes."""
        return len(self.classes)

    @property
    def outcomes(self) -> tuple[int, ...]:
        """Classes whose selection is counted: the positive one of two, or each of several."""
        return (1,) if self.n_labels == 2 else tuple(range(self.n_labels))

    @cached_property
    def smallest_weight(self) -> float:
        """The least positive row weight: what a single row is worth in a sum."""
        return float(self.weights[self.weights > 0].min())

    def sums(self, values: Tensor) -> Tensor:
        """Weighted sums over cells of values of shape (n, O), as (K, O), in an order that depends on the rows alone."""
        if values.ndim != 2 or len(values) != len(self):
            raise ValueError(f"values must have shape ({len(self)}, outcomes), but have shape {tuple(values.shape)}.")
        weighted = (values.to(torch.float64) * self.weights[:, None]).numpy()
        return torch.from_numpy(
            np.stack([np.bincount(self.index.numpy(), column, self.n_cells) for column in weighted.T], axis=1)
        )

    def grouping(self, name: str) -> Grouping:
        """Return the grouping of that name; an unknown one raises a sentence with the known ones."""
        for grouping in self.groupings:
            if grouping.name == name:
                return grouping
        known = ", ".join(repr(grouping.name) for grouping in self.groupings) or "none"
        raise ValueError(f"Unknown sensitive column {name!r}. Known: {known}.")

    def find_class(self, label: Hashable) -> int | None:
        """Index of a class, by its value or else by the text of its value; None where there is no such class."""
        return find_value(label, self.classes)

    def group_counts(self) -> dict[str, dict[Hashable, dict[Hashable, float]]]:
        """Weight of each label in each group of each grouping."""
        by_atom = self.totals.reshape(-1, self.n_labels)
        return {
            grouping.name: {
                group: dict(zip(self.classes, row, strict=True))
                for group, row in zip(grouping.groups, (grouping.membership[:-1] @ by_atom).tolist(), strict=True)
            }
            for grouping in self.groupings
        }


def find_value(value: Hashable, known: Sequence[Hashable]) -> int | None:
    """Place of a value among known ones, by itself or else by its text; None where it is not there."""
    if value in known:
        return known.index(value)
    for write in (str, lambda each: f"{each:g}" if isinstance(each, float) else str(each)):
        texts = [write(each) for each in known]
        if str(value) in texts:
            return texts.index(str(value))
    return None


def encode(column: Any, name: str) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Codes of a column's values, −1 where missing, and the distinct values in order."""
    array = _as_array(column)
    if array.dtype.kind in "iubUS":
        distinct, codes = np.unique(array, return_inverse=True)
        values = tuple(distinct.tolist())
    elif array.dtype.kind == "f":
        known = ~np.isnan(array)
        distinct, known_codes = np.unique(array[known], return_inverse=True)
        codes = np.full(len(array), -1)
        codes[known] = known_codes
        values = tuple(distinct.tolist())
    else:
        listed = array.tolist()
        distinct_values = {value: None for value in dict.fromkeys(listed) if not _is_missing(value)}
        values = tuple(sorted(distinct_values, key=lambda value: (type(value).__name__, value)))
        positions = {value: position for position, value in enumerate(values)}
        codes = np.array([-1 if _is_missing(value) else positions[value] for value in listed])
    if not values:
        raise ValueError(f"Sensitive column {name!r} has no known value: every row is missing.")
    if any(isinstance(value, float) and math.isinf(value) for value in values):
        raise ValueError(f"Sensitive column {name!r} contains infinity: give group values, or NaN where unknown.")
    if len(values) > _MOST_GROUPS:
        raise ValueError(
            f"Sensitive column {name!r} has {len(values):,} distinct values, more than {_MOST_GROUPS:,} groups: "
            "sort them into bins that mean something, and pass the bins."
        )
    return codes.astype(np.int64), values


def _as_array(values: Any) -> np.ndarray:
    """Return an array with the values as given.

    Left to itself numpy makes strings of a list that holds strings and NaN, floats of nullable integers, and forgets
    what a masked array masks.
    """
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        known = np.array(values.data, dtype=object)
        known[np.ma.getmaskarray(values)] = None
        return known
    array = np.asarray(values)
    if array.dtype.kind in "fUS" and not isinstance(getattr(values, "dtype", None), np.dtype):
        return np.asarray(values, dtype=object)
    return array


def _is_missing(value: object) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN and NaT are the values that differ from themselves
    except TypeError:  # pandas.NA refuses to be compared
        return True


def _encode_labels(y: Any, pos_label: Hashable | None) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    array = _as_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y must have one label per row, shape (n,), but has shape {array.shape}.")
    if len(array) == 0:
        raise ValueError("y is empty: at least one row of each class is needed.")
    if array.dtype.kind in "fO":
        listed = array.tolist()
        if any(_is_missing(label) or label in (math.inf, -math.inf) for label in listed):
            raise ValueError("y contains missing labels, NaN or infinity: drop the rows whose label is unknown.")
        if len({isinstance(label, str) for label in listed}) > 1:
            raise ValueError("y mixes text with other labels: give labels of one kind.")
    classes, labels = np.unique(array, return_inverse=True)
    names: list[Hashable] = classes.tolist()
    if len(names) < 2:
        raise ValueError(f"y has one class only, {names[0]!r}: a classifier needs at least two.")
    if len(names) > _MOST_CLASSES:
        raise ValueError(
            f"y has {len(names):,} distinct values, more than {_MOST_CLASSES:,} classes: a classifier needs labels, "
            "not a measurement."
        )
    if pos_label is None and len(names) == 2:
        pos_label = conventional_positive(names)
    if pos_label is not None:
        if len(names) > 2:
            raise ValueError(
                f"pos_label={pos_label!r} goes with two classes, but y has {len(names)}; "
                "with several name the classes of a limit by classes=."
            )
        if pos_label not in names:
            raise ValueError(f"pos_label={pos_label!r} is not a label of y. Labels: {', '.join(map(repr, names))}.")
        if names[0] == pos_label:
            names, labels = names[::-1], 1 - labels
    return labels.astype(np.int64), tuple(names)


def _check_weights(weights: Any, n: int) -> np.ndarray:
    if weights is None:
        return np.ones(n)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"weights must have shape ({n},), one per row, but have shape {array.shape}.")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ValueError("weights must be finite, not negative, and not all zero.")
    return array


def _as_columns(sensitive_features: Any, n: int) -> dict[str, Any]:
    """Named columns from a mapping, a table with `.columns`, or an array."""
    if sensitive_features is None:
        return {}
    if isinstance(sensitive_features, Mapping):
        columns = {str(name): column for name, column in sensitive_features.items()}
    elif hasattr(sensitive_features, "columns"):
        names = getattr(sensitive_features, "column_names", sensitive_features.columns)  # pyarrow's columns are values
        columns = {str(name): sensitive_features[name] for name in names}
    else:
        array = _as_array(sensitive_features)
        if array.ndim == 1:
            columns = {str(getattr(sensitive_features, "name", None) or "sensitive_feature"): sensitive_features}
        elif array.ndim == 2:
            columns = {f"sensitive_feature_{j}": array[:, j] for j in range(array.shape[1])}
        else:
            raise ValueError(f"sensitive_features must have shape (n,) or (n, columns), not {array.shape}.")
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            raise ValueError(
                f"Sensitive column {name!r} has shape {shape}, but y has {n} rows: one value per row is needed."
            )
    return columns


def _make_groupings(
    names: Sequence[str], values: Sequence[tuple[Hashable, ...]], combinations: np.ndarray, groups: str
) -> tuple[Grouping, ...]:
    if groups not in ("each", "intersection", "both"):
        raise ValueError(f'groups={groups!r}: must be "each", "intersection" or "both".')
    result = []
    if groups in ("each", "both") or len(names) < 2:
        for position, (name, column_values) in enumerate(zip(names, values, strict=True)):
            member = combinations[:, position] == np.arange(len(column_values))[:, None]
            result.append(_grouping(name, column_values, member))
    if groups in ("intersection", "both") and len(names) >= 2:
        known = np.flatnonzero((combinations >= 0).all(axis=1))
        if not 0 < len(known) <= _MOST_GROUPS:
            raise ValueError(
                f"The intersection of {', '.join(names)} has {len(known):,} groups (combinations of known values that "
                f'occur), but needs 1 to {_MOST_GROUPS:,}: choose other columns, or groups="each".'
            )
        tuples = tuple(tuple(column[code] for column, code in zip(values, combinations[a], strict=True)) for a in known)
        member = np.arange(len(combinations)) == known[:, None]
        result.append(_grouping(" & ".join(names), tuples, member))
    return tuple(result)


def _grouping(name: str, groups: tuple[Hashable, ...], member: np.ndarray) -> Grouping:
    everyone = member.any(axis=0, keepdims=True)
    return Grouping(name, groups, torch.from_numpy(np.concatenate([member, everyone]).astype(np.float64)))
