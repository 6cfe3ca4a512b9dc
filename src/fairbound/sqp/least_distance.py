"""The reduced QP: the point nearest to the origin within two-sided rows, hard or at a price.

    hard      min ½‖z‖²                                        subject to  lower ≤ W z ≤ upper
    elastic   min ½‖z‖² + Σ price_i · dist(W_i z, [lower_i, upper_i])

One dual serves both.  With one side a_jᵀz ≤ b_j for each finite bound,

    min ½‖Aᵀy‖² + bᵀy   over   0 ≤ y_j ≤ price_j,      z = −Aᵀy,

and an infinite price makes the row hard.  The hard problem is usual and goes to DAQP, a dual active-set solver in C.
Everything else (finite prices that bind, inconsistent rows, polishing) is solved here by the same kind of method with
upper bounds on the multipliers: a side enters the free set when its multiplier wants to leave a bound, the free
multipliers move to their joint minimiser, and those that meet a bound on the way leave.  Free sides may be linearly
dependent; then the move goes along the dependence, and z stays.

Conventions
-----------
All arrays are numpy float64.  W : (m, r) with rows of norm 1; lower, upper, price : (m,); multipliers y : (m,),
positive on the upper side, negative on the lower side.  `noise` : (m,), the size of the rounding errors in the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import daqp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from fairbound.sqp.core import Array

_DAQP_OPTIMAL = 1
_DAQP_NO_BOUND = 1e30  # DAQP's own sign for "no bound"
# Below this, a squared distance of a unit row from the span of the others is rounding in the Gram matrix.
_GRAM_PIVOT = 1e-9
_RANK = 1e-10
_TOLERANCE = 1e-13


def hard_multipliers(W: Array, lower: Array, upper: Array) -> Array | None:
    """Multipliers of the hard problem from DAQP, or None where it finds no solution.

    Its default tolerances leave residuals up to 1e-6 on dependent rows; these leave 1e-9 at most.
    """
    r = W.shape[1]
    _, _, flag, info = daqp.solve(
        np.eye(r),
        np.zeros(r),
        np.ascontiguousarray(W),
        np.minimum(upper, _DAQP_NO_BOUND),
        np.maximum(lower, -_DAQP_NO_BOUND),
        np.zeros(W.shape[0], dtype=np.intc),
        primal_tol=1e-12,
        eta_prox=1e-12,
    )
    multipliers = np.asarray(info["lam"], dtype=np.float64)
    return multipliers if flag == _DAQP_OPTIMAL and bool(np.isfinite(multipliers).all()) else None


@dataclass(frozen=True)
class DualSolution:
    """Multipliers of a reduced QP; `bounded` is False when hard rows are inconsistent, so that none exist."""

    y: Array
    bounded: bool


def priced_multipliers(
    W: Array, lower: Array, upper: Array, price: Array, noise: Array, start: Array | None = None
) -> DualSolution:
    """Multipliers of the hard or elastic problem by the bounded dual active-set method.

    Parameters
    ----------
    W, lower, upper, price, noise : ndarray
        See the conventions of this module.
    start : ndarray of shape (m,), optional
        Multipliers to start from; those beyond a bound are moved to it.
    """
    has_upper, has_lower = np.isfinite(upper), np.isfinite(lower)
    sides = _Sides(
        A=np.concatenate([W[has_upper], -W[has_lower]]),
        b=np.concatenate([upper[has_upper], -lower[has_lower]]),
        price=np.concatenate([price[has_upper], price[has_lower]]),
        noise=np.concatenate([noise[has_upper], noise[has_lower]]),
    )
    first = np.zeros(sides.b.size)
    if start is not None:
        first = np.concatenate([np.maximum(start[has_upper], 0.0), np.maximum(-start[has_lower], 0.0)])
    y_sides, bounded = sides.minimise(np.minimum(first, sides.price))
    y = np.zeros(W.shape[0])
    count = int(has_upper.sum())
    y[has_upper] += y_sides[:count]
    y[has_lower] -= y_sides[count:]
    return DualSolution(y, bounded)


@dataclass(frozen=True)
class _Sides:
    """min ½‖Aᵀy‖² + bᵀy over 0 ≤ y ≤ price, one entry for each finite side."""

    A: Array
    b: Array
    price: Array
    noise: Array

    def minimise(self, y: Array) -> tuple[Array, bool]:
        """Move y to a minimiser; False as second value when the problem is unbounded below."""
        free = (y > 0.0) & (y < self.price)
        for _ in range(20 * self.b.size + 100):
            if not self._minimise_free(y, free):
                return y, False
            excess = self._excess(y)
            tolerance = self._tolerance(y)
            wants_up = (excess > tolerance) & (y < self.price) & ~free
            wants_down = (excess < -tolerance) & (y > 0.0) & ~free
            candidates = wants_up | wants_down
            if not bool(candidates.any()):
                break
            free[int(np.argmax(np.where(candidates, np.abs(excess), -1.0)))] = True
        return y, True

    def _excess(self, y: Array) -> Array:
        """How far each side is violated at z = −Aᵀy; also the negative gradient of the dual objective."""
        return np.asarray(-self.A @ (y @ self.A) - self.b)

    def _tolerance(self, y: Array) -> Array:
        reach = max(1.0, float(np.linalg.norm(y @ self.A)))
        return np.asarray(_TOLERANCE * reach + self.noise + 1e-15 * float(y.sum()))

    def _minimise_free(self, y: Array, free: NDArray[np.bool_]) -> bool:
        """Minimise over the free multipliers, in place, dropping those that meet a bound; False when unbounded."""
        refined = 0
        while bool(free.any()):
            index = np.flatnonzero(free)
            direction, finite = _newton_direction(self.A[index], self._excess(y)[index])
            room = np.where(direction > 0.0, self.price[index] - y[index], y[index])
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = np.where(direction != 0.0, room / np.abs(direction), np.inf)
            step = float(reach.min())
            if finite and step >= 1.0:
                y[index] += direction
                refined += 1
                # A second pass removes the rounding of the first where the free sides are nearly dependent.
                if refined >= 3 or bool((np.abs(self._excess(y)[index]) <= self._tolerance(y)[index]).all()):
                    return True
                continue
            if not np.isfinite(step):
                return False
            y[index] += step * direction
            met = reach <= step * (1.0 + 1e-12)
            y[index[met]] = np.where(direction[met] > 0.0, self.price[index[met]], 0.0)
            free[index[met]] = False
            refined = 0
        return True


def _newton_direction(A: Array, excess: Array) -> tuple[Array, bool]:
    """Minimiser of the dual over free sides; or, with False, a direction of endless linear descent."""
    gram: Any = A @ A.T
    factor, solution, info = lapack.dposv(gram, excess, lower=1)
    if info == 0 and float(np.diag(factor).min()) ** 2 > _GRAM_PIVOT:
        return np.asarray(solution), True
    left, singular, _ = np.linalg.svd(A, full_matrices=False)
    left = left[:, singular > _RANK * singular[0]]
    singular = singular[singular > _RANK * singular[0]]
    along = left.T @ excess
    rest = excess - left @ along
    if float(np.abs(rest).max()) > 1e-9 * float(np.abs(excess).max()):
        return rest, False
    return np.asarray(left @ (along / singular**2)), True
