"""Limited-memory BFGS approximation of the Hessian of the Lagrangian, damped, in compact form.

A pair is a step s = w⁺ − w and the change r = ∇L(w⁺, y) − ∇L(w, y) of the Lagrangian's gradient at the same
multipliers.  The last p pairs, scaled to sᵀr = 1, are the rows of S and R.  With the initial matrix γI:

    H   = γI − [γSᵀ Rᵀ] [γSSᵀ  T; Tᵀ  −I]⁻¹ [γS; R]          T strictly lower part of S Rᵀ
    H⁻¹ = δI + [Sᵀ δRᵀ] [U⁻ᵀ(I + δRRᵀ)U⁻¹  −U⁻ᵀ; −U⁻¹  0] [S; δR]      U upper part of S Rᵀ, δ = 1/γ

(Byrd, Nocedal and Schnabel, Math. Program. 63, 1994).  The scaling makes the diagonal matrix D of that paper the
identity.  Products with many vectors at once are a few matrix products.

The Lagrangian need not be convex, but H must stay positive definite, which needs sᵀr > 0.  A pair with little
curvature, 0 < sᵀr < ⅕ sᵀHs, is damped as Powell proposed: r moves towards Hs until sᵀr = ⅕ sᵀHs.  With r ← θr + (1 −
θ)Hs this holds for θ = ⅘ sᵀHs / (sᵀHs − sᵀr).  A pair without positive curvature, sᵀr ≤ 0, is skipped.  Damping it
would shrink H to a fifth along s each time, and the line search would have to cut ever longer steps.

Conventions
-----------
S, R : (p, n) float64; V : (..., n); d : (n,).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

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
    >>> for s in torch.eye(2, dtype=torch.float64):
    ...     hessian.update(s, s * torch.tensor([2.0, 8.0], dtype=torch.float64))
    >>> hessian.product(torch.ones(2, dtype=torch.float64))
    tensor([2., 8.], dtype=torch.float64)
    """

    def __init__(self, memory: int = 20, scale: float = 1.0) -> None:
        if not (isinstance(memory, int) and memory >= 1):
            raise ValueError(f"LimitedMemoryBFGS(memory={memory!r}): must be a whole number of at least 1.")
        if not 0.0 < scale < math.inf:
            raise ValueError(f"LimitedMemoryBFGS(scale={scale!r}): must be a finite number above 0.")
        self.memory = memory
        self.scale = scale
        self._steps: Tensor | None = None  # S
        self._changes: Tensor | None = None  # R

    @property
    def pairs(self) -> int:
        """Return the number of pairs stored."""
        return 0 if self._steps is None else self._steps.shape[0]

    def reset(self, scale: float) -> None:
        """Remove all pairs and set H = scale · I."""
        self.scale = float(min(max(scale, _SCALES[0]), _SCALES[1]))
        self._steps = self._changes = None

    def update(self, step: Tensor, change: Tensor) -> None:
        """Add a pair; skip it if the step is zero, the curvature is not positive or an entry is not finite.

        Parameters
        ----------
        step : Tensor of shape (n,)
            w⁺ − w.
        change : Tensor of shape (n,)
            Change of the Lagrangian's gradient over the step, at the same multipliers.
        """
        squared_length, s_r = float(step @ step), float(step @ change)
        if not (0.0 < squared_length < math.inf and 0.0 < s_r < math.inf):
            return
        if self.pairs == 0:
            # The initial γ does not have the unit of the objective.  Damping compares with H, so first set γ to the
            # curvature of this pair.
            self.scale = min(max(s_r / squared_length, _SCALES[0]), _SCALES[1])
        H_s = self.product(step)
        s_H_s = float(step @ H_s)
        if s_r < _DAMPED * s_H_s:
            weight = (1.0 - _DAMPED) * s_H_s / (s_H_s - s_r)
            change = weight * change + (1.0 - weight) * H_s
            s_r = float(step @ change)
        self.scale = min(max(float(change @ change) / s_r, _SCALES[0]), _SCALES[1])
        unit = math.sqrt(s_r)
        self._steps = _append_row(self._steps, step / unit, self.memory)
        self._changes = _append_row(self._changes, change / unit, self.memory)
        self._factor()

    def _factor(self) -> None:
        """Factor the small matrices of the compact forms."""
        S, R = self._stored_pairs()
        gamma, p = self.scale, S.shape[0]
        cross = S @ R.T
        strict = torch.tril(cross, diagonal=-1)
        identity = torch.eye(p, dtype=S.dtype, device=S.device)
        middle = torch.cat([torch.cat([gamma * (S @ S.T), strict], 1), torch.cat([strict.T, -identity], 1)])
        self._middle = torch.linalg.lu_factor(middle)
        inverse = torch.linalg.solve_triangular(torch.triu(cross), identity, upper=True)  # U⁻¹
        corner = inverse.T @ (identity + (R @ R.T) / gamma) @ inverse
        self._inverse_middle = torch.cat(
            [torch.cat([corner, -inverse.T], 1), torch.cat([-inverse, torch.zeros_like(identity)], 1)]
        )

    def _stored_pairs(self) -> tuple[Tensor, Tensor]:
        if self._steps is None or self._changes is None:
            raise ValueError("LimitedMemoryBFGS holds no pair yet.")
        return self._steps, self._changes

    def solve(self, V: Tensor) -> Tensor:
        """H⁻¹V for every row of V."""
        if self.pairs == 0:
            return V / self.scale
        S, R = self._stored_pairs()
        gamma, p = self.scale, S.shape[0]
        inner = torch.cat([V @ S.T, (V @ R.T) / gamma], dim=-1) @ self._inverse_middle
        return V / gamma + inner[..., :p] @ S + (inner[..., p:] / gamma) @ R

    def product(self, d: Tensor) -> Tensor:
        """H d."""
        if self.pairs == 0:
            return d * self.scale
        S, R = self._stored_pairs()
        gamma, p = self.scale, S.shape[0]
        inner = torch.linalg.lu_solve(*self._middle, torch.cat([gamma * (S @ d), R @ d])[:, None])[:, 0]
        return gamma * d - (gamma * inner[:p]) @ S - inner[p:] @ R

    def state_dict(self) -> dict[str, Any]:
        """Return the pairs and the scale."""
        return {
            "scale": self.scale,
            "steps": None if self._steps is None else self._steps.clone(),
            "changes": None if self._changes is None else self._changes.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned; keep the last `memory` pairs only."""
        self.reset(1.0)
        self.scale = float(state["scale"])
        if state["steps"] is not None:
            self._steps = state["steps"][-self.memory :].clone()
            self._changes = state["changes"][-self.memory :].clone()
            self._factor()


def _append_row(rows: Tensor | None, row: Tensor, limit: int) -> Tensor:
    """Append a row and drop the oldest ones beyond `limit`."""
    kept = row.new_zeros((0, row.numel())) if rows is None else rows[max(rows.shape[0] - limit + 1, 0) :]
    return torch.cat([kept, row[None]])
