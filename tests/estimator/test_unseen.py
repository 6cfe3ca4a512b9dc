"""Forecasts of fits, and fits with a margin."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import quick, toy

from fairbound import ConstrainedClassifier, Groups, Training, load
from fairbound.estimator import FitResult, ForecastWarning, LimitWarning, unseen
from fairbound.fairness import Cells

LIMIT = "disparate_impact >= 0.8"


def noisy(n=600, columns=30, seed=0):
    """Rows with many columns of noise, which a fit uses to keep a limit on its own rows."""
    X, y, group = toy(n, seed=seed)
    return np.c_[X, np.random.default_rng(seed + 1).normal(size=(n, columns))], y, group


def ratio(clf, X, group):
    rates = [clf.predict(X)[group == name].mean() for name in np.unique(group)]
    return min(rates) / max(rates)


@pytest.fixture(scope="module")
def fitted():
    X, y, group = toy(1000)
    return quick(LIMIT).fit(X, y, sensitive_features=group)


def test_every_fit_under_limits_has_a_forecast(fitted, tmp_path):
    forecast = fitted.result_.forecast
    (limit,) = forecast.limits
    assert limit.limit == LIMIT
    assert limit.lower < limit.expected < limit.upper
    assert forecast.holds == limit.holds < 0.7  # the fit lies at its limit
    assert forecast.rows == "training"
    there, labels, _ = toy(20_000, seed=7)
    assert forecast.accuracy == pytest.approx(fitted.score(there, labels), abs=0.03)
    assert f"{limit.expected:.3f} expected on new rows" in str(fitted.result_).replace("\n", " ").replace("  ", " ")
    assert FitResult.from_dict(fitted.result_.to_dict()).forecast == forecast
    fitted.save(tmp_path / "model")
    assert load(tmp_path / "model").result_.forecast == forecast


def test_without_limits_there_is_nothing_to_forecast():
    X, y, group = toy()
    assert quick().fit(X, y, sensitive_features=group).result_.forecast is None


def test_a_limit_that_does_not_bind_holds_on_new_rows():
    X, y, group = toy(1000, shift=0.0)
    forecast = quick("disparate_impact >= 0.5").fit(X, y, sensitive_features=group).result_.forecast
    assert forecast.holds > 0.95


def test_a_fit_with_many_columns_of_noise_is_forecast_to_break_its_limit_and_warns():
    X, y, group = noisy()
    clf = ConstrainedClassifier("disparate_impact >= 0.9")
    with pytest.warns(ForecastWarning, match="margin='auto'"):
        clf.fit(X, y, sensitive_features=group)
    (limit,) = clf.result_.forecast.limits
    there, _, groups = noisy(20_000, seed=7)
    assert limit.expected < 0.8
    assert ratio(clf, there, groups) < 0.8


def test_every_row_is_left_out_once_and_every_cell_is_divided_evenly():
    _, y, group = toy(1_003)
    cells = Cells.build(y, group)
    masks = np.stack(unseen.folds(cells))
    assert (masks.sum(axis=0) == 1).all()
    for cell in range(cells.n_cells):
        left_out = masks[:, cells.index == cell].sum(axis=1)
        assert int(left_out.max() - left_out.min()) <= 1


def test_the_folds_are_fitted_like_the_whole(monkeypatch):
    X, y, group = toy(300)
    seen = []

    class Watched(unseen.FitSeries):
        def __init__(self, problem, Z, **options):
            seen.append((len(Z), options["objective"], options["effort"], options["loss_weights"].sum()))
            super().__init__(problem, Z, **options)

    monkeypatch.setattr(unseen, "FitSeries", Watched)
    weight = np.random.default_rng(0).choice([0.5, 1.0], len(y))
    clf = quick(LIMIT, objective="loss").fit(X, y, sensitive_features=group, sample_weight=weight)
    assert clf.result_.forecast.holds is not None
    assert [each[1:3] for each in seen] == [("loss", replace(clf.training, epochs=0))] * 5  # by whole passes
    assert [sum(each[place] for each in seen) for place in (0, 3)] == [4 * len(y), 4 * weight.sum()]


def test_limits_that_no_model_keeps_have_no_forecast():
    X, y, group = toy(300)
    limits = ["selection_rate[a] <= 0.2", "selection_rate[b] >= 0.6", "disparate_impact >= 0.9"]
    with pytest.warns(LimitWarning, match="does not keep every limit"):
        result = quick(limits, margin="auto").fit(X, y, sensitive_features=group).result_
    assert not result.kept
    assert result.about_new_rows == [
        "No forecast for new rows: the limits are not even kept on the training rows.",
    ]


@pytest.mark.filterwarnings("ignore::fairbound.estimator.ForecastWarning")
@pytest.mark.parametrize("clear", [True, False])
def test_a_clear_constant_keeps_its_limits_on_new_rows(clear):
    """Rates of 0 in every group are uncertain, unless a model decides alike by a wide margin."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    group = np.where(X[:, 1] > 0, "a", "b")
    chance = 0.1 if clear else 1 / (1 + np.exp(3.0 - X[:, 0]))
    y = np.random.default_rng(1).random(400) < chance
    clf = ConstrainedClassifier("disparate_impact >= 0.95", margin=0.9, objective="loss")
    with pytest.warns(LimitWarning, match="no better than a constant"):
        clf.fit(X, y, sensitive_features=group)
    scores, forecast = clf.decision_function(X), clf.result_.forecast
    assert scores.max() < 0.0  # else there is no test
    assert (-scores.max() > np.ptp(scores)) == clear
    assert (forecast.holds == 1.0) == clear
    assert (forecast.limits[0].expected == 1.0) == clear
    there = np.random.default_rng(2).normal(size=(20_000, 2))
    assert bool(clf.predict(there).any()) != clear


