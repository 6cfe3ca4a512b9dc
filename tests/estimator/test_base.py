"""A base model under limits: cross-fitted scores, the columns that a base sees, given scores, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.estimator.helpers import quick, toy

from fairbound import Base, ConstrainedClassifier, DemographicParity, Training, TrainingProblem, certify
from fairbound._errors import LimitWarning
from fairbound.estimator import FitResult, cross_fitted_scores
from fairbound.estimator.correction import ScoreScale
from fairbound.estimator.cross_fitting import deal_folds
from fairbound.estimator.models import starting_linear
from fairbound.estimator.scores import BaseScores
from fairbound.fairness import Cells

BASES = {
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "pure tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    "boosted": HistGradientBoostingClassifier(max_iter=10),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "margins": RidgeClassifier(),
}


@pytest.fixture(params=[*BASES, "lightgbm"])
def base(request):
    if request.param == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        return lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1)
    return BASES[request.param]


BRIEF = Training(iterations=6, touches=2)


def brief(constraints=(), **params):
    """A classifier for tests to which only the way of the scores matters."""
    return ConstrainedClassifier(constraints, training=BRIEF).set_params(**params)


def three(y, X):
    """Labels of three classes from those of two."""
    return np.where(y == 1, "yes", np.where(X[:, 1] > 0.3, "maybe", "no"))


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers the rows that it was trained on, and refuses to score one of them."""

    def __init__(self, refuses=True):
        self.refuses = refuses

    def fit(self, X, y, sample_weight=None):
        self.seen_ = {row.tobytes() for row in np.asarray(X)}
        self.weights_ = sample_weight
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        if self.refuses and any(row.tobytes() in self.seen_ for row in np.asarray(X)):
            raise RuntimeError("this row was seen in training")
        return self.inner_.predict_proba(X)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def test_limits_are_kept_on_the_cross_fitted_rows_and_nothing_is_random(base):
    X, y, group = toy(200)
    hidden = (3,) if isinstance(base, LogisticRegression | HistGradientBoostingClassifier) else ()
    clf = brief("demographic_parity <= 0.3", base=base, hidden=hidden).fit(X, y, sensitive_features=group)
    decided = clf.predict(X, base_score=clf.base_score_)
    assert clf.result_.kept
    assert clf.result_.accuracy == np.mean(decided == y)
    rates = [np.mean(decided[group == each]) for each in ("a", "b")]
    assert clf.result_.limits[0].reached == pytest.approx(abs(rates[0] - rates[1]), abs=1e-12)
    assert (clf.predict(X) == clf.predict(X)).all()
    assert clf.predict(X[:1])[0] == clf.predict(X)[0]
    again = clone(clf).fit(X, y, sensitive_features=group)
    assert (again.predict_proba(X) == clf.predict_proba(X)).all()
    read = pickle.loads(pickle.dumps(clf))
    assert (read.predict_proba(X) == clf.predict_proba(X)).all()


def test_three_classes_weights_and_missing_groups(base):
    X, y, group = toy(300)
    labels = three(y, X)
    groups = np.where(np.arange(300) % 11 == 0, None, group)
    weights = np.where(np.arange(300) % 3 == 0, 2.0, 1.0)
    clf = brief(DemographicParity(0.5, classes=["yes"]), base=base, base__cv=3)
    clf.fit(X, labels, sensitive_features=groups, sample_weight=weights)
    assert clf.base_score_.shape == (300, 3)
    decided = clf.predict(X, base_score=clf.base_score_)
    assert clf.result_.accuracy == pytest.approx(np.average(decided == labels, weights=weights), abs=1e-12)
    assert clf.result_.missing == {"sensitive_feature": 28}
    assert clf.predict_proba(X).shape == (300, 3)


def test_the_model_begins_as_the_base_itself(base):
    X, y, group = toy(200)
    for labels in (y, three(y, X)):
        for hidden in ((), (3,)):
            seen = []
            clf = brief(
                base=base, base__cv=2, hidden=hidden, callbacks=[lambda row, at=seen: at.append(row["accuracy"])]
            )
            clf.fit(X, labels, sensitive_features=group)
            assert seen[0] == pytest.approx(clf.result_.base.accuracy, abs=1e-12)


@pytest.mark.parametrize("cv", [2, 5, KFold(3), [(np.arange(200, 300), np.arange(200)), (range(200), range(200, 300))]])
def test_no_row_is_scored_by_a_model_that_has_seen_it(cv):
    X, y, group = toy(300)
    weights = np.where(np.arange(300) < 5, 0.0, 1.0)  # these rows leave, and those of a stated fold are still of X
    clf = brief(base=Spy(), base__cv=cv).fit(X, y, sensitive_features=group, sample_weight=weights)
    assert len(clf.base_score_) == 300
    assert len(clf.base_.estimators[0].seen_) == 295
    with pytest.raises(ValueError, match=r"Spy \(base=\) .*predict_proba: this row was seen"):
        clf.predict(X)
    assert "a model that had not seen it" in clf.result_.base.scored
    assert "a model that had not seen it" in str(clf.result_)


