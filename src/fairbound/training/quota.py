"""A threshold by quota: a stated share of the rows is selected, those of the largest score.

The threshold is set by the model without limits; from then on the bias is moved so that it selects the share again.  So
the loss still sees scores near their optimum, and the limits are kept by the selected.

The rows are ordered by score, and as many of the best are selected as the quota allows.  Rows of equal score are
selected together, or not at all, because a threshold cannot divide them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from fairbound._errors import InputError
from fairbound._sharing import joined
from fairbound.fairness import logit
from fairbound.training.chunks import Floats
from fairbound.training.model import LinearModel
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.stage import Stage

TIED = 1e-9
"""Scores of double precision whose relative distance is at most this are equal up to rounding."""


LEAST = 1e-9
"""The least distance of a threshold from 0 and 1."""


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
    moved = w.copy()
    moved[-1] += logit(problem.threshold) - _present_threshold(problem, stage.rows, share)
    return moved


def probability_at(problem: TrainingProblem, X: Any, share: float) -> float:
    """Return the probability above which the present model gives this share of the rows their positive label."""
    rows = X if isinstance(X, Rows) else problem.rows(X)
    return float(np.clip(special.expit(_present_threshold(problem, rows, share)), LEAST, 1.0 - LEAST))


def _present_threshold(problem: TrainingProblem, rows: Rows, share: float) -> float:
    found = [(z[:, 0].astype(np.float64), chunk.cell_weights) for chunk, z in problem.logits(rows)]
    z, weights = (joined(np.concatenate(each), rows.processes) for each in zip(*found, strict=True))
    return quota_threshold(z, weights, share, TIED if problem.model.dtype == np.float64 else 1e-5)
