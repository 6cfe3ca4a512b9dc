"""The summary dictionary, apart from anything that is made of it."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.report.example import LIMIT, edited, fit_result, frontier_point, law_pieces, law_summary

from fairbound import (
    ConstrainedClassifier,
    Constraint,
    LimitWarning,
    make_disparate_data,
)
from fairbound._json import plain
from fairbound.evaluation import Verdict, audit, certify
from fairbound.studies import Decisions, LimitValue, SweptPoint, holds_summary, is_kept, read_summary, summarize

ROWS = Decisions(
    y=[0, 1, 1, 0, 1, 0, 1, 0],
    sensitive_features=["a"] * 4 + ["b"] * 4,
    before=[0, 1, 1, 0, 0, 0, 0, 0],
    after=[0, 1, 1, 1, 1, 0, 0, 0],
)


def ratio(prediction, groups):
    """The least ratio of selection rates, counted by hand."""
    rates = [np.mean(prediction[groups == group]) for group in np.unique(groups)]
    return min(rates) / max(rates)


def test_it_is_read_from_its_file_as_it_was(tmp_path):
    (tmp_path / "summary.json").write_text(law_summary().to_json(), encoding="utf-8")
    again = read_summary(tmp_path / "summary.json")
    assert again.to_json() == law_summary().to_json()
    assert again.fit == law_summary().fit
    assert again.held_out.certificate == law_summary().held_out.certificate
    assert again.training == law_summary().training
    assert holds_summary(tmp_path)


@pytest.mark.parametrize("part", ["training", "held_out"])
@pytest.mark.parametrize("model", ["before", "after"])
def test_groups_are_those_of_the_audit(part, model):
    rows = law_pieces()[part]
    score = rows.scores if model == "after" else None  # of the held-out rows only
    expected = audit(rows.y, getattr(rows, model), rows.sensitive_features, score=score).to_dict()
    assert getattr(getattr(law_summary(), part), model).to_dict() == expected | {"classes": ["0", "1"]}


@pytest.mark.parametrize("part", ["training", "held_out"])
def test_limits_and_accuracies_counted_by_hand(part):
    rows, found = law_pieces()[part], law_summary()
    groups = rows.sensitive_features["race"]
    for model in ("before", "after"):
        prediction = getattr(rows, model)
        measured = getattr(getattr(found, part).limits[0], model)
        assert measured.value == pytest.approx(ratio(prediction, groups), abs=1e-12)
        assert measured.kept == (ratio(prediction, groups) >= 0.9)
        accuracy = getattr(found, part).accuracy
        share = getattr(accuracy, model)
        assert share.value == pytest.approx(np.mean(prediction == rows.y), abs=1e-12)
        assert share.lower < share.value < share.upper
    constant = max(np.mean(rows.y), 1 - np.mean(rows.y))
    assert accuracy.constant == pytest.approx(constant, abs=1e-12)
    assert accuracy.gain == pytest.approx(np.mean(rows.after == rows.y) - constant, abs=1e-12)
    assert accuracy.cost == pytest.approx(np.mean(rows.before == rows.y) - np.mean(rows.after == rows.y), abs=1e-12)


def test_training_keeps_the_limit_and_no_limit_did_not():
    # What training claims of its own model, told again from its decisions.
    found = law_summary().training.limits[0]
    assert (found.before.kept, found.after.kept) == (False, True)


def test_the_certificate_is_that_of_the_held_out_rows():
    rows = law_pieces()["held_out"]
    assert law_summary().held_out.certificate == certify(rows.y, rows.after, rows.sensitive_features, [LIMIT])
    assert law_summary().training.certificate is None


def test_every_point_of_the_frontier_is_audited():
    pieces = law_pieces()
    for swept, point in zip(pieces["frontier"], law_summary().frontier, strict=True):
        assert point.bound == swept.point.bound
        assert point.text == f"disparate_impact >= {point.bound:g}"
        assert (point.loss_price, point.accuracy_price) == (
            swept.point.loss_price,
            swept.point.accuracy_price,
        )
        for part in ("training", "held_out"):
            rows, prediction = pieces[part], getattr(swept, part)
            expected = audit(rows.y, prediction, rows.sensitive_features)
            measure = expected.measure("disparate_impact")
            found = getattr(point, part)
            assert (found.value, found.lower, found.upper) == (measure.value, measure.lower, measure.upper)
            assert found.accuracy.value == pytest.approx(np.mean(prediction == rows.y), abs=1e-12)
            for group, whole in zip(found.groups, expected.groups, strict=True):
                assert (group.name, group.rows) == (whole.name, whole.rows)
                assert all(each == whole.rates[1][name] for name, each in group.rates["1"].items())
        assert point.training.kept == swept.point.result.assessment.kept
        assert point.training.value == pytest.approx(swept.point.result.assessment.measured[0], abs=1e-12)


def test_the_facts_of_the_law_limit():
    (limit,) = law_summary().limits
    assert limit.text == "disparate_impact >= 0.9"
    assert (limit.lower, limit.upper) == (0.9, None)
    assert limit.groupings == ("race",)
    assert law_summary().fit.limits[0].price > 0


def test_what_moved_on_held_out_rows():
    changes = {each.after.measure: each for each in law_summary().changes}
    assert [name for name, each in changes.items() if each.asked] == ["disparate_impact"]
    assert changes["disparate_impact"].direction == "nearer"  # a ratio that rose
    assert changes["demographic_parity"].direction == "nearer"  # a difference that fell
    assert changes["demographic_parity"].change < 0 < changes["disparate_impact"].change
    assert changes["demographic_parity"].intervals_apart is True
    assert changes["covariance"].intervals_apart is False  # it has no intervals


@pytest.mark.parametrize(
    ("limit", "bounds", "against", "group"),
    [
        ("disparate_impact >= 0.8", (0.8, None), "pairwise", None),
        ("demographic_parity <= 0.1", (None, 0.1), "pairwise", None),
        ("equalized_odds <= 0.2 against overall", (None, 0.2), "overall", None),
        ("0.8 <= disparate_impact <= 1.25 against a", (0.8, 1.25), "a", None),
        ("0.8 <= disparate_impact <= inf against a", (0.8, None), "a", None),
        ("selection_rate[b] >= 0.3", (0.3, None), "pairwise", "b"),
        ("0.1 <= selection_rate <= 0.9", (0.1, 0.9), "pairwise", None),
        ("covariance <= 0.1", (None, 0.1), "pairwise", None),
    ],
)
def test_facts_of_limits(limit, bounds, against, group):
    found = summarize(limit, ROWS).limits[0]
    assert (found.lower, found.upper) == bounds
    assert (found.against, found.group, found.text) == (against, group, limit)


@pytest.mark.parametrize(
    ("limit", "before", "after", "kept"),
    [  # selection rates: before 2/4 and 0/4, after 3/4 and 1/4
        ("disparate_impact >= 0.3", 0.0, 1 / 3, True),
        ("disparate_impact >= 0.34", 0.0, 1 / 3, False),
        ("demographic_parity <= 0.5", 0.5, 0.5, True),
        ("demographic_parity <= 0.49", 0.5, 0.5, False),
        ("selection_rate[b] >= 0.25", 0.0, 0.25, True),
        ("selection_rate >= 0.3", 0.0, 0.25, False),
        ("covariance <= 0.1", 0.125, 0.125, False),
        ("covariance <= 0.125", 0.125, 0.125, True),
        ("0.3 <= disparate_impact <= inf against a", 0.0, 1 / 3, True),
    ],
)
def test_kept_is_counted(limit, before, after, kept):
    found = summarize(limit, ROWS).training.limits[0]
    assert found.before.value == pytest.approx(before, abs=1e-12)
    assert found.after.value == pytest.approx(after, abs=1e-12)
    assert found.after.kept is kept


def test_undefined_everywhere_is_neither_kept_nor_broken():
    rows = Decisions(y=[1, 1, 0, 0], sensitive_features=list("aabb"), after=[1, 0, 1, 0])
    found = summarize("equal_opportunity <= 0.1", rows).training.limits[0].after
    assert found == LimitValue(None, None)


def test_without_held_out_rows_a_model_before_or_limits():
    found = summarize((), replace(ROWS, before=None))
    assert found.held_out is None
    assert found.training.before is None
    assert (found.changes, found.limits) == ([], ())
    assert found.training.accuracy.cost is None
    assert (found.fit, found.frontier, found.calibration) == (None, (), ())


def test_without_limits_there_is_no_certificate():
    assert summarize((), ROWS, ROWS).held_out.certificate is None


def test_rows_without_a_group_count_in_the_accuracy():
    rows = Decisions(y=[1, 0, 1, 0, 1], sensitive_features=["a", "a", "b", "b", None], after=[1, 0, 1, 0, 0])
    found = summarize((), rows).training
    assert found.accuracy.after.value == pytest.approx(4 / 5)
    assert found.after.groups[-1].rates["1"]["accuracy"].value == 1.0
    assert found.after.missing == {"sensitive_feature": 1}


def test_weights_count():
    rows = replace(ROWS, sample_weight=[1.0, 2, 3, 4, 5, 6, 7, 8], largest_weight=10.0)
    found = summarize("demographic_parity <= 0.9", rows, rows)
    weight, right = np.arange(1.0, 9.0), np.array(ROWS.after) == np.array(ROWS.y)
    accuracy = found.training.accuracy
    assert accuracy.after.value == pytest.approx(weight @ right / weight.sum(), abs=1e-12)
    assert accuracy.constant == pytest.approx(19 / 36, abs=1e-12)
    # The largest weight reaches the certificate: without it the verdict would be NOT CERTIFIABLE.
    assert found.held_out.certificate.verdict is Verdict.INCONCLUSIVE


def test_several_columns_and_the_positive_label():
    sensitive = {"first": ROWS.sensitive_features, "second": ["x", "y"] * 4}
    rows = replace(ROWS, sensitive_features=sensitive)
    found = summarize("disparate_impact(first) >= 0.3", rows, groups="both", pos_label=0)
    assert list(found.training.after.missing) == ["first", "second", "first & second"]
    assert found.classes == ("1", "0")
    assert found.limits[0].groupings == ("first",)
    asked = {(each.after.measure, each.after.grouping) for each in found.changes if each.asked}
    assert asked == {("disparate_impact", "first")}


def test_several_classes():
    generator = np.random.default_rng(0)
    y, after = generator.integers(0, 3, 60), generator.integers(0, 3, 60)
    rows = Decisions(y=y, sensitive_features=["a", "b"] * 30, before=y, after=after)
    found = summarize(Constraint(0.5, measure="demographic_parity", classes=(1,)), rows)
    assert found.limits[0].classes == ("1",)
    assert found.classes == ("0", "1", "2")
    assert {each.after.label for each in found.changes if each.after.measure == "demographic_parity"} == {"0", "1", "2"}


def test_words_for_the_labels():
    assert summarize((), ROWS, class_names={1: "granted"}).class_names == ("0", "granted")


def test_numpy_numbers_and_what_json_has_not_become_plain():
    reproduction = {
        "seed": np.int64(3),
        "share": np.float64(0.5),
        "ok": np.bool_(True),
        "list": np.arange(2),
        "nan": math.nan,
    }
    found = summarize((), ROWS, reproduction=reproduction, result=fit_result(seconds=np.float32(0.5)))
    assert found.reproduction == {"seed": 3, "share": 0.5, "ok": True, "list": [0, 1], "nan": None}
    assert found.fit.seconds == 0.5


def test_the_certificate_of_the_calibration_rows_is_that_of_the_fit():
    certificate = certify(ROWS.y, ROWS.after, ROWS.sensitive_features, "disparate_impact >= 0.1")
    result = fit_result(certificate=certificate)
    found = summarize("disparate_impact >= 0.1", ROWS, result=result)
    assert found.certificates == {"calibration": certificate}
    assert found.calibration[0].after == LimitValue(certificate.limits[0].value, True)


def test_an_infeasible_fit_has_its_conflicts_and_every_iteration_its_loss_and_violation():
    data = make_disparate_data(1000, base_rates={"a": 0.6, "b": 0.3}, seed=0).dataset
    # Of the 60% of positive rows in a, two thirds are selected if 80% of its rows are.
    limits = ["selection_rate[a] >= 0.8", "true_positive_rate <= 0.4"]
    with pytest.warns(LimitWarning):
        clf = ConstrainedClassifier(limits).fit(data.X, data.y, sensitive_features=data.groups())
    rows = Decisions(y=data.y, sensitive_features={"sensitive_feature": data.groups()}, after=clf.predict(data.X))
    run = summarize(limits, rows, result=clf.result_).fit
    assert run.status.value == "infeasible"
    assert len(run.conflicts) == 2
    assert all(any(limit in text for text in run.conflicts) for limit in ("selection_rate[a] >= 0.8", "<= 0.4"))
    for row in run.iterations:
        assert row["loss"] > 0.0
        assert (row["exact_violation"] is None) == (row["phase"] == "free")
        assert row["phase"] in run.phases


@settings(max_examples=15)
@given(data=st.data())
def test_any_rows_give_a_summary_that_is_json(data):
    n = data.draw(st.integers(2, 30))

    def column(values):
        return st.lists(st.sampled_from(values), min_size=n, max_size=n)

    labels = data.draw(st.sampled_from([[0, 1], ["no", "yes"], [False, True]]))
    y = labels + data.draw(st.lists(st.sampled_from(labels), min_size=n - 2, max_size=n - 2))
    names = [*data.draw(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=4, unique=True)), None]
    groups = names[:2] + data.draw(st.lists(st.sampled_from(names), min_size=n - 2, max_size=n - 2))
    rows = Decisions(
        y=y, sensitive_features={"g": groups}, before=data.draw(column(labels)), after=data.draw(column(labels))
    )
    found = summarize(["disparate_impact >= 0.8", "demographic_parity <= 0.2"], rows, rows)
    assert json.loads(found.to_json()) == plain(found)
    for part in found.parts.values():
        accuracy = part.accuracy
        right = np.mean([a == b for a, b in zip(y, rows.after, strict=True)])
        assert accuracy.after.value == pytest.approx(right, abs=1e-12)
        assert accuracy.gain <= accuracy.after.value - 0.5 + 1e-12  # the best of two constants is right in half
    ratio_limit, difference_limit = (limit.after for limit in found.training.limits)
    assert ratio_limit.kept == (ratio_limit.value >= 0.8 - 1e-12)
    assert difference_limit.kept == (difference_limit.value <= 0.2 + 1e-12)


@pytest.mark.parametrize(
    ("training", "calibration", "held_out", "verdict", "kept"),
    [
        (True, None, None, None, True),
        (True, None, True, "INCONCLUSIVE", True),
        (True, None, None, "INCONCLUSIVE", True),  # undefined there
        (True, None, False, "INCONCLUSIVE", False),  # 0.71 for 0.8 had exit code 0
        (True, None, False, "FAIL", False),
        (True, "PASS", False, "INCONCLUSIVE", True),  # with a confidence, the test decides
        (True, "PASS", False, "FAIL", False),
        (True, "INCONCLUSIVE", True, "PASS", False),  # what was asked for is a pass on the calibration rows
        (False, None, True, "PASS", False),
    ],
)
def test_what_counts_as_kept(training, calibration, held_out, verdict, kept):
    with edited(law_summary()) as values:
        tested = values["held_out"]["certificate"]
        for part, found in (("training", training), ("held_out", held_out)):
            values[part]["limits"][0]["after"]["kept"] = found
        if calibration is not None:
            values["fit"]["certificate"] = {**tested, "limits": [{**tested["limits"][0], "verdict": calibration}]}
        tested["limits"][0]["verdict"] = verdict
        values["held_out"] = None if verdict is None else values["held_out"]
        for point in values["frontier"]:
            point["held_out"] = None if verdict is None else point["held_out"]
    assert is_kept(values.summary) is kept


POINT = SweptPoint(point=frontier_point(0.8), training=ROWS.after)


def test_the_pieces_are_not_changed():
    reproduction = {"seed": 1, "data": {"rows": 8}}
    before = copy.deepcopy(reproduction)
    summarize((), ROWS, reproduction=reproduction).reproduction["data"]["rows"] = 9
    assert reproduction == before
