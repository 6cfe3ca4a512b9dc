"""Losses of single rows of a regression: squared, absolute, and those of quantiles; targets are numbers.

Conventions
-----------
z : predictions (n, 1).    targets, values : (n,).    derivatives : (n, 1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fairbound._errors import bad_value

Array = NDArray[Any]


@dataclass(frozen=True)
class SquaredError:
    """(z − y)² of a regression."""

    degree: ClassVar[int] = 2

    def values(self, z: Array, targets: Array) -> Array:
        """Return the loss of each row, (n,)."""
        return np.square(z[:, 0] - targets)

    def derivatives(self, z: Array, targets: Array) -> Array:
        """Return the derivative of each row's loss with respect to its prediction, (n, 1)."""
        return 2.0 * (z - targets[:, None])

    def second_derivatives(self, z: Array, targets: Array) -> Array:  # noqa: ARG002
        """Return the second derivatives, (n, 1, 1)."""
        return np.full((*z.shape, 1), 2.0)

    def constant(self, targets: Array, weights: Array) -> float:
        """Return the constant prediction of the least loss, the mean."""
        return float(np.average(targets, weights=weights))


@dataclass(frozen=True)
class QuantileError:
    """The pinball loss: q·(y − z) below the target, (1 − q)·(z − y) above; twice that of ½ is the absolute error.

    The kink has a width in training, where the loss is q·u + width · softplus(−u / width) with u = y − z.
    """

    quantile: float
    factor: float = 1.0
    width: float = 0.05
    degree: ClassVar[int] = 1

    def exact(self, z: Array, targets: Array) -> Array:
        """Return the loss of each row without the width, (n,)."""
        u = targets - z[:, 0]
        return self.factor * np.maximum(self.quantile * u, (self.quantile - 1.0) * u)

    def values(self, z: Array, targets: Array) -> Array:
        """Return the loss of each row, (n,)."""
        u = targets - z[:, 0]
        return self.factor * (self.quantile * u + self.width * np.logaddexp(0.0, -u / self.width))

    def derivatives(self, z: Array, targets: Array) -> Array:
        """Return the derivative of each row's loss with respect to its prediction, (n, 1)."""
        return (self.factor * (special.expit((z[:, 0] - targets) / self.width) - self.quantile))[:, None]

    def second_derivatives(self, z: Array, targets: Array) -> Array:
        """Return the second derivatives, (n, 1, 1)."""
        p = special.expit((z[:, 0] - targets) / self.width)
        return (self.factor / self.width * p * (1.0 - p))[:, None, None]

    def constant(self, targets: Array, weights: Array) -> float:
        """Return the constant prediction of the least loss, a quantile."""
        order = np.argsort(targets, kind="stable")
        total = np.cumsum(weights[order])
        return float(targets[order][np.searchsorted(total, self.quantile * total[-1])])


RegressionLoss = SquaredError | QuantileError


def regression_loss(name: Any) -> RegressionLoss:
    """Return the loss "squared", "absolute" or "quantile(0.9)".

    >>> regression_loss("quantile(0.9)").quantile
    0.9
    """
    if name == "squared":
        return SquaredError()
    if name == "absolute":
        return QuantileError(0.5, factor=2.0)
    found = re.fullmatch(r"quantile\((0?\.\d+)\)", name) if isinstance(name, str) else None
    if found is None or not 0.0 < float(found[1]) < 1.0:
        raise bad_value("loss", name, 'squared, absolute, or a quantile such as "quantile(0.9)"')
    return QuantileError(float(found[1]))
