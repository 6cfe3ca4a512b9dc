"""The interface between a problem and a solver: `Problem`, and the `Evaluation` that it returns.

A nonlinear program with two-sided constraints,

    min f(w)   subject to   lower ≤ c(w) ≤ upper,

is known to a solver only by its values and first derivatives at a point (paper, appendix "SQP Algorithm and Learning
Rate Adjustment Strategy").  A missing bound is −inf or inf; equal bounds make an equality constraint.

Conventions
-----------
n, m : numbers of variables and of constraint rows; m may be 0.
f : float; g : (n,) gradient; c : (m,) constraint values; J : m × n `Jacobian`; lower, upper : (m,).
All tensors are torch float64.  A multiplier y is positive if the upper bound is active and negative if the lower bound
is, so that stationarity reads g + Jᵀy = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

# --- merit -----------------------------------------------------------------------------------------------------------

# The merit function τ·f + v(c), and the parameters that the stochastic method derives from it.
#
# The violation v(c) is the sum over rows of the distance of c from its interval; a satisfied inequality contributes
# 0. For a step d of the QP with multipliers y, slope gᵀd, curvature dᵀHd and reduction v(c) − v(c + Jd):
#
#     merit parameter   τ_trial = ∞ if gᵀd + max(dᵀHd, 0) ≤ 0, else (1 − σ)·reduction / (gᵀd + max(dᵀHd, 0))
#     model reduction   Δq = −τ (gᵀd + ½ max(dᵀHd, 0)) + reduction
#     ratio parameter   ξ_trial = Δq / (τ ‖d‖²)
#
# τ and ξ never rise.  When they fall, they fall by at least a fixed fraction.  With τ ≤ τ_trial the step is a descent
# direction: Δq = −τ(gᵀd + max(dᵀHd, 0)) + ½ τ max(dᵀHd, 0) + reduction ≥ ½ τ max(dᵀHd, 0) + σ·reduction.  The rules
# are those of Berahas, Curtis, Robinson and Zhou (SIAM J. Optim. 31(2), 2021), with the violation of two-sided rows
# in place of ‖c‖₁.  The paper's Algorithm 1 refers to them in its line "Set τ_k based on d_k".
#
# With an elastic QP, |y| ≤ ρ gives gᵀd + dᵀHd ≤ ρ·reduction (see `fairbound.sqp.qp`), hence τ_trial ≥ (1 − σ)/ρ.  So
# the merit parameter cannot collapse while the penalty ρ stays bounded.


# If slope and curvature cancel to this fraction of their size, their sum is a rounding error and counts as zero.
_CANCELLED = 1e-12


def violations(c: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return the distance of each entry of c from its interval [lower, upper], of shape (m,)."""
    return (c - c.clamp(lower, upper)).abs()


def violation(c: Tensor, lower: Tensor, upper: Tensor) -> float:
    """Return v(c), the sum of the distances of c from its intervals [lower, upper].

    Examples
    --------
    >>> import torch
    >>> violation(torch.tensor([2.0, -5.0, 0.0]), torch.tensor([0.0, -1.0, -1.0]), torch.tensor([1.0, 1.0, math.inf]))
    5.0
    """
    return float(violations(c, lower, upper).sum())


def trial_merit_parameter(slope: float, curvature: float, reduction: float, sigma: float, penalty: float) -> float:
    """Return the largest τ with Δq ≥ ½ τ max(dᵀHd, 0) + σ · reduction; inf if this holds for every τ.

    Parameters
    ----------
    slope, curvature : float
        gᵀd and dᵀHd.
    reduction : float
        v(c) − v(c + Jd).
    sigma : float
        Share of the reduction that Δq must contain, in (0, 1).
    penalty : float
        ρ of the QP.  In exact arithmetic the result is at least (1 − σ)/ρ, see above.  This is enforced, because near a
        solution slope, curvature and reduction consist of rounding errors, and so does their quotient.
    """
    increase = slope + max(curvature, 0.0)
    if increase <= _CANCELLED * (abs(slope) + abs(curvature)):
        return math.inf
    return max((1.0 - sigma) * max(reduction, 0.0) / increase, (1.0 - sigma) / penalty)


