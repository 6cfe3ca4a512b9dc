"""Losses of single rows from logits with their derivatives, and regularisers.

    binary_cross_entropy   softplus(z) − y z                  cross_entropy   log Σ exp z_j − z_y
    hinge                  max{0, 1 − (2y − 1) z}; with classes max{0, 1 − (z_y − max_{j≠y} z_j)}

Conventions
-----------
z : logits (n, D), D = 1 for two classes, in the precision of the module.    labels : int64 (n,).
values : (n,).    derivatives : (n, D).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from fairbound._words import lookup
from fairbound.fairness import Constraint, Measure, Surrogate, resolve_measure

LossFunction = Callable[[Tensor, Tensor], Tensor]


class RowLoss(Protocol):
    """A loss of single rows, with its derivative."""

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (n,)."""
        ...

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        ...


def _signs(z: Tensor, labels: Tensor) -> Tensor:
    """Return 2y − 1 for labels 0 and 1, in the precision of z."""
    return labels.to(z.dtype).mul_(2.0).sub_(1.0)


class CrossEntropy:
    """Cross-entropy from logits, binary or softmax."""

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (n,)."""
        if z.shape[1] == 1:
            # Equal to softplus(z) − y z, but without its cancellation for large z; torch's softplus is also cut at 20.
            return -functional.logsigmoid(_signs(z, labels) * z[:, 0])
        return functional.cross_entropy(z, labels, reduction="none")

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        if z.shape[1] == 1:
            sign = _signs(z, labels)[:, None]
            return torch.sigmoid(-sign * z).mul_(-sign)  # equal to σ(z) − y, without its cancellation
        return torch.softmax(z, dim=1) - functional.one_hot(labels, z.shape[1])

    def second_derivatives(self, z: Tensor) -> Tensor:
        """Return the second derivatives of each row's loss with respect to its logits, (n, D, D)."""
        if z.shape[1] == 1:
            return (torch.sigmoid(z) * torch.sigmoid(-z))[:, :, None]
        p = torch.softmax(z, dim=1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


class Hinge:
    """Hinge loss.  With more than two classes, the margin is the logit of the own class minus the best other logit."""

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (n,)."""
        if z.shape[1] == 1:
            return (1.0 - _signs(z, labels) * z[:, 0]).clamp(min=0.0)
        own = z.gather(1, labels[:, None])[:, 0]
        return (1.0 - own + self._rival(z, labels).values).clamp(min=0.0)

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        inside = (self.values(z, labels) > 0)[:, None].to(z.dtype)
        if z.shape[1] == 1:
            return -_signs(z, labels)[:, None] * inside
        rival = functional.one_hot(self._rival(z, labels).indices, z.shape[1])
        return inside * (rival - functional.one_hot(labels, z.shape[1]))

    @staticmethod
    def _rival(z: Tensor, labels: Tensor) -> torch.return_types.max:
        return z.scatter(1, labels[:, None], -torch.inf).max(dim=1)


class CallableLoss:
    """A loss given by the user, which autograd differentiates.

    It is called like torch's losses with `reduction="none"`: with logits (n,) and float labels for two classes, with
    logits (n, C) and class indices for more.
    """

    def __init__(self, function: LossFunction) -> None:
        self.function = function

    def values(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (n,)."""
        values = self.function(z[:, 0], labels.to(z.dtype)) if z.shape[1] == 1 else self.function(z, labels)
        if not isinstance(values, Tensor):
            raise TypeError(
                f"The loss returned {type(values).__name__}: it must return a tensor with one value per row."
            )
        if values.shape != (len(z),):
            given = "(n,) and labels as floats" if z.shape[1] == 1 else f"(n, {z.shape[1]}) and labels as class indices"
            raise ValueError(
                f"The loss returned shape {tuple(values.shape)} for {len(z)} rows: it must return one value per row "
                f'(reduction="none" for the losses of torch.nn). It was called with logits of shape {given}.'
            )
        return values

    def derivatives(self, z: Tensor, labels: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        with torch.enable_grad():
            leaf = z.detach().requires_grad_(True)
            values = self.values(leaf, labels)
            if not values.requires_grad:
                raise ValueError(
                    "The loss has no gradient: compute it from the logits by torch operations, without detach or numpy."
                )
            (gradient,) = torch.autograd.grad(values.sum(), leaf)
        return gradient


LOSSES: dict[str, RowLoss] = {
    "binary_cross_entropy": CrossEntropy(),
    "cross_entropy": CrossEntropy(),
    "hinge": Hinge(),
}


def resolve_loss(loss: str | RowLoss | LossFunction) -> RowLoss:
    """Return the loss of that name, the `RowLoss` itself, or a function wrapped as a `RowLoss`."""
    if isinstance(loss, str):
        return lookup(LOSSES, loss, "loss")
    if hasattr(loss, "values") and hasattr(loss, "derivatives"):
        return loss
    if callable(loss):
        return CallableLoss(loss)
    raise TypeError(f"loss={loss!r} must be a name ({', '.join(sorted(LOSSES))}) or a function of (logits, labels).")


# --- regularizers ----------------------------------------------------------------------------------------------------

# Regularisers: terms r(w) that are added to the loss, as (1/λ)·r(w) in the paper's training problem.
#
#     SquaredMeasure   Σ_j q_j(w)², q the differences of rates by surrogate (r_dp of the paper for demographic parity)
#     L2               ½‖w‖²
#     SmoothedL1       Σ_i √(w_i² + μ) − √μ
#     LinearTerm       s · (w − o), for internal use: it cancels the gradient of the loss at o
#
# The paper's regularised variant is `SquaredMeasure("demographic_parity", weight=1 / lam)` without constraints.


def _check_weight(regularizer: object, weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"{type(regularizer).__name__}(weight={weight!r}): must be finite and not negative.")


@dataclass(frozen=True)
class L2:
    """weight · ½‖w‖², over all parameters or over those where `of` is 1."""

    weight: float = 1e-4
    of: Tensor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)

    def value(self, w: Tensor) -> float:
        """Return weight · r(w)."""
        return 0.5 * self.weight * float(w @ (w if self.of is None else self.of * w))

    def values(self, W: Tensor) -> Tensor:
        """Return weight · r(w) of each row w of W."""
        return 0.5 * self.weight * (W * W if self.of is None else self.of * W * W).sum(dim=1)

    def gradient(self, w: Tensor) -> Tensor:
        """Return weight · ∇r(w)."""
        return self.weight * (w if self.of is None else self.of * w)

    def curvature(self, w: Tensor) -> Tensor:
        """Return the diagonal of weight · ∇²r(w)."""
        return self.weight * (torch.ones_like(w) if self.of is None else self.of)


@dataclass(frozen=True)
class SmoothedL1:
    """weight · Σ_i (√(w_i² + smoothing) − √smoothing), which favours sparse parameters."""

    weight: float = 1e-4
    smoothing: float = 1e-6

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)
        if not (math.isfinite(self.smoothing) and self.smoothing > 0):
            raise ValueError(f"SmoothedL1(smoothing={self.smoothing!r}): must be finite and above 0.")

    def value(self, w: Tensor) -> float:
        """Return weight · r(w)."""
        return float(self.values(w[None]))

    def values(self, W: Tensor) -> Tensor:
        """Return weight · r(w) of each row w of W."""
        return self.weight * (torch.sqrt(W * W + self.smoothing) - math.sqrt(self.smoothing)).sum(dim=1)

    def gradient(self, w: Tensor) -> Tensor:
        """Return weight · ∇r(w)."""
        return self.weight * w / torch.sqrt(w * w + self.smoothing)

    def curvature(self, w: Tensor) -> Tensor:
        """Return the diagonal of weight · ∇²r(w)."""
        return self.weight * self.smoothing * (w * w + self.smoothing) ** -1.5


