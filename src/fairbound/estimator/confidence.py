"""Training with `confidence=`: limits that hold on unseen rows, with a stated probability of error.

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

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound.evaluation import Certificate, Verdict, certify
from fairbound.fairness import Cells, Constraint, Measure, resolve_measure
from fairbound.training import FitSeries, SeriesPoint, TrainingProblem

STRICTNESS = (*(step / 20 for step in range(20)), 0.97)
"""Strictness of the models, from loose to strict: 0 is the bound as asked, 1 the strictest one.

The loosest model that passes may lie anywhere: the chance of 20,000 calibration rows moves it by a fifth of the way
from a ratio of 0.9 to 1.  Steps of a twentieth lose little accuracy to the next stricter model.
"""

ANCHOR = 0.5
"""Strictness of the fit between the strictest and the loosest one."""

BEYOND_EQUALITY = 0.1
"""Distance to tighten a one-sided bound that is already at equality or past it."""


class ModelSequence:
    """The models of the sequence, by their strictness; they depend on training rows alone.

    Up to three *anchors* are fitted, under limits that are moved towards their strictest values by the least share, by
    `ANCHOR` and by the largest share.  All other models lie on the straight lines between two anchors, in the space of
    the parameters.  The anchors start from the same model without limits, so that the lines lead through good models.

    A model between two anchors is better on other rows than a fit with the same value of the measure: a fit that ends
    exactly at its limits has used the chance of its rows to get there, and a mean of two fits less of it.  The values
    also change smoothly along the lines.  Fits of their own scatter, and testing stops at the first that fails.

    Parameters
    ----------
    problem : TrainingProblem
        With the limits as asked.
    X : array
        Inputs of the training rows.
    shares : sequence of float
        Strictness of the models, from loose to strict.
    options
        For `FitSeries`.
    """

    def __init__(self, problem: TrainingProblem, X: Any, shares: Sequence[float], **options: Any) -> None:
        self.problem = problem
        self.series = FitSeries(problem, X, precision=np.float64, **options)  # as `predict` decides
        inside = {ANCHOR} if shares[0] < ANCHOR < shares[-1] else set()
        self._unfitted = sorted({shares[0], shares[-1]} | inside)
        self._anchors: dict[float, SeriesPoint] = {}

    def at(self, share: float) -> SeriesPoint:
        """Return the model of this strictness; fit the anchors that it needs, and all stricter ones."""
        while not self._anchors or min(self._anchors) > share:
            self._fit_next()
        stricter, looser = min(s for s in self._anchors if s >= share), max(s for s in self._anchors if s <= share)
        if stricter == looser:
            return self._anchors[share]
        if not self._anchors[stricter].result.assessment.kept:
            return self._anchors[stricter]  # a line cannot start at a model that breaks its own limits
        way = (share - looser) / (stricter - looser)
        return self.series.between(self._anchors[looser], self._anchors[stricter], way)

    def _fit_next(self) -> None:
        """Fit the strictest anchor that was not fitted yet."""
        last = self._anchors[min(self._anchors)] if self._anchors else None
        share = self._unfitted.pop()
        limits = [strengthened(limit, share) for limit in self.problem.system.constraints]
        fitted = self.series.fit(limits)
        self._anchors[share] = fitted if last is None else self.series.better(fitted, last)


@dataclass(frozen=True)
class Trial:
    """One model of the sequence, with its strictness and the certificate by which it was tested."""

    strictness: float
    point: SeriesPoint
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
    note : str
        A remark on how the starts were placed.
    """

    trials: tuple[Trial, ...]
    chosen: Trial | None
    certificate: Certificate
    note: str = ""

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


def strengthened(constraint: Constraint, strictness: float) -> Constraint:
    """Return the limit with its bound moved towards the strictest one, by a share of the distance.

    The strictest ratio is 1 and the strictest difference 0.  A bound on a rate moves by a share of its distance
    from 0 or 1, whichever is nearer.  The two sides of a pair move at most to their middle.

    >>> from fairbound.fairness import DemographicParity, DisparateImpact, rate_limit
    >>> strengthened(DisparateImpact(0.8), 0.5), strengthened(DemographicParity(0.1), 0.5)
    (DisparateImpact(0.9), DemographicParity(0.05))
    >>> strengthened(rate_limit("selection_rate", lower=0.2), 0.25).bound
    (0.25, None)
    """
    _check_share(strictness)
    if constraint.bound is None or strictness == 0.0:
        return constraint
    measure = resolve_measure(constraint.measure)
    if not isinstance(constraint.bound, tuple):
        bound = float(constraint.bound)
        moved = bound + strictness * (1.0 - bound) if measure.larger_is_stricter else (1.0 - strictness) * bound
        return constraint.with_bound(moved)
    turn = _turn(measure)
    lower, upper = constraint.limits
    low, high = constraint.bound
    limited_below = lower > (0.0 if measure.comparison == "ratio" else -math.inf)
    limited_above = upper < math.inf
    meeting = meeting_turned = math.inf
    if limited_below and limited_above:
        meeting = math.sqrt(lower * upper) if measure.comparison == "ratio" else 0.5 * (lower + upper)
        meeting_turned = turn(meeting)
    if limited_below:
        low = _moved(constraint, lower, meeting, strictness)
    if limited_above:
        high = min(turn(_moved(constraint, turn(upper), meeting_turned, strictness)), upper)
        high = max(high, meeting) if limited_below else high  # rounding must not let the two sides cross
    return constraint.with_bound((low, high))


