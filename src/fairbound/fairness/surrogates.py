"""Surrogates φ of the step function, and the step itself (paper, section "Smooth, Nonconvex, and Accurate Surrogates").

A decision is ŷ = 1{t > 0} for a margin t.  A surrogate replaces the indicator by a function with useful derivatives,

    ŷ ≈ φ(scale · t).

A larger scale brings it closer to the step.  Each surrogate has its formula, its derivative, and properties such as
`bounded`.  Code and tests use these properties, never class names.

Conventions
-----------
t : array of any shape, the margin.  `value` and `derivative` are taken with respect to t, scale included.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fairbound._words import lookup

Array = NDArray[Any]


def sigmoid(z: Array) -> Array:
    """Return σ(z) = ½ + ½ tanh(z/2), which numpy computes many times faster than 1 / (1 + exp(−z))."""
    return 0.5 + 0.5 * np.tanh(0.5 * z)


@dataclass(frozen=True)
class Surrogate(ABC):
    """Base class of the surrogates of the step function 1{t > 0}.

    Parameters
    ----------
    scale : float
        Factor on the margin; larger is closer to the step.  The paper's experiments use 50.

    Attributes
    ----------
    codomain : tuple of float
        Range of the values.
    asymmetry : float
        Bound on |φ(t) + φ(−t) − 1|: 0 if φ is symmetric about (0, ½), infinite if φ is unbounded.
    smooth : bool
        Whether φ is continuously differentiable.
    """

    scale: float = 50.0

    name: ClassVar[str]
    smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for field in fields(self):
            number = getattr(self, field.name)
            if not isinstance(number, Real) or isinstance(number, bool) or not 0.0 < float(number) < math.inf:
                raise ValueError(
                    f"{type(self).__name__}({field.name}={number!r}): must be a finite number above 0, "
                    f"for example {field.default:g}."
                )
            object.__setattr__(self, field.name, float(number))

    @property
    def codomain(self) -> tuple[float, float]:
        """Return the smallest known interval that contains all values."""
        return (0.0, 1.0)

    @property
    def asymmetry(self) -> float:
        """Return a bound on |φ(t) + φ(−t) − 1|; unbounded values are not symmetric about ½."""
        return 0.0 if self.bounded else math.inf

    @property
    def bounded(self) -> bool:
        """Return whether the values are in a finite interval; Theorem 1 applies only then."""
        return all(math.isfinite(end) for end in self.codomain)

    def value(self, t: Array) -> Array:
        """Return φ(scale · t)."""
        return self._value(self.scale * t)

    def derivative(self, t: Array) -> Array:
        """Return the derivative of φ(scale · t) with respect to t."""
        return self.scale * self._derivative(self.scale * t)

    def value_and_derivative(self, t: Array) -> tuple[Array, Array]:
        """Return both; subclasses may share work between them."""
        return self.value(t), self.derivative(t)

    def second_derivative(self, t: Array) -> Array:
        """Return the second derivative of φ(scale · t) with respect to t, if the surrogate has one."""
        raise TypeError(f"{type(self).__name__} has no second derivative at {t}: use NormalStep.")

    @abstractmethod
    def _value(self, u: Array) -> Array: ...

    @abstractmethod
    def _derivative(self, u: Array) -> Array: ...


def _smooth_positive_part(u: Array, smoothing: float) -> tuple[Array, Array]:
    """Return ½(u + √(u² + μ)) ≈ max{u, 0} and the root √(u² + μ); value / root is the derivative."""
    root = np.sqrt(u * u + smoothing)
    return 0.5 * (u + root), root


@dataclass(frozen=True)
class SmoothedStep(Surrogate):
    """The paper's φ_μ: min{max{0, u + ½}, 1} with both maxima smoothed by max{u, 0} ≈ ½(u + √(u² + μ)).

    It falls to about −μ/4 at −∞, and is symmetric about (0, ½) only up to μ/4.
    """

    smoothing: float = 1e-4
    name: ClassVar[str] = "smoothed_step"

    @property
    def codomain(self) -> tuple[float, float]:
        """Return [−μ/4, 1]: at −∞ the inner maximum is 0, and 1 − ½(1 + √(1 + μ)) is just above −μ/4."""
        return (-self.smoothing / 4, 1.0)

    @property
    def asymmetry(self) -> float:
        """Return μ/4, which is nearly attained for large |t|, where φ is 1 on one side and −μ/4 on the other."""
        return self.smoothing / 4

    def value_and_derivative(self, t: Array) -> tuple[Array, Array]:
        """Return φ_μ and its derivative from the same two roots."""
        inner, inner_root = _smooth_positive_part(self.scale * t + 0.5, self.smoothing)
        outer, outer_root = _smooth_positive_part(1.0 - inner, self.smoothing)
        # A smoothed maximum m(u) = ½(u + root) has the derivative ½(1 + u/root) = m/root.  φ(u) = 1 − m(1 − m(u)), so
        # the two minus signs of the chain rule cancel: φ' = (outer/outer_root) · (inner/inner_root).
        return 1.0 - outer, self.scale * outer * inner / (inner_root * outer_root)

    def _value(self, u: Array) -> Array:
        inner, _ = _smooth_positive_part(u + 0.5, self.smoothing)
        outer, _ = _smooth_positive_part(1.0 - inner, self.smoothing)
        return 1.0 - outer

    def _derivative(self, u: Array) -> Array:
        return self.value_and_derivative(u / self.scale)[1] / self.scale


@dataclass(frozen=True)
class PiecewiseAffineStep(Surrogate):
    """min{max{0, u + ½}, 1}, the limit of the smoothed step for μ → 0."""

    name: ClassVar[str] = "piecewise_affine"
    smooth: ClassVar[bool] = False

    def _value(self, u: Array) -> Array:
        return np.clip(u + 0.5, 0.0, 1.0)

    def _derivative(self, u: Array) -> Array:
        return (np.abs(u) < 0.5).astype(u.dtype)


@dataclass(frozen=True)
class Sigmoid(Surrogate):
    """σ(u) = 1 / (1 + exp(−u))."""

    name: ClassVar[str] = "sigmoid"

    def _value(self, u: Array) -> Array:
        return special.expit(u)

    def _derivative(self, u: Array) -> Array:
        return special.expit(u) * special.expit(-u)


@dataclass(frozen=True)
class NormalStep(Surrogate):
    """Φ(u), the distribution function of the standard normal.

    Φ(t / h) is the decision of a row whose margin is known up to normal noise of standard deviation h, its *bandwidth*.
    So a sum of it over rows is a kernel estimate of the number of rows that are selected.
    """

    name: ClassVar[str] = "normal"

    def second_derivative(self, t: Array) -> Array:
        """Return the second derivative of φ(scale · t) with respect to t: −u · density(u) · scale²."""
        u = self.scale * t
        return (-self.scale * self.scale) * u * self._derivative(u)

    def _value(self, u: Array) -> Array:
        return special.ndtr(u)

    def _derivative(self, u: Array) -> Array:
        return (1.0 / math.sqrt(2.0 * math.pi)) * np.exp(-0.5 * u * u)


@dataclass(frozen=True)
class Tanh(Surrogate):
    """½(1 + tanh u), the hyperbolic tangent mapped to [0, 1]."""

    name: ClassVar[str] = "tanh"

    def _value(self, u: Array) -> Array:
        return 0.5 * (1.0 + np.tanh(u))

    def _derivative(self, u: Array) -> Array:
        return 2.0 * special.expit(2.0 * u) * special.expit(-2.0 * u)  # equal to ½(1 − tanh²u), without cancellation


@dataclass(frozen=True)
class Linear(Surrogate):
    """φ(u) = u, the covariance proxy of Theorem 2.

    With `margin="logit"` and a linear model the constraint is convex.  φ is unbounded, so it bounds no rate.
    """

    scale: float = 1.0
    name: ClassVar[str] = "linear"

    @property
    def codomain(self) -> tuple[float, float]:
        """Return all real numbers."""
        return (-math.inf, math.inf)

    def _value(self, u: Array) -> Array:
        return u.copy()

    def _derivative(self, u: Array) -> Array:
        return np.ones_like(u)


@dataclass(frozen=True)
class Max(Surrogate):
    """max{u, 0}: convex, unbounded above."""

    scale: float = 1.0
    name: ClassVar[str] = "max"
    smooth: ClassVar[bool] = False

    @property
    def codomain(self) -> tuple[float, float]:
        """Zero and above."""
        return (0.0, math.inf)

    def _value(self, u: Array) -> Array:
        return np.maximum(u, 0.0)

    def _derivative(self, u: Array) -> Array:
        return (u > 0).astype(u.dtype)


@dataclass(frozen=True)
class ExactStep(Surrogate):
    """1{u > 0}, the step itself.  Its derivative is zero, so it can measure but not train."""

    scale: float = 1.0
    name: ClassVar[str] = "exact"
    smooth: ClassVar[bool] = False

    @property
    def asymmetry(self) -> float:
        """Return 1.  It is attained only at u = 0, where φ(u) = φ(−u) = 0; elsewhere φ is symmetric."""
        return 1.0

    def _value(self, u: Array) -> Array:
        return (u > 0).astype(u.dtype)

    def _derivative(self, u: Array) -> Array:
        return np.zeros_like(u)


SURROGATES: dict[str, type[Surrogate]] = {
    surrogate.name: surrogate
    for surrogate in (SmoothedStep, PiecewiseAffineStep, Sigmoid, NormalStep, Tanh, Linear, Max, ExactStep)
}


def resolve_surrogate(surrogate: str | Surrogate) -> Surrogate:
    """Return the surrogate of that name with its default scale, or the `Surrogate` itself.

    >>> resolve_surrogate("sigmoid")
    Sigmoid(scale=50.0)
    """
    if isinstance(surrogate, Surrogate):
        return surrogate
    return lookup(SURROGATES, surrogate, "surrogate")()
