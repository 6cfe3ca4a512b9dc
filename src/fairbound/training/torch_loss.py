"""A loss that the user gives as a function of tensors, which autograd differentiates."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbound.training.losses import LossFunction


class TorchLoss:
    """A loss given by the user.

    It is called like torch's losses with `reduction="none"`: with logits (n,) and float labels for two classes, with
    logits (n, C) and class indices for more.
    """

    def __init__(self, function: LossFunction) -> None:
        self.function = function

    def values(self, z: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[Any]:
        """Return the loss of each row, (n,)."""
        return self._values(torch.from_numpy(z), labels).detach().numpy()

    def derivatives(self, z: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[Any]:
        """Return the derivative of each row's loss with respect to its logits, (n, D)."""
        with torch.enable_grad():
            leaf = torch.from_numpy(z).requires_grad_(True)
            values = self._values(leaf, labels)
            if not values.requires_grad:
                raise ValueError(
                    "The loss has no gradient: compute it from the logits by torch operations, without detach or numpy."
                )
            (gradient,) = torch.autograd.grad(values.sum(), leaf)
        return gradient.numpy()

    def _values(self, z: Tensor, labels: NDArray[np.int64]) -> Tensor:
        y = torch.from_numpy(labels)
        values = self.function(z[:, 0], y.to(z.dtype)) if z.shape[1] == 1 else self.function(z, y)
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
