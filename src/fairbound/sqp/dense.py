"""A dense H: a symmetric matrix, made positive definite by the absolute values of its eigenvalues.

With M = QΛQᵀ, H = Q |Λ| Qᵀ.  Along an eigenvector of negative curvature the model of the objective bends upwards as
strongly as it bends downwards in truth, so a step is short where the curvature is strong, whatever its sign (the
modified Newton method of Greenstadt, Math. Comp. 21, 1967).  Eigenvalues are needed only if M has no Cholesky factor.

Conventions
-----------
V : (..., n), one vector in each row; d : (n,).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from fairbound.sqp.problem import Array


class DenseHessian:
    """H from a symmetric matrix, such as the second derivatives of a Lagrangian; a `Metric` for the QP.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric.
    floor : float
        Added to the diagonal and to the absolute eigenvalues, times the largest entry; above 0 and at most 1.

    Examples
    --------
    >>> hessian = DenseHessian([[2.0, 0.0], [0.0, -4.0]])
    >>> hessian.product(np.ones(2)).round(6), hessian.solve(np.ones(2)).round(6)
    (array([2., 4.]), array([0.5 , 0.25]))
    """

    def __init__(self, matrix: ArrayLike, floor: float = 1e-12) -> None:
        if not 0.0 < floor <= 1.0:
            raise ValueError(f"DenseHessian(floor={floor!r}): must be above 0 and at most 1, for example 1e-6.")
        held = np.asarray(matrix, dtype=np.float64)
        if held.ndim != 2 or held.shape[0] != held.shape[1]:
            raise ValueError(f"DenseHessian: the matrix must be square, got the shape {held.shape}.")
        if not math.isfinite(np.add.reduce(held, axis=None)):
            raise ValueError("DenseHessian: the matrix has entries that are NaN or infinite, or too large to add.")
        largest = float(np.abs(held).max(initial=0.0))
        # A matrix of zeros says nothing about the curvature; then H = I.
        least = floor * largest if largest > 0.0 else 1.0
        self._matrix, self._factor, failed = _factored(held, least)
        if failed:
            values, vectors = np.linalg.eigh(held)
            self._matrix, self._factor, _ = _factored((vectors * np.abs(values)) @ vectors.T, least)

    def plain(self) -> dict[str, Any]:
        """Return H, from which `restored` makes the same object."""
        return {"matrix": self._matrix}

    @classmethod
    def restored(cls, matrix: Array) -> DenseHessian:
        """Return the object whose `plain` values these are."""
        found = cls.__new__(cls)
        found._matrix, found._factor, _ = _factored(matrix, 0.0)
        return found

    def solve(self, V: Array) -> Array:
        """H⁻¹V for every row of V."""
        return np.asarray(lapack.dpotrs(self._factor, V.T, lower=1)[0].T)

    def product(self, d: Array) -> Array:
        """H d."""
        return self._matrix @ d


def _factored(matrix: Array, shift: float) -> tuple[Array, Array, bool]:
    """Return matrix + shift · I, its Cholesky factor, and whether it has none."""
    shifted = matrix + np.diag(np.full(len(matrix), shift))
    factor, info = lapack.dpotrf(shifted, lower=1)
    return shifted, factor, info != 0
