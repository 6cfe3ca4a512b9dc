"""Rates and measures at every threshold of a score.

At a threshold t, the rows with a score of at least t are selected.  The rates are those of `fairbound.fairness`, from
the counts of the selected by group and label at each threshold.  A measure is over all pairs of groups for which it is
defined, as in the audit of decisions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._words import EVERYONE, as_text
from fairbound.evaluation.tally import WHOLES
from fairbound.fairness import GroupSums, Measure, RateFunction, evaluate

FloatArray = NDArray[np.float64]

MOST_THRESHOLDS = 200
"""The most thresholds in a summary and its pictures; the Python object has all."""


@dataclass(frozen=True, eq=False)
class ThresholdCurves:
    """Rates and measures of a grouping at each threshold.

    Attributes
    ----------
    grouping : str
    thresholds : array of shape (T,)
        The distinct scores, rising; rows with a score of at least the threshold are selected.
    groups : tuple
        The groups, then None for everyone.
    rates : dict of str to array of shape (T, G + 1)
        NaN where a rate is undefined.
    measures : dict of str to array of shape (T,)
        Over the groups for which the measure is defined; NaN if there are fewer than two.
    """

    grouping: str
    thresholds: FloatArray
    groups: tuple[Hashable, ...]
    rates: dict[str, FloatArray] = field(repr=False)
    measures: dict[str, FloatArray] = field(repr=False)

    def at(self, threshold: float) -> dict[str, float]:
        """Return the measures if all rows with a score of at least `threshold` are selected."""
        place = int(np.searchsorted(self.thresholds, threshold))
        if place == len(self.thresholds):
            raise ValueError(f"threshold={threshold!r} is above every score: nobody would be selected.")
        return {name: float(values[place]) for name, values in self.measures.items()}

    def thinned(self, most: int = MOST_THRESHOLDS) -> ThresholdCurves:
        """Return the curves at no more than `most` thresholds, including the first and the last."""
        if len(self.thresholds) <= most:
            return self
        kept = np.unique(np.linspace(0, len(self.thresholds) - 1, most).round().astype(int))
        return ThresholdCurves(
            self.grouping,
            self.thresholds[kept],
            self.groups,
            {name: values[kept] for name, values in self.rates.items()},
            {name: values[kept] for name, values in self.measures.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, None where something is undefined."""
        names = [EVERYONE if group is None else as_text(group) for group in self.groups]
        return {
            "grouping": self.grouping,
            "thresholds": self.thresholds.tolist(),
            "rates": {
                rate: dict(zip(names, (_without_nan(column) for column in values.T), strict=True))
                for rate, values in self.rates.items()
            },
            "measures": {measure: _without_nan(values) for measure, values in self.measures.items()},
        }


def _without_nan(values: FloatArray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


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
    selected = [np.stack([at_least(inside & kind) for inside in groups], axis=1) for kind in (kinds, ~kinds)]
    totals = [np.array([(inside & kind).sum() for inside in groups], dtype=np.float64) for kind in (kinds, ~kinds)]
    whole = [np.broadcast_to(total, found.shape) for total, found in zip(totals, selected, strict=True)]
    sums = GroupSums(
        selected_positives=selected[0],
        selected_negatives=selected[1],
        rejected_positives=whole[0] - selected[0],
        rejected_negatives=whole[1] - selected[1],
        positives=whole[0],
        negatives=whole[1],
        correct=selected[0] + whole[1] - selected[1],
        one_row=1.0,
    )
    return ThresholdCurves(
        grouping,
        thresholds,
        (*members, None),
        {name: _where_defined(rate, sums) for name, rate in rates.items()},
        {measure.name: _over_groups(measure, sums) for measure in measures},
    )


def _where_defined(rate: RateFunction, sums: GroupSums) -> FloatArray:
    """Return the rate, NaN where it divides by zero."""
    values = np.array(evaluate(rate, sums), dtype=np.float64)
    values[~(WHOLES[rate](sums) > 0) if rate in WHOLES else ~np.isfinite(values)] = math.nan
    return values


def _over_groups(measure: Measure, sums: GroupSums) -> FloatArray:
    """Return the least ratio, or the largest difference, over all pairs of groups at each threshold."""
    worst = []
    for rate in measure.rates:
        values = _where_defined(rate, sums)[:, :-1]
        several = (~np.isnan(values)).sum(axis=1) > 1
        low = np.where(np.isnan(values), math.inf, values).min(axis=1)
        high = np.where(np.isnan(values), -math.inf, values).max(axis=1)
        if measure.comparison == "ratio":
            found = np.divide(low, high, out=np.ones_like(low), where=several & (high > 0))
        else:
            found = np.subtract(high, low, out=np.zeros_like(low), where=several)
        worst.append(np.where(several, found, math.nan))
    stacked = np.stack(worst)
    known = ~np.isnan(stacked)
    if measure.comparison == "ratio":
        return np.where(known.any(axis=0), np.where(known, stacked, math.inf).min(axis=0), math.nan)
    return np.where(known.any(axis=0), np.where(known, stacked, -math.inf).max(axis=0), math.nan)
