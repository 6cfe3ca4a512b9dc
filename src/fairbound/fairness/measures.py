"""Unfairness measures: one or more rates of groups, and how they are compared.

A limit on a measure is a set of constraint rows, all *linear in the rates*:

    difference   −ε ≤ r_a − r_b ≤ ε
    ratio        δ·r_a − r_b ≤ 0  and  δ·r_b − r_a ≤ 0      (the paper's c_di: linear, and defined at zero rates)
    covariance   −ε ≤ (N_g/N)·(r_g − r_all) ≤ ε             (Theorem 2: (N₀N₁/N²)(r₁ − r₀) for two groups)
    value        l ≤ r_g ≤ u                                (a lower or upper limit on the rate of a group)

Here b is each other group (pairwise), everyone (overall) or one reference group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound._words import lookup
from fairbound.fairness.rates import (
    RATES,
    RateFunction,
    accuracy,
    changed,
    false_positive_rate,
    mean,
    negative_predictive_value,
    precision,
    selection_rate,
    share_of_selected,
    true_positive_rate,
    uses_label,
)
from fairbound.fairness.surrogates import Linear, SmoothedStep, Surrogate

Array = NDArray[np.float64]

Interval = tuple[float, float]

ComparisonKind = Literal["difference", "ratio", "covariance", "value"]


# If the positive and the negative label are exchanged, each rate r becomes r' or 1 − r', where r' is the rate given
# here.  In a difference between groups the 1 cancels.  So the absolute difference of r becomes that of r'.
_EXCHANGED: dict[RateFunction, RateFunction] = {
    selection_rate: selection_rate,
    accuracy: accuracy,
    true_positive_rate: false_positive_rate,
    false_positive_rate: true_positive_rate,
    precision: negative_predictive_value,
    negative_predictive_value: precision,
}


@dataclass(frozen=True)
class Measure:
    """Rates of groups and how they are compared.

    Parameters
    ----------
    name : str
        Name in text, tables and on the command line.
    rates : tuple of functions of `GroupSums`
        Each returns one value per group.
    comparison : {"difference", "ratio", "covariance", "value"}
    per_class : bool
        With several classes: whether each class has its own rate.  False if the rate covers all classes at once.
    largest : float
        The largest meaningful bound.
    description : str
    overall : bool
        Whether groups can be compared with the rate of everyone.
    monotone : bool
        For user-defined rates.  True states that each rate depends only on a group's share of positives, true-positive
        rate and false-positive rate, and is monotone in each of them.  Only then can a certificate bound the measure.
        The certificate has its own rules for the built-in rates.
    of : {"decision", "prediction", "loss"}
        What the rates are sums of: decisions, predictions (of a classifier: the probability), or the loss of each row.

    Examples
    --------
    A user-defined measure is a function of the sums of groups:

    >>> def informedness(groups):
    ...     return true_positive_rate(groups) - false_positive_rate(groups)
    >>> Measure("informedness_gap", (informedness,), "difference").compare(np.array([0.5]), np.array([0.3]))
    array([0.2])
    """

    name: str
    rates: tuple[RateFunction, ...]
    comparison: ComparisonKind
    per_class: bool = True
    largest: float = float("inf")
    description: str = ""
    overall: bool = True
    monotone: bool = False
    of: Literal["decision", "prediction", "loss"] = "decision"

    @property
    def conditional(self) -> bool:
        """Return whether groups can be compared in each stratum by itself."""
        return self.comparison != "covariance" and share_of_selected not in self.rates

    @property
    def default_surrogate(self) -> Surrogate:
        """Return the smoothed step; for the covariance, the linear function, because that is how it is defined."""
        return Linear() if self.comparison == "covariance" else SmoothedStep()

    @property
    def larger_is_stricter(self) -> bool:
        """Return whether a larger bound is stricter.  This holds for ratios, which are limited from below."""
        return self.comparison == "ratio"

    @property
    def depends_on_positive(self) -> bool:
        """Return whether the measure changes if the positive and the negative label are exchanged."""
        if set(self.rates) <= {accuracy, changed, mean}:
            return False
        if self.comparison in ("ratio", "value"):
            return True
        return {_EXCHANGED.get(rate) for rate in self.rates} != set(self.rates)

    @property
    def uses_label(self) -> bool:
        """Return True if the measure depends on labels, False if it depends on decisions and groups only."""
        return any(uses_label(rate) for rate in self.rates)

    def compare(self, first: Array, second: Array) -> Array:
        """Return the measure of each pair of rates: the smaller over the larger one, or the absolute difference.

        The ratio of two zero rates is 1: every δ satisfies δ·0 ≤ 0, and the largest δ is 1.
        """
        if self.comparison != "ratio":
            return np.abs(first - second)
        low, high = np.minimum(first, second), np.maximum(first, second)
        return np.divide(low, high, out=np.ones_like(high), where=~(high <= 0))

    def interval(self, pairs: Sequence[tuple[Interval, Interval]]) -> Interval:
        """Return the least and the largest value over all pairs, given intervals for the two rates of each pair."""
        a, b = np.array(pairs, dtype=np.float64).transpose(1, 2, 0)
        low, high = np.maximum(a[0], b[0]), np.minimum(a[1], b[1])
        # If the intervals overlap, both rates may be equal; else the nearest rates are the facing ends.
        close, apart = (
            self.compare(np.minimum(low, high), low),
            self.compare(np.append(a[0], b[0]), np.append(b[1], a[1])),
        )
        return (apart.min(), close.min()) if self.comparison == "ratio" else (close.max(), apart.max())


def _built_in(
    name: str, rates: tuple[RateFunction, ...], comparison: ComparisonKind, description: str, **others: Any
) -> Measure:
    return Measure(name, rates, comparison, description=description, **{"largest": 1.0, **others})


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        _built_in("demographic_parity", (selection_rate,), "difference", "difference of selection rates"),
        _built_in("disparate_impact", (selection_rate,), "ratio", "ratio of selection rates"),
        _built_in("equal_impact", (true_positive_rate,), "ratio", "ratio of true-positive rates"),
        _built_in("equal_opportunity", (true_positive_rate,), "difference", "difference of true-positive rates"),
        _built_in("predictive_equality", (false_positive_rate,), "difference", "difference of false-positive rates"),
        _built_in(
            "equalized_odds",
            (true_positive_rate, false_positive_rate),
            "difference",
            "differences of true- and of false-positive rates",
        ),
        _built_in("accuracy_parity", (accuracy,), "difference", "difference of accuracies", per_class=False),
        _built_in("predictive_parity", (precision,), "difference", "difference of precisions"),
        _built_in(
            "negative_predictive_parity",
            (negative_predictive_value,),
            "difference",
            "difference of the precisions of negative predictions",
        ),
        _built_in(
            "sufficiency",
            (precision, negative_predictive_value),
            "difference",
            "differences of the precisions of positive and of negative predictions",
        ),
        _built_in(
            "representation",
            (share_of_selected,),
            "difference",
            "difference of the groups' shares among the selected",
            overall=False,
        ),
        _built_in("covariance", (selection_rate,), "covariance", "covariance of prediction and group", largest=0.25),
        *(
            _built_in(name, (rate,), "value", "a group's own rate", per_class=rate is not accuracy)
            for name, rate in RATES.items()
        ),
    )
}

OTHER_NAMES = {
    "demographic_parity_ratio": "disparate_impact",
    "demographic_parity_difference": "demographic_parity",
    "equal_opportunity_ratio": "equal_impact",
    "equal_opportunity_difference": "equal_opportunity",
    "equalized_odds_difference": "equalized_odds",
    "recall": "true_positive_rate",
}
"""What fairlearn and scikit-learn call the same measures; limits and audits may use these names, too."""


LIMITED: dict[str, Measure] = {
    **MEASURES,
    "mean_difference": _built_in(
        "mean_difference",
        (mean,),
        "difference",
        "difference of mean predictions",
        largest=math.inf,
        of="prediction",
        per_class=False,
    ),
    "group_loss": _built_in(
        "group_loss", (mean,), "value", "a group's mean loss", largest=math.inf, of="loss", per_class=False
    ),
    "changed": _built_in("changed", (changed,), "value", "share of the decisions that are not those of before"),
}
"""What limits can be about: the measures, means of predictions and losses, and the share of decisions that changed."""


def resolve_measure(measure: str | Measure) -> Measure:
    """Return the measure of that name, or the `Measure` itself."""
    if isinstance(measure, Measure):
        return measure
    known = OTHER_NAMES.get(measure, measure) if isinstance(measure, str) else measure
    return lookup(LIMITED, known, "measure")
