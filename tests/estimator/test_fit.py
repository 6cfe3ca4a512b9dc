"""Fits: what the record says is what `predict` does; statuses, weights, validation rows, callbacks, repeatability."""

from __future__ import annotations

import io
import json
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from time import perf_counter, sleep

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import quick, toy
from tests.refusals import refused

from fairbound import Base, ConstrainedClassifier, DisparateImpact, LimitWarning, Training, audit, rate_limit
from fairbound.estimator import FitResult
from fairbound.estimator import fitting as fitting_module
from fairbound.sqp import Status


@pytest.mark.parametrize("measure", ["disparate_impact", "equal_opportunity", "predictive_parity", "covariance"])
@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")
def test_the_record_equals_the_measures_of_predict_exactly(measure, hidden):
    X, y, group = toy()
    limit = f"{measure} >= 0.8" if measure == "disparate_impact" else f"{measure} <= 0.05"
    clf = quick(limit, hidden=hidden).fit(X, y, sensitive_features=group)
    found = audit(y, clf.predict(X), group)
    (result,) = clf.result_.limits
    assert result.reached == found.measure(measure).value
    assert clf.result_.accuracy == np.mean(clf.predict(X) == y)
    for entry in clf.result_.groups:
        for name, value in entry.rates["1"].items():
            assert value == found.group(entry.group).rate(name).value
        assert entry.rows == (group == entry.group).sum()


def test_the_record_of_weighted_rows(law, race):
    weights = np.random.default_rng(0).integers(0, 4, len(law.y)).astype(float)
    clf = ConstrainedClassifier("disparate_impact >= 0.9").fit(
        law.X, law.y, sensitive_features=race, sample_weight=weights
    )
    found = audit(law.y, clf.predict(law.X), race, sample_weight=weights)
    assert clf.result_.limits[0].reached == found.measure("disparate_impact").value >= 0.9
    assert clf.result_.rows == (weights > 0).sum()
    assert clf.result_.accuracy == pytest.approx(np.average(clf.predict(law.X) == law.y, weights=weights), abs=1e-12)


def test_the_limit_binds_and_is_kept(limited, law, race):
    free = ConstrainedClassifier().fit(law.frame(), law.y, sensitive_features={"race": race})
    assert audit(law.y, free.predict(law.frame()), race).measure("disparate_impact").value < 0.88
    result = limited.result_
    assert result.kept
    assert 0.9 <= result.limits[0].reached < 0.905
    assert result.status in (Status.CONVERGED, Status.FEASIBLE)
    assert result.limits[0].price > 0
    assert result.accuracy > result.constant_accuracy


def test_limits_on_several_measures_and_a_rate_of_one_group():
    X, y, group = toy(800)
    limits = ["disparate_impact >= 0.7", DisparateImpact(0.6), rate_limit("true_positive_rate", group="a", lower=0.75)]
    clf = quick(limits, hidden=(6,)).fit(X, y, sensitive_features=group)
    assert clf.result_.kept
    found = audit(y, clf.predict(X), group)
    assert found.measure("disparate_impact").value >= 0.7
    assert found.group("a").rate("true_positive_rate").value >= 0.75
    assert clf.result_.limits[2].price is None  # of a pair of bounds


def test_rounding_that_breaks_a_limit_is_reported(monkeypatch):
    X, y, group = toy()
    plain = fitting_module.logits

    def biased(module, Z, n_labels):
        z = plain(module, Z, n_labels)
        return np.where((group == "a")[:, None], -np.abs(z) - 1, z)

    monkeypatch.setattr(fitting_module, "logits", biased)
    with pytest.warns(LimitWarning, match="disparate_impact >= 0.8 .reached 0.0000"):
        clf = quick("disparate_impact >= 0.8").fit(X, y, sensitive_features=group)
    assert not clf.result_.kept
    assert clf.result_.status is Status.MAX_ITERATIONS
    assert "rounding in predict changes a decision" in clf.result_.notes[0]


def test_words_say_which_label_is_the_positive_one():
    """By default the larger, and for words that is the later in the alphabet: not always the favourable one."""
    X, y, group = toy(100)
    words = np.array(["denied", "approved"])[y]
    assert "rates, positive label denied" in str(quick().fit(X, words, sensitive_features=group).result_)
    clf = quick(pos_label="approved").fit(X, words, sensitive_features=group)
    assert "rates, positive label approved" in str(clf.result_)


