"""The records of scores by group, and the curves of rates and measures over all thresholds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._json import as_json
from fairbound._text_tables import TextTable
from fairbound._words import EVERYONE, as_text, count, number
from fairbound.evaluation.audit_records import Estimate, OfGroup, find_group

FloatArray = NDArray[np.float64]

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)

MOST_THRESHOLDS = 200
"""Largest number of thresholds in a summary and its pictures; the Python object has all."""


@dataclass(frozen=True)
class CalibrationBin:
    """The rows of a group with scores from `start` to below `stop`: mean score, and share of positives."""

    start: float
    stop: float
    rows: int
    score: float
    positives: Estimate


@dataclass(frozen=True)
class GroupScores(OfGroup):
    """The scores of one group, or of everyone whose group is known.

    Attributes
    ----------
    grouping : str
    group : group or None
        None for everyone.
    everyone : bool
    rows : int
    above_median : int
        Rows with a score above the median of the full sample.
    mean : float
    quantiles : tuple of float
        At 0, 5, 25, 50, 75, 95 and 100%.
    shares : tuple of float
        Share of the rows in each bin of `ScoreAudit.edges`.
    auc : Estimate or None
        None without labels; undefined if all labels of the group are the same.
    calibration : tuple of CalibrationBin
        Bins that have rows; empty without labels, and for scores outside [0, 1].
    calibration_error : float or None
        The expected calibration error.
    """

    grouping: str
    group: Hashable
    everyone: bool
    rows: int
    above_median: int
    mean: float
    quantiles: tuple[float, ...]
    shares: tuple[float, ...] = field(repr=False)
    auc: Estimate | None
    calibration: tuple[CalibrationBin, ...] = field(repr=False)
    calibration_error: float | None


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

    def thinned(self) -> ThresholdCurves:
        """Return the curves at no more than `MOST_THRESHOLDS` thresholds, including the first and the last."""
        if len(self.thresholds) <= MOST_THRESHOLDS:
            return self
        kept = np.unique(np.linspace(0, len(self.thresholds) - 1, MOST_THRESHOLDS).round().astype(int))
        rates, measures = (
            {name: values[kept] for name, values in each.items()} for each in (self.rates, self.measures)
        )
        return replace(self, thresholds=self.thresholds[kept], rates=rates, measures=measures)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, None where something is undefined."""
        names = [EVERYONE if group is None else as_text(group) for group in self.groups]
        rates = {rate: dict(zip(names, values.T.tolist(), strict=True)) for rate, values in self.rates.items()}
        return as_json(
            {"grouping": self.grouping, "thresholds": self.thresholds, "rates": rates, "measures": self.measures}
        )


@dataclass(frozen=True, eq=False)
class ScoreAudit:
    """Scores by group; `audit(..., score=)` has it as `scores`.

    Attributes
    ----------
    median : float
        Median of all scores, including rows without a known group.
    edges : tuple of float
        Edges of the bins of the distributions.
    groups : tuple of GroupScores
    curves : tuple of ThresholdCurves
        One for each grouping.
    calibrated : bool
        Whether all scores are in [0, 1], so that they can be compared with shares of positives.
    labelled : bool
    rule : str
        How decisions follow from the scores; empty if the audit was given decisions.
    """

    median: float
    edges: tuple[float, ...]
    groups: tuple[GroupScores, ...]
    curves: tuple[ThresholdCurves, ...]
    calibrated: bool
    labelled: bool
    rule: str = ""

    def group(self, group: Hashable, grouping: str | None = None) -> GroupScores:
        """Return a group by its value or its text; `grouping` is needed if several groupings have such a group."""
        return find_group(self.groups, group, grouping)

    def curve(self, grouping: str | None = None) -> ThresholdCurves:
        """Return the curves of a grouping; with a single grouping, its name may be left out."""
        found = [each for each in self.curves if grouping in (None, each.grouping)]
        if len(found) != 1:
            raise ValueError(
                f"grouping={grouping!r} must be one of {', '.join(each.grouping for each in self.curves)}."
            )
        return found[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the scores."""
        found = ["Scores: a larger score is more favourable.", *([self.rule] if self.rule else [])]
        if self.labelled:
            found.append("Intervals of the AUC follow DeLong et al. (1988), without adjustment for several groups.")
        if self.labelled and self.calibrated:
            found.append("Intervals of a reliability curve are exact binomial, and simultaneous over its bins.")
        if self.labelled and not self.calibrated:
            found.append("Some scores lie outside 0 to 1. They are not probabilities, so calibration is not shown.")
        return tuple(found)

    def tables(self) -> list[TextTable]:
        """Return AUC, calibration error and quantiles of each group, a table for each grouping."""
        found = []
        for grouping in dict.fromkeys(each.grouping for each in self.groups):
            rows = []
            for each in self.groups:
                if each.grouping == grouping:
                    labelled = (str(each.auc), number(each.calibration_error)) if self.labelled else ()
                    spread = (f"{quantile:.3g}" for quantile in each.quantiles[1:-1])
                    rows.append((each.name, count(each.rows), *labelled, *spread))
            header = ("group", "rows", *(("AUC", "calibration error") if self.labelled else ()))
            spread_header = tuple(f"{quantile:.0%}" for quantile in QUANTILES[1:-1])
            found.append(TextTable(f"{grouping}: scores and their quantiles", (*header, *spread_header), tuple(rows)))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values, with at most 200 thresholds."""
        values = {name: value for name, value in vars(self).items() if name != "rule"}
        return as_json({**values, "curves": [each.thinned() for each in self.curves]})
