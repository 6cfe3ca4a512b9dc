"""Positive definite matrices H for the QP (paper, Algorithm 1, line "Choose H_k").  The QP needs only H⁻¹V and Hd.

    identity      H = I
    adagrad       H = diag √(Σ g² + damping · mean(Σ g²)), the sum over all gradients so far
    exponential   H = diag √(E + damping), E ← decay · E + (1 − decay) · g², E₀ = 0
    limited BFGS  H of the Lagrangian from the last few steps, for `QuasiNewtonSQP`; see below

The text of the paper names an Adagrad-type scheme; its experiments ran the exponential average with decay 0.999 and
damping 100.  Damping is needed because the objective may not depend on some coordinate: H would be zero there, and the
step could grow without limit.  The damping of `Adagrad` is relative to the mean, so that H scales with the objective.

Conventions
-----------
V : (..., n), one vector in each row; d : (n,).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from fairbound._words import lookup


@runtime_checkable
class Metric(Protocol):
    """Any positive definite H that offers these two products; the QP needs nothing else."""

    def solve(self, V: Tensor) -> Tensor:
        """H⁻¹V for every row of V."""
        ...

    def product(self, d: Tensor) -> Tensor:
        """H d."""
        ...


def check_state(owner: Any, state: dict[str, Any], other: str) -> None:
    """Raise an error if `state` does not have the keys of the owner's own state; `other` says who may have saved it."""
    expected = sorted(owner.state_dict())
    if sorted(state) != expected:
        raise ValueError(
            f"{type(owner).__name__}.load_state_dict: expected the keys {expected}, got {sorted(state)}; the state was "
            f"saved by {other}."
        )


class Hessian(ABC):
    """Base class of diagonal matrices H that are updated from the gradients of the objective."""

    name: ClassVar[str]

    @abstractmethod
    def update(self, g: Tensor) -> None:
        """Update H with the gradient of one iteration."""

    @abstractmethod
    def diagonal(self, like: Tensor) -> Tensor:
        """Diagonal of H, broadcastable to the last dimension of `like`."""

    def solve(self, V: Tensor) -> Tensor:
        """H⁻¹V for every row of V."""
        return V / self.diagonal(V)

    def product(self, d: Tensor) -> Tensor:
        """H d."""
        return d * self.diagonal(d)

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state as tensors and numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        check_state(self, state, "another kind of Hessian")


class Identity(Hessian):
    """H = I.

    Examples
    --------
    >>> Identity().solve(torch.tensor([2.0, 4.0]))
    tensor([2., 4.])
    """

    name = "identity"

    def update(self, g: Tensor) -> None:
        """Do nothing: the identity has no state."""

    def diagonal(self, like: Tensor) -> Tensor:
        """Return 1."""
        return like.new_ones(())