def test_folds_have_the_same_shares_of_labels_and_groups():
    rng = np.random.default_rng(0)
    group, y = rng.choice(["a", "b", "c"], 997, p=[0.7, 0.27, 0.03]), rng.integers(0, 2, 997)
    cells = Cells.build(y, group)
    fold_of = deal_folds(cells, 5, seed=0)
    counts = np.stack([np.bincount(np.asarray(cells.index)[fold_of == fold], minlength=6) for fold in range(5)])
    assert (np.ptp(counts, axis=0) <= 1).all()
    assert np.ptp(counts.sum(axis=1)) <= 1


def test_an_ensemble_averages_the_folds():
    X, y, group = toy(300)
    clf = brief(base=Spy(refuses=False), base__cv=3, base__ensemble=True).fit(X, y, sensitive_features=group)
    assert len(clf.base_.estimators) == 3
    p = np.stack([each.predict_proba(clf.encoder_.transform(X))[:, 1] for each in clf.base_.estimators])
    mean = np.log(p / (1 - p)).mean(axis=0)
    assert clf.decision_function(X) == pytest.approx(clf.decision_function(X, base_score=mean), abs=1e-9)
    assert "average" in clf.result_.base.scored


def table(n=300):
    X, y, group = toy(n)
    words = np.where(X[:, 2] > 0.5, "cook", np.where(X[:, 2] > -0.5, "nurse", None))
    numbers = np.where(np.arange(n) % 7 == 0, np.nan, X[:, 0])
    return pd.DataFrame({"number": numbers, "word": words, "other": X[:, 1]}), y, group


@pytest.mark.parametrize("kind", ["boosted", "lightgbm"])
def test_boosters_see_categories_and_missing_values(kind, monkeypatch):
    if kind == "boosted":
        base, fitted = HistGradientBoostingClassifier(max_iter=5), HistGradientBoostingClassifier.fit
    else:
        lightgbm = pytest.importorskip("lightgbm")
        base, fitted = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), lightgbm.LGBMClassifier.fit
    seen = []

    def spied(self, X, y, **options):
        seen.append((X, getattr(self, "categorical_features", None) or options["categorical_feature"]))
        return fitted(self, X, y, **options)

    monkeypatch.setattr(type(base), "fit", spied)
    X, y, group = table()
    clf = brief("demographic_parity <= 0.3", base=base).fit(X, y, sensitive_features=group)
    given, categories = seen[-1]
    assert categories == [1]
    assert np.isnan(given[:, 0]).sum() == X["number"].isna().sum()
    assert set(np.unique(given[:, 1])) == {0.0, 1.0, 2.0}  # cook, nurse, (missing)
    assert (given[:, 2] == X["other"]).all()
    unseen = X.assign(word="smith")
    assert np.isfinite(clf.predict_proba(unseen)).all()


def test_a_pipeline_sees_the_table_as_it_is():
    X, y, group = table()
    seen = []

    def look(given):
        seen.append(list(given.columns))
        return given[["word"]].fillna("none")

    base = Pipeline([("look", FunctionTransformer(look)), ("words", OneHotEncoder()), ("model", LogisticRegression())])
    clf = brief(base=base, sensitive_columns="group").fit(X.assign(group=group), y)
    assert seen[0] == ["number", "word", "other"]  # the group is no input
    clf.predict(X)


def test_other_bases_see_the_encoded_columns():
    X, y, group = table()
    clf = brief(base=KNeighborsClassifier()).fit(X, y, sensitive_features=group)
    assert clf.base_.estimators[0].n_features_in_ == len(clf.encoded_names_) - 1
    assert clf.encoded_names_[-1] == "base score"


class TargetMean(BaseEstimator):
    """A transformer that learns from labels, as target encoders do: the label of each row that it has seen."""

    def fit(self, X, y):
        self.known_ = dict(zip([row.tobytes() for row in np.asarray(X)], y, strict=True))
        return self

    def transform(self, X):
        told = [self.known_.get(row.tobytes(), 0.5) for row in np.asarray(X)]
        return np.column_stack([np.asarray(X), told])


def test_a_transformer_that_learns_from_labels_tells_the_base_nothing_of_the_rows_it_scores():
    X, y, group = toy(300)
    clf = brief(base=LogisticRegression(), encoder=TargetMean())
    clf.fit(X, y, sensitive_features=group)
    assert clf.result_.base.accuracy < 0.95


def test_weights_go_to_the_base_in_their_own_unit():
    X, y, group = toy(300)
    weights = np.where(np.arange(300) % 2, 6.0, 3.0)
    clf = brief(base=Spy(refuses=False)).fit(X, y, sensitive_features=group, sample_weight=weights)
    assert (clf.base_.estimators[0].weights_ == weights).all()
    piped = brief(base=make_pipeline(StandardScaler(), Spy(refuses=False)))
    piped.fit(X, y, sensitive_features=group, sample_weight=weights)
    assert (piped.base_.estimators[0][-1].weights_ == weights).all()
    searched = brief(base=GridSearchCV(Spy(), {"refuses": [False]}, cv=2))
    searched.fit(X, y, sensitive_features=group, sample_weight=weights)
    assert (searched.base_.estimators[0].best_estimator_.weights_ == weights).all()


