"""Fits to sources of every kind: the same encoding, model and decisions as from a table, to the last digit."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import parameters
from tests.refusals import refused

from fairbound import ConstrainedClassifier, Training, load, read_table
from fairbound.data import Source
from fairbound.studies.parts import Part

BRIEF = Training(iterations=4, touches=1)


def planted(n: int = 1500, classes: int = 2) -> dict[str, np.ndarray]:
    """Numbers with gaps, a category with 10,000 levels at most, groups of which 30% are missing, and weights."""
    draw = np.random.default_rng(7)
    columns: dict[str, np.ndarray] = {f"x{place}": draw.normal(place, 1 + place, n) for place in range(3)}
    columns["income"] = np.where(draw.random(n) < 0.1, np.nan, draw.gamma(2.0, 1000.0, n))
    job = np.array(["cook", "nurse", " smith ", "clerk"], dtype=object)[draw.integers(0, 4, n)]
    job[draw.random(n) < 0.05] = None
    columns["job"] = job
    columns["town"] = np.array([f"t{code}" for code in draw.zipf(1.3, n) % 10_000], dtype=object)
    sex = np.array(["f", "m"], dtype=object)[draw.integers(0, 2, n)]
    score = columns["x0"] + 0.8 * (sex == "m") + 0.5 * (job == "nurse") + draw.normal(size=n)
    sex[draw.random(n) < 0.3] = None
    columns["sex"] = sex
    columns["age"] = draw.integers(18, 80, n)
    columns["label"] = np.array(["no", "yes", "later"], dtype=object)[np.digitize(score, [0.5, 1.5][: classes - 1])]
    columns["w"] = draw.uniform(0.2, 3.0, n) * (draw.random(n) < 0.97)
    return columns


IN_MEMORY = {
    "pandas": lambda table: table.to_pandas().set_index(np.arange(len(table)) + 5),
    "polars": pl.from_arrow,
    "pyarrow": lambda table: table,
    "stream": lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=300)),
    "lazy frame": lambda table: pl.from_arrow(table).lazy(),
    "duckdb": lambda table: pytest.importorskip("duckdb").from_arrow(table),
}
FILES = ("file", "folder", "csv", "semicolons", "workbook")


def write(columns: dict[str, np.ndarray], path: Path, kind: str):
    """Write the columns as files of a kind, or hand them over as a table or a stream, which is read once."""
    table = pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    if kind in IN_MEMORY:
        return IN_MEMORY[kind](table)
    rows = [list(columns), *(["" if value is None else value for value in row.values()] for row in table.to_pylist())]
    if kind == "workbook":
        pytest.importorskip("python_calamine")
        book = pytest.importorskip("openpyxl").Workbook()
        for row in rows:
            book.active.append([None if value == "" else value for value in row])
        book.save(path / "rows.xlsx")
        return path / "rows.xlsx"
    if kind in ("csv", "semicolons"):
        with (path / "rows.csv").open("w", newline="") as file:
            csv.writer(file, delimiter="," if kind == "csv" else ";").writerows(rows)
        return path / "rows.csv"
    if kind == "file":
        pq.write_table(table, path / "rows.parquet", row_group_size=400)
        return path / "rows.parquet"
    folder = path / "rows"
    folder.mkdir()
    for part in range(3):
        pq.write_table(table.slice(part * 512, 512), folder / f"{part}.parquet")
    return folder


def fitted(source, weight=None, sensitive="sex", target="label", *, model=None, **reading) -> ConstrainedClassifier:
    """Fit a classifier to a source, by default briefly and without limits."""
    model = ConstrainedClassifier(training=BRIEF) if model is None else model
    return model.fit(Source(source, **reading), target, sensitive_features=sensitive, sample_weight=weight)


def both(columns: dict[str, np.ndarray], source, file: Path, options: dict, **params):
    """Fit from memory and from a source; return both classifiers and the rows."""
    read = {name: value for name, value in options.items() if name != "memory"}
    part = Part.of(read_table(file, target="label", sensitive=("sex",), **read))
    names = part.data.target_names
    params = {"constraints": "demographic_parity <= 0.1", "training": BRIEF, **params}
    positive = {} if len(names) > 2 else {"pos_label": names[1]}
    kept = (
        ConstrainedClassifier()
        .set_params(**params, **positive)
        .fit(part.X, part.y, sensitive_features=part.sensitive, sample_weight=part.weight)
    )
    return kept, fitted(source, model=ConstrainedClassifier().set_params(**params), **{"memory": 0, **options}), part


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and chunks of a few rows, so that a pass has many of them."""
    monkeypatch.setattr("fairbound.data.batches.BLOCK_ROWS", 256)
    monkeypatch.setattr("fairbound.data.parquet.BLOCK_ROWS", 256)
    monkeypatch.setattr("fairbound.estimator.inputs.BLOCK_ROWS", 256)
    monkeypatch.setattr("fairbound._mapped.BLOCK", 192)
    monkeypatch.setattr("fairbound.data.columns.BLOCK", 192)


