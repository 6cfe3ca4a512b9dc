"""What several tests of the estimator share."""

from __future__ import annotations

import numpy as np

from fairbound import ConstrainedClassifier, Training
from fairbound.training import as_model


def toy(n=400, seed=0, shift=1.5):
    """Two groups whose inputs are shifted, so that their selection rates are far apart."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += shift * group
    y = (X[:, 0] + 0.7 * X[:, 1] + rng.normal(scale=0.7, size=n) > 0.8).astype(int)
    return X, y, np.array(["a", "b"])[group]


QUICK = Training(iterations=15, touches=4)
"""For tests to which the quality of the model does not matter."""

SHORT = Training(iterations=4, touches=1)
"""Solves of a few steps, for fits that are compared with each other."""


def quick(constraints=(), **params) -> ConstrainedClassifier:
    """A classifier that does not take its time."""
    return ConstrainedClassifier(constraints, training=QUICK).set_params(**params)


def parameters(model: ConstrainedClassifier) -> np.ndarray:
    """Return all parameters of a fitted classifier."""
    return as_model(model.model_).current()