def _turn(measure: Measure) -> Callable[[float], float]:
    """Return a map, its own inverse, that turns an upper bound into a lower bound."""
    if measure.comparison == "ratio":
        return lambda side: 1.0 / side
    whole = measure.largest if measure.comparison == "value" and math.isfinite(measure.largest) else 0.0
    return lambda side: whole - side


def _moved(constraint: Constraint, least: float, meeting: float, strictness: float) -> float:
    """Return a lower bound moved up, at most to the upper bound."""
    measure = resolve_measure(constraint.measure)
    neutral = 1.0 if measure.comparison == "ratio" else 0.0
    end = meeting if measure.comparison == "ratio" else min(meeting, measure.largest)
    if measure.comparison == "value":
        way = min(least, end - least) if math.isfinite(measure.largest) else end - least
        if math.isinf(way):
            raise ValueError(
                f"{constraint}: its measure states no largest value, so there is no way towards a stricter bound. "
                "Give the measure largest=, or the limit a second side."
            )
    else:
        way = neutral - least if least < neutral else max(least - neutral, BEYOND_EQUALITY)
        way = min(way, end - least)
    return min(least + strictness * way, end)


def train_for_confidence(
    problem: TrainingProblem,
    X: Any,
    predict: Callable[[NDArray[np.float64]], Any],
    y: Any,
    sensitive_features: Any,
    *,
    confidence: float = 0.95,
    strictness: Sequence[float] = STRICTNESS,
    starts: Sequence[float] | Callable[[], Sequence[float]] | None = None,
    certify_options: dict[str, Any] | None = None,
    **options: Any,
) -> CertifiedChoice:
    """Train the sequence, test it on the calibration rows, and leave the chosen model in the problem.

    If no model passes, the problem holds the one that was tested first.  Limits that cannot be certified raise an error
    before anything is trained.

    Parameters
    ----------
    problem : TrainingProblem
        On the training rows, with the requested limits.
    X : array
        Inputs of the training rows.
    predict : function of flat parameters
        Returns the decisions on the calibration rows, in the labels of y.
    y, sensitive_features
        Labels and groups of the calibration rows, which had no part in training; the same labels, columns and groups
        as in training.
    confidence : float
    strictness : sequence of float
        From loose to strict, fixed before the calibration rows are used.
    starts : sequence of float, or function that returns one, optional
        The strictness of the models that have a share of the level of their own, equal shares; by default that of the
        strictest model alone.  If a start is left out, because it breaks its limits on the training rows, its share
        goes to the next looser model.  A function is called after the limits were checked, and before training.
    certify_options : dict, optional
        Further arguments of `certify`, such as `groups`; `pos_label` is that of the problem by default.
    options
        For `ModelSequence`: loss_weights, objective, effort, callback.
    """
    shares = _check_strictness(strictness)
    limits = [limit for limit in problem.system.constraints if limit.bound is not None]
    if not limits:
        raise ValueError("Training for a confidence needs at least one limit with a bound: give one in constraints.")
    further = dict(certify_options or {})
    if problem.cells.n_labels == 2 and further.get("pos_label") is None:
        further["pos_label"] = problem.cells.classes[1]

    def test(decisions: Any, share: float = 1.0) -> Certificate:
        """Test at a share of the level; at the whole one by default."""
        at = confidence if share == 1.0 else 1.0 - share * (1.0 - confidence)
        return certify(y, decisions, sensitive_features, limits, confidence=at, **further)

    _check_rows(problem, y, sensitive_features, further)
    # Use the labels in place of decisions: a limit that cannot be certified for them cannot be for any decisions.
    _check_limits(limits, test(y))
    started = _check_starts(starts() if callable(starts) else starts, shares)
    sequence, trials = ModelSequence(problem, X, shares, **options), list[Trial]()
    level = 0  # in shares of the starts
    for share in reversed(shares):
        level += share in started
        if not level:
            continue  # this model is not tested, so it need not be trained
        point = sequence.at(share)
        if point.result.stopped and trials:
            break  # a callback has ended the training
        if point.result.assessment.kept:
            trials.append(Trial(share, point, test(predict(point.parameters), level / len(started))))
            level = level if trials[-1].passed else 0
        # A model that breaks its limits on the training rows is left out; its level goes to the next looser one.
    if not trials:  # every model breaks its limits, and the loosest has the least to keep
        point = sequence.at(shares[0])
        trials.append(Trial(shares[0], point, test(predict(point.parameters))))
    chosen = next((trial for trial in reversed(trials) if trial.passed), None)
    taken = chosen or trials[0]
    problem.assign(taken.point.parameters)
    certificate = taken.certificate
    if certificate.confidence != confidence:
        asked = test(predict(taken.point.parameters))
        # A model that passes at the confidence asked for, but not at its share of the level, is not called certified.
        certificate = asked if asked.passed == taken.passed else certificate
    return CertifiedChoice(tuple(trials), chosen, certificate)


