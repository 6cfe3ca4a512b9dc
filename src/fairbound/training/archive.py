"""The archive of a fit: every model that was visited is offered, and one is chosen.

1. Only models whose decisions keep every limit are eligible.
2. Of these, the most accurate one is chosen or, if the objective is the loss, the one with the least objective; if
   there is a `judge`, such as the loss on validation rows, the one that it gives the least number.
3. A constant that keeps the limits is chosen only if it is more accurate than every eligible model, or if there is
   none.  Where even the model without limits is less accurate than a constant, as with rare positives, accuracy does
   not decide between them, and a constant is chosen only if there is no other model.
4. If nothing keeps the limits, the model with the least violation is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound.training.assessment import Assessment

Floats = NDArray[np.float64]
Judge = Callable[[Floats], float]

Objective = Literal["accuracy", "loss"]


@dataclass(frozen=True)
class Candidate:
    """A point w, its accuracy, and its rank among the models that it competes with: less is better."""

    w: Floats
    accuracy: float
    rank: tuple[float, float]


class Archive:
    """The models that may still be returned.

    Parameters
    ----------
    objective : {"accuracy", "loss"}
    judge : function of a point, optional
    free_accuracy : float
        The accuracy of the model without limits, for rule 3.

    Attributes
    ----------
    kept : list of Candidate
        The best eligible models, best first.
    least_loss : float or None
        The least loss of a model that keeps every limit.
    constants : list of Candidate
        Constant predictions that keep every limit.
    nearest : Candidate or None
        The model with the least violation among those that do not keep every limit.
    """

    SIZE = 4  # models that are held: if rounding in another precision breaks a limit of the best, the next may keep it

    def __init__(
        self, objective: Objective = "accuracy", judge: Judge | None = None, free_accuracy: float = math.inf
    ) -> None:
        self.objective, self.judge, self.free_accuracy = objective, judge, free_accuracy
        self.kept: list[Candidate] = []
        self.constants: list[Candidate] = []
        self.nearest: Candidate | None = None
        self.least_loss: float | None = None

    def offer(self, w: Floats, assessment: Assessment) -> None:
        """Consider a point; w is copied if it is held."""
        if not assessment.kept:
            rank = (assessment.exact_violation, 0.0)
            if self.nearest is None or rank < self.nearest.rank:
                self.nearest = Candidate(w.copy(), assessment.accuracy, rank)
            return
        self.least_loss = min(assessment.loss, math.inf if self.least_loss is None else self.least_loss)
        rank = self._rank(w, assessment)
        if len(self.kept) < self.SIZE or rank < self.kept[-1].rank:
            self.kept.append(Candidate(w.copy(), assessment.accuracy, rank))
            self.kept = sorted(self.kept, key=lambda held: held.rank)[: self.SIZE]

    def offer_constant(self, w: Floats, assessment: Assessment) -> None:
        """Consider a constant prediction."""
        if assessment.kept:
            self.constants.append(Candidate(w.copy(), assessment.accuracy, (-assessment.accuracy, 0.0)))

    def plain(self) -> dict[str, Any]:
        """Return what a solve has found, as numbers and arrays."""
        kept, nearest = [vars(each) for each in self.kept], self.nearest and vars(self.nearest)
        return {"kept": kept, "nearest": nearest, "least_loss": self.least_loss}

    def restore(self, kept: list[Any], nearest: Any, least_loss: float | None) -> None:
        """Take what `plain` returned."""
        self.kept, self.least_loss = [_candidate(each) for each in kept], least_loss
        self.nearest = nearest and _candidate(nearest)

    def _rank(self, w: Floats, assessment: Assessment) -> tuple[float, float]:
        if self.judge is not None:
            return self.judge(w), 0.0
        if self.objective == "loss":
            return assessment.objective, 0.0
        return -assessment.accuracy, assessment.objective

    def ranked(self) -> list[Candidate]:
        """Return the models that keep the limits, best first."""
        constants = sorted(self.constants, key=lambda held: held.rank)
        best = constants[0].accuracy if constants else -math.inf
        accuracy = max((held.accuracy for held in self.kept), default=-math.inf)
        if self.judge is None and accuracy < best <= self.free_accuracy:
            return [*constants, *self.kept]
        return [*self.kept, *constants]

    def choice(self) -> Candidate:
        """Return the best candidate; if none keeps the limits, the nearest."""
        found = next(iter(self.ranked()), self.nearest)
        if found is None:
            raise ValueError("No model has been offered yet.")
        return found


def _candidate(values: dict[str, Any]) -> Candidate:
    first, second = values["rank"]
    return Candidate(values["w"], values["accuracy"], (first, second))
