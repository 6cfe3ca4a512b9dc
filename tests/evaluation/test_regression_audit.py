"""The audit of a regression: values are those of numpy, and intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound.evaluation import audit_regression


def draw(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets, predictions and groups; the means of the predictions differ by 0.2, all lie in [0, 2]."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "b", "a")
    p = rng.beta(2, 3, n) + 0.2 * (group == "b")
    return np.clip(p + rng.normal(0, 0.1, n), 0, 2), p, group


def test_values_are_those_of_numpy():
    y, p, group = draw(0)
    limits = ["mean_difference <= 0.3", "group_loss <= 0.2", "demographic_parity <= 0.8 at quantiles 50%"]
    found = audit_regression(y, p, group, limits, loss="absolute")
    a, b = p[group == "a"], p[group == "b"]
    value = float(found.limits[2].limit.split()[-1])
    expected = [
        abs(a.mean() - b.mean()),
        max(np.abs(y - p)[group == each].mean() for each in ("a", "b")),
        abs((a > value).mean() - (b > value).mean()),
    ]
    np.testing.assert_allclose([each.value for each in found.limits], expected)
    assert [each.verdict for each in found.limits] == ["PASS"] * 3
    assert found.passed
    assert value == pytest.approx(np.median(p), abs=1e-3)
    pooled = np.sqrt(np.average([a.var(), b.var()], weights=[len(a), len(b)]))
    assert found.standardized["sensitive_feature"] == pytest.approx(expected[0] / pooled)
    assert "mean prediction" in str(found)
    assert found.to_dict()["groups"][0]["rows"] == len(a)


@pytest.mark.parametrize("known", [None, (0.0, 2.0)])
def test_intervals_cover(known):
    """At 80% confidence, intervals miss the difference of the means, 0.2, in at most 20% of draws."""
    missed = 0
    for seed in range(200):
        y, p, group = draw(seed)
        (one,) = audit_regression(y, p, group, "mean_difference <= 1", range=known, confidence=0.8).limits
        missed += not one.lower <= 0.2 <= one.upper
    assert missed <= 40
