"""Bounds on comparisons of two rates: their probability of error by enumeration, and their sharpness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from fairbound.evaluation.bounds import (
    LimitLine,
    can_be_enumerated,
    likeliest_of_difference,
    likeliest_of_ratio,
    lower_bound_against_everyone,
    lower_bound_by_score_test,
    lower_bound_complementary,
    lower_bound_independent,
    lower_bound_separate,
    quantity,
    score_statistic,
)
from fairbound.evaluation.intervals import Share

ROUNDING = 1e-12
GRID = np.concatenate([[0.0, 0.005], np.linspace(0.02, 0.98, 49), [0.995, 1.0]])
KINDS = ("ratio", "difference")


def _independent(first, second, alpha, kind, limit):
    return lower_bound_independent(first, second, alpha, quantity(kind), LimitLine.of(kind, limit))


def _separate(first, second, alpha, kind, limit):
    return lower_bound_separate(first, second, alpha, quantity(kind))


def _errors(bound, kind, limit, sizes, alpha):
    """Probability that the bound exceeds the truth, for every pair of rates on the grid: exact, by enumeration."""
    n, m = sizes
    bounds = np.array(
        [[bound(Share(a, n), Share(b, m), alpha, kind, limit) for b in range(m + 1)] for a in range(n + 1)]
    )
    first = stats.binom.pmf(np.arange(n + 1), n, GRID[:, None])
    second = stats.binom.pmf(np.arange(m + 1), m, GRID[:, None])
    errors = np.zeros((len(GRID), len(GRID)))
    for i, r in enumerate(GRID):
        for j, s in enumerate(GRID):
            if kind == "ratio" and s == 0:
                continue  # any ratio is kept
            truth = r / s if kind == "ratio" else r - s
            errors[i, j] = first[i] @ (bounds > truth + ROUNDING) @ second[j]
    return errors


@pytest.mark.parametrize(
    ("kind", "limit"), [("ratio", 0.8), ("ratio", 1.0), ("ratio", 1.25), ("difference", -0.1), ("difference", 0.2)]
)
@pytest.mark.parametrize("sizes", [(12, 12), (20, 5), (5, 20)])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_bound_for_independent_rates_errs_with_probability_alpha_at_most(kind, limit, sizes, alpha):
    assert _errors(_independent, kind, limit, sizes, alpha).max() <= alpha + ROUNDING


@pytest.mark.parametrize("kind", KINDS)
def test_separate_bounds_err_with_probability_alpha_at_most(kind):
    assert _errors(_separate, kind, 0.8, (12, 9), 0.2).max() <= 0.2 + ROUNDING


def test_the_enumeration_would_notice_a_bound_that_errs_too_often():
    def careless(first, second, alpha, kind, limit):  # the whole level for each of the two rates
        return float(quantity(kind)(first.lower(alpha), second.upper(alpha)) + 0.05)

    assert _errors(careless, "difference", -0.1, (12, 12), 0.3).max() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.8), ("difference", -0.05)])
def test_the_bound_for_independent_rates_is_nearly_exact_at_the_limit(kind, limit):
    n, m, alpha = 120, 90, 0.05
    passes = np.array(
        [
            [_independent(Share(a, n), Share(b, m), alpha, kind, limit) >= limit for b in range(m + 1)]
            for a in range(n + 1)
        ]
    )
    levels = []
    for second in np.linspace(0.1, 0.99, 90):
        first = limit * second if kind == "ratio" else second + limit
        chances = stats.binom.pmf(np.arange(n + 1), n, first), stats.binom.pmf(np.arange(m + 1), m, second)
        levels.append(chances[0] @ passes @ chances[1])
    assert max(levels) <= alpha + ROUNDING
    # The normal approximation would have 0.05, two separate intervals have about 0.005.
    assert np.median(levels) > 0.02


@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.8), ("difference", -0.1)])
@pytest.mark.parametrize("sizes", [(4000, 4000), (400, 8000), (8000, 400)])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.95])
def test_the_bound_for_independent_rates_is_nearly_the_normal_one_in_large_groups(kind, limit, sizes, rate):
    n, m = sizes
    at_limit = limit * rate if kind == "ratio" else rate + limit
    # Rates four standard errors inside the limit, where they are compared.
    slope = limit if kind == "ratio" else 1.0
    error = math.sqrt(at_limit * (1 - at_limit) / n + slope**2 * rate * (1 - rate) / m)
    first, second = Share(round((at_limit + 4 * error) * n), n), Share(round(rate * m), m)
    line = LimitLine.of(kind, limit)
    levels = np.logspace(-6, math.log10(0.4), 60)
    passing = [a for a in levels if lower_bound_independent(first, second, a, quantity(kind), line) >= limit]
    separate = [a for a in levels if lower_bound_separate(first, second, a, quantity(kind)) >= limit]
    # Four standard errors have a one-sided level of 3e-5; whole rows and exactness cost some of it. Separate
    # intervals see no more than 4/√2 of them in groups of the same size.
    assert stats.norm.isf(min(passing)) >= 3.4
    if n == m:
        assert stats.norm.isf(min(separate)) <= 3.0


@given(
    st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.sampled_from(KINDS),
    st.floats(0.001, 0.5), st.floats(0.05, 2.0),
)  # fmt: skip
def test_bounds_lie_below_what_was_seen_and_rise_with_the_level(a, not_a, b, not_b, kind, alpha, limit):
    first, second = Share(a, a + not_a), Share(b, b + not_b)
    limit = limit if kind == "ratio" else limit - 1.0
    stricter, looser = (_independent(first, second, level, kind, limit) for level in (alpha / 2, alpha))
    assert not math.isnan(stricter)
    assert stricter <= looser + 1e-12
    if first.trials and second.trials:
        seen = float(quantity(kind)(first.value, second.value))
        assert looser <= seen + 1e-12


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 40), st.integers(0, 40), st.sampled_from(KINDS))
def test_more_successes_of_the_first_or_fewer_of_the_second_never_lower_the_bound(n, m, a, b, kind):
    a, b = min(a, n - 1), min(b, m - 1)
    limit = 0.8 if kind == "ratio" else -0.1
    base = _independent(Share(a, n), Share(b, m), 0.05, kind, limit)
    assert _independent(Share(a + 1, n), Share(b, m), 0.05, kind, limit) >= base - 1e-12
    # The grid of r moves with the second group, which the bound feels by a fraction of a grid step.
    assert _independent(Share(a, n), Share(b + 1, m), 0.05, kind, limit) <= base + 5e-3 * max(1.0, abs(base))


def test_a_group_in_which_everyone_is_selected_does_not_veto():
    # z of 50 out of 50 is −∞ for every candidate rate; uncut it would leave no more than the share set aside.
    bound = _independent(Share(480, 500), Share(50, 50), 0.05, "ratio", 0.8)
    assert bound > 0.92


def test_a_group_without_rows_leaves_the_other_the_whole_level():
    some, none = Share(30, 40), Share(0, 0)
    assert _independent(some, none, 0.05, "difference", 0.0) == pytest.approx(some.lower(0.05) - 1.0)
    assert _independent(none, some, 0.05, "difference", 0.0) == pytest.approx(0.0 - some.upper(0.05))
    assert _independent(none, some, 0.05, "ratio", 0.8) == 0.0


def test_complementary_shares_are_one_rate():
    share = Share(60, 100)
    bound = lower_bound_complementary(share, 0.05, quantity("difference"))
    assert bound == pytest.approx(2 * share.lower(0.05) - 1)
    assert bound > lower_bound_separate(share, share.complement(), 0.05, quantity("difference"))


@pytest.mark.parametrize("group_first", [True, False])
@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.8), ("difference", -0.1)])
@pytest.mark.parametrize("share", [0.25, 0.6])
def test_the_bound_against_everyone_errs_with_probability_alpha_at_most(group_first, kind, limit, share):
    # Ten rows: how many are of the group, and how many of the group and of the rest are selected, are all random.
    n, alpha, rates = 10, 0.25, np.linspace(0.02, 0.98, 9)
    missed = np.zeros((len(rates), len(rates)))
    truths = np.empty_like(missed)
    for i, own in enumerate(rates):
        for j, other in enumerate(rates):
            overall = share * own + (1 - share) * other
            pair = (own, overall) if group_first else (overall, own)
            truths[i, j] = pair[0] / pair[1] if kind == "ratio" else pair[0] - pair[1]
    for size in range(n + 1):
        sizes_chance = stats.binom.pmf(size, n, share)
        for a in range(size + 1):
            for b in range(n - size + 1):
                bound = lower_bound_against_everyone(
                    Share(a, size), Share(a + b, n), alpha, kind, limit, group_first=group_first
                )
                chance = np.outer(stats.binom.pmf(a, size, rates), stats.binom.pmf(b, n - size, rates))
                missed += sizes_chance * chance * (bound > truths + ROUNDING)
    assert missed.max() <= alpha + ROUNDING


@pytest.mark.parametrize("group_first", [True, False])
def test_the_bound_against_everyone_is_sharper_than_two_intervals(group_first):
    group, everyone = Share(440, 1000), Share(1900, 4000)
    first, second = (group, everyone) if group_first else (everyone, group)
    sharp = lower_bound_against_everyone(group, everyone, 0.05, "ratio", 0.8, group_first=group_first)
    blunt = lower_bound_separate(first, second, 0.05, quantity("ratio"))
    seen = first.value / second.value
    assert blunt < sharp < seen
    assert seen - sharp < 0.7 * (seen - blunt)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.sampled_from(KINDS),
       st.booleans(), st.floats(0.1, 2.0))  # fmt: skip
def test_the_bound_against_everyone_is_a_number_below_what_was_seen(a, not_a, b, not_b, kind, group_first, limit):
    group, everyone = Share(a, a + not_a), Share(a + b, a + not_a + b + not_b)
    limit = limit if kind == "ratio" else limit - 1.0
    bound = lower_bound_against_everyone(group, everyone, 0.05, kind, limit, group_first=group_first)
    assert not math.isnan(bound)
    if group.trials:
        pair = (group.value, everyone.value) if group_first else (everyone.value, group.value)
        assert bound <= float(quantity(kind)(*pair)) + 1e-12


# --- the score test --------------------------------------------------------------------------------------------------


def _score(first, second, alpha, kind, limit):
    return lower_bound_by_score_test(first, second, alpha, kind, limit)


@pytest.mark.parametrize(
    ("kind", "limit", "sizes", "alpha"),
    [
        ("ratio", 0.8, (12, 12), 0.05),
        ("ratio", 1.25, (5, 20), 0.3),
        ("ratio", 1.0, (20, 5), 0.05),
        ("difference", -0.1, (12, 12), 0.05),
        ("difference", 0.2, (5, 20), 0.3),
    ],
)
def test_the_bound_of_the_score_test_errs_with_probability_alpha_at_most(kind, limit, sizes, alpha):
    assert _errors(_score, kind, limit, sizes, alpha).max() <= alpha + ROUNDING


@pytest.mark.parametrize(("kind", "limit", "at"), [("ratio", 0.8, 0.3), ("difference", -0.1, 0.5)])
def test_the_score_test_is_more_powerful_than_the_bound_for_large_groups(kind, limit, at):
    n, m, alpha = 10, 30, 0.05
    power = {}
    for bound in (_score, _independent):
        passes = np.array(
            [[bound(Share(a, n), Share(b, m), alpha, kind, limit) >= limit for b in range(m + 1)] for a in range(n + 1)]
        )
        power[bound] = stats.binom.pmf(np.arange(n + 1), n, at) @ passes @ stats.binom.pmf(np.arange(m + 1), m, at)
    assert power[_score] > power[_independent] + 0.02


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from(KINDS), st.floats(0.05, 1.9))
def test_the_score_rises_with_the_first_count_and_falls_with_the_second(n, m, kind, limit):
    limit = limit if kind == "ratio" else limit - 1.0
    score = score_statistic(np.arange(n + 1.0)[:, None], n, np.arange(m + 1.0), m, kind, limit)
    slack = 1e-6 * np.maximum(abs(score), 1.0)
    assert (np.diff(score, axis=0) >= -slack[1:]).all()
    assert (np.diff(score, axis=1) <= slack[:, 1:]).all()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 40), st.integers(0, 40), st.sampled_from(KINDS))
@settings(max_examples=25)
def test_the_likeliest_rates_on_the_line_are_found(n, m, a, b, kind):
    """Against a fine grid of the likelihood along the line."""
    a, b, limit = min(a, n), min(b, m), 0.8 if kind == "ratio" else -0.1
    find = likeliest_of_ratio if kind == "ratio" else likeliest_of_difference
    first, second = find(np.float64(a), n, np.float64(b), m, limit)

    def likelihood(r):
        q = limit * r if kind == "ratio" else r + limit
        return special.xlogy(a, q) + special.xlog1py(n - a, -q) + special.xlogy(b, r) + special.xlog1py(m - b, -r)

    grid = np.linspace(0.1 if kind == "difference" else 0.0, 1.0, 4001)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert likelihood(second) >= np.nanmax(likelihood(grid)) - 1e-9
    assert first == pytest.approx(limit * second if kind == "ratio" else second + limit)


def test_the_score_test_is_used_for_whole_counts_with_few_outcomes():
    assert can_be_enumerated(Share(3, 10), Share(5, 999))
    assert not can_be_enumerated(Share(3.5, 10), Share(5, 999))  # planning scales counts
    assert not can_be_enumerated(Share(0, 0), Share(5, 10))
    assert not can_be_enumerated(Share(500, 1000), Share(500, 1000))
