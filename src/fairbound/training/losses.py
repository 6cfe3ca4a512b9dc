"""Losses of single rows from logits, with their derivatives.

    binary_cross_entropy   softplus(z) − y z                  cross_entropy   log Σ exp z_j − z_y
    hinge                  max{0, 1 − (2y − 1) z}; with classes max{0, 1 − (z_y − max_{j≠y} z_j)}

Those of a regression are in `fairbound.fairness`, because limits can be about them.

Conventions
-----------
z : logits (n, D), D = 1 for two classes, in the precision of the model.    labels : int64 (n,).
values : (n,).    derivatives : (n, D).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import need_torch
from fairbound._words import lookup
from fairbound.fairness import softmax

Array = NDArray[Any]
Labels = NDArray[np.int64]
LossFunction = Callable[[Any, Any], Any]
"""Maps logits and labels, both tensors, to one value per row, as torch's losses do with `reduction="none"`."""


class RowLoss(Protocol):
    """A loss of single rows, with its derivative."""

    def values(self, z: Array, labels: Labels) -> Array:
        """Return the loss of each row, (n,)."""
        ...

    def derivatives(self, z: Array, labels: Labels) -> Array:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        ...


def _margins(z: Array, labels: Labels) -> tuple[Array, Array]:
    """Return the sign 2y − 1 of each row, and the logit times the sign, both (n,)."""
    sign = (2 * labels - 1).astype(z.dtype)
    return sign, sign * z[:, 0]


class CrossEntropy:
    """Cross-entropy from logits, binary or softmax."""

    def values(self, z: Array, labels: Labels) -> Array:
        """Return the loss of each row, (n,)."""
        if z.shape[1] == 1:
            # Equal to softplus(z) − y z, but without its cancellation for large z.
            _, t = _margins(z, labels)
            return np.maximum(-t, 0.0) + np.log1p(np.exp(-np.abs(t)))
        top = z.max(axis=1)
        own = np.take_along_axis(z, labels[:, None], axis=1)[:, 0]
        return np.log(np.exp(z - top[:, None]).sum(axis=1)) - (own - top)

    def derivatives(self, z: Array, labels: Labels) -> Array:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        if z.shape[1] == 1:
            sign, t = _margins(z, labels)
            e = np.exp(-np.abs(t))
            return (-sign * np.where(t > 0, e, 1.0) / (1.0 + e))[:, None]  # σ(z) − y, without its cancellation
        return softmax(z) - np.eye(z.shape[1], dtype=z.dtype)[labels]

    def second_derivatives(self, z: Array, labels: Labels) -> Array:  # noqa: ARG002  (as losses of targets)
        """Return the second derivatives of each row's loss with respect to its logits, (n, D, D)."""
        if z.shape[1] == 1:
            e = np.exp(-np.abs(z))
            return (e / (1.0 + e) ** 2)[:, :, None]
        p = softmax(z)
        return np.eye(z.shape[1]) * p[:, :, None] - p[:, :, None] * p[:, None, :]


class Hinge:
    """Hinge loss.  With more than two classes, the margin is the logit of the own class minus the best other logit."""

    def values(self, z: Array, labels: Labels) -> Array:
        """Return the loss of each row, (n,)."""
        if z.shape[1] == 1:
            return np.maximum(1.0 - _margins(z, labels)[1], 0.0)
        own, rival = (np.take_along_axis(z, each[:, None], axis=1)[:, 0] for each in (labels, self._rival(z, labels)))
        return np.maximum(1.0 - own + rival, 0.0)

    def derivatives(self, z: Array, labels: Labels) -> Array:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        inside = (self.values(z, labels) > 0)[:, None].astype(z.dtype)
        if z.shape[1] == 1:
            return -_margins(z, labels)[0][:, None] * inside
        unit = np.eye(z.shape[1], dtype=z.dtype)
        return inside * (unit[self._rival(z, labels)] - unit[labels])

    @staticmethod
    def _rival(z: Array, labels: Labels) -> Labels:
        others = z.copy()
        np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
        return others.argmax(axis=1)


LOSSES: dict[str, RowLoss] = {
    "binary_cross_entropy": CrossEntropy(),
    "cross_entropy": CrossEntropy(),
    "hinge": Hinge(),
}


def resolve_loss(loss: str | RowLoss | LossFunction) -> RowLoss:
    """Return the loss of that name, the `RowLoss` itself, or a function of tensors, which torch differentiates."""
    if isinstance(loss, str):
        return lookup(LOSSES, loss, "loss")
    if hasattr(loss, "values") and hasattr(loss, "derivatives"):
        return loss
    if not callable(loss):
        raise TypeError(
            f"loss={loss!r} must be a name ({', '.join(sorted(LOSSES))}) or a function of (logits, labels)."
        )
    need_torch("A loss function of your own needs")
    from fairbound.training.torch_loss import TorchLoss

    return TorchLoss(loss)
