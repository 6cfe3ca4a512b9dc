"""Data and fitted models that the tests of the estimator share."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound import ConstrainedClassifier, Dataset, load_dataset


@pytest.fixture(scope="session")
def law() -> Dataset:
    """Every third row of the Law School data: 6,933 rows.  With fewer, a random search takes six times as long."""
    data = load_dataset("law")
    return data.take(np.arange(0, len(data), 3))


@pytest.fixture(scope="session")
def race(law):
    return law.sensitive["race"]


@pytest.fixture(scope="session")
def limited(law, race) -> ConstrainedClassifier:
    """A linear model of the table under a ratio that binds; not to be changed."""
    return ConstrainedClassifier("disparate_impact >= 0.9").fit(law.frame(), law.y, sensitive_features={"race": race})


@pytest.fixture(scope="session")
def network(law, race) -> ConstrainedClassifier:
    """A network under the same ratio; not to be changed."""
    clf = ConstrainedClassifier("disparate_impact >= 0.9", hidden=(8, 4))
    return clf.fit(law.X, law.y, sensitive_features=race)
