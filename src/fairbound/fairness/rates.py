"""Rates of groups as functions of cell sums S, either of a surrogate (smooth) or of decisions (exact).

    selection rate        (S_g1 + S_g0) / (N_g1 + N_g0)       true-positive rate    S_g1 / N_g1
    precision             S_g1 / (S_g1 + S_g0)                false-positive rate   S_g0 / N_g0
    accuracy              (S_g1 + R_g0) / (N_g1 + N_g0)       R = N − S, the rows that are not selected

A rate is a function of `GroupSums`; users can define their own.  With several classes the sums are those of one class
against the rest.

Conventions
-----------
Every array of `GroupSums` has shape (..., G + 1): one entry per group; the last is everyone whose group is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

import numpy as np

from fairbound._values import torch
from fairbound.fairness.cells import Cells, Grouping
from fairbound.fairness.columns import Array


@dataclass(frozen=True)
class GroupSums:
    """Sums over the groups of one grouping, for one outcome (the class whose selection is counted).

    Attributes
    ----------
    selected_positives, selected_negatives : array
        S of the rows whose label is that class, and of the others.
    rejected_positives, rejected_negatives : array
        R of the same rows.
    positives, negatives : array
        N of the rows whose label is that class, and of the others.
    correct : array
        Rows predicted correctly, over all classes.
    one_row : float
        Least weight of a row.  A sum below half of it counts as empty in a denominator.
    """

    selected_positives: Array
    selected_negatives: Array
    rejected_positives: Array
    rejected_negatives: Array
    positives: Array
    negatives: Array
    correct: Array
    one_row: float

    @cached_property
    def selected(self) -> Array:
        """Return S of all rows of the group."""
        return self.selected_positives + self.selected_negatives

    @cached_property
    def rejected(self) -> Array:
        """Return R of all rows of the group."""
        return self.rejected_positives + self.rejected_negatives

    @cached_property
    def size(self) -> Array:
        """Return N of all rows of the group."""
        return self.positives + self.negatives

    def share(self, part: Array, whole: Array) -> Array:
        """Return part / whole for a whole that depends on the model; 0 if it is empty, as in scikit-learn."""
        return part / whole.clip(min=0.5 * self.one_row)


def group_sums(S: Array, cells: Cells, grouping: Grouping, outcome: int) -> GroupSums:
    """Add cell sums up to the sums of groups.

    `S` has shape (..., K, O), or (..., K, 2·O) if it also holds R, as for decisions.  Computed as N − S, an R that is
    small beside N would lose digits; weights may differ by twelve orders of magnitude.
    """
    L, n_outcomes = cells.n_labels, len(cells.outcomes)
    by_label = S.reshape(*S.shape[:-2], -1, L, S.shape[-1])  # (..., A, L, O)
    totals = cells.totals.reshape(-1, L)

    def over_groups(by_atom: Array) -> Array:
        return by_atom @ grouping.membership.T

    place = cells.outcomes.index(outcome)
    column = by_label[..., place]
    left = by_label[..., n_outcomes + place] if S.shape[-1] == 2 * n_outcomes else totals - column
    # Add the other labels instead of subtracting this one from the total, so that an empty sum is exactly 0.
    others = [label for label in range(L) if label != outcome]

    def of_others(by_label: Array) -> Array:
        return by_label[..., others[0]] if L == 2 else by_label[..., others].sum(axis=-1)

    selected_positives = over_groups(column[..., outcome])
    selected_negatives = over_groups(of_others(column))
    rejected_positives = over_groups(left[..., outcome])
    rejected_negatives = over_groups(of_others(left))
    positives = over_groups(totals[:, outcome])
    negatives = over_groups(of_others(totals))
    if L == 2:
        correct = selected_positives + rejected_negatives
    else:
        each = list(range(L))
        correct = over_groups(by_label[..., each, each].sum(axis=-1))
    return GroupSums(
        selected_positives,
        selected_negatives,
        rejected_positives,
        rejected_negatives,
        positives,
        negatives,
        correct,
        cells.smallest_weight,
    )


RateFunction = Callable[[GroupSums], Array]


def selection_rate(g: GroupSums) -> Array:
    """P(Ŷ = 1 | group)."""
    return g.selected / g.size


def true_positive_rate(g: GroupSums) -> Array:
    """P(Ŷ = 1 | Y = 1, group)."""
    return g.selected_positives / g.positives


def false_positive_rate(g: GroupSums) -> Array:
    """P(Ŷ = 1 | Y = 0, group)."""
    return g.selected_negatives / g.negatives


def true_negative_rate(g: GroupSums) -> Array:
    """P(Ŷ = 0 | Y = 0, group)."""
    return g.rejected_negatives / g.negatives


def false_negative_rate(g: GroupSums) -> Array:
    """P(Ŷ = 0 | Y = 1, group)."""
    return g.rejected_positives / g.positives


def precision(g: GroupSums) -> Array:
    """P(Y = 1 | Ŷ = 1, group); 0 for a group in which nobody is selected."""
    return g.share(g.selected_positives, g.selected)


def negative_predictive_value(g: GroupSums) -> Array:
    """P(Y = 0 | Ŷ = 0, group); 0 for a group in which everybody is selected."""
    return g.share(g.rejected_negatives, g.rejected)


def accuracy(g: GroupSums) -> Array:
    """P(Ŷ = Y | group)."""
    return g.correct / g.size


def share_of_selected(g: GroupSums) -> Array:
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
"""Rates whose denominators do not depend on the model: they are affine in S, and their derivative is constant."""

QUOTIENT_RATES: frozenset[RateFunction] = frozenset(RATES.values()) - AFFINE_RATES
"""Rates that divide one sum of predictions by another."""


def evaluate(rate: RateFunction, sums: GroupSums) -> Array:
    """Return the rate of each group; NaN or infinite if it divides by zero.

    A user-defined rate always gets tensors, as in training, so that it may call torch.
    """
    if not isinstance(sums.positives, np.ndarray):
        return rate(sums)
    if rate not in AFFINE_RATES and rate not in QUOTIENT_RATES:
        tensors: dict[str, Any] = {
            each.name: torch.from_numpy(getattr(sums, each.name)) for each in fields(sums) if each.name != "one_row"
        }
        return rate(GroupSums(**tensors, one_row=sums.one_row)).numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        return rate(sums)


@cache
def uses_label(rate: RateFunction) -> bool:
    """Return whether a rate depends on labels, or on decisions and groups only.

    The rate is evaluated for decisions of two groups with two different sets of labels.

    >>> uses_label(selection_rate), uses_label(share_of_selected), uses_label(accuracy)
    (False, False, True)
    """
    selected, rejected = np.array([[311.0, 173.0, 484.0]]), np.array([[127.0, 229.0, 356.0]])
    values = []
    for first, second in (([0.31, 0.62, 0.42], [0.23, 0.71, 0.54]), ([0.57, 0.19, 0.44], [0.68, 0.37, 0.48])):
        of_selected, of_rejected = selected * np.array(first), rejected * np.array(second)
        sums = GroupSums(
            selected_positives=of_selected,
            selected_negatives=selected - of_selected,
            rejected_positives=of_rejected,
            rejected_negatives=rejected - of_rejected,
            positives=of_selected + of_rejected,
            negatives=selected + rejected - of_selected - of_rejected,
            correct=of_selected + rejected - of_rejected,
            one_row=1.0,
        )
        values.append(np.asarray(evaluate(rate, sums), dtype=np.float64))
    return not np.allclose(values[0], values[1], rtol=1e-9, atol=1e-12)


def undefined_groups(rate: RateFunction, cells: Cells, grouping: Grouping, outcome: int) -> list[int]:
    """Return the groups for which the rate divides by zero, whatever the model predicts."""
    half = 0.5 * cells.totals[:, None][:, [0] * len(cells.outcomes)]
    values = evaluate(rate, group_sums(half, cells, grouping, outcome))[:-1]
    return [position for position, value in enumerate(values.tolist()) if not math.isfinite(value)]
