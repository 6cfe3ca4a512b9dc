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

from fairbound.evaluation.audit_records import Estimate, GroupAudit, MeasureAudit, Undefined
from fairbound.evaluation.audit_result import Audit
from fairbound.evaluation.intervals import Statistic, check_confidence
from fairbound.evaluation.requirements import rate_name
from fairbound.evaluation.scores import Scores, audit_scores, tally_decisions
from fairbound.evaluation.tally import Tally
from fairbound.fairness import (
    MEASURES,
    RATES,
    Combine,
    ComparedPair,
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
    rates = _Rates(tally, system, [each.measure for each in asked if each.is_compared])
    return Audit(
        rows=tally.cells.n_rows,
        weighted=tally.weighted,
        probable=tally.divided is not None,
        confidence=confidence,
        classes=tally.cells.classes,
        groups=tuple(entry for grouping in groupings for entry in _groups(rates, grouping, alpha)),
        measures=tuple(_measures(rates, asked, system, alpha)),
        undefined=tuple(entry for grouping in groupings for entry in _undefined(rates, grouping)),
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
        return Constraint(None, measure=self.measure, columns=(self.grouping.name,), classes=classes)


def _asked(measures: Iterable[Measure], tally: Tally) -> Iterator[_Asked]:
    """Yield each measure for each grouping; with several classes, one for each class where it applies."""
    cells = tally.cells
    for grouping in cells.groupings:
        for measure in measures:
            several = cells.n_labels > 2 and measure.per_class
            for outcome in cells.outcomes if several else cells.outcomes[:1]:
                yield _Asked(measure, grouping, cells.classes[outcome] if several else None)


class CountedRate(NamedTuple):
    """A rate of each group of a grouping, and of everyone, for one outcome."""

    values: list[float]
    defined: list[bool]
    statistics: list[Statistic] | None


class _Rates:
    """Every rate that an audit needs, counted once."""

    def __init__(self, tally: Tally, system: ConstraintSystem, measures: Sequence[Measure]) -> None:
        self.tally = tally
        self.counts = {
            (grouping.name, outcome): tally.counts(grouping, outcome)
            for grouping in tally.cells.groupings
            for outcome in tally.cells.outcomes
        }
        self.found: dict[tuple[str, int, RateFunction, bool], CountedRate] = {}
        for grouping, outcome in self.counts:
            for rate in counted_rates(tally).values():
                self._count(grouping, outcome, rate, monotone=False)
        for comparison in system.comparisons:
            block, measure = comparison.block, measures[comparison.constraint]
            self._count(block.grouping.name, block.outcome, block.rate, monotone=measure.monotone)

    def _count(self, grouping: str, outcome: int, rate: RateFunction, *, monotone: bool) -> None:
        if (grouping, outcome, rate, monotone) in self.found:
            return
        counts = self.counts[grouping, outcome]
        same = self.found.get((grouping, outcome, rate, False))
        if same is None or same.statistics is None:
            same = CountedRate(counts.values(rate), counts.defined(rate), counts.statistics(rate, monotone=monotone))
        self.found[grouping, outcome, rate, monotone] = same

    def of(self, grouping: str, outcome: int, rate: RateFunction, *, monotone: bool = False) -> CountedRate:
        """Return a rate of a grouping."""
        return self.found[grouping, outcome, rate, monotone]

    def rows(self, grouping: Grouping) -> list[int]:
        """Count the rows of each group, and of everyone."""
        return self.tally.group_rows(grouping)


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


def _groups(rates: _Rates, grouping: Grouping, alpha: float) -> Iterator[GroupAudit]:
    """Yield the counts and the rates for every class, of each group and of everyone."""
    classes, outcomes = rates.tally.cells.classes, rates.tally.cells.outcomes
    known, labelled = counted_rates(rates.tally), rates.tally.labelled
    estimates = {
        outcome: {name: estimates_of(rates.of(grouping.name, outcome, rate), alpha) for name, rate in known.items()}
        for outcome in outcomes
    }
    rows, confusion = rates.rows(grouping), rates.tally.confusion(grouping)
    for position, group in enumerate((*grouping.groups, None)):
        yield GroupAudit(
            grouping=grouping.name,
            group=group,
            everyone=position == len(grouping.groups),
            rows=rows[position],
            labels={label: sum(line) for label, line in zip(classes, confusion[position], strict=True) if labelled},
            decisions=dict(zip(classes, map(sum, zip(*confusion[position], strict=True)), strict=True)),
            confusion=tuple(tuple(line) for line in confusion[position] if labelled),
            rates={
                classes[outcome]: {name: found[position] for name, found in estimates[outcome].items()}
                for outcome in outcomes
            },
        )


def estimates_of(rate: CountedRate, alpha: float) -> list[Estimate]:
    """Return a rate of each group with its interval, which is wrong with probability at most α."""
    estimates = []
    for position, value in enumerate(rate.values):
        if not rate.defined[position]:
            estimates.append(Estimate(None, None, None))
        elif rate.statistics is None:  # a rate that was added to `RATES` but not to `WHOLES`
            estimates.append(Estimate(value, None, None))
        else:
            estimates.append(Estimate(value, *rate.statistics[position].interval(alpha)))
    return estimates


def overall_accuracy(tally: Tally, confidence: float = 0.95) -> tuple[Estimate, float]:
    """Return the accuracy over all rows, known group or not, and the accuracy of the best constant prediction."""
    cells = tally.cells
    labels = cells.totals.reshape(-1, cells.n_labels).sum(axis=0)
    everyone = Grouping("all rows", (), np.ones((1, cells.n_cells // cells.n_labels)))
    counts = tally.counts(everyone, cells.outcomes[0])
    rate = CountedRate(counts.values(accuracy), counts.defined(accuracy), counts.statistics(accuracy))
    (estimate,) = estimates_of(rate, 1.0 - check_confidence(confidence))
    return estimate, float(labels.max() / labels.sum())


def _undefined(rates: _Rates, grouping: Grouping) -> Iterator[Undefined]:
    cells = rates.tally.cells
    several = cells.n_labels > 2
    rows = rates.rows(grouping)
    for outcome in cells.outcomes:
        for name, rate in counted_rates(rates.tally).items():
            if rate is accuracy and outcome != cells.outcomes[0]:
                continue
            defined = rates.of(grouping.name, outcome, rate).defined
            label = cells.classes[outcome] if several and rate is not accuracy else None
            for group, size, known in zip(grouping.groups, rows, defined, strict=False):
                if not known:
                    yield Undefined(grouping.name, group, name, label, size)


def _measures(rates: _Rates, asked: Iterable[_Asked], system: ConstraintSystem, alpha: float) -> Iterator[MeasureAudit]:
    """Yield what was asked for; `system` has a constraint for each that is compared."""
    comparisons: list[list[GroupComparison]] = [[] for _ in system.constraints]
    for comparison in system.comparisons:
        comparisons[comparison.constraint].append(comparison)
    compared = iter(zip(comparisons, rates.tally.worst(system), strict=True))
    for each in asked:
        measure, grouping, label = each
        found: dict[str, Any] = {"value": None, "lower": None, "upper": None, "pair": None}
        left_out: tuple[Hashable, ...] = ()
        if each.is_compared:
            own, worst = next(compared)
            left_out = _left_out(rates, own, monotone=measure.monotone)
            if worst is not None:
                found["value"] = worst.value
                if measure.comparison != "covariance":
                    found |= _compare(rates, measure, own, worst, alpha)
        yield MeasureAudit(measure.name, measure.description, grouping.name, label, **found, left_out=left_out)


def _left_out(rates: _Rates, comparisons: Iterable[GroupComparison], *, monotone: bool) -> tuple[Hashable, ...]:
    found: dict[Hashable, None] = {}
    for block in (comparison.block for comparison in comparisons):
        defined = rates.of(block.grouping.name, block.outcome, block.rate, monotone=monotone).defined
        found |= {group: None for group, known in zip(block.grouping.groups, defined, strict=False) if not known}
    return tuple(found)


def _compare(
    rates: _Rates, measure: Measure, comparisons: Iterable[GroupComparison], worst: ComparedPair, alpha: float
) -> dict[str, Any]:
    """Return the interval of the measure, and the pair of groups that is furthest apart."""
    known: list[tuple[list[Statistic], list[tuple[int, int]]]] = []
    for comparison in comparisons:
        block = comparison.block
        _, defined, statistics = rates.of(block.grouping.name, block.outcome, block.rate, monotone=measure.monotone)
        if statistics is None:
            return {}
        known.append((statistics, [(a, b) for a, b in comparison.pairs if defined[a] and defined[b]]))
    n_rates = sum(
        statistics[position].n_rates
        for statistics, pairs in known
        for position in {position for pair in pairs for position in pair}
    )
    compared: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for statistics, pairs in known:
        intervals = [statistic.interval(alpha / n_rates) for statistic in statistics]
        compared += [(intervals[a], intervals[b]) for a, b in pairs]
    lower, upper = measure.interval(compared)
    groups = (*worst.block.grouping.groups, None)
    first, second = (groups[place] for place in worst.places)
    return {"lower": lower, "upper": upper, "pair": (first, second, rate_name(worst.block.rate, measure.name))}
