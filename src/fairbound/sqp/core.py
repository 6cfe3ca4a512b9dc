"""The small matrix that a QP needs of H and J: core = basis H⁻¹ basisᵀ, factored.

Only the core and its factor depend on H and J; gradients, constraint values and penalties may change around them.  So
the QPs of one iteration (trial penalties, the pure feasibility step, the second-order correction) share one core.
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
# Pivots below this fraction (times k) of a core scaled to unit diagonal are rounding.
_PIVOT = 4.0 * EPS
# A row whose terms cancel to this fraction of their size has no gradient.
_ZERO_ROW = 1e-12


class Core:
    """H and J as the QP sees them.

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
        Rows of J over the basis.
    norms : ndarray of shape (m,)
        Norms of the constraint gradients in the metric of H⁻¹; exactly 0 where they are rounding.
    live : ndarray of bool, shape (m,)
        Rows with a gradient.
    W : ndarray of shape (number of live rows, r)
        Rows scaled to norm 1 over an orthonormal basis of the span of all gradients; r is its numerical rank.
    """

    def __init__(self, hessian: Metric, J: Jacobian) -> None:
        if J.rows.shape[1] > J.rows.shape[0]:
            # More basis gradients than constraints: the constraints' own gradients are the smaller basis.
            J = Jacobian.dense(J.matrix())
        self.hessian, self.J = hessian, J
        self.rows = to_numpy(J.rows)
        self.solved_basis = hessian.solve(J.basis)
        self.basis_sizes = J.basis.abs().amax(dim=1)
        matrix = to_numpy(J.basis @ self.solved_basis.T)
        matrix = 0.5 * (matrix + matrix.T)
        # By torch, whose threads follow the user's setting; numpy's own would compete with them for the cores.
        W = to_numpy(J.rows @ torch.from_numpy(pivoted_factor(matrix)).to(J.rows))
        norms = np.linalg.norm(W, axis=1)
        # Size of the terms that make up a row, to tell a small gradient from one that has cancelled.
        sizes = np.abs(self.rows) @ np.sqrt(np.maximum(np.diag(matrix), 0.0))
        self.norms: Array = np.where(norms > _ZERO_ROW * sizes, norms, 0.0)
        self.live = self.norms > 0.0
        self.W: Array = W[self.live] / self.norms[self.live, None]

    def response(self, y: Array) -> Array:
        """J H⁻¹ Jᵀ y as the factor has it, of shape (m,)."""
        answer = np.zeros_like(y)
        norms = self.norms[self.live]
        answer[self.live] = norms * (self.W @ ((norms * y[self.live]) @ self.W))
        return answer


def pivoted_factor(core: Array) -> Array:
    """L of shape (k, r) with L Lᵀ = core, r its numerical rank after scaling to unit diagonal.

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
    """Float64 array of a small tensor."""
    return np.asarray(value.detach().cpu().numpy(), dtype=np.float64)
