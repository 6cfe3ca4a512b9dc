"""Intervals of one rate: against scipy, and their coverage by enumeration of all samples."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.refusals import refused

from fairbound.evaluation import Share, WeightedShare, audit, binomial_interval, certify


def ends(share, confidence, side):
    """Return the bounds of a share on one side, or on both."""
    level = 1.0 - confidence
    if side == "both":
        return share.interval(level)
    return (share.lower(level), 1.0) if side == "lower" else (0.0, share.upper(level))


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_intervals_are_the_exact_ones_of_scipy(counts, confidence):
    for side, alternative in (("both", "two-sided"), ("lower", "greater"), ("upper", "less")):
        expected = stats.binomtest(*counts, alternative=alternative).proportion_ci(confidence, "exact")
        # scipy finds the same root by another way, to about 1e-9
        assert ends(Share(*counts), confidence, side) == pytest.approx(tuple(expected), abs=1e-8)
    assert binomial_interval(*counts, confidence) == pytest.approx(ends(Share(*counts), confidence, "both"))


@given(st.integers(0, 60), st.integers(0, 60), st.floats(1e-6, 0.5))
def test_a_share_and_its_complement_mirror_each_other(successes, others, level):
    share = Share(successes, successes + others)
    assert share.complement().upper(level) == pytest.approx(1.0 - share.lower(level), abs=1e-12)
    assert 0.0 <= share.lower(level) <= share.upper(level) <= 1.0
    if share.trials:
        assert share.lower(level) <= share.value <= share.upper(level)


def test_of_no_rows_nothing_is_known():
    share = Share(0, 0)
    assert math.isnan(share.value)
    assert share.interval(0.05) == (0.0, 1.0)
    assert binomial_interval(0, 0) == (0.0, 1.0)
    assert share.tail(np.array([0.0, 0.5])).tolist() == [1.0, 1.0]


@given(st.integers(0, 50), st.integers(0, 50), st.floats(0.0, 1.0))
def test_tail_is_the_binomial_distribution(successes, others, rate):
    share = Share(successes, successes + others)
    expected = stats.binom.cdf(successes, successes + others, rate)
    assert share.tail(np.array([rate]))[0] == pytest.approx(expected, abs=1e-12)


def _weighted_share(part, weights, largest):
    w, p = np.asarray(weights, float), np.asarray(part, float)
    return WeightedShare(len(w), w.sum(), (w * p).sum(), (w**2).sum(), (w**2 * p).sum(), largest)


def test_empirical_bernstein_solves_its_inequality():
    rng = np.random.default_rng(1)
    weights, part, level = rng.uniform(0, 2, 300), rng.random(300) < 0.3, 0.05
    upper = _weighted_share(part, weights, 2.0).upper(level)
    d = weights / 2.0 * (part - upper)
    log = math.log(2 / level)
    right_side = d.mean() + math.sqrt(2 * d.var(ddof=1) * log / 300) + 7 * log / (3 * 299)
    assert upper < 1
    assert right_side == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("rate_by_weight", [(0.5, 0.5), (0.1, 0.9), (0.05, 0.05), (0.97, 0.6)])
@pytest.mark.parametrize("share_of_heavy", [0.1, 0.5])
def test_weighted_coverage_is_at_least_nominal_by_enumeration(rate_by_weight, share_of_heavy):
    # 30 rows, each of weight 1 or 3 and in the part or not: every sample is a composition of 30 into four counts. At a
    # low confidence, because at 95% so few rows say nothing and any bound would cover.
    n, level = 30, 0.45
    light, heavy = rate_by_weight
    chances = np.array(
        [
            (1 - share_of_heavy) * light,
            (1 - share_of_heavy) * (1 - light),
            share_of_heavy * heavy,
            share_of_heavy * (1 - heavy),
        ]
    )
    rate = (chances[0] + 3 * chances[2]) / (chances[0] + chances[1] + 3 * chances[2] + 3 * chances[3])
    distribution = stats.multinomial(n, chances)
    missed_above = missed_below = informative = 0.0
    for a, b, c in itertools.product(range(n + 1), repeat=3):
        if a + b + c > n:
            continue
        d = n - a - b - c
        chance = distribution.pmf([a, b, c, d])
        if chance < 1e-9:  # a thousand of these would not matter at the precision asked for below
            continue
        share = WeightedShare(n, a + b + 3 * (c + d), a + 3 * c, a + b + 9 * (c + d), a + 9 * c, 3.0)
        upper = share.upper(level)
        missed_above += chance * (upper < rate)
        missed_below += chance * (share.lower(level) > rate)
        informative += chance * (upper < 1)
    assert missed_above <= level + 1e-6
    assert missed_below <= level + 1e-6
    if rate < 0.8:  # a bound that never says anything would cover, too
        assert informative > 0.2


def test_weighted_intervals_contain_the_exact_one_and_widen_with_the_largest_possible_weight():
    part, weights = np.arange(500) % 4 == 0, np.linspace(0.5, 1, 500)
    lower, upper = _weighted_share(part, np.ones(500), 1.0).interval(0.05)
    exact = binomial_interval(part.sum(), 500)
    assert lower < exact[0] < exact[1] < upper
    narrow, wide = (_weighted_share(part, weights, largest).interval(0.05) for largest in (1.0, 10.0))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    for unit in (0.01, 100.0):  # the unit of the weights does not count
        assert _weighted_share(part, weights * unit, unit).interval(0.05) == pytest.approx(narrow)


def test_weighted_share_scales_and_knows_nothing_of_one_row():
    share = _weighted_share([1, 0, 1], [1.0, 2.0, 2.0], 2.0)
    assert share.value == pytest.approx(0.6)
    assert share.scaled(1000).value == pytest.approx(0.6)
    assert share.scaled(1000).upper(0.05) < share.upper(0.05)
    assert _weighted_share([1], [1.0], 1.0).interval(0.05) == (0.0, 1.0)
    assert math.isnan(_weighted_share([], [], 1.0).value)


@pytest.mark.parametrize("confidence", [0, 0.3, 1, 1.0, 95, -0.5, float("nan"), True, "0.95", None])
def test_a_confidence_is_a_share_below_one(confidence):
    rows = [0, 1, 1, 0], [1, 1, 0, 0], ["a", "b", "a", "b"]
    for work in (audit, partial(certify, limits="disparate_impact >= 0.8")):
        with pytest.raises(ValueError, match=r"confidence=.*0\.5 .* 1"):
            work(*rows, confidence=confidence)


def test_a_confidence_may_come_from_numpy():
    assert binomial_interval(1, 2, np.float32(0.75)) == binomial_interval(1, 2, 0.75)


@pytest.mark.parametrize("counts", [(3, 2), (-1, 2), (1, math.inf)])
def test_what_cannot_be_counted_raises(counts):
    with refused("counts with 0 <= successes <= trials"):
        binomial_interval(*counts)
