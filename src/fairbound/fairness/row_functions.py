"""Functions of a row, beside the decision, whose sums over cells are limited: predictions, losses, rows above a value.

A limit on decisions has sums of 1{z > t}.  Every other limit here has sums of another function of the output z and the
target y of a row.  Then all rates, pairs of groups, derivatives and solvers are those of decisions.

Conventions
-----------
z : outputs (n, 1).    y : targets (n,).    values and exact : (n, 1).    derivatives : (1, n, 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness.surrogates import NormalStep, Surrogate, sigmoid

Array = NDArray[Any]


class RowFunction(ABC):
    """A function of the output and the target of a row, with derivatives by the output."""

    surrogate: Surrogate | None = None
    jumps: ClassVar[bool] = False  # whether the exact values do

    @abstractmethod
    def values_and_derivatives(self, z: Array, y: Any) -> tuple[Array, Array]:
        """Return the values, and their derivatives by z."""

    @abstractmethod
    def second_derivatives(self, z: Array, weights: Array, y: Any) -> Array:
        """Return weights · second derivative of each row, (n, 1, 1)."""

    def values(self, z: Array, y: Any) -> Array:
        """Return the values."""
        return self.values_and_derivatives(z, y)[0]

    def exact(self, z: Array, y: Any) -> Array:
        """Return the values that a limit is judged by."""
        return self.values(z, y)

    def smoothed(self, bandwidth: float) -> RowFunction:  # noqa: ARG002  (this one is smooth)
        """Return the function as a solver sees it."""
        return self


@dataclass(frozen=True)
class Prediction(RowFunction):
    """z itself, the prediction of a regression."""

    def values_and_derivatives(self, z: Array, y: Any) -> tuple[Array, Array]:  # noqa: ARG002  (as its siblings)
        """Return z and 1."""
        return z, np.ones_like(z)[None]

    def second_derivatives(self, z: Array, weights: Array, y: Any) -> Array:  # noqa: ARG002
        """Return zeros."""
        return np.zeros((*z.shape, 1))


@dataclass(frozen=True)
class Probability(RowFunction):
    """σ(z), the score of a classifier of two classes."""

    def values_and_derivatives(self, z: Array, y: Any) -> tuple[Array, Array]:  # noqa: ARG002
        """Return σ(z) and σ(z)(1 − σ(z))."""
        p = sigmoid(z)
        return p, (p * (1.0 - p))[None]

    def second_derivatives(self, z: Array, weights: Array, y: Any) -> Array:  # noqa: ARG002
        """Return weights · σ(1 − σ)(1 − 2σ)."""
        p = sigmoid(z)
        return (weights * p * (1.0 - p) * (1.0 - 2.0 * p))[:, :, None]


@dataclass(frozen=True)
class Above(RowFunction):
    """1{z > value}, smoothed by a bandwidth."""

    jumps: ClassVar[bool] = True

    value: float
    bandwidth: float = 1.0

    def values_and_derivatives(self, z: Array, y: Any) -> tuple[Array, Array]:  # noqa: ARG002
        """Return Φ((z − value) / bandwidth) and its derivative."""
        value, slope = self._step.value_and_derivative(z - self.value)
        return value, slope[None]

    def second_derivatives(self, z: Array, weights: Array, y: Any) -> Array:  # noqa: ARG002
        """Return weights · second derivative."""
        return (weights * self._step.second_derivative(z - self.value))[:, :, None]

    def exact(self, z: Array, y: Any) -> Array:  # noqa: ARG002
        """Return 1 for rows above the value."""
        return (z > self.value).astype(np.float64)

    def smoothed(self, bandwidth: float) -> Above:
        """Return the function with another bandwidth."""
        return Above(self.value, bandwidth)

    @property
    def _step(self) -> NormalStep:
        return NormalStep(1.0 / self.bandwidth)


@dataclass(frozen=True)
class RowLossOf(RowFunction):
    """The loss of a row: that of the training problem, which sets it."""

    loss: Any = None

    def values_and_derivatives(self, z: Array, y: Any) -> tuple[Array, Array]:
        """Return the smooth loss and its derivative."""
        return self.loss.values(z, y)[:, None], self.loss.derivatives(z, y)[None]

    def second_derivatives(self, z: Array, weights: Array, y: Any) -> Array:
        """Return weights · second derivative."""
        found: Array = weights[:, :, None] * self.loss.second_derivatives(z, y)
        return found

    def exact(self, z: Array, y: Any) -> Array:
        """Return the loss without smoothing."""
        found: Array = getattr(self.loss, "exact", self.loss.values)(z, y)
        return found[:, None]
