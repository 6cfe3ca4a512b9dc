"""The core of a QP: what depends on H and J only, the small matrix basis H⁻¹ basisᵀ and its factor.

The objective gradient, the constraint values and the penalty are not part of it.  So all QPs of one iteration share one
core: those of the trial penalties, of the pure feasibility step and of the second-order correction.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.linalg import lapack

from fairbound.sqp.problem import Array, Jacobian

EPS = float(np.finfo(np.float64).eps)
# Smaller pivots (relative, times k, after scaling to unit diagonal) are rounding errors.
_PIVOT = 4.0 * EPS
# A constraint gradient counts as zero if its terms cancel to this fraction of their size.
_ZERO_ROW = 1e-12
# A gradient also counts as zero if its norm is below this, which happens where all margins are saturated.  A step along
# the gradient has a length of about 1/norm, and its multiplier is about 1/norm².  Both must stay finite.
_SHORTEST_ROW = 1e-100


@runtime_checkable
class Metric(Protocol):
    """Any positive definite H that offers these two products; the QP needs nothing else."""

    def solve(self, V: Array) -> Array:
        """H⁻¹V for every row of V."""
        ...

    def product(self, d: Array) -> Array:
        """H d."""
        ...


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
    solved_basis : ndarray of shape (k, n)
        H⁻¹ basisᵀ, one row for each basis gradient.
    basis_sizes : ndarray of shape (k,)
        Largest entry of each basis gradient.
    row_sizes : ndarray of shape (m, k)
        Absolute coefficients of the rows of J in the basis.
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
        self.solved_basis = hessian.solve(J.basis)
        self.basis_sizes: Array = np.maximum.reduce(np.abs(J.basis), axis=1, initial=0.0)
        matrix = J.basis @ self.solved_basis.T
        matrix = 0.5 * (matrix + matrix.T)
        W = J.rows @ pivoted_factor(matrix)
        norms = np.sqrt(np.add.reduce(W * W, axis=1))
        # J_i = Σ_j rows_ij · basis_j.  Compare the norm of J_i with the size of these terms: if it is much smaller, the
        # terms cancel and J_i is a rounding error.  A gradient that is small because its terms are small counts.
        self.row_sizes: Array = np.abs(J.rows)
        sizes = self.row_sizes @ np.sqrt(np.maximum(matrix.diagonal(), 0.0))
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


@cache
def triangle(n: int, diagonal: int = 0) -> Array:
    """Return the n × n matrix of ones up to a diagonal; a product with it is quicker than `np.tril`."""
    return np.tri(n, k=diagonal)


def pivoted_factor(core: Array) -> Array:
    """Return L of shape (k, r) with L Lᵀ = core; r is the numerical rank after scaling to unit diagonal.

    Examples
    --------
    >>> pivoted_factor(np.array([[4.0, 2.0], [2.0, 1.0]])).shape
    (2, 1)
    """
    k = core.shape[0]
    size = np.sqrt(np.maximum(core.diagonal(), 0.0))
    if not size.any():
        return np.zeros((k, 0))
    inverse = 1.0 / np.where(size > 0.0, size, np.inf)
    lower, pivots, rank, _ = lapack.dpstrf(core * inverse[:, None] * inverse, tol=_PIVOT * k, lower=1)
    factor = np.zeros((k, rank))
    factor[pivots - 1] = (lower * triangle(k))[:, :rank]
    return factor * size[:, None]