def test_a_base_that_takes_no_weights_is_named():
    X, y, group = toy(200)
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier \(base=\) does not take sample weights"):
        brief(base=KNeighborsClassifier()).fit(X, y, sensitive_features=group, sample_weight=1.0 + y)


def test_a_fitted_base_is_corrected_as_it_is():
    X, y, group = toy(600)
    fitted = HistGradientBoostingClassifier(max_iter=10).fit(X[:300], y[:300])
    before = fitted.predict_proba(X)
    clf = brief("demographic_parity <= 0.2", base=fitted, base__cv="prefit")
    clf.fit(X[300:], y[300:], sensitive_features=group[300:])
    assert clf.base_.estimators == (fitted,)
    assert (fitted.predict_proba(X) == before).all()
    assert clf.result_.accuracy == np.mean(clf.predict(X[300:]) == y[300:])  # exact on the rows given
    assert clf.result_.kept
    changed = np.mean(clf.predict(X[300:]) != fitted.predict(X[300:]))
    assert clf.result_.base.changed == pytest.approx(changed, abs=1e-12)
    frozen = brief("demographic_parity <= 0.2", base=FrozenEstimator(fitted))
    frozen = clone(frozen).fit(X[300:], y[300:], sensitive_features=group[300:])
    assert (frozen.predict_proba(X) == clf.predict_proba(X)).all()


def test_a_limit_that_the_base_keeps_changes_few_decisions():
    X, y, group = toy(600, shift=0.0)
    fitted = LogisticRegression().fit(X[:300], y[:300])
    clf = brief("demographic_parity <= 0.5", base=fitted, base__cv="prefit")
    clf.fit(X[300:], y[300:], sensitive_features=group[300:])
    assert clf.result_.base.reached[0] <= 0.5
    assert clf.result_.base.changed < 0.1


@pytest.mark.slow
def test_a_fitted_lightgbm_model_changes_only_where_it_must():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, group = toy(3000)
    fitted = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(X[:1500], y[:1500])
    X, y, group = X[1500:], y[1500:], group[1500:]
    alone = fitted.predict(X)
    rates = {each: alone[group == each].mean() for each in "ab"}
    kept = ConstrainedClassifier(f"disparate_impact >= {rates['a'] / rates['b']}", base=Base(fitted, cv="prefit"))
    kept.fit(X, y, sensitive_features=group)
    assert (kept.predict(X) == alone).all()
    assert kept.result_.base.changed == 0.0
    for asked in (rates["a"] / rates["b"] + 0.1, 0.9):
        clf = ConstrainedClassifier(f"disparate_impact >= {asked}", base=Base(fitted, cv="prefit"))
        clf.fit(X, y, sensitive_features=group)
        decided = clf.predict(X)
        assert clf.result_.kept
        assert clf.result_.base.changed == pytest.approx(np.mean(decided != alone))
        assert f"{clf.result_.base.changed:.2%}" in str(clf.result_)
        assert (fitted.predict(X) == alone).all()
        # To bring the rates of two groups to a ratio, decisions about at least so many rows of one group must change.
        sizes = [np.sum(group == each) for each in "ab"]
        few = min((asked * rates["b"] - rates["a"]) * sizes[0], (rates["b"] - rates["a"] / asked) * sizes[1]) / len(X)
        assert few <= clf.result_.base.changed <= 4 * few


@pytest.mark.parametrize("classes", [2, 3])
def test_a_given_base_is_the_minimum_of_what_is_trained(classes):
    X, y, _ = toy(200)
    labels = y if classes == 2 else three(y, X)
    rows = Cells.build(labels)
    scores = np.random.default_rng(0).normal(size=(200, 1 if classes == 2 else 3))  # far from any minimum of the loss
    base = BaseScores(scores, None, False, given=True)
    Z = base.join(X)
    model = starting_linear(Z.shape[1], classes, scores.shape[1])
    weights = np.where(np.arange(200) % 3 == 0, 2.0, 1.0)
    plain = TrainingProblem(model, "cross_entropy", (), rows)
    held = TrainingProblem(model, "cross_entropy", (), rows, regularizers=base.holding(plain, Z, weights).held)
    there = [each.evaluate(each.rows(Z, loss_weights=weights)) for each in (plain, held)]
    assert np.abs(there[0].g).max() > 0.01
    assert np.abs(there[1].g).max() < 1e-12
    assert there[1].f == there[0].f