@pytest.mark.parametrize("memory", [0, None], ids=["in files", "in memory"])
@pytest.mark.parametrize("kind", [*FILES, *IN_MEMORY])
def test_the_model_is_that_of_a_table(tmp_path, small_blocks, kind, memory):
    columns = planted()
    if kind == "workbook":  # openpyxl writes 15 digits
        columns = {name: each.round(9) if each.dtype.kind == "f" else each for name, each in columns.items()}
    source = write(columns, tmp_path, kind)
    (tmp_path / "table").mkdir()
    file = write(columns, tmp_path / "table", "file")
    same_models(*both(columns, source, file, {"positive": "yes", "ignore": ["age"], "weight": "w", "memory": memory}))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_columns_of_a_table_may_be_named(tmp_path, kind):
    columns = {**planted(400), "label": np.array(["no", "yes"])[np.arange(400) % 2]}
    table, source = (write(columns, tmp_path, each) for each in (kind, "file"))
    one, other = (ConstrainedClassifier("demographic_parity <= 0.1", training=BRIEF) for _ in range(2))
    one.fit(table, "label", sensitive_features="sex", sample_weight="w")
    other.fit(source, "label", sensitive_features="sex", sample_weight="w")
    assert np.array_equal(parameters(one), parameters(other))
    assert one.feature_names_in_.tolist() == ["x0", "x1", "x2", "income", "job", "town", "age"]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", "dict"])
def test_the_model_does_not_depend_on_the_library_of_the_table(tmp_path, backend):
    columns = planted(400)
    data = read_table(write(columns, tmp_path, "file"), target="label", sensitive="sex", positive="yes")
    model = ConstrainedClassifier("demographic_parity <= 0.1", training=BRIEF, pos_label="yes")
    y, frame = np.array(data.target_names)[data.y], data.frame(backend=backend)
    model.fit(frame, y, sensitive_features=data.sensitive)
    file = fitted(tmp_path / "rows.parquet", positive="yes", model=ConstrainedClassifier(**model.get_params(False)))
    assert np.array_equal(parameters(model), parameters(file))


def same_models(kept, streamed, part):
    """Compare everything that fits found."""
    assert np.array_equal(parameters(kept), parameters(streamed))
    assert streamed.encoder_.columns_ == kept.encoder_.columns_
    first, second = (replace(each.result_, seconds=0.0) for each in (kept, streamed))
    assert str(second) == str(first)
    assert second.to_dict() == first.to_dict()
    scores = {} if kept.base_score_ is None else {"base_score": kept.base_score_}
    assert (kept.predict(part.X, **scores) == streamed.predict(part.X, **scores)).all()


