"""`fairbound train --task regression` and `fairbound predict`: numbers under limits, from a file to a file."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from tests.cli.helpers import write_csv
from tests.refusals import says

COLUMNS = ("grade", "job", "sex", "wage", "name")
GIVEN = ["--target", "wage", "--sensitive", "sex", "--ignore", "name", "--task", "regression", "--out", "model"]
LIMIT = "mean_difference <= 2000"


@pytest.fixture
def wages(tmp_path):
    rng = np.random.default_rng(0)
    sex = np.where(rng.random(3000) < 0.45, "woman", "man")
    grade = rng.normal(5.0, 2.0, 3000) - (sex == "woman")
    job = rng.choice(["cook", "nurse"], 3000)
    wage = 24_000 + 4_000 * grade - 2_500 * (sex == "woman") + 3_000 * (job == "nurse") + rng.normal(0, 5_000, 3000)
    written = [f"{each:,.2f}" for each in wage]  # with a comma at the thousands
    rows = list(zip(grade.round(3), job, sex, written, ["x"] * 3000, strict=True))
    return write_csv(tmp_path / "wages.csv", COLUMNS, rows)


def read(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("model", ["linear", "boosted"])
def test_numbers_under_a_limit(fairbound, wages, tmp_path, model):
    if model == "boosted":
        pytest.importorskip("skops")
    options = ["--require", LIMIT, "--model", model, "--test", "0.3", "--json"]
    trained = fairbound("train", wages, *GIVEN, *options)
    found = json.loads(trained.stdout)
    assert found == {
        **json.loads((tmp_path / "model" / "audit.json").read_text("utf-8")),
        "command": "train",
        "out": "model",
    }
    (held_out,) = found["audit"]["limits"]
    assert found["audit"]["rows"] + found["fit"]["rows"] == 3000
    assert found["audit"]["rows"] == 900
    assert found["fit"]["limits"][0]["reached"] < 2000  # the margin
    assert trained.code == (0 if held_out["value"] <= 2000 else 1)
    assert found["verdict"].startswith(
        "Kept on the training rows and on the held-out rows" if trained.code == 0 else "NOT"
    )
    # New rows need neither wage nor sex, and come in any order of the columns.
    rows = read(wages)
    write_csv(tmp_path / "new.csv", ("job", "grade"), [(row["job"], row["grade"]) for row in rows])
    assert "3,000" in fairbound("predict", "model", "new.csv", "--out", "predicted.csv").stdout
    predicted = np.array([float(row["prediction"]) for row in read(tmp_path / "predicted.csv")])
    wage, women = (
        np.array([float(row["wage"].replace(",", "")) for row in rows]),
        [row["sex"] == "woman" for row in rows],
    )
    assert 1.0 - np.var(wage - predicted) / np.var(wage) == pytest.approx(found["removed"], abs=0.05)
    if model == "boosted":
        return
    # All rows are those trained on and those held out, so the mean of each group is the weighted mean of both.  (Over a
    # base the fit counts predictions by bases that have not seen the row.)
    both = [*found["audit"]["groups"], *found["fit"]["groups"]]
    for name, inside in (("woman", np.array(women)), ("man", ~np.array(women))):
        parts = [
            (each["rows"], each.get("prediction") or each["rates"]["prediction"]["mean_prediction"])
            for each in both
            if each["group"] == name
        ]
        sizes, means = zip(*parts, strict=True)
        assert np.average(means, weights=sizes) == pytest.approx(predicted[inside].mean(), rel=1e-9)


@pytest.mark.filterwarnings("ignore:The model does not keep every limit:UserWarning")
def test_the_verdict_comes_first_and_a_test_file_is_read_alike(fairbound, wages):
    strict = fairbound("train", wages, *GIVEN, "--require", "group_loss <= 1", "--test", wages)
    assert strict.code == 1
    assert says(
        strict.stdout, "NOT KEPT: group_loss <= 1 on the training rows; group_loss <= 1 on the held-out rows", "FAIL"
    )
    shown = fairbound("train", wages, *GIVEN[:-1], "look", "--test", wages)
    assert shown.code == 0
    assert says(
        shown.stdout, "No limit was asked for", "on the held-out rows", "3,000 rows", "mean_difference", "Written"
    )
    assert "training rows." in fairbound("train", wages, *GIVEN[:-1], "all", "--test", "0").stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "job", "--ignore", "wage"], ("'job' (--target)", "a regression predicts numbers")),
        (["--positive", "1", "--loss=hinge"], ("--positive, --loss", "leave this out")),
        (["--confidence", "0.9"], ("--confidence",)),
        (["--require", "select 10%"], ("'select 10%'", "a regression predicts numbers")),
        (["--target", "pay"], ("no column 'pay'", "'wage'")),
    ],
)
def test_what_makes_no_sense_is_one_sentence(fairbound, wages, tmp_path, options, words):
    refused = fairbound("train", wages, *GIVEN, *options, "--quiet")
    assert refused.code == 2
    assert says(refused.sentence, *words)
    assert not (tmp_path / "model").exists()


def test_other_commands_want_decisions(fairbound, wages):
    assert fairbound("train", wages, *GIVEN, "--quiet").code == 0
    assert (
        "--probability" in fairbound("predict", "model", wages, "--out", "p.csv", "--probability", "--quiet").sentence
    )
    given = ["--target", "job", "--positive", "nurse", "--sensitive", "sex", "--out", "search", "--quiet"]
    assert "predicts numbers" in fairbound("alternatives", wages, *given, "--baseline", "model").sentence
    law = fairbound("train", "law", "--task", "regression", "--out", "x")
    assert says(law.sentence, "'law'", "predicts numbers")
