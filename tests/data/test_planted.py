"""The generator's planted rates, against samples and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fairbound.data import make_disparate_data

ROWS = 40_000
SETTINGS = [
    {"base_rates": {"a": 0.6, "b": 0.3}},
    {"base_rates": {"a": 0.5, "b": 0.5}, "label_signal": 0.7, "group_signal": 0.0},
    {"base_rates": {1: 0.2, 2: 0.4, 3: 0.8}, "shares": {3: 0.1, 1: 0.6, 2: 0.3}, "group_signal": 3.0},
    {"base_rates": {f"g{i}": 0.1 + 0.1 * i for i in range(8)}, "n_noise": 0, "label_signal": 4.0},
]


def within_binomial_error(successes: int, trials: int, probability: float) -> bool:
    # Five standard deviations: one failure in about two million draws; the seeds are fixed besides.
    return abs(successes - trials * probability) <= 5 * np.sqrt(trials * probability * (1 - probability))


@pytest.mark.parametrize("planted", SETTINGS)
@pytest.mark.parametrize("seed", [0, 1])
def test_sample_shows_the_planted_rates(planted, seed):
    data, truth = make_disparate_data(ROWS, seed=seed, **planted)
    for k, group in enumerate(truth.groups):
        rows = data.groups() == group
        assert within_binomial_error(rows.sum(), ROWS, truth.shares[k])
        assert within_binomial_error(data.y[rows].sum(), rows.sum(), truth.base_rates[k])
        positive, negative = rows & (data.y == 1), rows & (data.y == 0)
        for rule in (truth.aware, truth.blind):
            selected = data.X[:, 0] >= rule.thresholds[k]
            assert within_binomial_error(selected[rows].sum(), rows.sum(), rule.selection_rates[k])
            assert within_binomial_error(selected[positive].sum(), positive.sum(), rule.true_positive_rates[k])
            assert within_binomial_error(selected[negative].sum(), negative.sum(), rule.false_positive_rates[k])
            assert within_binomial_error((selected == data.y)[rows].sum(), rows.sum(), rule.accuracies[k])


def accuracy(threshold: np.ndarray, rate: float | np.ndarray, signal: float) -> np.ndarray:
    return rate * norm.sf(threshold, signal / 2) + (1 - rate) * norm.cdf(threshold, -signal / 2)


@settings(max_examples=50)
@given(
    rates=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=6),
    signal=st.floats(0.5, 5.0),
)
def test_no_threshold_is_more_accurate_than_the_stated_ones(rates, signal):
    truth = make_disparate_data(1, base_rates=dict(enumerate(rates)), label_signal=signal).truth
    grid = np.linspace(-8, 8, 2001)
    for k, rate in enumerate(rates):
        # A maximum over a grid can exceed the true maximum by rounding only.
        assert accuracy(grid, rate, signal).max() <= truth.aware.accuracies[k] + 1e-12
    blind = truth.shares @ truth.blind.accuracies
    assert accuracy(grid, np.mean(rates), signal).max() <= blind + 1e-12
    assert blind <= truth.shares @ truth.aware.accuracies + 1e-12


def test_blind_rule_has_equal_odds_and_aware_rule_wider_selection_rates():
    truth = make_disparate_data(1, base_rates={"a": 0.7, "b": 0.4, "c": 0.2}).truth
    assert np.ptp(truth.blind.true_positive_rates) == 0
    assert np.ptp(truth.blind.false_positive_rates) == 0
    assert np.ptp(truth.aware.selection_rates) > np.ptp(truth.blind.selection_rates) > 0


def test_group_signal_moves_the_proxies_and_nothing_else():
    weak, strong = (
        make_disparate_data(ROWS, base_rates={"a": 0.6, "b": 0.3}, group_signal=t).dataset for t in (0.0, 2.0)
    )
    np.testing.assert_array_equal(weak.y, strong.y)
    for column, group in ((1, "a"), (2, "b")):
        shift = strong.X[:, column] - weak.X[:, column]
        # The noise is the same draw; adding and subtracting it rounds in the last places.
        np.testing.assert_allclose(shift, 2.0 * (weak.groups() == group), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(weak.X[:, [0, 3, 4]], strong.X[:, [0, 3, 4]])


def test_groups_keep_their_type_and_seeds_repeat():
    data = make_disparate_data(50, base_rates={1: 0.5, 2: 0.5}, seed=np.random.default_rng(7)).dataset
    again = make_disparate_data(50, base_rates={1: 0.5, 2: 0.5}, seed=7).dataset
    other = make_disparate_data(50, base_rates={1: 0.5, 2: 0.5}, seed=8).dataset
    assert data.groups().dtype.kind == "i"
    np.testing.assert_array_equal(data.X, again.X)
    assert not np.array_equal(data.X, other.X)


def test_one_group_is_allowed():
    truth = make_disparate_data(10, base_rates={"all": 0.4}, shares={"all": 1.0}).truth
    np.testing.assert_array_equal(truth.aware.selection_rates, truth.blind.selection_rates)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 0}, "n is 0; give at least one row"),
        ({"base_rates": {}}, "base_rates is empty"),
        ({"base_rates": {"a": 0.5, "b": 1.0}}, r"base_rates\['b'\] is 1\.0.*above 0 and below 1"),
        ({"base_rates": {"a": float("nan")}}, r"base_rates\['a'\] is nan"),
        ({"shares": {"a": 1.0}}, r"shares names the groups \['a'\], but base_rates \['a', 'b'\]"),
        ({"shares": {"a": 0.5, "b": 0.4}}, "shares sum to 0.9"),
        ({"shares": {"a": 1.5, "b": -0.5}}, r"shares\['a'\] is 1.5"),
        ({"label_signal": 0.0}, "label_signal is 0.0; give a positive number"),
        ({"group_signal": float("inf")}, "group_signal is inf"),
        ({"n_noise": -1}, "n_noise is -1"),
    ],
)
def test_bad_input(change, words):
    arguments = {"n": 10, "base_rates": {"a": 0.5, "b": 0.4}} | change
    with pytest.raises(ValueError, match=words):
        make_disparate_data(arguments.pop("n"), **arguments)
