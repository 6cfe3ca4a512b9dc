"""Scores by group: AUC and calibration against scikit-learn, thresholds against the audit of the decisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score
from tests.refusals import refused

from fairbound.evaluation import auc_estimate, audit, binomial_interval
from fairbound.fairness import MEASURES, RATES


def draw(n=800, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    group = rng.choice(list("abc"), n, p=[0.5, 0.3, 0.2])
    score = rng.beta(2, 3, n)
    score = score if digits is None else score.round(digits)
    y = (rng.random(n) < score**1.3).astype(int)
    return y, score, group


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=2, max_size=60))
def test_auc_is_that_of_scikit_learn_with_ties(rows):
    scores, labels = np.array([row[0] for row in rows], float), np.array([row[1] for row in rows])
    found = auc_estimate(scores, labels, 0.95)
    if labels.all() or not labels.any():
        assert found.value is None
        return
    assert found.value == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    if found.lower is not None:
        assert 0 < found.lower <= found.value <= found.upper < 1


def test_the_variance_of_auc_is_that_of_delong_by_hand():
    # The share of negatives that each positive beats is 0.75, 1, 1; of positives that beat each negative, 1 and 5/6.
    scores, labels = np.array([2.0, 3.0, 4.0, 1.0, 2.0]), np.array([True, True, True, False, False])
    beats, beaten = np.array([0.75, 1.0, 1.0]), np.array([1.0, 2.5 / 3])
    auc = beats.mean()
    variance = beats.var(ddof=1) / 3 + beaten.var(ddof=1) / 2
    found = auc_estimate(scores, labels, 0.95)
    assert found.value == pytest.approx(auc)
    odds = np.log(auc / (1 - auc))
    reach = stats.norm.ppf(0.975) * np.sqrt(variance) / (auc * (1 - auc))
    assert (found.lower, found.upper) == pytest.approx(
        (1 / (1 + np.exp(reach - odds)), 1 / (1 + np.exp(-reach - odds)))
    )


@pytest.mark.parametrize("digits", [None, 1])
def test_reliability_is_that_of_scikit_learn_and_has_exact_intervals(digits):
    y, score, group = draw(digits=digits)
    found = audit(y, None, group, score=score).scores
    for name in "abc":
        inside = group == name
        each = found.group(name)
        shares, means = calibration_curve(y[inside], score[inside], n_bins=10)
        assert [cell.positives.value for cell in each.calibration] == pytest.approx(shares)
        assert [cell.score for cell in each.calibration] == pytest.approx(means)
        assert sum(cell.rows for cell in each.calibration) == inside.sum()
        rows = np.array([cell.rows for cell in each.calibration])
        assert each.calibration_error == pytest.approx((rows * abs(shares - means)).sum() / inside.sum())
        level = 1 - 0.05 / len(rows)
        lower, upper = binomial_interval((shares * rows).round(), rows, level)
        assert [cell.positives.lower for cell in each.calibration] == pytest.approx(lower)
        assert [cell.positives.upper for cell in each.calibration] == pytest.approx(upper)
        assert each.auc.value == pytest.approx(roc_auc_score(y[inside], score[inside]))


def test_distributions():
    y, score, group = draw()
    found = audit(y, None, group, score=score).scores
    for name in "abc":
        inside, each = score[group == name], found.group(name)
        assert each.quantiles == pytest.approx(np.quantile(inside, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]))
        assert sum(each.shares) == pytest.approx(1)
        assert each.above_median == (inside > np.median(score)).sum()
        assert each.mean == pytest.approx(inside.mean())
    assert found.median == np.median(score)


@pytest.mark.parametrize("labelled", [True, False])
def test_every_threshold_is_the_audit_of_its_decisions(labelled):
    y, score, group = draw(300, seed=2, digits=2)
    given = y if labelled else None
    found = audit(given, None, {"group": group}, score=score)
    curve = found.scores.curve()
    assert list(curve.thresholds) == sorted(set(score))
    for place in (0, 5, len(curve.thresholds) // 2, len(curve.thresholds) - 1):
        threshold = curve.thresholds[place]
        same = audit(given, (score >= threshold).astype(int), {"group": group})
        for name, values in curve.measures.items():
            wanted = same.measure(name).value
            assert np.isnan(values[place]) if wanted is None else values[place] == pytest.approx(wanted, abs=1e-12)
        for rate, values in curve.rates.items():
            for column, each in enumerate(same.groups):
                wanted = each.rate(rate).value
                assert (
                    np.isnan(values[place, column])
                    if wanted is None
                    else values[place, column] == pytest.approx(wanted)
                )
        assert curve.at(threshold)["disparate_impact"] == pytest.approx(same.measure("disparate_impact").value)
    compared = {name for name, each in MEASURES.items() if each.comparison in ("ratio", "difference")}
    if labelled:
        assert (set(curve.measures), set(curve.rates)) == (compared, set(RATES))
    else:
        assert set(curve.measures) == {"demographic_parity", "disparate_impact", "representation"}


def test_decisions_follow_from_a_threshold_or_the_median_and_the_audit_says_so():
    y, score, group = draw(200)
    by_median = audit(y, None, group, score=score)
    assert by_median.groups[-1].rate("selection_rate").value == (score > np.median(score)).mean()
    assert "above the median" in " ".join(by_median.notes)
    at = audit(y, None, group, score=score, threshold=0.6)
    assert at.groups[-1].rate("selection_rate").value == (score >= 0.6).mean()
    assert "at least 0.6" in " ".join(at.notes)
    given = audit(y, y, group, score=score)
    assert "There are no decisions" not in " ".join(given.notes)


def test_scores_that_are_no_probabilities_have_no_calibration():
    y, score, group = draw(200)
    found = audit(y, None, group, score=100 * score)
    assert all(each.calibration == () and each.calibration_error is None for each in found.scores.groups)
    assert "not probabilities" in " ".join(found.notes)


def test_a_group_with_one_kind_of_label_has_no_auc():
    found = audit([0, 1, 1, 1], None, list("aabb"), score=[0.1, 0.9, 0.5, 0.6])
    assert found.scores.group("b").auc.value is None
    assert "undefined" in str(found)


def test_the_dictionary_has_few_thresholds_and_is_json():
    y, score, group = draw(3000)
    found = audit(y, None, group, score=score)
    (curve,) = found.to_dict()["scores"]["curves"]
    assert len(curve["thresholds"]) == 200 < len(found.scores.curve().thresholds)
    assert curve["thresholds"][0] == score.min()
    assert curve["thresholds"][-1] == score.max()
    found.to_json()


def test_bad_scores_are_refused():
    y, group = [0, 1, 0, 1], list("aabb")
    with refused("score=", "nan", "row 2"):
        audit(y, None, group, score=[0.1, float("nan"), 0.2, 0.3])
    with refused("score=", "'high'", "row 1", "number"):
        audit(y, None, group, score=["high", "low", "low", "low"])
    with refused("score=", "3", "4"):
        audit(y, y, group, score=[0.1, 0.2, 0.3])
    with refused("threshold=", "prediction="):
        audit(y, y, group, score=[0.1, 0.2, 0.3, 0.4], threshold=0.5)
    with refused("sample_weight="):
        audit(y, y, group, score=[0.1, 0.2, 0.3, 0.4], sample_weight=[1, 2, 3, 4])
    with refused("score=", "probabilities of groups"):
        audit(y, y, {"race": {"a": [0.1, 0.2, 0.9, 0.8]}}, score=[0.1, 0.2, 0.3, 0.4])
    with refused("above every score"):
        audit(y, y, group, score=[0.1, 0.2, 0.3, 0.4]).scores.curve().at(0.5)
