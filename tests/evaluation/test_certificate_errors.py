"""The error rates of the certificate, over draws from populations that are exactly *at* their limits.

At the limit both kinds of error are as frequent as they can be: the limit is kept, but any worse population breaks it.
The shares of PASS and of FAIL must each be at most 5%.  Over N draws a true share of 5% has the standard deviation
5%·√(19/N).  Three of these are allowed; a true 5% exceeds them in one test of a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.evaluation.helpers import Population, selected_at

from fairbound import Constraint, Measure
from fairbound.evaluation import Verdict, certify
from fairbound.fairness.rates import false_positive_rate, true_positive_rate

ALPHA = 0.05


def informedness(g):
    return true_positive_rate(g) - false_positive_rate(g)


@dataclass(frozen=True)
class AtLimit:
    """A population at its limit, and the share of PASS that a bound worth its name has at least."""

    population: Population
    limits: object
    least_passes: float = 0.0
    n: int = 500


CASES = {
    "ratio": AtLimit(selected_at((0.6, 0.48)), "disparate_impact >= 0.8", 0.02),
    "ratio, small group, high rates": AtLimit(selected_at((0.9, 0.72), (0.85, 0.15)), "disparate_impact >= 0.8", 0.02),
    # All three pairs must pass, so the two that are not at the limit need rows enough to pass nearly always.
    "ratio, three groups": AtLimit(selected_at((0.6, 0.54, 0.48)), "disparate_impact >= 0.8", 0.02, n=4000),
    "difference": AtLimit(selected_at((0.5, 0.4)), "demographic_parity <= 0.1", 0.02),
    "ratio of true-positive rates": AtLimit(
        Population((0.5, 0.5), (0.5, 0.3), (0.8, 0.64), (0.3, 0.3)), "equal_impact >= 0.8", 0.02
    ),
    "against everyone, ratio": AtLimit(
        # 0.8 of 0.3·r + 0.7·0.6 is r = 0.336/0.76
        selected_at((0.6, 0.336 / 0.76), (0.7, 0.3)),
        "0.8 <= disparate_impact <= inf against overall",
        0.015,
    ),
    "against everyone, difference": AtLimit(
        selected_at((0.6, 0.6 - 0.1 / 0.7), (0.7, 0.3)), "demographic_parity <= 0.1 against overall", 0.015
    ),
    "a floor": AtLimit(selected_at((0.5, 0.4)), "selection_rate >= 0.4", 0.03),
    "precision": AtLimit(
        # precision 0.8 and 0.7; among 125 selected each both directions of the limit together could not be shown
        Population((0.5, 0.5), (0.5, 0.5), (0.8, 0.7), (0.2, 0.3)),
        "predictive_parity <= 0.1",
        0.02,
        n=2000,
    ),
    "representation": AtLimit(selected_at((0.6, 0.4)), "representation <= 0.2", 0.03),
    "representation of three": AtLimit(selected_at((0.6, 0.45, 0.3)), "representation <= 0.2222222"),
    "accuracy": AtLimit(
        Population((0.5, 0.5), (0.5, 0.5), (0.8, 0.7), (0.2, 0.3)), "accuracy_parity <= 0.1", 0.02
    ),
    "a user's own measure": AtLimit(
        Population((0.5, 0.5), (0.5, 0.5), (0.8, 0.7), (0.2, 0.3)),
        Constraint(0.2, measure=Measure("gap", (informedness,), "difference", monotone=True)),
    ),
    "several limits, all at their limits": AtLimit(
        selected_at((0.5, 0.4)),
        ["disparate_impact >= 0.8", "demographic_parity <= 0.1", "selection_rate >= 0.4"],
        0.005,
    ),
    "several limits, one of them at its limit": AtLimit(
        selected_at((0.5, 0.4)), ["disparate_impact >= 0.6", "demographic_parity <= 0.3", "selection_rate >= 0.4"], 0.03
    ),
}  # fmt: skip


def shares_of_verdicts(case: AtLimit, draws: int, seed: int) -> tuple[float, float]:
    """Share of draws in which all limits pass, and in which one fails."""
    rng = np.random.default_rng(seed)
    verdicts = [
        certify(*case.population.draw(rng, case.n), case.limits, 1 - ALPHA).verdict for _ in range(draws)
    ]  # fmt: skip
    return verdicts.count(Verdict.PASS) / draws, verdicts.count(Verdict.FAIL) / draws


def tolerance(draws: int) -> float:
    return 3 * float(np.sqrt(ALPHA * (1 - ALPHA) / draws))


@pytest.mark.parametrize("name", list(CASES))
def test_at_the_limit_pass_and_fail_are_rare(name):
    draws = 80
    passes, fails = shares_of_verdicts(CASES[name], draws, seed=11)
    assert passes <= ALPHA + tolerance(draws)
    assert fails <= ALPHA + tolerance(draws)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_at_the_limit_pass_and_fail_are_rare_over_many_draws(name):
    draws = 2000
    passes, fails = shares_of_verdicts(CASES[name], draws, seed=12)
    assert passes <= ALPHA + tolerance(draws)
    assert fails <= ALPHA + tolerance(draws)
    # A certificate that never passes would keep the promise, too, and be worth nothing.
    assert passes >= CASES[name].least_passes


def test_the_simulation_would_notice_a_certificate_that_errs():
    # Beyond the limit by what 90% confidence would let through at 95%: the limit is stated a little looser than it is.
    beyond = AtLimit(selected_at((0.6, 0.48)), "disparate_impact >= 0.75")
    passes, _ = shares_of_verdicts(beyond, 100, seed=13)
    assert passes > ALPHA + tolerance(100)


@pytest.mark.parametrize("weights_known", [True, False])
def test_weighted_rows_at_the_limit(weights_known):
    # Weights 1 and 2, heavier rows selected less often: weighted rates 0.56 and 0.42, ratio 0.75.
    rng, draws, passes = np.random.default_rng(6), 100, 0
    for _ in range(draws):
        n = 4000
        group, w = rng.integers(2, size=n), rng.choice([1.0, 2.0], size=n)
        rate = np.where(w == 2.0, 0.52, 0.64) * np.where(group == 1, 0.75, 1.0)
        decision, y = (rng.random(n) < rate).astype(int), rng.integers(2, size=n)
        certificate = certify(
            y,
            decision,
            group,
            "disparate_impact >= 0.75",
            sample_weight=w,
            largest_weight=2.0 if weights_known else None,
        )
        passes += certificate.passed
        expected = Verdict.INCONCLUSIVE if weights_known else Verdict.NOT_CERTIFIABLE
        assert certificate.limits[0].verdict in (expected, Verdict.PASS)
    assert passes / draws <= ALPHA + tolerance(draws)
