"""A threshold by quota: the bias of a linear model is moved so that a stated share of the rows is selected.

The rows are ordered by score, and as many of the best are selected as the quota allows.  Rows of equal score are
selected together, or not at all, because a threshold cannot divide them.
"""

from __future__ import annotations

import numpy as np

from fairbound._errors import InputError
from fairbound.fairness import logit
from fairbound.training.chunks import Floats
from fairbound.training.model import LinearModel
from fairbound.training.stage import Stage

TIED = 1e-9
"""Scores of double precision whose relative distance is at most this are equal up to rounding."""


def quota_threshold(z: Floats, weights: Floats, share: float, tied: float = TIED) -> float:
    """Return the least threshold above which rows of at most this share of the weight lie, in the middle of its gap.

    >>> quota_threshold(np.array([0.5, 3.0, 1.0, 2.0]), np.ones(4), 0.5)
    1.5
    >>> quota_threshold(np.array([0.0, 2.0, 2.0, 2.0]), np.ones(4), 0.5)
    3.0
    """
    order = np.argsort(-z, kind="stable")
    z, total = z[order], np.cumsum(weights[order])
    most = int(np.searchsorted(total, share * total[-1] * (1.0 + 1e-9), side="right"))
    if most == len(z):
        return float(z[-1] - 1.0)
    falls = np.flatnonzero(z[:most] - z[1 : most + 1] > tied * np.maximum(1.0, np.abs(z[:most])))
    return float(0.5 * (z[falls[-1]] + z[falls[-1] + 1])) if len(falls) else float(z[0] + 1.0)


def at_quota(stage: Stage, w: Floats, share: float) -> Floats:
    """Return parameters of a stage with the bias at which this share of the rows is selected."""
    problem = stage.problem
    if not isinstance(problem.model, LinearModel) or problem.model.n_outputs != 1:
        raise InputError(
            "{select=} needs two classes and a model whose last layer is linear with a bias, which sets the threshold.",
            "Leave it out, or give the network such a layer.",
        )
    problem.assign(w)
    found = [(z[:, 0].astype(np.float64), chunk.cell_weights) for chunk, z in problem.logits(stage.rows)]
    z, weights = (problem.passes.join(np.concatenate(each)) for each in zip(*found, strict=True))
    tied = TIED if problem.model.dtype == np.float64 else 1e-5
    moved = w.copy()
    moved[-1] += logit(problem.threshold) - quota_threshold(z, weights, share, tied)
    return moved
