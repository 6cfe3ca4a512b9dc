"""The points of a frontier as fitted classifiers, each with the record of its own fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairbound.estimator.result import FitResult
from fairbound.training import FrontierPoint


@dataclass(frozen=True)
class FrontierModel:
    """One bound of a frontier and the classifier that was trained for it.

    Attributes
    ----------
    bound : float
    classifier : ConstrainedClassifier
        Fitted for this bound; its `result_` is the record of its own fit.
    loss_price : float
        Loss per unit by which the bound is tightened; 0 if the bound is not active.
    accuracy_price : float or None
        Accuracy per unit of tightening, from the next stricter bound; None at the strictest.
    """

    bound: float
    classifier: Any = field(repr=False)
    loss_price: float
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


def frontier_models(points: Sequence[FrontierPoint], classifiers: Sequence[Any]) -> tuple[FrontierModel, ...]:
    """Return the points with their classifiers; prices in accuracy come from the decisions of these."""
    falls = [one.result_.accuracy - other.result_.accuracy for one, other in pairwise(classifiers)]
    steps = [abs(other.bound - one.bound) for one, other in pairwise(points)]
    prices = [*(fall / step for fall, step in zip(falls, steps, strict=True)), None]
    return tuple(
        FrontierModel(point.bound, classifier, point.loss_price, price)
        for point, classifier, price in zip(points, classifiers, prices, strict=True)
    )
