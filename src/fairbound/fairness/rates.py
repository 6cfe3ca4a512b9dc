"""Rates of groups.  A rate is a function of cell sums S.

The sums are those of a surrogate (in training) or of decisions (exact values):

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

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound.fairness.cells import Cells, Grouping
from fairbound.fairness.sums import GroupSums, RateSlopes, imaginary_steps, slopes_from_steps

Array = NDArray[Any]

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


def changed(g: GroupSums) -> Array:
    """P(Ŷ is not the decision before | group)."""
    return g.changed / g.size


def mean(g: GroupSums) -> Array:
    """Return the mean of a function of the rows of a group, such as the prediction or the loss."""
    return g.selected / g.size


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


_OF_COUNTS = selection_rate, true_positive_rate, false_positive_rate, true_negative_rate, false_negative_rate

AFFINE_RATES: frozenset[RateFunction] = frozenset((*_OF_COUNTS, accuracy, changed, mean))
"""Rates whose denominators do not depend on the model: they are affine in S, and their derivative is constant."""


QUOTIENT_RATES: frozenset[RateFunction] = frozenset(RATES.values()) - AFFINE_RATES
"""Rates that divide one sum of predictions by another."""


def evaluate(rate: RateFunction, sums: GroupSums) -> Array:
    """Return the rate of each group; NaN or infinite if it divides by zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return rate(sums)


def differentiate(
    rate: RateFunction, sums: GroupSums, cells: Cells, grouping: Grouping, outcome: int
) -> tuple[Array, RateSlopes]:
    """Return the rate of each group and its derivatives, which are exact: by steps into the complex plane.

    A rate is arithmetic of sums, so it accepts complex sums: f(S + ih) = f(S) + ih·f'(S).
    """
    values, steps = evaluate(rate, sums), imaginary_steps(sums)
    try:
        moved = np.broadcast_to(np.asarray(evaluate(rate, steps)), steps.size.shape)
    except (TypeError, ValueError) as error:
        raise _not_arithmetic(rate, str(error)) from error
    if not np.iscomplexobj(moved) and _depends_on_decisions(rate, sums):
        raise _not_arithmetic(rate, "it returns real numbers for complex sums")
    return values, slopes_from_steps(moved, cells, grouping, outcome)


def _depends_on_decisions(rate: RateFunction, sums: GroupSums) -> bool:
    """Return whether a rate differs between the given sums and those of other decisions about the same rows."""
    swapped = GroupSums(
        sums.rejected_positives,
        sums.rejected_negatives,
        sums.selected_positives,
        sums.selected_negatives,
        sums.positives,
        sums.negatives,
        sums.positives + sums.negatives - sums.correct,
        sums.one_row,
    )
    return not np.array_equal(evaluate(rate, sums), evaluate(rate, swapped), equal_nan=True)


def _not_arithmetic(rate: RateFunction, reason: str) -> InputError:
    return InputError(
        "The rate {rate} cannot be differentiated: {reason}.",
        "Write it with +, -, *, /, powers and numpy functions of complex numbers, not with abs, max or math.",
        rate=getattr(rate, "__name__", repr(rate)),
        reason=reason.rstrip("."),
    )


@cache
def uses_label(rate: RateFunction) -> bool:
    """Return True if a rate depends on labels, False if it depends on decisions and groups only.

    The rate is computed for the same decisions with two different sets of labels.  It uses labels if the values differ.

    >>> uses_label(selection_rate), uses_label(share_of_selected), uses_label(accuracy)
    (False, False, True)
    """
    selected, rejected = np.array([[311.0, 173.0, 484.0]]), np.array([[127.0, 229.0, 356.0]])
    values = []
    for first, second in (([0.31, 0.62, 0.42], [0.23, 0.71, 0.54]), ([0.57, 0.19, 0.44], [0.68, 0.37, 0.48])):
        of_selected, of_rejected = selected * np.array(first), rejected * np.array(second)
        rows = (of_selected + of_rejected, selected + rejected - of_selected - of_rejected)
        correct = of_selected + rejected - of_rejected
        sums = GroupSums(of_selected, selected - of_selected, of_rejected, rejected - of_rejected, *rows, correct, 1.0)
        values.append(np.asarray(evaluate(rate, sums), dtype=np.float64))
    return not np.allclose(values[0], values[1], rtol=1e-9, atol=1e-12)
