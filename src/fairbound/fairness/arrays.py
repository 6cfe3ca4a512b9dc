"""Helpers that let one formula serve numpy arrays (to count decisions) and tensors (to train a model).

Arithmetic, indexing, `@`, `reshape`, `clip` and `sum(axis=...)` are the same for both.  This module has what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fairbound._torch import torch

Array: TypeAlias = Any
"""A numpy array or a tensor; all arrays of one object have the same type."""


def like(array: np.ndarray, example: Array) -> Array:
    """Return a numpy array as a tensor if the example is a tensor; they share memory."""
    return array if isinstance(example, np.ndarray) else torch.from_numpy(array)


def concatenate(parts: Sequence[Array]) -> Array:
    """Join arrays along their last axis."""
    return np.concatenate(parts, axis=-1) if isinstance(parts[0], np.ndarray) else torch.cat(list(parts), dim=-1)
