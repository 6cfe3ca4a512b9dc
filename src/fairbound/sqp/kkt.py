"""Residuals of the optimality (KKT) conditions of min f(w) subject to lower ≤ c(w) ≤ upper.

With multipliers y (positive on the upper side, negative on the lower side) and s = max(1, ‖g‖∞):

    stationarity     ‖g + Jᵀy‖∞ / s
    violation        max over rows of (distance of c from its interval) / max(1, |nearest bound|)
    complementarity  max over rows of |y| · (slack of c at the bound that the sign of y refers to) / s

If that bound is infinite, the complementarity of the row is |y| / s.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from fairbound.sqp.merit import violations
from fairbound.sqp.problem import Evaluation


@dataclass(frozen=True)
class KKTResiduals:
    """Scaled residuals of the three conditions; the solvers compare `largest` with their tolerance."""

    stationarity: float
    violation: float
    complementarity: float

    @property
    def largest(self) -> float:
        """Return the largest of the three residuals."""
        return max(self.stationarity, self.violation, self.complementarity)

    def as_dict(self) -> dict[str, float]:
        """Return the residuals as plain numbers, for tables and JSON."""
        return asdict(self)


def kkt_residuals(evaluation: Evaluation, y: Tensor) -> KKTResiduals:
    """Return the residuals at the point of `evaluation` with the multipliers `y` of shape (m,).

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
    scaled_violations = violations(c, lower, upper) / nearest.abs().clamp_min(1.0)
    bound = torch.where(y > 0, upper, lower)
    slack = torch.where(y > 0, upper - c, c - lower).clamp_min(0.0)
    products = torch.where(torch.isfinite(bound), y.abs() * slack, y.abs())
    # 0 · inf is NaN: a zero multiplier is complementary, whatever the slack.
    products = torch.where(y == 0, torch.zeros_like(products), products)
    return KKTResiduals(stationarity, float(scaled_violations.max()), float(products.max()) / scale)
