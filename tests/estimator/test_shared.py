"""A fit that several processes share has the model of one process, however the rows are divided."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import SHORT, parameters
from tests.estimator.shared import in_processes

from fairbound import Base, ConstrainedClassifier, Groups
from fairbound.data import Source
from fairbound.training import Passes, Processes, open_journal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")

LIMIT = "demographic_parity <= 0.1"

SAME = 1e-10
"""Sums over other parts of the rows differ by rounding errors, which a grid removes; the encoding differs by 1e-16."""


class Table:
    """Rows with numbers, words, gaps, weights and rows without a group; the limit binds."""

    def __init__(self, n: int = 4000) -> None:
        draw = np.random.default_rng(1)
        self.group = draw.choice(["a", "b"], n).astype(object)
        first = draw.normal(size=n) + (self.group == "b")
        self.y = (first + draw.normal(size=n) > 0.5).astype(int)
        job = draw.choice(["cook", "nurse", "smith", "rare"], n, p=[0.4, 0.3, 0.29, 0.01]).astype(object)
        others = draw.normal(size=(n, 3))
        others[draw.random(n) < 0.1, 0] = np.nan
        self.X = np.column_stack([first.astype(object), job, others.astype(object)])
        self.weight = draw.uniform(0.5, 2.0, n)
        self.group[draw.random(n) < 0.1] = None


TABLE = Table()
SCORE = 1.0 / (1.0 + np.exp(-TABLE.X[:, 0].astype(float)))
PROBABILITY = np.clip(0.5 + 0.4 * (TABLE.y - 0.5) + 0.1 * TABLE.X[:, 3].astype(float), 0.0, 1.0)


def fitted(rows, *, weights=False, resume=None, **settings):
    model = ConstrainedClassifier(LIMIT, training=SHORT, groups=Groups(small="warn", min_size=1)).set_params(**settings)
    weight = TABLE.weight[rows] if weights else None
    return model.fit(
        TABLE.X[rows], TABLE.y[rows], sensitive_features=TABLE.group[rows], sample_weight=weight, resume=resume
    )


def facts(model):
    reached = [each.reached for each in model.result_.limits]
    groups = [(each.group, each.rows) for each in model.result_.groups]
    return (
        parameters(model),
        model.predict(TABLE.X),
        (model.result_.rows, model.result_.accuracy, reached, groups),
    )


def divided(count, how):
    """Return the rows of each process."""
    n = len(TABLE.y)
    if how == "by group":  # the last process lacks groups, and the first one has most rows
        order = np.argsort(np.array([str(each) for each in TABLE.group]), kind="stable")
        return np.split(order, [int(n * share) for share in np.linspace(0.6, 1, count)[:-1]])
    return np.array_split(np.random.default_rng(0).permutation(n), count)


FEATURES = {
    "plain": {},
    "weights": {"weights": True},
    "margin": {"margin": "auto"},
    "margin, weights": {"margin": "auto", "weights": True},
    "confidence": {"confidence": 0.6, "groups__small": "error"},
    "classes": {"loss__class_weight": "balanced"},
    "floors": {"groups__no_group_worse": True},
    "cost": {"objective": "cost(false_positive=1, false_negative=3)", "margin": "auto"},
    "quota": {"constraints": [LIMIT, "select 20%"]},
    "overall": {"constraints": [LIMIT, "precision[overall] >= 0.7"]},
    "balanced": {"objective": "balanced_accuracy"},
    "scores limited": {
        "constraints": ["mean_difference <= 0.05", "disparate_impact >= 0.8 at 0.4, 0.6"],
        "training__forecast": False,
    },
    "probabilities": {"divided": True, "margin": "auto"},
    "early stopping": {"training__early_stopping": True, "eval": True},
    "constraint weights": {"constraint_weight": True},
    "scores": {"base_score": True, "margin": "auto"},
    "base": {"base": Base(HistGradientBoostingClassifier(max_iter=20, random_state=0)), "margin": "auto"},
    "estimates of the group": {"base": Base(LogisticRegression(), correction="best"), "encoder": "auto"},
    "ensemble, weights": {"base": Base(LogisticRegression(), ensemble=True), "weights": True},
}


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_gives_the_model_of_one_process(feature, count):
    """The processes have different groups and numbers of rows; one that has all rows in their order is the oracle."""
    parts = divided(count, "by group" if count == 2 else "by chance")
    order = np.concatenate(parts)

    def work(rows, **training):
        settings = dict(FEATURES[feature])
        chosen = {name: settings.pop(name, None) for name in ("weights", "divided", "eval", "constraint_weight")}
        given = {"base_score": np.column_stack([1.0 - SCORE, SCORE])[rows]} if settings.pop("base_score", None) else {}
        groups = TABLE.group[rows]
        if chosen["divided"]:
            groups = {"group": {"a": PROBABILITY[rows], "b": 1.0 - PROBABILITY[rows]}}
        if chosen["eval"]:
            some = rows[rows % 3 == 0]
            given["eval_set"] = TABLE.X[some], TABLE.y[some], TABLE.group[some]
        if chosen["constraint_weight"]:
            given["constraint_weight"] = 3.0 * TABLE.weight[rows]
        training = replace(SHORT, **training)
        model = ConstrainedClassifier(LIMIT, training=training, groups=Groups(small="warn", min_size=1))
        model.set_params(**settings)
        weight = TABLE.weight[rows] if chosen["weights"] else None
        model.fit(TABLE.X[rows], TABLE.y[rows], sensitive_features=groups, sample_weight=weight, **given)
        found = model.result_
        said = [str(found.forecast), str(found.margin), str(found.certificate), found.status.value, found.rows]
        scores = {"base_score": np.column_stack([1.0 - SCORE, SCORE])} if given.get("base_score") is not None else {}
        reached = [found.accuracy, *(each.reached for each in found.limits)]
        return parameters(model), model.predict(TABLE.X, **scores), said, reached

    (whole,) = in_processes(1, lambda _: work(order, distributed="off"))
    assert not isinstance(whole, Exception), whole
    results = in_processes(count, lambda rank: work(parts[rank]))
    for each in results:
        assert not isinstance(each, Exception), each
        assert np.array_equal(each[0], results[0][0])  # all processes have the same model, bit for bit
        assert np.array_equal(each[1], results[0][1])
        assert np.abs(each[0] - whole[0]).max() <= SAME
        assert np.array_equal(each[1], whole[1])
        assert each[2] == whole[2]
        assert each[3] == pytest.approx(whole[3], abs=1e-12)


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({"hidden": (3,), "loss__regularizers": "demographic_parity * 0.1"}, marks=pytest.mark.slow)],
)
def test_mini_batches_have_the_same_rows_however_they_are_divided(settings):
    """All processes draw the same positions, so two of them take the steps of one that has the rows in their order."""
    parts = divided(2, "by group")
    settings = {"training__batch_size": 150, "training__epochs": 2, **settings}
    (expected,) = in_processes(1, lambda _: facts(fitted(np.concatenate(parts), weights=True, **settings)))
    first, second = in_processes(2, lambda rank: facts(fitted(parts[rank], weights=True, **settings)))
    assert np.array_equal(first[0], second[0])
    assert np.abs(first[0] - expected[0]).max() <= SAME
    assert np.array_equal(first[1], expected[1])


@pytest.mark.slow
def test_mini_batches_of_modules_with_modes():
    """Dropout draws units by process; a layer that learns statistics of batches is refused in all processes."""
    parts = divided(2, "by chance")
    layers = {"dropout": torch.nn.Dropout(0.2), "norm": torch.nn.BatchNorm1d(4)}

    def work(rank):
        found = []
        for layer in layers.values():
            torch.manual_seed(0)
            module = torch.nn.Sequential(torch.nn.Linear(9, 4), layer, torch.nn.Linear(4, 1))
            settings = {"hidden": module, "training__batch_size": 150, "training__epochs": 2}
            try:
                found.append(parameters(fitted(parts[rank], **settings)))
            except ValueError as error:
                found.append(str(error))
        return found

    first, second = in_processes(2, work)
    assert np.array_equal(first[0], second[0])
    for each in (first, second):
        assert "BatchNorm1d learns statistics of each batch" in each[1]


def test_a_frontier_is_that_of_one_process():
    parts = divided(2, "by group")

    def work(rows):
        model = ConstrainedClassifier(LIMIT, training=SHORT)
        points = model.frontier(TABLE.X[rows], TABLE.y[rows], [0.05, 0.15], sensitive_features=TABLE.group[rows])
        return [(each.bound, each.result.accuracy, *facts(each.classifier)[:2]) for each in points]

    (expected,) = in_processes(1, lambda _: work(np.arange(len(TABLE.y))))
    first, second = in_processes(2, lambda rank: work(parts[rank]))
    for one, other, whole in zip(first, second, expected, strict=True):
        assert one[:2] == pytest.approx(whole[:2], abs=1e-12)
        assert np.array_equal(one[2], other[2])
        assert np.abs(one[2] - whole[2]).max() <= SAME
        assert np.array_equal(one[3], whole[3])


def test_columns_of_groups_keep_their_order():
    one, other = TABLE.group == "a", np.arange(len(TABLE.y)) % 2

    def work(_rank):
        model = ConstrainedClassifier("disparate_impact(sex & age) >= 0.5", groups="both", training=SHORT)
        found = model.fit(TABLE.X, TABLE.y, sensitive_features={"sex": one, "age": other})
        return [each.grouping for each in found.result_.groups]

    (groupings,) = in_processes(1, work)
    assert list(dict.fromkeys(groupings)) == ["sex", "age", "sex & age"]


def test_what_one_process_refuses_ends_all_with_a_sentence():
    parts = divided(2, "by chance")

    def with_value(rank, value):
        X = TABLE.X[parts[rank]].copy()
        X[0, 2] = value if rank else X[0, 2]
        return ConstrainedClassifier(LIMIT).fit(X, TABLE.y[parts[rank]], sensitive_features=TABLE.group[parts[rank]])

    def work(rank):
        errors = []
        cases = [
            lambda: fitted(parts[rank], encoder=StandardScaler()),
            lambda: fitted(parts[rank], random_state=None),
            lambda: fitted(parts[rank] if rank == 0 else parts[rank][:0]),  # no rows
            lambda: fitted(parts[rank], groups="each" if rank == 0 else "all"),
            lambda: ConstrainedClassifier(LIMIT).fit(
                TABLE.X[parts[rank]][:, : 4 + rank], TABLE.y[parts[rank]], sensitive_features=TABLE.group[parts[rank]]
            ),
            lambda: with_value(rank, 10**400),  # found where the encoding is learnt, before the others hear of it
            lambda: with_value(rank, "word"),
        ]
        for case in cases:
            try:
                case()
            except (ValueError, TypeError) as error:
                errors.append(str(error))
            else:
                errors.append("")
        return errors

    first, second = in_processes(2, work)
    assert "encoder= needs all rows in one process" in first[0]
    assert "distributed='off'" in second[0]
    assert first[1] == second[1] == ""  # the processes share the seed that one of them draws
    assert "Process 1 of 2: " in first[2]
    assert "0 sample" in second[2] or "empty" in second[2]
    assert first[3]
    assert second[3]
    assert "columns" in first[4]
    assert "columns" in second[4]
    assert "Process 1 of 2: " in first[5]
    assert second[5]
    assert "words" in first[6]
    assert "words" in second[6]


@pytest.mark.parametrize(
    "settings", [{}, pytest.param({"training__batch_size": 150, "training__epochs": 4}, marks=pytest.mark.slow)]
)
def test_a_shared_fit_that_was_killed_ends_with_the_same_model(tmp_path, settings):
    parts, path = divided(2, "by chance"), tmp_path / "fit.journal"

    def work(rank):
        journal = open_journal(path, seconds=0.0, processes=2) if rank == 0 else None
        whole = facts(fitted(parts[rank], resume=Passes(journal, Processes.present()), **settings))
        if journal is not None:
            journal.close()
            for number in range(len(os.listdir(path)) // 2, len(os.listdir(path))):
                (path / str(number)).unlink()
        torch.distributed.barrier()
        again = facts(fitted(parts[rank], resume=path, **settings))
        return np.array_equal(whole[0], again[0]), path.exists()

    assert in_processes(2, work)[0] == (True, False)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_sample_of_many_rows_is_that_of_one_process(tmp_path, kind):
    """Shares follow each other in the source, so a sample by places has the same rows."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    draw, n = np.random.default_rng(3), 30_000
    group = draw.choice(["a", "b"], n, p=[0.7, 0.3])
    X = draw.normal(size=(n, 3)) + 0.5 * (group == "b")[:, None]
    y = (X.sum(axis=1) + 2 * draw.normal(size=n) > 0.5).astype(int)
    table = pa.table({**{f"x{place}": X[:, place] for place in range(3)}, "group": group, "y": y})
    file = tmp_path / f"rows.{kind}"
    if kind == "csv":
        csv.write_csv(table, file)
    else:
        parquet.write_table(table, file, row_group_size=2000)

    def work(_):
        model = ConstrainedClassifier(LIMIT, training=replace(SHORT, forecast=False))
        return parameters(model.fit(Source(file, scratch=tmp_path), "y", sensitive_features="group"))

    (whole,) = in_processes(1, work)
    assert all(np.array_equal(found, whole) for found in in_processes(2, work))


