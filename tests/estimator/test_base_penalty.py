"""The penalty of a correction: its weights alone, and the more the fewer rows the smallest group has."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.estimator.helpers import quick, toy

from fairbound import ConstrainedClassifier, Loss
from fairbound._errors import LimitWarning
from fairbound.estimator import TableEncoder
from fairbound.estimator.correction import correction_weights
from fairbound.estimator.groups import smallest_sample
from fairbound.estimator.models import first_model
from fairbound.fairness import Cells, as_constraints
from fairbound.training import as_model


def columns_and_scores(n, seed):
    """Two columns of sixty words, the score of a base, labels, and two groups of which one is small."""
    words = np.random.default_rng(7)
    rng = np.random.default_rng(seed)
    small = rng.random(n) < 0.03
    columns = {}
    for name in "ab":
        shares = words.dirichlet(np.full(60, 0.5))
        tilted = shares * np.exp(words.normal(size=60))
        drawn = [rng.choice(60, n, p=each / each.sum()) for each in (shares, tilted)]
        columns[name] = np.where(small, drawn[1], drawn[0]).astype(str)
    score = rng.normal(size=n) - small
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return pd.DataFrame(columns), score, y, np.where(small, "small", "large")


def test_a_small_group_keeps_the_correction_small_and_the_limit_holds():
    X, score, y, groups = columns_and_scores(2000, 0)
    base = make_pipeline(ColumnTransformer([("score", "passthrough", ["score"])]), LogisticRegression())
    sizes = {}
    for l2 in (1e-5, "auto"):
        clf = quick(
            "disparate_impact >= 0.9",
            base=base,
            loss__l2=l2,
            encoder=TableEncoder(max_categories=60),
            base__cv=2,
            random_state=0,
        )
        clf.fit(X.assign(score=score), y, sensitive_features=groups)
        assert clf.result_.kept
        sizes[l2] = np.linalg.norm(clf.coef_[0, :-1])
    assert sizes["auto"] < 0.8 * sizes[1e-5]


def test_estimates_of_the_group_are_not_penalised():
    X, y, groups = toy(200)

    def fitted(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LimitWarning)  # so few rows estimate a group badly
            clf = quick(
                "demographic_parity <= 0.3", base=LogisticRegression(), base__correction="groups", base__cv=2, **options
            )
            return clf.fit(X, y, sensitive_features=groups).decision_function(X)

    assert (fitted() == fitted(loss__l2=0.0)).all()


def test_the_penalty_is_one_over_the_rows_of_the_smallest_group():
    X, score, y, groups = columns_and_scores(1000, 0)
    rows = int((groups == "small").sum())
    limits = "disparate_impact >= 0.8"

    def fitted(**options):
        clf = quick(limits, **options).fit(X, y, sensitive_features=groups, base_score=score)
        return clf.decision_function(X, base_score=score)

    assert (fitted() == fitted(loss__l2=1 / rows)).all()
    assert (fitted() != fitted(loss__l2=1e-5)).any()


def test_a_group_below_one_percent_of_the_rows_does_not_decide_the_penalty():
    X, score, y, groups = columns_and_scores(3000, 0)
    groups = np.where(np.arange(3000) % 200 == 0, "tiny", np.where(groups == "small", "large", groups))

    def fitted(**options):
        clf = quick("disparate_impact >= 0.8", **options).fit(X, y, sensitive_features=groups, base_score=score)
        return clf.decision_function(X, base_score=score)

    assert (groups == "tiny").sum() == 15
    assert (fitted() == fitted(loss__l2=1 / 30)).all()


def test_without_a_base_or_without_limits_the_penalty_is_one_over_the_rows():
    X, y, _ = toy()
    plain, Z = ConstrainedClassifier().fit(X, y), (X - X.mean(axis=0)) / X.std(axis=0)
    known = LogisticRegression(C=1.0, tol=1e-10).fit(Z, y)  # the sum of the losses and ½‖w‖²
    np.testing.assert_allclose(plain.decision_function(X), known.decision_function(Z), rtol=1e-3)
    half = LogisticRegression(C=2.0, tol=1e-10).fit(Z, y)  # half of the penalty is another model
    assert abs(half.decision_function(Z) - known.decision_function(Z)).max() > 0.01
    free = [quick(loss__l2=l2).fit(X, y, base_score=X[:, 0]) for l2 in ("auto", 1 / 400)]
    assert (free[0].decision_function(X, base_score=X[:, 0]) == free[1].decision_function(X, base_score=X[:, 0])).all()


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        ("disparate_impact >= 0.8", 3),
        ("equal_opportunity <= 0.1", 1),
        (["disparate_impact >= 0.8", "equal_opportunity <= 0.1"], 1),
    ],
)
def test_the_smallest_sample_is_that_of_a_limited_rate(limit, size):
    y = [0, 0, 1, 0, 0, 1, 1, 1, 1]
    groups = ["a", "a", "a", "b", "b", "b", "b", "b", None]
    cells = Cells.build(np.array(y), {"g": np.array(groups, dtype=object)}, pos_label=1)
    assert smallest_sample(as_constraints(limit), cells) == pytest.approx(size)


def test_unequal_weights_make_a_sample_smaller():
    cells = Cells.build(
        np.array([0, 1, 0, 1, 0, 1]),
        {"g": np.array(list("aaabbb"))},
        weights=np.array([1.0, 1.0, 2.0, 5.0, 5.0, 5.0]),
        pos_label=1,
    )
    assert smallest_sample(as_constraints("disparate_impact >= 0.8"), cells) == pytest.approx(16 / 6)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_only_the_weights_of_the_correction_are_penalised(n_labels, hidden):
    n_scores, n_outputs = (1, 1) if n_labels == 2 else (3, 3)
    generator = torch.Generator().manual_seed(0)
    first = first_model(
        None, hidden, shape=(9, 5 + n_scores), n_labels=n_labels, seed=0, generator=generator, n_scores=n_scores
    )
    model, ones = as_model(first), correction_weights(first, 5)
    assert len(ones) == model.n_parameters
    assert ones.sum() == (5 * 4 + 4 * n_outputs if hidden else 5 * n_outputs)
    # What is penalised is all that makes the model differ from v · score + a constant.
    model.assign(np.where(ones, 0.0, model.current()))
    X = np.random.default_rng(1).normal(size=(6, 5 + n_scores))
    shift = model.outputs(X) - X[:, 5:]
    assert np.allclose(shift, shift[:1])


def test_another_word_for_the_penalty_is_refused():
    X, y, _ = toy(40)
    with pytest.raises(ValueError, match=r"l2='none'"):
        ConstrainedClassifier(loss=Loss(l2="none")).fit(X, y)
