"""`fairbound monitor`: batches in, a state file, a table, a page, JSON and an exit code; also when it is killed."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys

import pytest
from tests.cli.helpers import write_csv
from tests.cli.processes import start

from fairbound import Monitor

LIMIT = "disparate_impact >= 0.8"
GIVEN = ["--prediction", "decision", "--sensitive", "sex", "--require", LIMIT, "--state", "state.json"]
COLUMNS = ("id", "sex", "decision", "repaid")


def write_batch(path, rates, rows=600, seed=0):
    rng = random.Random(seed)
    table = []
    for row in range(rows):
        sex = rng.choice(sorted(rates))
        table.append((f"{path.stem}-{row}", sex, int(rng.random() < rates[sex]), rng.randint(0, 1)))
    return write_csv(path, COLUMNS, table)


@pytest.fixture
def kept(tmp_path):
    return [write_batch(tmp_path / f"day{day}.csv", {"f": 0.5, "m": 0.55}, seed=day).name for day in (1, 2, 3)]


@pytest.fixture
def broken(tmp_path):
    return [write_batch(tmp_path / f"late{day}.csv", {"f": 0.2, "m": 0.6}, seed=day).name for day in (1, 2)]


def test_no_alarm_then_an_alarm_that_stays(fairbound, kept, broken, tmp_path):
    found = fairbound("monitor", *kept, *GIVEN)
    assert (found.code, found.stderr) == (0, "")
    assert "1,800 rows, 3 batches" in found.stdout
    assert "no alarm" in found.stdout
    alarm = fairbound("monitor", *broken, *GIVEN, "--json")
    assert alarm.code == 1
    content = json.loads(alarm.stdout)
    assert (content["command"], content["alarm"], content["rows"], content["batches"]) == ("monitor", True, 3000, 5)
    assert content["limits"][0]["alarm"]["name"] == "late1.csv"
    again = fairbound("monitor", kept[0], *GIVEN)
    assert again.code == 1
    assert "ALARM at row 2,400" in again.stdout


def test_the_same_command_each_day_counts_each_batch_once(fairbound, kept, tmp_path):
    fairbound("monitor", kept[0], *GIVEN)
    found = fairbound("monitor", *kept, *GIVEN)
    assert "Counted already, and skipped: day1.csv." in found.stdout
    assert Monitor.load(tmp_path / "state.json").rows == 1800
    before = (tmp_path / "state.json").read_bytes()
    assert json.loads(fairbound("monitor", *kept, *GIVEN, "--json").stdout)["skipped"] == kept
    assert (tmp_path / "state.json").read_bytes() == before


def test_a_copy_or_a_grown_batch_is_refused(fairbound, kept, tmp_path):
    fairbound("monitor", *kept, *GIVEN)
    before = (tmp_path / "state.json").read_bytes()
    shutil.copy(tmp_path / kept[0], tmp_path / "copy.csv")
    assert "copy.csv has the same content as day1.csv" in fairbound("monitor", "copy.csv", *GIVEN).sentence
    with (tmp_path / kept[1]).open("a") as file:
        file.write("new,f,1,1\n")
    found = fairbound("monitor", kept[1], *GIVEN)
    assert found.code == 2
    assert "day2.csv was counted already, with other content" in found.sentence
    assert (tmp_path / "state.json").read_bytes() == before


def test_a_page_with_the_evidence_over_time_is_replaced_by_the_next(fairbound, kept, broken, tmp_path):
    page = tmp_path / "monitor.html"
    fairbound("monitor", *kept, *GIVEN, "--out", page)
    first = page.read_text(encoding="utf-8")
    assert "No alarm." in first
    assert fairbound("monitor", *kept, *broken, *GIVEN, "--limit", LIMIT).code == 2  # the limit twice
    found = fairbound("monitor", *kept, *broken, *GIVEN, "--out", page)
    assert found.code == 1
    second = page.read_text(encoding="utf-8")
    assert "Alarm at row 2,400" in second
    points = re.search(r'<polyline class="line" points="([^"]+)"', second)
    assert points is not None
    assert len(points[1].split()) == 6  # the start and five batches
    assert "http" not in second.replace("http-equiv", "")
    (tmp_path / "mine.html").write_text("my own page")
    assert "is not a page of fairbound" in fairbound("monitor", kept[0], *GIVEN, "--out", "mine.html").sentence
    assert ".html" in fairbound("monitor", kept[0], *GIVEN, "--out", "page.txt").sentence


def test_names_of_groups_are_escaped_on_the_page(fairbound, tmp_path):
    write_batch(tmp_path / "day.csv", {"<script>alert(1)</script>": 0.5, "m": 0.5})
    fairbound("monitor", "day.csv", *GIVEN, "--out", "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_a_limit_on_labels_needs_a_target(fairbound, kept):
    given = [*GIVEN[:4], "--require", "equal_opportunity <= 0.1", "--state", "labels.json"]
    assert "--target" in fairbound("monitor", kept[0], *given).sentence
    assert fairbound("monitor", *kept, *given, "--target", "repaid").code == 0


def test_parquet_and_csv_are_counted_alike(fairbound, kept, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    convert = csv.ConvertOptions(column_types={"id": pyarrow.string()})
    parquet.write_table(csv.read_csv(tmp_path / kept[0], convert_options=convert), tmp_path / "day1.parquet")
    fairbound("monitor", kept[0], *GIVEN)
    found = fairbound("monitor", "day1.parquet", *GIVEN[:-1], "other.json", "--json")
    expected = Monitor.load(tmp_path / "state.json").to_dict()
    assert json.loads(found.stdout)["limits"] == json.loads(json.dumps(expected["limits"]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["--require", "disparate_impact >= 0.9"], "--require"),
        (["--require", LIMIT, "--confidence", "0.9"], "--confidence 0.95, not 0.9"),
        (["--require", LIMIT, "--groups", "both"], "--groups each, not both"),
        (["--require", LIMIT, "--sensitive", "id"], "--sensitive sex, not sex id"),
        (["--require", LIMIT, "--positive-decision", "0"], "--positive-decision left out, not 0"),
        (["--require", LIMIT, "--weight", "id"], "--weight"),
        (["--require", LIMIT, "--positive", "a", "b"], "--positive"),
        (["--require", "covariance <= 0.1"], "cannot be monitored"),
        (["--require", LIMIT, "--target", "decisoin"], "'decision'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(fairbound, kept, tmp_path, changed, words):
    fairbound("monitor", kept[0], *GIVEN)
    before = (tmp_path / "state.json").read_bytes()
    found = fairbound("monitor", *kept, *GIVEN[:4], *changed, "--state", "state.json")
    assert found.code == 2
    assert words in found.sentence
    assert (tmp_path / "state.json").read_bytes() == before


def test_a_counted_batch_shows_no_table_of_other_columns(fairbound, kept):
    fairbound("monitor", kept[0], *GIVEN)
    found = fairbound("monitor", kept[0], *("repaid" if each == "sex" else each for each in GIVEN))
    assert found.code == 2
    assert "state.json (--state) was begun with --sensitive sex, not repaid" in found.sentence


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "fairbound monitor", "version": 2}', b"\xff"])
def test_a_foreign_state_file_is_refused_and_not_changed(fairbound, kept, tmp_path, content):
    (tmp_path / "state.json").write_bytes(content)
    found = fairbound("monitor", kept[0], *GIVEN)
    assert found.code == 2
    assert "state.json cannot be used as the state of a monitor" in found.sentence
    assert (tmp_path / "state.json").read_bytes() == content


def test_a_batch_that_cannot_be_read_leaves_the_earlier_ones_counted(fairbound, kept, tmp_path):
    write_csv(tmp_path / "bad.csv", COLUMNS, [("x", "f", "maybe", 1), ("y", "m", "1", 0)])
    found = fairbound("monitor", kept[0], "bad.csv", kept[1], *GIVEN)
    assert found.code == 2
    assert "maybe" in found.sentence
    assert "--prediction" in found.sentence
    assert Monitor.load(tmp_path / "state.json").rows == 600


KILLED = """
import os, signal, sys
import fairbound._files, fairbound.evaluation.e_processes
moment, left = sys.argv.pop(1), [2]
def killed(original, after):
    def run(*given, **named):
        if not after:
            left[0] -= 1
            left[0] or os.kill(os.getpid(), signal.SIGKILL)
        found = original(*given, **named)
        if after:
            left[0] -= 1
            left[0] or os.kill(os.getpid(), signal.SIGKILL)
        return found
    return run
owner, name = {
    "while counting": (fairbound.evaluation.e_processes.EProcesses, "play"),
    "before the state is written": (fairbound._files, "publish"),
    "after the state is written": (fairbound._files, "publish"),
}[moment]
left[0] = 250 if name == "play" else 2
setattr(owner, name, killed(getattr(owner, name), moment.startswith("after")))
from fairbound.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("moment", "rows"),
    [("while counting", 600), ("before the state is written", 600), ("after the state is written", 1200)],
)
def test_a_killed_monitor_resumes_without_counting_twice(fairbound, kept, broken, tmp_path, moment, rows):
    batches = [*kept, *broken]
    fairbound("monitor", *batches, *GIVEN)
    undisturbed = (tmp_path / "state.json").read_bytes()
    (tmp_path / "state.json").unlink()
    with start([moment, "monitor", *batches, *GIVEN], tmp_path, program=KILLED) as process:
        _, stderr = process.communicate()
    assert process.returncode == -9, stderr
    assert Monitor.load(tmp_path / "state.json").rows == rows
    assert fairbound("monitor", *batches, *GIVEN).code == 1
    assert (tmp_path / "state.json").read_bytes() == undisturbed