def _check_starts(starts: Sequence[float] | None, shares: tuple[float, ...]) -> tuple[float, ...]:
    found = (shares[-1],) if starts is None else tuple(dict.fromkeys(starts))
    unknown = [start for start in found if start not in shares]
    if unknown or not found:
        raise ValueError(f"starts={starts!r}: must be one or several of strictness={shares!r}.")
    return found


def _check_share(strictness: float) -> None:
    if not 0.0 <= strictness < 1.0:
        raise ValueError(f"strictness={strictness!r}: must be a number from 0 up to, but not including, 1.")


def _check_strictness(strictness: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(strictness)
    if not shares:
        raise ValueError("strictness is empty: give at least one share, 0 for the limits as they are.")
    for share in shares:
        _check_share(share)
    if any(later <= earlier for earlier, later in pairwise(shares)):
        raise ValueError(f"strictness={shares!r}: must rise, from loose to strict.")
    return shares


def _check_rows(problem: TrainingProblem, y: Any, sensitive_features: Any, further: dict[str, Any]) -> None:
    """Reject calibration rows whose labels or groups differ from those of the training rows.

    A group without calibration rows has no rate, so the limits would pass without it.
    """
    trained, cells = problem.cells, Cells.build(y, sensitive_features, groups=further.get("groups", "each"))
    if set(cells.classes) != set(trained.classes):
        raise ValueError(
            f"The labels of the calibration rows are {_listed(cells.classes)}, those of training "
            f"{_listed(trained.classes)}: they must be the same."
        )
    if cells.n_labels == 2 and further["pos_label"] != trained.classes[1]:
        raise InputError(
            "certify_options has {pos_label=value}, but the positive label in training was {trained!r}.",
            "Leave it out.",
            value=further["pos_label"],
            trained=trained.classes[1],
        )
    columns, known = ([grouping.name for grouping in each.groupings] for each in (trained, cells))
    if set(columns) != set(known):
        raise ValueError(
            f"The calibration rows have groups of {_listed(known)}, those of training of {_listed(columns)}: give the "
            'same sensitive columns, and the same groups= ("each", "intersection" or "both") in certify_options.'
        )
    for comparison in problem.system.comparisons:
        grouping = comparison.block.grouping
        absent = [group for group in grouping.groups if group not in cells.grouping(grouping.name).groups]
        if absent and problem.system.constraints[comparison.constraint].bound is not None:
            raise ValueError(
                f"No calibration row is of group {absent[0]!r} of {grouping.name!r}, so nothing can be certified of "
                "it: hold more rows back, or merge it with another group."
            )


def _check_limits(limits: Sequence[Constraint], certificate: Certificate) -> None:
    """Reject limits that no number of rows could certify."""
    for limit, found in zip(limits, certificate.limits, strict=True):
        measure = resolve_measure(limit.measure)
        strengthened(limit, ANCHOR)  # raises an error if nothing is stricter than the limit
        if found.verdict is Verdict.NOT_CERTIFIABLE:
            raise InputError("{limit} cannot be certified: {reason}", limit=limit, reason=found.reason)
        lower, upper = limit.limits
        whole = measure.comparison == "value" and (
            lower >= measure.largest or upper <= 0.0 < measure.largest < math.inf
        )
        if lower >= upper or whole:
            raise ValueError(
                f"{limit} cannot be certified: it leaves no room, and no number of rows shows that a population lies "
                "on a limit exactly. Loosen its bound."
            )


def _listed(values: Sequence[Hashable]) -> str:
    return ", ".join(map(repr, values)) or "nothing"
