"""Limits as the user states them: a measure, a bound, and how it is approximated while training.

>>> DisparateImpact(0.8)
DisparateImpact(0.8)
>>> parse_constraint("demographic_parity <= 0.05")
DemographicParity(0.05)
>>> parse_constraint("selection_rate[female] >= 0.3")
Constraint((0.3, None), measure='selection_rate', group='female')
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

from fairbound._registry import lookup
from fairbound.fairness.decisions import MarginKind
from fairbound.fairness.measures import MEASURES, Measure, resolve_measure
from fairbound.fairness.rates import RATES
from fairbound.fairness.surrogates import Surrogate, resolve_surrogate

Bound = float | tuple[float | None, float | None] | None


@dataclass(frozen=True, repr=False)
class Constraint:
    """A limit on a measure.

    Parameters
    ----------
    bound : float, pair of floats, or None
        δ of a ratio (at least), ε of a difference (at most, in size), or (lower, upper), either of which may be None.
        A pair on a ratio or difference needs a direction, so `against="overall"` or a `reference`.  None measures only.
    measure : str or Measure
    against : {"pairwise", "overall"}
        What each group is compared with.
    reference : group, optional
        Compare each group with this one instead.
    group : group, optional
        For limits on a rate itself: the group concerned; every group by default.
    columns : tuple of str, optional
        The sensitive columns (or intersections) concerned; all by default.
    classes : tuple of labels, optional
        With several classes: the classes concerned; all by default.
    surrogate : str or Surrogate, optional
        What stands for the step while training; the measure's own default otherwise.
    margin : {"probability", "logit"}
    """

    bound: Bound
    _: KW_ONLY
    measure: str | Measure
    against: str = "pairwise"
    reference: Hashable | None = None
    group: Hashable | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[Hashable, ...] | None = None
    surrogate: str | Surrogate | None = None
    margin: MarginKind = "probability"

    def __post_init__(self) -> None:
        measure = resolve_measure(self.measure)
        if self.surrogate is not None:
            resolve_surrogate(self.surrogate)
        if self.margin not in ("probability", "logit"):
            raise ValueError(f'{measure.name}: margin={self.margin!r} must be "probability" or "logit".')
        if self.against not in ("pairwise", "overall"):
            raise ValueError(
                f'{measure.name}: against={self.against!r} must be "pairwise" or "overall"; '
                "to compare with one group give reference=."
            )
        if self.group is not None and measure.comparison != "value":
            raise ValueError(
                f"{measure.name} compares groups, so group={self.group!r} means nothing; "
                f"group= goes with a rate ({', '.join(sorted(RATES))})."
            )
        if self.bound is not None:
            self._check_bound(measure)

    def _check_bound(self, measure: Measure) -> None:
        lower, upper = self.limits
        sides = [side for side in (lower, upper) if math.isfinite(side)]
        said = f"{measure.name}: bound={self.bound!r}"
        if not sides:
            raise ValueError(f"{said} limits nothing: give a finite number on at least one side.")
        if lower > upper:
            raise ValueError(f"{said}: the lower bound is above the upper bound.")
        if isinstance(self.bound, tuple):
            if measure.comparison in ("ratio", "difference") and self.against == "pairwise" and self.reference is None:
                raise ValueError(f'{said}: a pair of bounds has a direction; add against="overall" or reference=.')
            smallest = -measure.largest if measure.comparison in ("difference", "covariance") else 0.0
            largest = math.inf if measure.comparison == "ratio" else measure.largest
        elif measure.comparison == "value":
            raise ValueError(f"{said}: a rate needs a pair (lower, upper); None leaves a side open.")
        else:
            smallest, largest = 0.0, measure.largest
            sides = [float(self.bound)]  # type: ignore[arg-type]
        if any(not smallest <= side <= largest for side in sides):
            raise ValueError(f"{said} must lie between {smallest:g} and {largest:g}.")

    @property
    def limits(self) -> tuple[float, float]:
        """(lower, upper) of the measure, −inf and inf where there is no side; a ratio's δ stands for (δ, 1/δ)."""
        measure = resolve_measure(self.measure)
        if self.bound is None:
            return -math.inf, math.inf
        if isinstance(self.bound, tuple):
            if len(self.bound) != 2:
                raise ValueError(f"{measure.name}: bound={self.bound!r} must be a number or a pair (lower, upper).")
            lower, upper = self.bound
            return -math.inf if lower is None else float(lower), math.inf if upper is None else float(upper)
        try:
            bound = float(self.bound)
        except (TypeError, ValueError):
            bound = math.nan
        if math.isnan(bound):
            raise ValueError(f"{measure.name}: bound={self.bound!r} must be a number or a pair (lower, upper).")
        if measure.comparison == "ratio":
            return bound, 1.0 / bound if bound > 0 else math.inf
        return (-bound, bound) if bound >= 0 else (bound, bound)

    @property
    def name(self) -> str:
        return resolve_measure(self.measure).name

    def with_bound(self, bound: Bound) -> Constraint:
        """Return the same limit with another bound."""
        return replace(self, bound=bound)

    def __str__(self) -> str:
        """Return the limit in words: `parse_constraint(str(constraint))` is the constraint, options apart."""
        measure = resolve_measure(self.measure)
        column = f"({', '.join(self.columns)})" if self.columns else ""
        group = f"[{self.group}]" if self.group is not None else ""
        other = f" against {self.reference}" if self.reference is not None else ""
        other = other or (" against overall" if self.against == "overall" else "")
        subject = f"{measure.name}{column}{group}"
        if self.bound is None:
            return subject + other
        if not isinstance(self.bound, tuple):
            return f"{subject} {'>=' if measure.larger_is_stricter else '<='} {self.bound:g}{other}"
        lower, upper = self.limits
        if not math.isfinite(upper):
            return f"{subject} >= {lower:g}{other}"
        if not math.isfinite(lower):
            return f"{subject} <= {upper:g}{other}"
        return f"{lower:g} <= {subject} <= {upper:g}{other}"

    def __repr__(self) -> str:
        options = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if field.name != "bound" and getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join([repr(self.bound), *options])})"