def test_limits_that_exclude_each_other_are_infeasible_and_named():
    X, y, group = toy()
    limits = [rate_limit("selection_rate", group="a", lower=0.6), rate_limit("selection_rate", group="b", upper=0.2)]
    with pytest.warns(LimitWarning, match="does not keep every limit.*selection_rate"):
        clf = quick([*limits, "disparate_impact >= 0.9"]).fit(X, y, sensitive_features=group)
    assert clf.result_.status is Status.INFEASIBLE
    assert not clf.result_.kept
    assert "selection_rate" in clf.result_.message
    assert "NO" in str(clf.result_)
    assert max(map(len, str(clf.result_).splitlines())) <= 110


def test_a_constant_prediction_is_pointed_out():
    X, y, group = np.zeros((200, 2)), np.r_[np.ones(150), np.zeros(50)].astype(int), np.arange(200) % 2
    with pytest.warns(LimitWarning, match="no better than a constant"):
        clf = quick("disparate_impact >= 1.0").fit(X, y, sensitive_features=group)
    assert clf.result_.status is Status.DEGENERATE


def test_without_limits_no_groups_are_needed_and_nothing_is_said_of_limits():
    X, y, group = toy()
    clf = ConstrainedClassifier().fit(X, y)
    assert clf.result_.limits == ()
    assert clf.result_.groups == ()
    assert "Limits" not in str(clf.result_)
    watched = ConstrainedClassifier().fit(X, y, sensitive_features=group)
    assert {entry.group for entry in watched.result_.groups} == {"a", "b"}
    assert (watched.predict(X) == clf.predict(X)).all()


def test_limits_without_groups_name_the_argument():
    X, y, _ = toy()
    with refused("no groups", "sensitive_features=", "sensitive_columns="):
        quick("disparate_impact >= 0.8").fit(X, y)


def test_the_record_prints_as_a_table(limited):
    text = str(limited.result_)
    for words in ("Status: ", "training rows", "gain over the best constant", "disparate_impact >= 0.9", "yes", "race"):
        assert words in text
    assert "Non-White" in text
    assert "race: rates, positive label 1" in text
    assert max(map(len, text.splitlines())) <= 110
    html = limited.result_._repr_html_()
    assert html.startswith("<div>")
    assert html.count("<table") == 3
    assert html.count("<thead>") == 2  # what the fit took has no header: its first line is a line
    assert "disparate_impact &gt;= 0.9" in html


def test_the_record_goes_through_json(limited):
    values = json.loads(limited.result_.to_json())
    assert values["status"] == limited.result_.status.value
    assert FitResult.from_dict(values) == limited.result_


@pytest.mark.slow
def test_weights_can_count_in_the_loss_alone(law, race):
    weights = np.where(law.y == 1, 1.0, 5.0)
    both = quick("disparate_impact >= 0.9").fit(law.X, law.y, sensitive_features=race, sample_weight=weights)
    loss = quick("disparate_impact >= 0.9", groups__weight="none").fit(
        law.X, law.y, sensitive_features=race, sample_weight=weights
    )
    plain = audit(law.y, loss.predict(law.X), race).measure("disparate_impact").value
    weighted = audit(law.y, both.predict(law.X), race, sample_weight=weights).measure("disparate_impact").value
    assert loss.result_.limits[0].reached == plain >= 0.9
    assert both.result_.limits[0].reached == weighted >= 0.9


@pytest.mark.slow
def test_weights_of_the_limits_alone():
    X, y, group = toy()
    survey = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    by_fit = quick("disparate_impact >= 0.8").fit(X, y, sensitive_features=group, constraint_weight=survey)
    by_parameter = quick("disparate_impact >= 0.8", groups__weight=survey).fit(X, y, sensitive_features=group)
    value = audit(y, by_fit.predict(X), group, sample_weight=survey).measure("disparate_impact").value
    assert by_fit.result_.limits[0].reached == value >= 0.8
    assert (by_fit.predict_proba(X) == by_parameter.predict_proba(X)).all()


