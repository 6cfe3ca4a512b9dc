"""The rows of a batch as a monitor counts them: by group, in a random order, divided into blocks of outcomes.

**Blocks.**  The rows of a group in a batch are divided into consecutive blocks of about equal size.  There are as many
blocks as rows of the smaller group, up to `MOST_BLOCKS`.  So all rows are used.  The order of the rows in a batch does
not matter, because those of each group are put into a random order first.  If one group has no rows in a batch, the
rows of the other wait, and count in the first block of a later batch.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._values import exact_array, is_gap
from fairbound.evaluation.intervals import sums_of_counts
from fairbound.evaluation.tally import WHOLES
from fairbound.fairness import RateFunction, evaluate, is_divided, read_columns

MOST_BLOCKS = 200
"""Most blocks of a requirement in a batch.  Stakes are chosen once per block; more blocks would gain almost nothing."""

Waiting = NDArray[np.float64]  # rows and positive outcomes of both rates that have no counterpart yet, (4,)


def group_rows(
    sensitive_features: Any, n: int, groups: str, rng: np.random.Generator
) -> tuple[list[str], dict[str, dict[Hashable, NDArray[np.int64]]]]:
    """Return the names of the columns, and for each grouping its groups with the places of their rows, in random order.

    Rows without a known group are in none.
    """
    read = read_columns(sensitive_features, n)
    divided = [name for name, values in read.items() if is_divided(values)]
    if divided:
        raise ValueError(
            f"A monitor watches groups that are known, but {divided[0]!r} has probabilities of groups: give one group "
            "for each row."
        )
    columns = {name: list(map(in_one_form, exact_array(values).tolist())) for name, values in read.items()}
    keys: dict[str, list[Any]] = {}
    if groups != "intersection" or len(columns) < 2:
        keys |= {name: [(value,) for value in values] for name, values in columns.items()}
    if groups != "each" and len(columns) > 1:
        keys[" & ".join(columns)] = list(zip(*columns.values(), strict=True))
    found: dict[str, dict[Hashable, NDArray[np.int64]]] = {}
    for name, key in keys.items():
        places: dict[Hashable, list[int]] = {}
        for row, values in enumerate(key):
            if not any(map(is_gap, values)):
                places.setdefault(values if len(values) > 1 else values[0], []).append(row)
        # The order of one group must not depend on that of another, nor on which of them comes first.
        mixed = {group: rng.permutation(places[group]) for group in sorted(places, key=repr)}
        found[name] = {group: mixed[group] for group in places}
    return list(columns), found


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?")
_EXACT_DIGITS = 15  # of a fraction; whole numbers are exact at any length


def in_one_form(group: Any) -> Any:
    """Return a group in the form that it has in every batch: as a number, even if a stray word made its column text.

    Codes such as 01 stay text; truth values, dates and the like become text, as in files.

    >>> [in_one_form(group) for group in (1, 1.0, "1", "1.0", -0.0, "0.5", "01", True, "yes")]
    [1, 1, 1, 1, 0, 0.5, '01', 'True', 'yes']
    """
    if isinstance(group, bool) or not (is_gap(group) or isinstance(group, str | int | float)):
        group = str(group)
    if isinstance(group, str) and len(group) < 40:
        found = _NUMBER.fullmatch(group.strip())
        if found is not None and (found[2] is None or not found[2].strip(".0")):
            return int(found[0].partition(".")[0])
        if found is not None and len(group) <= _EXACT_DIGITS:
            return float(found[0])
    return int(group) if isinstance(group, float) and group.is_integer() else group


@cache
def _outcome_table(rate: RateFunction) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return, for each kind of row (2 · label + decision), whether it counts in a rate, and its outcome, 0 or 1.

    The rate itself is evaluated on single rows, so that a monitor needs no second formula for it.
    """
    label, decision = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    sums = sums_of_counts(label * decision, (1.0 - label) * decision, label, 1.0 - label)
    whole = WHOLES[rate](sums)
    return whole > 0, np.nan_to_num(evaluate(rate, sums)) * whole


def outcomes(rate: RateFunction, kinds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the outcomes of the rows that count in a rate, 1 or 0, in their order."""
    counts, positive = _outcome_table(rate)
    return positive[kinds[counts[kinds]]]


def divide(
    waiting: Waiting, first: NDArray[np.float64], second: NDArray[np.float64] | None
) -> tuple[Waiting, NDArray[np.float64]]:
    """Divide the outcomes of one batch into blocks; return the rows that must wait, and the blocks, of shape (B, 4).

    `second` is None for a requirement on one rate.  The division depends on numbers of rows only, never on outcomes.
    """
    parts = [_with_waiting(waiting[:2], first)]
    if second is not None:
        parts.append(_with_waiting(waiting[2:], second))
    n_blocks = min(MOST_BLOCKS, *(len(part) for part in parts))
    blocks = np.zeros((max(n_blocks, 1), 4))
    for place, part in enumerate(parts):
        starts = np.arange(n_blocks) * len(part) // max(n_blocks, 1)
        sums = np.add.reduceat(part, starts, axis=0) if n_blocks else part.sum(axis=0)
        blocks[:, 2 * place : 2 * place + 2] = sums
    return (np.zeros(4), blocks) if n_blocks else (blocks[0], blocks[:0])


def _with_waiting(waiting: NDArray[np.float64], outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return pairs (rows, positive outcomes): one pair for all rows that waited, then one for each new row."""
    new = np.stack([np.ones(len(outcomes)), outcomes], axis=1)
    return np.concatenate([waiting[None], new]) if waiting[0] > 0 else new