@dataclass(frozen=True, repr=False)
class DemographicParity(Constraint):
    """Selection rates differ by at most the bound."""

    measure: str | Measure = "demographic_parity"


@dataclass(frozen=True, repr=False)
class DisparateImpact(Constraint):
    """Selection rates are within the ratio of each other (0.8: the four-fifths rule)."""

    measure: str | Measure = "disparate_impact"


@dataclass(frozen=True, repr=False)
class EqualImpact(Constraint):
    """True-positive rates are within the ratio of each other."""

    measure: str | Measure = "equal_impact"


@dataclass(frozen=True, repr=False)
class EqualOpportunity(Constraint):
    """True-positive rates differ by at most the bound."""

    measure: str | Measure = "equal_opportunity"


@dataclass(frozen=True, repr=False)
class PredictiveEquality(Constraint):
    """False-positive rates differ by at most the bound."""

    measure: str | Measure = "predictive_equality"


@dataclass(frozen=True, repr=False)
class EqualizedOdds(Constraint):
    """True-positive and false-positive rates each differ by at most the bound."""

    measure: str | Measure = "equalized_odds"


@dataclass(frozen=True, repr=False)
class AccuracyParity(Constraint):
    """Accuracies differ by at most the bound."""

    measure: str | Measure = "accuracy_parity"


@dataclass(frozen=True, repr=False)
class PredictiveParity(Constraint):
    """Precisions differ by at most the bound."""

    measure: str | Measure = "predictive_parity"


@dataclass(frozen=True, repr=False)
class NegativePredictiveParity(Constraint):
    """Precisions of the negative predictions differ by at most the bound."""

    measure: str | Measure = "negative_predictive_parity"


@dataclass(frozen=True, repr=False)
class Sufficiency(Constraint):
    """Precisions of the positive and of the negative predictions each differ by at most the bound."""

    measure: str | Measure = "sufficiency"


@dataclass(frozen=True, repr=False)
class Representation(Constraint):
    """The groups' shares among the selected differ by at most the bound."""

    measure: str | Measure = "representation"


