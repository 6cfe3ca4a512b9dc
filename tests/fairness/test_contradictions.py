"""Limits that exclude each other by their bounds alone are found without data, and no others are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.refusals import refused

from fairbound import ConstrainedClassifier, rate_limit
from fairbound.evaluation.tally import Tally
from fairbound.fairness import as_constraints, refuse_contradictions

EXCLUDED = [
    ("selection_rate <= 0.3", "selection_rate >= 0.6"),
    ("selection_rate[a] <= 0.3", "selection_rate[a] >= 0.31"),
    ("selection_rate[a] <= 0.3", "selection_rate >= 0.6"),
    ("selection_rate(sex) <= 0.3", "selection_rate >= 0.6"),
    ("selection_rate(sex) <= 0.3", "selection_rate(sex)[a] >= 0.6"),
    ("selection_rate(sex)[a] <= 0.3", "selection_rate[a] >= 0.6"),
    ("selection_rate(sex, race) <= 0.3", "selection_rate(race) >= 0.6"),
    ("0.1 <= true_positive_rate <= 0.2", "0.3 <= true_positive_rate <= 0.4"),
    ("selection_rate <= 0.3 for class x", "selection_rate >= 0.6"),
    ("demographic_parity <= 0.1", "0.2 <= demographic_parity <= 1 against a"),
    ("-1 <= demographic_parity <= 0.1 against a", "0.2 <= demographic_parity <= 1 against a"),
    ("-1 <= equalized_odds <= 0.1 against overall", "0.2 <= equalized_odds <= 1 against overall"),
]
POSSIBLE = [
    ("selection_rate <= 0.6", "selection_rate >= 0.6"),  # one value is left
    ("selection_rate <= 0.6", "selection_rate >= 0.3"),
    ("selection_rate[a] <= 0.3", "selection_rate[b] >= 0.6"),
    ("selection_rate(sex) <= 0.3", "selection_rate(race) >= 0.6"),
    ("selection_rate(sex) <= 0.3", "selection_rate[a] >= 0.6"),  # a may be a race
    ("selection_rate(sex)[a] <= 0.3", "selection_rate(race)[a] >= 0.6"),
    ("selection_rate <= 0.3", "true_positive_rate >= 0.6"),
    ("selection_rate <= 0.3 for class x", "selection_rate >= 0.6 for class y"),
    ("0.5 <= disparate_impact <= 0.6 against a", "0.8 <= disparate_impact <= 1 against a"),  # kept by a constant
    ("disparate_impact >= 0.8", "1.5 <= disparate_impact <= 2 against a"),
    ("-1 <= demographic_parity <= -0.2 against a", "0.2 <= demographic_parity <= 1 against b"),
    ("-0.1 <= demographic_parity <= 0.1 against overall", "0.2 <= demographic_parity <= 1 against a"),
    ("demographic_parity <= 0", "disparate_impact >= 1"),
    ("selection_rate >= 0.9", "disparate_impact >= 1"),
]


@pytest.mark.parametrize("pair", EXCLUDED)
def test_limits_that_exclude_each_other(pair):
    for limits in (pair, pair[::-1], (pair[0], "disparate_impact >= 0.8", pair[1])):
        with refused("No model can keep both", *(repr(str(limit)) for limit in as_constraints(pair)), "Loosen one"):
            refuse_contradictions(as_constraints(limits))


@pytest.mark.parametrize("pair", POSSIBLE)
def test_limits_that_can_be_kept_together_or_are_not_certain(pair):
    refuse_contradictions(as_constraints(pair))


@pytest.mark.parametrize("seed", range(4))
def test_what_some_decisions_keep_is_never_refused(seed):
    """Every decision about six rows is tried: limits that one of them keeps are no contradiction."""
    rng = np.random.default_rng(seed)
    y, group = np.array([0, 1, 0, 1, 0, 1]), np.array(list("aabbcc"))
    grid = np.round(np.linspace(0.0, 1.0, 5), 2)
    every = [np.array(each) for each in itertools.product((0, 1), repeat=6)]
    for _ in range(12):
        pair = []
        for _ in range(2):
            low, high = sorted(rng.choice(grid, 2).tolist())
            against = f" against {rng.choice(['a', 'b', 'overall'])}"
            pair.append(
                str(rng.choice([f"{low} <= selection_rate <= {high}", f"{low} <= selection_rate[b] <= {high}"]))
                if rng.random() < 0.5
                else f"{-high if rng.random() < 0.5 else low} <= demographic_parity <= {high}{against}"
            )
        limits = as_constraints(pair)
        if any(_keep(limits, y, decided, group) for decided in every):
            refuse_contradictions(limits)


def _keep(limits, y, decided, group):
    tally = Tally.build(y, decided, {"g": group})
    return all(limit.keeps(tally.measured(tally.compile_together([limit]))) for limit in limits)


def test_a_fit_refuses_them_before_training():
    X, y, group = np.arange(40.0)[:, None], np.arange(40) % 2, np.array(["a", "b"] * 20)
    limits = [rate_limit("selection_rate", lower=0.6), rate_limit("selection_rate", group="b", upper=0.3)]
    seen = []
    clf = ConstrainedClassifier(limits, callbacks=[seen.append])
    with refused("No model can keep both", "'selection_rate >= 0.6'", "'selection_rate[b] <= 0.3'"):
        clf.fit(X, y, sensitive_features=group)
    assert seen == []
