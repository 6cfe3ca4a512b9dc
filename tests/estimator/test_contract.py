"""scikit-learn's own checks: of the plain classifier, of one under limits whose groups are made from X, of a base.

None has an expected failure.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    estimator_checks_generator,
    parametrize_with_checks,
)

from fairbound import Groups
from fairbound._errors import LimitWarning
from fairbound.estimator.classifier import ConstrainedClassifier
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import read_inputs


class GroupsFromX(ConstrainedClassifier):
    """Puts each row into one of two groups by the digits of its inputs, so that any tool can call `fit(X, y)`."""

    def fit(self, X, y, sample_weight=None):
        try:
            inputs = read_inputs(X)
            sums = sum(inputs.numbers(position) for position in range(inputs.n_columns))
            groups = np.floor(np.nan_to_num(sums) * 997.0).astype(np.int64) % 2
        except (TypeError, ValueError):
            groups = np.arange(len(y)) % 2  # whatever is wrong with X, the estimator itself shall say
        return super().fit(X, y, sensitive_features=groups, sample_weight=sample_weight)


LIMITED = GroupsFromX(["demographic_parity <= 0.6", "accuracy_parity <= 0.6"], groups=Groups(min_size=1))


@parametrize_with_checks([ConstrainedClassifier()])
def test_the_plain_classifier(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([ConstrainedClassifier(hidden=(4,))])
def test_the_network(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore::{LimitWarning.__module__}.{LimitWarning.__name__}")
@parametrize_with_checks([LIMITED])
def test_the_classifier_under_limits(estimator, check):
    check(estimator)


class OverABase(ConstrainedClassifier):
    """Where columns may be categories, scikit-learn makes classes of a single row, which cannot be cross-fitted."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = False
        return tags


@pytest.mark.slow
@parametrize_with_checks([OverABase(base=LogisticRegression())])
def test_the_classifier_over_a_base(estimator, check):
    check(estimator)


@parametrize_with_checks([TableEncoder()])
def test_the_encoder(estimator, check):
    check(estimator)


def test_the_checks_are_there():
    assert len(list(estimator_checks_generator(ConstrainedClassifier()))) > 50


def test_the_names_of_columns_are_checked_as_scikit_learn_checks_them():
    check_dataframe_column_names_consistency("ConstrainedClassifier", ConstrainedClassifier())
    check_dataframe_column_names_consistency("TableEncoder", TableEncoder())
