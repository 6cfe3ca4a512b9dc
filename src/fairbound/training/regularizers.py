"""Regularisers: terms r(w) that are added to the loss, as (1/λ)·r(w) in the paper's training problem.

    SquaredMeasure   Σ_j q_j(w)², q the differences of rates by surrogate (r_dp of the paper for demographic parity)
    L2               ½‖w‖²
    SmoothedL1       Σ_i √(w_i² + μ) − √μ

The paper's regularised variant is `SquaredMeasure("demographic_parity", weight=1 / lam)` without constraints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbound.fairness import Constraint, Measure, Surrogate, resolve_measure


def _check_weight(regularizer: object, weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"{type(regularizer).__name__}(weight={weight!r}): must be finite and not negative.")


@dataclass(frozen=True)
class L2:
    """weight · ½‖w‖²."""

    weight: float = 1e-4

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)

    def value(self, w: Tensor) -> float:
        """Return weight · r(w)."""
        return 0.5 * self.weight * float(w @ w)

    def gradient(self, w: Tensor) -> Tensor:
        """Return weight · ∇r(w)."""
        return self.weight * w


@dataclass(frozen=True)
class SmoothedL1:
    """weight · Σ_i (√(w_i² + smoothing) − √smoothing), which favours sparse parameters."""

    weight: float = 1e-4
    smoothing: float = 1e-6

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)
        if not (math.isfinite(self.smoothing) and self.smoothing > 0):
            raise ValueError(f"SmoothedL1(smoothing={self.smoothing!r}): must be finite and above 0.")

    def value(self, w: Tensor) -> float:
        """Return weight · r(w)."""
        return self.weight * float((torch.sqrt(w * w + self.smoothing) - math.sqrt(self.smoothing)).sum())

    def gradient(self, w: Tensor) -> Tensor:
        """Return weight · ∇r(w)."""
        return self.weight * w / torch.sqrt(w * w + self.smoothing)


@dataclass(frozen=True)
class SquaredMeasure:
    """weight · Σ_j q_j², where q are the differences of the rates that the measure compares.

    A ratio measure is penalised through the differences of its rates, too.  From a mini-batch, the expected square of q
    exceeds q² by the variance of q.  That variance is estimated from the two halves of the batch and subtracted.  So
    value and gradient are unbiased if the rates are linear in the sums.
    """

    measure: str | Measure = "demographic_parity"
    weight: float = 1.0
    surrogate: str | Surrogate | None = None

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)
        if resolve_measure(self.measure).comparison == "value":
            raise ValueError(
                f"SquaredMeasure({self.measure!r}): a rate of its own has no target to be near; "
                "penalise a measure that compares groups, or limit the rate with a constraint."
            )

    def as_constraint(self) -> Constraint:
        """Return the differences q as the rows of a constraint without bounds."""
        return Constraint(None, measure=self.measure, surrogate=self.surrogate)


Regularizer = L2 | SmoothedL1 | SquaredMeasure
