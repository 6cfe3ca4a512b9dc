"""What a fit keeps beside the limits: a quota, and floors of rates.

A quota selects a stated share or number of rows, those of the largest score.

Floors implement `no_group_worse`: no group's rate may fall below that of the model without limits.  That model is
trained first.  Its exact rates on the training rows become lower bounds, one for each group.  So the solver can keep
the limits only by raising rates.  If that is impossible, the status names the limits in conflict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import argument, two_classes_only
from fairbound._words import lookup
from fairbound.fairness import RATES, Cells, Constraint, Quota, evaluate, group_sums, rate_limit
from fairbound.training import Assessment


def quota_of(stated: Quota | None, cells: Cells) -> Quota | None:
    """Return the quota of a fit as a share of its rows; None if none is stated."""
    if stated is None:
        return None
    if cells.n_labels > 2:
        raise two_classes_only(str(stated), cells.n_labels)
    return stated.of_rows(cells.n_rows)


def quota_in_words(quota: Quota, cells: Cells, found: Assessment) -> str:
    """Return how many rows, or how much of their weight, is selected, and what was left out because of equal scores."""
    share = float(found.counts[:, 0].sum() / cells.totals.sum())
    wanted, selected = round(quota.share * cells.n_rows, 6), share * cells.n_rows
    said, not_all = f"{selected:,.6g} of {cells.n_rows:,} rows are selected", f"{wanted:,.6g}"
    weights = cells.weights if cells.division is None else np.bincount(cells.division.rows, cells.weights)
    if np.ptp(weights) > 1e-9 * weights.max():
        said, not_all = f"{share:.2%} of the weight of {cells.n_rows:,} rows is selected", f"{quota.share:.2%}"
    said = f"The threshold follows the quota: {said}"
    if selected > wanted - weights.max() / weights.mean() + 1e-9:
        return f"{said}. On other rows it selects as many as lie above it."
    return (
        f"{said}, not {not_all}, because the next rows have equal scores, and a threshold cannot divide them; "
        "predict with select= takes the first of them."
    )


def best_rows(z: NDArray[np.float64], stated: str | int) -> NDArray[np.int64]:
    """Return 1 for the rows of the largest scores, as many as a quota allows, and 0 for the others."""
    if z.shape[1] != 1:
        raise two_classes_only(argument("select", stated), z.shape[1])
    found = np.zeros(len(z), dtype=np.int64)
    found[np.argsort(-z[:, 0], kind="stable")[: int(Quota.of(stated).count(len(z)) + 1e-9)]] = 1
    return found


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
