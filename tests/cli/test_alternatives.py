"""`fairbound alternatives`."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from tests.cli.helpers import write_csv
from tests.refusals import says

GIVEN = ["--target", "approved", "--sensitive", "sex", "--models", "linear", "--bounds", "0.9", "--final", "0.3"]


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(600):
        sex = rng.choice(["f", "m"])
        income, age = rng.normal(0.8 * (sex == "m")), rng.normal()
        score = 1 / (1 + np.exp(-income - 0.5 * age))
        rows.append((f"{income:.3f}", f"{age:.3f}", sex, int(rng.random() < score), int(score > 0.5), f"{score:.3f}"))
    header = ("income", "age", "sex", "approved", "decision", "score")
    return write_csv(tmp_path_factory.mktemp("loans") / "loans.csv", header, rows)


def table_of(path, rows):
    with path.open(newline="", encoding="utf-8") as stream:
        header, *lines = csv.reader(stream)
    return header, lines[:rows]


def test_it_writes_a_folder_and_prints_the_sentence(fairbound, loans, tmp_path):
    out = tmp_path / "search"
    found = fairbound("alternatives", loans, *GIVEN, "--ignore", "decision", "score", "--out", str(out))
    assert found.code == 0
    assert says(found.stdout, "baseline: linear, no limit", "Among the 2 models searched", "0.5 points of accuracy")
    assert says(found.stdout, "holds by itself", "not adjusted for the number of models")
    names = {each.name for each in out.iterdir()}
    assert {"search.json", "alternatives.csv", "report.html", "limits.lock"} <= names
    log = json.loads((out / "search.json").read_text(encoding="utf-8"))
    assert log["command"].startswith("fairbound alternatives")
    assert log["data"]["sha256"]
    assert ("model" in names) == (log["chosen"] is not None)


@pytest.mark.parametrize(
    "given",
    [
        ["--baseline-prediction", "decision", "--ignore", "score"],
        ["--baseline-score", "score", "--ignore", "decision"],
        ["--baseline-prediction", "decision", "--baseline-score", "score", "--within", "auc 2"],
    ],
)
def test_a_column_can_be_the_baseline_and_is_no_input(fairbound, loans, tmp_path, given):
    found = fairbound("alternatives", loans, *GIVEN, *given, "--out", str(tmp_path / "x"), "--json")
    assert found.code == 0
    content = json.loads(found.stdout)
    assert content["baseline"]["name"] == {
        "--baseline-prediction": "the column 'decision'",
        "--baseline-score": "the column 'score', from 0.5 on",
    }.get(given[0])
    assert content["columns"] == ["income", "age"]
    assert content["baseline"]["judged"]["changed"] == 0
    assert (content["baseline"]["judged"]["auc"] is not None) == ("--baseline-score" in given)


def test_a_saved_model_can_be_the_baseline(fairbound, loans, tmp_path):
    model, out = tmp_path / "model", tmp_path / "search"
    columns = ["--target", "approved", "--sensitive", "sex", "--ignore", "decision", "score"]
    assert fairbound("train", loans, *columns, "--out", str(model), "--quiet").code == 0
    given = ["--ignore", "decision", "score", "--baseline", str(model), "--out", str(out), "--json"]
    found = fairbound("alternatives", loans, *GIVEN, *given)
    assert found.code == 0
    content = json.loads(found.stdout)
    assert content["baseline"]["name"] == f"the model in {model}"
    assert says(content["note"], "baseline was trained on rows of this table", "looks more accurate")
    assert "trained on rows of this table" in (out / "report.html").read_text("utf-8")
    inner = ["--baseline", str(model / "model"), "--out", str(tmp_path / "inner")]
    found = fairbound("alternatives", loans, *GIVEN, "--ignore", "decision", "score", *inner)
    assert "The baseline was trained on rows of this table" in found.stdout


def test_it_says_what_is_assumed_about_a_baseline_of_unknown_rows(fairbound, loans, tmp_path):
    other = write_csv(tmp_path / "other.csv", *table_of(loans, 500))
    columns = ["--target", "approved", "--sensitive", "sex", "--ignore", "decision", "score"]
    assert fairbound("train", other, *columns, "--out", "model", "--quiet").code == 0
    for given in (["--baseline", "model", "--ignore", "decision", "score"], ["--baseline-prediction", "decision"]):
        found = fairbound("alternatives", loans, *GIVEN, *given, "--out", given[0].strip("-"))
        assert "assumes that the baseline was not trained on these rows" in found.stdout
    found = fairbound("alternatives", loans, *GIVEN, "--ignore", "decision", "score", "--out", "own")
    assert "assumes that the baseline" not in found.stdout  # the baseline is one of the trained models


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (["--within", "close"], ["--within", "close"]),
        (["--baseline", "model", "--baseline-score", "score"], ["--baseline"]),
        (["--baseline-score", "scor"], ["'scor'", "'score'"]),
        (["--baseline-prediction", "income"], ["baseline"]),
        (["--measure", "disparate_impakt"], ["disparate_impakt", "disparate_impact"]),
        (["--choosing", "0.9"], ["--choosing", "--final"]),
        (["--choosing", "1.9"], ["--choosing", "1.9"]),
        (["--models", "lineer"], ["--models", "lineer", "boosted"]),
        (["--baseline-prediction", "decision", "--within", "auc 1"], ["--within", "auc", "--baseline-score"]),
    ],
)
def test_mistakes_are_one_sentence(fairbound, loans, tmp_path, given, parts):
    found = fairbound("alternatives", loans, *GIVEN, *given, "--out", str(tmp_path / "x"))
    assert found.code == 2
    assert says(found.stderr.splitlines()[-1], *parts)
    assert not (tmp_path / "x").exists()


def test_a_known_data_set(fairbound, tmp_path):
    given = ["--sensitive", "race", "--models", "linear", "--bounds", "0.8", "--out", str(tmp_path / "search")]
    assert fairbound("alternatives", "law", *given).code == 0
