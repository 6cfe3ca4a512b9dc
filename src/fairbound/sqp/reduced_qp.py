"""The reduced QP: find the point nearest to the origin that satisfies two-sided rows, or violates them at a price.

    hard      min ½‖z‖²                                        subject to  lower ≤ W z ≤ upper
    elastic   min ½‖z‖² + Σ price_i · dist(W_i z, [lower_i, upper_i])

Both have the same dual.  Write one inequality a_jᵀz ≤ b_j, a *side*, for each finite bound.  Then the dual is

    min ½‖Aᵀy‖² + bᵀy   over   0 ≤ y_j ≤ price_j,      z = −Aᵀy.

An infinite price makes the row hard.  Most QPs are hard problems with a solution; DAQP, a dual active-set solver in C,
solves them.  All others are solved here: finite prices that bind, inconsistent rows, and the polishing of a solution.
The method is a dual active-set method with upper bounds on the multipliers:

1. Add to the free set the side at a bound whose multiplier has the steepest descent into the interior.
2. Move the free multipliers to their joint minimiser; those that meet a bound on the way leave the free set.

Free sides may be linearly dependent, and then there may be no joint minimiser.  In that case y moves in a direction
with Aᵀ(change of y) = 0, which lowers bᵀy and leaves z unchanged, until a multiplier meets a bound.

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

from fairbound.sqp.problem import Array

_DAQP_OPTIMAL = 1
_DAQP_NO_BOUND = 1e30  # how DAQP writes an infinite bound
# The square of a Cholesky pivot is the squared distance of a unit row from the span of the earlier rows.  A value below
# this may be a rounding error of the Gram matrix.
_GRAM_PIVOT = 1e-9
_RANK = 1e-10  # relative; smaller singular values count as zero
_TOLERANCE = 1e-13


def hard_multipliers(W: Array, lower: Array, upper: Array) -> Array | None:
    """Return the multipliers of the hard problem from DAQP, or None if it finds no solution.

    DAQP's default tolerances leave residuals up to 1e-6 on dependent rows; the tolerances here leave at most 1e-9.
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


def priced_multipliers(
    W: Array, lower: Array, upper: Array, price: Array, noise: Array, start: Array | None = None
) -> tuple[Array, bool]:
    """Return the multipliers of the hard or elastic problem, by the active-set method of this module.

    Also return whether the dual is bounded.  If it is not, hard rows are inconsistent.

    Parameters
    ----------
    W, lower, upper, price, noise : ndarray
        See the conventions of this module.
    start : ndarray of shape (m,), optional
        Initial multipliers; those beyond a bound are moved to it.
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
    return y, bounded


@dataclass(frozen=True)
class _Sides:
    """The dual problem min ½‖Aᵀy‖² + bᵀy over 0 ≤ y ≤ price, with one entry for each side."""

    A: Array
    b: Array
    price: Array
    noise: Array

    def minimise(self, y: Array) -> tuple[Array, bool]:
        """Return a minimiser found from y, and whether the problem is bounded below."""
        free = (y > 0.0) & (y < self.price)
        for _ in range(20 * self.b.size + 100):
            if not self._minimise_free(y, free):
                return y, False
            excess = self._excess(y)
            tolerance = self._tolerance(y)
            # `excess` is the negative gradient: only a multiplier that can move in its direction lowers the objective.
            can_rise = (excess > tolerance) & (y < self.price) & ~free
            can_fall = (excess < -tolerance) & (y > 0.0) & ~free
            candidates = can_rise | can_fall
            if not bool(candidates.any()):
                break
            free[int(np.argmax(np.where(candidates, np.abs(excess), -1.0)))] = True
        return y, True

    def _excess(self, y: Array) -> Array:
        """Return a_jᵀz − b_j at z = −Aᵀy: the violation of each side and the negative gradient of the dual."""
        return np.asarray(-self.A @ (y @ self.A) - self.b)

    def _tolerance(self, y: Array) -> Array:
        reach = max(1.0, float(np.linalg.norm(y @ self.A)))
        return np.asarray(_TOLERANCE * reach + self.noise + 1e-15 * float(y.sum()))

    def _minimise_free(self, y: Array, free: NDArray[np.bool_]) -> bool:
        """Minimise over the free multipliers in place; return False if the dual is unbounded below.

        The step goes to the minimiser, or to the first bound that a multiplier meets; that multiplier is no longer
        free.
        """
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
                # With nearly dependent free sides the first pass leaves rounding errors; another pass removes them.
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
    """Return the step to the minimiser of the dual over the free sides and True.

    The step solves AAᵀ·step = excess.  If the sides are dependent, `excess` may have a part outside the range of AAᵀ.
    Aᵀ maps that part to 0, so along it the dual falls linearly without end.  Then return that part and False.
    """
    gram: Any = A @ A.T
    factor, solution, info = lapack.dposv(gram, excess, lower=1)
    if info == 0 and float(np.diag(factor).min()) ** 2 > _GRAM_PIVOT:
        return np.asarray(solution), True
    left, singular, _ = np.linalg.svd(A, full_matrices=False)
    left = left[:, singular > _RANK * singular[0]]
    singular = singular[singular > _RANK * singular[0]]
    in_range = left.T @ excess
    outside = excess - left @ in_range
    if float(np.abs(outside).max()) > 1e-9 * float(np.abs(excess).max()):
        return outside, False
    return np.asarray(left @ (in_range / singular**2)), True
