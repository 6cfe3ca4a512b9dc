"""Weights of any magnitude: a common factor means nothing, and what sums cannot hold is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.estimator.helpers import quick, toy

from fairbound import audit, make_fairness_scorer
from fairbound._weights import check_weights, scale_weights
from fairbound.estimator.encoder import TableEncoder
from fairbound.fairness import Cells
from fairbound.training.rows import Rows

X, Y, GROUP = toy(150)
WEIGHTS = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 7.25], len(Y))
LIMIT = "disparate_impact >= 0.3"


@pytest.fixture(scope="module")
def plain():
    return quick(LIMIT).fit(X, Y, sensitive_features=GROUP, sample_weight=WEIGHTS)


@pytest.mark.parametrize("factor", [2.0**-1000, 1e-200, 0.1, 10.0, 2.0**40, 1e200, 1e307])
def test_a_common_factor_means_nothing_to_a_fit(plain, factor):
    clf = quick(LIMIT).fit(X, Y, sensitive_features=GROUP, sample_weight=WEIGHTS * factor)
    assert (clf.predict(X) == plain.predict(X)).all()
    assert clf.result_.limits[0].reached == pytest.approx(plain.result_.limits[0].reached, rel=1e-12)
    assert clf.result_.accuracy == pytest.approx(plain.result_.accuracy, rel=1e-12)
    exact = np.frexp(factor)[0] == 0.5  # a power of two changes no digit of any weight
    assert not exact or np.array_equal(clf.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("factor", [5e-324 * 2**60, 2.0**660])
def test_a_common_factor_means_nothing_elsewhere(plain, factor):
    weights = np.round(WEIGHTS * 4) + 1
    both = [plain.recalibrate(X, Y, sample_weight=weights * each).predict_proba(X) for each in (1.0, factor)]
    plain.calibration_ = None
    assert np.array_equal(*both)
    scorer = make_fairness_scorer("disparate_impact")
    scores = [scorer(plain, X, Y, sensitive_features=GROUP, sample_weight=weights * each) for each in (1.0, factor)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-12)
    encoded = [TableEncoder().fit(X, sample_weight=weights * each).transform(X) for each in (1.0, factor)]
    assert np.allclose(*encoded, rtol=1e-12)
    clf = quick(LIMIT).fit(X, Y, sensitive_features=GROUP, constraint_weight=weights * factor)
    assert clf.result_.kept


@settings(max_examples=200)
@given(
    st.lists(st.floats(0, 1e15, allow_subnormal=False).filter(lambda x: x == 0 or x > 1), min_size=2, max_size=9),
    st.integers(-1100, 960),
)
def test_scaling_changes_no_digit(weights, exponent):
    array = np.array([*weights, 1.5])
    shifted = np.ldexp(array, exponent)
    if not np.array_equal(np.ldexp(shifted, -exponent), array):  # digits were lost before we had them
        return
    assert np.array_equal(scale_weights(shifted), scale_weights(array))
    assert 1.0 <= scale_weights(array).max() < 2.0


READERS = {
    "fit": lambda w: quick(LIMIT).fit(X, Y, sensitive_features=GROUP, sample_weight=w),
    "constraint": lambda w: quick(LIMIT).fit(X, Y, sensitive_features=GROUP, constraint_weight=w),
    "cells": lambda w: Cells.build(Y, GROUP, weights=w),
    "rows": lambda w: Rows.build(X, Cells.build(Y, GROUP), loss_weights=w),
    "encoder": lambda w: TableEncoder().fit(X, sample_weight=w),
    "audit": lambda w: audit(Y, Y, GROUP, sample_weight=w),
}
ONES = np.ones(len(Y))
BAD = {
    "nan": (np.where(np.arange(len(Y)) == 3, np.nan, 1.0), "no value in 1 of"),
    "infinity": (np.where(np.arange(len(Y)) == 3, np.inf, 1.0), "inf in row 4"),
    "negative": (np.where(np.arange(len(Y)) == 3, -1.0, 1.0), "-1 in row 4"),
    "zero": (0.0 * ONES, "zero in every row"),
    "too wide": (np.where(np.arange(len(Y)) == 3, 1e-20, 1.0), "ranges from 1e-20 to 1"),
    "wider than a double": (np.where(np.arange(len(Y)) == 3, 1e-300, 1e300), "ranges from 1e-300 to 1e"),
    "words": (np.full(len(Y), "heavy"), "must hold numbers only, but has 'heavy'"),
    "two columns": (np.ones((len(Y), 2)), "shape"),
    "too few": (ONES[1:], "shape"),
}


@pytest.mark.parametrize("bad", sorted(BAD))
@pytest.mark.parametrize("reader", sorted(READERS))
def test_every_reader_refuses_the_same(reader, bad):
    weights, words = BAD[bad]
    with pytest.raises(ValueError, match=words):
        READERS[reader](weights)


@pytest.mark.parametrize("factor", [1e-200, 1e200, 1e307])
def test_where_weights_keep_their_unit_magnitudes_without_a_square_are_refused(factor):
    with pytest.raises(ValueError, match="Multiply all weights by the same factor"):
        audit(Y, Y, GROUP, sample_weight=ONES * factor)


def test_a_group_whose_rows_all_have_weight_zero_is_refused():
    group = np.where(np.arange(len(Y)) < 20, "c", GROUP)
    with pytest.raises(ValueError, match=r"group 'c' in 'sensitive_feature' .*weight 0"):
        quick(LIMIT).fit(X, Y, sensitive_features=group, sample_weight=(group != "c") * 1.0)
    with pytest.raises(ValueError, match=r"fewer than groups=Groups\(min_size=10\)"):
        quick(LIMIT).fit(X, Y, sensitive_features=group, constraint_weight=(group != "c") * 1.0)


def test_integers_beyond_a_double_are_refused():
    with pytest.raises(ValueError, match="must hold numbers"):
        check_weights([10**400, 1], 2, "sample_weight")


def test_training_takes_any_magnitude():
    rows = Rows.build(X, Cells.build(Y, GROUP), loss_weights=ONES * 1e307)
    assert float(rows.loss_weights.sum()) == pytest.approx(1.0)
