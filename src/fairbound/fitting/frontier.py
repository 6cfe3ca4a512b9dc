"""The points of a frontier as fitted classifiers, each with the record of its own solve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairbound.fitting.result import FitResult


@dataclass(frozen=True)
class FrontierModel:
    """One bound of a frontier and the classifier that was trained for it.

    Attributes
    ----------
    bound : float
    classifier : ConstrainedClassifier
        Fitted; its limits have this bound, and its `result_` is the record of its own solve.
    loss_price : float or None
        Loss per unit by which the bound is tightened; 0 where the bound does not bind, None where the model was trained
        for a stricter bound.
    accuracy_price : float or None
        Accuracy per unit of tightening, from the next stricter bound; None at the strictest.
    """

    bound: float
    classifier: Any = field(repr=False)
    loss_price: float | None
    accuracy_price: float | None

    @property
    def result(self) -> FitResult:
        """The record of the classifier."""
        return self.classifier.result_

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, for tables and JSON."""
        found = self.result
        return {
            "bound": self.bound,
            "status": found.status.value,
            "kept": found.kept,
            "accuracy": found.accuracy,
            "gain": found.gain,
            "loss": found.loss,
            "measured": [limit.reached for limit in found.limits],
            "loss_price": self.loss_price,
            "accuracy_price": self.accuracy_price,
        }


def frontier_models(bounds: Sequence[float], classifiers: Sequence[Any], position: int) -> tuple[FrontierModel, ...]:
    """Return the points in the order of the bounds, with their prices for the limit at `position`."""
    falls = [one.result_.accuracy - other.result_.accuracy for one, other in pairwise(classifiers)]
    steps = [abs(other - one) for one, other in pairwise(bounds)]
    prices = [*(fall / step for fall, step in zip(falls, steps, strict=True)), None]
    return tuple(
        FrontierModel(bound, classifier, classifier.result_.limits[position].price, price)
        for bound, classifier, price in zip(bounds, classifiers, prices, strict=True)
    )