def test_rows_without_loss_weight_still_count_in_the_limits():
    X, y, group = toy()
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    clf = quick("disparate_impact >= 0.8", groups__weight="none").fit(
        X, y, sensitive_features=group, sample_weight=weights
    )
    assert clf.result_.rows == len(y)
    assert audit(y, clf.predict(X), group).measure("disparate_impact").value >= 0.8


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(400), "sample_weight is zero in every row"),
        (-np.ones(400), "sample_weight is -1 in row 1"),
        (np.full(400, np.nan), "no value in 400 of 400 rows"),
        (np.ones(3), r"\(400,\), .*\(3,\)"),
        (["x"] * 400, "sample_weight must hold numbers only, but has 'x'"),
    ],
)
def test_bad_weights(weights, words):
    X, y, _ = toy()
    with pytest.raises(ValueError, match=words):
        ConstrainedClassifier().fit(X, y, sample_weight=weights)


def test_validation_rows_are_watched_and_reported(law, race):
    fold = np.arange(len(law.y)) % 3 == 0
    rows = []
    clf = quick("disparate_impact >= 0.9", callbacks=[rows.append])
    clf.fit(
        law.X[~fold],
        law.y[~fold],
        sensitive_features={"race": race[~fold]},
        eval_set=(law.X[fold], law.y[fold], {"race": race[fold]}),
    )
    (limit,) = clf.result_.limits
    decisions = clf.predict(law.X[fold])
    assert limit.eval_reached == audit(law.y[fold], decisions, race[fold]).measure("disparate_impact").value
    assert limit.eval_kept == (limit.eval_reached >= 0.9)
    assert clf.result_.eval_accuracy == pytest.approx(np.mean(decisions == law.y[fold]), abs=1e-12)
    assert clf.result_.eval_rows == fold.sum()
    assert len(rows) == clf.n_iter_
    assert all(0 <= row["eval accuracy"] <= 1 and "eval disparate_impact >= 0.9" in row for row in rows)
    assert "validation" in str(clf.result_)


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")
def test_validation_figures_belong_to_the_model_of_their_row():
    """On the training rows themselves they are the figures of the training."""
    X, y, group = toy(400)
    fitted = quick("disparate_impact >= 0.9").fit(X, y, sensitive_features=group, eval_set=(X, y, group))
    rows = [row for row in fitted.result_.iterations if row["phase"] not in ("free", "search")]
    assert len(rows) > 5
    assert [row["eval accuracy"] for row in rows] == pytest.approx([row["accuracy"] for row in rows], abs=1e-12)


def test_limits_of_the_same_words_have_columns_of_their_own():
    """Here two limits that differ only in how they are trained."""
    X, y, group = toy(120)
    limits = [DisparateImpact(0.5), DisparateImpact(0.5, margin="logit")]
    row = quick(limits).fit(X, y, sensitive_features=group, eval_set=(X, y, group)).result_.iterations[0]
    assert [name for name in row if name.startswith("eval disparate")] == [
        "eval disparate_impact >= 0.5",
        "eval disparate_impact >= 0.5 (2)",
    ]


def test_validation_rows_that_break_a_limit_are_pointed_out():
    X, y, group = toy()
    clf = quick("demographic_parity <= 0.1").fit(
        X, y, sensitive_features=group, eval_set=(*toy(seed=5, shift=4.0)[:2], toy(seed=5, shift=4.0)[2])
    )
    assert clf.result_.kept
    assert clf.result_.limits[0].eval_kept is False
    assert "is not kept on the validation rows" in str(clf.result_)


def test_validation_rows_may_lack_a_label_and_a_group():
    X, y, group = toy()
    some = (y == 1) & (group == "b")
    clf = quick("equal_opportunity <= 0.1").fit(
        X, y, sensitive_features=group, eval_set=(X[some][:20], y[some][:20], group[some][:20])
    )
    assert clf.result_.limits[0].eval_reached is None
    assert clf.result_.limits[0].eval_kept is None


def test_validation_rows_are_checked():
    X, y, group = toy()
    clf = quick("disparate_impact >= 0.5")
    with refused("eval_set", "(X, y, groups)"):
        clf.fit(X, y, sensitive_features=group, eval_set=(X,))
    with refused("eval_set", "same columns as X"):
        clf.fit(X, y, sensitive_features=group, eval_set=(X[:, :2], y, group))
    with refused("the label 2", "0, 1"):
        clf.fit(X, y, sensitive_features=group, eval_set=(X, y + 1, group))