@pytest.mark.parametrize(
    ("params", "weight"),
    [
        ({"loss__class_weight": "balanced"}, None),
        pytest.param({"loss__class_weight": {"yes": 3.0, "no": 0.5}}, "w", marks=pytest.mark.slow),
        ({"groups__no_group_worse": True}, None),
    ],
    ids=str,
)
def test_weights_of_classes_and_floors(tmp_path, small_blocks, params, weight):
    columns = planted(1000)
    source = write(columns, tmp_path, "file")
    options = {"positive": "yes", "ignore": ["age"] if weight else ["age", "w"], "weight": weight}
    same_models(*both(columns, source, source, options, **params))


def test_a_network_on_three_classes_with_codes_as_categories(tmp_path, small_blocks):
    columns = planted(900, classes=3)
    source = write(columns, tmp_path, "file")
    options = {"ignore": ["w", "town"], "categorical": ["age"]}
    kept, streamed, part = both(columns, source, source, options, hidden=(3,))
    assert len(streamed.classes_) == 3
    same_models(kept, streamed, part)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "csv"])
def test_all_at_once(tmp_path, kind):
    """A category of 10,000 levels, three classes, weights, gaps, and 30% of the rows without a group."""
    n = 30_000
    columns = planted(n, classes=3)
    columns["town"] = np.array([f"t{code}" for code in np.random.default_rng(1).permutation(n) % 10_000], dtype=object)
    source = write(columns, tmp_path, kind)
    kept, streamed, part = both(columns, source, source, {"ignore": ["age"], "weight": "w"})
    assert len(set(columns["town"].tolist())) == 10_000
    assert len(streamed.classes_) == 3
    assert 0.29 * n < streamed.result_.missing["sex"] < 0.31 * n
    assert np.array_equal(parameters(kept), parameters(streamed))
    assert (kept.predict(part.X) == streamed.predict(part.X)).all()


@pytest.mark.parametrize(
    "params",
    [
        {"training__forecast": True},
        {"margin": "auto"},
        {"confidence": 0.9, "constraints": "demographic_parity <= 0.3"},
        {"base": LogisticRegression()},
        {"base": HistGradientBoostingClassifier(max_iter=5), "base__cv": 3},
        {"training__epochs": 2, "training__batch_size": 300},
        {"encoder": None},
        {"groups__missing": "group"},
    ],
    ids=str,
)
def test_every_feature_works_on_rows_in_files(tmp_path, small_blocks, params):
    columns = planted(900)
    source = write(columns, tmp_path, "file")
    ignore = ["w", "town", "job", "income"] if "encoder" in params else ["w", "age", "town"]
    same_models(
        *both(columns, source, source, {"positive": "yes", "ignore": ignore}, **{"training__forecast": False, **params})
    )


@pytest.mark.parametrize("memory", [0, None])
def test_columns_of_scores_and_weights_and_further_files(tmp_path, memory):
    columns = planted(600)
    score = columns["x0"] - 0.5
    del columns["town"], columns["w"]
    (tmp_path / "further").mkdir()
    further = write({**planted(700), "score": planted(700)["x0"] - 0.5}, tmp_path / "further", "csv")
    source = write({**columns, "score": score, "own": columns["age"] / 50}, tmp_path, "file")
    model = ConstrainedClassifier("demographic_parity <= 0.1", training=replace(BRIEF, forecast=False))
    rows = Source(source, positive="yes", memory=memory)
    found = model.fit(
        rows,
        "label",
        sensitive_features="sex",
        base_score="score",
        constraint_weight="own",
        eval_set=(Source(further, positive="yes", memory=memory), "label", "sex", "score"),
    )
    kept = ConstrainedClassifier("demographic_parity <= 0.1", training=replace(BRIEF, forecast=False), pos_label="yes")
    data = read_table(source, target="label", sensitive="sex", positive="yes", ignore=["score", "own"])
    there = read_table(further, target="label", sensitive="sex", positive="yes", ignore=["score", "w", "town"])
    words = np.array(data.target_names)
    kept.fit(
        data.frame(),
        words[data.y],
        sensitive_features=data.sensitive,
        base_score=score,
        constraint_weight=columns["age"] / 50,
        eval_set=(there.frame(), words[there.y], there.sensitive, planted(700)["x0"] - 0.5),
    )
    assert np.array_equal(parameters(found), parameters(kept))
    assert found.result_.eval_accuracy == kept.result_.eval_accuracy
    assert found.result_.eval_rows == 700


