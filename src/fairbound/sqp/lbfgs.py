"""Limited-memory BFGS approximation of the Hessian of the Lagrangian, damped, in compact form.

A pair is a step s = w⁺ − w and the change r = ∇L(w⁺, y) − ∇L(w, y) of the Lagrangian's gradient at the same
multipliers.  The last p pairs, scaled to sᵀr = 1, are the rows of S and R.  With the initial matrix γI, T the strictly
lower part of S Rᵀ, U its upper part, and δ = 1/γ:

    H d   = γd − γSᵀu − Rᵀ(Tᵀu − Rd)      where  (γSSᵀ + TTᵀ) u = γSd + T Rd
    H⁻¹   = δI + [Sᵀ δRᵀ] [U⁻ᵀ(I + δRRᵀ)U⁻¹  −U⁻ᵀ; −U⁻¹  0] [S; δR]

(Byrd, Nocedal and Schnabel, Math. Program. 63, 1994).  The scaling makes the diagonal matrix D of that paper the
identity.  Products with many vectors at once are a few matrix products.

The Lagrangian need not be convex, but H must stay positive definite, which needs sᵀr > 0.  A pair with little
curvature, 0 < sᵀr < ⅕ sᵀHs, is damped as Powell proposed: r moves towards Hs until sᵀr = ⅕ sᵀHs.  The new vector
is θr + (1 − θ)Hs, so θ sᵀr + (1 − θ) sᵀHs = ⅕ sᵀHs, which gives θ = ⅘ sᵀHs / (sᵀHs − sᵀr).

A pair without positive curvature, sᵀr ≤ 0, is skipped.  Damping it would divide the curvature of H along s by five
each time.  Then the steps would become ever longer, and the line search would have to cut them.

Conventions
-----------
S, R : (p, n) float64; V : (..., n); d : (n,).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import lapack

from fairbound.sqp.core import triangle
from fairbound.sqp.problem import Array

_DAMPED = 0.2  # sᵀr is at least this share of sᵀHs after damping
_SCALES = (1e-10, 1e10)  # range of γ


class LimitedMemoryBFGS:
    """A positive definite H from the last few steps; a `Metric` for the QP.

    Parameters
    ----------
    memory : int
        Largest number of pairs.
    scale : float
        γ before the first pair.

    Examples
    --------
    Two steps along the axes determine the Hessian diag(2, 8).

    >>> hessian = LimitedMemoryBFGS()
    >>> for s in np.eye(2):
    ...     hessian.update(s, s * np.array([2.0, 8.0]))
    >>> hessian.product(np.ones(2))
    array([2., 8.])
    """

    def __init__(self, memory: int = 20, scale: float = 1.0) -> None:
        if not (isinstance(memory, int) and memory >= 1):
            raise ValueError(f"LimitedMemoryBFGS(memory={memory!r}): must be a whole number of at least 1.")
        if not 0.0 < scale < math.inf:
            raise ValueError(f"LimitedMemoryBFGS(scale={scale!r}): must be a finite number above 0.")
        self.memory = memory
        self.scale = scale
        self._S = self._R = np.zeros((0, 0))

    @property
    def pairs(self) -> int:
        """Return the number of pairs stored."""
        return len(self._S)

    def plain(self) -> dict[str, Any]:
        """Return the pairs and the scale, from which `restored` makes the same object."""
        return {"memory": self.memory, "scale": self.scale, "S": self._S, "R": self._R}

    @classmethod
    def restored(cls, memory: int, scale: float, S: Array, R: Array) -> LimitedMemoryBFGS:
        """Return the object whose `plain` values these are."""
        found = cls(memory, scale)
        found._S, found._R = S, R
        if found.pairs:
            found._factor()
        return found

    def reset(self, scale: float) -> None:
        """Remove all pairs and set H = scale · I."""
        self.scale = float(min(max(scale, _SCALES[0]), _SCALES[1]))
        self._S = self._R = np.zeros((0, 0))

    def update(self, step: Array, change: Array) -> None:
        """Add a pair; skip it if the step is zero, the curvature is not positive or an entry is not finite.

        Parameters
        ----------
        step : ndarray of shape (n,)
            w⁺ − w.
        change : ndarray of shape (n,)
            Change of the Lagrangian's gradient over the step, at the same multipliers.
        """
        squared_length, s_r = float(step.dot(step)), float(step.dot(change))
        if not (0.0 < squared_length < math.inf and 0.0 < s_r < math.inf):
            return
        if self.pairs == 0:
            # The initial γ does not have the unit of the objective.  Damping compares with H, so first set γ to the
            # curvature of this pair.
            self.scale = min(max(s_r / squared_length, _SCALES[0]), _SCALES[1])
        H_s = self.product(step)
        s_H_s = float(step.dot(H_s))
        if s_r < _DAMPED * s_H_s:
            weight = (1.0 - _DAMPED) * s_H_s / (s_H_s - s_r)
            change = weight * change + (1.0 - weight) * H_s
            s_r = float(step.dot(change))
        # By Cauchy-Schwarz γ = rᵀr / sᵀr is at least sᵀr / sᵀs, the curvature along s: new directions get short steps.
        self.scale = min(max(float(change.dot(change)) / s_r, _SCALES[0]), _SCALES[1])
        unit = math.sqrt(s_r)  # dividing both by √(sᵀr) scales the pair to sᵀr = 1
        self._S = _append_row(self._S, step / unit, self.memory)
        self._R = _append_row(self._R, change / unit, self.memory)
        self._factor()

    def _factor(self) -> None:
        """Factor the small matrices of the compact forms."""
        S, R, gamma = self._S, self._R, self.scale
        cross = S @ R.T
        strict = triangle(len(S), -1)
        self._T = cross * strict
        self._middle, self._pivots, _ = lapack.dgetrf(gamma * (S @ S.T) + self._T @ self._T.T)
        self._U = lapack.dtrtri(cross)[0] * (1.0 - strict)  # U⁻¹
        inner = R @ R.T / gamma
        inner.flat[:: len(S) + 1] += 1.0
        self._corner = self._U.T @ inner @ self._U

    def solve(self, V: Array) -> Array:
        """H⁻¹V for every row of V."""
        solved: Array = V / self.scale
        if self.pairs == 0:
            return solved
        on_S, on_R = V @ self._S.T, solved @ self._R.T
        solved += (on_S @ self._corner - on_R @ self._U) @ self._S
        solved -= (on_S @ self._U.T) @ (self._R / self.scale)
        return solved

    def product(self, d: Array) -> Array:
        """H d."""
        result: Array = d * self.scale
        if self.pairs == 0:
            return result
        on_R = self._R @ d
        u, _ = lapack.dgetrs(self._middle, self._pivots, self._S @ result + self._T @ on_R)
        return result - (self.scale * u) @ self._S - (u @ self._T - on_R) @ self._R


def _append_row(rows: Array, row: Array, limit: int) -> Array:
    """Append a row and drop the oldest ones beyond `limit`."""
    kept = rows[max(len(rows) - limit + 1, 0) :] if len(rows) else rows.reshape(0, len(row))
    return np.concatenate([kept, row[None]])