@pytest.mark.parametrize(
    "limits",
    [
        ["equalized_odds <= 0.1", "disparate_impact >= 0.7"],
        "covariance <= 0.02",
        "predictive_parity <= 0.1",
        "selection_rate >= 0.2",
    ],
)
def test_other_limits_with_weights(limits):
    X, y, group = toy(800)
    weight = np.random.default_rng(0).choice([0.5, 2.0], len(y))
    result = quick(limits).fit(X, y, sensitive_features=group, sample_weight=weight).result_
    assert [each.limit for each in result.forecast.limits] == [each.limit for each in result.limits]
    assert 0.0 <= result.forecast.holds <= min(each.holds for each in result.forecast.limits)


def test_several_classes_and_groups():
    X, y, group = toy(900)
    y = y + (X[:, 2] > 1)
    groups = np.where(X[:, 1] > 0.8, "c", group)
    forecast = quick("demographic_parity <= 0.15").fit(X, y, sensitive_features=groups).result_.forecast
    assert 0.0 <= forecast.holds <= 1.0


def test_rows_too_few_to_be_divided_have_no_forecast_and_say_so():
    X, y, group = toy(60)
    y[group == "a"], y[np.flatnonzero(group == "a")[0]] = 0, 1  # one positive row, so one part has none
    result = quick("equal_opportunity <= 0.3", groups__min_size=1).fit(X, y, sensitive_features=group).result_
    if not result.forecast.limits:
        assert "too few to be divided" in str(result)
    else:
        assert result.forecast.limits[0].upper - result.forecast.limits[0].lower > 0.2


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")
@pytest.mark.parametrize("rare", [-1, 2])
def test_a_class_with_one_row_is_missing_in_a_fold(rare):
    random = np.random.default_rng(0)
    X, group = random.normal(size=(200, 2)), random.integers(0, 2, 200)
    y = (X[:, 0] > 0).astype(int)
    y[0] = rare
    clf = quick("disparate_impact >= 0.5").fit(X, y, sensitive_features=group)
    assert set(clf.predict(X)) <= {0, 1, rare}
    assert clf.result_.forecast is not None


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")
def test_the_forecast_of_a_handful_of_rows_is_wide():
    group, y = np.arange(12) % 2, np.arange(12) // 2 % 2
    X = np.random.default_rng(1).normal(size=(12, 1)) + group[:, None]
    clf = ConstrainedClassifier("disparate_impact >= 0.9", groups=Groups(min_size=1)).fit(
        X, y, sensitive_features=group
    )
    (limit,) = clf.result_.forecast.limits
    assert limit.upper - limit.lower > 0.5


