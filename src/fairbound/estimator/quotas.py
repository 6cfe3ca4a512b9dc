"""Quotas: select a stated share or number of rows, those of the largest score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import argument, two_classes_only
from fairbound.fairness import Cells, Quota
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
