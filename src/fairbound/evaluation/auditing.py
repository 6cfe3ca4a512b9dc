"""The audit: rates and measures of any system's decisions, by group, with confidence intervals.

Rates and measures are those of `fairbound.fairness`, computed from sums of decisions as in training.  The interval of a
rate is exact binomial.  For weighted rows it is empirical Bernstein, with the largest observed weight in place of the
largest possible one.  Each interval has the stated confidence.  The interval of a measure follows from simultaneous
intervals [L, U] of its rates (Bonferroni over the groups and rates of that measure):

    ratio        [min L_a/U_b,  min over pairs of the largest ratio that their intervals allow]
    difference   [max over pairs of the gap between their intervals,  max (U_a − L_b)]

A rate that divides by zero (no row of that label, or nobody selected) is listed as undefined.  Measures are computed
over the other groups, and list the groups that are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairbound._errors import InputError
from fairbound.evaluation.audit_records import Estimate, GroupAudit, MeasureAudit, Undefined
from fairbound.evaluation.audit_result import Audit
from fairbound.evaluation.intervals import Statistic, check_confidence
from fairbound.evaluation.requirements import rate_name
from fairbound.evaluation.scores import Scores, audit_scores, tally_decisions
from fairbound.evaluation.tally import CountedRate, Tally
from fairbound.fairness import (
    MEASURES,
    RATES,
    Combine,
    Constraint,
    ConstraintSystem,
    GroupComparison,
    Grouping,
    Measure,
    RateFunction,
    accuracy,
    resolve_measure,
    uses_label,
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
    score: Any = None,
    threshold: float | None = None,
) -> Audit:
    """Measure decisions by group.

    Parameters
    ----------
    y : sequence of n labels, or None
        Any values; two or more classes.  Without labels, the audit has the rates and measures that do not use them,
        such as selection rates and their ratio.
    prediction : sequence of n labels, or None
        Decisions of any system, with the labels of y; 1, 1.0, True and "1" are the same label.  It may be None if
        `score` is given.
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
        Strings, numbers, booleans or categoricals; None and NaN are missing.  In a mapping, a column may be a table of
        probabilities with one column for each group; a row then counts in each group with its probability.
    sample_weight : sequence of n numbers, optional
    groups : {"each", "intersection", "both"}
        With several columns: the groups of each column, of their intersection, or both.
    pos_label : label, optional
        Which of two labels is the positive one; by default as for `Cells.build`.
    positive_decision : value, optional
        The decision that means the positive label, if decisions have other values than the two labels.  Without labels,
        the decision that selects.
    confidence : float
        Confidence level of each interval.
    measures : sequence of measures or their names, optional
        Measures that compare groups; by default all of `MEASURES` that do.
    min_group_size : int
        Groups with fewer rows are merged into one group, "(other)", and listed in the notes.  A single such group is
        not merged.
    score : sequence of n numbers, optional
        The scores behind the decisions; a larger score is more favourable.  `Audit.scores` then has AUC, calibration
        and distributions by group, and the measures at every threshold.
    threshold : float, optional
        With `score` and without `prediction`: rows with at least this score are selected.  By default, rows with a
        score above the median of all scores are selected.

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
    tally, scores = tally_decisions(
        y,
        prediction,
        sensitive_features,
        score=score,
        threshold=threshold,
        sample_weight=sample_weight,
        groups=groups,
        pos_label=pos_label,
        positive_decision=positive_decision,
        min_group_size=min_group_size,
    )
    if tally.cells.previous_name:
        raise InputError(
            "The column {name!r} of groups is named like earlier decisions, which an audit does not compare.",
            "Leave it out, or give it another name.",
            name=tally.cells.previous_name,
        )
    return audit_tally(tally, confidence, measures, scores=scores)


