"""Diagonal matrices H for the QP, updated from gradients (paper, Algorithm 1, line "Choose H_k").

    identity      H = I
    adagrad       H = diag √(Σ g² + damping · mean(Σ g²)), the sum over all gradients so far
    exponential   H = diag √(E + damping), E ← decay · E + (1 − decay) · g², E₀ = 0

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

import numpy as np

from fairbound.sqp.problem import Array


class Hessian(ABC):
    """Base class of diagonal matrices H that are updated from the gradients of the objective."""

    @abstractmethod
    def update(self, g: Array) -> None:
        """Update H with the gradient of one iteration."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Diagonal of H, of shape (n,) or ()."""

    def solve(self, V: Array) -> Array:
        """H⁻¹V for every row of V."""
        return V / self.diagonal()

    def product(self, d: Array) -> Array:
        """H d."""
        return d * self.diagonal()


class Identity(Hessian):
    """H = I.

    Examples
    --------
    >>> Identity().solve(np.array([2.0, 4.0]))
    array([2., 4.])
    """

    def update(self, g: Array) -> None:
        """Do nothing: the identity has no state."""

    def diagonal(self) -> Array:
        """Return 1."""
        return np.ones(())


class _Accumulated(Hessian):
    """A diagonal H computed from accumulated squared gradients of shape (n,)."""

    def __init__(self) -> None:
        self._squares: Array | None = None

    @abstractmethod
    def _accumulate(self, squares: Array, g: Array) -> Array:
        """Return the new accumulator from the old one and a gradient."""

    def update(self, g: Array) -> None:
        """Add the squared gradient to the accumulator."""
        squares = np.zeros_like(g) if self._squares is None else self._squares
        if squares.shape != g.shape:
            raise ValueError(
                f"{type(self).__name__}.update: the gradient has {g.size} entries, earlier ones had "
                f"{squares.size}; use a new Hessian for a new model."
            )
        self._squares = self._accumulate(squares, g)

    def _accumulator(self) -> Array:
        if self._squares is None:
            raise ValueError(f"{type(self).__name__}: call update(g) once before solve or product.")
        return self._squares


class Adagrad(_Accumulated):
    """H = diag √(Σ g² + damping · mean(Σ g²)).

    Parameters
    ----------
    damping : float
        Share of the mean accumulator added to each entry, above 0.

    Examples
    --------
    >>> hessian = Adagrad(damping=1.0)
    >>> hessian.update(np.array([1.0, 3.0]))
    >>> hessian.product(np.array([1.0, 1.0]))
    array([2.44948974, 3.74165739])
    """

    def __init__(self, damping: float = 0.01) -> None:
        super().__init__()
        if not 0.0 < damping < math.inf:
            raise ValueError(f"Adagrad(damping={damping!r}): must be a finite number above 0, for example 0.01.")
        self.damping = damping

    def _accumulate(self, squares: Array, g: Array) -> Array:
        return squares + np.square(g)

    def diagonal(self) -> Array:
        """Return the square root of the damped accumulator."""
        squares = self._accumulator()
        level = self.damping * squares.mean()
        if not float(level) > 0.0:
            # All gradients were zero so far.  Any positive H is valid; use the identity.
            return np.ones_like(squares)
        return np.sqrt(squares + level)


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
    >>> hessian.update(np.array([0.0, 4.0]))
    >>> hessian.product(np.array([1.0, 1.0]))
    array([1., 3.])
    """

    def __init__(self, decay: float = 0.999, damping: float = 100.0, *, corrected: bool = False) -> None:
        super().__init__()
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"ExponentialAverage(decay={decay!r}): must be at least 0 and below 1, for example 0.999.")
        if not 0.0 < damping < math.inf:
            raise ValueError(
                f"ExponentialAverage(damping={damping!r}): must be a finite number above 0, for example 100."
            )
        self.decay = decay
        self.damping = damping
        self.corrected = corrected
        self._updates = 0

    def _accumulate(self, squares: Array, g: Array) -> Array:
        self._updates += 1
        return self.decay * squares + (1.0 - self.decay) * np.square(g)

    def diagonal(self) -> Array:
        """Return the square root of the damped average."""
        average = self._accumulator()
        if self.corrected:
            average = average / (1.0 - self.decay**self._updates)
        return np.sqrt(average + self.damping)