def test_a_given_base_changes_little_for_a_limit_that_it_nearly_keeps():
    X, y, group = toy(900)
    fitted = LogisticRegression().fit(X[:60], y[:60])  # so few rows that others would train it on
    X, y, group = X[60:], y[60:], group[60:]
    rates = [fitted.predict(X)[group == each].mean() for each in "ab"]
    asked = abs(rates[0] - rates[1]) - 0.02
    clf = quick(DemographicParity(asked), base=fitted, base__cv="prefit").fit(X, y, sensitive_features=group)
    assert clf.result_.kept
    assert 0 < clf.result_.base.changed < 0.05  # 0.01 of them must; 0.07 do if the loss has a say


def test_the_base_of_a_fitted_model_is_used_again_with_its_scores():
    X, y, group = toy()
    free = brief(base=LogisticRegression(), random_state=0).fit(X, y, sensitive_features=group)
    limits = "demographic_parity <= 0.3"
    anew = brief(limits, base=LogisticRegression(), random_state=0).fit(X, y, sensitive_features=group)
    again = brief(limits, base=free.base_, random_state=0)
    again.fit(X, y, sensitive_features=group, base_score=free.base_score_, eval_set=(X, y, group))
    assert (again.predict(X) == anew.predict(X)).all()
    assert again.result_.base == anew.result_.base
    with pytest.raises(ValueError, match=r"base= and base_score= .*base_"):
        brief(base=LogisticRegression()).fit(X, y, base_score=free.base_score_)


def test_prefit_needs_a_fitted_base():
    X, y, group = toy(100)
    with pytest.raises(ValueError, match=r"cv='prefit' .* LogisticRegression \(base=\) is not.*FrozenEstimator"):
        brief(base=LogisticRegression(), base__cv="prefit").fit(X, y, sensitive_features=group)


def test_given_scores_are_those_of_the_model_elsewhere():
    X, y, group = toy(600)
    elsewhere = LogisticRegression().fit(X[:300], y[:300])
    new, labels, groups = X[300:], y[300:], group[300:]
    there = brief("demographic_parity <= 0.2", base=elsewhere, base__cv="prefit")
    there.fit(new, labels, sensitive_features=groups)
    for give in (elsewhere.decision_function, elsewhere.predict_proba):
        clf = brief("demographic_parity <= 0.2")
        clf.fit(new, labels, sensitive_features=groups, base_score=give(new))
        assert clf.predict_proba(X, base_score=give(X)) == pytest.approx(there.predict_proba(X), abs=1e-5)
        assert clf.score(new, labels, base_score=give(new)) == clf.result_.accuracy
        assert clf.base_ is None
        with pytest.raises(ValueError, match="needs base_score="):
            clf.predict(X)


def test_given_scores_follow_the_positive_label():
    X, y, group = toy(300)
    elsewhere = LogisticRegression().fit(X, y)
    clf = brief(pos_label=0).fit(X, y, sensitive_features=group, base_score=elsewhere.decision_function(X))
    assert clf.result_.base.accuracy == elsewhere.score(X, y)
    assert clf.base_score_ == pytest.approx(elsewhere.decision_function(X), abs=1e-12)
    cross_fitted = brief(pos_label=0, base=LogisticRegression()).fit(X, y, sensitive_features=group)
    assert cross_fitted.result_.base.accuracy > 0.8
    assert np.mean(cross_fitted.predict(X) == y) > 0.8


def test_given_scores_of_three_classes():
    X, y, group = toy(300)
    labels = three(y, X)
    elsewhere = LogisticRegression().fit(X, labels)
    for scores in (elsewhere.decision_function(X), elsewhere.predict_proba(X)):
        clf = brief().fit(X, labels, sensitive_features=group, base_score=scores)
        assert clf.result_.base.accuracy == elsewhere.score(X, labels)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.linspace(0.1, 0.9, 100), "look like probabilities"),
        (np.linspace(-1, 1, 99), "100 rows"),
        (np.where(np.arange(100) == 7, np.nan, 1.0), "row 7"),
        (np.zeros(100), "base_score= gives every row the same score"),
        (np.full(100, -2.0), "the same score"),
        (np.ones((100, 3)), "3 columns"),
        (np.full((100, 2), -1.5), "2 columns"),
        (["x"] * 100, "must hold numbers"),
    ],
)
def test_bad_scores(scores, said):
    X, y, group = toy(100)
    with pytest.raises(ValueError, match=said):
        brief().fit(X, y, sensitive_features=group, base_score=scores)


def test_new_rows_take_the_scores_that_fit_takes():
    """Probabilities were taken for logits in silence, and half of the rows were decided wrongly."""
    X, y, group = toy(300)
    elsewhere = LogisticRegression().fit(X, y)
    probabilities, logits = elsewhere.predict_proba(X), elsewhere.decision_function(X)
    clf = brief().fit(X, y, sensitive_features=group, base_score=logits)
    own = brief(base=LogisticRegression()).fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="look like probabilities"):
        brief().fit(X, y, sensitive_features=group, base_score=probabilities[:, 1])
    for model in (clf, own):
        for method in (model.predict, model.predict_proba, model.decision_function):
            with pytest.raises(ValueError, match="look like probabilities"):
                method(X, base_score=probabilities[:, 1])
    assert (clf.predict(X, base_score=probabilities) == clf.predict(X, base_score=logits)).all()
    assert len(clf.predict(X[:1], base_score=logits[:1])) == 1  # one number may be either


