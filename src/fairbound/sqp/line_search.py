"""Backtracking on the ℓ1 merit function φ(w) = f(w) + ρ·v(c(w)), with a second-order correction.

For a step d of the elastic QP, D = gᵀd − ρ(v(c) − v(c + Jd)) bounds the slope of φ along d from above, because v is
convex. It is negative: D ≤ −dᵀHd, by the identity in `fairbound.sqp.qp` and |y| ≤ ρ. A length α is accepted if

    φ(w + αd) ≤ φ(w) + η α D.

Near a solution, the curvature of the constraints can make the full step fail this test (the Maratos effect). The
second-order correction repairs that. From the trial point w + d, a further change d̂ − d gives, to first order,

    c(w + d̂) ≈ c(w + d) + J(d̂ − d) = [c(w + d) − Jd] + Jd̂.

So d̂ solves the same QP with c(w + d) − Jd in place of c, and the same H and J. If α = 1 fails, d̂ is tried at full
length. If that fails too, the search continues along the arc w + αd + α²(d̂ − d), which starts in direction d.

The search uses f and c, but no derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairbound.sqp.core import Core
from fairbound.sqp.problem import Array, Evaluation, violation
from fairbound.sqp.qp import QPSolution, solve_with_core

Values = Callable[[Array], tuple[float, Array]]

SUFFICIENT = 1e-4
"""η, the share of the predicted decrease that a step must reach (Nocedal and Wright, Numerical Optimization, 3.1)."""

SHORTEST = 1e-10
"""Smallest length tried."""

# Relative accuracy of the merit values; an increase below it does not reject a step.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class SearchResult:
    """Result of a search: the change of w, the length α, and whether the change includes the correction.

    If no length gave a sufficient decrease, `accepted` is False and the change is zero.
    """

    change: Array
    length: float
    corrected: bool
    accepted: bool = True

    @property
    def is_full_step(self) -> bool:
        """Return whether the first trial, the full step d without correction, was accepted."""
        return self.accepted and self.length == 1.0 and not self.corrected


def search(
    values: Values, w: Array, here: Evaluation, core: Core, solution: QPSolution, *, first: Values | None = None
) -> SearchResult:
    """Search along the step of `solution`.

    Parameters
    ----------
    values : function of a point
        Returns f and c.
    w : ndarray of shape (n,)
    here : Evaluation
        At w.
    core : Core
        That of the QP.
    solution : QPSolution
    first : function of a point, optional
        Replaces `values` at w + d, the first trial.
    """
    d, penalty = solution.d, solution.penalty
    start = here.f + penalty * here.violation
    slope = min(solution.slope - penalty * (here.violation - solution.violation), 0.0)
    rounding = _ROUNDING * max(abs(here.f) + penalty * float(np.abs(here.c).sum()), abs(start))

    def merit(change: Array, values: Values = values) -> tuple[float, Array]:
        """Return φ and c at w + change; φ is inf if a value is not finite."""
        f, c = values(w + change)
        finite = math.isfinite(f) and bool(np.isfinite(c).all())
        value = f + penalty * violation(c, here.lower, here.upper) if finite else math.inf
        return (value if math.isfinite(value) else math.inf), c

    def suffices(value: float, length: float) -> bool:
        return value <= start + SUFFICIENT * length * slope + rounding

    value, c = merit(d, first or values)
    if suffices(value, 1.0):
        return SearchResult(d, 1.0, corrected=False)
    correction = np.zeros_like(d)
    if c.size and math.isfinite(value):
        shifted = c - here.J.product(d)
        correction = solve_with_core(core, here.g, shifted, here.lower, here.upper, penalty=penalty).d - d
        if np.linalg.norm(correction) > np.linalg.norm(d):  # then it is not a correction
            correction = np.zeros_like(d)
        elif correction.any():
            corrected_value, _ = merit(d + correction)
            if suffices(corrected_value, 1.0):
                return SearchResult(d + correction, 1.0, corrected=True)
            value = min(value, corrected_value)
    length = _shorter(1.0, start, slope, value)
    while length >= SHORTEST:
        change = length * d + length**2 * correction
        value, _ = merit(change)
        if suffices(value, length):
            return SearchResult(change, length, corrected=bool(correction.any()))
        length = _shorter(length, start, slope, value)
    return SearchResult(np.zeros_like(d), 0.0, corrected=False, accepted=False)


def _shorter(length: float, start: float, slope: float, value: float) -> float:
    """Return the next length to try, between 0.1 and 0.5 of the last one.

    The merit along the step is modelled by a parabola.  It has the merit's value and slope at 0 and its value at the
    last trial: start + slope·α + (bend/length²)·α².  The minimum is at −slope·length²/(2·bend).
    """
    if not math.isfinite(value):
        return 0.1 * length
    bend = value - start - slope * length
    wanted = -slope * length**2 / (2.0 * bend) if bend > 0.0 else 0.5 * length
    return min(max(wanted, 0.1 * length), 0.5 * length)