@dataclass(frozen=True, repr=False)
class Covariance(Constraint):
    """The covariance of prediction and group is at most the bound in size; a proxy, which bounds no rate."""

    measure: str | Measure = "covariance"


CONSTRAINTS: dict[str, type[Constraint]] = {
    str(constraint.measure): constraint
    for constraint in (
        DemographicParity,
        DisparateImpact,
        EqualImpact,
        EqualOpportunity,
        PredictiveEquality,
        EqualizedOdds,
        AccuracyParity,
        PredictiveParity,
        NegativePredictiveParity,
        Sufficiency,
        Representation,
        Covariance,
    )
}


def rate_limit(
    rate: str, *, group: Hashable | None = None, lower: float | None = None, upper: float | None = None, **options: Any
) -> Constraint:
    """Return a floor or a ceiling on a group's own rate (on every group's without `group`).

    >>> rate_limit("true_positive_rate", group="female", lower=0.7)
    Constraint((0.7, None), measure='true_positive_rate', group='female')
    """
    lookup(RATES, rate, "rate")
    return Constraint((lower, upper), measure=rate, group=group, **options)


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TEXT = re.compile(
    rf"""^\s*(?:(?P<low>{_NUMBER})\s*<=?\s*)?      # 0.1 <=
    (?P<name>\w+)\s*                               # selection_rate
    (?:\((?P<columns>[^()]+)\))?\s*                # (sex)
    (?:\[(?P<group>[^\[\]]+)\])?\s*                # [female]
    (?:(?P<sign><=?|>=?)\s*(?P<bound>{_NUMBER}%?))?\s*
    (?:against\s+(?P<against>.+?))?\s*$""",
    re.VERBOSE,
)


def parse_constraint(text: str) -> Constraint:
    """Read a limit such as "disparate_impact >= 0.8", "demographic_parity(sex) <= 0.05 against overall".

    A rate of a group is `rate[group]`, as in "selection_rate[female] >= 0.3" or "0.1 <= selection_rate <= 0.4".
    """
    match = _TEXT.match(text)
    if match is None or match["bound"] is None:
        raise ValueError(f'Cannot read the limit {text!r}. Write it like "disparate_impact >= 0.8".')
    measure = lookup(MEASURES, match["name"], "measure")
    bound = float(match["bound"].rstrip("%")) / (100.0 if match["bound"].endswith("%") else 1.0)
    at_least = match["sign"].startswith(">")
    options: dict[str, Any] = {}
    if match["columns"]:
        options["columns"] = tuple(column.strip() for column in match["columns"].split(","))
    if match["group"]:
        options["group"] = match["group"].strip()
    if match["against"] == "overall":
        options["against"] = "overall"
    elif match["against"] not in (None, "pairwise"):
        options["reference"] = match["against"]
    kind = CONSTRAINTS.get(measure.name, Constraint)
    if kind is Constraint:
        options["measure"] = measure.name
    if match["low"] is not None:
        if at_least:
            raise ValueError(f'Cannot read the limit {text!r}: write two sides as "0.1 <= {measure.name} <= 0.4".')
        return kind((float(match["low"]), bound), **options)
    if measure.comparison == "value":
        return kind((bound, None) if at_least else (None, bound), **options)
    if at_least != measure.larger_is_stricter:
        sign = ">=" if measure.larger_is_stricter else "<="
        raise ValueError(
            f"{text!r}: {measure.name} is a {measure.comparison}, where "
            f"{'larger' if measure.larger_is_stricter else 'smaller'} is stricter; write {measure.name} {sign} {bound:g}."
        )
    return kind(bound, **options)


def as_constraints(constraints: Constraint | str | Iterable[Constraint | str]) -> tuple[Constraint, ...]:
    """One or several limits, as objects or as text, as a tuple."""
    if isinstance(constraints, Constraint | str):
        constraints = (constraints,)
    result = []
    for constraint in constraints:
        if isinstance(constraint, str):
            constraint = parse_constraint(constraint)
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f'{constraint!r} is not a constraint: give for example DisparateImpact(0.8) or "disparate_impact >= 0.8".'
            )
        result.append(constraint)
    return tuple(result)
