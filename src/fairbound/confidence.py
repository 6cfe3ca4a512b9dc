"""Training for a confidence: limits that hold on unseen rows, with a stated probability of being wrong.

A sequence of models from strict to loose is trained without the calibration rows: each under the requested limits moved
by a fixed share towards their strictest.  All are tested on the calibration rows against the *requested* limits,
strictest first, in an order fixed beforehand, and testing stops at the first that does not pass.  The most accurate of
those passed (by training rows) is returned.

The claim: over draws of the calibration rows, the probability that a model is returned which breaks a limit in the
population is at most 1 − confidence.  For a wrong model is returned only if some model that breaks a limit has passed;
the first such in the order is fixed before the draw, and it passes with probability at most 1 − confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fairbound.evaluation import Certificate, certify
from fairbound.fairness import Constraint
from fairbound.fairness.measures import resolve_measure
from fairbound.training import PathPoint, TrainingProblem, follow_path

STRICTNESS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
"""Shares of the way from each requested bound to its strictest, from loose to strict."""


@dataclass(frozen=True)
class Trial:
    """One model of the sequence: how much stricter than asked it was trained, and what the calibration rows say."""

    strictness: float
    point: PathPoint
    certificate: Certificate

    @property
    def passed(self) -> bool:
        """Whether it passed for every requested limit."""
        return self.certificate.passed


@dataclass(frozen=True)
class CertifiedChoice:
    """The outcome: the model returned, if one passed, and all that were tested, strictest first."""

    trials: tuple[Trial, ...]
    chosen: Trial | None

    @property
    def certificate(self) -> Certificate:
        """Of the model returned; where none passed, of the strictest, which was tested first."""
        return self.trials[0].certificate if self.chosen is None else self.chosen.certificate


def strengthened(constraint: Constraint, strictness: float) -> Constraint:
    """Return the limit with its bound moved by a share of the way to its strictest.

    >>> from fairbound.fairness import DemographicParity, DisparateImpact, rate_limit
    >>> strengthened(DisparateImpact(0.8), 0.5), strengthened(DemographicParity(0.1), 0.5)
    (DisparateImpact(0.9), DemographicParity(0.05))
    >>> strengthened(rate_limit("selection_rate", lower=0.2), 0.25).bound
    (0.4, None)
    """
    if constraint.bound is None:
        return constraint
    measure = resolve_measure(constraint.measure)
    if not isinstance(constraint.bound, tuple):
        bound = float(constraint.bound)
        moved = bound + strictness * (1.0 - bound) if measure.larger_is_stricter else (1.0 - strictness) * bound
        return constraint.with_bound(moved)
    lower, upper = constraint.limits
    neutral = 1.0 if measure.comparison == "ratio" else 0.0
    if measure.comparison != "value":
        # Towards no disparity at all, from either side.
        lower, upper = (
            side + strictness * (neutral - side) if math.isfinite(side) else side for side in (lower, upper)
        )
    else:
        top = upper if math.isfinite(upper) else 1.0
        bottom = lower if math.isfinite(lower) else 0.0
        share = 0.5 * strictness if math.isfinite(lower) and math.isfinite(upper) else strictness
        lower = lower + share * (top - bottom) if math.isfinite(lower) else lower
        upper = upper - share * (top - bottom) if math.isfinite(upper) else upper
    return constraint.with_bound((lower if math.isfinite(lower) else None, upper if math.isfinite(upper) else None))


def train_for_confidence(
    problem: TrainingProblem,
    X: Any,
    predict: Callable[[Tensor], Any],
    y: Any,
    sensitive_features: Any,
    *,
    confidence: float = 0.95,
    strictness: Sequence[float] = STRICTNESS,
    certify_options: dict[str, Any] | None = None,
    **options: Any,
) -> CertifiedChoice:
    """Train the sequence, test it on the calibration rows, and leave the chosen model in the problem's module.

    Parameters
    ----------
    problem : TrainingProblem
        On the training rows, with the requested limits.
    X : array
        Inputs of the training rows.
    predict : function of flat parameters
        Returns the decisions on the calibration rows.
    y, sensitive_features
        Labels and groups of the calibration rows, which had no part in training.
    confidence : float
    strictness : sequence of float
        From loose to strict, fixed before the calibration rows are looked at.
    certify_options : dict, optional
        Further arguments of `certify`, such as `pos_label` and `groups`.
    options
        For `follow_path`: loss_weights, objective, effort, callback.
    """
    limits = problem.system.constraints
    if not limits:
        raise ValueError("Training for a confidence needs limits to be confident of: give constraints.")
    sets = [[strengthened(limit, share) for limit in limits] for share in strictness]
    path = follow_path(problem, X, sets, **options)
    trials: list[Trial] = []
    for share, point in zip(reversed(strictness), reversed(path), strict=True):
        found = certify(
            y, predict(point.parameters), sensitive_features, limits, confidence=confidence, **(certify_options or {})
        )
        trials.append(Trial(share, point, found))
        if not found.passed:
            break
    passed = [trial for trial in trials if trial.passed]
    chosen = max(passed, key=lambda trial: trial.point.result.assessment.accuracy, default=None)
    problem.assign((chosen or trials[0]).point.parameters)
    return CertifiedChoice(tuple(trials), chosen)
