"""The merit function τ·f + v(c), and the parameters that the stochastic method derives from it.

The violation v(c) is the sum over rows of the distance of c from its interval; a satisfied inequality contributes
0. For a step d of the QP with multipliers y, slope gᵀd, curvature dᵀHd and reduction v(c) − v(c + Jd):

    merit parameter   τ_trial = ∞ if gᵀd + max(dᵀHd, 0) ≤ 0, else (1 − σ)·reduction / (gᵀd + max(dᵀHd, 0))
    model reduction   Δq = −τ (gᵀd + ½ max(dᵀHd, 0)) + reduction
    ratio parameter   ξ_trial = Δq / (τ ‖d‖²)

τ and ξ never rise.  When they fall, they fall by at least a fixed fraction.  With τ ≤ τ_trial the step is a descent
direction: Δq = −τ(gᵀd + max(dᵀHd, 0)) + ½ τ max(dᵀHd, 0) + reduction ≥ ½ τ max(dᵀHd, 0) + σ·reduction.  The rules
are those of Berahas, Curtis, Robinson and Zhou (SIAM J. Optim. 31(2), 2021), with the violation of two-sided rows
in place of ‖c‖₁.  The paper's Algorithm 1 refers to them in its line "Set τ_k based on d_k".

With an elastic QP, |y| ≤ ρ gives gᵀd + dᵀHd ≤ ρ·reduction (see `fairbound.sqp.qp`), hence τ_trial ≥ (1 − σ)/ρ.  So
the merit parameter cannot collapse while the penalty ρ stays bounded.
"""

from __future__ import annotations

import math

# If slope and curvature cancel to this fraction of their size, their sum is a rounding error and counts as zero.
_CANCELLED = 1e-12


def trial_merit_parameter(slope: float, curvature: float, reduction: float, sigma: float, penalty: float) -> float:
    """Return the largest τ with Δq ≥ ½ τ max(dᵀHd, 0) + σ · reduction; inf if this holds for every τ.

    Parameters
    ----------
    slope, curvature : float
        gᵀd and dᵀHd.
    reduction : float
        v(c) − v(c + Jd).
    sigma : float
        Share of the reduction that Δq must contain, in (0, 1).
    penalty : float
        ρ of the QP.  In exact arithmetic the result is at least (1 − σ)/ρ, see above.  This is enforced, because near a
        solution slope, curvature and reduction consist of rounding errors, and so does their quotient.
    """
    increase = slope + max(curvature, 0.0)
    if increase <= _CANCELLED * (abs(slope) + abs(curvature)):
        return math.inf
    return max((1.0 - sigma) * max(reduction, 0.0) / increase, (1.0 - sigma) / penalty)


def model_reduction(merit_parameter: float, slope: float, curvature: float, reduction: float) -> float:
    """Return the reduction Δq of the model of the merit function."""
    return -merit_parameter * (slope + 0.5 * max(curvature, 0.0)) + reduction


def trial_ratio_parameter(merit_parameter: float, model_decrease: float, step_norm: float) -> float:
    """Return Δq / (τ ‖d‖²), or inf for a zero step."""
    scale = merit_parameter * step_norm**2
    return model_decrease / scale if scale > 0.0 else math.inf


def lowered(value: float, trial: float, decrease: float, floor: float) -> float:
    """Return `value` if it is at most `trial`; else min(`trial`, (1 − `decrease`) · `value`), but at least `floor`.

    Examples
    --------
    >>> lowered(0.1, 0.2, decrease=0.01, floor=1e-12), lowered(0.1, 0.05, decrease=0.01, floor=1e-12)
    (0.1, 0.05)
    """
    if value <= trial:
        return value
    return max(min((1.0 - decrease) * value, trial), floor)
