"""Base models on disk: the same decisions without pickle; no other type is read; a base is given again."""

from __future__ import annotations

import base64
import hashlib
import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.estimator.helpers import quick, toy

from fairbound import ModelFileError, load
from fairbound.persistence.bases import XGBoostModel

BASES = {
    "boosted": HistGradientBoostingClassifier(max_iter=5),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": RandomForestClassifier(5, random_state=0),
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.fixture(params=[*BASES, "lightgbm", "xgboost"])
def base(request):
    if request.param == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=5, n_jobs=1)
    if request.param == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        return lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
    pytest.importorskip("skops")
    return BASES[request.param]


def frame(n=200):
    X, y, group = toy(n)
    table = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "job": np.where(X[:, 2] > 0, "cook", "nurse")})
    table.loc[::7, "u"] = np.nan
    table.loc[::9, "job"] = None
    return table, y, group


@pytest.mark.parametrize("params", [{}, {"hidden": (3,), "pos_label": 0}, {"base__ensemble": True}])
def test_a_model_over_a_base_comes_back_the_same(base, params, tmp_path):
    table, y, group = toy(200) if isinstance(base, Pipeline) else frame(200)
    clf = quick("demographic_parity <= 0.4", base=base, base__cv=2, **params).fit(table, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert (read.predict_proba(table) == clf.predict_proba(table)).all()
    assert read.result_.base == clf.result_.base
    read.save(tmp_path / "again")
    assert (load(tmp_path / "again").predict_proba(table) == clf.predict_proba(table)).all()
    assert sorted(each.name for each in (tmp_path / "model").iterdir()) == ["model.json"]


def test_three_classes_and_estimates_of_the_group(tmp_path):
    X, y, group = toy(300)
    clf = quick(base=BASES["boosted"], base__cv=2).fit(
        X, np.where(y == 1, "yes", np.where(X[:, 1] > 0.3, "maybe", "no")), sensitive_features=group
    )
    clf.save(tmp_path / "three")
    assert (load(tmp_path / "three").predict_proba(X) == clf.predict_proba(X)).all()
    X, y, group = toy(2400)
    clf = quick("demographic_parity <= 0.3", base=BASES["boosted"], base__cv=2, base__correction="both")
    clf.fit(X, y, sensitive_features=group).save(tmp_path / "groups")
    read = load(tmp_path / "groups")
    assert (read.predict_proba(X) == clf.predict_proba(X)).all()
    assert read.base.correction == "both"


def test_a_model_that_was_read_is_trained_again_over_the_same_base(tmp_path):
    table, y, group = frame()
    clf = quick("demographic_parity <= 0.4", base=BASES["boosted"], base__cv=2).fit(table, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    base = read.base_
    read.set_params(constraints="demographic_parity <= 0.3").fit(table, y, sensitive_features=group)
    assert read.base_ is base
    assert read.result_.limits[0].reached <= 0.3


def test_the_best_trees_of_xgboost_and_what_it_does_not_write(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, y, group = toy(300)
    early = xgboost.XGBClassifier(n_estimators=30, early_stopping_rounds=2, n_jobs=1)
    early.fit(X, y, eval_set=[(X[:90], 1 - y[:90])], verbose=False)
    assert early.get_booster().num_boosted_rounds() > early.best_iteration + 1
    clf = quick("demographic_parity <= 0.4", base=early, base__cv="prefit").fit(X, y, sensitive_features=group)
    clf.save(tmp_path / "early")
    assert (load(tmp_path / "early").predict_proba(X) == clf.predict_proba(X)).all()
    own = quick(base=xgboost.XGBClassifier(n_estimators=3, missing=0.0, n_jobs=1), base__cv=2).fit(X, y)
    with pytest.raises(ValueError, match=r"missing=0\.0.*base=False"):
        own.save(tmp_path / "own")


def test_a_file_with_xgboost_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match=r"xgboost: run pip install .*\[xgboost\]"):
        XGBoostModel(b"{}", 2)


def test_a_forged_type_is_refused_and_runs_nothing(tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y, group = toy(200)
    clf = quick("demographic_parity <= 0.4", base=LogisticRegression(), base__cv=2).fit(X, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    document = json.loads(file.read_text())
    forged, arrays = skops.dumps(KNeighborsClassifier().fit(X, y)), document["model"]["arrays"]
    assert arrays[-1]["name"] == "base/0"
    data = base64.b64decode(document["data"])[: -arrays[-1]["shape"][0]] + forged
    arrays[-1]["shape"] = [len(forged)]
    text = json.dumps(document["model"])
    stated = {**document, "data": base64.b64encode(data).decode()}
    stated["sha256"] = hashlib.sha256(text.encode() + data).hexdigest()
    file.write_text(json.dumps({**stated, "model": 0}).replace('"model": 0', f'"model": {text}'))
    with pytest.raises(ModelFileError, match="is not on the list of trusted types"):
        load(tmp_path / "model")


def test_given_scores(tmp_path):
    X, y, group = toy(200)
    scores = LogisticRegression().fit(X, y).decision_function(X)
    clf = quick().fit(X, y, sensitive_features=group, base_score=scores)
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert (read.predict_proba(X, base_score=scores) == clf.predict_proba(X, base_score=scores)).all()


class OwnModel(LogisticRegression):
    """A model of no library."""


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (OwnModel(), "base=OwnModel is a model that cannot be written"),
        (KNeighborsClassifier(), "KNeighborsClassifier cannot be written without code, because it contains the type"),
    ],
)
def test_a_base_that_cannot_be_written_is_given_again(base, said, tmp_path):
    pytest.importorskip("skops")
    X, y, group = toy(200)
    clf = quick(base=base, base__cv=2).fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match=f"{said}.*base=False"):
        clf.save(tmp_path / "model")
    clf.save(tmp_path / "model", base=False)
    with pytest.raises(ModelFileError, match=rf"without its base \({type(base).__name__}\).*base=\.\.\."):
        load(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"StandardScaler.*no scores.*predict_proba"):
        load(tmp_path / "model", base=StandardScaler())
    assert (load(tmp_path / "model", base=clf.base_).predict_proba(X) == clf.predict_proba(X)).all()
    read = load(tmp_path / "model", base=clf.base_.estimators)
    assert (read.predict_proba(X) == clf.predict_proba(X)).all()
    with pytest.raises(ModelFileError, match=rf"{type(base).__name__}.*not fitted"):
        load(tmp_path / "model", base=clone(base))
    with pytest.raises(ModelFileError, match=r"has 1 columns.*has 3: give that one"):
        load(tmp_path / "model", base=clone(base).fit(X[:, :1], y))
    with pytest.raises(ModelFileError, match="1 more models"):
        load(tmp_path / "model", base=[*clf.base_.estimators, *clf.base_.estimators])


def test_a_base_for_a_model_without_one(tmp_path):
    X, y, group = toy(100)
    quick().fit(X, y, sensitive_features=group).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"trained without a base.*base="):
        load(tmp_path / "model", base=LogisticRegression())


def test_a_booster_over_a_table_with_text_is_saved(tmp_path):
    """Version 0.2 refused it, because its trees were written only if they had been trained on arrays."""
    pytest.importorskip("skops")
    table, y, group = frame(300)
    table["job"] = table["job"].astype("category")
    base = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(table, y)
    clf = quick("demographic_parity <= 0.4", base=base, base__cv="prefit").fit(table, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict_proba(table) == clf.predict_proba(table)).all()
