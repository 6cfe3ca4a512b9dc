"""A decision depends on its row alone: a model keeps what training learnt about each column, and reads files by it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.helpers import write_csv
from tests.estimator.helpers import quick
from tests.refusals import says

from fairbound import ConstrainedClassifier, load, read_table
from fairbound.cli.predict import open_rows
from fairbound.data.table import make_frame
from fairbound.estimator import new_inputs

CODES = [
    "01",
    "02",
    "1",
    "A1",
    "2.50",
    "2.5",
    "n/a",
    "1e3",
    "True",
    "true",
    " x ",
    "",
    "NA",
    "2020-01-31",
    "1,000",
    "-",
]
COLUMNS = {
    "codes": st.sampled_from(CODES),
    "prices": st.sampled_from(["2.50", "2.5", "3", "1e3", "n/a", "", "-", "007"]),
    "thousands": st.sampled_from(["1,000", "18,000", "12", "1,000.5", "none"]),
    "commas": st.sampled_from(["45,5", "3", "-0,25", "1000", "?"]),
    "money": st.sampled_from(["$2,174", "$18", "$-3.5", "unknown"]),
    "flags": st.sampled_from(["True", "False"]),
    "zips": st.sampled_from(["08001", "10115", "00501"]),
}


def train(path: Path, place: Path) -> ConstrainedClassifier:
    """Train as the program does, and go through a file."""
    data = read_table(path, target="y")
    clf = quick().fit(data.frame(backend="pyarrow"), data.y)
    clf.formats_ = dict(data.formats)
    clf.save(place)
    return load(place)


def probabilities(clf: ConstrainedClassifier, path: Path) -> list[list[float]]:
    rows = open_rows(clf, str(path))
    return clf.predict_proba(make_frame(new_inputs(rows, rows.hold().table), "pyarrow")).tolist()


@settings(max_examples=30)
@given(data=st.data())
def test_rows_mean_the_same_in_any_file(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    draw = st.tuples(*(COLUMNS[name] for name in names))
    rows = data.draw(st.lists(draw, min_size=8, max_size=16))
    anchors = [tuple(_first(name) for name in names)] * 2  # no column is empty
    training = [(*row, place % 2) for place, row in enumerate([*anchors, *rows])]
    clf = train(write_csv(folder / "train.csv", (*names, "y"), training), folder / "model")

    def decided(chosen: list[tuple[str, ...]], name: str) -> list[list[float]]:
        found = probabilities(clf, write_csv(folder / f"{name}.csv", names, chosen))
        columns = {name: [row[place] for row in chosen] for place, name in enumerate(names)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        assert probabilities(clf, folder / f"{name}.parquet") == found
        return found

    whole = decided(rows, "whole")
    assert [decided([row], "one")[0] for row in rows] == whole
    order = data.draw(st.permutations(range(len(rows))))
    half = order[: len(rows) // 2]
    assert decided([rows[place] for place in half], "half") == [whole[place] for place in half]


def _first(name: str) -> str:
    return {"codes": "A1", "prices": "3", "thousands": "18,000", "commas": "45,5", "money": "$18"}.get(name, "True")


def decide(fairbound, header, rows, *options) -> list[dict[str, str]]:
    write_csv(Path("new.csv"), header, rows)
    Path("decided.csv").unlink(missing_ok=True)
    found = fairbound("predict", "run", "new.csv", "--out", "decided.csv", "--probability", *options)
    assert found.code == 0, found.stderr
    with Path("decided.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def training_rows(values, n=200):
    rng = np.random.default_rng(0)
    drawn = rng.choice(values, n)
    return [
        (value, f"{x:.3f}", "fm"[place % 2], int(x + (value == values[0]) > 0.5))
        for place, (value, x) in enumerate(zip(drawn.tolist(), rng.normal(size=n), strict=True))
    ]


@pytest.fixture
def run(fairbound):
    """Return a function that trains on a column of given values, beside a number."""

    def make(values, *options):
        write_csv(Path("train.csv"), ("code", "x", "sex", "y"), training_rows(values))
        found = fairbound("train", "train.csv", "--target", "y", "--sensitive", "sex", "--out", "run", *options)
        assert found.code == 0, found.stderr
        return found.stdout

    return make


def test_codes_that_look_like_numbers_in_another_file(fairbound, run):
    run(["01", "02", "A1"])
    mixed = decide(fairbound, ("code", "x"), [("01", "0.1"), ("A1", "0.1"), ("02", "0.1")])
    alone = decide(fairbound, ("code", "x"), [("01", "0.1"), ("02", "0.1")])
    assert [row["probability of 1"] for row in alone] == [mixed[0]["probability of 1"], mixed[2]["probability of 1"]]
    assert alone[0]["probability of 1"] != alone[1]["probability of 1"]


def test_prices_with_a_word_among_them_are_numbers(fairbound, run):
    said = run(["2.50", "3", "10", "n/a"])
    assert "Inputs: 2 numbers, 0 categories." in said
    assert "code    number, 'n/a' is missing  '2.50'   --categorical 'code'" in said
    first, second, third = decide(fairbound, ("code", "x"), [("2.50", "0"), ("2.5", "0"), ("N/A", "0")])
    assert first["probability of 1"] == second["probability of 1"] != third["probability of 1"]


def test_more_than_fifty_codes_that_training_has_not_seen(fairbound, run):
    run([f"c{place}" for place in range(80)])
    write_csv(Path("new.csv"), ("code", "x"), [("c7", "0"), ("zz", "0"), ("zz", "1"), ("yy", "0"), ("c61", "1")])
    found = fairbound("predict", "run", "new.csv", "--out", "decided.csv")
    assert says(found.stdout, "'code'", "'zz', 'yy' (3 rows", "rare value")


def test_the_culprit_is_named_with_its_row(fairbound, run):
    run(["19", "20", "21"])
    write_csv(Path("new.csv"), ("code", "x"), [("19", "0"), ("20", "0"), ("forty", "0")])
    found = fairbound("predict", "run", "new.csv", "--out", "decided.csv", "--quiet")
    assert found.code == 2
    assert "Column 'code' has 'forty' in row 3 of new.csv" in found.sentence
    pq.write_table(pa.table({"code": ["19", "forty"], "x": [0.0, 1.0]}), "new.parquet")
    assert (
        "'forty' in row 2 of new.parquet"
        in fairbound("predict", "run", "new.parquet", "--out", "d.csv", "--quiet").sentence
    )


def test_text_of_training_that_comes_as_numbers_is_refused(fairbound, run):
    run(["01", "02", "A1"])
    pq.write_table(pa.table({"code": [7, 2], "x": [0.0, 1.0]}), "new.parquet")
    found = fairbound("predict", "run", "new.parquet", "--out", "decided.csv", "--quiet")
    assert found.code == 2
    for part in ("'code'", "text in training", "'02'", "the number 2 in row 2 of new.parquet", "as text"):
        assert part in found.sentence


def test_named_codes_are_matched_however_they_are_written(fairbound, run):
    run(["1", "2", "3"], "--categorical", "code")
    found = decide(fairbound, ("code", "x"), [("1", "0"), ("01", "0"), ("1.0", "0"), ("2", "0")])
    assert len({row["probability of 1"] for row in found[:3]}) == 1
    assert found[3]["probability of 1"] != found[0]["probability of 1"]


def test_the_label_keeps_its_zeros(fairbound):
    rows = [(f"{x:.2f}", "fm"[place % 2], "01" if x > 0 else "02") for place, x in enumerate(np.linspace(-2, 2, 80))]
    write_csv(Path("train.csv"), ("x", "sex", "y"), rows)
    given = ["--target", "y", "--positive", "01", "--sensitive", "sex"]
    assert fairbound("train", "train.csv", *given, "--out", "run", "--quiet").code == 0
    found = fairbound("predict", "run", "train.csv", "--out", "decided.csv", "--json")
    assert list(json.loads(found.stdout)["decided"]) == ["01", "02"]
