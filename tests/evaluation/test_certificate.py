"""The certificate: verdicts and bounds for every kind of limit, limits that are not certifiable, and its output."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.helpers import rows
from tests.refusals import refused, says

from fairbound import Constraint, Covariance, DisparateImpact, EqualizedOdds, Measure
from fairbound.evaluation import Certificate, Share, Verdict, certify
from fairbound.fairness import MEASURES
from fairbound.fairness.rates import false_positive_rate, share_of_selected, true_positive_rate

# Bounds come from the same functions of the same counts.
SAME = 1e-12


def _groups(*counts: tuple[int, int]):
    """Rows of groups a, b, … with (selected, not selected) each; labels alternate."""
    _, decision, group = rows(
        *(cell for name, (s, n) in zip("abcdefgh", counts, strict=False) for cell in ((name, 0, 1, s), (name, 0, 0, n)))
    )
    return [i % 2 for i in range(len(group))], decision, group


def _only(certificate):
    (limit,) = certificate.limits
    return limit


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        (((900, 100), (850, 150)), Verdict.PASS),
        (((900, 100), (735, 265)), Verdict.INCONCLUSIVE),
        (((900, 100), (700, 300)), Verdict.INCONCLUSIVE),
        (((900, 100), (500, 500)), Verdict.FAIL),
        (((900, 100), (850, 150), (500, 500)), Verdict.FAIL),
        (((900, 100), (850, 150), (20, 5)), Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts_on_a_ratio(counts, verdict):
    certificate = certify(*_groups(*counts), "disparate_impact >= 0.8")
    assert _only(certificate).verdict is certificate.verdict is verdict
    assert certificate.passed == (verdict is Verdict.PASS)
    (side,) = _only(certificate).bounds
    assert (side.side, side.limit) == ("at least", 0.8)
    assert side.worst <= _only(certificate).value <= side.best
    assert (side.worst >= 0.8) == (verdict is Verdict.PASS)
    assert (side.best < 0.8) == (verdict is Verdict.FAIL)


def test_a_group_called_everyone_is_not_everyone():
    y, decision, group = _groups((90, 10), (80, 20))
    group = ["everyone" if g == "a" else g for g in group]
    certificate = certify(y, decision, group, "demographic_parity <= 0.5 against overall")
    assert [(rate.group, rate.value) for rate in certificate.rates] == [("b", 0.8), (None, 0.85), ("everyone", 0.9)]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("0.8 <= disparate_impact <= 1.2 against a", Verdict.PASS),
        ("1.0 <= disparate_impact <= inf against a", Verdict.FAIL),
        ("-inf <= disparate_impact <= 0.95 against a", Verdict.PASS),
        ("-0.2 <= demographic_parity <= 0 against a", Verdict.PASS),
        ("0 <= demographic_parity <= 0.3 against a", Verdict.FAIL),
        ("disparate_impact >= 0.8 against overall", Verdict.PASS),
        ("disparate_impact >= 0.99 against overall", Verdict.FAIL),
        ("demographic_parity <= 0.1 against overall", Verdict.PASS),
        ("demographic_parity <= 0.01 against overall", Verdict.FAIL),
    ],
)
def test_limits_with_a_direction_or_against_everyone(text, verdict):
    found = _only(certify(*_groups((9000, 1000), (7800, 2200)), text))
    assert found.verdict is verdict
    for side in found.bounds:
        kept = side.worst >= side.limit if side.side == "at least" else side.worst <= side.limit
        assert verdict is not Verdict.PASS or kept


def test_shares_against_everyone_are_not_complementary():
    against_all = Constraint((0.5, None), measure=Measure("s", (share_of_selected,), "ratio"), against="overall")
    found = _only(certify(*_groups((600, 400), (500, 500)), against_all))
    # The share of everyone is 1, so the least ratio is a share itself, less the halved level.
    assert found.value == pytest.approx(500 / 1100)
    assert found.bounds[0].worst == pytest.approx(Share(500, 1100).lower(0.025))


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if measure.comparison != "covariance"])
@pytest.mark.parametrize("labels", [2, 3])
def test_every_measure_of_the_registry_is_certified(name, labels):
    rng = np.random.default_rng(4)
    n, measure = 6000, MEASURES[name]
    y, group = rng.integers(labels, size=n), rng.integers(2, size=n)
    decision = np.where(rng.random(n) < 0.5, y, rng.integers(labels, size=n))
    loose, strict = {"ratio": (0.3, 0.9999), "difference": (0.6, 1e-4), "value": ((0.01, 0.99), (0.999, None))}[
        measure.comparison
    ]
    assert _only(certify(y, decision, group, Constraint(loose, measure=name))).verdict is Verdict.PASS
    assert _only(certify(y, decision, group, Constraint(strict, measure=name))).verdict is not Verdict.PASS


def test_all_limits_pass_together_without_correction():
    data = _groups((900, 100), (850, 150))
    limits = ["disparate_impact >= 0.8", "demographic_parity <= 0.2", "selection_rate >= 0.7"]
    together, alone = certify(*data, limits), [certify(*data, limit) for limit in limits]
    assert together.verdict is Verdict.PASS
    assert [limit.bounds[0].worst for limit in together.limits] == [_only(each).bounds[0].worst for each in alone]
    assert certify(*data, [*limits, "demographic_parity <= 0.05"]).verdict is Verdict.INCONCLUSIVE
    assert certify(*data, [*limits, "selection_rate >= 0.95"]).verdict is Verdict.FAIL


def test_a_covariance_is_not_certifiable():
    certificate = certify(*_groups((900, 100), (850, 150)), [Covariance(0.1), DisparateImpact(0.8)])
    assert [limit.verdict for limit in certificate.limits] == [Verdict.NOT_CERTIFIABLE, Verdict.PASS]
    assert certificate.verdict is Verdict.INCONCLUSIVE
    assert certificate.limits[0].reason.startswith("no bound is claimed for a covariance")
    assert certificate.limits[0].value == pytest.approx(0.0125)
    assert len(certificate.rates) == 2


def informedness(g):
    return true_positive_rate(g) - false_positive_rate(g)


def test_a_measure_of_the_users_own_needs_to_be_declared_monotone():
    rng = np.random.default_rng(0)
    y, group = rng.integers(2, size=8000), rng.integers(2, size=8000)
    decision = np.where(rng.random(8000) < 0.6, y, 1 - y)
    silent = Measure("gap", (informedness,), "difference")
    found = _only(certify(y, decision, group, Constraint(0.3, measure=silent)))
    assert found.verdict is Verdict.NOT_CERTIFIABLE
    assert says(found.reason, "user-defined rate", "monotone=True")
    declared = Measure("gap", (informedness,), "difference", monotone=True)
    certificate = certify(y, decision, group, Constraint(0.3, measure=declared))
    assert _only(certificate).verdict is Verdict.PASS
    assert _only(certificate).bounds[0].worst < 0.3
    # Three rates in each group, six intervals that hold together.
    tpr = Share(((y == 1) & (decision == 1) & (group == 0)).sum(), ((y == 1) & (group == 0)).sum())
    fpr = Share(((y == 0) & (decision == 1) & (group == 0)).sum(), ((y == 0) & (group == 0)).sum())
    lower = tpr.interval(0.05 / 6)[0] - fpr.interval(0.05 / 6)[1]
    assert certificate.rates[0].lower == pytest.approx(lower)
    own = Measure("informedness", (informedness,), "value", monotone=True)
    between = _only(certify(y, decision, group, Constraint((0.1, 0.3), measure=own)))
    assert between.verdict is Verdict.PASS
    assert 0.1 < between.bounds[0].worst < between.value < between.bounds[1].worst < 0.3
    assert _only(certify(y, decision, group, Constraint((0.1, 0.2), measure=own))).times_as_many > 1


def test_weighted_rows_need_the_largest_weight():
    rng = np.random.default_rng(0)
    y, group, decision = (rng.integers(2, size=20000) for _ in range(3))
    w = rng.uniform(0.5, 1.0, 20000)
    refused = _only(certify(y, decision, group, "disparate_impact >= 0.7", sample_weight=w))
    assert refused.verdict is Verdict.NOT_CERTIFIABLE
    assert "with largest_weight=" in refused.reason
    found = certify(y, decision, group, "disparate_impact >= 0.7", sample_weight=w, largest_weight=1.0)
    assert found.verdict is Verdict.PASS
    assert found.weighted
    plain = _only(certify(y, decision, group, "disparate_impact >= 0.7"))
    assert _only(found).bounds[0].worst < plain.bounds[0].worst
    vague = certify(y, decision, group, "disparate_impact >= 0.7", sample_weight=w, largest_weight=1000.0)
    assert vague.verdict is Verdict.INCONCLUSIVE
    assert _only(vague).times_as_many > 1
    equal = certify(y, decision, group, "disparate_impact >= 0.7", sample_weight=np.full(20000, 0.3))
    assert _only(equal).bounds == plain.bounds


def test_a_group_of_which_nothing_is_known_is_inconclusive():
    y, decision, group = rows(("a", 1, 1, 900), ("a", 0, 0, 900), ("b", 1, 1, 900), ("b", 0, 0, 900), ("c", 0, 0, 900))
    certificate = certify(y, decision, group, ["equal_opportunity <= 0.2", "disparate_impact >= 0.01"])
    unknown = certificate.limits[0]
    assert unknown.verdict is Verdict.INCONCLUSIVE
    assert "true_positive_rate(c)" in unknown.reason
    assert unknown.value == 0.0
    assert unknown.rows_needed is None
    nobody = _only(certify(y, [0] * len(y), group, "precision[a] >= 0.5"))
    assert nobody.value is None
    assert nobody.verdict is Verdict.INCONCLUSIVE


def test_rates_on_the_limit_are_never_decided():
    found = _only(certify(*_groups((500, 500), (400, 600)), "disparate_impact >= 0.8"))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.times_as_many is None
    assert found.reason.startswith("not even a million times as many rows would decide at the observed rates.")
    _, requirement = min((each.worst - each.limit, each.text) for each in found.requirements)
    assert found.reason.endswith(f"Least sure is {requirement}: b has 1,000 rows.")


def test_limits_that_ask_for_nothing_pass():
    assert certify(*_groups((1, 1), (1, 1)), "disparate_impact >= 0").passed
    assert certify(*_groups((1, 1), (1, 1)), "demographic_parity <= 1").passed
    assert certify(*_groups((1, 1), (1, 1)), "selection_rate >= 0").passed


def test_classes_and_names():
    rng = np.random.default_rng(1)
    y, group = rng.choice(["lo", "mid", "hi"], 3000), rng.integers(2, size=3000)
    decision = np.where(rng.random(3000) < 0.7, y, "mid")
    certificate = certify(y, decision, group, DisparateImpact(0.7, classes=("hi",)))
    assert [str(rate) for rate in certificate.rates] == [
        "selection_rate(0, class hi)",
        "selection_rate(1, class hi)",
    ]
    assert len(certify(y, decision, group, EqualizedOdds(0.2)).rates) == 12
    turned = certify([0, 1] * 50, [0, 1] * 50, [0] * 50 + [1] * 50, "selection_rate >= 0.3", pos_label=0)
    assert turned.verdict is Verdict.PASS


def test_the_certificate_in_words():
    certificate = certify(
        *_groups((900, 100), (860, 140)),
        ["disparate_impact >= 0.8", "demographic_parity <= 0.05", "selection_rate >= 0.95", "covariance <= 0.1"],
    )
    text = str(certificate)
    words = " ".join(text.split())
    assert text.startswith("Certificate: FAIL (2,000 rows, 95% confidence)")
    line = next(line for line in text.splitlines() if line.startswith("  disparate_impact"))
    assert line.split()[:7] == ["disparate_impact", ">=", "0.8", "PASS", "0.9556", "at", "least"]
    assert "demographic_parity <= 0.05: about " in words
    assert "times as many rows would decide at the observed rates (sensitive_feature: a " in words
    assert says(words, "selection_rate >= 0.95: broken with 95%", "selection_rate(b) >= 0.95")
    assert says(words, "Claim: if any limit is broken", "PASS", "at most 5%")
    assert certificate._repr_html_().count("<table") == 2


def test_html_escapes_what_users_wrote():
    y, decision, _ = _groups((90, 10), (85, 15))
    page = certify(y, decision, {"<script>": ["<b>"] * 100 + ["c"] * 100}, "disparate_impact >= 0.8")._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_a_certificate_that_was_read_back_says_the_same():
    y, decision, group = np.arange(400) % 2, (np.arange(400) % 7 > 1).astype(int), np.repeat(["a", "b"], 200)
    limits = ["disparate_impact >= 0.8", "demographic_parity <= 0.01", "covariance <= 0.1", "selection_rate <= 0.2"]
    written = certify(y, decision, {"g": group, "h": np.tile(["x", "y"], 200)}, limits, groups="both")
    read = Certificate.from_dict(json.loads(written.to_json()))
    assert read.to_dict() == written.to_dict()
    assert str(read) == str(written)
    assert read.verdict is written.verdict


COUNT = st.integers(0, 60)


@settings(max_examples=50)  # each makes whole certificates or audits
@given(
    counts=st.lists(st.tuples(COUNT, COUNT).filter(sum), min_size=2, max_size=4),
    limit=st.sampled_from(
        [
            "disparate_impact >= 0.8",
            "demographic_parity <= 0.1",
            "equalized_odds <= 0.2",
            "accuracy_parity <= 0.1",
            "predictive_parity <= 0.2",
            "sufficiency <= 0.3",
            "representation <= 0.3",
            "0.2 <= selection_rate <= 0.8",
            "disparate_impact >= 0.8 against overall",
            "demographic_parity <= 0.1 against a",
        ]
    ),
    confidence=st.floats(0.5, 0.999),
)
def test_verdicts_follow_from_the_bounds(counts, limit, confidence):
    certificate = certify(*_groups(*counts, (1, 1)), limit, confidence)
    found = _only(certificate)
    broken = any(each.best < each.limit for each in found.requirements)
    kept = all(each.worst >= each.limit for each in found.requirements)
    assert not (broken and kept)
    assert found.verdict is (Verdict.PASS if kept else Verdict.FAIL if broken else Verdict.INCONCLUSIVE)
    assert all(each.worst <= each.best for each in found.requirements)
    # Of a limit with two sides, the value is that of the group nearest to one of them.
    within = [
        min(side.worst, side.best) - SAME <= found.value <= max(side.worst, side.best) + SAME for side in found.bounds
    ]
    assert any(within) if len(within) > 1 else all(within)
    # A certificate at a higher confidence says no more.
    stricter = _only(certify(*_groups(*counts, (1, 1)), limit, (1 + confidence) / 2))
    assert stricter.verdict in (found.verdict, Verdict.INCONCLUSIVE)
    json.loads(certificate.to_json())
    assert str(certificate)


def test_what_cannot_be_asked_raises():
    data = _groups((90, 10), (80, 20))
    with pytest.raises(ValueError, match="limits is empty: give at least one"):
        certify(*data, [])
    with pytest.raises(ValueError, match=r"disparate_impact .*bound=None.*limits nothing"):
        certify(*data, DisparateImpact(None))
    with refused("confidence=0.2", "from 0.5"):
        certify(*data, "disparate_impact >= 0.8", 0.2)
    with refused("largest_weight=3", "sample_weight="):
        certify(*data, "disparate_impact >= 0.8", largest_weight=3)
    with refused("largest_weight=1", "the weight 2"):
        certify(*data, "disparate_impact >= 0.8", sample_weight=[1, 2] * 100, largest_weight=1)
    with pytest.raises(ValueError, match="needs groups: pass sensitive_features"):
        certify(data[0], data[1], None, "disparate_impact >= 0.8")
    with pytest.raises(ValueError, match="Unknown group 'z'"):
        certify(*data, "selection_rate[z] >= 0.1")
    with pytest.raises(TypeError, match="3 is not a constraint"):
        certify(*data, [3])
    with pytest.raises(ValueError, match="prediction contains 2, which is not a label of y"):
        certify(data[0], [2] * 200, data[2], "disparate_impact >= 0.8")