def test_a_margin_tightens_the_limit_and_the_forecast_agrees():
    X, y, group = toy(2000)
    plain = quick(LIMIT).fit(X, y, sensitive_features=group).result_
    clf = quick(LIMIT, margin=0.9).fit(X, y, sensitive_features=group)
    result = clf.result_
    assert result.forecast.holds >= 0.8 > plain.forecast.holds
    assert result.limits[0].limit == LIMIT  # as asked
    assert result.limits[0].reached > plain.limits[0].reached + 0.02
    assert result.margin.probability == 0.9
    assert not result.margin.dropped
    assert result.margin.most > 0.9
    assert 0.01 < result.margin.limits[0].most < 0.2
    assert "was trained with a margin of" in str(result)
    assert FitResult.from_dict(result.to_dict()).margin == result.margin


def test_a_small_group_gets_a_wide_margin_and_the_large_ones_a_narrow_one():
    X, y, group = toy(4000)
    group = group.astype(object)
    group[:100] = np.where(group[:100] == "a", "c", group[:100])
    (margin,) = quick(LIMIT, margin=0.8).fit(X, y, sensitive_features=group).result_.margin.limits
    assert margin.least < 0.5 * margin.most


def test_a_margin_brings_the_limit_nearer_on_new_rows():
    X, y, group = noisy(1500, columns=10)
    there, _, groups = noisy(20_000, columns=10, seed=99)
    plain, margin = (quick(LIMIT, margin=each).fit(X, y, sensitive_features=group) for each in (None, 0.9))
    assert ratio(margin, there, groups) > ratio(plain, there, groups) + 0.03


@pytest.mark.parametrize("kind", ["weights", "classes", "probabilities", "base", "two columns", "quota"])
def test_a_margin_for_every_kind_of_fit(kind):
    X, y, group = toy(900)
    groups, further = group, {}
    clf = ConstrainedClassifier(LIMIT, margin=0.75)
    if kind == "weights":
        further["sample_weight"] = np.random.default_rng(0).choice([0.5, 1.0, 3.0], len(y))
    if kind == "classes":
        clf.set_params(constraints="demographic_parity <= 0.1")
        y = y + (X[:, 2] > 1)
    if kind == "probabilities":
        likely = np.where(group == "a", 0.85, 0.15)
        groups = {"group": {"a": likely, "b": 1.0 - likely}}
    if kind == "base":
        clf.set_params(base=LogisticRegression())
    if kind == "two columns":
        groups = {"group": group, "other": np.where(X[:, 1] > 0, "u", "v")}
    if kind == "quota":
        clf.set_params(constraints=[LIMIT, "select 30%"])
    result = clf.fit(X, y, sensitive_features=groups, **further).result_
    assert result.kept
    if kind == "quota":
        assert clf.predict(X).mean() == 0.3  # the threshold follows it with a margin as well
    assert 0.75 <= result.forecast.holds <= 0.9
    assert result.margin.limits[0].least > 0.0
    assert -0.02 < result.margin.cost < 0.06


def test_a_margin_begins_where_early_stopping_ends():
    X, y, group = toy(1200)
    apart = toy(800, seed=5)
    plain, roomy = (
        quick(LIMIT, margin=margin, training=Training(early_stopping=True)).fit(
            X, y, sensitive_features=group, eval_set=apart
        )
        for margin in (None, 0.9)
    )
    assert roomy.result_.forecast.holds >= 0.9 > plain.result_.forecast.holds + 0.1
    assert roomy.result_.kept


def test_a_margin_that_cannot_be_reached_is_reported():
    X, y, group = toy(200)
    clf = ConstrainedClassifier("disparate_impact >= 0.97", margin=0.99)
    with pytest.warns(ForecastWarning, match="The margin was to give 99%: give more rows or fewer columns"):
        clf.fit(X, y, sensitive_features=group)
    result = clf.result_
    assert result.kept
    assert result.forecast.holds < 0.89
    assert "There is no margin: even the largest one gives a probability of" in " ".join(result.about_new_rows)
    plain = clone(clf).set_params(margin=None).fit(X, y, sensitive_features=group)
    assert (plain.predict(X) == clf.predict(X)).all()  # nothing is paid for nothing
    assert result.margin.limits[0].most == 0.0


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"margin": "wide"}, "margin"),
        ({"margin": 1.5}, "margin"),
        ({"margin": "auto", "confidence": 0.9}, "confidence=0.9"),
    ],
)
def test_wrong_margins(params, said):
    X, y, group = toy()
    with pytest.raises(ValueError, match=said):
        quick(LIMIT, **params).fit(X, y, sensitive_features=group)