def audit_tally(
    tally: Tally,
    confidence: float = 0.95,
    measures: Iterable[str | Measure] | None = None,
    *,
    system: ConstraintSystem | None = None,
    scores: Scores | None = None,
) -> Audit:
    """Audit decisions that are already counted; see `audit`.

    `system` has the measures compiled for the cells of the tally, if that is done already (`audited_measures`).
    """
    alpha = 1.0 - check_confidence(confidence)
    groupings = tally.cells.groupings
    compared = _compared(measures, tally)
    asked = list(_asked(compared, tally))
    if system is None:
        system = tally.compile_together(each.limit() for each in asked if each.is_compared)
    return Audit(
        rows=tally.cells.n_rows,
        weighted=tally.weighted,
        probable=tally.divided is not None,
        confidence=confidence,
        classes=tally.cells.classes,
        groups=tuple(entry for grouping in groupings for entry in _groups(tally, grouping, alpha)),
        measures=tuple(_measures(tally, asked, system, alpha)),
        undefined=tuple(entry for grouping in groupings for entry in _undefined(tally, grouping)),
        missing={grouping.name: tally.missing(grouping) for grouping in groupings},
        merged=tally.merged,
        min_group_size=tally.min_group_size,
        labelled=tally.labelled,
        scores=None if scores is None else audit_scores(tally, scores, confidence, counted_rates(tally), compared),
    )


def counted_rates(tally: Tally) -> dict[str, RateFunction]:
    """Return the rates by name; without labels, those that do not use them."""
    return {name: rate for name, rate in RATES.items() if tally.labelled or not uses_label(rate)}


def audited_measures(tally: Tally) -> list[Constraint]:
    """Return the measures of an audit as limits without a bound, on the columns that have groups to compare."""
    return [each.limit() for each in _asked(_compared(None, tally), tally) if each.is_compared]


class _Asked(NamedTuple):
    """A measure over the groups of one grouping, for one class or for all."""

    measure: Measure
    grouping: Grouping
    label: Hashable | None

    @property
    def is_compared(self) -> bool:
        """Return whether there are groups to compare."""
        return len(self.grouping.groups) > 1

    def limit(self) -> Constraint:
        """Return the measure as a limit without a bound."""
        classes = None if self.label is None else (self.label,)
        within = (self.grouping.within,) if self.grouping.within else None
        return Constraint(None, measure=self.measure, columns=(self.grouping.column,), classes=classes, within=within)


def _asked(measures: Iterable[Measure], tally: Tally) -> Iterator[_Asked]:
    """Yield each measure for each grouping; with several classes, one for each class where it applies."""
    cells = tally.cells
    for grouping in cells.groupings:
        for measure in measures:
            if grouping.within and not measure.conditional:
                continue
            several = cells.n_labels > 2 and measure.per_class
            for outcome in cells.outcomes if several else cells.outcomes[:1]:
                yield _Asked(measure, grouping, cells.classes[outcome] if several else None)


def _compared(measures: Iterable[str | Measure] | None, tally: Tally) -> list[Measure]:
    if measures is None:
        known = [measure for measure in MEASURES.values() if measure.comparison != "value"]
        return [measure for measure in known if tally.labelled or not measure.uses_label]
    if isinstance(measures, str | Measure):
        measures = [measures]
    if not isinstance(measures, Iterable):
        raise ValueError(f"measures={measures!r} must be the name of a measure, or several of them.")
    found = [resolve_measure(measure) for measure in measures]
    for measure in found:
        if measure.comparison == "value":
            raise ValueError(
                f"measures= has {measure.name!r}, a group's own rate, but must name measures that compare groups. The "
                "audit's groups have every rate: leave it out."
            )
    return found


def _groups(tally: Tally, grouping: Grouping, alpha: float) -> Iterator[GroupAudit]:
    """Yield the counts and the rates for every class, of each group and of everyone."""
    classes = tally.cells.classes
    estimates = {
        classes[outcome]: {
            name: estimates_of(tally.counts(grouping, outcome).rate(rate), alpha)
            for name, rate in counted_rates(tally).items()
        }
        for outcome in tally.cells.outcomes
    }
    rows, confusion = tally.group_rows(grouping), tally.confusion(grouping)
    for position, group in enumerate((*grouping.groups, None)):
        yield GroupAudit(
            grouping=grouping.name,
            group=group,
            everyone=position == len(grouping.groups),
            rows=rows[position],
            labels={
                label: sum(line) for label, line in zip(classes, confusion[position], strict=True) if tally.labelled
            },
            decisions=dict(zip(classes, map(sum, zip(*confusion[position], strict=True)), strict=True)),
            confusion=tuple(tuple(line) for line in confusion[position] if tally.labelled),
            rates={
                label: {name: of_groups[position] for name, of_groups in found.items()}
                for label, found in estimates.items()
            },
        )


