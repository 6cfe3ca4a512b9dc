"""The tally: the whole of each rate, weighted sums, and agreement with the measures of training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbound.evaluation import WHOLES, MonotoneRate, Share, Tally, WeightedShare
from fairbound.fairness import RATES, Cells, decision_indicators, group_sums
from fairbound.fairness.rates import RateFunction, false_positive_rate, precision, selection_rate, true_positive_rate


def statistics(tally, rate, grouping, outcome, **monotone):
    return tally.counts(grouping, outcome).rate(rate, **monotone).statistics


def _random(seed: int, n: int = 60, groups: int = 3, labels: int = 2):
    rng = np.random.default_rng(seed)
    return rng.integers(labels, size=n), rng.integers(labels, size=n), rng.integers(groups, size=n), rng


def _indicators(rate: RateFunction, y, decision, group, g, label):
    """Rows in the whole and in the part, written out by hand: the definition of each rate."""
    here, positive, selected = group == g, y == label, decision == label
    return {
        "selection_rate": (here, selected),
        "true_positive_rate": (here & positive, selected),
        "false_negative_rate": (here & positive, ~selected),
        "false_positive_rate": (here & ~positive, selected),
        "true_negative_rate": (here & ~positive, ~selected),
        "precision": (here & selected, positive),
        "negative_predictive_value": (here & ~selected, ~positive),
        "accuracy": (here, y == decision),
        "share_of_selected": (selected, here),
    }[rate.__name__]


def test_every_rate_says_what_it_is_a_share_of():
    assert set(WHOLES) > set(RATES.values())


@pytest.mark.parametrize("name", list(RATES))
@given(seed=st.integers(0, 10**6))
def test_weighted_shares_are_weighted_sums_of_rows(name, seed):
    y, decision, group, rng = _random(seed)
    w = rng.choice([0.0, 0.5, 1.0, 2.5], size=len(y))
    w[0] = 1.0
    w[1] = 0.5
    tally = Tally.build(y, decision, group, sample_weight=w)
    assert tally.largest_weight == w.max()
    grouping = tally.cells.groupings[0]
    for g, share in zip(grouping.groups, statistics(tally, RATES[name], grouping, 1), strict=False):
        whole, part = _indicators(RATES[name], y, decision, group, g, 1)
        assert isinstance(share, WeightedShare)
        found = [share.rows, share.weight, share.part, share.squares, share.part_squares]
        sums = [(whole & (w > 0)).sum(), w[whole].sum(), w[whole & part].sum()]
        assert found == pytest.approx([*sums, (w[whole] ** 2).sum(), (w[whole & part] ** 2).sum()], abs=1e-9)


def test_rows_of_weight_zero_do_not_count():
    y, decision, group, _ = _random(0)
    keep = np.arange(len(y)) % 3 > 0
    masked = Tally.build(y, decision, group, sample_weight=keep.astype(float))
    dropped = Tally.build(y[keep], decision[keep], group[keep])
    assert not masked.weighted
    for name, rate in RATES.items():
        expected = statistics(dropped, rate, dropped.cells.groupings[0], 1)
        assert statistics(masked, rate, masked.cells.groupings[0], 1) == expected, name


@pytest.mark.parametrize("name", list(RATES))
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("light", ["selected", "rejected"])
def test_weights_far_apart_lose_no_digits(name, labels, light):
    """A row of weight 1e-6 beside rows of 1e6: a sum of light rows taken as a difference would be noise."""
    y, decision, group, rng = _random(3, 90, labels=labels)
    heavy = (decision == 1) == (light == "rejected")
    w = rng.uniform(1.0, 2.0, 90) * np.where(heavy, 1e6, 1e-6)
    tally = Tally.build(y, decision, group, sample_weight=w)
    cells = Cells.build(y, group, weights=w)
    grouping = tally.cells.groupings[0]
    counted = group_sums(tally.decisions, tally.cells, grouping, 1)
    trained = group_sums(
        cells.sums(decision_indicators(np.asarray(decision), cells.outcomes)), cells, cells.groupings[0], 1
    )
    shares = statistics(tally, RATES[name], grouping, 1)
    for g in range(3):
        whole, part = _indicators(RATES[name], y, decision, group, g, 1)
        expected = pytest.approx(w[whole & part].sum() / w[whole].sum(), rel=1e-13, abs=0)
        assert RATES[name](counted)[g] == expected
        assert float(RATES[name](trained)[g]) == expected
        assert shares[g].value == expected
        for label in range(labels):
            there = w[(group == g) & (y == label) & (decision == 0)].sum()
            assert tally.confusion(grouping)[g][label][0] == pytest.approx(there, rel=1e-13, abs=0)


def informedness(g):
    return true_positive_rate(g) - false_positive_rate(g)


def test_a_monotone_rate_is_bounded_by_the_corners_of_its_box():
    y, decision, group, _ = _random(2, 400)
    tally = Tally.build(y, decision, group)
    grouping = tally.cells.groupings[0]
    assert statistics(tally, informedness, grouping, 1) is None
    found = statistics(tally, informedness, grouping, 1, monotone=True)[0]
    assert isinstance(found, MonotoneRate)
    _, tpr, fpr = found.shares
    assert found.value == pytest.approx(tpr.value - fpr.value)
    assert found.interval(0.01) == pytest.approx(
        (tpr.interval(0.01)[0] - fpr.interval(0.01)[1], tpr.interval(0.01)[1] - fpr.interval(0.01)[0])
    )
    assert found.lower(0.03) == found.interval(0.01)[0]
    assert found.upper(0.03) == found.interval(0.01)[1]
    assert found.scaled(100).lower(0.03) > found.lower(0.03)


def test_a_monotone_rate_of_all_classes_has_no_bound():
    def right(g):
        return g.correct / g.size

    y, decision, group, _ = _random(2, 100, labels=3)
    tally = Tally.build(y, decision, group)
    found = statistics(tally, right, tally.cells.groupings[0], 0, monotone=True)[0]
    assert found.interval(0.05) == (-np.inf, np.inf)
    y, decision, group, _ = _random(2, 100)
    tally = Tally.build(y, decision, group)
    found = statistics(tally, right, tally.cells.groupings[0], 1, monotone=True)[0]
    assert 0 < found.interval(0.05)[0] < found.value < found.interval(0.05)[1] < 1


@pytest.mark.parametrize("monotone_rate", [precision, RATES["negative_predictive_value"], selection_rate])
@given(seed=st.integers(0, 10**6))
def test_corners_enclose_every_rate_in_the_box(monotone_rate, seed):
    rng = np.random.default_rng(seed)
    y, decision, group, _ = _random(seed, 80)
    tally = Tally.build(y, decision, group)
    found = MonotoneRate(
        monotone_rate,
        0.5,
        tuple(Share(int(rng.integers(1, 20)), 20) for _ in range(3)),
        two_classes=True,
    )
    lower, upper = found.interval(0.3)
    box = [share.interval(0.3) for share in found.shares]
    p, t, f = (rng.uniform(low, high) for low, high in box)
    value = {
        "precision": p * t / (p * t + (1 - p) * f),
        "negative_predictive_value": (1 - p) * (1 - f) / ((1 - p) * (1 - f) + p * (1 - t)),
        "selection_rate": p * t + (1 - p) * f,
    }[monotone_rate.__name__]
    assert lower - 1e-9 <= value <= upper + 1e-9
    assert tally.cells.n_labels == 2


@pytest.mark.parametrize(
    ("weights", "largest"),
    [([2, 2, 2, 2], None), ([2, 0, 2, 2], None), ([3, 2, 2, 2], 3), ([2, 2, 2, 0.5], 2)],
)
def test_rows_are_weighted_if_some_differ_and_the_heaviest_bounds_them(weights, largest):
    tally = Tally.build([0, 1, 0, 1], [0, 1, 1, 0], list("aabb"), sample_weight=weights)
    assert tally.weighted == (largest is not None)
    assert tally.largest_weight == largest
    stated = Tally.build([0, 1, 0, 1], [0, 1, 1, 0], list("aabb"), sample_weight=weights, largest_weight=10)
    assert stated.largest_weight == (None if largest is None else 10)