def test_scores_without_a_base_and_twice():
    X, y, group = toy(100)
    scores = np.linspace(-2, 2, 100)
    with pytest.raises(ValueError, match="fitted without a base"):
        brief().fit(X, y, sensitive_features=group).predict(X, base_score=scores)
    with pytest.raises(ValueError, match="base= and base_score= are both given"):
        brief(base=LogisticRegression()).fit(X, y, sensitive_features=group, base_score=scores)


def test_validation_rows_are_scored_as_predict_scores():
    X, y, group = toy(600)
    new = (X[300:], y[300:], group[300:])
    clf = brief("demographic_parity <= 0.2", base=LogisticRegression())
    clf.fit(X[:300], y[:300], sensitive_features=group[:300], eval_set=new)
    assert clf.result_.eval_accuracy == clf.score(*new[:2])
    scores = np.linspace(-2, 2, 600)
    given = brief("demographic_parity <= 0.2")
    given.fit(X[:300], y[:300], sensitive_features=group[:300], base_score=scores[:300], eval_set=(*new, scores[300:]))
    assert given.result_.eval_accuracy == given.score(*new[:2], base_score=scores[300:])
    with pytest.raises(ValueError, match=r"eval_set .*\(X, y, groups, base_score\)"):
        given.fit(X[:300], y[:300], sensitive_features=group[:300], base_score=scores[:300], eval_set=new)


@pytest.mark.slow
def test_a_confidence_is_certified_for_the_decisions_of_predict():
    X, y, group = toy(1500, shift=0.4)
    clf = ConstrainedClassifier("demographic_parity <= 0.4", base=LogisticRegression(), confidence=0.9)
    rows = np.arange(1500) < 900
    clf.fit(
        X[rows],
        y[rows],
        sensitive_features=group[rows],
        calibration_set=(X[~rows], y[~rows], group[~rows]),
    )
    assert clf.result_.certified
    again = certify(y[~rows], clf.predict(X[~rows]), group[~rows], "demographic_parity <= 0.4", confidence=0.9)
    assert str(clf.certificate_.limits[0]) == str(again.limits[0])


def test_a_frontier_is_cross_fitted_once():
    X, y, group = toy(300)
    fits = []

    class Counted(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(y))
            return super().fit(X, y, sample_weight)

    clf = brief("demographic_parity <= 0.2", base=Counted(), base__cv=3)
    models = clf.frontier(X, y, [0.3, 0.2], sensitive_features=group)
    assert len(fits) == 4
    assert [model.result.kept for model in models] == [True, True]
    fitted = brief("demographic_parity <= 0.2", base=LogisticRegression().fit(X, y), base__cv="prefit")
    for model in fitted.frontier(X, y, [0.3, 0.2], sensitive_features=group):
        assert model.classifier.base is fitted.base
        model.classifier.fit(X, y, sensitive_features=group)


def test_warm_starts():
    X, y, group = toy(300)
    for hidden in ((), (3,)):
        clf = brief("demographic_parity <= 0.3", base=LogisticRegression(), hidden=hidden, training__warm_start=True)
        clf.fit(X, y, sensitive_features=group)
        clf.set_params(constraints__demographic_parity__bound=0.2).fit(X, y, sensitive_features=group)
        assert clf.result_.kept
        with pytest.raises(ValueError, match=r"hidden=\(7,\)"):
            clf.set_params(hidden=(7,)).fit(X, y, sensitive_features=group)
        with pytest.raises(ValueError, match=r"has a base, .* but no base"):
            clf.set_params(hidden=hidden, base=None).fit(X, y, sensitive_features=group)


def test_parameters_of_the_base_can_be_searched():
    X, y, group = toy(300)
    search = GridSearchCV(
        brief(base=DecisionTreeClassifier(random_state=0), sensitive_columns=3), {"base__max_depth": [1, 4]}, cv=2
    )
    search.fit(np.column_stack([X, group == "a"]), y)
    best = search.best_estimator_
    assert best.base_.estimators[0].get_depth() == best.base.max_depth == search.best_params_["base__max_depth"]


def test_a_base_under_metadata_routing():
    X, y, group = toy(200)
    with sklearn.config_context(enable_metadata_routing=True):
        base = make_pipeline(StandardScaler(), LogisticRegression())
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, brief("demographic_parity <= 0.3", base=base))
        pipeline[-1].set_fit_request(sample_weight=True)
        pipeline.fit(X, y, sensitive_features=group, sample_weight=1.0 + y)
        assert pipeline[-1].result_.kept


def test_sparse_matrices_polars_and_recalibration():
    from polars import DataFrame
    from scipy.sparse import csr_matrix

    X, y, group = toy(200)
    clf = brief(base=LogisticRegression()).fit(csr_matrix(X), y, sensitive_features=group)
    assert clf.predict(csr_matrix(X)).shape == (200,)
    frame = DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y").tolist()})
    clf = brief(base=HistGradientBoostingClassifier(max_iter=5)).fit(frame, y, sensitive_features=group)
    decided = clf.predict(frame)
    clf.recalibrate(frame, y)
    assert (clf.predict(frame) == decided).all()