def model_reduction(merit_parameter: float, slope: float, curvature: float, reduction: float) -> float:
    """Return the reduction Δq of the model of the merit function."""
    return -merit_parameter * (slope + 0.5 * max(curvature, 0.0)) + reduction


def trial_ratio_parameter(merit_parameter: float, model_decrease: float, step_norm: float) -> float:
    """Return Δq / (τ ‖d‖²), or inf for a zero step."""
    scale = merit_parameter * step_norm**2
    return model_decrease / scale if scale > 0.0 else math.inf


def lowered(value: float, trial: float, decrease: float, floor: float) -> float:
    """Return `value` if it is at most `trial`; else min(`trial`, (1 − `decrease`) · `value`), but at least `floor`.

    Examples
    --------
    >>> lowered(0.1, 0.2, decrease=0.01, floor=1e-12), lowered(0.1, 0.05, decrease=0.01, floor=1e-12)
    (0.1, 0.05)
    """
    if value <= trial:
        return value
    return max(min((1.0 - decrease) * value, trial), floor)


# --- problem ---------------------------------------------------------------------------------------------------------


def _vector(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor) or value.dim() != 1:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"Evaluation: {name} must be a one-dimensional tensor, got {shape}.")
    # Copy, because the caller may pass a view of parameters that a solver will change.
    return value.detach().to(torch.float64, copy=True)


class NotFiniteError(ValueError):
    """A value or a derivative is NaN or infinite."""


def _require_finite(name: str, value: Tensor) -> None:
    # If the sum is finite, so is every entry, and the sum is quick to compute.  If it is not finite, look at each
    # entry, because a sum of finite numbers may overflow.
    if not math.isfinite(float(value.sum())) and not bool(torch.isfinite(value).all()):
        bad = int((~torch.isfinite(value)).sum())
        raise NotFiniteError(
            f"Evaluation: {name} has {bad} entries that are NaN or infinite out of {value.numel()}; "
            "check the model's outputs and the step that led here."
        )


