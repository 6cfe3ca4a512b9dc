"""Residuals of the optimality (KKT) conditions of min f(w) subject to lower ≤ c(w) ≤ upper.

With multipliers y (positive on the upper side, negative on the lower side) and s = max(1, ‖g‖∞):

    stationarity     ‖g + Jᵀy‖∞ / s
    violation        max over rows of (distance of c from its interval) / max(1, |nearest bound|)
    complementarity  max over rows of |y| · (distance of c inside its interval from the bound y pushes on) / s

A multiplier on a side that does not exist counts in full in the complementarity.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from fairbound.sqp.merit import violations
from fairbound.sqp.problem import Evaluation


@dataclass(frozen=True)
class KKTResiduals:
    """Scaled residuals of the three conditions; `largest` is the residual that the solvers compare with a tolerance."""

    stationarity: float
    violation: float
    complementarity: float

    @property
    def largest(self) -> float:
        """Largest of the three."""
        return max(self.stationarity, self.violation, self.complementarity)

    def as_dict(self) -> dict[str, float]:
        """Plain numbers, for tables and JSON."""
        return asdict(self)


def kkt_residuals(evaluation: Evaluation, y: Tensor) -> KKTResiduals:
    """Residuals at the point of `evaluation` with the multipliers `y` of shape (m,).

    Examples
    --------
    The minimiser of ½w² subject to w ≥ 1 is w = 1, with the multiplier −1.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> at_optimum = Evaluation(f=0.5, g=one, c=one, J=torch.ones(1, 1), lower=one, upper=one * torch.inf)
    >>> kkt_residuals(at_optimum, -one).largest
    0.0
    """
    if y.shape != evaluation.c.shape:
        raise ValueError(f"kkt_residuals: y has shape {tuple(y.shape)}, but c has {tuple(evaluation.c.shape)}.")
    g, c, lower, upper = evaluation.g, evaluation.c, evaluation.lower, evaluation.upper
    scale = max(1.0, float(g.abs().max())) if g.numel() else 1.0
    gradient = g + evaluation.J.transpose_product(y) if c.numel() else g
    stationarity = float(gradient.abs().max()) / scale if g.numel() else 0.0
    if not c.numel():
        return KKTResiduals(stationarity, 0.0, 0.0)
    nearest = torch.where(c > upper, upper, torch.where(c < lower, lower, torch.zeros_like(c)))
    beyond = violations(c, lower, upper) / nearest.abs().clamp_min(1.0)
    bound = torch.where(y > 0, upper, lower)
    inside = torch.where(y > 0, upper - c, c - lower).clamp_min(0.0)
    forces = torch.where(torch.isfinite(bound), y.abs() * inside, y.abs())
    forces = torch.where(y == 0, torch.zeros_like(forces), forces)
    return KKTResiduals(stationarity, float(beyond.max()), float(forces.max()) / scale)
