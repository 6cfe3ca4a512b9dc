"""Rates of groups as functions of cell sums, for any S: of a surrogate (smooth) or of decisions (exact).

    selection rate        (S_g1 + S_g0) / (N_g1 + N_g0)       true-positive rate    S_g1 / N_g1
    precision             S_g1 / (S_g1 + S_g0)                false-positive rate   S_g0 / N_g0
    accuracy              (S_g1 + N_g0 − S_g0) / (N_g1 + N_g0)

A rate is a plain function of `GroupSums`, and so is a user's own.  With several classes the sums are those of one class
against the rest.

Conventions
-----------
Every field of `GroupSums` has shape (..., G + 1): one entry per group, and last everyone whose group is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbound.fairness.cells import Cells, Grouping


@dataclass(frozen=True)
class GroupSums:
    """Sums over the groups of one grouping, for one outcome (the class whose selection is counted).

    Attributes
    ----------
    selected_positives, selected_negatives : Tensor
        S of the rows whose label is that class, and of the others.
    positives, negatives : Tensor
        N of the rows whose label is that class, and of the others.
    correct : Tensor
        Rows predicted right, over all classes.
    one_row : float
        What a single row weighs: sums in a denominator below half of it count as empty.
    """

    selected_positives: Tensor
    selected_negatives: Tensor
    positives: Tensor
    negatives: Tensor
    correct: Tensor
    one_row: float

    @property
    def selected(self) -> Tensor:
        """S of all rows of the group."""
        return self.selected_positives + self.selected_negatives

    @property
    def size(self) -> Tensor:
        """N of all rows of the group."""
        return self.positives + self.negatives

    def share(self, part: Tensor, whole: Tensor) -> Tensor:
        """Part / whole where the whole depends on the model; 0 where it is empty, as scikit-learn has it."""
        return part / whole.clamp(min=0.5 * self.one_row)


def group_sums(S: Tensor, cells: Cells, grouping: Grouping, outcome: int) -> GroupSums:
    """Sum cells over groups.  `S` has shape (..., K, O)."""
    L = cells.n_labels
    by_label = S.unflatten(-2, (-1, L))  # (..., A, L, O)
    totals = cells.totals.reshape(-1, L)

    def over_groups(by_atom: Tensor) -> Tensor:
        return by_atom @ grouping.membership.T

    column = by_label[..., cells.outcomes.index(outcome)]
    others = [label for label in range(L) if label != outcome]  # added up, not subtracted: empty stays exactly 0
    selected_positives = over_groups(column[..., outcome])
    selected_negatives = over_groups(column[..., others].sum(dim=-1))
    positives = over_groups(totals[:, outcome])
    negatives = over_groups(totals[:, others].sum(dim=1))
    if L == 2:
        correct = selected_positives + negatives - selected_negatives
    else:
        correct = over_groups(by_label.diagonal(dim1=-2, dim2=-1).sum(dim=-1))
    return GroupSums(selected_positives, selected_negatives, positives, negatives, correct, cells.smallest_weight)


RateFunction = Callable[[GroupSums], Tensor]


def selection_rate(g: GroupSums) -> Tensor:
    """P(Ŷ = 1 | group)."""
    return g.selected / g.size


def true_positive_rate(g: GroupSums) -> Tensor:
    """P(Ŷ = 1 | Y = 1, group)."""
    return g.selected_positives / g.positives


def false_positive_rate(g: GroupSums) -> Tensor:
    """P(Ŷ = 1 | Y = 0, group)."""
    return g.selected_negatives / g.negatives


def true_negative_rate(g: GroupSums) -> Tensor:
    """P(Ŷ = 0 | Y = 0, group)."""
    return 1.0 - false_positive_rate(g)


def false_negative_rate(g: GroupSums) -> Tensor:
    """P(Ŷ = 0 | Y = 1, group)."""
    return 1.0 - true_positive_rate(g)


def precision(g: GroupSums) -> Tensor:
    """P(Y = 1 | Ŷ = 1, group); 0 for a group in which nobody is selected."""
    return g.share(g.selected_positives, g.selected)


def negative_predictive_value(g: GroupSums) -> Tensor:
    """P(Y = 0 | Ŷ = 0, group); 0 for a group in which everybody is selected."""
    return g.share(g.negatives - g.selected_negatives, g.size - g.selected)


def accuracy(g: GroupSums) -> Tensor:
    """P(Ŷ = Y | group)."""
    return g.correct / g.size


def share_of_selected(g: GroupSums) -> Tensor:
    """P(group | Ŷ = 1): how a group is represented among the selected."""
    return g.share(g.selected, g.selected[..., -1:])


RATES: dict[str, RateFunction] = {
    rate.__name__: rate
    for rate in (
        selection_rate,
        true_positive_rate,
        false_positive_rate,
        true_negative_rate,
        false_negative_rate,
        precision,
        negative_predictive_value,
        accuracy,
        share_of_selected,
    )
}


AFFINE_RATES: frozenset[RateFunction] = frozenset(
    (selection_rate, true_positive_rate, false_positive_rate, true_negative_rate, false_negative_rate, accuracy)
)
"""Rates whose denominators the model does not move: affine in S, with a derivative that never changes."""

QUOTIENT_RATES: frozenset[RateFunction] = frozenset(RATES.values()) - AFFINE_RATES
"""Rates that divide one sum of predictions by another."""


def undefined_groups(rate: RateFunction, cells: Cells, grouping: Grouping, outcome: int) -> list[int]:
    """Find the groups for which the rate divides by nothing, whatever the model predicts."""
    half = 0.5 * cells.totals[:, None].expand(-1, len(cells.outcomes))
    values = rate(group_sums(half, cells, grouping, outcome))[:-1]
    return torch.nonzero(~torch.isfinite(values)).flatten().tolist()