def test_groups_that_are_probabilities(tmp_path):
    columns = planted(600)
    a = np.random.default_rng(2).random(600)
    source = write({**columns, "a": a, "b": 1 - a}, tmp_path, "csv")
    options = {"positive": "yes", "ignore": ["w", "town", "sex"]}
    model = ConstrainedClassifier("demographic_parity <= 0.05", training=replace(BRIEF, forecast=False))
    found = model.fit(Source(source, memory=0, **options), "label", sensitive_features="race=a,b")
    data = read_table(source, target="label", sensitive="race=a,b", **options)
    kept = ConstrainedClassifier("demographic_parity <= 0.05", training=replace(BRIEF, forecast=False), pos_label="yes")
    kept.fit(data.frame(), np.array(data.target_names)[data.y], sensitive_features=data.sensitive)
    assert np.array_equal(parameters(found), parameters(kept))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"target": "lable"}, r"no column 'lable' \(target=\).*'label'"),
        ({"sensitive": "sexx"}, r"no column 'sexx' \(sensitive=\)"),
        ({"weight": "x0"}, r"'x0' \(weight=\).*-"),
        ({"weight": "job"}, r"Column 'job' \(weight=\) must hold numbers"),
        ({"ignore": ["label"]}, r"'label' is named twice"),
        ({"sensitive": ()}, r"no column of groups.*sensitive="),
    ],
)
def test_wrong_columns_are_refused(tmp_path, options, match):
    source = write(planted(300), tmp_path, "file")
    with pytest.raises(ValueError, match=match):
        fitted(source, model=ConstrainedClassifier("disparate_impact >= 0.8"), **{"positive": "yes", **options})


@pytest.mark.parametrize("name", ["y", "sensitive_features", "sample_weight"])
def test_arrays_in_place_of_names_are_refused(tmp_path, name):
    source = write(planted(300), tmp_path, "file")
    given = {"y": "label", "sensitive_features": "sex", "sample_weight": None, name: np.zeros(3)}
    with pytest.raises(TypeError, match="must be"):
        ConstrainedClassifier("disparate_impact >= 0.8").fit(source, **given)


def test_the_positive_label_of_the_estimator_is_used(tmp_path):
    columns = planted(600)
    columns["label"] = (columns["label"] == "yes").astype(int)
    source = write(columns, tmp_path, "file")
    options = {"ignore": "town", "scratch": tmp_path}
    model = ConstrainedClassifier("demographic_parity <= 0.1", pos_label=0, training=BRIEF)
    found = fitted(source, model=model, **options)
    assert found.pos_label_ == 0
    selected = found.result_.groups[0].rates["0"]["selection_rate"]
    known = columns["sex"] == found.result_.groups[0].group
    data = read_table(source, target="label", sensitive=("sex",), ignore="town")
    assert selected == pytest.approx(np.mean(found.predict(data.frame())[known] == 0))
    assert fitted(source, model=model, positive=1, **options).pos_label_ == 0
    with refused("pos_label='2'", "0", "1"):
        fitted(source, model=ConstrainedClassifier(pos_label=2, training=BRIEF), **options)


KINDS = {
    "whole numbers, then fractions": ("age", pa.int32(), pa.float64()),
    "no value, then numbers": ("age", pa.null(), pa.int64()),
    "numbers, then no value": ("age", pa.int64(), pa.null()),
    "words, then a dictionary": ("job", pa.string(), pa.dictionary(pa.int32(), pa.string())),
    "two kinds of text": ("label", pa.string(), pa.large_string()),
    "groups without a value first": ("sex", pa.null(), pa.string()),
}


