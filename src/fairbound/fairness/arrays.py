"""One formula for numpy arrays, on which decisions are counted, and for tensors, on which a model is trained.

Arithmetic, indexing, `@`, `reshape`, `clip` and `sum(axis=...)` read the same for both.  What does not is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fairbound._torch import torch

Array: TypeAlias = Any
"""A numpy array or a tensor; all arrays of one object are of the same kind."""


def like(array: np.ndarray, example: Array) -> Array:
    """Return a numpy array as a tensor if the example is one; both share their memory."""
    return array if isinstance(example, np.ndarray) else torch.from_numpy(array)


def concatenate(parts: Sequence[Array]) -> Array:
    """Join arrays along their last axis."""
    return np.concatenate(parts, axis=-1) if isinstance(parts[0], np.ndarray) else torch.cat(list(parts), dim=-1)