@pytest.mark.parametrize("epochs", [0, 5])
def test_a_seed_makes_a_fit_repeatable_bit_for_bit(epochs):
    X, y, group = toy(600)
    models = [
        ConstrainedClassifier(
            "demographic_parity <= 0.5",
            hidden=(4,),
            training=Training(epochs, batch_size=200),
            random_state=seed,
        )
        for seed in (3, 3, 4)
    ]
    first, second, other = (clf.fit(X, y, sensitive_features=group).predict_proba(X) for clf in models)
    assert (first == second).all()
    assert (first != other).any()


def test_no_global_generator_is_touched():
    X, y, _ = toy()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002 (it is the one to look at)
    ConstrainedClassifier(hidden=lambda n_in, n_out: torch.nn.Linear(n_in, n_out)).fit(X, y)
    assert torch.equal(before, torch.random.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()  # noqa: NPY002


def test_a_warm_start_begins_where_the_last_fit_ended(law, race):
    clf = quick("disparate_impact >= 0.85", hidden=(6,), training__warm_start=True)
    clf.fit(law.X, law.y, sensitive_features=race)
    first = clf.result_
    encoder = clf.encoder_
    clf.set_params(constraints__disparate_impact__bound=0.9).fit(law.X, law.y, sensitive_features=race)
    assert clf.result_.kept
    assert clf.encoder_ is encoder
    assert clf.result_.iterations[0]["f"] < first.iterations[0]["f"]
    with refused("hidden=(6,)", "hidden=()", "warm_start=True"):
        clf.set_params(hidden=()).fit(law.X, law.y, sensitive_features=race)
    with refused("2 classes", "3 classes", "warm_start=True"):
        clf.set_params(hidden=(6,)).fit(law.X, np.arange(len(law)) % 3, sensitive_features=race)


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")  # stopped early, it need not keep the limit yet
def test_a_callback_ends_the_fit_with_the_best_found():
    X, y, group = toy()
    seen = []

    def stop(row):
        seen.append(row["phase"])
        return row["phase"] == "exact"

    others = []
    clf = quick("disparate_impact >= 0.8", callbacks=[stop, others.append])
    clf.fit(X, y, sensitive_features=group)
    assert seen.count("exact") == 1
    assert len(others) == len(seen) == clf.n_iter_
    assert "The fit was stopped early" in str(clf.result_)


def test_a_single_callback_need_not_be_in_a_list():
    X, y, _ = toy(100)
    seen = []
    clf = quick(callbacks=seen.append).fit(X, y)
    assert len(seen) == clf.n_iter_
    assert "A callback" not in str(clf.result_)


@pytest.mark.parametrize(("verbose", "least"), [(0, 0), (1, 3), (2, 15)])
def test_progress_is_plain_text(verbose, least):
    X, y, group = toy()
    stream = io.StringIO()
    with redirect_stdout(stream):
        quick("disparate_impact >= 0.8", verbose=verbose).fit(X, y, sensitive_features=group)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= least
    assert bool(lines) == bool(verbose)
    assert all("objective" in line and "violation" in line for line in lines)


@pytest.mark.slow
def test_effort_and_objective_reach_the_solver():
    X, y, group = toy()
    short = Training(iterations=3)
    clf = ConstrainedClassifier(training=short).fit(X, y)
    assert clf.n_iter_ <= 4
    names = [
        quick("disparate_impact >= 0.8", objective=objective).fit(X, y, sensitive_features=group)
        for objective in ("loss", "cross_entropy", "accuracy")
    ]
    assert (names[0].predict_proba(X) == names[1].predict_proba(X)).all()
    assert names[2].result_.accuracy >= names[0].result_.accuracy
    assert any(row["phase"] == "accurate" for row in names[2].result_.iterations) or names[2].n_iter_ > names[0].n_iter_


def test_the_frontier_of_a_limit():
    X, y, group = toy()
    clf = quick(["disparate_impact >= 0.8", "accuracy_parity <= 0.5"])
    points = list(clf.frontier(X, y, [0.9, 0.5, 0.7], sensitive_features=group))
    assert [point.bound for point in points] == [0.5, 0.7, 0.9]
    assert all(point.result.kept for point in points)
    assert not hasattr(clf, "model_")


def test_a_frontier_is_shown_as_text_as_a_table_and_as_a_picture():
    X, y, group = toy()
    points = quick("disparate_impact >= 0.5").frontier(X, y, [0.6, 0.9], sensitive_features=group)
    reached = [point.limit.reached for point in points]
    assert all(point.limit.kept and point.limit.reached >= point.bound for point in points)
    assert all(f"{value:.4f}" in str(points) for value in reached)
    assert "<table" in points._repr_html_()
    axes = points.plot()
    assert axes.lines[0].get_xdata().tolist() == reached == points.to_frame()["reached"].tolist()
    assert axes.get_xlabel() == "disparate_impact"
    clf = quick("disparate_impact >= 0.5").set_params(objective="cost(false_positive=1, false_negative=3)")
    points = clf.frontier(X, y, [0.6, 0.9], sensitive_features=group)
    costs = [
        np.where(each.classifier.predict(X) > y, 1, 3 * (each.classifier.predict(X) < y)).mean() for each in points
    ]
    axes = points.plot()
    assert axes.lines[0].get_ydata().tolist() == pytest.approx(costs)
    assert axes.get_ylabel() == "cost on training rows"
    assert all(f"{cost:.4f}" in str(points) for cost in costs)


def test_a_notebook_shows_the_parameters_and_after_a_fit_its_result():
    X, y, group = toy()
    clf = quick("disparate_impact >= 0.8")
    assert "All limits are kept" not in clf._repr_mimebundle_()["text/html"]
    shown = clf.fit(X, y, sensitive_features=group)._repr_mimebundle_()["text/html"]
    assert "ConstrainedClassifier" in shown
    assert shown.endswith(clf.result_._repr_html_())


@pytest.mark.parametrize("small_groups", ["warn", "merge"])
def test_every_model_of_a_frontier_is_a_classifier_with_the_record_of_its_own_solve(small_groups):
    X, y, group = toy()
    group = group.astype(object)
    group[:4] = "few"
    clf = quick("disparate_impact >= 0.8", groups__small=small_groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        points = clf.frontier(X, y, [0.95, 0.5, 0.7], sensitive_features=group)
    histories = [json.dumps(point.result.iterations) for point in points]
    for place, point in enumerate(points):
        fitted, result = point.classifier, point.classifier.result_
        assert fitted.constraints[0].bound == point.bound
        assert result.limits[0].limit == f"disparate_impact >= {point.bound:g}"
        assert result.accuracy == pytest.approx((fitted.predict(X) == y).mean(), abs=1e-12)
        assert "few" in [small.group for small in result.small_groups]
        assert len(result.iterations) == fitted.n_iter_
        assert result.limits[0].price == pytest.approx(point.loss_price)
        for each in result.groups:
            known = np.isin(group, [small.group for small in result.small_groups])
            rows = known if each.group == "(other)" else (group == each.group) & ~known
            assert each.rows == rows.sum()
            assert each.rates["1"]["selection_rate"] == pytest.approx((fitted.predict(X)[rows] == 1).mean(), abs=1e-12)
        assert json.dumps(result.iterations) not in histories[:place]  # each bound has a solve of its own


def test_a_frontier_for_a_confidence_is_refused():
    X, y, group = toy()
    clf = quick("disparate_impact >= 0.8", confidence=0.95)
    with pytest.raises(ValueError, match=r"confidence=0\.95"):
        clf.frontier(X, y, [0.8], sensitive_features=group)


def test_the_bounds_of_a_frontier_that_are_not_kept_are_warned_of():
    X, y, group = toy()
    clf = quick(["demographic_parity <= 0.1", "selection_rate[a] >= 0.9", "selection_rate[b] <= 0.5"])
    with pytest.warns(LimitWarning, match=r"at 2 of 3 bounds: 0\.3, 0\.1"):
        points = clf.frontier(X, y, [0.1, 0.3, 0.9], sensitive_features=group)
    assert [bool(point.result.conflicts) for point in points] == [False, True, True]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"threshold": 1.5}, "threshold=1.5 must be a number above 0 and below 1"),
        ({"objective": "fairness"}, "objective='fairness' must be accuracy, loss, balanced_accuracy"),
        ({"groups": "eech"}, "groups='eech' must be one of .* Did you mean 'each'"),
        ({"encoder": "onehot"}, "encoder='onehot' must be auto"),
        ({"hidden": (0,)}, "hidden=.0,.: must hold the width"),
        ({"hidden": 3}, "hidden=3: must hold the width"),
        (
            {"constraints": "disparat_impact >= 0.8"},
            "measure 'disparat_impact'.*'disparate_impact'",
        ),
        ({"constraints": [3]}, "3 is not a constraint"),
        ({"constraints": iter(["disparate_impact >= 0.8"])}, "iterator.*only once"),
        ({"hidden": "mlp"}, "hidden='mlp': must hold the width"),
        ({"hidden": lambda n_in, n_out: 3}, "hidden= returned int"),
        ({"random_state": "x"}, "random_state='x' must be a whole number or RandomState"),
        ({"constraints": 0.8}, r"0.8 is not a constraint: give for example DisparateImpact\(0.8\)"),
        ({"constraints": DisparateImpact}, "DisparateImpact'> .*DisparateImpact"),
        ({"callbacks": ["print"]}, "callbacks= has 'print'.*functions"),
    ],
)
def test_bad_parameters_are_said_by_fit(params, words):
    X, y, group = toy()
    clf = ConstrainedClassifier(**params)
    with pytest.raises((TypeError, ValueError), match=words):
        clf.fit(X, y, sensitive_features=group)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.linspace(0, 1, 400), "Unknown label type: continuous. .* ConstrainedRegressor"),
        (np.ones(400), r"one class only, 1\.0.*two"),
        (np.r_[np.nan, np.ones(399)], "y contains NaN or infinity.*drop"),
        (np.array([None, *["a"] * 399], dtype=object), "Input y contains missing labels"),
        (["a", 1] * 200, r"y mixes text .*'a' with 1\b.*one kind"),
        (np.ones(399), "X has 400 rows, but y has 399"),
        (None, "requires y to be passed, but the target y is None"),
        (np.ones((400, 2)), "y should be a 1d array"),
    ],
)
def test_bad_labels(y, words):
    X, _, _ = toy()
    with pytest.raises(ValueError, match=words):
        ConstrainedClassifier().fit(X, y)


