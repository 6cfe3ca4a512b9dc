"""Monotone columns of a base stay monotone in the corrected model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import quick

from fairbound import Base, load

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


def boosted(**params):
    return HistGradientBoostingClassifier(max_iter=20, **params)


def forest(**params):
    return RandomForestClassifier(20, max_depth=6, random_state=0, **params)


X, Y, GROUP = loans()
OF_COLUMNS = [SIGNS.get(name, 0) for name in X]
OF_ENCODED = [-1, 0, 0, 1, 0]
"""The same for encoded columns, where the town has two."""


@pytest.mark.parametrize(
    ("base", "hidden"),
    [
        (lambda: boosted(monotonic_cst=OF_COLUMNS), ()),
        (lambda: lightgbm(monotone_constraints=OF_COLUMNS), ()),
        (lambda: lightgbm(mc=OF_COLUMNS), ()),
        (lambda: lightgbm(mc=OF_COLUMNS), (3,)),
        (lambda: forest(monotonic_cst=OF_ENCODED), ()),
        (
            lambda: Base(
                boosted(monotonic_cst=SIGNS, categorical_features="from_dtype").fit(X.astype({"town": "category"}), Y),
                cv="prefit",
            ),
            (),
        ),
    ],
    ids=["boosted", "lightgbm", "another name", "with a network", "forest of encoded columns", "prefit with names"],
)
def test_no_score_falls_when_a_monotone_column_rises(base, hidden, tmp_path):
    rows = X.astype({"town": "category"}) if isinstance(base(), Base) else X
    clf = quick(LIMIT, base=base(), hidden=hidden).fit(rows, Y, sensitive_features=GROUP)
    assert clf.result_.kept
    assert clf.result_.base.changed > 0.01
    for name in ("age", "town"):  # the correction uses the others
        assert clf.result_.base.moved[name] > 0.01
    for name, sign in SIGNS.items():
        steps = []
        for value in np.linspace(rows[name].min(), rows[name].max(), 12):
            steps.append(clf.decision_function(rows.assign(**{name: value})))
        assert (np.diff(steps, axis=0) * sign >= 0).all()
        assert np.ptp(steps, axis=0).max() > 0.1
    clf.save(tmp_path / "model", base=False)
    again = load(tmp_path / "model", base=list(clf.base_.estimators))
    assert (again.decision_function(rows) == clf.decision_function(rows)).all()


@pytest.mark.parametrize(
    ("options", "labels", "said"),
    [
        ({"base__correction": "both"}, 2, "only without estimates of the group"),
        ({}, 3, "for two classes only"),
        ({"base": make_pipeline(StandardScaler(), forest(monotonic_cst=[1, 0]))}, 2, "not on those that a transformer"),
    ],
)
def test_what_cannot_be_kept_is_refused(options, labels, said):
    numbers = X[["income", "age"]].to_numpy()
    clf = quick(LIMIT, base=lightgbm(monotone_constraints=[1, 0])).set_params(**options)
    y = Y if labels == 2 else np.where(numbers[:, 1] > 1, 2, Y)
    with pytest.raises(ValueError, match=said):
        clf.fit(numbers, y, sensitive_features=GROUP)
