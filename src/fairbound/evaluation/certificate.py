"""The certificate: for each limit PASS, FAIL or INCONCLUSIVE on held-out rows, at a stated confidence 1 − α.

The rows must be independent draws from the population that the statement is about, and must not have been used to make
the decisions.

* **PASS**: every requirement of the limit holds by a bound at level α (`requirements`, `bounds`).  If the limit is
  broken in the population, PASS has probability at most α.  If any limit is broken, PASS for *all* limits has
  probability at most α, without a correction for their number (intersection-union test).
* **FAIL**: intervals that cover all rates simultaneously with probability 1 − α exclude that the limit is kept.  If all
  limits are kept, the probability that any of them fails is at most α.
* **INCONCLUSIVE** otherwise, with the number of rows that would decide at the observed rates (`planning`).
* **NOT CERTIFIABLE** if no valid bound is known: for the covariance, for weighted rows without a stated largest weight,
  and for user-defined rates that are not declared monotone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbound._errors import InputError, Message, argument
from fairbound._json import as_json, as_record
from fairbound._text_tables import Page, TextTable
from fairbound._values import as_numbers
from fairbound._weights import check_largest_weight
from fairbound._words import as_level, at_least, at_most, count, number
from fairbound.evaluation.intervals import Statistic, check_confidence, simultaneous_level
from fairbound.evaluation.requirements import RateKey, requirements_of
from fairbound.evaluation.tally import Tally
from fairbound.evaluation.verdicts import (
    GroupRows,
    LimitCertificate,
    Verdict,
    certify_limit,
    groups_concerned,
    refusal,
    sides_in_words,
)
from fairbound.fairness import Combine, Constraint, ConstraintSystem, as_constraints


@dataclass(frozen=True)
class RateInterval(RateKey):
    """A rate of a group with its interval; all intervals of a certificate hold simultaneously.

    `value` is None without rows.
    """

    value: float | None
    lower: float
    upper: float


@dataclass(frozen=True)
class Certificate(Page):
    """The verdicts on all limits.

    Use it through `print`, `to_dict()`, `to_json()`, or as HTML in a notebook.

    Attributes
    ----------
    limits : tuple of LimitCertificate
    rates : tuple of RateInterval
        The rates that the limits use, with intervals that hold simultaneously at the confidence.
    confidence : float
    rows : int
    group_rows : dict
        Number of rows of each group of each grouping.
    missing : dict
        Number of rows without a known group, for each grouping; they count in none of its rates.
    weighted : bool
    """

    limits: tuple[LimitCertificate, ...]
    rates: tuple[RateInterval, ...] = field(repr=False)
    confidence: float
    rows: int
    group_rows: dict[str, dict[Hashable, int]] = field(repr=False)
    missing: dict[str, int] = field(repr=False)
    weighted: bool

    @property
    def verdict(self) -> Verdict:
        """Return PASS if every limit passes, FAIL if one fails, else INCONCLUSIVE."""
        verdicts = {limit.verdict for limit in self.limits}
        if verdicts == {Verdict.PASS}:
            return Verdict.PASS
        return Verdict.FAIL if Verdict.FAIL in verdicts else Verdict.INCONCLUSIVE

    @property
    def passed(self) -> bool:
        """Return whether every limit passes."""
        return self.verdict is Verdict.PASS

    @property
    def claim(self) -> str:
        """Return the statistical meaning of the verdicts as text."""
        error = as_level(1.0 - self.confidence)
        return (
            "Claim: if any limit is broken in the population, the probability of PASS for all limits is at most "
            f"{error}. If all limits are kept there, the probability of any FAIL is at most {error}. This holds if the "
            "rows are independent draws from the population and were not used to make the decisions."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json({"verdict": self.verdict, **vars(self), "claim": self.claim})

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Certificate:
        """Return a certificate from the dictionary of `to_dict`; its groups are text."""
        return as_record(values, cls)

    def limit_table(self, title: str = "Limits") -> TextTable:
        """Return the verdicts and bounds as a table."""
        sure = f"with {as_level(self.confidence)} confidence"
        limits = ((each.limit, each.verdict.value, number(each.value, 4), sides_in_words(each)) for each in self.limits)
        return TextTable(title, ("limit", "verdict", "measured", sure), tuple(limits), 2)

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        heading = f"Certificate: {self.verdict.value} ({count(self.rows)} rows, {as_level(self.confidence)} confidence)"
        rates = tuple(
            (each.grouping, str(each), number(each.value, 4), f"{at_least(each.lower)} to {at_most(each.upper)}")
            for each in self.rates
        )
        title = f"Rates, all within their intervals with {as_level(self.confidence)} confidence"
        tables = [self.limit_table()]
        tables += [TextTable(title, ("groups", "rate", "measured", "interval"), rates, 2)] if rates else []
        notes: list[str] = [
            Message("{limit}: {reason}", limit=limit.limit, reason=limit.reason)
            for limit in self.limits
            if limit.verdict is not Verdict.PASS
        ]
        notes += [
            f"{name}: {count(rows)} rows have no known group and count in no rate."
            for name, rows in self.missing.items()
            if rows
        ]
        return heading, tables, [*notes, self.claim]


def certify(
    y: Any,
    prediction: Any,
    sensitive_features: Any,
    limits: Constraint | str | Iterable[Constraint | str],
    confidence: float = 0.95,
    *,
    sample_weight: Any = None,
    largest_weight: float | None = None,
    groups: Combine = "each",
    pos_label: Hashable | None = None,
    positive_decision: Hashable | None = None,
    repeats: Any = None,
) -> Certificate:
    """Test limits on held-out rows.

    Parameters
    ----------
    y : sequence of n labels
    prediction : sequence of n labels
        Decisions of any system, with the labels of y; 1, 1.0, True and "1" are the same label.
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
    limits : Constraint, str, or several of them
        As for training: `DisparateImpact(0.8)` or "disparate_impact >= 0.8".
    confidence : float
        1 − α, at least 0.5 and below 1.
    sample_weight : sequence of n numbers, optional
        Weights of the rows, such as those of a survey.  To count a row k times, repeat it instead.
    largest_weight : float, optional
        The largest weight that a row can have by design; without it, weighted rows are not certifiable.
    groups : {"each", "intersection", "both"}
    pos_label : label, optional
        Which of two labels is the positive one; by default as for `Cells.build`.
    positive_decision : value, optional
        The decision that means the positive label, if decisions have other values than the two labels.
    repeats : sequence of n numbers, optional
        How many rows each of these rows stands for; their weight is the same.

    Examples
    --------
    >>> y, group = [0, 1] * 500, ["a"] * 500 + ["b"] * 500
    >>> decision = ([1] * 9 + [0]) * 50 + ([1] * 17 + [0] * 3) * 25
    >>> certificate = certify(y, decision, group, ["disparate_impact >= 0.8", "demographic_parity <= 0.01"])
    >>> [limit.verdict.value for limit in certificate.limits]
    ['PASS', 'INCONCLUSIVE']
    """
    constraints = _check_limits(limits)
    check_confidence(confidence)
    if largest_weight is not None:
        if sample_weight is None:
            raise InputError(
                "{largest_weight=value} needs {sample_weight=}.", "Give both, or neither.", value=largest_weight
            )
        check_largest_weight(as_numbers(sample_weight, argument("sample_weight")), largest_weight)
    tally = Tally.build(
        y,
        prediction,
        sensitive_features,
        sample_weight=sample_weight,
        largest_weight=largest_weight,
        groups=groups,
        pos_label=pos_label,
        positive_decision=positive_decision,
        repeats=repeats,
    )
    return certify_tally(tally, constraints, confidence, weights_bounded=largest_weight is not None)


def certify_tally(
    tally: Tally,
    limits: Sequence[Constraint],
    confidence: float = 0.95,
    *,
    weights_bounded: bool = False,
    systems: Sequence[ConstraintSystem] | None = None,
) -> Certificate:
    """Test limits on decisions that are already counted; see `certify`.

    Parameters
    ----------
    tally : Tally
    limits : sequence of Constraint
        Limits with bounds.
    confidence : float
    weights_bounded : bool
        Whether `tally.largest_weight` bounds all possible weights, not only those of these rows.
    systems : sequence of ConstraintSystem, optional
        The limits compiled for the cells of the tally, if that is done already.
    """
    alpha = 1.0 - check_confidence(confidence)
    systems = tally.compile_all(limits) if systems is None else systems
    refusals = [refusal(limit, tally, weights_bounded or tally.bounded) for limit in limits]
    required = [
        [] if reason else requirements_of(system, tally) for system, reason in zip(systems, refusals, strict=True)
    ]
    statistics: dict[RateKey, Statistic] = {}
    for requirement in (each for requirements in required for each in requirements):
        for key, statistic in requirement.rates():
            statistics.setdefault(key, statistic)
    level = simultaneous_level(list(statistics.values()), confidence)
    results = []
    group_rows: GroupRows = {}
    for limit, system, reason, requirements in zip(limits, systems, refusals, required, strict=True):
        if reason:
            refused = Verdict.NOT_CERTIFIABLE, tally.measured(system), (), reason
            results.append(LimitCertificate(str(limit), limit.name, *refused))
        else:
            results.append(certify_limit(system, requirements, tally, alpha, level))
        for name, concerned in groups_concerned(system, tally).items():
            group_rows.setdefault(name, {}).update(concerned)
    return Certificate(
        limits=tuple(results),
        rates=tuple(_rate_interval(key, known, level) for key, known in statistics.items()),
        confidence=confidence,
        rows=tally.cells.n_rows,
        group_rows=group_rows,
        missing={name: tally.missing(tally.cells.grouping(name)) for name in group_rows},
        weighted=tally.weighted,
    )


def _rate_interval(key: RateKey, known: Statistic, level: float) -> RateInterval:
    value = None if math.isnan(known.value) else known.value
    return RateInterval(key.grouping, key.group, key.label, key.rate, value, *known.interval(level))


def _check_limits(limits: Constraint | str | Iterable[Constraint | str]) -> tuple[Constraint, ...]:
    constraints = as_constraints(limits)
    if not constraints:
        raise ValueError('limits is empty: give at least one, such as "disparate_impact >= 0.8".')
    for limit in constraints:
        if limit.bound is None:
            raise ValueError(f"{limit.name} has bound=None, so it limits nothing: a certificate needs a bound.")
    return constraints
