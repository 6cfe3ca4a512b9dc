"""Floors implement `no_group_worse`: no group's rate may fall below that of the model without limits.

That model is trained first.  Its exact rates on the training rows become lower bounds, one for each group, beside the
limits of the user.  So the solver can keep the limits only by raising rates.  If that is impossible, the status names
the limits in conflict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairbound._words import lookup
from fairbound.fairness import RATES, Cells, Constraint, evaluate, group_sums, rate_limit

LIFTED = "selection_rate"
"""The rate that must not fall, if `no_group_worse` names no other."""


def lifted_rate(stated: bool | str) -> str | None:
    """Return the name of the rate that must not fall; None if there is none.

    >>> lifted_rate(True), lifted_rate("true_positive_rate"), lifted_rate(False)
    ('selection_rate', 'true_positive_rate', None)
    """
    if isinstance(stated, str):
        lookup(RATES, stated, "rate")
        return stated
    return LIFTED if stated else None


def floors_of(counts: NDArray[np.float64], cells: Cells, rate: str) -> tuple[Constraint, ...]:
    """Return a lower limit for each group of each grouping: its rate, from sums of decisions over cells."""
    (outcome,) = cells.outcomes
    found = []
    for grouping in cells.groupings:
        values = evaluate(RATES[rate], group_sums(counts, cells, grouping, outcome))
        for group, value in zip(grouping.groups, values.tolist(), strict=False):
            if value > 0:  # a rate of 0 cannot fall; NaN is undefined
                found.append(rate_limit(rate, group=group, lower=value, columns=(grouping.name,)))
    return tuple(found)


def floors_in_words(floors: Sequence[Constraint]) -> str:
    """Return the floors as a note of the record."""
    return (
        "No group worse off: besides the limits, the rate of each group is limited from below by that of the model "
        f"without limits ({'; '.join(map(str, floors))})."
    )