def folder_of(tmp_path, name, kinds):
    """Write two files in which a column has different types, and one file with the same rows."""
    table = pa.table({key: pa.array(values, from_pandas=True) for key, values in planted(800).items()})
    parts = []
    for place, kind in enumerate(kinds):
        part = table.slice(place * 400, 400)
        column = pa.nulls(400, kind) if pa.types.is_null(kind) else part.column(name).cast(kind)
        parts.append(part.set_column(part.column_names.index(name), name, column))
    folder, file = tmp_path / "folder", tmp_path / "whole.parquet"
    folder.mkdir()
    for place, part in enumerate(parts):
        pq.write_table(part, folder / f"{place}.parquet")
    common = max((part.schema.field(name).type for part in parts), key=str)
    common = next((kind for kind in (pa.float64(), pa.int64(), pa.string()) if kind in kinds), common)
    whole = [part.set_column(part.column_names.index(name), name, part.column(name).cast(common)) for part in parts]
    pq.write_table(pa.concat_tables(whole), file)
    return folder, file


@pytest.mark.parametrize("case", KINDS)
def test_files_of_a_folder_may_have_types_that_one_type_holds(tmp_path, case):
    name, *kinds = KINDS[case]
    sources = folder_of(tmp_path, name, kinds)
    one, other = (fitted(source, positive="yes", ignore="town", scratch=tmp_path) for source in sources)
    assert one.encoder_.columns_ == other.encoder_.columns_
    assert np.array_equal(parameters(one), parameters(other))


@pytest.mark.parametrize("name", ["age", "label", "sex"])
def test_types_of_a_folder_that_no_type_holds_are_refused_unless_ignored(tmp_path, name):
    columns = planted(800)
    table = pa.table({key: pa.array(values, from_pandas=True) for key, values in columns.items()})
    folder = tmp_path / "folder"
    folder.mkdir()
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, name, pa.array(np.arange(800) % 2)), folder / "0.parquet")
    pq.write_table(table.set_column(place, name, pa.array(["0", "1"] * 400)), folder / "1.parquet")
    with refused(repr(name), "int64 in 0.parquet", "string in 1.parquet", "same types"):
        fitted(folder, positive="yes", scratch=tmp_path)
    if name == "age":
        fitted(folder, positive="yes", scratch=tmp_path, ignore="age")


def test_rows_without_a_label_are_dropped_if_asked(tmp_path):
    columns = planted(400)
    columns["label"][:7] = None
    source = write(columns, tmp_path, "file")
    given = {"positive": "yes", "ignore": ["town", "job"]}
    with pytest.raises(
        ValueError, match=r"'label' \(target=\) has no value in 7 of 400 rows, first in row 1.*drop_unlabelled=True"
    ):
        fitted(source, **given)
    assert fitted(source, drop_unlabelled=True, **given).result_.rows == 393


@pytest.mark.parametrize("kind", ["csv", "stream"])
def test_the_scratch_folder_is_removed_also_after_a_failure(tmp_path, kind):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    fitted(write(planted(300), tmp_path, kind), positive="yes", scratch=scratch)
    assert not list(scratch.iterdir())

    def fail(_row):
        raise RuntimeError("stop")

    model = ConstrainedClassifier(training=BRIEF, callbacks=[fail])
    with pytest.raises(RuntimeError, match="stop"):
        fitted(write(planted(300), tmp_path, kind), model=model, positive="yes", scratch=scratch)
    assert not list(scratch.iterdir())