@dataclass(frozen=True)
class SquaredMeasure:
    """weight · Σ_j q_j², where q are the differences of the rates that the measure compares.

    A ratio measure, too, is penalised by the differences of its rates.  If q is estimated from a mini-batch, the
    expected value of its square exceeds q² by the variance of the estimate.  This variance is estimated from the two
    halves of the batch and subtracted.  So value and gradient are unbiased estimates if the rates are linear in the
    sums.
    """

    measure: str | Measure = "demographic_parity"
    weight: float = 1.0
    surrogate: str | Surrogate | None = None

    def __post_init__(self) -> None:
        _check_weight(self, self.weight)
        if resolve_measure(self.measure).comparison == "value":
            raise ValueError(
                f"SquaredMeasure({self.measure!r}): the rate of one group has no target to be close to; "
                "penalise a measure that compares groups, or limit the rate with a constraint."
            )

    def as_constraint(self) -> Constraint:
        """Return the differences q as the rows of a constraint without bounds."""
        return Constraint(None, measure=self.measure, surrogate=self.surrogate)


@dataclass(frozen=True)
class LinearTerm:
    """slope · (w − origin)."""

    slope: Tensor = field(repr=False, compare=False)
    origin: Tensor = field(repr=False, compare=False)

    def value(self, w: Tensor) -> float:
        """Return the term at w."""
        return float(self.slope @ (w - self.origin))

    def values(self, W: Tensor) -> Tensor:
        """Return the term at each row w of W."""
        return (W - self.origin) @ self.slope

    def gradient(self, w: Tensor) -> Tensor:  # noqa: ARG002 (it is the same everywhere)
        """Return the slope."""
        return self.slope

    def curvature(self, w: Tensor) -> Tensor:
        """Return 0 for each parameter."""
        return torch.zeros_like(w)


Regularizer = L2 | LinearTerm | SmoothedL1 | SquaredMeasure


def as_regularizers(stated: Any) -> tuple[Regularizer, ...]:
    """Return regularisers from objects or texts such as "demographic_parity * 2", "l1 * 0.001" and "l2 * 0.01".

    >>> as_regularizers("demographic_parity * 2")
    (SquaredMeasure(measure='demographic_parity', weight=2.0, surrogate=None),)
    """
    several = not isinstance(stated, str | L2 | SmoothedL1 | SquaredMeasure) and isinstance(stated, Iterable)
    found = [_parsed(each) if isinstance(each, str) else each for each in (stated if several else [stated])]
    for each in found:
        if not isinstance(each, L2 | SmoothedL1 | SquaredMeasure):
            raise TypeError(
                f"regularizers= has {each!r}: give SquaredMeasure(...), SmoothedL1(...) or L2(...), or a text such as "
                '"demographic_parity * 2".'
            )
    return tuple(found)


def _parsed(text: str) -> Regularizer:
    name, sign, weight = (part.strip() for part in text.partition("*"))
    try:
        size = float(weight) if sign else 1.0
    except ValueError as error:
        raise ValueError(
            f"regularizers= has {text!r}: write the weight, a number, after the *, as in {name!r} * 2."
        ) from error
    if name in ("l1", "l2"):
        return SmoothedL1(size) if name == "l1" else L2(size)
    return SquaredMeasure(name, size)
