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


@dataclass(frozen=True)
class SearchResult:
    """Result of a search: the change of w, the length α, and whether the change includes the correction.

    If no length gave a sufficient decrease, `accepted` is False and the change is zero.
    """

    change: Array
    length: float
    corrected: bool
    accepted: bool

    @property
    def is_full_step(self) -> bool:
        """Return whether the first trial, the full step d without correction, was accepted."""
        return self.accepted and self.length == 1.0 and not self.corrected


@dataclass(frozen=True)
class LineSearch:
    """Constants of the line search.

    Parameters
    ----------
    sufficient : float
        η, the share of the predicted decrease that a step must reach.
    shortest : float
        Smallest length tried.
    rounding : float
        Relative accuracy of the merit values; an increase below it does not reject a step.
    correct : bool
        Whether to try the second-order correction.
    """

    sufficient: float = 1e-4
    shortest: float = 1e-10
    rounding: float = 1e-14
    correct: bool = True

    def __post_init__(self) -> None:
        for name in ("sufficient", "shortest", "rounding"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"LineSearch({name}={getattr(self, name)!r}): must be between 0 and 1.")

    def search(
        self,
        values: Values,
        w: Array,
        here: Evaluation,
        core: Core,
        solution: QPSolution,
        *,
        first: Values | None = None,
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
        return _Search(self, values, w, here, solution.penalty).run(core, solution, first or values)


class _Search:
    """One line search, with the merit value at its start."""

    def __init__(self, constants: LineSearch, values: Values, w: Array, here: Evaluation, penalty: float) -> None:
        self.constants, self.values, self.w, self.here, self.penalty = constants, values, w, here, penalty
        self.start = here.f + penalty * here.violation
        size = abs(here.f) + penalty * float(np.abs(here.c).sum())
        self.rounding = constants.rounding * max(size, abs(self.start))

    def merit(self, change: Array, values: Values) -> tuple[float, Array]:
        """Return φ and c at w + change; φ is inf if a value is not finite."""
        f, c = values(self.w + change)
        if not (math.isfinite(f) and np.isfinite(c).all()):
            return math.inf, c
        value = f + self.penalty * violation(c, self.here.lower, self.here.upper)
        return (value if math.isfinite(value) else math.inf), c

    def run(self, core: Core, solution: QPSolution, first: Values) -> SearchResult:
        d = solution.d
        slope = solution.slope - self.penalty * (self.here.violation - solution.violation)
        slope = min(slope, 0.0)
        value, c = self.merit(d, first)
        if self._decreases_enough(value, 1.0, slope):
            return self._result(d, 1.0, corrected=False)
        correction = np.zeros_like(d)
        if self.constants.correct and c.size and math.isfinite(value):
            correction = self._correction(core, c, d)
            if correction.any():
                corrected_value, _ = self.merit(d + correction, self.values)
                if self._decreases_enough(corrected_value, 1.0, slope):
                    return self._result(d + correction, 1.0, corrected=True)
                value = min(value, corrected_value)
        length = _shorter(1.0, self.start, slope, value)
        while length >= self.constants.shortest:
            change = length * d + length**2 * correction
            value, _ = self.merit(change, self.values)
            if self._decreases_enough(value, length, slope):
                return self._result(change, length, corrected=bool(correction.any()))
            length = _shorter(length, self.start, slope, value)
        return SearchResult(np.zeros_like(d), 0.0, corrected=False, accepted=False)

    def _decreases_enough(self, value: float, length: float, slope: float) -> bool:
        return value <= self.start + self.constants.sufficient * length * slope + self.rounding

    def _correction(self, core: Core, c: Array, d: Array) -> Array:
        """Return d̂ − d of the second-order correction, or zero if it is longer than d: then it is not a correction."""
        shifted = c - self.here.J.product(d)
        corrected = solve_with_core(core, self.here.g, shifted, self.here.lower, self.here.upper, penalty=self.penalty)
        correction = corrected.d - d
        if np.linalg.norm(correction) > np.linalg.norm(d):
            return np.zeros_like(d)
        return correction

    def _result(self, change: Array, length: float, *, corrected: bool) -> SearchResult:
        return SearchResult(change, length, corrected, accepted=True)


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
