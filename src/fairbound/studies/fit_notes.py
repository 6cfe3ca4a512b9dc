"""Notes on a fit: what the report says about the groups of a model, and about its base."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairbound._errors import (
    ForecastWarning,
    LimitWarning,
    SmallGroupWarning,
)
from fairbound._words import as_text

if TYPE_CHECKING:
    from fairbound.estimator import FitResult

MOVED = 5
"""The number of columns of a correction in a note."""


def base_notes(result: FitResult) -> list[str]:
    """Return notes on the base of a model: its scores, its own accuracy and measures, and the correction."""
    base = result.base
    if base is None:
        return []
    alone = [f"{limit.limit}: {value:.3f}" for limit, value in zip(result.limits, base.reached, strict=True)]
    reached = f" ({'; '.join(alone)})" if alone else ""
    columns = ", ".join(f"{name} ({size:.2f})" for name, size in list(base.moved.items())[:MOVED])
    return [
        f"The model corrects a base, {base.name}. {base.scored}",
        f"The base alone has an accuracy of {base.accuracy:.1%} on the training rows{reached}.",
        f"The model and the base alone decide differently for {base.changed:.1%} of the training rows.",
        f"These columns have the largest corrections (mean change of the logit): {columns}.",
    ]


def small_group_notes(result: FitResult) -> list[str]:
    """Return a sentence for each sensitive column with groups that were too small for the limits."""
    fates: dict[tuple[str, str], list[str]] = {}
    for each in result.small_groups:
        fates.setdefault((each.grouping, each.fate), []).append(f"{as_text(each.group)} ({each.rows:,} rows)")
    return [
        f"{grouping}: these groups were merged, because some have too few training rows: {', '.join(groups)}."
        if fate == "merged"
        else f"{grouping}: these groups were left out of the limits, because they have too few training rows, or none "
        f"with a label that a rate needs: {', '.join(groups)}."
        for (grouping, fate), groups in fates.items()
    ]


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of a fit about its limits, except forecasts, which its record has; show all others."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        for kind in (LimitWarning, ForecastWarning):  # with PYTHONWARNINGS=error they would end the run
            warnings.simplefilter("always", kind)
        yield texts
    for each in caught:
        if issubclass(each.category, ForecastWarning):
            continue  # the record of the fit has the forecast
        if not issubclass(each.category, LimitWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif not issubclass(each.category, SmallGroupWarning):  # the record of the fit names small groups, too
            texts.append(str(each.message))
