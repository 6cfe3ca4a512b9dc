"""The support of a limited rate: the number of selected rows in a group, with and without the limits.

Selecting almost nobody is often the cheapest way to keep a limit on a ratio of rates.  Such a rate is computed from a
few rows, and says little about new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from fairbound._words import group_text
from fairbound.fairness import (
    GroupSums,
    RateFunction,
    false_positive_rate,
    group_sums,
    precision,
    selection_rate,
    true_positive_rate,
)
from fairbound.training.assessment import Assessment
from fairbound.training.chunks import Floats

FEW_SELECTED = 10
"""A rate with fewer selected rows than this is reported as resting on few rows."""

SELECTED: dict[RateFunction, Callable[[GroupSums], tuple[Floats, Floats]]] = {
    selection_rate: lambda sums: (sums.selected, sums.size),
    precision: lambda sums: (sums.selected, sums.size),
    true_positive_rate: lambda sums: (sums.selected_positives, sums.positives),
    false_positive_rate: lambda sums: (sums.selected_negatives, sums.negatives),
}
"""For each rate: the selected rows that it counts, and all rows from which they were selected."""


@dataclass(frozen=True)
class RateSupport:
    """The rows from which a limited rate of one group is computed.

    Attributes
    ----------
    rate, grouping : str
    group : group
    selected, rows : int
        Selected rows, and all rows that the rate refers to; weights are scaled to mean 1.
    selected_without_limits : int
        Rows selected by the model without limits.
    """

    rate: str
    grouping: str
    group: Hashable
    selected: int
    rows: int
    selected_without_limits: int

    @property
    def fell_to_a_handful(self) -> bool:
        """Return whether few rows are selected under the limits, but many without them."""
        return self.selected < FEW_SELECTED and self.selected_without_limits >= 2 * FEW_SELECTED

    def __str__(self) -> str:
        return (
            f"The {self.rate.replace('_', ' ')} of {group_text(self.group)} ({self.grouping}) rests on {self.selected} "
            f"selected rows of {self.rows}; without limits {self.selected_without_limits} were selected."
        )


def rates_on_a_handful(found: Assessment, free: Assessment | None) -> list[RateSupport]:
    """Return the limited rates that, because of the limits, are computed from only a few selected rows.

    They have the order of the limits; accuracies select no rows.
    """
    if free is None:
        return []
    supports, cells = list[RateSupport](), found.system.cells
    per_weight = cells.n_rows / float(cells.totals.sum())
    for block in found.system.blocks:
        if block.rate not in SELECTED:
            continue
        (selected, rows), (before, _) = (
            SELECTED[block.rate](group_sums(each.counts, each.system.cells, block.grouping, block.outcome))
            for each in (found, free)
        )
        numbers = np.rint(per_weight * np.stack([selected, rows, before], axis=1)).astype(int).tolist()
        supports += [
            RateSupport(block.rate.__name__, block.grouping.name, group, *each)
            for group, each in zip(block.grouping.groups, numbers, strict=False)  # the last number may be of all rows
        ]
    return [each for each in supports if each.fell_to_a_handful]
