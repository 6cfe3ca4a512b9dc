"""Draw the rows of a part by one rule, for rows in memory, in files and in several processes.

    u(seed, i)    a number in [0, 1), from a hash of the seed and of the place i of a row in its source
    stratum       the rows with one label and one combination of groups
    drawn         the m rows of a stratum with the smallest u

Over the strata, in the order of their first rows, the counts m add up to the share of all rows, each sum rounded.  So a
draw depends on the order of the rows, and not on how they are read, nor on the names of the groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairbound._errors import InputError, bad_value
from fairbound.data.columns import has_probabilities

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MOST_KEPT = 2**16
"""Numbers u of one stratum that are kept before those far from the share are only counted."""


@dataclass
class Stratum:
    """The numbers u of the rows of one label and group, in bounded memory.

    The m-th smallest of n numbers, with m about share × n, lies near the share.  So if there are many, numbers further
    away than 8 standard deviations of that one are not kept; of those below, only the count.
    """

    share: float
    rows: int = 0
    first: int = sys.maxsize
    below: int = 0
    near: FloatArray = field(default_factory=lambda: np.zeros(0))

    def join(self, other: Stratum) -> None:
        """Add the rows of another one."""
        self.rows, self.first = self.rows + other.rows, min(self.first, other.first)
        self.below, self.near = self.below + other.below, np.concatenate([self.near, other.near])
        if len(self.near) > MOST_KEPT:
            reach = 8 * (np.sqrt(self.share * (1 - self.share) / self.rows) + 1 / self.rows)
            self.below += int((self.near < self.share - reach).sum())
            self.near = self.near[np.abs(self.near - self.share) <= reach]

    def cut(self, drawn: int) -> float:
        """Return a number that is above those of the drawn rows, and not above that of any other."""
        if drawn == self.rows:
            return 1.0
        return float(np.partition(self.near, drawn - self.below)[drawn - self.below]) if drawn else 0.0


def as_seed(random_state: Any) -> int:
    """Return a seed; a generator, or None, gives its next number."""
    return random_state if isinstance(random_state, int) else int(check_random_state(random_state).randint(2**31 - 1))


def numbers(seed: int, places: IntArray) -> FloatArray:
    """Return the number u of each place, by the finaliser of splitmix64 on a counter that starts at the seed."""
    start = np.random.SeedSequence(int(seed)).generate_state(1, np.uint64)
    bits = start + places.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: FloatArray = ((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    return found


def by_stratum(share: float, of_row: IntArray, places: IntArray, u: FloatArray) -> Iterator[tuple[int, Stratum]]:
    """Yield the strata of some rows, by the number that each row has in `of_row`."""
    order = np.argsort(of_row, kind="stable")
    known, starts = np.unique(of_row[order], return_index=True)
    for number, rows in zip(known.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, Stratum(share, len(rows), int(places[rows].min()), 0, u[rows])


def find_cuts(
    y: IntArray, columns: Sequence[NDArray[Any]], found: Sequence[Stratum], share: float, *, pool: bool = True
) -> FloatArray:
    """Return for each entry, a combination of label and groups, the number u below which its rows are drawn.

    With `pool`, a row that is alone in its stratum joins the largest group of its label; otherwise it is an error.
    """
    if not 0 < share < 1:
        raise bad_value("test_size", share, "a share of the rows, above 0 and below 1")
    stratum = _numbered([y, *columns])
    sizes, first = _sums(stratum, found)
    if pool:
        for alone in np.flatnonzero(sizes[stratum] == 1).tolist():
            alike = stratum[y == y[alone]]
            stratum[alone] = alike[np.lexsort((first[alike], -sizes[alike]))[0]]
        stratum = _numbered([stratum])
        sizes, first = _sums(stratum, found)
    if sizes.min() < 2:
        alone = int(np.flatnonzero(stratum == sizes.argmin())[0])
        if sum(each.rows for each, label in zip(found, y, strict=True) if label == y[alone]) == 1:
            raise ValueError(f"Only one row has label {y[alone]}, so it cannot be in both parts; give more rows of it.")
        raise InputError(
            "Only one row has label {label} and group ({group}), so it cannot be in both parts.",
            "Stratify on fewer columns ({by=}), or merge small groups.",
            label=y[alone],
            group=", ".join(str(column[alone]) for column in columns),
        )
    order = np.argsort(first)
    drawn = np.diff(np.floor(share * np.cumsum(sizes[order]) + 0.5), prepend=0).astype(np.int64)
    smaller = min(drawn.sum(), sizes.sum() - drawn.sum())
    if smaller < len(sizes):
        raise InputError(
            "{test_size=share} leaves {smaller} of {rows} rows in the smaller part, but label and groups form {strata} "
            "strata.",
            "Choose another {test_size=}, or stratify on fewer columns ({by=}).",
            share=share,
            smaller=smaller,
            rows=sizes.sum(),
            strata=len(sizes),
        )
    cuts = np.zeros(len(sizes))
    for number, count in zip(order, drawn.tolist(), strict=True):
        whole = Stratum(share)
        for entry in np.flatnonzero(stratum == number).tolist():
            whole.join(found[entry])
        cuts[number] = whole.cut(count)
    return cuts[stratum]


def draw_parts(
    y: IntArray, columns: Sequence[NDArray[Any]], share: float, seed: int, places: IntArray, *, pool: bool = True
) -> tuple[IntArray, IntArray]:
    """Return the rows that are left, and those of a drawn part, both in order.

    Parameters
    ----------
    y : array of shape (n,)
        Label codes.
    columns : sequence of arrays of shape (n,)
        Groups to stratify on, together with the label; columns of probabilities are left out.
    share : float
        Share of the rows that are drawn, between 0 and 1.
    seed : int
    places : array of shape (n,)
        The place of each row in its source.
    pool : bool
        See `find_cuts`.
    """
    columns = [column for column in columns if not has_probabilities(column)]  # there is no group to stratify on
    of_row = _numbered([y, *columns])
    u = numbers(seed, places)
    some = np.unique(of_row, return_index=True)[1]
    found = [each for _, each in by_stratum(share, of_row, places, u)]
    drawn = u < find_cuts(y[some], [column[some] for column in columns], found, share, pool=pool)[of_row]
    return np.flatnonzero(~drawn), np.flatnonzero(drawn)


def _numbered(columns: Sequence[NDArray[Any]]) -> IntArray:
    """Return a number for each distinct combination of values."""
    # As text, missing is one more value, and columns of mixed types can be sorted.
    codes = [np.unique(column.astype(str), return_inverse=True)[1] for column in columns]
    return np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel().astype(np.int64)  # numpy 2.0 kept an axis


def _sums(stratum: IntArray, found: Sequence[Stratum]) -> tuple[IntArray, IntArray]:
    """Return the number of rows and the first row of each stratum."""
    sizes, first = np.zeros(stratum.max() + 1, dtype=np.int64), np.full(stratum.max() + 1, sys.maxsize)
    np.add.at(sizes, stratum, [each.rows for each in found])
    np.minimum.at(first, stratum, [each.first for each in found])
    return sizes, first