def test_an_assessment_that_is_replaced_is_worked_out_anew(limited):
    # The record relies on it: an assessment with other counts must not remember the values of the old ones.
    from fairbound import TrainingProblem
    from fairbound.fairness import Cells
    from fairbound.training import assess_now, make_model

    X, y, group = toy()
    problem = TrainingProblem(make_model(3), "cross_entropy", "disparate_impact >= 0.8", Cells.build(y, group))
    found = assess_now(problem, problem.rows(X))
    assert found.exact is not None
    assert float(np.abs(replace(found, counts=np.zeros_like(found.counts)).exact).max()) == 0.0


@pytest.mark.parametrize(("seed", "intercept", "threshold"), [(1, -2.5, 0.5), (1, -1.0, 0.05)])
@pytest.mark.parametrize("limits", [(), "demographic_parity <= 0.9"])
def test_a_model_that_is_less_accurate_than_a_constant_is_not_replaced_by_it(seed, intercept, threshold, limits):
    """With rare positives or a low threshold, accuracy is no reason to give up the probabilities."""
    draw = np.random.default_rng(seed)
    X, group = draw.normal(size=(800, 5)), draw.integers(0, 2, 800)
    y = (draw.random(800) < 1 / (1 + np.exp(-(X[:, 0] + intercept + 0.3 * group)))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        model = ConstrainedClassifier(limits, threshold=threshold).fit(X, y, sensitive_features=group)
    assert model.result_.gain < 0
    assert model.result_.loss == pytest.approx(model.result_.least_loss, rel=1e-4)
    assert len(np.unique(model.predict_proba(X))) > 700


class Slow(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        sleep(0.2)
        return super().fit(X, y, sample_weight)


def test_the_time_is_that_of_the_whole_fit():
    """It was that of the solver, without base fits and forecast: 0.36 s for 18.9 s."""
    X, y, group = toy()
    began = perf_counter()
    clf = ConstrainedClassifier("disparate_impact >= 0.5", base=Base(Slow(), cv=3)).fit(X, y, sensitive_features=group)
    assert 4 * 0.2 <= clf.result_.seconds <= perf_counter() - began  # three folds, and all rows