@dataclass(frozen=True)
class Jacobian:
    """The matrix J = rows · basis of constraint gradients, kept in factored form.

    The m constraints are often functions of k ≪ m quantities.  Then all m gradients are combinations of k gradients,
    and a product costs k·n instead of m·n.

    Parameters
    ----------
    rows : Tensor of shape (m, k)
        Derivatives of the constraints with respect to the k quantities.
    basis : Tensor of shape (k, n)
        Gradients of the k quantities.

    Examples
    --------
    >>> J = Jacobian(rows=torch.tensor([[1.0, -1.0], [-1.0, 1.0]]), basis=torch.eye(2))
    >>> J.shape
    (2, 2)
    >>> J.product(torch.tensor([3.0, 1.0], dtype=torch.float64))
    tensor([ 2., -2.], dtype=torch.float64)
    """

    rows: Tensor
    basis: Tensor

    def __post_init__(self) -> None:
        for name in ("rows", "basis"):
            value = getattr(self, name)
            if not isinstance(value, Tensor) or value.dim() != 2:
                shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(f"Jacobian: {name} must be a two-dimensional tensor, got {shape}.")
            object.__setattr__(self, name, value.detach().to(torch.float64))
        if self.rows.shape[1] != self.basis.shape[0]:
            raise ValueError(
                f"Jacobian: rows {tuple(self.rows.shape)} and basis {tuple(self.basis.shape)} do not fit; "
                "rows must have as many columns as basis has rows."
            )

    @classmethod
    def dense(cls, matrix: Tensor) -> Jacobian:
        """Wrap an m × n matrix: `basis` is the matrix, `rows` is the identity."""
        if not isinstance(matrix, Tensor) or matrix.dim() != 2:
            shape = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
            raise ValueError(f"Jacobian.dense: expected a two-dimensional tensor, got {shape}.")
        return cls(rows=torch.eye(matrix.shape[0], dtype=torch.float64, device=matrix.device), basis=matrix)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (m, n)."""
        return self.rows.shape[0], self.basis.shape[1]

    def matrix(self) -> Tensor:
        """Return the dense m × n matrix."""
        return self.rows @ self.basis

    def product(self, d: Tensor) -> Tensor:
        """Return J d, of shape (m,)."""
        return self.rows @ (self.basis @ d)

    def transpose_product(self, y: Tensor) -> Tensor:
        """Return Jᵀ y, of shape (n,)."""
        return (self.rows.T @ y) @ self.basis


@dataclass(frozen=True)
class Evaluation:
    """Values and first derivatives of a nonlinear program at one point.

    Parameters
    ----------
    f : float
        Objective.
    g : Tensor of shape (n,)
        Gradient of the objective, or an unbiased estimate of it.
    c : Tensor of shape (m,)
        Constraint values.
    J : Jacobian or Tensor of shape (m, n)
        Constraint gradients; a tensor becomes a `Jacobian`.
    lower, upper : Tensor of shape (m,)
        Bounds; −inf and inf where there is none.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is NaN or infinite, or a lower bound lies above its upper bound.

    Examples
    --------
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> Evaluation(f=0.5, g=one, c=3 * one, J=torch.ones(1, 1), lower=-one, upper=one).violation
    2.0
    """

    f: float
    g: Tensor
    c: Tensor
    J: Jacobian
    lower: Tensor
    upper: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "f", float(self.f.detach() if isinstance(self.f, Tensor) else self.f))
        for name in ("g", "c", "lower", "upper"):
            object.__setattr__(self, name, _vector(name, getattr(self, name)))
        if isinstance(self.J, Tensor):
            object.__setattr__(self, "J", Jacobian.dense(self.J))
        if not isinstance(self.J, Jacobian):
            raise TypeError(f"Evaluation: J must be a Jacobian or a tensor, got {type(self.J).__name__}.")
        self._check_shapes()
        self._check_values()

    def _check_shapes(self) -> None:
        n, m = self.g.numel(), self.c.numel()
        if self.J.shape != (m, n):
            raise ValueError(f"Evaluation: J has shape {self.J.shape}, but c has {m} and g has {n} entries.")
        for name in ("lower", "upper"):
            if getattr(self, name).numel() != m:
                raise ValueError(f"Evaluation: {name} has {getattr(self, name).numel()} entries, but c has {m}.")

    def _check_values(self) -> None:
        if not math.isfinite(self.f):
            raise NotFiniteError(f"Evaluation: f is {self.f}; check the model's outputs and the step that led here.")
        _require_finite("g", self.g)
        _require_finite("c", self.c)
        _require_finite("J (rows)", self.J.rows)
        _require_finite("J (basis)", self.J.basis)
        # `~(a <= b)` instead of `a > b`, so that NaN bounds are rejected too.
        bad = ~(self.lower <= self.upper) | (self.lower == math.inf) | (self.upper == -math.inf)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(
                f"Evaluation: the bounds of row {row} are [{float(self.lower[row])}, {float(self.upper[row])}]; "
                "lower must not exceed upper, and a missing side is -inf below or inf above."
            )

    @cached_property
    def violation(self) -> float:
        """Return the ℓ1 violation v(c): the sum of the distances of c from its intervals."""
        return violation(self.c, self.lower, self.upper)


@runtime_checkable
class Problem(Protocol):
    """A deterministic nonlinear program, for solvers that evaluate all of it in every iteration."""

    def initial_point(self) -> Tensor:
        """Return the flat float64 vector to start from."""
        ...

    def evaluate(self, w: Tensor) -> Evaluation:
        """Return values and first derivatives at w."""
        ...

    def values(self, w: Tensor) -> tuple[float, Tensor]:
        """Return objective and constraint values at w, without derivatives."""
        ...
