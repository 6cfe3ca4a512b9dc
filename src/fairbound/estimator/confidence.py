"""The procedure of `confidence=`: limits that hold on unseen rows, with a stated probability of error.

A sequence of models from strict to loose is trained without the calibration rows (`ModelSequence`).  Those that keep
the limits on the training rows are tested on the calibration rows against the limits as asked, strictest first.  The
loosest model that passed is returned.  (Not the one with the highest training accuracy: models that were fitted have a
higher one than those between them, but not on other rows.)

The level α = 1 − confidence is divided among one or several *starts*: models that are chosen before the calibration
rows are used.  A model is tested at its own share of α, if it is a start, plus the level of the model before it, if
that one passed (the fallback procedure of Wiens 2003).  A model whose level is 0 is not tested.  If the strictest model
is the only start, testing stops at the first failure.  A second start finds a model even if the strictest one fails.

The claim: over draws of the calibration rows, the probability of returning a model that breaks a limit in the
population is at most α.  Proof: let i₁ < i₂ < ... be the places of the models that break a limit.  If one of them is
returned, at least one of them has passed; let i_k be the first that did.  Since i_{k−1} has failed, the level of i_k
consists of shares of starts after i_{k−1} and up to i_k.  These stretches do not overlap.  So the levels of the places
i₁, i₂, ... add up to at most α, and so do the probabilities that they pass.

The proof takes the models as fixed.  A model is trained only when it is to be tested, which does depend on the
calibration rows; what it would be does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairbound.evaluation import Certificate, Verdict
from fairbound.fairness import Constraint
from fairbound.training import FitSeries, TrainingResult

STRICTNESS = (*(step / 20 for step in range(20)), 0.97)
"""Strictness of the models, from loose to strict: 0 is the bound as asked, 1 are equal rates.

The loosest model that passes may lie anywhere: the chance of 20,000 calibration rows moves it by a fifth of the way
from a ratio of 0.9 to 1.  Steps of a twentieth lose little accuracy to the next stricter model.
"""

ANCHORS = (0.0, 0.5, STRICTNESS[-1])
"""Strictness of the models that are fitted."""


class ModelSequence:
    """The models of the sequence, by their strictness; they depend on training rows alone.

    Up to three *anchors* are fitted.  All other models lie on the straight lines between two anchors, in the space of
    the parameters.  The anchors start from the same model without limits, so that the lines lead through good models.

    A model between two anchors is better on other rows than a fit with the same value of the measure: a fit that ends
    exactly at its limits has used the chance of its rows to get there, and a mean of two fits less of it.  The values
    also change smoothly along the lines.  Fits of their own scatter, and testing stops at the first that fails.

    Parameters
    ----------
    series : FitSeries
        Of the problem with the limits as asked.
    tightened : function of a strictness
        Returns the limits of an anchor.
    """

    def __init__(self, series: FitSeries, tightened: Callable[[float], Sequence[Constraint]]) -> None:
        self.series, self.tightened = series, tightened
        self._unfitted = list(ANCHORS)
        self._anchors: dict[float, TrainingResult] = {}

    def at(self, share: float) -> TrainingResult:
        """Return the model of this strictness; fit the anchors that it needs, and all stricter ones."""
        while not self._anchors or min(self._anchors) > share:
            self._fit_next()
        stricter, looser = min(s for s in self._anchors if s >= share), max(s for s in self._anchors if s <= share)
        if stricter == looser:
            return self._anchors[share]
        if not self._anchors[stricter].assessment.kept:
            return self._anchors[stricter]  # a line cannot start at a model that breaks its own limits
        way = (share - looser) / (stricter - looser)
        return self.series.between(self._anchors[looser], self._anchors[stricter], way)

    def _fit_next(self) -> None:
        """Fit the strictest anchor that was not fitted yet."""
        share = self._unfitted.pop()
        self._anchors[share] = self.series.fit(self.tightened(share))


@dataclass(frozen=True)
class Trial:
    """One model of the sequence, with its strictness and the certificate by which it was tested."""

    strictness: float
    result: TrainingResult
    certificate: Certificate  # its confidence is 1 − the level of the test

    @property
    def passed(self) -> bool:
        """Whether it passed for every requested limit."""
        return self.certificate.passed


@dataclass(frozen=True)
class CertifiedChoice:
    """The returned model, if one passed, and all models that were tested, strictest first.

    Attributes
    ----------
    trials : tuple of Trial
    chosen : Trial or None
    certificate : Certificate
        That of the returned model or, if none passed, of the one that was tested first, at the requested confidence.
        If this one would pass there, but has failed at its share of the level, the certificate is that of its test.
    """

    trials: tuple[Trial, ...]
    chosen: Trial | None
    certificate: Certificate

    @property
    def claim(self) -> str:
        """The claim about the returned model.  Unlike its certificate it accounts for the choice among models."""
        return claim_of_choice(self.certificate)


def claim_of_choice(certificate: Certificate) -> str:
    """Return the claim about a model that was chosen because it passed, or about the first one if none did."""
    confidence = certificate.confidence
    if not certificate.passed:
        blocking = [limit for limit in certificate.limits if limit.verdict is not Verdict.PASS]
        return (
            f"No model passed at {100 * confidence:g}% confidence: nothing is claimed. The "
            "certificate is that of the model that was tested first. "
            + " ".join(f"It does not show {limit.limit}: {limit.reason}" for limit in blocking)
        )
    return (
        "Claim: the probability that this procedure returns a model that breaks a limit in the population is at "
        f"most {100 * (1 - confidence):.3g}%, over draws of the calibration rows; provided that they are "
        "independent draws from it that had no part in training."
    )


def choose_in_order(
    models: Callable[[float], TrainingResult],
    test: Callable[[NDArray[np.float64], float], Certificate],
    starts: Collection[float],
    strictness: Sequence[float] = STRICTNESS,
) -> CertifiedChoice:
    """Test the models of a sequence, strictest first; return the loosest that passed, with all trials.

    Parameters
    ----------
    models : function of a strictness
        Returns the model; only models that are to be tested are asked for.
    test : function of (parameters, share)
        Returns the certificate of a model at a share of the level.
    starts : collection of float
        The strictness of the models that have a share of the level of their own, equal shares.  If a start is left out,
        because it breaks its limits on the training rows, its share goes to the next looser model.
    strictness : sequence of float
        From loose to strict.  Like the starts, it is fixed before the calibration rows are used.
    """
    trials = list[Trial]()
    level = 0  # in shares of the starts
    for share in reversed(strictness):
        level += share in starts
        if not level:
            continue  # this model is not tested, so it need not be trained
        result = models(share)
        if result.stopped and trials:
            break  # a callback has ended the training
        if result.assessment.kept:
            trials.append(Trial(share, result, test(result.parameters, level / len(starts))))
            level = level if trials[-1].passed else 0
        # A model that breaks its limits on the training rows is left out; its level goes to the next looser one.
    if not trials:  # every model breaks its limits, and the loosest has the least to keep
        result = models(strictness[0])
        trials.append(Trial(strictness[0], result, test(result.parameters, 1.0)))
    chosen = next((trial for trial in reversed(trials) if trial.passed), None)
    taken = chosen or trials[0]
    # A model that passes at the confidence asked for, but not at its share of the level, is not called certified.
    asked = test(taken.result.parameters, 1.0)
    return CertifiedChoice(tuple(trials), chosen, asked if asked.passed == taken.passed else taken.certificate)
