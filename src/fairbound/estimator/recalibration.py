"""Recalibration: a map of probabilities that changes no decision.

Limits depend on the decisions, and these on the threshold θ.  A calibration that moves probabilities across θ changes
decisions, and so may break a limit.  Here each side of θ is mapped onto itself by an increasing function:

    p > θ:   q = (p − θ)/(1 − θ),   p' = θ + (1 − θ) σ(a logit q + b)
    p ≤ θ:   q = (θ − p)/θ,         p' = θ − θ σ(a logit q + b)                 a > 0, by side

a and b are fitted by cross-entropy (with Platt's smoothed targets).  With several classes the decision is the class
with the largest logit.  So all logits are divided by one temperature, which keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import minimize

from fairbound.fairness import logit, probabilities
from fairbound.training import LOSSES

Floats = NDArray[np.float64]
_STEEPEST = 6.0  # largest |log a|; larger values would change almost nothing


@dataclass(frozen=True)
class SidedMap:
    """The map for two classes: (a, b) above the threshold, and below it."""

    threshold: float
    above: tuple[float, float]
    below: tuple[float, float]

    def __call__(self, z: Floats) -> Floats:
        """Return the probabilities of both classes from logits (n, 1)."""
        up = z[:, 0] > logit(self.threshold)
        a, b = _by_side(up, self.above[0], self.below[0]), _by_side(up, self.above[1], self.below[1])
        share = special.expit(a * _side_logit(z[:, 0], self.threshold, up) + b)
        edge = np.nextafter(self.threshold, 1.0)
        above = np.maximum(self.threshold + (1.0 - self.threshold) * share, edge)
        p = np.where(up, above, self.threshold * (1.0 - share))
        return np.stack([1.0 - p, p], axis=1)


@dataclass(frozen=True)
class Temperature:
    """The map for several classes."""

    temperature: float

    def __call__(self, z: Floats) -> Floats:
        """Return the probabilities of all classes from logits (n, classes)."""
        return probabilities(z / self.temperature)


Recalibration = SidedMap | Temperature


def fit_recalibration(z: Floats, labels: NDArray[Any], weights: Floats, threshold: float) -> Recalibration:
    """Fit the map to logits (n, D), class indices and weights of rows that were not trained on."""
    weights = weights * (
        np.count_nonzero(weights) / weights.sum()
    )  # Platt's targets count rows, so the mean weight is 1
    if z.shape[1] > 1:
        return Temperature(_fit_temperature(z, labels, weights))
    up = z[:, 0] > logit(threshold)
    u = _side_logit(z[:, 0], threshold, up)
    above, positive = up, labels == 1
    return SidedMap(
        threshold,
        _fit_side(u[above], positive[above], weights[above], lambda share: threshold + (1.0 - threshold) * share),
        _fit_side(u[~above], positive[~above], weights[~above], lambda share: threshold * (1.0 - share)),
    )


def _side_logit(z: Floats, threshold: float, up: NDArray[np.bool_]) -> Floats:
    """logit q = log (p − θ)/(1 − p) = log θ(e^g − 1) above, g = z − logit θ; below with θ and 1 − θ exchanged.

    Because e^z = p/(1 − p), (p − θ)/(1 − p) = (1 − θ)e^z − θ = θ(e^g − 1).  Below, (θ − p)/p = (1 − θ)(e^|g| − 1).  It
    is computed from z, because near 0 and 1 the digits of p are lost.
    """
    gap = np.abs(z - logit(threshold))
    nearest = np.log(np.maximum(-np.expm1(-gap), 1e-300))  # log(1 − e^-g)
    return nearest + gap + np.log(_by_side(up, threshold, 1.0 - threshold))


def _by_side(up: NDArray[np.bool_], above: float, below: float) -> Floats:
    return np.where(up, above, below)


def _fit_side(
    u: Floats, positive: NDArray[np.bool_], weights: Floats, place: Callable[[Any], Any]
) -> tuple[float, float]:
    """Return (a, b) of one side, which minimise the cross-entropy of p' = place(σ(a u + b)); without rows (1, 0)."""
    n_positive, n_negative = float(weights[positive].sum()), float(weights[~positive].sum())
    if n_positive + n_negative <= 0:
        return 1.0, 0.0
    # Platt's targets, instead of 1 and 0: with few rows the fitted probabilities stay away from 0 and 1.
    target = np.where(positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))

    def loss(parameters: Floats) -> float:
        share = 1.0 / (1.0 + np.exp(-np.clip(np.exp(parameters[0]) * u + parameters[1], -500.0, 500.0)))
        p = np.clip(place(share), 1e-15, 1.0 - 1e-15)
        return float(-(weights * (target * np.log(p) + (1.0 - target) * np.log1p(-p))).sum() / weights.sum())

    bounds = [(-_STEEPEST, _STEEPEST), (-30.0, 30.0)]
    found = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=bounds)
    return (float(np.exp(found.x[0])), float(found.x[1])) if found.fun < loss(np.zeros(2)) else (1.0, 0.0)


def _fit_temperature(z: Floats, labels: NDArray[Any], weights: Floats) -> float:
    own, share = np.asarray(labels, dtype=np.int64), weights / weights.sum()

    def loss(parameters: Floats) -> float:
        return float(share @ LOSSES["cross_entropy"].values(z / np.exp(parameters[0]), own))

    found = minimize(loss, np.zeros(1), method="L-BFGS-B", bounds=[(-_STEEPEST, _STEEPEST)])
    return float(np.exp(found.x[0])) if found.fun < loss(np.zeros(1)) else 1.0
