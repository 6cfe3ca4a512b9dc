"""The support of a limited rate: the number of selected rows in a group, with and without the limits.

Selecting almost nobody is often the cheapest way to keep a limit on a ratio of rates.  Such a rate is computed from a
few rows, and says little about new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from fairbound._words import group_text
from fairbound.fairness import (
    GroupSums,
    RateBlock,
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


def rate_supports(found: Assessment, free: Assessment) -> list[RateSupport]:
    """Return the support of each limited rate, by group, in the order of the limits; accuracies have none."""
    supports = []
    for block in found.system.blocks:
        counted = SELECTED.get(block.rate)
        if counted is None:
            continue
        selected, rows = counted(_sums(found, block))
        before, _ = counted(_sums(free, block))
        cells = found.system.cells
        per_weight = cells.n_rows / float(cells.totals.sum())
        for position, group in enumerate(block.grouping.groups):
            supports.append(
                RateSupport(
                    rate=block.rate.__name__,
                    grouping=block.grouping.name,
                    group=group,
                    selected=round(per_weight * float(selected[position])),
                    rows=round(per_weight * float(rows[position])),
                    selected_without_limits=round(per_weight * float(before[position])),
                )
            )
    return supports


def rates_on_a_handful(found: Assessment, free: Assessment | None) -> list[RateSupport]:
    """Return the limited rates that, because of the limits, are computed from only a few selected rows."""
    return [] if free is None else [each for each in rate_supports(found, free) if each.fell_to_a_handful]


def _sums(assessment: Assessment, block: RateBlock) -> GroupSums:
    return group_sums(assessment.counts, assessment.system.cells, block.grouping, block.outcome)