class _Accumulated(Hessian):
    """A diagonal H computed from accumulated squared gradients of shape (n,)."""

    def __init__(self) -> None:
        self._squares: Tensor | None = None

    @abstractmethod
    def _accumulate(self, squares: Tensor, g: Tensor) -> Tensor:
        """Return the new accumulator from the old one and a gradient."""

    def update(self, g: Tensor) -> None:
        """Add the squared gradient to the accumulator."""
        squares = torch.zeros_like(g) if self._squares is None else self._squares
        if squares.shape != g.shape:
            raise ValueError(
                f"{type(self).__name__}.update: the gradient has {g.numel()} entries, earlier ones had "
                f"{squares.numel()}; use a new Hessian for a new model."
            )
        self._squares = self._accumulate(squares, g)

    def _accumulator(self) -> Tensor:
        if self._squares is None:
            raise ValueError(f"{type(self).__name__}: call update(g) once before solve or product.")
        return self._squares

    def state_dict(self) -> dict[str, Any]:
        """Return the accumulator."""
        return {"squares": None if self._squares is None else self._squares.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the accumulator."""
        super().load_state_dict(state)
        self._squares = None if state["squares"] is None else state["squares"].clone()


class Adagrad(_Accumulated):
    """H = diag √(Σ g² + damping · mean(Σ g²)).

    Parameters
    ----------
    damping : float
        Share of the mean accumulator added to each entry, above 0.

    Examples
    --------
    >>> hessian = Adagrad(damping=1.0)
    >>> hessian.update(torch.tensor([1.0, 3.0]))
    >>> hessian.product(torch.tensor([1.0, 1.0]))
    tensor([2.4495, 3.7417])
    """

    name = "adagrad"

    def __init__(self, damping: float = 0.01) -> None:
        super().__init__()
        if not 0.0 < damping < float("inf"):
            raise ValueError(f"Adagrad(damping={damping!r}): must be a finite number above 0, for example 0.01.")
        self.damping = damping

    def _accumulate(self, squares: Tensor, g: Tensor) -> Tensor:
        return squares + g.square()

    def diagonal(self, like: Tensor) -> Tensor:  # noqa: ARG002  (the accumulator has its own shape)
        """Return the square root of the damped accumulator."""
        squares = self._accumulator()
        level = self.damping * squares.mean()
        if not float(level) > 0.0:
            # All gradients were zero so far.  Any positive H is valid; use the identity.
            return torch.ones_like(squares)
        return (squares + level).sqrt()


class ExponentialAverage(_Accumulated):
    """H = diag √(E + damping), E the exponential average of g² (the default, and the paper's experiments).

    The average starts at 0.  So after k gradients its expected value is 1 − decayᵏ times that of g².

    Parameters
    ----------
    decay : float
        Weight of the past, in [0, 1).
    damping : float
        Added to the average, above 0; an absolute number, in units of g².
    corrected : bool
        Whether the average is divided by 1 − decayᵏ, as Adam does.  The paper's experiments did not.

    Examples
    --------
    >>> hessian = ExponentialAverage(decay=0.5, damping=1.0)
    >>> hessian.update(torch.tensor([0.0, 4.0]))
    >>> hessian.product(torch.tensor([1.0, 1.0]))
    tensor([1., 3.])
    """

    name = "exponential"

    def __init__(self, decay: float = 0.999, damping: float = 100.0, *, corrected: bool = False) -> None:
        super().__init__()
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"ExponentialAverage(decay={decay!r}): must be at least 0 and below 1, for example 0.999.")
        if not 0.0 < damping < float("inf"):
            raise ValueError(
                f"ExponentialAverage(damping={damping!r}): must be a finite number above 0, for example 100."
            )
        self.decay = decay
        self.damping = damping
        self.corrected = corrected
        self._updates = 0

    def _accumulate(self, squares: Tensor, g: Tensor) -> Tensor:
        self._updates += 1
        return self.decay * squares + (1.0 - self.decay) * g.square()

    def diagonal(self, like: Tensor) -> Tensor:  # noqa: ARG002  (the accumulator has its own shape)
        """Return the square root of the damped average."""
        average = self._accumulator()
        if self.corrected:
            average = average / (1.0 - self.decay**self._updates)
        return (average + self.damping).sqrt()

    def state_dict(self) -> dict[str, Any]:
        """Return the accumulator and the number of updates."""
        return {**super().state_dict(), "updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the accumulator and the number of updates."""
        super().load_state_dict(state)
        self._updates = int(state["updates"])


HESSIANS: dict[str, type[Hessian]] = {kind.name: kind for kind in (Identity, Adagrad, ExponentialAverage)}


def resolve_hessian(hessian: str | Hessian) -> Hessian:
    """Return a Hessian from its name in `HESSIANS`, with default parameters, or the instance itself."""
    if isinstance(hessian, Hessian):
        return hessian
    return lookup(HESSIANS, hessian, "Hessian")()


# --- limited-memory BFGS ---------------------------------------------------------------------------------------------

# Limited-memory BFGS approximation of the Hessian of the Lagrangian, damped, in compact form.
#
# A pair is a step s = w⁺ − w and the change r = ∇L(w⁺, y) − ∇L(w, y) of the Lagrangian's gradient at the same
# multipliers. The last p pairs, scaled to sᵀr = 1, are the rows of S and R. With the initial matrix γI:
#
#     H   = γI − [γSᵀ Rᵀ] [γSSᵀ  T; Tᵀ  −I]⁻¹ [γS; R]          T strictly lower part of S Rᵀ
#     H⁻¹ = δI + [Sᵀ δRᵀ] [U⁻ᵀ(I + δRRᵀ)U⁻¹  −U⁻ᵀ; −U⁻¹  0] [S; δR]      U upper part of S Rᵀ, δ = 1/γ
#
# (Byrd, Nocedal and Schnabel, Math. Program. 63, 1994). The scaling makes the diagonal matrix D of that paper the
# identity. Products with many vectors at once are a few matrix products.
#
# The Lagrangian need not be convex, but H must stay positive definite, which needs sᵀr > 0. A pair with little
# curvature, 0 < sᵀr < ⅕ sᵀHs, is damped as Powell proposed: r moves towards Hs until sᵀr = ⅕ sᵀHs. The new vector
# is θr + (1 − θ)Hs, so θ sᵀr + (1 − θ) sᵀHs = ⅕ sᵀHs, which gives θ = ⅘ sᵀHs / (sᵀHs − sᵀr).
#
# A pair without positive curvature, sᵀr ≤ 0, is skipped. Damping it would divide the curvature of H along s by five
# each time. Then the steps would become ever longer, and the line search would have to cut them.
#
# Conventions
# -----------
# S, R : (p, n) float64; V : (..., n); d : (n,).


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
        # By Cauchy-Schwarz γ = rᵀr / sᵀr is at least sᵀr / sᵀs, the curvature along s: new directions get short steps.
        self.scale = min(max(float(change @ change) / s_r, _SCALES[0]), _SCALES[1])
        unit = math.sqrt(s_r)  # dividing both by √(sᵀr) scales the pair to sᵀr = 1
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
