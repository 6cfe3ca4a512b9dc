"""Draw the rows of a part by one rule, for rows in memory, in files and in several processes.

    u(seed, i)    a number in [0, 1), from a hash of the seed and of the place i of a row in its source
    stratum       the rows with one label and one combination of groups
    drawn         the m rows of a stratum with the smallest u

Over the strata, in the order of their first rows, the counts m add up to the share of all rows, each sum rounded.  So a
draw depends on the order of the rows, and not on how they are read, nor on the names of the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairbound._errors import InputError, bad_value, together
from fairbound.data.arrays import FloatArray, IntArray
from fairbound.data.probabilities import has_probabilities

Key = tuple[str, ...]
"""A label and its groups, as text."""


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


@dataclass
class Stratum:
    """The place of the first row of one label and group, and the numbers u of all its rows."""

    first: int
    u: FloatArray

    def joined(self, *others: Stratum) -> Stratum:
        """Return the stratum with the rows of others."""
        return Stratum(min(each.first for each in (self, *others)), np.concatenate([self.u, *(o.u for o in others)]))


def _find_cuts(found: Mapping[Key, Stratum], share: float, *, pool: bool = True) -> dict[Key, float]:
    """Return for each label and combination of groups the number u below which its rows are drawn.

    With `pool`, a row that is alone in its stratum joins the largest group of its label; otherwise it is an error.
    """
    if not 0 < share < 1:
        raise bad_value("test_size", share, "a share of the rows, above 0 and below 1")
    strata = {key: [key] for key in found}  # the combinations whose rows are drawn together
    size = {key: len(each.u) for key, each in found.items()}
    if pool:
        for alone in [key for key in found if size[key] == 1]:
            alike = [key for key in strata if key[0] == alone[0]]
            largest = min(alike, key=lambda key: (-size[key], found[key].first))
            if largest != alone:
                strata[largest] += strata.pop(alone)
    whole = [found[keys[0]].joined(*(found[key] for key in keys[1:])) for keys in strata.values()]
    sizes = np.array([len(each.u) for each in whole])
    if sizes.min() < 2:
        label, *groups = list(strata)[int(sizes.argmin())]
        if sum(rows for key, rows in size.items() if key[0] == label) == 1:
            raise ValueError(f"Only one row has label {label}, so it cannot be in both parts; give more rows of it.")
        raise InputError(
            "Only one row has label {label} and group ({group}), so it cannot be in both parts.",
            "Stratify on fewer columns ({by=}), or merge small groups.",
            label=label,
            group=", ".join(map(str, groups)),
        )
    order = np.argsort([each.first for each in whole])
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
    keys, cuts = list(strata.values()), {}
    for number, count in zip(order.tolist(), drawn.tolist(), strict=True):
        u = whole[number].u
        cut = 1.0 if count == len(u) else float(np.partition(u, count)[count]) if count else 0.0
        cuts.update(dict.fromkeys(keys[number], cut))
    return cuts


def draw_parts(
    y: IntArray,
    columns: Sequence[NDArray[Any]],
    share: float,
    seed: int,
    places: IntArray,
    *,
    pool: bool = True,
    processes: Any = None,
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
        Whether a row that is alone in its stratum joins the largest group of its label; otherwise it is an error.
    processes : Processes, optional
        The processes that have the other rows; all draw from the rows of all.
    """
    columns = [column for column in columns if not has_probabilities(column)]  # there is no group to stratify on
    keys, of_row = _strata([y, *columns])
    u = numbers(seed, places)
    order = np.argsort(of_row, kind="stable")
    rows = np.split(order, np.searchsorted(of_row[order], np.arange(1, len(keys))))
    found = {key: Stratum(int(places[each].min()), u[each]) for key, each in zip(keys, rows, strict=True)}
    if processes is not None:
        several: dict[Key, list[Stratum]] = {}
        for own in processes.gather(found):
            for key, each in own.items():
                several.setdefault(key, []).append(each)
        found = {key: each[0].joined(*each[1:]) for key, each in several.items()}
    with together(processes):
        cuts = _find_cuts(found, share, pool=pool)
    drawn = u < np.array([cuts[key] for key in keys])[of_row]
    return np.flatnonzero(~drawn), np.flatnonzero(drawn)


def _strata(columns: Sequence[NDArray[Any]]) -> tuple[list[Key], IntArray]:
    """Return the distinct combinations of label and groups, and which one each row has."""
    # As text, missing is one more value, and columns of mixed types can be sorted.
    coded = [np.unique(column.astype(str), return_inverse=True) for column in columns]
    of_row = np.zeros(len(columns[0]), dtype=np.int64)
    for values, codes in coded:
        of_row = np.unique(of_row * len(values) + codes, return_inverse=True)[1]
    some = np.unique(of_row, return_index=True)[1]
    return list(zip(*(values[codes[some]].tolist() for values, codes in coded), strict=True)), of_row