def test_the_models_of_a_frontier_have_forecasts_of_their_own():
    X, y, group = noisy(400)
    models = quick(LIMIT).frontier(X, y, [0.5, 0.7, 0.9], sensitive_features=group)
    forecasts = [each.classifier.result_.forecast for each in models]
    assert [each.limits[0].limit for each in forecasts] == [f"disparate_impact >= {bound}" for bound in (0.5, 0.7, 0.9)]
    expected = [each.limits[0].expected for each in forecasts]
    assert expected[0] < expected[-1]
    assert len(set(expected)) == 3


def test_a_bound_without_rows_is_forecast_beside_another_limit():
    """A ratio of 0 limits nothing, so its system has fewer constraint rows than those of the other bounds."""
    X, y, group = toy(400)
    limits = ["disparate_impact >= 0.5", "equal_opportunity <= 0.05"]
    models = quick(limits).frontier(X, y, [0.0, 0.3], sensitive_features=group)
    assert [len(each.classifier.result_.forecast.limits) for each in models] == [2, 2]


def test_models_that_were_stopped_have_no_forecast():
    X, y, group = noisy(400)
    phases = []

    def stop(row):
        """Stop in the first solve under limits of the second bound."""
        phases.append(row["phase"])
        return row["phase"] == "limits" and "exact" in phases

    models = quick(LIMIT, callbacks=[stop]).frontier(X, y, [0.5, 0.9], sensitive_features=group)
    assert phases[-1] == "limits"
    assert "stopped early" in models[-1].classifier.result_.forecast.reason


def test_a_frontier_takes_no_margin():
    X, y, group = toy()
    with pytest.raises(ValueError, match="margin='auto'"):
        quick(LIMIT, margin="auto").frontier(X, y, [0.7], sensitive_features=group)


@pytest.mark.slow
def test_the_forecast_of_a_certified_fit_is_that_of_its_calibration_rows():
    X, y, group = toy(3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = quick("disparate_impact >= 0.6", confidence=0.9).fit(X, y, sensitive_features=group).result_
    assert result.forecast.rows == "calibration"
    assert result.forecast.limits[0].expected == pytest.approx(result.certificate.limits[0].value, abs=0.02)
    if result.certified:
        assert result.forecast.holds > 0.85


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")  # these limits leave little to gain
def test_a_margin_does_not_lose_limits_that_are_kept_without_it():
    draw = np.random.default_rng(6)
    X, group = draw.normal(size=(150, 3)), draw.integers(0, 4, 150)
    y = (X[:, 0] + 0.8 * group / 3 + draw.normal(size=150) > 0.5).astype(int)
    limits = ["disparate_impact >= 0.8", "selection_rate <= 0.45", "selection_rate >= 0.3", "equal_opportunity <= 0.3"]
    options = {"groups": Groups(small="warn", min_size=2)}
    plain, found = (
        ConstrainedClassifier(limits, margin=margin, **options).fit(X, y, sensitive_features=group)
        for margin in (None, 0.95)
    )
    assert plain.result_.kept  # else there is no test
    assert found.result_.kept
    assert found.result_.margin.probability == 0.95
    selected = [found.predict(X)[group == each].mean() for each in range(4)]
    assert 0.3 <= min(selected) <= max(selected) <= 0.45


def test_an_infeasible_bound_does_not_take_the_forecasts_of_the_others():
    X, y, group = toy(600)
    best = quick(LIMIT).fit(X, y, sensitive_features=group).result_.accuracy
    limits = ["demographic_parity <= 0.3", f"accuracy >= {best - 0.01}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        models = quick(limits).frontier(X, y, [0.3, 0.0001], sensitive_features=group)
    first, last = (each.classifier.result_ for each in models)
    assert first.kept
    assert first.forecast.holds is not None
    if not last.kept:
        assert "not even kept" in last.forecast.reason
    else:
        pytest.fail("the strict bound was to be infeasible beside the accuracy")
