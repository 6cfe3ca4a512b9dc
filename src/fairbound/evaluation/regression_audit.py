"""The audit of a regression: means and losses of groups, and limits on them, with confidence intervals.

The interval of a share of rows is exact binomial.  That of a mean is Student's, which is approximate, or empirical
Bernstein (Maurer and Pontil 2009) if the range of targets and predictions is known.  The intervals of a measure follow
from simultaneous ones of the groups (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fairbound._json import plain
from fairbound._text_tables import Page, TextTable
from fairbound._words import as_text, count, number
from fairbound.evaluation.intervals import Share, check_confidence
from fairbound.fairness import (
    Cells,
    Combine,
    Constraint,
    ConstraintSystem,
    RowFunction,
    as_constraints,
    regression_loss,
    resolve_measure,
)

Floats = NDArray[np.float64]

MEASURES = ("mean_difference", "demographic_parity", "disparate_impact")
"""What is measured without limits: of the shares above values, the difference and the ratio."""


@dataclass(frozen=True)
class GroupMeans:
    """The rows of a group: means of target, prediction and loss, and the standard deviation of the prediction."""

    grouping: str
    group: Hashable
    rows: int
    target: float
    prediction: float
    loss: float
    deviation: float


@dataclass(frozen=True)
class AuditedLimit:
    """A limit, or a measure, its value and interval, and whether the interval lies within the bound."""

    limit: str
    value: float
    lower: float
    upper: float
    verdict: str


@dataclass(frozen=True)
class RegressionAudit(Page):
    """The audit of a regression; print it, or take it as a dictionary.

    Attributes
    ----------
    rows : int
    confidence : float
        Of each measure.
    exact : bool
        Whether every interval holds for finite numbers of rows.
    groups : tuple of GroupMeans
    limits : tuple of AuditedLimit
        Verdicts are PASS, FAIL, INCONCLUSIVE, or empty without a bound.
    standardized : dict
        The largest difference of mean predictions in standard deviations within groups, by grouping.
    """

    rows: int
    confidence: float
    exact: bool
    groups: tuple[GroupMeans, ...]
    limits: tuple[AuditedLimit, ...]
    standardized: dict[str, float]

    @property
    def passed(self) -> bool:
        """Whether every limit has passed."""
        return all(each.verdict == "PASS" for each in self.limits if each.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return plain(self)

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        named = [(f"{each.grouping}: {as_text(each.group)}", each) for each in self.groups]
        groups = tuple(
            (name, count(each.rows), *map(number, (each.target, each.prediction, each.loss))) for name, each in named
        )
        limits = tuple(
            (each.limit, *map(number, (each.value, each.lower, each.upper)), each.verdict) for each in self.limits
        )
        tables = [
            TextTable("Groups", ("group", "rows", "mean target", "mean prediction", "mean loss"), groups),
            TextTable("Limits", ("limit", "value", "from", "to", "verdict"), limits),
        ]
        notes = [
            f"{name}: means differ by {value:.3f} standard deviations." for name, value in self.standardized.items()
        ]
        notes += [] if self.exact else ["Intervals of means are approximate; state the range= of y to make them exact."]
        return f"{count(self.rows)} rows, confidence {self.confidence:g}", tables, notes


def audit_regression(
    y: Any,
    prediction: Any,
    sensitive_features: Any,
    limits: Constraint | str | Iterable[Constraint | str] = (),
    *,
    loss: str = "squared",
    at: Iterable[float | str] = ("25%", "50%", "75%"),
    range: tuple[float, float] | None = None,  # noqa: A002  (the word for it)
    groups: Combine = "each",
    confidence: float = 0.95,
) -> RegressionAudit:
    """Measure predictions of numbers by group.

    Parameters
    ----------
    y, prediction : sequences of n numbers
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
    limits : Constraint, str, or several
        As for `ConstrainedRegressor`; by default difference of means, and differences and ratios of the shares above
        the values `at`.
    loss : {"squared", "absolute", "quantile(0.9)"}
        What `group_loss` is about.
    at : sequence of numbers, or of quantiles such as "25%" of the predictions
    range : pair of numbers, optional
        Between which all targets and predictions lie, whatever the rows.  Then intervals of means are exact.
    groups : {"each", "intersection", "both"}
    confidence : float

    Examples
    --------
    >>> y, groups = [1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"]
    >>> found = audit_regression(y, [1.0, 2.0, 2.5, 3.5], groups, "mean_difference <= 2")
    >>> found.limits[0].value
    1.5
    """
    alpha = 1.0 - check_confidence(confidence)
    target, predicted = (np.asarray(each, dtype=np.float64).reshape(-1) for each in (y, prediction))
    measured_loss, z = regression_loss(loss), predicted[:, None]
    cells = Cells.unlabelled(len(predicted), ("prediction",), sensitive_features, groups=groups)
    stated = as_constraints(limits) or tuple(
        Constraint(None, measure=name, at=None if resolve_measure(name).of != "decision" else tuple(at))
        for name in MEASURES
    )
    stated = tuple(each.at_quantiles(predicted) for each in stated)
    system = ConstraintSystem.compare(stated, cells)
    functions = system.functions(measured_loss)
    values = [each.exact(z, target)[:, 0] for each in functions]
    measured = system.measured(system.sums_of(z, target, measured_loss))
    audited, powers = [], {"decision": 0, "prediction": 1, "loss": measured_loss.degree}
    for place, (limit, value) in enumerate(zip(stated, measured, strict=True)):
        own = [each for each in system.comparisons if each.constraint == place]
        means = sum(len({one for pair in each.pairs for one in pair}) for each in own)
        pairs = []
        for each in own:
            member = each.block.grouping.membership[:, cells.index] > 0
            function, known = functions[each.block.surrogate], {}
            for one in {one for pair in each.pairs for one in pair}:
                width = None if range is None else (range[1] - range[0]) ** powers[resolve_measure(limit.measure).of]
                known[one] = _interval(values[each.block.surrogate][member[one]], function, alpha / means, width)
            pairs += [(known[a], known[b]) for a, b in each.pairs]
        audited.append(_judged(limit, value, pairs))
    by_row = np.stack([target, predicted, getattr(measured_loss, "exact", measured_loss.values)(z, target)])

    def facts_of(inside: NDArray[np.bool_]) -> list[float]:
        return [*by_row[:, inside].mean(axis=1).tolist(), float(predicted[inside].std())]

    rows = [
        GroupMeans(grouping.name, group, int(inside.sum()), *facts_of(inside))
        for grouping in cells.groupings
        for group, inside in zip(grouping.groups, grouping.membership[:-1, cells.index] > 0, strict=True)
    ]
    standardized = {}
    for name in dict.fromkeys(each.grouping for each in rows):
        sizes, centres, spreads = np.array(
            [(each.rows, each.prediction, each.deviation) for each in rows if each.grouping == name]
        ).T
        pooled = math.sqrt(float(np.average(np.square(spreads), weights=sizes)))
        standardized[name] = float(np.ptp(centres)) / pooled if pooled else math.nan
    exact = range is not None or all(each.jumps for each in functions)
    return RegressionAudit(len(target), confidence, exact, tuple(rows), tuple(audited), standardized)


def _interval(values: Floats, function: RowFunction, level: float, width: float | None) -> tuple[float, float]:
    """Return an interval of the mean of some values, which is wrong with probability at most `level`."""
    n, mean = len(values), float(values.mean())
    if function.jumps:
        return Share(float(values.sum()), n).interval(level)
    spread = float(values.std(ddof=1)) if n > 1 else math.inf
    if width is None:
        reach = float(stats.t.ppf(1.0 - level / 2.0, max(n - 1, 1))) * spread / math.sqrt(n)
    else:
        log = math.log(4.0 / level)
        reach = spread * math.sqrt(2.0 * log / n) + 7.0 * width * log / (3.0 * max(n - 1, 1))
    return mean - reach, mean + reach


def _judged(limit: Constraint, value: float, pairs: list[tuple[Any, Any]]) -> AuditedLimit:
    """Return the interval of a measure from those of the means that it compares, and the verdict."""
    measure, bounds = resolve_measure(limit.measure), limit.limits
    if measure.comparison == "value":
        lower, upper = (float(each) for each in np.array([one for one, _ in pairs]).max(axis=0))
        if not math.isfinite(bounds[1]):
            lower, upper = (float(each) for each in np.array([one for one, _ in pairs]).min(axis=0))
    else:
        lower, upper = map(float, measure.interval(pairs))
    verdict = "INCONCLUSIVE" if lower <= bounds[1] and upper >= bounds[0] else "FAIL"
    verdict = "PASS" if bounds[0] <= lower and upper <= bounds[1] else verdict
    return AuditedLimit(str(limit), float(value), lower, upper, "" if limit.bound is None else verdict)
