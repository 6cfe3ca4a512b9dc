"""The points of a frontier as fitted classifiers, each with the record of its own fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbound._errors import LimitWarning
from fairbound.estimator.result import FitResult
from fairbound.training import FrontierPoint, prices_in_accuracy


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


def frontier_models(points: Sequence[FrontierPoint], classifiers: Sequence[Any]) -> tuple[FrontierModel, ...]:
    """Return the points with their classifiers; warn about bounds that are not kept.  Accuracies are of `predict`."""
    missed = [f"{each.bound:g}" for each, model in zip(points, classifiers, strict=True) if not model.result_.kept]
    if missed:
        warnings.warn(
            f"{type(classifiers[0]).__name__} does not keep every limit on the training rows at {len(missed)} of "
            f"{len(points)} bounds: {', '.join(missed)}.",
            LimitWarning,
            stacklevel=4,
        )
    prices = prices_in_accuracy([each.bound for each in points], [each.result_.accuracy for each in classifiers])
    return tuple(
        FrontierModel(point.bound, classifier, point.loss_price, price)
        for point, classifier, price in zip(points, classifiers, prices, strict=True)
    )
