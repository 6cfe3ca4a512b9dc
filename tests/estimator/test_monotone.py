"""Monotone columns of a base stay monotone in the corrected model; a linear model is monotone where asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import quick

from fairbound import Base, ConstrainedRegressor, Loss, Training, load

LIMIT = "disparate_impact >= 0.95"
SIGNS = {"income": 1, "debt": -1}


def loans(n=2000):
    """Rows in which the group shows in all columns, so that a free correction would use the monotone ones."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, n)
    X = pd.DataFrame({"debt": rng.normal(size=n) - 0.8 * group, "town": np.where(rng.random(n) < 0.4, "A", "B")})
    X["income"], X["age"] = rng.normal(size=n) + 1.2 * group, rng.normal(size=n) + 0.5 * group
    y = (X["income"] - X["debt"] + 0.5 * X["age"] + rng.normal(size=n) > 0.5).astype(int)
    return X, y.to_numpy(), group


def lightgbm(**params):
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, **params)


def xgboost(**params):
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, n_jobs=1, **params)


def boosted(**params):
    return HistGradientBoostingClassifier(max_iter=20, **params)


def forest(**params):
    return RandomForestClassifier(20, max_depth=6, random_state=0, **params)


X, Y, GROUP = loans()
OF_COLUMNS = [SIGNS.get(name, 0) for name in X]
OF_ENCODED = [-1, 0, 0, 1, 0]
"""The same for encoded columns, where the town has two."""


def check_monotone(clf, rows, score="decision_function"):
    """Move each column through its range: no score may fall, where it may not, by any amount."""
    for name, sign in SIGNS.items():
        steps = []
        for value in np.linspace(rows[name].min(), rows[name].max(), 12):
            steps.append(getattr(clf, score)(rows.assign(**{name: value})))
        assert (np.diff(steps, axis=0) * sign >= 0).all()
        yield np.ptp(steps, axis=0).max()


@pytest.mark.parametrize(
    "base",
    [
        lambda: boosted(monotonic_cst=OF_COLUMNS),
        lambda: lightgbm(monotone_constraints=OF_COLUMNS),
        lambda: lightgbm(mc=OF_COLUMNS),
        lambda: forest(monotonic_cst=OF_ENCODED),
        lambda: Base(
            boosted(monotonic_cst=SIGNS, categorical_features="from_dtype").fit(X.astype({"town": "category"}), Y),
            cv="prefit",
        ),
        lambda: xgboost(monotone_constraints=tuple(OF_ENCODED)),
        lambda: xgboost(monotone_constraints="(-1,0,0,1,0)"),
        lambda: xgboost(monotone_constraints=SIGNS, enable_categorical=True),
    ],
    ids=[
        "boosted",
        "lightgbm",
        "lightgbm by another name",
        "forest of encoded columns",
        "prefit with names",
        "xgboost of encoded columns",
        "xgboost as text",
        "xgboost with names",
    ],
)
@pytest.mark.parametrize(("positive", "limit"), [(1, LIMIT), (0, "demographic_parity <= 0.25")])
def test_no_score_falls_when_a_monotone_column_of_the_base_rises(base, positive, limit, tmp_path):
    by_names = isinstance(base(), Base) or getattr(base(), "enable_categorical", False)
    rows = X.astype({"town": "category"}) if by_names else X
    clf = quick(limit, base=base(), pos_label=positive).fit(rows, Y, sensitive_features=GROUP)
    assert clf.result_.kept
    assert clf.result_.base.changed > 0.01
    assert max(check_monotone(clf, rows)) > 0.1
    assert max(clf.result_.base.moved[name] for name in ("age", "town")) > 0.01  # the correction uses the others
    clf.save(tmp_path / "model", base=False)
    again = load(tmp_path / "model", base=list(clf.base_.estimators))
    assert (again.decision_function(rows) == clf.decision_function(rows)).all()


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_a_regression_is_monotone_by_itself_or_as_its_base(hidden):
    pay = 2.0 * X["income"] - X["debt"] + np.random.default_rng(1).normal(size=len(X))
    base = pytest.importorskip("lightgbm").LGBMRegressor(
        n_estimators=20, n_jobs=1, verbose=-1, monotone_constraints=OF_COLUMNS
    )
    over = ConstrainedRegressor("mean_difference <= 1", base=base, hidden=hidden).fit(X, pay, sensitive_features=GROUP)
    asked = Training(monotonic=SIGNS)
    alone = ConstrainedRegressor("mean_difference <= 1", training=asked).fit(X, pay, sensitive_features=GROUP)
    free = ConstrainedRegressor("mean_difference <= 1").fit(X, pay, sensitive_features=GROUP)
    assert max(check_monotone(over, X, "predict")) > 0.1
    assert max(check_monotone(alone, X, "predict")) > 0.1
    for clf in over, alone:
        assert clf.result_.kept
    wrong = Training(monotonic={name: -sign for name, sign in SIGNS.items()})
    other = ConstrainedRegressor(training=wrong).fit(X, pay)
    assert np.abs(other.coef_[[other.encoded_names_.index(name) for name in SIGNS]]).max() == 0.0
    assert alone.result_.loss >= free.result_.loss - 1e-9


