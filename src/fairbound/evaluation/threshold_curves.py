"""The rates and measures of groups at every threshold on a score.

The rates are those of `fairbound.fairness`, from the counts of the selected by group and label.  A measure is over all
pairs of groups for which it is defined, as in the audit of decisions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairbound.evaluation.intervals import sums_of_counts
from fairbound.evaluation.score_records import FloatArray, ThresholdCurves
from fairbound.evaluation.tally import WHOLES
from fairbound.fairness import GroupSums, Measure, RateFunction, evaluate


def threshold_curves(
    grouping: str,
    scores: FloatArray,
    positive: NDArray[np.bool_] | None,
    members: Mapping[Hashable, NDArray[np.bool_]],
    rates: Mapping[str, RateFunction],
    measures: Sequence[Measure],
) -> ThresholdCurves:
    """Count the selected of each group and label at each threshold, and evaluate the rates and measures there."""
    known = np.any(list(members.values()), axis=0)
    thresholds = np.unique(scores[known])
    kinds = np.zeros(len(scores), dtype=bool) if positive is None else positive

    def at_least(inside: NDArray[np.bool_]) -> FloatArray:
        ordered = np.sort(scores[inside])
        return (len(ordered) - np.searchsorted(ordered, thresholds)).astype(np.float64)

    groups = [*members.values(), known]
    selected, totals = [], []
    for kind in (kinds, ~kinds):
        selected.append(np.stack([at_least(inside & kind) for inside in groups], axis=1))
        total = np.array([(inside & kind).sum() for inside in groups], dtype=np.float64)
        totals.append(np.broadcast_to(total, selected[-1].shape))
    sums = sums_of_counts(selected[0], selected[1], totals[0], totals[1])
    needed = dict.fromkeys([*rates.values(), *(rate for measure in measures for rate in measure.rates)])
    found = {rate: _where_defined(rate, sums) for rate in needed}
    return ThresholdCurves(
        grouping,
        thresholds,
        (*members, None),
        {name: found[rate] for name, rate in rates.items()},
        {measure.name: _over_groups(measure, found) for measure in measures},
    )


def _where_defined(rate: RateFunction, sums: GroupSums) -> FloatArray:
    """Return the rate, NaN where it divides by zero."""
    values = np.array(evaluate(rate, sums), dtype=np.float64)
    values[~(WHOLES[rate](sums) > 0) if rate in WHOLES else ~np.isfinite(values)] = math.nan
    return values


def _over_groups(measure: Measure, rates: Mapping[RateFunction, FloatArray]) -> FloatArray:
    """Return the least ratio, or the largest difference, over all pairs of groups at each threshold."""
    worst = []
    for rate in measure.rates:
        values = rates[rate][:, :-1]
        low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)  # they pass over NaN
        if measure.comparison == "ratio":
            found = np.divide(low, high, out=np.ones_like(low), where=high > 0)
        else:
            found = high - low
        worst.append(np.where((~np.isnan(values)).sum(axis=1) > 1, found, math.nan))
    return (np.fmin if measure.comparison == "ratio" else np.fmax).reduce(worst, axis=0)
