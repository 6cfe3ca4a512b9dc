"""A fit that was killed continues from its journal to the same model, bit for bit.

A kill leaves the first results of the journal.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tests.estimator.helpers import SHORT, parameters
from tests.refusals import refused

from fairbound import ConstrainedClassifier
from fairbound._errors import LimitWarning
from fairbound.training import Passes, open_journal

LIMIT = "disparate_impact >= 0.9"
SETTINGS = {
    "linear": {},
    "network": {"hidden": (4,)},
    "mini-batches": {"hidden": (4,), "training__epochs": 4},
    "margin": {"margin": 0.9},
    "no group worse": {"groups__no_group_worse": True},
}


@cache
def rows():
    """Rows whose limit binds, with many columns."""
    draw = np.random.default_rng(1)
    X = draw.normal(size=(2500, 24))
    group = draw.integers(0, 2, 2500)
    X[:, 1] += group
    y = (X[:, 0] + X[:, 1] + draw.normal(size=2500) > 0.8).astype(int)
    return X, y, group


def fitted(settings, resume=None, limit=LIMIT, take=slice(None)):
    X, y, group = rows()
    model = ConstrainedClassifier(limit, encoder=None, training=SHORT).set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        return model.fit(X[take], y[take], sensitive_features=group[take], resume=resume)


def whole_journal(path, run):
    """Run with a journal that is written at once, and return its files in order."""
    journal = open_journal(path, seconds=0.0)
    found = run(Passes(journal))
    names = ["journal.json", *map(str, range(1, len(os.listdir(path))))]
    content = [(path / name, (path / name).read_bytes()) for name in names]
    journal.remove()
    return found, content


def restore(content):
    """Write files of a journal."""
    content[0][0].parent.mkdir()
    for path, written in content:
        path.write_bytes(written)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("network", "margin") else name for name in SETTINGS],
)
def test_a_fit_that_was_killed_ends_with_the_same_model(name, tmp_path):
    settings, path = SETTINGS[name], tmp_path / "fit.journal"
    plain = fitted(settings)
    assert {"limits", "exact"} <= set(plain.result_.history["phase"])  # the limit binds
    written, content = whole_journal(path, lambda passes: fitted(settings, passes))
    assert np.array_equal(parameters(written), parameters(plain))
    for cut in np.random.default_rng(0).integers(0, len(content), 2).tolist():
        restore(content[: cut + 1])
        found = fitted(settings, path)
        assert np.array_equal(parameters(found), parameters(plain)), cut
        assert found.result_.history.equals(plain.result_.history)
        assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"confidence": 0.9, "training": "auto"}, {"hidden": (8, 4), "training": "auto"}], ids=str
)
def test_a_long_fit_that_was_killed_ends_with_the_same_model(settings, tmp_path):
    path = tmp_path / "fit.journal"
    plain, content = whole_journal(path, lambda passes: fitted(settings, passes))
    for cut in np.random.default_rng(0).integers(0, len(content), 10).tolist():
        restore(content[: cut + 1])
        assert np.array_equal(parameters(fitted(settings, path)), parameters(plain)), cut


def test_a_frontier_that_was_killed_ends_with_the_same_models(tmp_path):
    X, y, group = rows()
    path = tmp_path / "frontier.journal"

    def trace(resume=None):
        model = ConstrainedClassifier(LIMIT, training=SHORT, encoder=None)
        return model.frontier(X, y, [0.7, 0.9], sensitive_features=group, resume=resume)

    plain, content = whole_journal(path, trace)
    for cut in np.random.default_rng(0).integers(0, len(content), 3).tolist():
        restore(content[: cut + 1])
        for found, expected in zip(trace(path), plain, strict=True):
            assert np.array_equal(parameters(found.classifier), parameters(expected.classifier))
            assert found.result.history.equals(expected.result.history)


def test_solves_are_not_repeated(tmp_path, monkeypatch):
    path = tmp_path / "fit.journal"
    _, content = whole_journal(path, lambda passes: fitted({}, passes))
    restore(content)

    def repeated(*_, **__):
        raise AssertionError("a solve")

    monkeypatch.setattr("fairbound.sqp.QuasiNewtonSQP.solve", repeated)
    fitted({}, path)
    with pytest.raises(AssertionError, match="a solve"):
        fitted({})  # so the line above says something


@pytest.mark.parametrize("changed", ["rows", "limit"])
def test_the_journal_of_another_fit_is_refused(changed, tmp_path):
    path = tmp_path / "fit.journal"
    content = whole_journal(path, lambda passes: fitted({}, passes))[1]
    restore(content)
    with refused("fit.journal", "another run", "delete the folder"):
        fitted(
            {},
            path,
            "disparate_impact >= 0.8" if changed == "limit" else LIMIT,
            slice(1, None) if changed == "rows" else slice(None),
        )
    assert path.exists()


def own_module(activation, head=1.0):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(24, 3), activation(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        module[2].weight.mul_(head)
    return module


def frozen(module, factor):
    with torch.no_grad():
        module[0].weight.mul_(factor)
    module[0].requires_grad_(False)
    return module


def squared_error(logits, labels):
    return (torch.sigmoid(logits) - labels) ** 2


def squared_double_error(logits, labels):
    return (torch.sigmoid(2 * logits) - labels) ** 2


BATCHES = {"training__epochs": 2}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"hidden": own_module(torch.nn.Tanh)}, {"hidden": own_module(torch.nn.ReLU)}),
        ({"hidden": own_module(torch.nn.Tanh, 0.0)}, {"hidden": own_module(torch.nn.ReLU, 0.0)}),
        (
            {"hidden": frozen(own_module(torch.nn.Tanh, 0.0), 1.0)},
            {"hidden": frozen(own_module(torch.nn.Tanh, 0.0), 1.5)},
        ),
        ({"loss": squared_error}, {"loss": squared_double_error}),
        ({**BATCHES, "loss__l2": 1e-4}, {**BATCHES, "loss__l2": 1e-1}),
        (
            {**BATCHES, "hidden": own_module(torch.nn.Tanh), "random_state": 0},
            {**BATCHES, "hidden": own_module(torch.nn.Tanh), "random_state": 1},
        ),
    ],
    ids=[
        "activation",
        "activation under a head of zeros",
        "frozen layer under a head of zeros",
        "loss",
        "penalty of mini-batches",
        "seed of mini-batches",
    ],
)
def test_a_journal_is_not_taken_for_that_of_another_model_with_the_same_parameters(before, after, tmp_path):
    path = tmp_path / "fit.journal"
    restore(whole_journal(path, lambda passes: fitted(before, passes))[1])
    with refused("fit.journal", "another run", "step 1 ", "delete the folder"):
        fitted(after, path)


def watched_fit(path, rows_of_eval, callbacks=()):
    """Fit with validation rows that choose the model and appear in its history."""
    X, y, group = rows()
    seen = (X[rows_of_eval], y[rows_of_eval], group[rows_of_eval])
    training = replace(SHORT, early_stopping=True)
    model = ConstrainedClassifier(LIMIT, encoder=None, training=training, callbacks=callbacks)
    return model.fit(X[:2000], y[:2000], sensitive_features=group[:2000], eval_set=seen, resume=path)


def test_callbacks_and_the_history_have_the_rows_of_finished_solves_and_other_validation_rows_are_refused(tmp_path):
    path, before, after = tmp_path / "fit.journal", [], []
    plain, content = whole_journal(path, lambda passes: watched_fit(passes, slice(2000, None), before.append))
    restore(content[: int(0.7 * len(content))])
    found = watched_fit(path, slice(2000, None), after.append)
    assert "eval accuracy" in plain.result_.history
    assert found.result_.history.equals(plain.result_.history)
    assert after == before
    assert np.array_equal(parameters(found), parameters(plain))
    restore(content)
    with refused("fit.journal", "another run"):
        watched_fit(path, slice(2001, None))


def test_a_drawn_seed_is_that_of_the_fit_that_is_resumed(tmp_path):
    path, settings = tmp_path / "fit.journal", {"random_state": None, "hidden": (2,)}
    first, content = whole_journal(path, lambda passes: fitted(settings, passes))
    restore(content)
    assert np.array_equal(parameters(fitted(settings, path)), parameters(first))
    assert not np.array_equal(parameters(fitted(settings)), parameters(first))


def test_a_fit_that_was_stopped_does_not_spoil_the_journal(tmp_path):
    path = tmp_path / "fit.journal"
    X, y, group = rows()
    journal = open_journal(path, seconds=0.0)
    model = ConstrainedClassifier(LIMIT, training=SHORT, encoder=None, callbacks=[lambda row: row["phase"] == "limits"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        model.fit(X, y, sensitive_features=group, resume=Passes(journal))
    journal.close()
    assert np.array_equal(parameters(fitted({}, path)), parameters(fitted({})))
