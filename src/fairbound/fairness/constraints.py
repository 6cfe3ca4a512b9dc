"""Constraints as the user states them: a measure, a bound, and the surrogate used in training.

>>> str(DisparateImpact(0.8, columns="sex"))
'disparate_impact(sex) >= 0.8'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable
from dataclasses import KW_ONLY, dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np

from fairbound._errors import InputError, bad_value
from fairbound._words import lookup
from fairbound.fairness.cells import OVERALL, Grouping
from fairbound.fairness.decisions import MarginKind
from fairbound.fairness.measures import Measure, resolve_measure
from fairbound.fairness.rates import QUOTIENT_RATES, RATES, changed
from fairbound.fairness.surrogates import SURROGATES, Surrogate, resolve_surrogate

CLAUSE = re.compile(r"\s(?:for\s+class(?:es)?|within|against|at)\s")
"""Introduces a clause of the text of a constraint."""

Bound = float | tuple[float | None, float | None] | None

KEPT_TOLERANCE = 1e-12
"""A value may exceed its bound by this much.  Values come from counts of decisions, so this is rounding error only."""

MEAN_TOLERANCE = 1e-9
"""The same for means of predictions and losses, in standard deviations: sums of rows that are no whole numbers."""


@dataclass(frozen=True, repr=False)
class Constraint:
    """A limit on a measure.

    Parameters
    ----------
    bound : float, tuple of two floats, or None
        The least ratio δ, the largest absolute difference ε, or a pair (lower, upper), one of which may be None.  A
        pair on a ratio or difference has a direction, so it needs `against="overall"` or a `reference`.  None measures
        without a limit.
    measure : str or Measure
    against : {"pairwise", "overall"}
        Compare each group with every other group, or with everyone.  For a limit on a rate itself, "overall" means the
        rate of everyone, whatever the group; so does a limit on a rate where there are no groups.
    reference : group, optional
        Compare each group with this one instead.
    group : group, optional
        For limits on a rate itself: the group whose rate is limited; every group by default.
    columns : tuple of str, optional
        The sensitive columns (or intersections) to which the limit applies; all by default.
    classes : tuple of labels, optional
        With more than two classes: the classes to which the limit applies; all by default.
    at : tuple of floats, or of texts, optional
        For limits on selection: the values above which a row is selected, such as incomes, or probabilities of a
        classifier.  Texts such as "10%" are quantiles of the predictions without limits.
    within : tuple of str, optional
        Factors such as "grade", or "age(30, 50)" with the cuts of bands.  Groups are compared, or their rates limited,
        in each stratum of these factors by itself.
    previous : str, optional
        For a limit on `changed`: the column with the decisions that are compared.
    surrogate : str or Surrogate, optional
        Replaces the step function in training; by default `Measure.default_surrogate`.
    margin : {"probability", "logit"}
        The margin to which the surrogate is applied.
    reserve : tuple of float
        In training, the bound of each row of the compiled limit is tightened by its own distance, in the order of the
        rows.  `margin=` of the classifier sets it.  Whether the limit is kept does not depend on it.
    """

    bound: Bound
    _: KW_ONLY
    measure: str | Measure
    against: str = "pairwise"
    reference: Hashable | None = None
    group: Hashable | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[Hashable, ...] | None = None
    at: tuple[float | str, ...] | None = None
    within: tuple[str, ...] | None = None
    previous: str | None = None
    surrogate: str | Surrogate | None = None
    margin: MarginKind = "probability"
    reserve: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        measure = resolve_measure(self.measure)
        for option in ("columns", "classes", "within", "at"):
            names = getattr(self, option)
            if names is not None:
                listed = _as_tuple(names)
                # Columns are identified by their names as text; a table may name them by numbers.
                plain = option in ("classes", "at")
                object.__setattr__(self, option, listed if plain else tuple(map(str, listed)))
                if not getattr(self, option):
                    raise ValueError(f"{measure.name}: {option}={names!r} is empty; leave {option}= out to mean all.")
        for option in ("reference", "group", "classes"):
            self._check_value(measure, option)
        if self.surrogate is not None:
            self._check_surrogate(measure, resolve_surrogate(self.surrogate))
        if not isinstance(self.margin, str) or self.margin not in ("probability", "logit"):
            raise ValueError(f'{measure.name}: margin={self.margin!r} must be "probability" or "logit".')
        if not isinstance(self.against, str) or self.against not in ("pairwise", "overall"):
            raise ValueError(
                f'{measure.name}: against={self.against!r} must be "pairwise" or "overall"; '
                "to compare with one group give reference=."
            )
        if self.group is not None and measure.comparison != "value":
            raise ValueError(
                f"{measure.name} compares groups, so it does not take group={self.group!r}; "
                f"group= is for limits on one rate ({', '.join(sorted(RATES))})."
            )
        if (self.previous is None) == (changed in measure.rates):
            raise ValueError(
                f"{measure.name}: previous={self.previous!r}; a limit on changed decisions, and no other, names their "
                'column, as in "changed <= 2% from decision".'
            )
        if self.at is not None:
            self._check_at(measure)
        self._check_comparison(measure)
        if self.bound is not None:
            self._check_bound(measure)

    def _check_value(self, measure: Measure, option: str) -> None:
        """Raise an error if a group or class is a list or an array; constraints must be hashable."""
        value = getattr(self, option)
        try:
            hash(value)
        except TypeError:
            message = f"{measure.name}: {option}={value!r} cannot be a value of a column; give text or numbers."
            raise TypeError(message) from None

    def _check_at(self, measure: Measure) -> None:
        """Raise an error unless `at` has numbers, or quantiles such as "10%", of a rate of selection."""
        values = self.at or ()
        quantiles = [each for each in values if isinstance(each, str) and 0.0 < share_in(each) < 1.0]
        numbers = [each for each in values if isinstance(each, Real) and math.isfinite(each)]
        if len(values) not in (len(quantiles), len(numbers)) or measure.of != "decision":
            raise ValueError(
                f'{measure.name}: at={self.at!r} must have numbers only, or only quantiles such as "10%", of a rate '
                "of those above a value."
            )

    def _check_surrogate(self, measure: Measure, surrogate: Surrogate) -> None:
        """Raise an error for an unbounded surrogate of a rate that divides by a sum of its values."""
        # Unbounded values of both signs can cancel in the denominator, and then the quotient is meaningless.
        divided = next((rate.__name__ for rate in measure.rates if rate in QUOTIENT_RATES), None)
        if divided and not surrogate.bounded:
            bounded = ", ".join(repr(name) for name, kind in SURROGATES.items() if kind().bounded and name != "exact")
            raise InputError(
                "{measure}: {surrogate=value} is unbounded, and {rate} divides by a sum of its values.",
                "Choose one of {bounded}, or leave {surrogate=} out.",
                measure=measure.name,
                value=self.surrogate,
                rate=divided,
                bounded=bounded,
            )

    def _check_comparison(self, measure: Measure) -> None:
        if self.reference is not None and self.against == "overall":
            raise ValueError(f'{measure.name}: give against="overall" or reference={self.reference!r}, not both.')
        if measure.comparison == "value" and self.reference is not None:
            raise ValueError(f"{measure.name} is a group's own rate: it takes group=, but not reference=.")
        named = "group=" if self.group is not None else "columns=" if self.columns is not None else ""
        if measure.comparison == "value" and self.against == "overall" and named:
            raise ValueError(f'{measure.name}: against="overall" is the rate of everyone; leave {named} out.')
        if measure.comparison == "covariance" and self.reference is not None:
            raise ValueError(f"{measure.name} compares each group with everyone, so it does not take reference=.")
        if self.within is not None and (self.against == "overall" or not measure.conditional):
            raise ValueError(
                f"{self}: within a factor, groups are compared with each other or with reference=, by their own rates; "
                "covariances, shares of the selected and comparisons with everyone have no strata."
            )
        if self.against == "overall" and not measure.overall:
            raise ValueError(
                f'{measure.name} does not take against="overall": the groups are compared by their shares of a whole, '
                'and everyone is that whole; use against="pairwise" or reference=.'
            )

    def _check_bound(self, measure: Measure) -> None:
        lower, upper = self.limits
        said = f"{measure.name}: bound={self.bound!r}"
        sides = [side for side in (lower, upper) if math.isfinite(side)]
        if not sides:
            raise ValueError(f"{said} limits nothing: give a finite number on at least one side.")
        smallest, largest = 0.0, measure.largest
        if not isinstance(self.bound, tuple):
            if measure.comparison == "value":
                raise ValueError(f"{said}: a rate needs a pair (lower, upper); None leaves a side open.")
            if measure.comparison == "ratio":
                largest = min(largest, 1.0)
            sides = [_number(self.bound, said)]
        else:
            if lower > upper:
                raise ValueError(f"{said}: the lower bound is above the upper bound.")
            if measure.comparison in ("ratio", "difference") and self.against == "pairwise" and self.reference is None:
                raise ValueError(f'{said}: a pair of bounds has a direction; add against="overall" or reference=.')
            if measure.comparison == "ratio":
                largest = math.inf
                if upper == 0:
                    raise ValueError(f"{said}: the upper bound of a ratio must be above 0.")
            else:
                smallest = -largest if measure.comparison != "value" or math.isinf(largest) else 0.0
        if any(not smallest <= side <= largest for side in sides):
            raise ValueError(f"{said} must lie between {smallest:g} and {largest:g}.")

    @property
    def limits(self) -> tuple[float, float]:
        """Return (lower, upper), −inf or inf where there is no bound; (δ, 1/δ) for a single bound δ on a ratio."""
        measure = resolve_measure(self.measure)
        said = f"{measure.name}: bound={self.bound!r}"
        if self.bound is None:
            return -math.inf, math.inf
        if isinstance(self.bound, tuple) and len(self.bound) == 2:
            lower, upper = self.bound
            return (
                -math.inf if lower is None else _number(lower, said),
                math.inf if upper is None else _number(upper, said),
            )
        bound = _number(self.bound, said)
        if measure.comparison == "ratio":
            return bound, 1.0 / bound if bound > 0 else math.inf
        return 0.0 - bound, bound

    def keeps(self, value: float) -> bool:
        """Return whether a measured value keeps the limit.  No other code decides this.

        The value is the one that `ConstraintSystem.measured` returns.  An undefined value (NaN) does not keep the
        limit.

        >>> DisparateImpact(0.8).keeps(0.8 - 1e-13), DisparateImpact(0.8).keeps(0.79), DisparateImpact(None).keeps(0.1)
        (True, False, True)
        """
        lower, upper = self.limits
        return lower - self.tolerance <= value <= upper + self.tolerance

    @property
    def tolerance(self) -> float:
        """Return by how much a value may exceed its bound: counts by rounding only, means by a little more."""
        return KEPT_TOLERANCE if resolve_measure(self.measure).of == "decision" else MEAN_TOLERANCE

    def concerns_everyone(self, *, grouped: bool) -> bool:
        """Return whether this limits the rate of everyone; `grouped` says whether the rows have groups.

        >>> limit = Constraint((None, 0.1), measure="selection_rate")
        >>> limit.concerns_everyone(grouped=True), limit.concerns_everyone(grouped=False)
        (False, True)
        """
        if resolve_measure(self.measure).comparison != "value" or self.within is not None:
            return False
        return self.against == "overall" or not (grouped or self.columns or self.group is not None)

    @property
    def factor(self) -> str:
        """Return the factors within whose strata groups are compared, as text; empty without any."""
        return ", ".join(self.within or ())

    def covers(self, grouping: Grouping) -> bool:
        """Return whether the limit applies to the groups of a grouping: to its column, and within its strata."""
        if self.concerns_everyone(grouped=True) or grouping.within != self.factor:
            return False
        return self.columns is None or grouping.column in self.columns

    def at_quantiles(self, values: Any) -> Constraint:
        """Return the limit with the quantiles of these values in place of the shares that it states.

        They are rounded to four digits of the standard deviation.
        """
        if self.at is None or not isinstance(self.at[0], str):
            return self
        found = np.quantile(values, [share_in(str(each)) for each in self.at])
        digits = 3 - math.floor(math.log10(float(np.std(values)) or 1.0))
        return replace(self, at=tuple(round(float(each), digits) for each in found))

    @property
    def name(self) -> str:
        """Return the name of the measure."""
        return resolve_measure(self.measure).name

    @property
    def depends_on_positive(self) -> bool:
        """Return whether, with two labels, the limit changes if the other label is the positive one.

        >>> DisparateImpact(0.8).depends_on_positive, DemographicParity(0.1).depends_on_positive
        (True, False)
        """
        measure = resolve_measure(self.measure)
        one_sided = isinstance(self.bound, tuple) and not set(measure.rates) <= {RATES["accuracy"], changed}
        return one_sided or measure.depends_on_positive

    def with_bound(self, bound: Bound) -> Constraint:
        """Return the same limit with another bound."""
        return replace(self, bound=bound)

    def __str__(self) -> str:
        """Return the constraint as text that `parse_constraint` reads; `surrogate` and `margin` are not part of it.

        A pair of bounds on a comparison shows both sides, "0.8 <= disparate_impact <= inf against white".  Without the
        infinite side the text would mean a limit in both directions.
        """
        measure = resolve_measure(self.measure)
        column = f"({', '.join(_quote_if_needed(name, ',()') for name in self.columns)})" if self.columns else ""
        group = f"[{_quote_if_needed(self.group, '[]')}]" if self.group is not None else ""
        other = f" against {_quote_if_needed(self.reference)}" if self.reference is not None else ""
        if self.against == "overall" and measure.comparison == "value":
            group = f"[{OVERALL}]"
        elif self.against == "overall":
            other = f" against {OVERALL}"
        if self.previous is not None:
            other += f" from {_quote_if_needed(self.previous)}"
        if self.at is not None:
            quantiles = isinstance(self.at[0], str)
            listed = ", ".join(each if isinstance(each, str) else shortest(each) for each in self.at)
            other += f" at {'quantiles ' if quantiles else ''}{listed}"
        if self.within is not None:
            other += (
                f" within {', '.join(_quote_if_needed(name, ',') if '(' not in name else name for name in self.within)}"
            )
        if self.classes is not None:
            listed = ", ".join(_quote_if_needed(label, ",") for label in self.classes)
            other += f" for class{'es' if len(self.classes) > 1 else ''} {listed}"
        subject = f"{measure.name}{column}{group}"
        if self.bound is None:
            return subject + other
        if not isinstance(self.bound, tuple):
            return f"{subject} {'>=' if measure.larger_is_stricter else '<='} {shortest(self.bound)}{other}"
        lower, upper = self.limits
        if measure.comparison == "value" and not math.isfinite(upper):
            return f"{subject} >= {shortest(lower)}{other}"
        if measure.comparison == "value" and not math.isfinite(lower):
            return f"{subject} <= {shortest(upper)}{other}"
        return f"{shortest(lower)} <= {subject} <= {shortest(upper)}{other}"

    def __repr__(self) -> str:
        options = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if field.name != "bound" and getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join([repr(self.bound), *options])})"


def _number(value: object, said: str) -> float:
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer that is too large for a float
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"{said} must be a number or a pair (lower, upper), a tuple of numbers or None.")
    return number


def shortest(number: float) -> str:
    """Return a number in at most six digits if these are exact, else in all digits; equal texts mean equal numbers.

    >>> shortest(0.8), shortest(0.80000001)
    ('0.8', '0.80000001')
    """
    return f"{number:g}" if float(f"{number:g}") == number else repr(float(number))


def _quote_if_needed(value: Hashable, separators: str = "") -> str:
    """Return a name for the text of a constraint, in quotes if it would be read as something else."""
    text = str(value)
    plain = text.isprintable() and text == text.strip() and text != "" and not set(text) & {*separators, '"'}
    if plain and text not in ("overall", "pairwise") and not CLAUSE.search(f" {text} "):
        return text
    return json.dumps(text, ensure_ascii=False)


def share_in(text: str) -> float:
    """Return the share that a text such as "10%" says; NaN for another text."""
    try:
        return float(text.removesuffix("%")) / 100.0 if text.endswith("%") else math.nan
    except ValueError:
        return math.nan


def _as_tuple(names: Any) -> tuple[Any, ...]:
    single = isinstance(names, str | bytes) or not isinstance(names, Iterable) or getattr(names, "ndim", 1) == 0
    return (names,) if single else tuple(names)


@dataclass(frozen=True, repr=False)
class DemographicParity(Constraint):
    """Selection rates differ by at most the bound."""

    measure: str | Measure = "demographic_parity"


@dataclass(frozen=True, repr=False)
class DisparateImpact(Constraint):
    """The ratio of two selection rates, smaller over larger, is at least the bound (0.8: the four-fifths rule)."""

    measure: str | Measure = "disparate_impact"


@dataclass(frozen=True, repr=False)
class EqualImpact(Constraint):
    """The ratio of two true-positive rates, smaller over larger, is at least the bound."""

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
    """The absolute covariance of prediction and group is at most the bound.  This is a proxy: it bounds no rate."""

    measure: str | Measure = "covariance"


@dataclass(frozen=True, repr=False)
class Quota(Constraint):
    """Exactly this share of all rows, or `rows` of them, is selected, or as near below as ties of the score allow.

    A fit has at most one; the threshold on the score follows it.

    >>> Quota.of("10%"), str(Quota.of(100))
    (Quota((None, 0.1)), 'select 100')
    """

    measure: str | Measure = "selection_rate"
    against: str = OVERALL
    rows: int | None = None

    @classmethod
    def of(cls, stated: str | int) -> Quota:
        """Read a share of the rows such as "10%", or a number of them such as 100."""
        text = str(stated).strip()
        is_share = text.endswith("%")
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = math.nan
        if isinstance(stated, bool | float) or not (0 < number < 100 if is_share else number > 0 and number % 1 == 0):
            raise bad_value("select", stated, 'a number of rows, such as 100, or a share such as "10%"')
        return cls((None, number / 100.0)) if is_share else cls(None, rows=int(number))

    def count(self, n_rows: int) -> float:
        """Return the number of rows to select, which need not be whole if it is a share."""
        if self.rows is not None and self.rows > n_rows:
            raise InputError("{select=rows} is more than there are rows, {n_rows:,}.", rows=self.rows, n_rows=n_rows)
        return n_rows * self.share if self.rows is None else self.rows

    def of_rows(self, n_rows: int) -> Quota:
        """Return the quota as a share of so many rows."""
        return Quota((None, self.count(n_rows) / n_rows))

    @property
    def share(self) -> float:
        """Return the share of the rows."""
        return self.limits[1]

    def __str__(self) -> str:
        return f"select {shortest(100.0 * self.share)}%" if self.rows is None else f"select {self.rows}"


CONSTRAINTS: dict[str, type[Constraint]] = {
    str(kind.__dataclass_fields__["measure"].default): kind for kind in Constraint.__subclasses__() if kind is not Quota
}
"""The kind of limit on each measure."""


def rate_limit(
    rate: str, *, group: Hashable | None = None, lower: float | None = None, upper: float | None = None, **options: Any
) -> Constraint:
    """Return a lower or upper limit on the rate of a group; without `group`, on the rate of every group.

    >>> rate_limit("true_positive_rate", group="female", lower=0.7)
    Constraint((0.7, None), measure='true_positive_rate', group='female')
    """
    lookup(RATES, rate, "rate")
    return Constraint((lower, upper), measure=rate, group=group, **options)
