"""Adjusted p-values: the range of normal variables, and what they promise, by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fairbound.evaluation import beside_the_highest, compare_selections, holm, paired_test


def test_p_values_beside_the_highest_step_down():
    given = [0.03, 0.001, 1.0, 0.02]
    found = beside_the_highest(given)
    draws = np.random.default_rng(0).standard_normal((100_000, 5))
    tails = {}
    for p, k in zip(sorted(given), (5, 4, 3, 2), strict=True):
        tails[p] = (np.ptp(draws[:, :k], axis=1) >= math.sqrt(2.0) * stats.norm.isf(p / 2)).mean()
    assert found == pytest.approx([max(tails[0.03], tails[0.02]), tails[0.001], 1.0, tails[0.02]], abs=0.004)
    assert beside_the_highest([0.2]) == pytest.approx([0.2])
    assert beside_the_highest([0.0, 1.0]) == [0.0, 1.0]
    assert beside_the_highest([]) == []


def share_below(level, draws, counts, **options):
    """Return the share of draws in which some adjusted p is at most a level, and whether that is too much."""
    wrong = sum(
        min(test.adjusted_p for test in compare_selections("g", counts(), **options)) <= level for _ in range(draws)
    )
    return wrong / draws, stats.binomtest(wrong, draws, level, alternative="greater").pvalue < 0.001


def equal_rates(rng, sizes, rate):
    return lambda: [(str(place), rows, int(rng.binomial(rows, rate))) for place, rows in enumerate(sizes)]


def test_groups_with_equal_rates_seldom_differ_from_the_highest():
    """Holm's adjustment of 11 comparisons had 16%."""
    share, too_many = share_below(0.05, 150, equal_rates(np.random.default_rng(0), [200] * 12, 0.3))
    assert not too_many, share


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 4, 5, 8, 12])
@pytest.mark.parametrize("sizes", ["equal", "unequal"])
@pytest.mark.parametrize("rate", [0.3, 0.1])
def test_the_promise_holds_for_3_to_12_groups(k, sizes, rate):
    """The figures are in docs/auditing.md."""
    rows = [400] * k if sizes == "equal" else np.geomspace(60, 3000, k).astype(int).tolist()
    rng = np.random.default_rng([k, len(sizes), int(100 * rate)])
    share, too_many = share_below(0.05, 1000, equal_rates(rng, rows, rate))
    assert not too_many, share
    named, too_many = share_below(0.05, 500, equal_rates(rng, rows, rate), reference="0")
    assert not too_many, named


def test_p_values_beside_the_most_accurate_of_several_models_hold_together():
    """`alternatives` without a baseline: with Holm's adjustment alone it was 11% of 12 models."""
    rng = np.random.default_rng(4)
    models, draws, wrong = 12, 300, 0
    for _ in range(draws):
        right = rng.random((models, 300)) < 0.7
        best = right[max(range(models), key=lambda each: right[each].sum())]
        wrong += min(holm([paired_test(best, each).p for each in right], choices=models)) <= 0.05
    assert stats.binomtest(wrong, draws, 0.05, alternative="greater").pvalue > 0.001, wrong / draws