def test_a_frontier_of_a_source_is_that_of_the_rows_in_memory(tmp_path):
    source = write(planted(500), tmp_path, "file")
    options = {"positive": "yes", "ignore": ["w", "age", "town"]}
    part = Part.of(read_table(source, target="label", sensitive="sex", **options))
    params = {"constraints": "demographic_parity <= 0.1", "training": replace(BRIEF, forecast=False)}
    model = ConstrainedClassifier(**params, pos_label="yes")
    kept = model.frontier(part.X, part.y, [0.2, 0.05], sensitive_features=part.sensitive)
    found = ConstrainedClassifier(**params).frontier(
        Source(source, **options), "label", [0.2, 0.05], sensitive_features="sex"
    )
    for one, other in zip(kept, found, strict=True):
        assert [each.reached for each in one.result.limits] == pytest.approx(
            [each.reached for each in other.result.limits]
        )
        assert np.array_equal(parameters(one.classifier), parameters(other.classifier))
        assert (one.classifier.predict(part.X) == other.classifier.predict(part.X)).all()


def test_a_model_of_files_finds_its_columns_in_a_table(tmp_path):
    """Its columns were named, so a table may have others, in any order; a table X of `fit` has to be the same."""
    source = write(planted(), tmp_path, "file")
    clf = fitted(
        source, model=ConstrainedClassifier("demographic_parity <= 0.1", training=BRIEF), positive="yes", ignore=["w"]
    )
    whole = pq.read_table(source)
    own = whole.select(clf.feature_names_in_.tolist())
    assert set(whole.column_names) > set(own.column_names)
    decided = clf.predict(own)
    assert (clf.predict(whole.select(whole.column_names[::-1])) == decided).all()
    clf.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(whole) == decided).all()
    with refused("X lacks the column 'age'", "the model needs", "'label'"):
        clf.predict(whole.drop_columns("age"))
    with refused("the columns", "'x0', 'x1'", "X has 'label'"):
        clf.predict(whole.select(["label"]))
    labels = whole["label"].to_pylist()
    clf.set_params(pos_label="yes").fit(own, labels, sensitive_features=whole["sex"].to_pylist())
    with refused("Feature names unseen at fit time"):
        clf.predict(whole)


def test_decisions_about_the_rows_of_every_source_are_those_of_the_table(tmp_path):
    """Also those of a typed column of dates, which is days, and of a model trained on text that is no plain number."""

    def place(name):
        (tmp_path / name).mkdir()
        return tmp_path / name

    columns = planted()
    days = np.datetime64("2024-01-01") + np.arange(len(columns["x0"])) % 700
    columns["label"] = np.where(np.arange(len(days)) % 700 < 350, columns["label"], "no").astype(object)
    rows = {name: columns[name] for name in ("x0", "income", "job", "town", "label")} | {"day": days}
    text = {**rows, "income": [None if each != each else f"${each:,.2f}" for each in rows["income"]]}
    model = ConstrainedClassifier(training=replace(BRIEF, forecast=False))
    of_table = model.fit(write(rows, place("rows"), "file"), "label")
    day = list(of_table.encoded_names_).index("day")
    assert abs(of_table.coef_[0, day]) > 0.1
    expected = of_table.decision_function(read_table(write(rows, place("t"), "file"), target="label").frame())
    for kind in (*IN_MEMORY, *FILES):
        found = of_table.decision_function(Source(write(rows, place(kind), kind), scratch=tmp_path))
        assert np.abs(found - expected).max() <= (1e-12 if kind == "workbook" else 0.0), kind  # which has 15 digits
    table = pq.read_table(write(rows, place("again"), "file"))
    assert np.array_equal(of_table.decision_function(iter(table.to_batches(max_chunksize=99))), expected)
    with refused("iterator gives int", "Arrow batches"):
        of_table.predict(iter([1]))
    with refused("no row"):
        of_table.predict(iter([]))
    of_text = ConstrainedClassifier(training=replace(BRIEF, forecast=False)).fit(
        Source(write(text, place("text"), "csv"), dates="day", scratch=tmp_path), "label"
    )
    assert parameters(of_text) == pytest.approx(parameters(of_table), abs=1e-3)  # income in whole cents
    assert np.abs(of_text.decision_function(write(text, place("text2"), "csv")) - expected).max() < 1e-3
