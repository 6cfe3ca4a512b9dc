"""Residuals of the optimality (KKT) conditions of min f(w) subject to lower ≤ c(w) ≤ upper.

With multipliers y (positive on the upper side, negative on the lower side) and s = max(1, ‖g‖∞):

    stationarity     ‖g + Jᵀy‖∞ / s
    violation        max over rows of (distance of c from its interval) / max(1, |nearest bound|)
    complementarity  max over rows of |y| · (slack of c at the bound that the sign of y refers to) / s

If that bound is infinite, the complementarity of the row is |y| / s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairbound.sqp.problem import Array, Evaluation, violations


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
        return dict(vars(self))


def kkt_residuals(evaluation: Evaluation, y: Array) -> KKTResiduals:
    """Return the residuals at the point of `evaluation` with the multipliers `y` of shape (m,).

    Examples
    --------
    The minimiser of ½w² subject to w ≥ 1 is w = 1, with the multiplier −1.

    >>> at_optimum = Evaluation(f=0.5, g=[1.0], c=[1.0], J=[[1.0]], lower=[1.0], upper=[np.inf])
    >>> kkt_residuals(at_optimum, np.array([-1.0])).largest
    0.0
    """
    g, c, lower, upper = evaluation.g, evaluation.c, evaluation.lower, evaluation.upper
    if y.shape != c.shape:
        raise ValueError(f"kkt_residuals: y has shape {y.shape}, but c has {c.shape}.")
    scale = np.maximum.reduce(np.abs(g), initial=1.0)
    gradient = g + evaluation.J.transpose_product(y)
    stationarity = float(np.maximum.reduce(np.abs(gradient), initial=0.0) / scale)
    violation = 0.0
    if evaluation.violation > 0.0:
        nearest = np.where(c > upper, upper, np.where(c < lower, lower, 0.0))
        violation = float(np.max(violations(c, lower, upper) / np.maximum(np.abs(nearest), 1.0)))
    # A zero multiplier is complementary, whatever the slack.
    held = y.nonzero()[0]
    slack = np.where(y > 0.0, upper - c, c - lower)[held]
    products = np.abs(y[held]) * np.where(slack < np.inf, np.maximum(slack, 0.0), 1.0)
    return KKTResiduals(stationarity, violation, float(np.maximum.reduce(products, initial=0.0) / scale))
