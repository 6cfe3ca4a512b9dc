"""The results of a fit: limits with their values, rates by group, and tested models."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from fairbound._json import Number
from fairbound.fairness import RATES, Cells, Quota, evaluate, group_sums
from fairbound.training import Assessment, GapSums, TrainingResult, loss_price, surrogate_gaps

SHOWN_RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")


@dataclass(frozen=True)
class LimitResult:
    """A limit and the value that the decisions reach.

    Attributes
    ----------
    limit : str
        The limit as text, in the form that `parse_constraint` reads.
    reached : float
        The measure of the decisions: the least ratio, the largest difference, or the worst rate.
    surrogate : float
        The same measure, computed from the differentiable surrogate.
    kept : bool
    price : float or None
        Loss per unit by which the bound is tightened.  None for a pair of bounds, and if the model was trained for a
        stricter bound.
    eval_reached : float or None
        The measure on the validation rows; None without validation rows, or if it is undefined there.
    eval_kept : bool or None
    gap : float or None
        The largest difference between the exact constraint values and those by surrogate, over the rows of the limit.
    gap_bound : float or None
        The bound of Theorem 1 on `gap`, from the margins of the training rows; None if the theorem does not apply.
    """

    limit: str
    reached: Number
    surrogate: Number
    kept: bool
    price: float | None = None
    eval_reached: float | None = None
    eval_kept: bool | None = None
    gap: float | None = None
    gap_bound: float | None = None

    def __str__(self) -> str:
        there = "" if self.eval_reached is None else f", {self.eval_reached:.4f} on the validation rows"
        price = "" if self.price is None else f", price {self.price:.4f}"
        return f"{self.limit}: {self.reached:.4f}, {'kept' if self.kept else 'not kept'}{there}{price}"

    def __post_init__(self) -> None:
        for name in ("reached", "surrogate"):
            if math.isnan(getattr(self, name)):  # JSON has no infinities
                object.__setattr__(self, name, math.inf)


@dataclass(frozen=True)
class GroupResult:
    """A group of the training rows and its rates by the decisions; with several classes, by class.

    Attributes
    ----------
    grouping : str
    group : group
    rows : int
    rates : dict
        For each class whose selection is counted: the rates by name, None if undefined.
    """

    grouping: str
    group: Hashable
    rows: int
    rates: dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class TrialResult:
    """A model that was tested on the calibration rows.

    Attributes
    ----------
    strictness : float
        How much stricter than asked the model is: 0 at the bound itself, 1 at the strictest possible bound.
    accuracy : float
        On the training rows.
    passed : bool
        Whether it passed for every limit.
    returned : bool
    bounds : tuple of str
        For each limit, the bound on its measure at the confidence of the test, such as "at least 0.8123".
    confidence : float
        Confidence level of the test.  Two starts share the probability of error.
    """

    strictness: float
    accuracy: float
    passed: bool
    returned: bool
    bounds: tuple[str, ...]
    confidence: float

    @property
    def name(self) -> str:
        """The strictness in words."""
        return f"{100 * self.strictness:g}% stricter" if self.strictness else "as asked"


def limit_results(
    training: TrainingResult, assessment: Assessment, watched: Mapping[int, float | None] | None, sums: GapSums
) -> tuple[LimitResult, ...]:
    """Return one result for each limit, from the assessment of the decisions of `predict`."""
    system, found = assessment.system, []
    gaps = surrogate_gaps(system, sums, assessment.judged_sums)
    for position, constraint in enumerate(system.constraints):
        if isinstance(constraint, Quota):
            continue
        single = constraint.bound is not None and not isinstance(constraint.bound, tuple)
        price = None
        if single and training.multipliers is not None:
            price = loss_price(assessment, position, training.multipliers) + 0.0
        there = None if watched is None else watched[position]
        found.append(
            LimitResult(
                limit=str(constraint),
                reached=assessment.measured[position],
                surrogate=assessment.measured_surrogate[position],
                kept=constraint.keeps(assessment.measured[position]),
                price=price,
                eval_reached=there,
                eval_kept=None if there is None else constraint.keeps(there),
                gap=gaps[position][0],
                gap_bound=_known(gaps[position][1]),
            )
        )
    return tuple(found)


def group_results(cells: Cells, assessment: Assessment) -> tuple[GroupResult, ...]:
    """Return the rates of every group, by the decisions of `predict`."""
    found = []
    for grouping in cells.groupings:
        sizes = cells.group_sizes(grouping, weightless=True)
        rates: dict[str, dict[str, list[float]]] = {}
        for outcome in cells.outcomes:
            sums = group_sums(assessment.counts, cells, grouping, outcome)
            rates[str(cells.classes[outcome])] = {name: evaluate(RATES[name], sums).tolist() for name in SHOWN_RATES}
        for position, group in enumerate(grouping.groups):
            found.append(
                GroupResult(
                    grouping.name,
                    group,
                    sizes[position],
                    {
                        label: {name: _known(each[position]) for name, each in named.items()}
                        for label, named in rates.items()
                    },
                )
            )
    return tuple(found)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
