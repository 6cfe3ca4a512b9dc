"""The forecast: the spread of the rates, the values of draws, the probability to hold, and the reserve."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound.evaluation import Forecast, LimitForecast, RateDistribution, room_within
from fairbound.fairness import (
    Cells,
    Constraint,
    ConstraintSystem,
    DisparateImpact,
    as_constraints,
    decision_indicators,
    rate_limit,
    read_columns,
)

LIMITS = [
    "disparate_impact >= 0.8",
    "demographic_parity <= 0.1",
    "equalized_odds <= 0.2",
    "predictive_parity <= 0.2",
    "representation <= 0.5",
    "covariance <= 0.05",
    "disparate_impact >= 0.8 against overall",
    Constraint((0.5, 1.5), measure="disparate_impact", reference="a"),
    Constraint((-0.1, 0.3), measure="demographic_parity", reference="b"),
    rate_limit("selection_rate", lower=0.3, upper=0.7),
    rate_limit("true_positive_rate", group="c", lower=0.2),
]


def rows(n=3000, seed=0, labels=2):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    y = rng.integers(0, labels, n)
    decided = np.where(rng.random(n) < 0.6, y, rng.integers(0, labels, n))
    return y, group, decided


def distribution(limits, y, group, decided, weights=None, shift=0.0):
    cells = Cells.build(y, group, weights=weights)
    system = ConstraintSystem.build(limits, cells)
    indicators = decision_indicators(cells.of_entries(decided), cells.outcomes)
    counts = cells.sums(indicators)
    rates = system.decided_rates(counts)
    spread = system.rate_spread(cells.of_entries(decided))
    return RateDistribution(system, rates, np.full(len(rates), shift), spread), counts


def test_the_spread_of_a_selection_rate_is_binomial():
    y, group, decided = rows()
    found, _ = distribution("disparate_impact >= 0.8", y, group, decided)
    for place, name in enumerate("abc"):
        n, r = int((group == name).sum()), found.rates[place]
        assert found.spread[place, place] == pytest.approx(r * (1 - r) / n, rel=0.03)
    assert abs(found.spread[0, 1]) < 1e-9  # groups without common rows are independent


@pytest.mark.parametrize(
    ("limit", "labels", "weighted", "divided"),
    [
        ("predictive_parity <= 0.2", 2, True, False),
        ("accuracy_parity <= 0.2", 3, False, False),
        ("equal_impact >= 0.7", 3, True, True),
        ("disparate_impact >= 0.7", 2, False, True),
    ],
)
def test_the_spread_is_that_of_resampled_rows(limit, labels, weighted, divided):
    y, group, decided = rows(labels=labels)
    if divided:  # "c" is certain, the others are not
        sure = np.where(group == "a", 0.8, 0.3)
        group = read_columns(
            {"group": {"a": sure * (group != "c"), "b": (1 - sure) * (group != "c"), "c": group == "c"}}, len(y)
        )
        group = group["group"]
    weights = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y)) if weighted else np.ones(len(y))
    found, _ = distribution(limit, y, {"group": group}, decided, weights)
    rng, drawn = np.random.default_rng(2), []
    for _ in range(100):
        pick = rng.integers(0, len(y), len(y))
        drawn.append(distribution(limit, y[pick], {"group": group[pick]}, decided[pick], weights[pick])[0].rates)
    assert np.std(drawn, axis=0) == pytest.approx(np.sqrt(np.diag(found.spread)), rel=0.35)
    apart = np.std(np.subtract(*np.transpose(drawn)[:2]))  # of the first two groups, which may share rows
    expected = found.spread[0, 0] + found.spread[1, 1] - 2 * found.spread[0, 1]
    assert apart == pytest.approx(np.sqrt(expected), rel=0.35)


def test_a_rate_of_zero_in_a_small_group_is_not_known_exactly():
    y, group = np.tile([0, 1], 50), np.array(["a"] * 88 + ["b"] * 12)
    found, _ = distribution("disparate_impact >= 0.8", y, group, y * (group == "a"))
    assert found.rates[1] == 0.0
    assert found.spread[1, 1] > 0.001


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("labels", [2, 3])
def test_the_expected_value_is_the_measured_one_without_chance(limit, labels):
    y, group, decided = rows(labels=labels)
    found, counts = distribution([limit], y, group, decided)
    certain = RateDistribution(found.system, found.rates, found.shift, 0.0 * found.spread).forecast()
    (measured,) = found.system.measured(counts[None])
    assert certain.limits[0].expected == pytest.approx(measured, abs=1e-9)
    assert certain.holds == float(as_constraints(limit)[0].keeps(measured))


def test_a_limit_at_its_bound_holds_with_even_odds_and_with_less_after_a_shift():
    y, group = np.tile([0, 1], 1000), np.repeat(["a", "b"], 1000)
    decided = np.r_[np.arange(1000) < 500, np.arange(1000) < 400].astype(np.int64)
    found, _ = distribution("disparate_impact >= 0.8", y, group, decided)
    forecast = found.forecast()
    assert forecast.holds == pytest.approx(0.5, abs=0.02)
    assert forecast.limits[0].lower < 0.8 < forecast.limits[0].upper
    assert not Forecast(holds=0.5).likely_broken
    lower = RateDistribution(found.system, found.rates, np.array([0.0, -0.02, -0.01]), found.spread).forecast()
    assert lower.holds < 0.3
    assert lower.likely_broken
    assert "more likely to break" in " ".join(lower.lines())


def test_a_reserve_covers_what_a_limit_loses_and_three_errors():
    y, group = np.tile([0, 1], 1000), np.repeat(["a", "b"], 1000)
    decided = np.r_[np.arange(1000) < 500, np.arange(1000) < 400].astype(np.int64)
    found, _ = distribution("disparate_impact >= 0.8", y, group, decided)
    for shift, holds in ((0.0, 0.9985), (0.01, 0.9985)):
        found = RateDistribution(found.system, found.rates, np.array([shift, -shift, 0.0]), found.spread)
        moved = found.rates + np.array([0.0, found.reserve()[1], 0.0])  # 0.8·r_a − r_b falls by the reserve
        after = RateDistribution(found.system, moved, found.shift, found.spread).forecast()
        assert after.holds == pytest.approx(holds, abs=0.0015)


def test_small_groups_have_larger_reserves_and_no_reserve_passes_equal_rates():
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b", "c"], [5000, 5000, 50])
    decided = (rng.random(len(group)) < np.where(group == "a", 0.5, 0.4)).astype(np.int64)
    y = rng.integers(0, 2, len(group))
    found, _ = distribution(DisparateImpact(0.8), y, group, decided)
    pairs = dict(zip([row.text.split("]: ")[1] for row in found.system.rows], found.reserve(), strict=True))
    large = pairs["0.8 selection_rate(a) <= selection_rate(b)"]
    small = pairs["0.8 selection_rate(a) <= selection_rate(c)"]
    assert 0 < large < 0.05 < small
    assert small <= 0.9 * 0.2 * 0.5


@pytest.mark.parametrize(
    ("limit", "way"),
    [
        ("disparate_impact >= 0.8", 0.2 * 0.5),
        ("disparate_impact >= 1", 0.0),
        ("demographic_parity <= 0.1", 0.1),
        ("demographic_parity <= 0", 0.0),
        (rate_limit("selection_rate", lower=0.8), 0.2),
        (rate_limit("selection_rate", lower=1.0), 0.0),
        (rate_limit("selection_rate", upper=0.0), 0.0),
        (rate_limit("selection_rate", lower=0.3, upper=0.7), 0.2),
        (rate_limit("selection_rate", lower=0.5, upper=0.5), 0.0),
    ],
    ids=str,
)
def test_the_way_from_a_bound_to_equal_rates(limit, way):
    y, group, _ = rows()
    system = ConstraintSystem.build(limit, Cells.build(y, group))
    assert room_within(system, np.full(4, 0.5)) == pytest.approx(way)


def test_words_of_a_forecast():
    one = LimitForecast("x >= 1", 1.01, 0.9, 1.1, 0.4)
    lines = Forecast((one, one), 0.2).lines()
    assert "40%" in lines[0]
    assert "20%" in lines[2]
    assert Forecast(reason="too few rows.").lines() == ["No forecast for new rows: too few rows."]
    assert Forecast().lines() == []


def test_a_margin_of_a_ratio_leaves_out_groups_of_whom_nobody_is_selected():
    y, group, decided = rows()
    found, _ = distribution(["disparate_impact >= 0.8"], y, group, np.where(group == "c", 0, decided))
    margin = found.margins(np.full(found.system.n_rows, 0.05))[0]
    least, most = 0.05 / max(found.rates[:2]), 0.05 / min(found.rates[:2])
    assert (margin.least, margin.most) == pytest.approx((least, most))
    assert found.margins(np.full(found.system.n_rows, 0.9))[0].most == pytest.approx(
        0.2
    )  # equal rates have the ratio 1
