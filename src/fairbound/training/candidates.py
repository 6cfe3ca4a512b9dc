"""The models worth returning among all that a fit has seen.

A model is returned only if its own decisions keep every limit.  Of these, the choice is the most accurate whose
objective is within a stated slack of the least objective among them (0: simply the least; infinite: simply the most
accurate).

Constant predictions compete, too: a model that is less accurate than a constant under the same limits is not returned,
and where no model keeps the limits but a constant does, the constant is the answer.  Where nothing keeps the limits,
the model that violates them least is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from fairbound.training.assessment import Assessment


@dataclass(frozen=True)
class Candidate:
    """A point and what it does."""

    w: Tensor
    assessment: Assessment


class Candidates:
    """Keeps what may still be chosen: models that keep the limits, none beaten in both objective and accuracy.

    Parameters
    ----------
    slack : float
        Relative to the least objective.

    Attributes
    ----------
    kept : list of Candidate
        Models that keep every limit.
    constants : list of Candidate
        Constant predictions that keep every limit.
    nearest : Candidate or None
        The model that violates the limits least, of those that do not keep them.
    """

    def __init__(self, slack: float = 0.0) -> None:
        self.slack = slack
        self.kept: list[Candidate] = []
        self.constants: list[Candidate] = []
        self.nearest: Candidate | None = None

    def offer(self, w: Tensor, assessment: Assessment) -> None:
        """Look at a point; w is copied if it is kept."""
        if not assessment.kept:
            if self.nearest is None or assessment.exact_violation < self.nearest.assessment.exact_violation:
                self.nearest = Candidate(w.clone(), assessment)
            return
        if any(_beats(held.assessment, assessment) for held in self.kept):
            return
        self.kept = [held for held in self.kept if not _beats(assessment, held.assessment)]
        self.kept.append(Candidate(w.clone(), assessment))

    def offer_constant(self, w: Tensor, assessment: Assessment) -> None:
        """Look at a constant prediction, which is returned only where it is more accurate than every model."""
        if assessment.kept:
            self.constants.append(Candidate(w.clone(), assessment))

    def least(self) -> Candidate:
        """The model of least objective that keeps the limits."""
        return min(self.kept, key=lambda held: held.assessment.objective)

    @property
    def least_objective(self) -> float:
        """The least objective under the limits; inf while no model keeps them."""
        return min((held.assessment.objective for held in self.kept), default=math.inf)

    def ranked(self) -> list[Candidate]:
        """All that keep the limits, the choice first."""
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
        """The model to return."""
        ranked = self.ranked()
        if ranked:
            return ranked[0]
        if self.nearest is None:
            raise ValueError("No model has been offered yet.")
        return self.nearest


def _beats(one: Assessment, other: Assessment) -> bool:
    return one.objective <= other.objective and one.accuracy >= other.accuracy
