"""The statistics of a data set by label and group.

The statistics are those of the paper's table of data sets (appendix "Overview of Datasets"); they need no model.  With
the empirical distribution P of the rows, the favourable label Y = 1 and the groups S = g (the paper has two groups; if
there are more, the maximum or minimum is over all pairs of groups):

    DPVRL  = max |P(Y=1 | S=a) − P(Y=1 | S=b)|      demographic parity violation with rote learning
    DRIVRL = max |P(S=a | Y=1) − P(S=b | Y=1)|      demographic representation imbalance violation with rote learning
    DIRL   = min  P(Y=1 | S=a) / P(Y=1 | S=b)       disparate impact with rote learning

"Rote learning" means a model that predicts every label correctly. The accuracies of constant predictions show what a
model has to beat.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import bad_value
from fairbound._escapes import visible
from fairbound.data.schema import is_missing


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """Counts of a data set by group and label, and statistics derived from them; `print` shows a table.

    Attributes
    ----------
    name : str
        Name of the data set.
    sensitive : str or None
        Name of the sensitive column; None if there is none.
    groups : tuple
        The G groups, in order.
    labels : tuple of str
        Words for the K label codes.
    counts : array of shape (G, K)
        Rows by group and label.
    label_counts : array of shape (K,)
        Rows by label, including those without a group.
    positive : int
        The label code that counts as Y = 1.
    """

    name: str
    sensitive: str | None
    groups: tuple[Hashable, ...]
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    label_counts: NDArray[np.int64]
    positive: int = 1

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.label_counts.sum())

    @property
    def n_missing_group(self) -> int:
        """Return the number of rows whose group is missing; they count in n, but in no group."""
        return int((self.label_counts - self.counts.sum(axis=0)).sum())

    @property
    def base_rates(self) -> dict[Hashable, float]:
        """Return P(Y=1 | S=g) by group."""
        rates = _share(self.counts[:, self.positive], self.counts.sum(axis=1))
        return dict(zip(self.groups, rates, strict=True))

    @property
    def representation(self) -> dict[Hashable, float]:
        """Return P(S=g | Y=1) by group, among the rows whose group is known."""
        positives = self.counts[:, self.positive]
        return dict(zip(self.groups, _share(positives, positives.sum()), strict=True))

    @property
    def dpvrl(self) -> float:
        """Return the largest difference of the base rates of two groups; NaN without a group."""
        return _range(self.base_rates.values())

    @property
    def drivrl(self) -> float:
        """Return the largest difference of two groups' shares among the rows with Y = 1; NaN without a group."""
        return _range(self.representation.values())

    @property
    def dirl(self) -> float:
        """Return the smallest ratio of the base rates of two groups; 1 if all are zero, NaN without a group."""
        rates = list(self.base_rates.values())
        if not rates:
            return float("nan")
        # The largest δ ≤ 1 with δ·r_a ≤ r_b for all pairs; if all rates are zero, every δ satisfies this.
        return min(rates) / max(rates) if max(rates) > 0 else 1.0

    @property
    def constant_accuracies(self) -> dict[str, float]:
        """Return the accuracy of each constant prediction, by label."""
        return dict(zip(self.labels, (self.label_counts / self.n).tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values; None if a value is undefined."""
        return {
            "name": self.name,
            "sensitive": self.sensitive,
            "n": self.n,
            "n_missing_group": self.n_missing_group,
            "positive": self.labels[self.positive],
            "labels": dict(zip(self.labels, self.label_counts.tolist(), strict=True)),
            "groups": {
                str(group): {
                    "n": sum(row),
                    "labels": dict(zip(self.labels, row, strict=True)),
                    "base_rate": _or_none(self.base_rates[group]),
                    "representation": _or_none(self.representation[group]),
                }
                for group, row in zip(self.groups, self.counts.tolist(), strict=True)
            },
            "dpvrl": _or_none(self.dpvrl),
            "drivrl": _or_none(self.drivrl),
            "dirl": _or_none(self.dirl),
            "constant_accuracies": self.constant_accuracies,
        }

    def __repr__(self) -> str:
        title = f"Data set {self.name!r}: {self.n:,} rows"
        header = ["", *map(str, self.groups), "all"]
        lines = [
            [f"Y = {code}: {word}", *(f"{count:,}" for count in by_group), f"{count:,}"]
            for code, (word, by_group, count) in enumerate(
                zip(self.labels, self.counts.T.tolist(), self.label_counts.tolist(), strict=True)
            )
        ]
        everyone = self.label_counts[self.positive] / self.n
        y = f"Y={self.positive}"
        lines += [
            ["rows", *(f"{count:,}" for count in self.counts.sum(axis=1).tolist()), f"{self.n:,}"],
            [f"P({y} | S)", *(f"{rate:.4f}" for rate in self.base_rates.values()), f"{everyone:.4f}"],
            [f"P(S | {y})", *(f"{share:.4f}" for share in self.representation.values()), ""],
        ]
        notes = []
        if self.groups:
            notes += [f"DPVRL {self.dpvrl:.4f}   DRIVRL {self.drivrl:.4f}   DIRL {self.dirl:.4f}"]
        if self.n_missing_group:
            notes += [f"without a group: {self.n_missing_group:,} {'row' if self.n_missing_group == 1 else 'rows'}"]
        constant = "   ".join(f"{word}: {share:.4f}" for word, share in self.constant_accuracies.items())
        by = f", S = {self.sensitive}" if self.sensitive is not None else ""
        last = f"accuracy of a constant: {constant}"
        return "\n".join([visible(title + by), *_aligned([header, *lines]), *notes, visible(last)])


def describe(
    name: str,
    y: NDArray[np.int64],
    labels: Sequence[str],
    *,
    sensitive: str | None = None,
    values: NDArray[Any] | None = None,
    positive: int = 1,
) -> Description:
    """Count the rows by group and label (see `Dataset.describe`)."""
    if not 0 <= positive < len(labels):
        raise bad_value("positive", positive, f"a label code from 0 to {len(labels) - 1}")
    label_counts = np.bincount(y, minlength=len(labels))
    if values is None:
        values = np.full(len(y), np.nan)
    known = ~is_missing(values)
    listed = values[known].tolist()
    groups = tuple(sorted(set(listed), key=lambda group: (isinstance(group, str), group)))
    place = {group: position for position, group in enumerate(groups)}
    code = np.array([place[group] for group in listed], dtype=np.int64)
    counts = np.bincount(code * len(labels) + y[known], minlength=len(groups) * len(labels))
    return Description(
        name, sensitive, groups, tuple(labels), counts.reshape(len(groups), len(labels)), label_counts, positive
    )


def _share(part: NDArray[np.int64], whole: Any) -> list[float]:
    """Return part/whole; NaN if the whole is empty."""
    whole = np.broadcast_to(whole, part.shape)
    return [p / w if w else float("nan") for p, w in zip(part.tolist(), whole.tolist(), strict=True)]


def _or_none(value: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def _range(values: Any) -> float:
    listed = list(values)
    return max(listed) - min(listed) if listed else float("nan")


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return lines whose first cell is aligned to the left and the others to the right."""
    rows = [list(map(visible, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
