"""Bounds on comparisons of two rates: their probability of error by enumeration, and their sharpness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from tests.evaluation.helpers import requirement

from fairbound.evaluation import Share

ROUNDING = 1e-12
GRID = np.concatenate([[0.0, 0.005], np.linspace(0.02, 0.98, 49), [0.995, 1.0]])
LIMITS = [("ratio", 0.8), ("ratio", 1.0), ("ratio", 1.25), ("difference", -0.1), ("difference", 0.2)]
SMALL = st.integers(0, 40)


def bound(first, second, alpha, kind, limit, relation="independent"):
    """Return the lower bound on the ratio or the difference of two rates."""
    return requirement(kind, limit, first, second, relation).worst(alpha)


def large(first, second, alpha, kind, limit):
    """Return the bound of large groups: counts that are not whole are not enumerated."""
    first, second = (Share(each.successes, each.trials + 1e-9) for each in (first, second))
    return bound(first, second, alpha, kind, limit)


def dependent(first, second, alpha, kind, limit):
    return bound(first, second, alpha, kind, limit, "dependent")


def careless(first, second, alpha, kind, limit):
    return first.lower(alpha) - second.upper(alpha) + 0.05  # the whole level for each of the two rates


def seen(first, second, kind):
    return first.value / second.value if kind == "ratio" else first.value - second.value


def bounds_of_all(method, sizes, alpha, kind, limit):
    n, m = sizes
    return np.array(
        [[method(Share(a, n), Share(b, m), alpha, kind, limit) for b in range(m + 1)] for a in range(n + 1)]
    )


def largest_error(method, kind, limit, sizes, alpha):
    """Return the largest probability that the bound exceeds the truth, over a grid of rates: exact, by enumeration."""
    bounds = bounds_of_all(method, sizes, alpha, kind, limit)
    chances = [stats.binom.pmf(np.arange(size + 1), size, GRID[:, None]) for size in sizes]
    errors = []
    for i, r in enumerate(GRID):
        for j, s in enumerate(GRID):
            if kind == "difference" or s > 0:  # any ratio to 0 is kept
                truth = r / s if kind == "ratio" else r - s
                errors.append(chances[0][i] @ (bounds > truth + ROUNDING) @ chances[1][j])
    return max(errors)


@pytest.mark.parametrize(("kind", "limit"), LIMITS)
@pytest.mark.parametrize("sizes", [(12, 12), (20, 5), (5, 20)])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_bound_for_large_groups_errs_with_probability_alpha_at_most(kind, limit, sizes, alpha):
    assert largest_error(large, kind, limit, sizes, alpha) <= alpha + ROUNDING


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
    assert largest_error(bound, kind, limit, sizes, alpha) <= alpha + ROUNDING


def test_bounds_of_dependent_rates_err_with_probability_alpha_at_most_and_careless_ones_more_often():
    for kind in ("ratio", "difference"):
        assert largest_error(dependent, kind, 0.8, (12, 9), 0.2) <= 0.2 + ROUNDING
    assert largest_error(careless, "difference", -0.1, (12, 12), 0.3) > 0.3


@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.8), ("difference", -0.1)])
@pytest.mark.parametrize("sizes", [(4000, 4000), (400, 8000), (8000, 400)])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.95])
def test_the_bound_is_nearly_the_normal_one_in_large_groups(kind, limit, sizes, rate):
    n, m = sizes
    at_limit = limit * rate if kind == "ratio" else rate + limit
    # Rates four standard errors inside the limit, where they are compared.
    slope = limit if kind == "ratio" else 1.0
    error = math.sqrt(at_limit * (1 - at_limit) / n + slope**2 * rate * (1 - rate) / m)
    first, second = Share(round((at_limit + 4 * error) * n), n), Share(round(rate * m), m)
    levels = np.logspace(-6, math.log10(0.4), 60)
    least = {}
    for method in (bound, dependent):
        least[method] = min(a for a in levels if method(first, second, a, kind, limit) >= limit)
    # Four standard errors have a one-sided level of 3e-5; whole rows and exactness cost some of it.  Separate
    # intervals see no more than 4/√2 of them in groups of the same size.
    assert stats.norm.isf(least[bound]) >= 3.4
    if n == m:
        assert stats.norm.isf(least[dependent]) <= 3.0


@given(SMALL, SMALL, SMALL, SMALL, st.sampled_from(LIMITS), st.floats(0.001, 0.5))
def test_bounds_lie_below_what_was_seen_and_rise_with_the_level_and_the_counts(a, not_a, b, not_b, limit, alpha):
    first, second = Share(a, a + not_a), Share(b, b + not_b)
    for method in (large, bound):
        stricter, looser = (method(first, second, level, *limit) for level in (alpha / 2, alpha))
        assert stricter <= looser + 1e-3  # the score test stops up to a thousandth below its root
        if first.trials and second.value > 0:
            assert looser <= seen(first, second, limit[0]) + 1e-12
    base = large(Share(a, a + not_a + 1), Share(b, b + not_b + 1), alpha, *limit)
    assert large(Share(a + 1, a + not_a + 1), Share(b, b + not_b + 1), alpha, *limit) >= base - 1e-12
    # The grid of r moves with the second group, which the bound feels by a fraction of a grid step.
    raised = large(Share(a, a + not_a + 1), Share(b + 1, b + not_b + 1), alpha, *limit)
    assert raised <= base + 5e-3 * max(1.0, abs(base))


def test_groups_of_which_all_or_none_are_seen():
    # z of 50 out of 50 is −∞ for every candidate rate; uncut it would leave no more than the share set aside.
    assert large(Share(480, 500), Share(50, 50), 0.05, "ratio", 0.8) > 0.92
    some, none = Share(30, 40), Share(0, 0)  # a group without rows leaves the other the whole level
    assert bound(some, none, 0.05, "difference", 0.0) == pytest.approx(some.lower(0.05) - 1.0)
    assert bound(none, some, 0.05, "difference", 0.0) == pytest.approx(0.0 - some.upper(0.05))
    assert bound(none, some, 0.05, "ratio", 0.8) == 0.0


def test_complementary_shares_are_one_rate():
    share = Share(60, 100)
    found = bound(share, share.complement(), 0.05, "difference", -0.1, "complementary")
    assert found == pytest.approx(2 * share.lower(0.05) - 1)
    assert found > dependent(share, share.complement(), 0.05, "difference", -0.1)


@pytest.mark.parametrize("relation", ["group first", "everyone first"])
@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.8), ("difference", -0.1)])
@pytest.mark.parametrize("share", [0.25, 0.6])
def test_the_bound_against_everyone_errs_with_probability_alpha_at_most(relation, kind, limit, share):
    # Ten rows: how many are of the group, and how many of the group and of the rest are selected, are all random.
    n, alpha, rates = 10, 0.25, np.linspace(0.02, 0.98, 9)
    own, other = np.meshgrid(rates, rates, indexing="ij")
    pair = [own, share * own + (1 - share) * other][:: 1 if relation == "group first" else -1]
    truths = pair[0] / pair[1] if kind == "ratio" else pair[0] - pair[1]
    missed = np.zeros_like(truths)
    for size in range(n + 1):
        for a in range(size + 1):
            for b in range(n - size + 1):
                counted = [Share(a, size), Share(a + b, n)][:: 1 if relation == "group first" else -1]
                found = bound(*counted, alpha, kind, limit, relation)
                chance = np.outer(stats.binom.pmf(a, size, rates), stats.binom.pmf(b, n - size, rates))
                missed += stats.binom.pmf(size, n, share) * chance * (found > truths + ROUNDING)
    assert missed.max() <= alpha + ROUNDING


@pytest.mark.parametrize("relation", ["group first", "everyone first"])
def test_the_bound_against_everyone_is_sharper_than_two_intervals(relation):
    pair = [Share(440, 1000), Share(1900, 4000)][:: 1 if relation == "group first" else -1]
    ratio = seen(*pair, "ratio")
    sharp, blunt = bound(*pair, 0.05, "ratio", 0.8, relation), dependent(*pair, 0.05, "ratio", 0.8)
    assert blunt < sharp < ratio
    assert ratio - sharp < 0.7 * (ratio - blunt)


@given(SMALL, SMALL, SMALL, SMALL, st.sampled_from(LIMITS), st.sampled_from([1, -1]))
def test_the_bound_against_everyone_is_a_number_below_what_was_seen(a, not_a, b, not_b, limit, turn):
    pair = [Share(a, a + not_a), Share(a + b, a + not_a + b + not_b)][::turn]
    found = bound(*pair, 0.05, *limit, "group first" if turn == 1 else "everyone first")
    assert not math.isnan(found)
    if a + not_a and pair[1].successes:
        assert found <= seen(*pair, limit[0]) + 1e-12


@pytest.mark.parametrize(("kind", "limit", "at"), [("ratio", 0.8, 0.3), ("difference", -0.1, 0.5)])
def test_the_score_test_is_more_powerful_in_small_groups(kind, limit, at):
    sizes, alpha = (10, 30), 0.05
    chances = [stats.binom.pmf(np.arange(size + 1), size, at) for size in sizes]
    power = [
        chances[0] @ (bounds_of_all(method, sizes, alpha, kind, limit) >= limit) @ chances[1]
        for method in (bound, large)
    ]
    assert power[0] > power[1] + 0.02


@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.8), ("difference", -0.1), ("difference", 0.2)])
def test_the_score_test_orders_outcomes_by_the_likeliest_rates_on_the_limit(kind, limit):
    """What passes has the larger scores, with rates found on a fine grid of the likelihood.

    The order may differ a little, because the set of passing outcomes is made to grow with the first count.
    """
    n, m, alpha = 9, 7, 0.3
    r = np.linspace(max(0.0, -limit) if kind == "difference" else 0.0, 1.0 - max(limit, 0.0) * (kind != "ratio"), 20001)
    q = limit * r if kind == "ratio" else r + limit
    passing, failing = [], []
    for a in range(n + 1):
        for b in range(m + 1):
            with np.errstate(divide="ignore", invalid="ignore"):
                likelihood = (
                    special.xlogy(a, q) + special.xlog1py(n - a, -q) + special.xlogy(b, r) + special.xlog1py(m - b, -r)
                )
                best = np.nanargmax(likelihood)
                slope = limit if kind == "ratio" else 1.0
                variance = q[best] * (1 - q[best]) / n + slope**2 * r[best] * (1 - r[best]) / m
                score = (a / n - (limit * b / m if kind == "ratio" else b / m + limit)) / math.sqrt(
                    max(variance, 1e-12)
                )
            passes = bound(Share(a, n), Share(b, m), alpha, kind, limit) >= limit
            (passing if passes else failing).append(score)
    assert passing
    assert min(passing) > max(failing) - 0.1


@pytest.mark.parametrize(("first", "second"), [("group first", (0, 1)), ("everyone first", (1, 0))])
@pytest.mark.parametrize(("kind", "limit"), [("ratio", 0.9), ("difference", -0.05)])
def test_a_bound_against_everyone_is_nearly_as_sharp_as_the_normal_one(kind, limit, first, second):
    """1.64 standard errors are the normal approximation; a line of the limit in another place needs 2.4 and more."""
    shares = Share(500, 1000), Share(1500, 3000)  # a third of the rows; equal rates
    error = math.sqrt(0.25 / 1000 + 0.25 / 2000) * (2 / 3) / (0.5 if kind == "ratio" else 1.0)
    one, other = (shares[place] for place in second)
    found = requirement(kind, limit, one, other, first).worst(0.05)
    assert 1.64 < ((1.0 if kind == "ratio" else 0.0) - found) / error < 2.1
