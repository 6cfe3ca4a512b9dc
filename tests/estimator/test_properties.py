"""Over shapes, types, codings and weights: limits are kept or the status says so, predictions are never NaN."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.estimator.helpers import quick

from fairbound import LimitWarning, audit
from fairbound.sqp import Status

LIMITS = ["disparate_impact >= 0.8", "demographic_parity <= 0.1", "accuracy_parity <= 0.1", "covariance <= 0.05"]

CODINGS = {
    "integers": lambda codes: codes.astype(np.int8),
    "floats": lambda codes: codes.astype(np.float32) - 1.5,
    "words": lambda codes: np.array(["Ä", "b b", "c'", "🙂"])[codes],
    "booleans": lambda codes: codes > 1,
    "categories": lambda codes: pd.Series(pd.Categorical.from_codes(codes, ["w", "x", "y", "z"])),
    "polars": lambda codes: pl.Series("g", codes),
    "lists": lambda codes: [f"group {code}" for code in codes],
}


@st.composite
def problems(draw):
    n, columns = draw(st.integers(12, 60)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int32, np.uint8, bool]))
    X = (rng.normal(size=(n, columns)) * draw(st.sampled_from([1e-6, 1.0, 50.0]))).astype(dtype)
    if dtype in (np.float32, np.float64) and draw(st.booleans()):
        X[rng.random(X.shape) < 0.2] = np.nan
    n_labels = draw(st.sampled_from([2, 2, 2, 3]))
    y = np.concatenate([np.arange(n_labels), rng.integers(0, n_labels, n - n_labels)])
    codes = np.concatenate([[0, 3], rng.integers(0, 4, n - 2)])
    weights = None
    if draw(st.booleans()):
        weights = rng.choice([0.0, 0.5, 1.0, 7.25], n)
        weights[: max(n_labels, 2)] = 1.0
    return X, y, codes, draw(st.sampled_from(sorted(CODINGS))), weights


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems(), limit=st.sampled_from(LIMITS), hidden=st.sampled_from([(), (), (3,)]))
def test_limits_are_kept_or_the_status_says_so(problem, limit, hidden):
    X, y, codes, coding, weights = problem
    group = CODINGS[coding](codes)
    clf = quick(limit, hidden=hidden, groups__small="merge", groups__min_size=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf.fit(X, y, sensitive_features=group, sample_weight=weights)
    decided, p = clf.predict(X), clf.predict_proba(X)
    assert np.isfinite(p).all()
    assert np.allclose(p.sum(axis=1), 1.0)
    assert set(decided) <= set(y)
    result = clf.result_
    found = audit(y, decided, group, sample_weight=weights)
    name = limit.split()[0]
    values = [each.value for each in found.measures if each.measure == name]
    reached = min(values) if name == "disparate_impact" else max(values)
    assert result.limits[0].reached == reached
    bound = float(limit.split()[-1])
    kept = reached >= bound - 1e-12 if name == "disparate_impact" else reached <= bound + 1e-12
    assert result.kept == kept
    assert (result.status in (Status.INFEASIBLE, Status.MAX_ITERATIONS)) == (not kept)
    assert any(issubclass(each.category, LimitWarning) for each in said) == (not kept or result.gain <= 0)
