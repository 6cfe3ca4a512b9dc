"""Positive definite matrices H for the QP (paper, Algorithm 1, line "Choose H_k"), used through H⁻¹V and Hd only.

    identity      H = I
    adagrad       H = diag √(Σ g² + damping · mean(Σ g²)), the sum over all gradients so far
    exponential   H = diag √(E + damping), E ← decay · E + (1 − decay) · g², E₀ = 0

The text of the paper names an Adagrad-type scheme; its experiments ran the exponential average with decay 0.999 and
damping 100.  The damping of `Adagrad` is relative to the mean, so that H scales with the objective.  Without damping, H
would be zero in a coordinate on which the objective does not depend, and the step could grow there without limit.

Conventions
-----------
V : (..., n), one vector in each row; d : (n,).
"""

from __future__ import annotations

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
    """Reject a state that does not have the keys of the owner's own; `other` says who else may have saved it."""
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
