"""Losses of single rows from logits, with their derivatives.

    binary_cross_entropy   softplus(z) − y z                  cross_entropy   log Σ exp z_j − z_y
    hinge                  max{0, 1 − (2y − 1) z}; with classes max{0, 1 − (z_y − max_{j≠y} z_j)}

The losses of a regression have real targets in place of labels: squared, absolute, and those of quantiles.

Conventions
-----------
z : logits (n, D), D = 1 for two classes, in the precision of the model.    labels : int64 (n,).
values : (n,).    derivatives : (n, D).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fairbound._errors import bad_value, need_torch
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