def test_a_correction_by_a_network_does_not_see_monotone_columns():
    clf = quick(LIMIT, base=lightgbm(monotone_constraints=OF_COLUMNS), hidden=(3,)).fit(X, Y, sensitive_features=GROUP)
    assert clf.result_.kept
    assert max(check_monotone(clf, X)) > 0.1


@pytest.mark.parametrize("settings", [{}, {"margin": "auto"}, {"loss": Loss(l2=0.0)}, {"loss": "hinge"}], ids=str)
@pytest.mark.parametrize("limits", [(), LIMIT])
def test_no_score_of_a_linear_model_falls_when_a_column_rises_that_is_named(limits, settings):
    against = {"income": -1, "age": -1}  # what the labels contradict
    free = quick(limits, **settings).fit(X, Y, sensitive_features=GROUP)
    for asked in SIGNS, against:
        training = Training(monotonic=asked, forecast=False)
        clf = quick(limits, training=training, **settings).fit(X, Y, sensitive_features=GROUP)
        assert clf.result_.kept
        signs = {name: clf.coef_[0][clf.encoded_names_.index(name)] * sign for name, sign in asked.items()}
        assert min(signs.values()) >= 0.0
        if asked is against:
            assert signs == {"income": 0.0, "age": 0.0}
            without = quick(limits, **settings).fit(X[["debt", "town"]], Y, sensitive_features=GROUP)
            assert clf.result_.accuracy == pytest.approx(without.result_.accuracy, abs=0.01)
        else:
            assert max(check_monotone(clf, X)) > 0.1
            # A bound that costs nothing without limits; under them, what the monotone columns may not give.
            assert clf.result_.accuracy > free.result_.accuracy - (0.05 if limits else 1e-3)


@pytest.mark.parametrize(
    ("options", "labels", "said"),
    [
        ({"base__correction": "both"}, 2, "constraints, which a correction keeps only without estimates"),
        ({}, 3, "for two classes only"),
        ({"base": make_pipeline(StandardScaler(), forest(monotonic_cst=[1, 0]))}, 2, "on columns of X, not"),
        ({"base": None, "training__monotonic": {0: 1}, "hidden": (2,)}, 2, "linear models without a base"),
        ({"base": None, "training__monotonic": {0: 2}}, 2, "signs 1 and -1, not 2"),
        ({"base": None, "training__monotonic": {"incom": 1}}, 2, "training.monotonic"),
    ],
)
def test_what_cannot_be_kept_is_refused(options, labels, said):
    numbers = X[["income", "age"]].to_numpy()
    clf = quick(LIMIT, base=lightgbm(monotone_constraints=[1, 0])).set_params(**options)
    y = Y if labels == 2 else np.where(numbers[:, 1] > 1, 2, Y)
    with pytest.raises(ValueError, match=said):
        clf.fit(numbers, y, sensitive_features=GROUP)
