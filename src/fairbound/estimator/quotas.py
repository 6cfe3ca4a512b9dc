"""Quotas: select a stated share or number of rows, those of the largest score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, bad_value
from fairbound.fairness import Cells, Quota
from fairbound.training import Assessment


def read_quota(stated: str | int, n_rows: float = math.inf) -> float:
    """Return the number of rows of a quota, which need not be whole if it is a share."""
    allowed = 'a number of rows, such as 100, or a share such as "10%"'
    try:
        text = str(stated).strip()
        number = float(text.removesuffix("%"))
    except ValueError:
        raise bad_value("select", stated, allowed) from None
    share = text.endswith("%")
    if isinstance(stated, bool | float) or not (number < 100 if share else number.is_integer()) or number <= 0:
        raise bad_value("select", stated, allowed)
    if not share and number > n_rows:
        raise InputError("{select=stated} is more than there are rows, {rows:,}.", stated=stated, rows=n_rows)
    return n_rows * number / 100.0 if share else number


def quota_of(stated: Any, cells: Cells) -> Quota | None:
    """Return the quota of a fit as a limit; None if none is stated."""
    if stated is None:
        return None
    if cells.n_labels > 2:
        raise InputError("{select=stated} needs two classes, but y has {count}.", stated=stated, count=cells.n_labels)
    return Quota((None, read_quota(stated, cells.n_rows) / cells.n_rows))


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
        raise InputError(
            "{select=stated} needs two classes, but the model has {count}.", stated=stated, count=z.shape[1]
        )
    found = np.zeros(len(z), dtype=np.int64)
    found[np.argsort(-z[:, 0], kind="stable")[: int(read_quota(stated, len(z)) + 1e-9)]] = 1
    return found
