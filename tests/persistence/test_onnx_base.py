"""ONNX with a base inside, trees or linear: decisions and probabilities in onnxruntime are those of `predict`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.conftest import absent
from tests.persistence.test_onnx import agree, onnxruntime, run

import fairbound
from fairbound import Base, ConstrainedClassifier
from fairbound.estimator import TableEncoder

LIMIT = "demographic_parity <= 0.2"


@pytest.fixture(autouse=True)
def runtime():
    if onnxruntime is None:
        absent('needs onnxruntime: pip install ".[onnx]"')


def lightgbm(**options):
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=12, verbose=-1, n_jobs=1, **options)


def xgboost(**options):
    module = pytest.importorskip("xgboost")
    return module.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1, **options)


SINGLE = 1e-5
"""XGBoost adds leaves and gives probabilities in single precision."""

BASES = {
    "boosted": lambda: HistGradientBoostingClassifier(max_iter=12),
    "lightgbm": lightgbm,
    "forest": lambda: RandomForestClassifier(12, max_depth=6, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(5, max_depth=5, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    "xgboost": xgboost,
    "logistic": LogisticRegression,
    "ridge": RidgeClassifier,
}


def rows(n=500, seed=0, *, text=True, gaps=True, classes=2):
    """Return columns of numbers, codes and words, with missing values, whose products matter."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 2))
    words = np.array(["red", "green", "blue", "grey", "pink"], dtype=object)[rng.integers(0, 5, n)]
    codes = rng.integers(0, 30, n).astype(float)
    signal = numbers[:, 0] * numbers[:, 1] + (words == "red") - 0.5 * (codes % 3 == 0) + 0.3 * rng.normal(size=n)
    y = np.digitize(signal, np.quantile(signal, np.arange(1, classes) / classes))
    if gaps:
        numbers[rng.random(n) < 0.1, 0] = np.nan
        words[rng.random(n) < 0.1] = None
    table = {"p": numbers[:, 0], "q": numbers[:, 1], "code": codes}
    X = pd.DataFrame(table | ({"word": words} if text else {}))
    return X, np.array(["c", "a", "b"])[y], rng.choice(["f", "m"], n)


@pytest.mark.parametrize("text", [True, False], ids=["words", "numbers"])
@pytest.mark.parametrize("name", BASES)
def test_trees_of_every_kind(name, text, tmp_path):
    X, y, groups = rows(text=text)
    clf = ConstrainedClassifier(
        LIMIT, base=Base(BASES[name](), cv=2), encoder=TableEncoder(categorical=["code"]), pos_label="a"
    )
    clf.fit(X, y, sensitive_features=groups)
    clf.to_onnx(tmp_path / "model.onnx")
    other, _, _ = rows(seed=1, text=text)
    other.loc[:20, "code"] = 99.0
    if text:
        other.loc[10:30, "word"] = "black"
    agree(clf, tmp_path / "model.onnx", other, digits=SINGLE if name == "xgboost" else 1e-9)


@pytest.mark.parametrize("name", ["boosted", "lightgbm", "forest", "xgboost", "logistic", "ridge"])
def test_three_classes_and_the_average_of_folds(name, tmp_path):
    X, y, groups = rows(classes=3)
    clf = ConstrainedClassifier("accuracy >= 0.3", base=Base(BASES[name](), cv=2, ensemble=True), hidden=(3,))
    clf.fit(X, y, sensitive_features=groups)
    clf.to_onnx(tmp_path / "model.onnx")
    agree(clf, tmp_path / "model.onnx", rows(seed=1)[0], digits=SINGLE if name == "xgboost" else 1e-9)


@pytest.mark.parametrize("name", ["boosted", "lightgbm", "forest", "xgboost"])
def test_a_model_that_was_read_from_a_folder(name, tmp_path):
    X, y, groups = rows(200)
    fitted = ConstrainedClassifier(LIMIT, base=Base(BASES[name](), cv=2)).fit(X, y, sensitive_features=groups)
    fitted.save(tmp_path / "model")
    fairbound.load(tmp_path / "model").to_onnx(tmp_path / "model.onnx")
    agree(fitted, tmp_path / "model.onnx", X, digits=SINGLE if name == "xgboost" else 1e-9)


def test_a_fitted_base_on_a_matrix(tmp_path):
    X, y, groups = rows(text=False)
    for base in (HistGradientBoostingClassifier(max_iter=8), LinearSVC()):
        X = X if isinstance(base, HistGradientBoostingClassifier) else X.fillna(0.0)
        fitted = base.fit(X.to_numpy(), y)
        clf = ConstrainedClassifier(LIMIT, base=Base(fitted, cv="prefit"), pos_label="c")
        clf.fit(X.to_numpy(), y, sensitive_features=groups)
        clf.to_onnx(tmp_path / "model.onnx")
        agree(clf, tmp_path / "model.onnx", X.to_numpy())


def test_what_xgboost_can_do_and_onnx_cannot(tmp_path):
    X, y, groups = rows(200, text=False)
    for options, part in (({"booster": "dart"}, "'dart'"), ({"missing": 0.0}, "missing=0.0")):
        clf = ConstrainedClassifier(LIMIT, base=Base(xgboost(**options), cv=2)).fit(X, y, sensitive_features=groups)
        with pytest.raises(ValueError, match=f"cannot be written as ONNX.*{part}"):
            clf.to_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize("positive", ["a", "c"])
def test_scores_that_were_given_are_an_input(positive, tmp_path):
    X, _, groups = rows(text=False, gaps=False)
    X = X.to_numpy()
    scores = X[:, 0] - X[:, 1]
    y = np.where(scores + np.sin(7 * X[:, 0]) > 0, "c", "a")
    clf = ConstrainedClassifier(LIMIT, pos_label=positive).fit(X, y, sensitive_features=groups, base_score=scores)
    clf.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    label, p, _ = session.run(None, {"X": X, "base_score": scores[:, None]})
    assert np.allclose(p, clf.predict_proba(X, base_score=scores), atol=1e-9)
    assert (np.asarray(label) == clf.predict(X, base_score=scores)).mean() > 0.99


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"base": Base(GaussianNB(), cv=2)}, ["GaussianNB", "base_score="]),
        (
            {"base": Base(HistGradientBoostingClassifier(max_iter=3), cv=2, correction="both")},
            ["estimates of the group"],
        ),
    ],
)
def test_what_cannot_be_written(options, parts, tmp_path):
    X, y, groups = rows(200, text=False, gaps=False)
    with pytest.warns(UserWarning, match="group") if options["base"].correction == "both" else _nothing():
        clf = ConstrainedClassifier(LIMIT, **options).fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="cannot be written as ONNX") as caught:
        clf.to_onnx(tmp_path / "model.onnx")
    assert all(part in str(caught.value) for part in parts)
    assert not (tmp_path / "model.onnx").exists()


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def test_the_file_runs_on_one_row(tmp_path):
    X, y, groups = rows(200)
    clf = ConstrainedClassifier(LIMIT, base=Base(BASES["boosted"](), cv=2)).fit(X, y, sensitive_features=groups)
    clf.to_onnx(tmp_path / "model.onnx")
    label, p, _ = run(tmp_path / "model.onnx", X.iloc[:1])
    assert label.tolist() == clf.predict(X.iloc[:1]).tolist()
    assert np.allclose(p, clf.predict_proba(X.iloc[:1]), atol=1e-12)