def test_the_record_goes_through_json():
    X, y, group = toy(200)
    clf = brief("demographic_parity <= 0.2", base=LogisticRegression()).fit(X, y, sensitive_features=group)
    assert FitResult.from_dict(clf.result_.to_dict()).base == clf.result_.base
    assert list(clf.result_.base.moved) == sorted(clf.result_.base.moved, key=clf.result_.base.moved.get, reverse=True)
    assert set(clf.result_.base.moved) == {"x0", "x1", "x2"}
    for said in ("Base: LogisticRegression", "accuracy of the base alone", "decisions changed", "correction by x0"):
        assert said in str(clf.result_)


def test_estimates_of_the_group_correct_the_base():
    X, y, group = toy(2400)
    clf = brief("demographic_parity <= 0.1", base=LogisticRegression(), base__correction="groups", base__cv=3)
    clf.fit(X, y, sensitive_features=group)
    assert clf.encoded_names_ == ["P(sensitive_feature=b)", "P(1)", "base score"]
    assert clf.coef_.shape == (1, 3)
    assert clf.result_.kept
    rates = [clf.predict(X)[group == each].mean() for each in ("a", "b")]  # predict has the refitted models
    assert abs(rates[0] - rates[1]) < 0.2
    assert (
        clf.coef_[0, 0] < 0 < clf.coef_[0, 1:].max()
    )  # what speaks for the group that is selected more speaks against
    assert "an estimate of the group" in str(clf.result_)
    assert set(clf.result_.base.moved) == {"P(sensitive_feature=b)", "P(1)"}
    read = pickle.loads(pickle.dumps(clf))
    assert (read.predict_proba(X) == clf.predict_proba(X)).all()


def test_the_group_is_estimated_by_models_that_have_not_seen_the_row():
    X, y, group = toy(2400)
    clf = brief("demographic_parity <= 0.3", base=Spy(), base__correction="both", base__cv=2).fit(
        X, y, sensitive_features=group
    )
    assert clf.encoded_names_ == ["x0", "x1", "x2", "P(sensitive_feature=b)", "P(1)", "base score"]


