"""A dense H: any symmetric matrix, made positive definite by the absolute values of its eigenvalues.

With M = QΛQᵀ, H = Q |Λ| Qᵀ.  Along an eigenvector of negative curvature the model of the objective bends upwards as
strongly as it bends downwards in truth, so a step is short where the curvature is strong, whatever its sign (the
modified Newton method of Greenstadt, Math. Comp. 21, 1967).  Eigenvalues below a small share of the largest one are
raised to that share, or H would be singular.

Conventions
-----------
V : (..., n), one vector in each row; d : (n,).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fairbound.sqp.problem import Array


class DenseHessian:
    """H from a symmetric matrix, such as the second derivatives of a Lagrangian; a `Metric` for the QP.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric; only its lower triangle is read.
    floor : float
        Least eigenvalue of H, relative to the largest one; above 0 and at most 1.

    Attributes
    ----------
    eigenvalues : ndarray of shape (n,)
        Those of H; all are above 0.

    Examples
    --------
    >>> hessian = DenseHessian([[2.0, 0.0], [0.0, -4.0]])
    >>> hessian.product(np.ones(2)), hessian.solve(np.ones(2))
    (array([2., 4.]), array([0.5 , 0.25]))
    """

    def __init__(self, matrix: ArrayLike, floor: float = 1e-8) -> None:
        if not 0.0 < floor <= 1.0:
            raise ValueError(f"DenseHessian(floor={floor!r}): must be above 0 and at most 1, for example 1e-8.")
        held = np.asarray(matrix, dtype=np.float64)
        if held.ndim != 2 or held.shape[0] != held.shape[1]:
            raise ValueError(f"DenseHessian: the matrix must be square, got the shape {held.shape}.")
        if not math.isfinite(np.add.reduce(held, axis=None)):
            raise ValueError("DenseHessian: the matrix has entries that are NaN or infinite, or too large to add.")
        values, self._vectors = np.linalg.eigh(held)
        sizes = np.abs(values)
        largest = np.maximum.reduce(sizes, initial=0.0)
        # A matrix of zeros says nothing about the curvature; then H = I.
        self.eigenvalues: Array = np.maximum(sizes, floor * largest) if largest > 0.0 else np.ones_like(sizes)

    def solve(self, V: Array) -> Array:
        """H⁻¹V for every row of V."""
        return ((V @ self._vectors) / self.eigenvalues) @ self._vectors.T

    def product(self, d: Array) -> Array:
        """H d."""
        return self._vectors @ (self.eigenvalues * (d @ self._vectors))