def test_processes_share_the_row_groups_of_a_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    order = np.argsort(np.array([str(each) for each in TABLE.group]), kind="stable")
    numbers = {f"x{place}": TABLE.X[order, place].astype(float) for place in (0, 2, 3, 4)}
    words = {"job": TABLE.X[order, 1], "group": TABLE.group[order], "y": TABLE.y[order], "w": TABLE.weight[order]}
    table = pa.table({**numbers, **words})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=400)  # each process has some of the groups
    parquet.write_table(table, tmp_path / "one.parquet")  # one row group, of which each process takes its rows
    parquet.write_table(table.slice(0, 1), tmp_path / "few.parquet")

    def fit_file(name):
        model = ConstrainedClassifier(LIMIT, training=SHORT)
        model.fit(Source(tmp_path / name, scratch=tmp_path), "y", sensitive_features="group", sample_weight="w")
        return parameters(model), model.predict(table.drop_columns(["y", "group", "w"])), model.result_.rows

    def work(_):
        found = [fit_file("rows.parquet"), fit_file("one.parquet")]
        try:
            fit_file("few.parquet")
        except ValueError as error:
            return found, str(error)
        return found, ""

    (((whole, _), _),) = in_processes(1, work)
    for results, said in in_processes(2, work):
        for found in results:
            assert np.abs(found[0] - whole[0]).max() <= SAME
            assert np.array_equal(found[1], whole[1])
            assert found[2] == whole[2] == len(TABLE.y)
        assert "few.parquet has no row to train on for process 0 of 2" in said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["few.parquet", "one.parquet", "rows.parquet"]
