"""The interface between a problem and a solver: `Problem`, and the `Evaluation` that it returns.

A nonlinear program with two-sided constraints,

    min f(w)   subject to   lower ≤ c(w) ≤ upper,

is known to a solver only by its values and first derivatives at a point (paper, appendix "SQP Algorithm and Learning
Rate Adjustment Strategy").  A missing bound is −inf or inf; equal bounds make an equality constraint.

Conventions
-----------
n, m : numbers of variables and of constraint rows; m may be 0.
f : float; g : (n,) gradient; c : (m,) constraint values; J : m × n `Jacobian`; lower, upper : (m,).
All arrays are numpy float64; whatever numpy can read as such is converted.  A multiplier y is positive if the upper
bound is active and negative if the lower bound is, so that stationarity reads g + Jᵀy = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def violations(c: Array, lower: Array, upper: Array) -> Array:
    """Return the distance of each entry of c from its interval [lower, upper], of shape (m,)."""
    return np.maximum(np.maximum(c - upper, lower - c), 0.0)


def violation(c: Array, lower: Array, upper: Array) -> float:
    """Return v(c), the sum of the distances of c from its intervals [lower, upper].

    Examples
    --------
    >>> violation(np.array([2.0, -5.0, 0.0]), np.array([0.0, -1.0, -1.0]), np.array([1.0, 1.0, math.inf]))
    5.0
    """
    return float(violations(c, lower, upper).sum())


class NotFiniteError(ValueError):
    """A value or a derivative is NaN or infinite."""


def _require_finite(name: str, value: Array) -> None:
    # If the sum is finite, so is every entry, and the sum is quick to compute.  If it is not finite, look at each
    # entry, because a sum of finite numbers may overflow.
    if not math.isfinite(np.add.reduce(value, axis=None)) and not np.isfinite(value).all():
        bad = np.count_nonzero(~np.isfinite(value))
        raise NotFiniteError(
            f"Evaluation: {name} has {bad} entries that are NaN or infinite out of {value.size}; "
            "check the model's outputs and the step that led here."
        )


@dataclass(frozen=True)
class Jacobian:
    """The matrix J = rows · basis of constraint gradients, kept in factored form.

    The m constraints are often functions of k ≪ m quantities.  Then all m gradients are combinations of k gradients,
    and a product costs k·n instead of m·n.

    Parameters
    ----------
    rows : array of shape (m, k)
        Derivatives of the constraints with respect to the k quantities.
    basis : array of shape (k, n)
        Gradients of the k quantities.

    Examples
    --------
    >>> J = Jacobian(rows=[[1.0, -1.0], [-1.0, 1.0]], basis=np.eye(2))
    >>> J.shape
    (2, 2)
    >>> J.product(np.array([3.0, 1.0]))
    array([ 2., -2.])
    """

    rows: Array
    basis: Array

    def __init__(self, rows: ArrayLike, basis: ArrayLike) -> None:
        for name, value in (("rows", rows), ("basis", basis)):
            matrix = np.asarray(value, dtype=np.float64)
            if matrix.ndim != 2:
                raise ValueError(f"Jacobian: {name} must be a two-dimensional array, got the shape {matrix.shape}.")
            object.__setattr__(self, name, matrix)
        if self.rows.shape[1] != self.basis.shape[0]:
            raise ValueError(
                f"Jacobian: rows {self.rows.shape} and basis {self.basis.shape} do not fit; "
                "rows must have as many columns as basis has rows."
            )

    @classmethod
    def dense(cls, matrix: ArrayLike) -> Jacobian:
        """Wrap an m × n matrix: `basis` is the matrix, `rows` is the identity."""
        return cls(np.eye(len(np.atleast_1d(matrix))), matrix)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (m, n)."""
        return self.rows.shape[0], self.basis.shape[1]

    def matrix(self) -> Array:
        """Return the dense m × n matrix."""
        return self.rows @ self.basis

    def product(self, d: Array) -> Array:
        """Return J d, of shape (m,)."""
        return self.rows @ (self.basis @ d)

    def transpose_product(self, y: Array) -> Array:
        """Return Jᵀ y, of shape (n,)."""
        return (y @ self.rows) @ self.basis


@dataclass(frozen=True)
class Evaluation:
    """Values and first derivatives of a nonlinear program at one point.

    Parameters
    ----------
    f : float
        Objective.
    g : array of shape (n,)
        Gradient of the objective, or an unbiased estimate of it.
    c : array of shape (m,)
        Constraint values.
    J : Jacobian or array of shape (m, n)
        Constraint gradients; an array becomes a `Jacobian`.
    lower, upper : array of shape (m,)
        Bounds; −inf and inf where there is none.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is NaN or infinite, or a lower bound lies above its upper bound.

    Examples
    --------
    >>> Evaluation(f=0.5, g=[1.0], c=[3.0], J=[[1.0]], lower=[-1.0], upper=[1.0]).violation
    2.0
    """

    f: float
    g: Array
    c: Array
    J: Jacobian
    lower: Array
    upper: Array

    def __init__(
        self, f: Any, g: ArrayLike, c: ArrayLike, J: Jacobian | ArrayLike, lower: ArrayLike, upper: ArrayLike
    ) -> None:
        if not isinstance(J, Jacobian):
            J = Jacobian.dense(J)
        # The dictionary, because a frozen dataclass has no setters.
        vars(self).update(f=float(f), J=J)
        for name, value in (("g", g), ("c", c), ("lower", lower), ("upper", upper)):
            vector = np.asarray(value, dtype=np.float64)
            if vector.ndim != 1:
                raise ValueError(f"Evaluation: {name} must be a one-dimensional array, got the shape {vector.shape}.")
            vars(self)[name] = vector.copy()  # it may be a view of parameters that will move
        self._check_shapes()
        self._check_values()

    def _check_shapes(self) -> None:
        n, m = self.g.size, self.c.size
        if self.J.shape != (m, n):
            raise ValueError(f"Evaluation: J has shape {self.J.shape}, but c has {m} and g has {n} entries.")
        for name in ("lower", "upper"):
            if getattr(self, name).size != m:
                raise ValueError(f"Evaluation: {name} has {getattr(self, name).size} entries, but c has {m}.")

    def _check_values(self) -> None:
        if not math.isfinite(self.f):
            raise NotFiniteError(f"Evaluation: f is {self.f}; check the model's outputs and the step that led here.")
        _require_finite("g", self.g)
        _require_finite("c", self.c)
        _require_finite("J (rows)", self.J.rows)
        _require_finite("J (basis)", self.J.basis)
        good = (self.lower <= self.upper) & (self.lower < math.inf) & (self.upper > -math.inf)  # False for NaN
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(
                f"Evaluation: the bounds of row {row} are [{self.lower[row]}, {self.upper[row]}]; "
                "lower must not exceed upper, and a missing side is -inf below or inf above."
            )

    @cached_property
    def violation(self) -> float:
        """Return the ℓ1 violation v(c): the sum of the distances of c from its intervals."""
        return violation(self.c, self.lower, self.upper)


@runtime_checkable
class Problem(Protocol):
    """A deterministic nonlinear program, for solvers that evaluate all of it in every iteration."""

    def initial_point(self) -> Array:
        """Return the flat float64 vector to start from."""
        ...

    def evaluate(self, w: Array) -> Evaluation:
        """Return values and first derivatives at w."""
        ...

    def values(self, w: Array) -> tuple[float, Array]:
        """Return objective and constraint values at w, without derivatives."""
        ...
