"""The summary dictionary, apart from anything that is made of it."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests.report.example import LIMIT, fit_result, law_pieces, law_summary

from fairbound import (
    ConstrainedClassifier,
    Constraint,
    DisparateImpact,
    LimitWarning,
    StochasticSQP,
    TrainingProblem,
    make_disparate_data,
)
from fairbound._json import as_json
from fairbound.estimator.reached import LimitResult
from fairbound.evaluation import audit, certify
from fairbound.fairness import Cells
from fairbound.report import page
from fairbound.studies.measured import uniform_history
from fairbound.studies.summary import SCHEMA, VERSION, Decisions, SweptPoint, summarize
from fairbound.training import PHASES, FullBatch, make_model, train

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


# --- the law data ---------------------------------------------------------------------------------------------------


def test_the_keys_are_those_that_the_report_reads():
    assert set(law_summary()) == {"schema", "version", *page.KEYS, *page.FURTHER}
    assert (page.SCHEMA, page.VERSION) == (SCHEMA, VERSION)
    page.check_summary(law_summary())


def test_it_is_json_and_comes_back_the_same():
    text = json.dumps(law_summary(), allow_nan=False)
    assert json.loads(text) == law_summary()


@pytest.mark.parametrize("part", ["training", "held_out"])
@pytest.mark.parametrize("model", ["before", "after"])
def test_groups_are_those_of_the_audit(part, model):
    rows = law_pieces()[part]
    score = rows.scores if model == "after" else None  # of the held-out rows only
    expected = audit(rows.y, getattr(rows, model), rows.sensitive_features, score=score).to_dict()
    assert law_summary()["parts"][part][model] == expected


@pytest.mark.parametrize("part", ["training", "held_out"])
def test_limits_and_accuracies_counted_by_hand(part):
    rows, found = law_pieces()[part], law_summary()
    groups = rows.sensitive_features["race"]
    for model in ("before", "after"):
        prediction = getattr(rows, model)
        measured = found["limits"][0][part][model]
        assert measured["value"] == pytest.approx(ratio(prediction, groups), abs=1e-12)
        assert measured["kept"] == (ratio(prediction, groups) >= 0.9)
        accuracy = found["parts"][part]["accuracy"]
        assert accuracy[model]["value"] == pytest.approx(np.mean(prediction == rows.y), abs=1e-12)
        assert accuracy[model]["lower"] < accuracy[model]["value"] < accuracy[model]["upper"]
    constant = max(np.mean(rows.y), 1 - np.mean(rows.y))
    assert accuracy["constant"] == pytest.approx(constant, abs=1e-12)
    assert accuracy["gain"] == pytest.approx(np.mean(rows.after == rows.y) - constant, abs=1e-12)
    assert accuracy["cost"] == pytest.approx(np.mean(rows.before == rows.y) - np.mean(rows.after == rows.y), abs=1e-12)


def test_training_keeps_the_limit_and_no_limit_did_not():
    # What training claims of its own model, told again from its decisions.
    found = law_summary()["limits"][0]["training"]
    assert (found["before"]["kept"], found["after"]["kept"]) == (False, True)


def test_the_certificate_is_that_of_the_held_out_rows():
    rows = law_pieces()["held_out"]
    expected = certify(rows.y, rows.after, rows.sensitive_features, [LIMIT]).to_dict()
    assert law_summary()["parts"]["held_out"]["certificate"] == expected
    assert "certificate" not in law_summary()["parts"]["training"]


def test_every_point_of_the_frontier_is_audited():
    pieces = law_pieces()
    for swept, point in zip(pieces["frontier"], law_summary()["frontier"]["points"], strict=True):
        assert point["bound"] == swept.point["bound"]
        assert point["text"] == f"disparate_impact >= {point['bound']:g}"
        assert (point["loss_price"], point["accuracy_price"]) == (
            swept.point["loss_price"],
            swept.point["accuracy_price"],
        )
        for part in ("training", "held_out"):
            rows, prediction = pieces[part], getattr(swept, part)
            expected = audit(rows.y, prediction, rows.sensitive_features)
            measure = expected.measure("disparate_impact")
            found = point[part]
            assert (found["value"], found["lower"], found["upper"]) == (measure.value, measure.lower, measure.upper)
            assert found["accuracy"]["value"] == pytest.approx(np.mean(prediction == rows.y), abs=1e-12)
            for group, whole in zip(found["groups"], expected.to_dict()["groups"], strict=True):
                assert (group["group"], group["rows"]) == (whole["group"], whole["rows"])
                assert group["rates"]["1"].items() <= whole["rates"]["1"].items()
        assert point["training"]["kept"] == swept.point["kept"]
        assert point["training"]["value"] == pytest.approx(swept.point["measured"][0], abs=1e-12)


def test_the_facts_of_the_law_limit():
    (limit,) = law_summary()["limits"]
    assert limit["text"] == "disparate_impact >= 0.9"
    assert limit["sides"] == [{"side": "at least", "bound": 0.9}]
    assert limit["groupings"] == ["race"]
    assert limit["loss_price"] > 0


def test_what_moved_on_held_out_rows():
    changes = {each["measure"]: each for each in law_summary()["changes"]}
    assert {each["part"] for each in changes.values()} == {"held_out"}
    assert [name for name, each in changes.items() if each["asked"]] == ["disparate_impact"]
    assert changes["disparate_impact"]["direction"] == "nearer"  # a ratio that rose
    assert changes["demographic_parity"]["direction"] == "nearer"  # a difference that fell
    assert changes["demographic_parity"]["change"] < 0 < changes["disparate_impact"]["change"]
    assert changes["demographic_parity"]["intervals_apart"] is True
    assert changes["covariance"]["intervals_apart"] is None  # it has no intervals


# --- limits of every kind -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "sides", "against", "group"),
    [
        ("disparate_impact >= 0.8", [("at least", 0.8)], "pairwise", None),
        ("demographic_parity <= 0.1", [("at most", 0.1)], "pairwise", None),
        ("equalized_odds <= 0.2 against overall", [("at most", 0.2)], "overall", None),
        ("0.8 <= disparate_impact <= 1.25 against a", [("at least", 0.8), ("at most", 1.25)], "a", None),
        ("0.8 <= disparate_impact <= inf against a", [("at least", 0.8)], "a", None),
        ("selection_rate[b] >= 0.3", [("at least", 0.3)], "pairwise", "b"),
        ("0.1 <= selection_rate <= 0.9", [("at least", 0.1), ("at most", 0.9)], "pairwise", None),
        ("covariance <= 0.1", [("at most", 0.1)], "pairwise", None),
    ],
)
def test_facts_of_limits(limit, sides, against, group):
    found = summarize(limit, ROWS)["limits"][0]
    assert [(side["side"], side["bound"]) for side in found["sides"]] == sides
    assert (found["against"], found["group"], found["text"]) == (against, group, limit)


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
    found = summarize(limit, ROWS)["limits"][0]["training"]
    assert found["before"]["value"] == pytest.approx(before, abs=1e-12)
    assert found["after"]["value"] == pytest.approx(after, abs=1e-12)
    assert found["after"]["kept"] is kept


def test_undefined_everywhere_is_neither_kept_nor_broken():
    rows = Decisions(y=[1, 1, 0, 0], sensitive_features=list("aabb"), after=[1, 0, 1, 0])
    found = summarize("equal_opportunity <= 0.1", rows)["limits"][0]["training"]["after"]
    assert found == {"value": None, "kept": None}


# --- parts and pieces that may be absent ----------------------------------------------------------------------------


def test_without_held_out_rows_a_model_before_or_limits():
    found = summarize((), replace(ROWS, before=None))
    assert found["parts"]["held_out"] is None
    assert found["parts"]["training"]["before"] is None
    assert (found["changes"], found["limits"]) == ([], [])
    assert found["parts"]["training"]["accuracy"]["cost"] is None
    assert (found["run"], found["frontier"], found["calibration"]) == (None, None, None)


def test_without_limits_there_is_no_certificate():
    assert summarize((), ROWS, ROWS)["parts"]["held_out"]["certificate"] is None


def test_changes_are_those_of_the_training_rows_where_nothing_is_held_out():
    assert {each["part"] for each in summarize((), ROWS)["changes"]} == {"training"}


def test_rows_without_a_group_count_in_the_accuracy():
    rows = Decisions(y=[1, 0, 1, 0, 1], sensitive_features=["a", "a", "b", "b", None], after=[1, 0, 1, 0, 0])
    found = summarize((), rows)["parts"]["training"]
    assert found["accuracy"]["after"]["value"] == pytest.approx(4 / 5)
    assert found["after"]["groups"][-1]["rates"]["1"]["accuracy"]["value"] == 1.0
    assert found["after"]["missing"] == {"sensitive_feature": 1}


def test_weights_count():
    rows = replace(ROWS, sample_weight=[1.0, 2, 3, 4, 5, 6, 7, 8], largest_weight=10.0)
    found = summarize("demographic_parity <= 0.9", rows, rows)
    weight, right = np.arange(1.0, 9.0), np.array(ROWS.after) == np.array(ROWS.y)
    accuracy = found["parts"]["training"]["accuracy"]
    assert accuracy["after"]["value"] == pytest.approx(weight @ right / weight.sum(), abs=1e-12)
    assert accuracy["constant"] == pytest.approx(19 / 36, abs=1e-12)
    # The largest weight reaches the certificate: without it the verdict would be NOT CERTIFIABLE.
    assert found["parts"]["held_out"]["certificate"]["verdict"] == "INCONCLUSIVE"


def test_several_columns_and_the_positive_label():
    sensitive = {"first": ROWS.sensitive_features, "second": ["x", "y"] * 4}
    rows = replace(ROWS, sensitive_features=sensitive)
    found = summarize("disparate_impact(first) >= 0.3", rows, groups="both", pos_label=0)
    assert list(found["parts"]["training"]["after"]["missing"]) == ["first", "second", "first & second"]
    assert found["classes"] == ["1", "0"]
    assert found["limits"][0]["groupings"] == ["first"]
    asked = {(each["measure"], each["grouping"]) for each in found["changes"] if each["asked"]}
    assert asked == {("disparate_impact", "first")}


def test_several_classes():
    generator = np.random.default_rng(0)
    y, after = generator.integers(0, 3, 60), generator.integers(0, 3, 60)
    rows = Decisions(y=y, sensitive_features=["a", "b"] * 30, before=y, after=after)
    found = summarize(Constraint(0.5, measure="demographic_parity", classes=(1,)), rows)
    assert found["limits"][0]["classes"] == ["1"]
    assert found["classes"] == ["0", "1", "2"]
    assert {each["label"] for each in found["changes"] if each["measure"] == "demographic_parity"} == {"0", "1", "2"}


def test_words_for_the_labels():
    assert summarize((), ROWS, class_names={1: "granted"})["class_names"] == ["0", "granted"]


def test_numpy_numbers_and_what_json_has_not_become_plain():
    reproduction = {
        "seed": np.int64(3),
        "share": np.float64(0.5),
        "ok": np.bool_(True),
        "list": np.arange(2),
        "nan": math.nan,
    }
    found = summarize((), ROWS, reproduction=reproduction, result=fit_result(seconds=np.float32(0.5)))
    assert found["reproduction"] == {"seed": 3, "share": 0.5, "ok": True, "list": [0, 1], "nan": None}
    assert found["run"]["seconds"] == 0.5
    json.dumps(found, allow_nan=False)


def test_the_certificate_of_the_calibration_rows_is_that_of_the_fit():
    certificate = certify(ROWS.y, ROWS.after, ROWS.sensitive_features, "disparate_impact >= 0.1")
    result = fit_result(certificate=certificate)
    found = summarize("disparate_impact >= 0.1", ROWS, result=result)["calibration"]
    assert found == {**certificate.to_dict(), "claim": result.claim, "trials": []}


# --- the history ----------------------------------------------------------------------------------------------------


def test_every_phase_of_a_fit_is_known():
    history = law_pieces()["result"].iterations
    assert {row["phase"] for row in history} <= set(PHASES)
    rows = law_summary()["run"]["history"]
    assert len(rows) == len(history) > 10
    for row, raw in zip(rows, history, strict=True):
        # f has the regularisation in it, and after the phase "limits" the smoothed error
        assert 0.0 < row["loss"] <= raw["f"] or row["error"] is not None
        assert (row["error"] is None) == (row["phase"] in ("free", "limits"))
        for key in ("surrogate_violation", "exact_violation", "kept"):
            assert row[key] == raw[key]
            assert (row[key] is None) == (row["phase"] == "free")  # which has no limits
        assert row["step_length"] == raw["step_length"]
        assert row["optimality"] == raw["kkt_stationarity"]


def test_the_history_of_a_stochastic_run():
    data = make_disparate_data(200, base_rates={"a": 0.3, "b": 0.6}).dataset
    cells = Cells.build(data.y, data.groups())
    problem = TrainingProblem(
        make_model(data.X.shape[1], generator=torch.Generator().manual_seed(0)),
        "binary_cross_entropy",
        [DisparateImpact(0.8)],
        cells,
    )
    result = train(problem, FullBatch(problem.rows(data.X)), StochasticSQP.from_paper(problem.parameters), epochs=3)
    rows = as_json(uniform_history(result.history))
    assert [row["step"] for row in rows] == [0, 1, 2]
    for row, raw in zip(rows, result.history, strict=True):
        for key in ("loss", "accuracy", "surrogate_violation", "exact_violation", "step_length", "kept"):
            assert row[key] == raw[key] is not None
        assert row["phase"] is None


def test_all_rows_have_the_same_keys():
    rows = uniform_history([{"epoch": 0, "loss": 1.0}, {"phase": "accurate", "error": 0.2, "exact_violation": 0.0}, {}])
    assert len({tuple(row) for row in rows}) == 1
    assert (rows[1]["error"], rows[1]["loss"], rows[1]["exact_violation"]) == (0.2, None, 0.0)


def test_a_row_that_says_less_claims_nothing():
    (row,) = uniform_history([{"phase": "polish", "f": 0.2, "violation": 0.1}])
    assert (row["loss"], row["error"], row["surrogate_violation"], row["exact_violation"]) == (None,) * 4


def test_an_infeasible_fit_has_its_conflicts_and_every_iteration_its_loss_and_violation():
    data = make_disparate_data(1000, base_rates={"a": 0.6, "b": 0.3}, seed=0).dataset
    # Of the 60% of positive rows in a, two thirds are selected if 80% of its rows are.
    limits = ["selection_rate[a] >= 0.8", "true_positive_rate <= 0.4"]
    with pytest.warns(LimitWarning):
        clf = ConstrainedClassifier(limits).fit(data.X, data.y, sensitive_features=data.groups())
    rows = Decisions(y=data.y, sensitive_features={"sensitive_feature": data.groups()}, after=clf.predict(data.X))
    run = summarize(limits, rows, result=clf.result_)["run"]
    assert run["status"] == "infeasible"
    assert len(run["conflicts"]) == 2
    assert all(any(limit in text for text in run["conflicts"]) for limit in ("selection_rate[a] >= 0.8", "<= 0.4"))
    for row in run["history"]:
        assert row["loss"] > 0.0
        assert (row["exact_violation"] is None) == (row["phase"] == "free")
        assert row["phase"] in run["phases"]


# --- whatever the rows ----------------------------------------------------------------------------------------------


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
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for part in found["parts"].values():
        accuracy = part["accuracy"]
        right = np.mean([a == b for a, b in zip(y, rows.after, strict=True)])
        assert accuracy["after"]["value"] == pytest.approx(right, abs=1e-12)
        assert (
            accuracy["gain"] <= accuracy["after"]["value"] - 0.5 + 1e-12
        )  # the best of two constants is right in half
    ratio_limit, difference_limit = (limit["training"]["after"] for limit in found["limits"])
    assert ratio_limit["kept"] == (ratio_limit["value"] >= 0.8 - 1e-12)
    assert difference_limit["kept"] == (difference_limit["value"] <= 0.2 + 1e-12)


# --- bad input ------------------------------------------------------------------------------------------------------

POINT = SweptPoint(point={"bound": 0.8, "status": "feasible"}, training=ROWS.after)


@pytest.mark.parametrize(
    ("limits", "changes", "message"),
    [
        ((), {"training": replace(ROWS, after=None)}, "training: after is None; give the decisions"),
        ((), {"held_out": replace(ROWS, before=None)}, "before are given for one part only"),
        (DisparateImpact(None), {}, "disparate_impact has bound=None"),
        (
            "disparate_impact >= 0.8",
            {"result": fit_result(limits=(LimitResult("x", 0.9, 0.9, True),) * 2)},
            "result is about 2 limits, but there are 1",
        ),
        ((), {"frontier": [POINT]}, "the limit whose bound varies"),
        ("selection_rate >= 0.1", {"frontier": [POINT]}, "a single bound"),
        ("disparate_impact >= 0.8", {"frontier": []}, "frontier has no points"),
        (
            "disparate_impact >= 0.8",
            {"frontier": [replace(POINT, point={"bound": 0.8})]},
            "frontier point 0 lacks status",
        ),
        (
            "disparate_impact >= 0.8",
            {"held_out": ROWS, "frontier": [POINT]},
            "give held_out decisions if, and only if",
        ),
        (
            "disparate_impact >= 0.8",
            {"result": fit_result(certificate=certify(ROWS.y, ROWS.after, ROWS.sensitive_features, [LIMIT] * 2))},
            r"certificate .*2 limits.* 1\b",
        ),
        ((), {"confidence": 1.5}, "confidence"),
        ((), {"training": replace(ROWS, after=[1])}, "one label per row"),
    ],
)
def test_bad_input_says_what_is_wrong(limits, changes, message):
    with pytest.raises(ValueError, match=message):
        summarize(limits, **{"training": ROWS, **changes})


def test_a_history_that_is_no_table_says_so():
    with pytest.raises(TypeError, match=r"history\[1\] is 3; give a list of dictionaries"):
        uniform_history([{}, 3])


def test_the_pieces_are_not_changed():
    reproduction = {"seed": 1, "data": {"rows": 8}}
    before = copy.deepcopy(reproduction)
    summarize((), ROWS, reproduction=reproduction)["reproduction"]["data"]["rows"] = 9
    assert reproduction == before
