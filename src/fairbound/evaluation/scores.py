"""Scores by group: AUC, calibration, distributions, and the measures at every threshold.

A larger score is more favourable.

    AUC             P(score of a positive > score of a negative) + ½ P(equal), within the group (Mann and Whitney 1947)
                    interval: the variance of DeLong et al. (1988), on the scale of the log odds; none for 0 and 1
    calibration     for scores in [0, 1]: ten bins of equal width; in each the mean score and the share of positives,
                    with exact binomial intervals, simultaneous over the bins of a group (Bonferroni)
    ECE             expected calibration error, Σ (rows of the bin / rows) · |mean score − share of positives|
    distribution    quantiles, and the share of the rows in bins that all groups have in common
    thresholds      see `fairbound.evaluation.thresholds`

Without labels there are distributions, and at every threshold the rates and measures that do not use the label.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fairbound._errors import InputError
from fairbound._records import as_json
from fairbound._values import as_array
from fairbound._words import EVERYONE, TextTable, as_text, count, group_text, number
from fairbound.evaluation.audit_result import Estimate
from fairbound.evaluation.intervals import binomial_interval
from fairbound.evaluation.tally import Tally
from fairbound.evaluation.thresholds import ThresholdCurves, threshold_curves
from fairbound.fairness import Measure, RateFunction

FloatArray = NDArray[np.float64]

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
CALIBRATION_BINS = 10
DISTRIBUTION_BINS = 20


@dataclass(frozen=True)
class CalibrationBin:
    """The rows of a group with scores from `start` to below `stop`: mean score, and share of positives."""

    start: float
    stop: float
    rows: int
    score: float
    positives: Estimate


@dataclass(frozen=True)
class GroupScores:
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

    @property
    def name(self) -> str:
        """The group as text."""
        return group_text(self.group)


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
        named = [each for each in self.groups if grouping in (None, each.grouping)]
        found = [each for each in named if group in (each.group, each.name)]
        if len(found) != 1:
            known = ", ".join(f"{each.name} ({each.grouping})" for each in named)
            raise ValueError(f"{'Several groups are' if found else 'Unknown group'} {group!r}. Known: {known}.")
        return found[0]

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
        return as_json(
            {
                "median": self.median,
                "edges": self.edges,
                "calibrated": self.calibrated,
                "labelled": self.labelled,
                "groups": [
                    {
                        **vars(each),
                        "group": EVERYONE if each.everyone else as_text(each.group),
                        "auc": None if each.auc is None else dict(vars(each.auc)),
                        "calibration": [
                            {**vars(cell), "positives": dict(vars(cell.positives))} for cell in each.calibration
                        ],
                    }
                    for each in self.groups
                ],
                "curves": [each.thinned().to_dict() for each in self.curves],
            }
        )


class Scores(NamedTuple):
    """Checked scores, and a sentence on how decisions follow from them; empty if decisions are given."""

    values: FloatArray
    rule: str


def tally_decisions(
    y: Any,
    prediction: Any,
    sensitive_features: Any,
    *,
    score: Any = None,
    threshold: float | None = None,
    positive_decision: Hashable | None = None,
    **settings: Any,
) -> tuple[Tally, Scores | None]:
    """Count decisions, given or computed from scores; `audit` documents the parameters."""
    if sensitive_features is None:
        raise ValueError("An audit compares groups: pass sensitive_features.")
    scores = None if score is None else Scores(check_scores(score), "")
    if prediction is None:
        if scores is None:
            raise InputError("An audit needs decisions or scores.", "Give {prediction=} or {score=}.")
        selected, rule = _selected_by(scores.values, threshold)
        scores = scores._replace(rule=rule)
        prediction, positive_decision = selected.astype(int), 1
    elif threshold is not None:
        raise InputError("{threshold=} turns scores into decisions, but {prediction=} is given.", "Use one of them.")
    return Tally.build(y, prediction, sensitive_features, positive_decision=positive_decision, **settings), scores


def audit_scores(
    tally: Tally,
    scores: Scores,
    confidence: float,
    rates: Mapping[str, RateFunction],
    measures: Sequence[Measure],
) -> ScoreAudit:
    """Audit the scores of the rows of a tally; `rates` and `measures` are those shown at each threshold."""
    given, rule = scores
    cells = tally.cells
    if cells.division is not None:
        raise InputError(
            "{score=} needs the group of each row; probabilities of groups were given.", "Leave out {score=}."
        )
    if tally.weighted or cells.n_labels != 2:
        raise InputError("{score=} needs two classes and rows of equal weight.", "Leave out {sample_weight=}.")
    if len(given) != len(cells):
        raise InputError("{score=} has {scores:,} rows, but there are {rows:,}.", scores=len(given), rows=len(cells))
    counted = np.asarray(cells.weights) > 0
    values, atoms = given[counted], (cells.index // cells.n_labels)[counted]
    positive = (cells.labels == 1)[counted] if tally.labelled else None
    calibrated = bool(values.min() >= 0 and values.max() <= 1)
    low, high = (0.0, 1.0) if calibrated else (float(values.min()), float(values.max()))
    edges = np.linspace(low, high if high > low else low + 1.0, DISTRIBUTION_BINS + 1)
    median = float(np.median(values))
    compared = [measure for measure in measures if measure.comparison in ("ratio", "difference")]
    groups, curves = [], []
    for grouping in cells.groupings:
        members = {
            group: member[atoms] > 0 for group, member in zip(grouping.groups, grouping.membership, strict=False)
        }
        everyone = grouping.membership[-1][atoms] > 0
        for group, inside in (*members.items(), (None, everyone)):
            if inside.any():
                labels = None if positive is None else positive[inside]
                scored = _group_scores(grouping.name, group, values[inside], labels, median, edges, confidence)
                groups.append(scored if calibrated else replace(scored, calibration=(), calibration_error=None))
        curves.append(threshold_curves(grouping.name, values, positive, members, rates, compared))
    return ScoreAudit(median, tuple(edges.tolist()), tuple(groups), tuple(curves), calibrated, tally.labelled, rule)


def _selected_by(scores: FloatArray, threshold: float | None) -> tuple[NDArray[np.bool_], str]:
    """Return the selected rows, from the threshold on or else above the median of all scores, and a note."""
    if threshold is not None:
        return scores >= threshold, f"There are no decisions: rows with a score of at least {threshold:g} are selected."
    median = np.median(scores)
    return scores > median, f"There are no decisions: rows with a score above the median, {median:g}, are selected."


def first_not_a_number(values: Any) -> tuple[int, Any]:
    """Return the place and the value of the first one that is no number."""
    for row, value in enumerate(as_array(values).tolist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values


def check_scores(score: Any) -> FloatArray:
    """Return scores as numbers; raise an error for text, missing and infinite values."""
    try:
        values = np.asarray(score, dtype=np.float64)
    except (TypeError, ValueError):
        row, value = first_not_a_number(score)
        raise InputError(
            "{score=} has {value!r} in row {row}, which is no number.",
            "Give a number for each row.",
            value=value,
            row=row + 1,
        ) from None
    if values.ndim != 1 or not len(values):
        raise InputError("{score=} must have one number per row, but has shape {shape}.", shape=values.shape)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(
            "{score=} has {value} in row {row}.",
            "Give a finite number for each row, or drop the rows without a score.",
            value=values[row],
            row=row + 1,
        )
    return values


def _group_scores(
    grouping: str,
    group: Hashable,
    scores: FloatArray,
    positive: NDArray[np.bool_] | None,
    median: float,
    edges: FloatArray,
    confidence: float,
) -> GroupScores:
    bins = () if positive is None else tuple(_calibration(scores, positive, confidence))
    gaps = [each.rows * abs(each.score - (each.positives.value or 0.0)) for each in bins]
    return GroupScores(
        grouping=grouping,
        group=group,
        everyone=group is None,
        rows=len(scores),
        above_median=int((scores > median).sum()),
        mean=float(scores.mean()),
        quantiles=tuple(np.quantile(scores, QUANTILES).tolist()),
        shares=tuple((np.histogram(scores, edges)[0] / len(scores)).tolist()),
        auc=None if positive is None else auc_estimate(scores, positive, confidence),
        calibration=bins,
        calibration_error=sum(gaps) / len(scores) if bins else None,
    )


def _calibration(scores: FloatArray, positive: NDArray[np.bool_], confidence: float) -> Iterator[CalibrationBin]:
    """Yield the bins that have rows."""
    edges = np.linspace(0.0, 1.0, CALIBRATION_BINS + 1)
    place = np.searchsorted(edges[1:-1], scores)
    filled = np.unique(place)
    level = 1.0 - (1.0 - confidence) / len(filled)
    for each in filled:
        inside = place == each
        rows, positives = int(inside.sum()), int(positive[inside].sum())
        lower, upper = binomial_interval(positives, rows, level)
        share = Estimate(positives / rows, float(lower), float(upper))
        yield CalibrationBin(float(edges[each]), float(edges[each + 1]), rows, float(scores[inside].mean()), share)


def auc_estimate(scores: FloatArray, positive: NDArray[np.bool_], confidence: float) -> Estimate:
    """Return the area under the ROC curve with its interval; undefined if all labels are the same.

    >>> auc_estimate(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]), 0.95).value
    0.75
    """
    of_positives, of_negatives = scores[positive], scores[~positive]
    m, n = len(of_positives), len(of_negatives)
    if not m or not n:
        return Estimate(None, None, None)
    from scipy.stats import rankdata  # here, because its import takes as long as an audit

    # DeLong's variance needs the placement of each row: the share of rows with the other label that it beats.  The rank
    # among all rows minus the rank among rows with the same label counts these rows, ties as one half.
    ranks = rankdata(np.concatenate([of_positives, of_negatives]))
    beats = (ranks[:m] - rankdata(of_positives)) / n
    beaten = (ranks[m:] - rankdata(of_negatives)) / m
    auc = float(beats.mean())
    if m < 2 or n < 2 or not 0.0 < auc < 1.0:
        return Estimate(auc, None, None)
    deviation = math.sqrt(beats.var(ddof=1) / m + beaten.var(ddof=1) / n) / (auc * (1.0 - auc))
    reach = special.ndtri(0.5 + confidence / 2.0) * deviation
    centre = special.logit(auc)
    return Estimate(auc, float(special.expit(centre - reach)), float(special.expit(centre + reach)))
