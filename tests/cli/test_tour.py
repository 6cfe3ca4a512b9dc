"""A newcomer's tour: every command, on the shipped data, in a folder of its own, each on what the last one left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.helpers import write_csv

from fairbound import load_dataset


def test_the_tour(fairbound, tmp_path):
    # What is there, and what the labels themselves do.
    assert "law" in fairbound("data", "list").stdout
    assert "DIRL 0.7848" in fairbound("data", "describe", "law", "--sensitive", "race").stdout
    assert fairbound("data", "fetch", "law").code == 0

    # A file of one's own.
    law = load_dataset("law")
    frame = law.frame(sensitive=True, target=True).head(6000)
    path = write_csv(tmp_path / "students.csv", list(frame.columns), frame.itertuples(index=False))
    given = ["--target", "pass_bar", "--positive", "passed the bar", "--sensitive", "race", "--ignore", "sex"]

    # Look first, then limit.
    look = fairbound("train", path, *given, "--out", "look")
    assert look.code == 0
    suggestion = re.search(r"disparate_impact >= 0\.\d", look.stdout)
    assert suggestion is not None
    limit = suggestion[0]
    trained = fairbound("train", path, *given, "--require", limit, "--out", "model")
    metrics = json.loads((tmp_path / "model" / "summary.json").read_text(encoding="utf-8"))
    assert trained.code == (0 if metrics["kept"] else 1)
    assert metrics["limits"][0]["text"] == limit
    assert metrics["training"]["limits"][0]["after"]["kept"]

    # Decide, and have the decisions audited and certified.
    assert fairbound("predict", "model", path, "--out", "decided.csv").code == 0
    decided = ["--target", "pass_bar", "--prediction", "prediction", "--positive", "passed the bar", "--sensitive"]
    audited = fairbound("audit", "decided.csv", *decided, "race", "sex", "--require", "disparate_impact(race) >= 0.5")
    assert audited.code == 0
    assert "Audit of 6,000 rows, positive label 'passed the bar'" in audited.stdout
    certified = fairbound("certify", "decided.csv", *decided, "race", "--require", "disparate_impact >= 0.5")
    assert certified.code == 0
    assert certified.stdout.startswith("Certificate: PASS")

    # What other limits cost, and the page to hand on.
    assert fairbound("frontier", path, *given, "--bounds", 0.8, 0.9, "--out", "frontier").code == 0
    assert fairbound("report", "frontier", "--out", "review.html").code == 0
    assert "<html" in (tmp_path / "review.html").read_text(encoding="utf-8")
    assert {each.name for each in tmp_path.iterdir()} == {
        "decided.csv", "frontier", "look", "model", "review.html", "students.csv"
    }  # fmt: skip


def test_the_demo(fairbound, tmp_path):
    found = fairbound("demo", "--out", "demo")
    assert found.code == 0
    for heading in (
        "1. The labels by race",
        "2. A model without limits",
        "3. The cost of other bounds",
        "4. The limit on new rows",
        "5. The forecast for new rows",
        "6. A model trained to keep disparate_impact >= 0.9 also on unseen rows",
    ):
        assert heading in found.stdout
    assert "disparate_impact >= 0.9" in found.stdout
    assert re.search(r"^(PASS|INCONCLUSIVE): disparate_impact >= 0.9 is ", found.stdout, re.MULTILINE)
    assert re.search(r"^What holds on new rows\? .*PASS at 95% by the calibration rows", found.stdout, re.MULTILINE)
    assert "The limit is kept for new rows, with 95% confidence" in found.stdout
    assert found.stdout.count("Forecast, disparate_impact >= 0.9") == 3  # without a margin, with one, and certified
    assert "disparate_impact >= 0.9 was trained with a margin of" in found.stdout
    assert (tmp_path / "demo" / "report.html").is_file()
    assert str(Path("demo") / "report.html") in found.stdout


@pytest.mark.slow
def test_as_a_process(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [
        sys.executable,
        "-m",
        "fairbound",
        "train",
        "law",
        "--require",
        "disparate_impact >= 0.9",
        "--out",
        "run",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert shown.returncode == 0
    assert "law: 20,798 rows, 16,638 for training, 4,160 held out." in shown.stdout
    assert shown.stderr.splitlines() == [
        "Reading law ...",
        "Choosing the model ...",
        "Training without limits ...",
        "Training under the limits ...",
        "Evaluating and writing the report ...",
    ]
    assert "\x1b" not in shown.stdout
    assert (tmp_path / "run" / "report.html").is_file()
