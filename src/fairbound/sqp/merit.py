"""The merit function τ·f + v(c), and the parameters that the stochastic method derives from it.

v(c) is the ℓ1 norm of what lies beyond the bounds; a satisfied inequality is no violation.  For a step d of the QP with
multipliers y, slope gᵀd, curvature dᵀHd and reduction v(c) − v(c + Jd):

    merit parameter   τ_trial = ∞ if gᵀd + max(dᵀHd, 0) ≤ 0, else (1 − σ)·reduction / (gᵀd + max(dᵀHd, 0))
    model reduction   Δq = −τ (gᵀd + ½ max(dᵀHd, 0)) + reduction
    ratio parameter   ξ_trial = Δq / (τ ‖d‖²)

τ and ξ only fall, and when they fall, by at least a fixed fraction.  With τ ≤ τ_trial the step is a descent direction:
Δq ≥ ½ τ max(dᵀHd, 0) + σ·reduction.  The rules are those of Berahas, Curtis, Robinson and Zhou (SIAM J. Optim. 31(2),
2021), with the violation of two-sided rows in place of ‖c‖₁; the paper's Algorithm 1 refers to them in its line "Set
τ_k based on d_k".

With an elastic QP, |y| ≤ ρ gives gᵀd + dᵀHd ≤ ρ·reduction (see `fairbound.sqp.qp`), hence τ_trial ≥ (1 − σ)/ρ: the
merit parameter cannot collapse while the penalty ρ stays bounded.
"""

from __future__ import annotations

import math

from torch import Tensor

# Slopes and curvatures that cancel to this fraction of their size are taken as cancelled; what is left is rounding.
_CANCELLED = 1e-12


def violations(c: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Distance of each entry of c from its interval [lower, upper], of shape (m,)."""
    return (c - upper).clamp_min(0.0) + (lower - c).clamp_min(0.0)


def violation(c: Tensor, lower: Tensor, upper: Tensor) -> float:
    """ℓ1 norm of what lies beyond the bounds, v(c).

    Examples
    --------
    >>> import torch
    >>> violation(torch.tensor([2.0, -5.0, 0.0]), torch.tensor([0.0, -1.0, -1.0]), torch.tensor([1.0, 1.0, math.inf]))
    5.0
    """
    return float(violations(c, lower, upper).sum())


def trial_merit_parameter(slope: float, curvature: float, reduction: float, sigma: float, penalty: float) -> float:
    """Largest merit parameter at which the step is a sufficient descent direction, or inf.

    Parameters
    ----------
    slope, curvature : float
        gᵀd and dᵀHd.
    reduction : float
        v(c) − v(c + Jd).
    sigma : float
        Fraction of the reduction that must show in Δq, in (0, 1).
    penalty : float
        ρ of the QP.  (1 − σ)/ρ bounds the result from below, in theory and here: near a solution slope, curvature and
        reduction are rounding, and their quotient means nothing.
    """
    increase = slope + max(curvature, 0.0)
    if increase <= _CANCELLED * (abs(slope) + abs(curvature)):
        return math.inf
    return max((1.0 - sigma) * max(reduction, 0.0) / increase, (1.0 - sigma) / penalty)


def model_reduction(merit_parameter: float, slope: float, curvature: float, reduction: float) -> float:
    """Reduction Δq of the model of the merit function."""
    return -merit_parameter * (slope + 0.5 * max(curvature, 0.0)) + reduction


def trial_ratio_parameter(merit_parameter: float, model_decrease: float, step_norm: float) -> float:
    """Δq / (τ ‖d‖²), or inf for a zero step."""
    scale = merit_parameter * step_norm**2
    return model_decrease / scale if scale > 0.0 else math.inf


def lowered(value: float, trial: float, decrease: float, floor: float) -> float:
    """Keep `value` if it is at most `trial`; else lower it to `trial`, at least by the fraction `decrease`.

    Examples
    --------
    >>> lowered(0.1, 0.2, decrease=0.01, floor=1e-12), lowered(0.1, 0.05, decrease=0.01, floor=1e-12)
    (0.1, 0.05)
    """
    if value <= trial:
        return value
    return max(min((1.0 - decrease) * value, trial), floor)
