"""Sums of decisions, or of their surrogates, over the groups of one grouping; every rate is a function of them.

Conventions
-----------
Every array of `GroupSums` has shape (..., G + 1): one entry per group; the last is everyone whose group is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness.cells import Cells, Grouping

Floats = NDArray[np.float64]


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
    changed : array
        Rows decided otherwise than before, with two classes; 0 if the decisions before are not known.
    """

    selected_positives: Floats
    selected_negatives: Floats
    rejected_positives: Floats
    rejected_negatives: Floats
    positives: Floats
    negatives: Floats
    correct: Floats
    one_row: float
    changed: Floats | float = 0.0

    @cached_property
    def selected(self) -> Floats:
        """Return S of all rows of the group."""
        return self.selected_positives + self.selected_negatives

    @cached_property
    def rejected(self) -> Floats:
        """Return R of all rows of the group."""
        return self.rejected_positives + self.rejected_negatives

    @cached_property
    def size(self) -> Floats:
        """Return N of all rows of the group."""
        return self.positives + self.negatives

    def share(self, part: Floats, whole: Floats) -> Floats:
        """Return part / whole for a whole that depends on the model; 0 if the whole is empty, as in scikit-learn."""
        # An empty whole has an empty part, and 0 / (half a row) = 0.  A whole of decisions that is not empty has at
        # least one row, so clipping at half a row changes nothing.  It also keeps the derivative bounded.  Sums are
        # complex when derivatives are computed, and complex numbers have no order.
        least = 0.5 * self.one_row
        return part / np.where(np.real(whole) < least, least, whole)


def group_sums(S: Floats, cells: Cells, grouping: Grouping, outcome: int) -> GroupSums:
    """Add the sums of cells to get the sums of groups.

    `S` has shape (..., K, O), or (..., K, 2·O) if it also holds R.  For decisions R is given: weights may differ by
    twelve orders of magnitude, and a small R would lose digits if it were computed as N − S.
    """
    L, n_outcomes = cells.n_labels, len(cells.outcomes)
    by_label = S.reshape(*S.shape[:-2], -1, L, S.shape[-1])  # (..., A, L, O)
    totals = cells.totals.reshape(-1, L)

    def over_groups(by_atom: Floats) -> Floats:
        return by_atom @ grouping.membership.T

    place = cells.outcomes.index(outcome)
    column = by_label[..., place]
    left = by_label[..., n_outcomes + place] if S.shape[-1] == 2 * n_outcomes else totals - column
    # Add the other labels instead of subtracting this one from the total, so that an empty sum is exactly 0.
    others = [label for label in range(L) if label != outcome]

    def of_others(by_label: Floats) -> Floats:
        return by_label[..., others[0]] if L == 2 else by_label[..., others].sum(axis=-1)

    # Each is a pair: the sums over the positives, and those over the negatives.
    selected, rejected, rows = (
        (over_groups(part[..., outcome]), over_groups(of_others(part))) for part in (column, left, totals)
    )
    if L == 2:
        correct = selected[0] + rejected[1]
    else:
        each = list(range(L))
        correct = over_groups(by_label[..., each, each].sum(axis=-1))
    changed: Floats | float = 0.0
    if cells.previous is not None:
        changed = over_groups(np.where(cells.previous == 1, left.sum(axis=-1), column.sum(axis=-1)))
    return GroupSums(*selected, *rejected, *rows, correct, cells.smallest_weight, changed)


@dataclass(frozen=True)
class RateSlopes:
    """Derivatives of the rates of all groups with respect to the rows of a cell, by the decision about these rows.

    Attributes
    ----------
    selected, rejected : array of shape (G + 1, A, L)
        If rows of a cell, (atom, label), are selected for the outcome; and if they are not.
    correct : array of shape (G + 1, A)
        In addition, if the decision is right.
    changed : array of shape (G + 1, A)
        In addition, if the decision is not that of before.
    """

    selected: Floats
    rejected: Floats
    correct: Floats
    changed: Floats

    def by_sum(self, cells: Cells, outcome: int) -> Floats:
        """Return the derivatives with respect to S, of shape (G + 1, K, O); R changes by as much as S, inversely."""
        L, change = cells.n_labels, self.selected - self.rejected
        if L == 2:
            change[..., 1] += self.correct
            change[..., 0] -= self.correct
            if cells.previous is not None:
                change += (self.changed * np.where(cells.previous == 1, -1.0, 1.0))[..., None]
            return change.reshape(len(change), -1, 1)
        found = np.zeros((*change.shape, L))
        found[..., outcome] = change
        return self._with_correct(found)

    def by_decision(self, cells: Cells, outcome: int) -> Floats:
        """Return the derivatives with respect to the rows of each cell decided for each class, (G + 1, K, L)."""
        found = np.repeat(self.rejected[..., None], cells.n_labels, axis=-1)
        found[..., outcome] = self.selected
        if cells.previous is not None:
            for decision in (0, 1):
                found[..., decision] += (self.changed * (cells.previous != decision))[..., None]
        return self._with_correct(found)

    def _with_correct(self, found: Floats) -> Floats:
        each = np.arange(found.shape[-1])
        found[..., each, each] += self.correct[..., None]
        return found.reshape(len(found), -1, len(each))


STEP = 1e-30
"""Size of the imaginary step.  Nothing is subtracted, so a derivative has no cancellation, however small the step."""


def imaginary_steps(sums: GroupSums) -> GroupSums:
    """Return complex sums of shape (6, G + 1, G + 1): for each kind of rows and each group, a step in these rows."""
    n = sums.size.shape[-1]
    # The kinds: selected positives and negatives, rejected positives and negatives, rows decided right, and otherwise.
    a, b, c, d, e, f = np.moveaxis(np.eye(6)[:, :, None, None] * (1j * STEP * np.eye(n)), 1, 0)
    return GroupSums(
        sums.selected_positives + a,
        sums.selected_negatives + b,
        sums.rejected_positives + c,
        sums.rejected_negatives + d,
        sums.positives + a + c,
        sums.negatives + b + d,
        sums.correct + e,
        sums.one_row,
        sums.changed + f,
    )


def slopes_from_steps(values: NDArray[np.complex128], cells: Cells, grouping: Grouping, outcome: int) -> RateSlopes:
    """Return the derivatives of a rate from its values at the sums of `imaginary_steps`."""
    by_atom = (values.imag / STEP).transpose(0, 2, 1) @ grouping.membership  # (6, G + 1, A)
    positive = np.arange(cells.n_labels) == outcome
    selected, rejected = (np.where(positive, by_atom[kind][..., None], by_atom[kind + 1][..., None]) for kind in (0, 2))
    return RateSlopes(selected, rejected, by_atom[4], by_atom[5])
