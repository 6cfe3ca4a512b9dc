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

The last section has the core: the part of a QP that depends on H and J only.

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
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

from fairbound.sqp.hessian import Metric
from fairbound.sqp.problem import Jacobian

Array = NDArray[np.float64]

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


@dataclass(frozen=True)
class DualSolution:
    """Multipliers of a reduced QP; `bounded` is False if hard rows are inconsistent, so that the dual is unbounded."""

    y: Array
    bounded: bool


def priced_multipliers(
    W: Array, lower: Array, upper: Array, price: Array, noise: Array, start: Array | None = None
) -> DualSolution:
    """Return the multipliers of the hard or elastic problem, by the active-set method of this module.

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
    return DualSolution(y, bounded)


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


# --- core ------------------------------------------------------------------------------------------------------------

# The part of a QP that depends on H and J only: the small matrix basis H⁻¹ basisᵀ and its factor.
#
# The objective gradient, the constraint values and the penalty are not part of it. So all QPs of one iteration share
# one core: those of the trial penalties, of the pure feasibility step and of the second-order correction.


EPS = float(np.finfo(np.float64).eps)
# Smaller pivots (relative, times k, after scaling to unit diagonal) are rounding errors.
_PIVOT = 4.0 * EPS
# A constraint gradient counts as zero if its terms cancel to this fraction of their size.
_ZERO_ROW = 1e-12
# A gradient also counts as zero if its norm is below this, which happens where all margins are saturated.  A step along
# the gradient has a length of about 1/norm, and its multiplier is about 1/norm².  Both must stay finite.
_SHORTEST_ROW = 1e-100


class Core:
    """H and J, reduced to the span of the constraint gradients.

    Parameters
    ----------
    hessian : Metric
        H through `solve` and `product`, positive definite.
    J : Jacobian of shape (m, n)
        Constraint gradients.

    Attributes
    ----------
    solved_basis : Tensor of shape (k, n)
        H⁻¹ basisᵀ, one row for each basis gradient.
    basis_sizes : Tensor of shape (k,)
        Largest entry of each basis gradient.
    rows : ndarray of shape (m, k)
        Coefficients of the rows of J in the basis.
    norms : ndarray of shape (m,)
        Norms of the constraint gradients in the metric of H⁻¹; exactly 0 where the gradient is a rounding error.
    unknown : ndarray of shape (m,)
        For a gradient that counts as zero, a bound on its actual norm; 0 for the others.
    live : ndarray of bool, shape (m,)
        Rows with a nonzero gradient.
    W : ndarray of shape (number of live rows, r)
        Live rows, scaled to norm 1, in an orthonormal basis of the span of all gradients; r is its numerical rank.
    """

    def __init__(self, hessian: Metric, J: Jacobian) -> None:
        if J.rows.shape[1] > J.rows.shape[0]:
            # More basis gradients than constraints: the constraint gradients themselves are the smaller basis.
            J = Jacobian.dense(J.matrix())
        self.hessian, self.J = hessian, J
        self.rows = to_numpy(J.rows)
        self.solved_basis = hessian.solve(J.basis)
        self.basis_sizes = J.basis.abs().amax(dim=1)
        matrix = to_numpy(J.basis @ self.solved_basis.T)
        matrix = 0.5 * (matrix + matrix.T)
        # torch multiplies, because its threads follow the user's setting; numpy's threads would compete with them.
        W = to_numpy(J.rows @ torch.from_numpy(pivoted_factor(matrix)).to(J.rows))
        norms = np.linalg.norm(W, axis=1)
        # J_i = Σ_j rows_ij · basis_j.  Compare the norm of J_i with the size of these terms: if it is much smaller, the
        # terms cancel and J_i is a rounding error.  A gradient that is small because its terms are small counts.
        sizes: Array = np.abs(self.rows) @ np.sqrt(np.maximum(np.diag(matrix), 0.0))
        self.norms: Array = np.where(norms > np.maximum(_ZERO_ROW * sizes, _SHORTEST_ROW), norms, 0.0)
        self.live = self.norms > 0.0
        self.unknown: Array = np.where(self.live, 0.0, _ZERO_ROW * sizes)
        self.W: Array = W[self.live] / self.norms[self.live, None]

    def response(self, y: Array) -> Array:
        """Return J H⁻¹ Jᵀ y of shape (m,), computed from the factor."""
        result = np.zeros_like(y)
        norms = self.norms[self.live]
        result[self.live] = norms * (self.W @ ((norms * y[self.live]) @ self.W))
        return result


def pivoted_factor(core: Array) -> Array:
    """Return L of shape (k, r) with L Lᵀ = core; r is the numerical rank after scaling to unit diagonal.

    Examples
    --------
    >>> pivoted_factor(np.array([[4.0, 2.0], [2.0, 1.0]])).shape
    (2, 1)
    """
    k = core.shape[0]
    size = np.sqrt(np.maximum(np.diag(core), 0.0)) if k else np.zeros(0)
    if not bool((size > 0.0).any()):
        return np.zeros((k, 0))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)
    lower, pivots, rank, _ = lapack.dpstrf(core * inverse[:, None] * inverse[None, :], tol=_PIVOT * k, lower=1)
    factor = np.zeros((k, int(rank)))
    factor[pivots - 1] = np.tril(lower)[:, : int(rank)]
    return np.asarray(factor * size[:, None])


def to_numpy(value: Tensor) -> Array:
    """Return a small tensor as a float64 array."""
    return np.asarray(value.detach().cpu().numpy(), dtype=np.float64)
