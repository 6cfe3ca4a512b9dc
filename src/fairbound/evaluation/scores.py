"""Scores by group: AUC, calibration, distributions, and the measures at every threshold.

A larger score is more favourable.

    AUC             P(score of a positive > score of a negative) + ½ P(equal), within the group (Mann and Whitney 1947)
                    interval: the variance of DeLong et al. (1988), on the scale of the log odds; none for 0 and 1
    calibration     for scores in [0, 1]: ten bins of equal width; in each the mean score and the share of positives,
                    with exact binomial intervals, simultaneous over the bins of a group (Bonferroni)
    ECE             expected calibration error, Σ (rows of the bin / rows) · |mean score − share of positives|
    distribution    quantiles, and the share of the rows in bins that all groups have in common
    thresholds      at a threshold t, the rows with a score of at least t are selected; the rates are those of
                    `fairbound.fairness`, and a measure is over all pairs of groups for which it is defined

Without labels there are distributions, and at every threshold the rates and measures that do not use the label.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fairbound._errors import InputError, argument, both_given
from fairbound._values import as_numbers
from fairbound.evaluation.audit_records import Estimate
from fairbound.evaluation.intervals import binomial_interval, sums_of_counts
from fairbound.evaluation.score_records import (
    QUANTILES,
    CalibrationBin,
    FloatArray,
    GroupScores,
    ScoreAudit,
    ThresholdCurves,
)
from fairbound.evaluation.tally import WHOLES, Tally
from fairbound.fairness import GroupSums, Measure, RateFunction, evaluate

CALIBRATION_BINS = 10
DISTRIBUTION_BINS = 20


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
        raise both_given(argument("threshold"), argument("prediction"), "what is decided")
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
    """Return the selected rows and a note: scores of at least `threshold` or, without one, above the median."""
    if threshold is not None:
        return scores >= threshold, f"There are no decisions: rows with a score of at least {threshold:g} are selected."
    median = np.median(scores)
    return scores > median, f"There are no decisions: rows with a score above the median, {median:g}, are selected."


def check_scores(score: Any) -> FloatArray:
    """Return scores as numbers; raise an error for text, missing and infinite values."""
    values = as_numbers(score, argument("score"))
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
        return Estimate()
    from scipy.stats import rankdata  # here, because its import takes as long as an audit

    # DeLong's variance needs the placement of each row: the share of rows with the other label that it beats.  The rank
    # among all rows minus the rank among rows with the same label counts these rows, ties as one half.
    ranks = rankdata(np.concatenate([of_positives, of_negatives]))
    beats = (ranks[:m] - rankdata(of_positives)) / n
    beaten = (ranks[m:] - rankdata(of_negatives)) / m
    auc = float(beats.mean())
    if m < 2 or n < 2 or not 0.0 < auc < 1.0:
        return Estimate(auc)
    # The derivative of logit(a) is 1 / (a(1 − a)), which converts the standard error to the scale of the log odds.
    deviation = math.sqrt(beats.var(ddof=1) / m + beaten.var(ddof=1) / n) / (auc * (1.0 - auc))
    reach = special.ndtri(0.5 + confidence / 2.0) * deviation
    centre = special.logit(auc)
    return Estimate(auc, float(special.expit(centre - reach)), float(special.expit(centre + reach)))


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
