"""Algorithm 2 of the paper, step by step against a shadow written from its pseudo-code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbound.sqp.learning_rate import LearningRateCut


def shadow(merits, rate, k_min, delta_k, gamma, eta, alpha_min):
    """The pseudo-code, line by line, with the paper's letters; returns the learning rate after every iteration."""
    rates, delta, average = [], 0, None
    for k, phi in enumerate(merits):
        average = phi if k == 0 else eta * phi + (1 - eta) * average
        if k >= k_min and rate >= alpha_min:
            if average <= phi and delta >= delta_k:
                rate = rate / gamma
                delta = 0
            delta += 1
        rates.append(rate)
    return rates


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k_min=st.integers(0, 20),
    delta_k=st.integers(0, 6),
    gamma=st.sampled_from([2.0, 10.0]),
    eta=st.sampled_from([0.1, 0.85, 1.0]),
    tau=st.sampled_from([None, 0.01]),
)
def test_algorithm_2_against_a_shadow(seed, k_min, delta_k, gamma, eta, tau):
    rng = np.random.default_rng(seed)
    f, v = rng.normal(size=60).cumsum() * 0.1, np.abs(rng.normal(size=60))
    cut = LearningRateCut(smallest=1e-3, warmup=k_min, interval=delta_k, factor=gamma, weight=eta, merit_parameter=tau)
    rate, rates = 0.5, []
    for k in range(60):
        rate = cut.update(float(f[k]), float(v[k]), rate, merit_parameter=0.3)
        rates.append(rate)
    assert rates == shadow((tau or 0.3) * f + v, 0.5, k_min, delta_k, gamma, eta, 1e-3)


def test_algorithm_2_defaults_are_the_printed_constants():
    cut = LearningRateCut()
    assert (cut.smallest, cut.warmup, cut.interval, cut.factor, cut.weight) == (1e-7, 200, 5, 10.0, 0.85)
    rate = 0.5
    rates = []
    for _ in range(212):  # a merit that stands still: its average is never above it
        rate = cut.update(1.0, 0.0, rate, 1.0)
        rates.append(rate)
    assert rates[:205] == [0.5] * 205  # iterations 200 to 204 only count
    assert rates[205:210] == [0.05] * 5
    assert rates[210:] == [0.005] * 2


def test_counting_in_the_warmup_allows_the_first_cut_at_once():
    cut = LearningRateCut(count_in_warmup=True)
    rates, rate = [], 0.5
    for _ in range(202):
        rate = cut.update(1.0, 0.0, rate, 1.0)
        rates.append(rate)
    assert rates[199:] == [0.5, 0.05, 0.05]


def test_a_falling_merit_is_never_cut():
    cut, rate = LearningRateCut(warmup=0, interval=0), 0.5
    assert cut.update(10.0, 0.0, rate, 1.0) == 0.05  # the first value is its own average
    for k in range(1, 50):
        assert cut.update(10.0 - 0.1 * k, 0.0, rate, 1.0) == rate


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"warmup": -1}, r"LearningRateCut\(warmup=-1\).*at least 0"),
        ({"interval": 1.5}, r"LearningRateCut\(interval=1.5\)"),
        ({"factor": 1.0}, r"LearningRateCut\(factor=1.0\): must be above 1"),
        ({"weight": 0.0}, r"LearningRateCut\(weight=0.0\).*above 0"),
        ({"smallest": -1.0}, r"LearningRateCut\(smallest=-1.0\)"),
        ({"merit_parameter": 0.0}, r"LearningRateCut\(merit_parameter=0.0\).*above 0, or None"),
    ],
)
def test_constants_out_of_range_are_refused(constants, words):
    with pytest.raises(ValueError, match=words):
        LearningRateCut(**constants)
