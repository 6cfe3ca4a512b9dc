"""Losses per row, from logits, and their derivatives.

    binary_cross_entropy   softplus(z) − y z                  cross_entropy   log Σ exp z_j − z_y
    hinge                  max{0, 1 − (2y − 1) z}; with classes max{0, 1 − (z_y − max_{j≠y} z_j)}

Conventions
-----------
z : float64 logits (n, D), D = 1 for two classes.    labels : int64 (n,).    values : (n,).    derivatives : (n, D).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from fairbound._registry import lookup

LossFunction = Callable[[Tensor, Tensor], Tensor]


class Loss(Protocol):
    """A loss per row with its derivative."""

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        """Loss of each row, (n,)."""
        ...

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        """Derivative of each row's loss with respect to its logits, (n, D)."""
        ...


class CrossEntropy:
    """Cross-entropy from logits, binary or softmax."""

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        if z.shape[1] == 1:
            return functional.softplus(z[:, 0]) - labels * z[:, 0]
        return functional.cross_entropy(z, labels, reduction="none")

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        if z.shape[1] == 1:
            return torch.sigmoid(z) - labels[:, None]
        return torch.softmax(z, dim=1) - functional.one_hot(labels, z.shape[1])


class Hinge:
    """Hinge loss, binary or of the margin over the best rival."""

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        if z.shape[1] == 1:
            return (1.0 - (2 * labels - 1) * z[:, 0]).clamp(min=0.0)
        own = z.gather(1, labels[:, None])[:, 0]
        return (1.0 - own + self._rival(z, labels).values).clamp(min=0.0)

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        inside = (self.values(z, labels) > 0)[:, None].to(z.dtype)
        if z.shape[1] == 1:
            return -(2 * labels - 1)[:, None] * inside
        rival = functional.one_hot(self._rival(z, labels).indices, z.shape[1])
        return inside * (rival - functional.one_hot(labels, z.shape[1]))

    @staticmethod
    def _rival(z: Tensor, labels: Tensor) -> torch.return_types.max:
        return z.scatter(1, labels[:, None], -torch.inf).max(dim=1)


class CallableLoss:
    """A user's loss: called as torch's own with `reduction="none"`, differentiated by autograd.

    With two classes it gets logits (n,) and float labels, else logits (n, C) and class indices.
    """

    def __init__(self, function: LossFunction) -> None:
        self.function = function

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        if z.shape[1] == 1:
            values = self.function(z[:, 0], labels.to(z.dtype))
        else:
            values = self.function(z, labels)
        if values.shape != (len(z),):
            raise ValueError(
                f"The loss returned shape {tuple(values.shape)} for {len(z)} rows: it must return one value per row "
                '(reduction="none" for the losses of torch.nn).'
            )
        return values

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(self.values(leaf, labels).sum(), leaf)
        return gradient


LOSSES: dict[str, Loss] = {
    "binary_cross_entropy": CrossEntropy(),
    "cross_entropy": CrossEntropy(),
    "hinge": Hinge(),
}


def resolve_loss(loss: str | Loss | LossFunction) -> Loss:
    """Return the loss of that name, the instance itself, or a callable made differentiable."""
    if isinstance(loss, str):
        return lookup(LOSSES, loss, "loss")
    if hasattr(loss, "values") and hasattr(loss, "derivatives"):
        return loss
    if callable(loss):
        return CallableLoss(loss)
    raise TypeError(f"loss={loss!r} must be a name ({', '.join(sorted(LOSSES))}) or a function of (logits, labels).")
