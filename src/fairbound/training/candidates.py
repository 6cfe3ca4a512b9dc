"""Choose the model to return among the iterates of a fit.

1. Only models whose decisions keep every limit are eligible.
2. Among them, take the most accurate one whose objective is within `slack` of the least objective.  With slack 0 this
   is the least objective; with infinite slack it is the highest accuracy.
3. Constant predictions compete.  A constant that keeps the limits is returned if it is more accurate than every model,
   or if no model keeps the limits.
4. If nothing keeps the limits, return the model with the least violation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from fairbound.training.assessment import Assessment


@dataclass(frozen=True)
class Candidate:
    """A point w and its assessment."""

    w: Tensor
    assessment: Assessment


class Candidates:
    """The candidates that may still be returned.

    Parameters
    ----------
    slack : float
        Allowed increase of the objective over the least one, relative to it.

    Attributes
    ----------
    kept : list of Candidate
        Models that keep every limit; none is dominated by another in both objective and accuracy.
    constants : list of Candidate
        Constant predictions that keep every limit.
    nearest : Candidate or None
        The model with the least violation among those that do not keep every limit.
    """

    def __init__(self, slack: float = 0.0) -> None:
        self.slack = slack
        self.kept: list[Candidate] = []
        self.constants: list[Candidate] = []
        self.nearest: Candidate | None = None

    def offer(self, w: Tensor, assessment: Assessment) -> None:
        """Consider a point; w is copied if it is stored."""
        if not assessment.kept:
            if self.nearest is None or assessment.exact_violation < self.nearest.assessment.exact_violation:
                self.nearest = Candidate(w.clone(), assessment)
            return
        if any(_dominates(held.assessment, assessment) for held in self.kept):
            return
        self.kept = [held for held in self.kept if not _dominates(assessment, held.assessment)]
        self.kept.append(Candidate(w.clone(), assessment))

    def offer_constant(self, w: Tensor, assessment: Assessment) -> None:
        """Consider a constant prediction."""
        if assessment.kept:
            self.constants.append(Candidate(w.clone(), assessment))

    def least(self) -> Candidate:
        """Return the model with the least objective among those that keep the limits."""
        return min(self.kept, key=lambda held: held.assessment.objective)

    @property
    def least_objective(self) -> float:
        """Return the least objective under the limits; inf if no model keeps them."""
        return min((held.assessment.objective for held in self.kept), default=math.inf)

    def ranked(self) -> list[Candidate]:
        """Return all candidates that keep the limits, the best first."""
        allowed = self.least_objective + self.slack * abs(self.least_objective)
        best_constant = max((held.assessment.accuracy for held in self.constants), default=-math.inf)

        def rank(candidate: Candidate) -> tuple[bool, float]:
            found = candidate.assessment
            beyond = found.objective > allowed
            return beyond, found.objective if beyond else -found.accuracy

        def inaccuracy(candidate: Candidate) -> float:
            return -candidate.assessment.accuracy

        better = [held for held in self.kept if held.assessment.accuracy >= best_constant]
        worse = [held for held in self.kept if held.assessment.accuracy < best_constant]
        return [*sorted(better, key=rank), *sorted(self.constants, key=inaccuracy), *sorted(worse, key=inaccuracy)]

    def choice(self) -> Candidate:
        """Return the best candidate; if none keeps the limits, the nearest."""
        ranked = self.ranked()
        if ranked:
            return ranked[0]
        if self.nearest is None:
            raise ValueError("No model has been offered yet.")
        return self.nearest


def _dominates(one: Assessment, other: Assessment) -> bool:
    """Return whether `one` is at least as good as `other` in both objective and accuracy."""
    return one.objective <= other.objective and one.accuracy >= other.accuracy