def test_the_best_form_is_chosen_on_rows_left_out():
    """A product of columns shows the group, and a function of another the label: linear in columns is not enough."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 3))
    group = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=4000) > 0).astype(int)
    y = (np.abs(X[:, 2]) + 1.2 * group + 0.5 * rng.normal(size=4000) > 1.4).astype(int)
    base = Base(HistGradientBoostingClassifier(max_iter=30), correction="best", cv=3)
    clf = quick("disparate_impact >= 0.9", base=base).fit(X, y, sensitive_features=group)
    found = clf.result_.base
    by_name = {each.correction: each for each in found.forms}
    assert list(by_name) == ["columns", "groups", "both"]
    assert found.correction == "groups"  # the simplest that is as good as both
    assert clf.encoded_names_ == ["P(sensitive_feature=1)", "P(1)", "base score"]
    assert by_name["groups"].value > by_name["columns"].value + 0.02
    assert all(each.reached[0] == pytest.approx(0.9, abs=0.15) for each in found.forms)
    assert "correction='groups', cross-validated (taken)" in str(clf.result_)
    assert FitResult.from_dict(clf.result_.to_dict()).base == found
    few = quick(["disparate_impact >= 0.9", "select 5%"], base=base).fit(X, y, sensitive_features=group)
    assert all(each.accuracy < np.mean(y == 0) + 0.06 for each in few.result_.base.forms)
    costly = quick("disparate_impact >= 0.9", base=base, objective="cost(false_positive=1, false_negative=5)")
    forms = costly.fit(X, y, sensitive_features=group).result_.base.forms
    assert all(each.accuracy > 0.83 for each in forms)  # of the stakes
    y = (X[:, 2] + rng.normal(size=4000) > 0.6).astype(int)  # now the group is of no use
    clf = quick("disparate_impact >= 0.9", base=base).fit(X, y, sensitive_features=group)
    assert clf.result_.base.correction == "columns"


def test_rates_within_labels_need_the_group_within_labels():
    X, y, group = toy(600)
    clf = brief("equal_opportunity <= 0.1", base=LogisticRegression(), base__correction="groups", base__cv=2)
    with pytest.warns(LimitWarning, match=r"rows with the label \d, too few"):
        clf.fit(X, y, sensitive_features=group)
    name = "P(sensitive_feature={} and {})"
    assert clf.encoded_names_[:-1] == [name.format(each, label) for label in (0, 1) for each in ("a", "b")]
    Z = clf._scores.training_posteriors
    p = 1.0 / (1.0 + np.exp(-clf.base_score_))
    assert Z[:, :2].sum(axis=1) == pytest.approx(1.0 - p, abs=1e-12)
    assert Z[:, 2:].sum(axis=1) == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"base": LogisticRegression().fit([[0.0] * 3, [1.0] * 3], [0, 1]), "base__cv": "prefit"},
            "is not trained in this fit",
        ),
        ({"base": None}, "base__correction: base=None has no parameters"),
        ({"base": RidgeClassifier()}, r"RidgeClassifier \(base=\) has no predict_proba"),
        ({"base__correction": "rows"}, "correction"),
    ],
)
def test_when_the_group_cannot_be_estimated(params, said):
    X, y, group = toy(100)
    given = {"constraints": "demographic_parity <= 0.3", "base": LogisticRegression(), "base__correction": "groups"}
    with pytest.raises(ValueError, match=said):
        brief(**{**given, **params}).fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("correction", ["groups", "both", "best"])
def test_without_limits_there_is_no_group_to_estimate(correction):
    X, y, group = toy(300)
    clf, columns = (brief(base=LogisticRegression(), base__correction=each) for each in (correction, "columns"))
    for each in (clf, columns):
        each.fit(X, y, sensitive_features=group)
    assert clf.result_.base.correction == "columns"
    assert (clf.coef_ == columns.coef_).all()


def test_small_groups_are_badly_estimated():
    X, y, group = toy(200)
    clf = brief("demographic_parity <= 0.3", base=LogisticRegression(), base__correction="groups", base__cv=2)
    with pytest.warns(LimitWarning, match=r"group '[ab]' has \d+ rows, too few"):
        clf.fit(X, y, sensitive_features=group)


def test_probabilities_of_0_and_1_are_finite_scores():
    outputs = np.array([[0.0], [0.02], [0.5], [1.0]])
    scale = ScoreScale.learn(outputs, True)
    assert scale.unit == 0.01
    assert scale(outputs)[:, 0] == pytest.approx([np.log(0.01 / 0.99), np.log(0.02 / 0.98), 0.0, np.log(0.99 / 0.01)])
    assert ScoreScale.learn(np.array([[0.0], [1.0]]), True).unit == 0.01
    assert ScoreScale.learn(np.array([[0.0], [1e-12], [0.5]]), True).unit == 1e-6
    assert ScoreScale.learn(np.array([[0.1], [0.5]]), True).unit == 1e-6  # no 0 and no 1: nothing to guess


def test_margins_keep_their_sign():
    outputs = np.array([[-300.0], [0.0], [100.0]])
    scores = ScoreScale.learn(outputs, False)(outputs)
    assert (np.sign(scores) == np.sign(outputs)).all()
    assert scores.std() == pytest.approx(1.0)


class Failing(LogisticRegression):
    """Fails in the third fit."""

    count = 0

    def fit(self, X, y, sample_weight=None):
        type(self).count += 1
        if type(self).count == 3:
            raise ZeroDivisionError("no luck")
        return super().fit(X, y, sample_weight)


class Nowhere(LogisticRegression):
    """Gives NaN for one row."""

    def predict_proba(self, X):
        found = super().predict_proba(X)
        found[3] = np.nan
        return found


class Narrow(LogisticRegression):
    """Gives one column of probabilities."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, :1]


