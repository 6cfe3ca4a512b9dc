"""Regularisers: terms r(w) that are added to the loss, as (1/λ)·r(w) in the paper's training problem.

    SquaredMeasure   Σ_j q_j(w)², q the differences of rates by surrogate (r_dp of the paper for demographic parity)
    L2               ½‖w‖²
    SmoothedL1       Σ_i √(w_i² + μ) − √μ
    LinearTerm       s · (w − o), for internal use: it cancels the gradient of the loss at o

The paper's regularised variant is `SquaredMeasure("demographic_parity", weight=1 / lam)` without constraints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness import Constraint, Measure, Surrogate, resolve_measure

Floats = NDArray[np.float64]


def _check_weight(regularizer: object, weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"{type(regularizer).__name__}(weight={weight!r}): must be finite and not negative.")


@dataclass(frozen=True)
class L2:
    """weight · ½‖w‖², over all parameters or over those where `of` is 1."""

    weight: float = 1e-4
    of: Floats | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)

    def value(self, w: Floats) -> float:
        """Return weight · r(w)."""
        return 0.5 * self.weight * float(w @ (w if self.of is None else self.of * w))

    def gradient(self, w: Floats) -> Floats:
        """Return weight · ∇r(w)."""
        return self.weight * (w if self.of is None else self.of * w)

    def curvature(self, w: Floats) -> Floats:
        """Return the diagonal of weight · ∇²r(w)."""
        return self.weight * (np.ones_like(w) if self.of is None else self.of)


@dataclass(frozen=True)
class SmoothedL1:
    """weight · Σ_i (√(w_i² + smoothing) − √smoothing), which favours sparse parameters."""

    weight: float = 1e-4
    smoothing: float = 1e-6

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)
        if not (math.isfinite(self.smoothing) and self.smoothing > 0):
            raise ValueError(f"SmoothedL1(smoothing={self.smoothing!r}): must be finite and above 0.")

    def value(self, w: Floats) -> float:
        """Return weight · r(w)."""
        return float(self.weight * (np.sqrt(w * w + self.smoothing) - math.sqrt(self.smoothing)).sum())

    def gradient(self, w: Floats) -> Floats:
        """Return weight · ∇r(w)."""
        return self.weight * w / np.sqrt(w * w + self.smoothing)

    def curvature(self, w: Floats) -> Floats:
        """Return the diagonal of weight · ∇²r(w)."""
        return self.weight * self.smoothing * (w * w + self.smoothing) ** -1.5


@dataclass(frozen=True)
class SquaredMeasure:
    """weight · Σ_j q_j², where q are the differences of the rates that the measure compares.

    A ratio measure, too, is penalised by the differences of its rates.  If q is estimated from a mini-batch, the
    expected value of its square exceeds q² by the variance of the estimate.  This variance is estimated from the two
    halves of the batch and subtracted.  So value and gradient are unbiased estimates if the rates are linear in the
    sums.
    """

    measure: str | Measure = "demographic_parity"
    weight: float = 1.0
    surrogate: str | Surrogate | None = None

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)
        if resolve_measure(self.measure).comparison == "value":
            raise ValueError(
                f"SquaredMeasure({self.measure!r}): the rate of one group has no target to be close to; "
                "penalise a measure that compares groups, or limit the rate with a constraint."
            )

    def as_constraint(self) -> Constraint:
        """Return the differences q as the rows of a constraint without bounds."""
        return Constraint(None, measure=self.measure, surrogate=self.surrogate)


@dataclass(frozen=True)
class LinearTerm:
    """slope · (w − origin), a part of the loss: in a mixture with the error it has the share of the loss."""

    slope: Floats = field(repr=False, compare=False)
    origin: Floats = field(repr=False, compare=False)

    def value(self, w: Floats) -> float:
        """Return the term at w."""
        return float(self.slope @ (w - self.origin))

    def gradient(self, w: Floats) -> Floats:  # noqa: ARG002 (it is the same everywhere)
        """Return the slope."""
        return self.slope

    def curvature(self, w: Floats) -> Floats:
        """Return 0 for each parameter."""
        return np.zeros_like(w)


Regularizer = L2 | LinearTerm | SmoothedL1 | SquaredMeasure


def as_regularizers(stated: Any) -> tuple[Regularizer, ...]:
    """Return regularisers from objects or texts such as "demographic_parity * 2", "l1 * 0.001" and "l2 * 0.01".

    >>> as_regularizers("demographic_parity * 2")
    (SquaredMeasure(measure='demographic_parity', weight=2.0, surrogate=None),)
    """
    several = not isinstance(stated, str | L2 | SmoothedL1 | SquaredMeasure) and isinstance(stated, Iterable)
    found = [_parsed(each) if isinstance(each, str) else each for each in (stated if several else [stated])]
    for each in found:
        if not isinstance(each, L2 | SmoothedL1 | SquaredMeasure):
            raise TypeError(
                f"regularizers= has {each!r}: give SquaredMeasure(...), SmoothedL1(...) or L2(...), or a text such as "
                '"demographic_parity * 2".'
            )
    return tuple(found)


def _parsed(text: str) -> Regularizer:
    name, sign, weight = (part.strip() for part in text.partition("*"))
    try:
        size = float(weight) if sign else 1.0
    except ValueError as error:
        raise ValueError(
            f"regularizers= has {text!r}: write the weight, a number, after the *, as in {name!r} * 2."
        ) from error
    if name in ("l1", "l2"):
        return SmoothedL1(size) if name == "l1" else L2(size)
    return SquaredMeasure(name, size)
