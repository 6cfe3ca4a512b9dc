"""Audits and certificates without labels: the measures that do not use them, and a refusal of the others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from fairbound.evaluation import audit, certify
from fairbound.fairness import MEASURES, RATES, Measure, uses_label

FREE = {"selection_rate", "share_of_selected"}


def draw(n=500):
    rng = np.random.default_rng(3)
    return rng.integers(2, size=n), rng.integers(2, size=n), rng.choice(list("abc"), n)


def test_which_rates_and_measures_use_the_label():
    assert {name for name, rate in RATES.items() if not uses_label(rate)} == FREE
    comparing = [measure for measure in MEASURES.values() if measure.comparison != "value"]
    assert {measure.name for measure in comparing if not measure.uses_label} == {
        "demographic_parity",
        "disparate_impact",
        "representation",
        "covariance",
    }


def test_a_users_own_rate_is_asked_too():
    assert not uses_label(lambda g: g.selected / (g.selected + g.rejected))
    assert uses_label(lambda g: g.selected_positives / g.size)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", ["each", "both"])
def test_without_labels_the_same_measures_have_the_same_values(weighted, groups):
    y, decided, group = draw()
    columns = {"one": group, "two": np.where(np.arange(500) % 3, "x", "y")}
    weight = np.linspace(0.5, 2, 500) if weighted else None
    with_labels = audit(y, decided, columns, sample_weight=weight, groups=groups)
    without = audit(None, decided, columns, sample_weight=weight, groups=groups)
    assert not without.labelled
    assert len(without.measures) == 4 * len(without.missing)
    for each in without.measures:
        same = with_labels.measure(each.measure, each.grouping)
        for name in ("value", "lower", "upper"):
            found, wanted = getattr(each, name), getattr(same, name)
            assert (found is None) == (wanted is None)
            assert found is None or found == pytest.approx(wanted, abs=1e-12)
    for one, other in zip(without.groups, with_labels.groups, strict=True):
        assert set(one.rates[1]) == FREE
        assert one.decisions == pytest.approx(other.decisions)
        assert (one.labels, one.confusion) == ({}, ())
        assert one.rate("selection_rate").value == pytest.approx(other.rate("selection_rate").value)


def test_an_audit_without_labels_prints_and_serialises():
    _, decided, group = draw()
    found = audit(None, decided, group)
    text = str(found)
    assert "selection rate" in text
    assert "true positive" not in text
    assert "no labels" in text
    assert "label 0" not in found._repr_html_()
    assert found.to_dict()["labelled"] is False
    assert len(found.to_frame()) == 4 * 2


@pytest.mark.parametrize(
    ("decided", "positive", "selected"),
    [
        (["yes", "no", "yes", "yes"], None, 3),
        (["hired", "not", "not", "not"], "hired", 1),
        ([True, False, True, False], None, 2),
        (["1", "0", "1", "1.0"], None, 3),
        (["no", "yes", "no", "no"], "no", 3),
        (["no", "no", "no", "no"], None, 0),
        (["Yes", "Yes", "Yes", "Yes"], None, 4),
    ],
)
def test_the_decision_that_selects(decided, positive, selected):
    found = audit(None, decided, list("aabb"), positive_decision=positive)
    everyone = found.groups[-1]
    assert everyone.decisions[found.classes[1]] == selected


def test_several_decisions_are_several_classes():
    found = audit(None, ["low", "mid", "high", "low"], list("aabb"))
    assert found.classes == ("high", "low", "mid")
    assert found.group("b").rate("selection_rate", "low").value == 0.5


def test_what_needs_labels_is_refused():
    _, decided, group = draw()
    with refused("equal_opportunity", "y="):
        audit(None, decided, group, measures=["equal_opportunity"])
    with refused("equalized_odds", "y="):
        certify(None, decided, group, "equalized_odds <= 0.1")
    with refused("precision", "y="):
        certify(None, decided, group, "precision(sensitive_feature)[a] >= 0.1")
    own = Measure("own", (lambda g: g.selected_positives / g.size,), "difference")
    with refused("own", "y="):
        audit(None, decided, group, measures=[own])
    with refused("'hired'", "positive_decision="):
        audit(None, ["hired", "not"] * 2, list("aabb"))
    with refused("score="):
        audit(None, [0.2, 0.7, 0.1, 0.4], list("aabb"))
    with refused("prediction=", "score="):
        audit(None, None, list("aabb"))


def test_a_certificate_without_labels_is_that_of_the_same_decisions():
    y, decided, group = draw()
    for limit in ("disparate_impact >= 0.7", "demographic_parity <= 0.2"):
        one, other = certify(None, decided, group, limit), certify(y, decided, group, limit)
        assert one.limits[0].verdict is other.limits[0].verdict
        assert [rate.lower for rate in one.rates] == pytest.approx([rate.lower for rate in other.rates])
