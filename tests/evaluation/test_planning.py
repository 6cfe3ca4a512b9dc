"""The number of rows that would decide: with that many rows most draws decide, with a quarter of them most do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.helpers import Population, selected_at

from fairbound.evaluation import Share, Verdict, certify
from fairbound.evaluation.requirements import MOST_TIMES, RateKey, Requirement, times_as_many

# Of a population with these rates, the rows that were seen have them exactly; (population, limit, verdict to come).
CASES = {
    "ratio": (selected_at((0.6, 0.51)), "disparate_impact >= 0.8", Verdict.PASS),
    "ratio, unequal groups": (selected_at((0.6, 0.51), (0.8, 0.2)), "disparate_impact >= 0.8", Verdict.PASS),
    "ratio, broken": (selected_at((0.6, 0.44)), "disparate_impact >= 0.8", Verdict.FAIL),
    "difference, three groups": (selected_at((0.5, 0.47, 0.44)), "demographic_parity <= 0.1", Verdict.PASS),
    "true-positive rates": (
        Population((0.5, 0.5), (0.5, 0.5), (0.8, 0.76), (0.3, 0.3)),
        "equal_opportunity <= 0.1",
        Verdict.PASS,
    ),
    "against everyone": (selected_at((0.6, 0.5)), "disparate_impact >= 0.85 against overall", Verdict.PASS),
    "a floor": (selected_at((0.5, 0.45)), "selection_rate >= 0.4", Verdict.PASS),
    "a ceiling, broken": (selected_at((0.5, 0.45)), "selection_rate <= 0.45", Verdict.FAIL),
    "representation": (selected_at((0.6, 0.5)), "representation <= 0.13", Verdict.PASS),
}


def _seen(population: Population, n: int):
    """Rows in the exact proportions of the population."""
    y, decision, group = [], [], []
    for g, share in enumerate(population.shares):
        for label, chance in ((1, population.positives[g]), (0, 1 - population.positives[g])):
            rate = (population.true_positive if label else population.false_positive)[g]
            size = round(n * share * chance)
            selected = round(size * rate)
            y += [label] * size
            group += [g] * size
            decision += [1] * selected + [0] * (size - selected)
    return y, decision, group


@pytest.mark.parametrize("name", list(CASES))
def test_the_stated_number_of_rows_decides_in_most_draws(name):
    population, limit, verdict = CASES[name]
    seen = _seen(population, 400)
    (found,) = certify(*seen, limit).limits
    assert found.verdict is Verdict.INCONCLUSIVE
    needed = sum(found.rows_needed["sensitive_feature"].values())
    assert needed == pytest.approx(found.times_as_many * len(seen[0]), abs=len(population.shares))
    rng, draws = np.random.default_rng(3), 50

    def share_decided(n: int) -> float:
        verdicts = [certify(*population.draw(rng, n), limit).verdict for _ in range(draws)]
        assert set(verdicts) <= {verdict, Verdict.INCONCLUSIVE}
        return verdicts.count(verdict) / draws

    # Promised is nine in ten; 0.9 shows as less than 0.76 in one test in a thousand. At a quarter of the rows the mean
    # is half as many standard errors away, about what decides: half of the draws, give or take.
    assert share_decided(needed) >= 0.76
    assert share_decided(needed // 4) <= 0.75


def _requirement(kind: str, limit: float, first: Share, second: Share | None) -> Requirement:
    keys = (RateKey("g", "a", None, "r"), RateKey("g", "b", None, "r"))
    relation = "alone" if second is None else "independent"
    return Requirement(kind, "at least", limit, keys[: 1 if second is None else 2], first, second, relation)


def test_a_floor_by_hand():
    # 60 of 100 against a floor of 0.5: z = (0.6 − 0.5)/√(0.25/n) is to be 1.645 + 1.282, so n = 214, a little more for
    # exactness.
    times = times_as_many([_requirement("value", 0.5, Share(60, 100), None)], 0.05, 0.05)
    assert 2.14 < times < 2.35


def test_for_pass_all_requirements_are_needed_and_for_fail_one():
    easy = _requirement("value", 0.4, Share(60, 100), None)
    hard = _requirement("value", 0.55, Share(60, 100), None)
    apart = [times_as_many([each], 0.05, 0.05) for each in (easy, hard)]
    assert times_as_many([easy, hard], 0.05, 0.05) == pytest.approx(max(apart))
    broken = _requirement("value", 0.65, Share(60, 100), None)
    worse = _requirement("value", 0.8, Share(60, 100), None)
    apart = [times_as_many([each], 0.05, 0.05) for each in (broken, worse)]
    assert times_as_many([broken, worse, easy], 0.05, 0.05) == pytest.approx(min(apart))


def test_nothing_decides_on_the_limit_or_without_rows():
    assert times_as_many([_requirement("value", 0.6, Share(60, 100), None)], 0.05, 0.05) is None
    assert times_as_many([_requirement("value", 0.6, Share(0, 0), None)], 0.05, 0.05) is None
    assert times_as_many([_requirement("ratio", 0.8, Share(0, 50), Share(0, 50))], 0.05, 0.05) is None
    near = _requirement("value", 0.6 + 1e-7, Share(60, 100), None)
    assert times_as_many([near], 0.05, 0.05) is None
    assert MOST_TIMES == 1e6


@given(
    st.integers(1, 50), st.integers(1, 50), st.integers(1, 50), st.integers(1, 50),
    st.sampled_from([("ratio", 0.8), ("ratio", 1.0), ("difference", -0.1), ("difference", 0.05)]),
)  # fmt: skip
def test_the_factor_decides_at_its_stricter_level_and_a_smaller_one_does_not(a, not_a, b, not_b, limit):
    requirement = _requirement(*limit, Share(a, a + not_a), Share(b, b + not_b))
    times = times_as_many([requirement], 0.05, 0.025)
    if times is None or times == 1.0:
        return
    assert times > 1
    if requirement.slack >= 0:
        stricter = 0.00171  # Φ(−1.645 − 1.282)
        assert requirement.scaled(times).worst(stricter * 1.01) >= requirement.limit
        assert requirement.scaled(times / 1.02).worst(stricter * 0.99) < requirement.limit
        assert requirement.scaled(times).worst(0.05) >= requirement.limit
    else:
        assert requirement.scaled(times).best(0.025) < requirement.limit
        assert not math.isinf(times)