def estimates_of(rate: CountedRate, alpha: float) -> list[Estimate]:
    """Return a rate of each group with its interval, which is wrong with probability at most α."""
    # A rate that was added to `RATES` but not to `WHOLES` has no statistics.
    statistics: Sequence[Statistic | None] = rate.statistics or [None] * len(rate.values)
    return [
        Estimate(value, *(statistic.interval(alpha) if statistic else ())) if defined else Estimate()
        for value, defined, statistic in zip(rate.values, rate.defined, statistics, strict=True)
    ]


def overall_accuracy(tally: Tally, confidence: float = 0.95) -> tuple[Estimate, float]:
    """Return the accuracy over all rows, known group or not, and the accuracy of the best constant prediction."""
    cells = tally.cells
    labels = cells.totals.reshape(-1, cells.n_labels).sum(axis=0)
    everyone = Grouping("all rows", (), np.ones((1, cells.n_cells // cells.n_labels)))
    rate = tally.counts(everyone, cells.outcomes[0]).rate(accuracy)
    (estimate,) = estimates_of(rate, 1.0 - check_confidence(confidence))
    return estimate, float(labels.max() / labels.sum())


def _undefined(tally: Tally, grouping: Grouping) -> Iterator[Undefined]:
    cells, rows = tally.cells, tally.group_rows(grouping)
    for outcome in cells.outcomes:
        for name, rate in counted_rates(tally).items():
            if rate is accuracy and outcome != cells.outcomes[0]:
                continue
            defined = tally.counts(grouping, outcome).rate(rate).defined
            label = cells.classes[outcome] if cells.n_labels > 2 and rate is not accuracy else None
            for group, size, known in zip(grouping.groups, rows, defined, strict=False):
                if not known:
                    yield Undefined(grouping.name, group, name, label, size)


def _measures(tally: Tally, asked: Iterable[_Asked], system: ConstraintSystem, alpha: float) -> Iterator[MeasureAudit]:
    """Yield what was asked for; `system` has a constraint for each that is compared."""
    comparisons: list[list[GroupComparison]] = [[] for _ in system.constraints]
    for comparison in system.comparisons:
        comparisons[comparison.constraint].append(comparison)
    compared = iter(zip(comparisons, tally.worst(system), strict=True))
    for measure, grouping, label in asked:
        found: dict[str, Any] = {}
        if len(grouping.groups) > 1:
            own, worst = next(compared)
            rates = [_rate_of(tally, each, measure) for each in own]
            left_out = {
                group: None
                for comparison, rate in zip(own, rates, strict=True)
                for group, known in zip(comparison.block.grouping.groups, rate.defined, strict=False)
                if not known
            }
            found["left_out"] = tuple(left_out)
            if worst is not None:
                found["value"] = worst.value
                if measure.comparison != "covariance" and all(rate.statistics is not None for rate in rates):
                    groups = (*worst.block.grouping.groups, None)
                    first, second = (groups[place] for place in worst.places)
                    found["pair"] = (first, second, rate_name(worst.block.rate, measure.name))
                    found["lower"], found["upper"] = _interval(measure, own, rates, alpha)
        yield MeasureAudit(measure.name, measure.description, grouping.name, label, **found)


def _rate_of(tally: Tally, comparison: GroupComparison, measure: Measure) -> CountedRate:
    block = comparison.block
    return tally.counts(block.grouping, block.outcome).rate(block.rate, monotone=measure.monotone)


def _interval(
    measure: Measure, comparisons: Iterable[GroupComparison], rates: Iterable[CountedRate], alpha: float
) -> tuple[float, float]:
    """Return the interval of a measure, from simultaneous intervals of the rates that it compares."""
    known = [
        (rate.statistics or [], [(a, b) for a, b in comparison.pairs if rate.defined[a] and rate.defined[b]])
        for comparison, rate in zip(comparisons, rates, strict=True)
    ]
    n_rates = sum(
        statistics[place].n_rates
        for statistics, pairs in known
        for place in {place for pair in pairs for place in pair}
    )
    compared = []
    for statistics, pairs in known:
        intervals = [statistic.interval(alpha / n_rates) for statistic in statistics]
        compared += [(intervals[a], intervals[b]) for a, b in pairs]
    return measure.interval(compared)
