"""The audit: rates and measures of any system's decisions, by group, with confidence intervals.

Rates and measures are those of `fairbound.fairness`, computed from sums of decisions as in training.  The interval of a
rate is exact binomial.  For weighted rows it is empirical Bernstein, with the largest observed weight in place of the
largest possible one.  Each interval holds at the confidence by itself.  The interval of a measure follows from
intervals [L, U] of its rates that hold simultaneously (Bonferroni over the groups and rates of that measure):

    ratio        [min L_a/U_b,  min over pairs of the largest ratio that their intervals allow]
    difference   [max over pairs of the gap between their intervals,  max U_a − L_b]

A rate that divides by zero (no row of that label, or nobody selected) is listed as undefined.  Measures are computed
over the other groups, and list the groups that are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from fairbound.evaluation.audit_result import Audit, Estimate, GroupAudit, MeasureAudit, Undefined
from fairbound.evaluation.intervals import Statistic, check_confidence
from fairbound.evaluation.requirements import rate_name
from fairbound.evaluation.tally import Tally
from fairbound.fairness import (
    MEASURES,
    RATES,
    Combine,
    Constraint,
    GroupComparison,
    Grouping,
    Measure,
    RateFunction,
    accuracy,
    evaluate,
    resolve_measure,
)


def audit(
    y: Any,
    prediction: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    groups: Combine = "each",
    pos_label: Hashable | None = None,
    positive_decision: Hashable | None = None,
    confidence: float = 0.95,
    measures: Iterable[str | Measure] | None = None,
    min_group_size: int = 1,
) -> Audit:
    """Measure decisions by group.

    Parameters
    ----------
    y : sequence of n labels
        Any values; two or more classes.
    prediction : sequence of n labels
        Decisions of any system, with the labels of y; 1, 1.0, True and "1" are the same label.
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
        Strings, numbers, booleans or categoricals; None and NaN are missing.
    sample_weight : sequence of n numbers, optional
    groups : {"each", "intersection", "both"}
        With several columns: the groups of each column, of their intersection, or both.
    pos_label : label, optional
        Which of two labels is the positive one; by default as for `Cells.build`.
    positive_decision : value, optional
        The decision that means the positive label, if decisions have other values than the two labels.
    confidence : float
        Confidence level of each interval.
    measures : sequence of measures or their names, optional
        Measures that compare groups; by default all of `MEASURES` that do.
    min_group_size : int
        Groups with fewer rows are merged into one group, "(other)", and listed in the notes.  A single such group is
        not merged.

    Returns
    -------
    Audit

    Examples
    --------
    >>> y = [1, 1, 0, 0, 1, 1, 0, 0]
    >>> decision = [1, 1, 1, 0, 1, 0, 0, 0]
    >>> result = audit(y, decision, ["a"] * 4 + ["b"] * 4)
    >>> result.measure("disparate_impact").value
    0.3333333333333333
    >>> estimate = result.group("b").rate("true_positive_rate")
    >>> print(f"{estimate.value} from {estimate.lower:.3f} to {estimate.upper:.3f}")
    0.5 from 0.013 to 0.987
    """
    if sensitive_features is None:
        raise ValueError("An audit compares groups: pass sensitive_features.")
    tally = Tally.build(
        y,
        prediction,
        sensitive_features,
        sample_weight=sample_weight,
        groups=groups,
        pos_label=pos_label,
        positive_decision=positive_decision,
        min_group_size=min_group_size,
    )
    return audit_tally(tally, confidence, measures)


def audit_tally(tally: Tally, confidence: float = 0.95, measures: Iterable[str | Measure] | None = None) -> Audit:
    """Audit decisions that are already counted; see `audit`."""
    alpha = 1.0 - check_confidence(confidence)
    groupings = tally.cells.groupings
    compared = _compared(measures)
    return Audit(
        rows=len(tally.cells),
        weighted=tally.weighted,
        confidence=confidence,
        classes=tally.cells.classes,
        groups=tuple(entry for grouping in groupings for entry in _groups(tally, grouping, alpha)),
        measures=tuple(
            entry
            for grouping in groupings
            for measure in compared
            for entry in _measures(tally, grouping, measure, alpha)
        ),
        undefined=tuple(entry for grouping in groupings for entry in _undefined(tally, grouping)),
        missing={grouping.name: tally.missing(grouping) for grouping in groupings},
        merged=tally.merged,
        min_group_size=tally.min_group_size,
    )


def _compared(measures: Iterable[str | Measure] | None) -> list[Measure]:
    if measures is None:
        return [measure for measure in MEASURES.values() if measure.comparison != "value"]
    if isinstance(measures, str | Measure):
        measures = [measures]
    if not isinstance(measures, Iterable):
        raise ValueError(f"measures={measures!r} must be the name of a measure, or several of them.")
    found = [resolve_measure(measure) for measure in measures]
    for measure in found:
        if measure.comparison == "value":
            raise ValueError(
                f"measures= has {measure.name!r}, a group's own rate, which compares no groups: every rate of each "
                "group is in the audit's groups."
            )
    return found


def _groups(tally: Tally, grouping: Grouping, alpha: float) -> Iterator[GroupAudit]:
    """Yield the counts and the rates for every class, of each group and of everyone."""
    classes, outcomes = tally.cells.classes, tally.cells.outcomes
    estimates = {
        outcome: {name: _estimates(tally, rate, grouping, outcome, alpha) for name, rate in RATES.items()}
        for outcome in outcomes
    }
    rows, confusion = tally.group_rows(grouping), tally.confusion(grouping)
    for position, group in enumerate((*grouping.groups, None)):
        yield GroupAudit(
            grouping=grouping.name,
            group=group,
            everyone=position == len(grouping.groups),
            rows=rows[position],
            labels={label: sum(line) for label, line in zip(classes, confusion[position], strict=True)},
            confusion=tuple(tuple(line) for line in confusion[position]),
            rates={
                classes[outcome]: {name: found[position] for name, found in estimates[outcome].items()}
                for outcome in outcomes
            },
        )


def _estimates(tally: Tally, rate: RateFunction, grouping: Grouping, outcome: int, alpha: float) -> list[Estimate]:
    defined = tally.defined(rate, grouping, outcome)
    known = tally.statistics(rate, grouping, outcome)
    values = evaluate(rate, tally.sums(grouping, outcome)).tolist()
    estimates = []
    for position, value in enumerate(values):
        if not defined[position]:
            estimates.append(Estimate(None, None, None))
        elif known is None:  # a rate that was added to `RATES` but not to `WHOLES`
            estimates.append(Estimate(value, None, None))
        else:
            estimates.append(Estimate(value, *known[position].interval(alpha)))
    return estimates


def _undefined(tally: Tally, grouping: Grouping) -> Iterator[Undefined]:
    several = tally.cells.n_labels > 2
    rows = tally.group_rows(grouping)
    for outcome in tally.cells.outcomes:
        for name, rate in RATES.items():
            if rate is accuracy and outcome != tally.cells.outcomes[0]:
                continue
            defined = tally.defined(rate, grouping, outcome)
            label = tally.cells.classes[outcome] if several and rate is not accuracy else None
            for group, size, known in zip(grouping.groups, rows, defined, strict=False):
                if not known:
                    yield Undefined(grouping.name, group, name, label, size)


def _measures(tally: Tally, grouping: Grouping, measure: Measure, alpha: float) -> Iterator[MeasureAudit]:
    """Yield the measure over the groups of a grouping; with several classes, one for each class if it has them."""
    cells = tally.cells
    several = cells.n_labels > 2 and measure.per_class
    for label in cells.classes if several else (None,):
        classes = (label,) if several else None
        found: dict[str, Any] = {"value": None, "lower": None, "upper": None, "pair": None}
        left_out: tuple[Hashable, ...] = ()
        if len(grouping.groups) > 1:
            system = tally.compile(Constraint(None, measure=measure, columns=(grouping.name,), classes=classes))
            found["value"] = tally.measured(system)
            left_out = _left_out(tally, system.comparisons)
            if found["value"] is not None and measure.comparison != "covariance":
                found |= _compare(tally, measure, system.comparisons, alpha)
        yield MeasureAudit(measure.name, measure.description, grouping.name, label, **found, left_out=left_out)


def _left_out(tally: Tally, comparisons: tuple[GroupComparison, ...]) -> tuple[Hashable, ...]:
    found: dict[Hashable, None] = {}
    for block in (comparison.block for comparison in comparisons):
        defined = tally.defined(block.rate, block.grouping, block.outcome)
        found |= {group: None for group, known in zip(block.grouping.groups, defined, strict=False) if not known}
    return tuple(found)


def _compare(tally: Tally, measure: Measure, comparisons: tuple[GroupComparison, ...], alpha: float) -> dict[str, Any]:
    """Return the interval of the measure, and the pair of groups that is furthest apart."""
    known: list[tuple[GroupComparison, list[Statistic], list[tuple[int, int]]]] = []
    for comparison in comparisons:
        block = comparison.block
        statistics = tally.statistics(block.rate, block.grouping, block.outcome, monotone=measure.monotone)
        if statistics is None:
            return {}
        defined = tally.defined(block.rate, block.grouping, block.outcome)
        known.append((comparison, statistics, [(a, b) for a, b in comparison.pairs if defined[a] and defined[b]]))
    n_rates = sum(
        statistics[position].n_rates
        for _, statistics, pairs in known
        for position in {position for pair in pairs for position in pair}
    )
    lowest, highest, apart = [], [], []
    for comparison, statistics, pairs in known:
        intervals = [statistic.interval(alpha / n_rates) for statistic in statistics]
        values = [statistic.value for statistic in statistics]
        groups = comparison.block.grouping.groups
        name = rate_name(comparison.block.rate, measure.name)
        for a, b in pairs:
            low, high = _pair_interval(measure, intervals[a], intervals[b])
            lowest.append(low)
            highest.append(high)
            apart.append((measure.scalar(values, [(a, b)]), (groups[a], groups[b], name)))
    if measure.comparison == "ratio":
        return {"lower": min(lowest), "upper": min(highest), "pair": min(apart, key=lambda each: each[0])[1]}
    return {"lower": max(lowest), "upper": max(highest), "pair": max(apart, key=lambda each: each[0])[1]}


def _pair_interval(measure: Measure, first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest measure of a pair of groups that their intervals allow."""
    # If the intervals overlap, both rates may be equal; else the nearest rates are the facing ends.
    nearest = [max(first[0], second[0]), max(first[0], second[0])]
    if first[1] < second[0] or second[1] < first[0]:
        nearest = [min(first[1], second[1]), max(first[0], second[0])]
    furthest = ((first[0], second[1]), (second[0], first[1]))
    values = [measure.scalar(rates, [(0, 1)]) for rates in furthest]
    if measure.comparison == "ratio":
        return min(values), measure.scalar(nearest, [(0, 1)])
    return measure.scalar(nearest, [(0, 1)]), max(values)
