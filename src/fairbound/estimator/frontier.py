"""The points of a frontier as fitted classifiers, each with the record of its own fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbound._errors import LimitWarning
from fairbound._text_tables import Page, TextTable, axes_of_plot, data_frame
from fairbound._words import number
from fairbound.estimator.reached import LimitResult
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
    position : int
        Index among the limits of the one that the bound is for.
    """

    bound: float
    classifier: Any = field(repr=False)
    loss_price: float
    accuracy_price: float | None
    position: int = 0

    @property
    def result(self) -> FitResult:
        """The record of the classifier."""
        return self.classifier.result_

    @property
    def value(self) -> float:
        """What the objective is about: the accuracy, or a value such as the cost."""
        reached = self.result.reached
        return self.result.accuracy if reached is None else float(reached.value)

    @property
    def limit(self) -> LimitResult:
        """The limit that the bound is for, with the value that it reaches."""
        return self.result.limits[self.position]


class FrontierModels(tuple[FrontierModel, ...], Page):
    """The points of a frontier, from loose to strict: print it, show it in a notebook, or plot it."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row for each point."""
        return data_frame(
            [
                {
                    "bound": each.bound,
                    "reached": each.limit.reached,
                    "kept": each.result.kept,
                    "accuracy": each.result.accuracy,
                    "gain": each.result.gain,
                    "objective": each.value,
                    "loss_price": each.loss_price,
                    "accuracy_price": each.accuracy_price,
                }
                for each in self
            ]
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw accuracy, or the stated objective, over the limited measure, with matplotlib; return the axes."""
        axes = axes_of_plot() if ax is None else ax
        axes.plot([each.limit.reached for each in self], [each.value for each in self], marker="o")
        for each in self:
            where = each.limit.reached, each.value
            axes.annotate(f"{each.bound:g}", where, textcoords="offset points", xytext=(4, 4))
        shown = "accuracy" if self[0].result.reached is None else self[0].result.reached.name
        axes.set(xlabel=self.measure, ylabel=f"{shown} on training rows")
        return axes

    @property
    def measure(self) -> str:
        """The limited measure, as text."""
        return self[0].limit.limit.rpartition(" ")[0].rpartition(" ")[0]

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        rows = (
            (
                f"{each.bound:g}",
                number(each.limit.reached, 4),
                "yes" if each.result.kept else "NO",
                f"{each.result.accuracy:.2%}",
                f"{100 * each.result.gain:+.2f}",
                "-" if each.accuracy_price is None else f"{each.accuracy_price:.2f}",
                *([] if each.result.reached is None else [number(each.result.reached.value, 4)]),
            )
            for each in self
        )
        objective = () if self[0].result.reached is None else (self[0].result.reached.name,)  # such as a cost
        header = ("bound", "reached", "kept", "accuracy", "gain", "points for the next 0.01", *objective)
        note = "Training rows. Gain: points of accuracy over the best constant prediction."
        return f"{self.measure}: {len(self)} bounds", [TextTable("Frontier", header, tuple(rows))], [note]


def frontier_models(points: Sequence[FrontierPoint], classifiers: Sequence[Any], position: int) -> FrontierModels:
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
    return FrontierModels(
        FrontierModel(point.bound, classifier, point.loss_price, price, position)
        for point, classifier, price in zip(points, classifiers, prices, strict=True)
    )
