"""The part of a QP that depends on H and J only: the small matrix basis H⁻¹ basisᵀ and its factor.

The objective gradient, the constraint values and the penalty are not part of it.  So all QPs of one iteration share one
core: those of the trial penalties, of the pure feasibility step and of the second-order correction.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

from fairbound.sqp.hessian import Metric
from fairbound.sqp.problem import Jacobian

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# Smaller pivots (relative, times k, after scaling to unit diagonal) are rounding errors.
_PIVOT = 4.0 * EPS
# A constraint gradient counts as zero if its terms cancel to this fraction of their size.
_ZERO_ROW = 1e-12
# It also counts as zero if it is shorter than this, as where all margins are saturated.  The step along a gradient is
# as long as the inverse of its norm, and its multiplier as large as the square of that: both must stay finite.
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
        # J_i = Σ_j rows_ij · basis_j.  Compared with the size of these terms, a gradient that is merely small differs
        # from one whose terms cancel.
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