class Short(LogisticRegression):
    """Gives scores of five rows."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:5]


class Beyond(LogisticRegression):
    """Gives probabilities above 1."""

    def predict_proba(self, X):
        return 3.0 * super().predict_proba(X)


class Silent(LogisticRegression):
    """Fails without a word."""

    def fit(self, X, y, sample_weight=None):
        raise RuntimeError


class Greedy(LogisticRegression):
    """Needs more memory than there is."""

    def fit(self, X, y, sample_weight=None):
        raise MemoryError("3 TiB")


class Foreign:
    """A classifier of no library, which cannot be copied; its probabilities are those of the last class alone."""

    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)[:, 1]


@pytest.mark.parametrize(
    ("params", "error", "said"),
    [
        ({"base": LinearRegression()}, TypeError, r"LinearRegression \(base=\) has no scores.*predict_proba"),
        ({"base": LogisticRegression}, TypeError, r"base= .* LogisticRegression\(\)"),
        ({"base": "boosted"}, TypeError, "'boosted' has no method fit"),
        ({"base": Failing()}, ValueError, r"Failing \(base=\) failed .* fold 3 of 5: no luck"),
        ({"base": Nowhere()}, ValueError, r"Nowhere \(base=\) .*NaN or infinity by predict_proba.*row 3"),
        ({"base": Narrow()}, ValueError, r"Narrow \(base=\) gives scores of shape \(20, 1\)"),
        ({"base": Short()}, ValueError, r"Short \(base=\) gives scores of shape \(5, 2\).* need \(20, 2\)"),
        ({"base": Beyond()}, ValueError, r"Beyond \(base=\) gives \d\.\d+ by predict_proba.*row.*from 0 to 1"),
        ({"base": Silent()}, ValueError, r"Silent \(base=\) failed .* fold 1 of 5: RuntimeError"),
        ({"base": Greedy()}, MemoryError, "3 TiB"),
        ({"base": Foreign()}, TypeError, r"Foreign \(base=\) has no method get_params.*prefit"),
        (
            {"base": VotingClassifier([("one", LogisticRegression())])},
            TypeError,
            r"VotingClassifier \(base=\) has no scores.*predict_proba",
        ),
        ({"base": DummyClassifier()}, ValueError, r"DummyClassifier \(base=\) .*same score"),
        ({"base__cv": 1}, ValueError, "cv=1 must be at least 2"),
        ({"base__cv": "five"}, ValueError, "cv='five' must be .*folds"),
        ({"base__cv": 101}, ValueError, "cv=101 must be at most the number of rows, 100"),
        ({"base__cv": []}, ValueError, "row 0 of X in 0 test parts"),
        ({"base__cv": [1, 2]}, ValueError, r"cv=\[1, 2\] must be pairs of row numbers"),
        ({"base__cv": True}, ValueError, "cv=True must be .*folds"),
        ({"base__cv": TimeSeriesSplit(3)}, ValueError, "row 0 of X in 0 test parts"),
        ({"hidden": lambda n, m: None}, ValueError, "hidden= is a network of your own"),
        ({"base__ensemble": 3}, ValueError, "ensemble"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(params, error, said):
    X, y, group = toy(100)
    Failing.count = 0
    with pytest.raises(error, match=said):
        brief(**{"base": LogisticRegression(), **params}).fit(X, y, sensitive_features=group)


def test_scores_that_appear_with_the_fit():
    X, y, group = toy(200)
    stacked = StackingClassifier([("one", LogisticRegression())], cv=2)
    assert not hasattr(stacked, "predict_proba")
    clf = brief("demographic_parity <= 0.3", base=stacked, base__cv=2).fit(X, y, sensitive_features=group)
    assert clf.base_.scale.probabilities
    assert clf.result_.base.accuracy > 0.8


@pytest.mark.parametrize("positive", [0, 1])
def test_one_column_of_probabilities_is_that_of_the_last_class(positive):
    X, y, group = toy(200)
    both = LogisticRegression().fit(X, y)
    given = [
        brief(base=base, base__cv="prefit", pos_label=positive).fit(X, y, sensitive_features=group)
        for base in (both, Foreign().fit(X, y))
    ]
    assert given[1].base_score_ == pytest.approx(given[0].base_score_)


def test_given_scores_may_be_an_array_that_cannot_be_written():
    X, y, group = toy(200)
    scores = X[:, 0].copy()
    scores.flags.writeable = False
    clf = brief("demographic_parity <= 0.3").fit(X, y, sensitive_features=group, base_score=scores)  # no warning
    assert (clf.predict(X, base_score=scores) == clf.predict(X, base_score=scores.copy())).all()


def test_folds_without_a_class_or_a_group():
    X, y, group = toy(100)
    rare = np.where(np.arange(100) == 40, "rare", np.where(y == 1, "yes", "no"))
    with pytest.raises(ValueError, match=r"Fold \d of 5 .*label 'rare'.*base="):
        brief(base=LogisticRegression()).fit(X, rare, sensitive_features=group)
    groups = np.where(np.arange(100) == 40, "c", group)
    with pytest.raises(ValueError, match=r"Fold \d of 5 .*'c' in 'sensitive_feature'"):
        brief("demographic_parity <= 0.9", base=LogisticRegression(), groups__min_size=1).fit(
            X, y, sensitive_features=groups
        )


def test_a_fitted_base_of_other_classes():
    X, y, group = toy(100)
    fitted = LogisticRegression().fit(X, np.where(y == 1, "good", "bad"))
    with pytest.raises(ValueError, match=r"\['bad', 'good'\], but y has \[0, 1\]"):
        brief(base=fitted, base__cv="prefit").fit(X, y, sensitive_features=group)


def test_a_base_that_numbers_its_classes():
    X, y, group = toy(200)

    class XGBClassifier(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            assert set(np.unique(y)) == {0, 1}
            return super().fit(X, y, sample_weight)

    words = np.where(y == 1, "good", "bad")
    clf = brief(base=XGBClassifier(), pos_label="good").fit(X, words, sensitive_features=group)
    assert clf.result_.base.accuracy > 0.8


def test_onnx_holds_only_some_bases(tmp_path):
    X, y, group = toy(100)
    clf = brief(base=KNeighborsClassifier()).fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="KNeighborsClassifier cannot be written as ONNX"):
        clf.to_onnx(tmp_path / "model.onnx")


def test_rows_of_weight_zero_have_cross_fitted_scores():
    X, y, _ = toy(200)
    weight = np.where(np.arange(200) % 5 == 0, 0.0, 1.0)
    model = ConstrainedClassifier(base=Base(LogisticRegression(), cv=3, ensemble=True), random_state=0)
    scores = cross_fitted_scores(model, X, y, weight)
    used = weight > 0
    assert scores.shape == (200,)
    assert np.isfinite(scores).all()
    assert np.array_equal(scores[used], cross_fitted_scores(model, X[used], y[used]))
