"""`fairbound predict` and `fairbound report`: what is made from a run."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.helpers import LOAN_COLUMNS, LOANS, loan_rows, write_csv
from tests.refusals import says

from fairbound.cli.predict import _unseen


@pytest.fixture
def run(fairbound, loans, tmp_path_factory) -> Path:
    """Return the folder of a model, which is trained once; the file is loans.csv beside it."""
    trained, folder = tmp_path_factory.getbasetemp() / "trained", loans.parent / "run"
    if not trained.exists():
        limit = "disparate_impact >= 0.3"  # far from binding, so the held-out rows keep it, too
        assert fairbound("train", loans, *LOANS, "--require", limit, "--out", "run", "--quiet").code == 0
        shutil.copytree(folder, trained)
    else:
        shutil.copytree(trained, folder)
    return folder


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_decisions_beside_the_columns_of_the_file(fairbound, run, loans, tmp_path):
    found = fairbound("predict", "run", loans, "--out", "decided.csv", "--probability")
    assert found.code == 0
    assert "Decided 1,500 rows" in found.stdout
    before, after = read(loans), read(tmp_path / "decided.csv")
    assert [{name: row[name] for name in LOAN_COLUMNS} for row in after] == before
    assert {row["prediction"] for row in after} == {"0", "1"}
    for row in after:
        assert (float(row["probability of 1"]) > 0.5) == (row["prediction"] == "1")
    # The decisions are those that the training has counted, and any system's decisions can be audited.
    given = ["--target", "approved", "--prediction", "prediction", "--sensitive", "sex", "--json"]
    audited = json.loads(fairbound("audit", "decided.csv", *given).stdout)
    assert audited["rows"] == 1500


def test_columns_in_any_order_without_label_and_groups(fairbound, run, tmp_path):
    rows = [(row[2], row[1]) for row in loan_rows(20)]
    write_csv(tmp_path / "new.csv", ("job", "income"), rows)
    assert fairbound("predict", "run/model", "new.csv", "--out", "decided.csv", "--column", "outcome").code == 0
    assert list(read(tmp_path / "decided.csv")[0]) == ["job", "income", "outcome"]


def test_parquet_in_and_out(fairbound, run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"income": [2100, None, 3000], "job": ["cook", "nurse", None], "note": ["a", None, "007"]})
    parquet.write_table(table, tmp_path / "new.parquet")
    assert fairbound("predict", "run", "new.parquet", "--out", "decided.parquet").code == 0
    decided = parquet.read_table(tmp_path / "decided.parquet").to_pydict()
    assert decided["income"] == [2100, None, 3000]
    assert len(decided["prediction"]) == 3
    assert fairbound("predict", "run", "new.parquet", "--out", "decided.csv").code == 0
    assert [row["note"] for row in read(tmp_path / "decided.csv")] == ["a", "", "007"]


def test_columns_of_dates_that_nobody_needs_do_no_harm(fairbound, run, tmp_path):
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    days = pa.array([0, 1, 2], pa.date32())
    table = pa.table({"income": [2100, 2200, 3000], "job": ["cook", "nurse", "smith"], "day": days, "y": [0, 1, 1]})
    parquet.write_table(table.append_column("g", pa.array(["a", "b", "a"])), tmp_path / "new.parquet")
    found = fairbound("predict", "run", "new.parquet", "--out", "decided.csv")
    assert found.code == 0
    assert [row["day"] for row in read(tmp_path / "decided.csv")] == ["1970-01-01", "1970-01-02", "1970-01-03"]
    given = ["--target", "y", "--prediction", "y", "--quiet"]
    assert fairbound("audit", "new.parquet", *given, "--sensitive", "g").code == 0
    found = fairbound("audit", "new.parquet", *given, "--sensitive", "day", "--json")
    assert found.code == 0
    assert "1970-01-02" in found.stdout  # as a group, a date is a word


def test_text_is_left_as_it_stands(fairbound, run, tmp_path):
    text = 'income, job ,zip,note\n2100,cook,007,"a, b"\n\n2200, nurse,08001,\n'
    (tmp_path / "new.csv").write_text(text, encoding="utf-8")
    assert fairbound("predict", "run", "new.csv", "--out", "decided.csv").code == 0
    decided = read(tmp_path / "decided.csv")
    assert [row["zip"] for row in decided] == ["007", "08001"]
    assert [row["note"] for row in decided] == ["a, b", ""]


def test_words_that_training_has_not_seen_are_noted(fairbound, run, tmp_path):
    write_csv(tmp_path / "new.csv", ("income", "job"), [(2000, "poet"), (2100, "cook")])
    found = fairbound("predict", "run", "new.csv", "--out", "decided.csv")
    assert "Note: Column 'job' has values that did not occur in training: 'poet' (1 row;" in found.stdout


def test_a_known_data_set_by_name(fairbound, tmp_path):
    assert fairbound("train", "law", "--out", "law-run", "--quiet").code == 0
    found = fairbound("predict", "law-run", "law", "--out", "decided.csv", "--json")
    assert json.loads(found.stdout)["rows"] == 20_798
    assert json.loads(found.stdout)["notes"] == []


def test_bad_input_is_one_sentence_and_writes_nothing(fairbound, run, loans, tmp_path):
    def refused(*arguments) -> str:
        before = {each.name for each in tmp_path.iterdir()}
        found = fairbound("predict", *arguments, "--quiet")
        assert found.code == 2
        assert {each.name for each in tmp_path.iterdir()} == before
        return found.sentence

    assert says(refused("rum", loans, "--out", "x.csv"), "no folder rum", "'run'?")
    Path("other").mkdir()
    assert says(refused("other", loans, "--out", "x.csv"), "other has no model.json", "train")
    assert "There is no file new.csv" in refused("run", "new.csv", "--out", "x.csv")
    assert "loans.csv exists already (--out)" in refused("run", loans, "--out", "loans.csv")
    assert "already has a column 'job'" in refused("run", loans, "--out", "x.csv", "--column", "job")
    write_csv(tmp_path / "short.csv", ("incomes", "job"), [(1, "cook")])
    assert says(refused("run", "short.csv", "--out", "x.csv"), "short.csv has no column 'income'", "'incomes'?")
    write_csv(tmp_path / "words.csv", ("income", "job"), [("much", "cook")])
    assert "'income'" in refused("run", "words.csv", "--out", "x.csv")
    (tmp_path / "run" / "model" / "model.json").write_bytes(b"short")
    assert "damaged" in refused("run", loans, "--out", "x.csv")


def test_the_report_is_made_anew(fairbound, run, tmp_path):
    first = (run / "report.html").read_text(encoding="utf-8")
    (run / "report.html").write_text("gone", encoding="utf-8")
    assert fairbound("report", "run").code == 0
    assert (run / "report.html").read_text(encoding="utf-8") == first
    assert fairbound("report", "run", "--format", "markdown", "--out", "CARD.md", "--quiet").stdout == ""
    assert (tmp_path / "CARD.md").read_text(encoding="utf-8") == (run / "model-card.md").read_text(encoding="utf-8")
    assert fairbound("report", "run", "--format", "new-jersey").stdout == "Written to run/new-jersey.md.\n"
    assert (run / "new-jersey.md").read_text(encoding="utf-8").startswith("# Disparate impact in three steps")
    (run / "new-jersey.md").write_text("filled in", encoding="utf-8")
    assert "new-jersey.md exists already" in fairbound("report", "run", "--format", "new-jersey").sentence
    assert "--alternatives is for documents" in fairbound("report", "run", "--alternatives", "search").sentence
    shown = json.loads(fairbound("report", "run/summary.json", "--out", "page.html", "--json").stdout)
    assert shown["summary"]["schema"] == "fairbound.summary"


def test_bad_runs_are_one_sentence(fairbound, run, tmp_path):
    def refused(*arguments) -> str:
        found = fairbound("report", *arguments)
        assert (found.code, found.stdout) == (2, "")
        return found.sentence

    assert says(refused("rin"), "no folder rin", "'run'?")
    assert "run/model has no summary.json" in refused("run/model")
    assert "run has no search.json" in refused("run", "--format", "colorado", "--alternatives", "run")
    assert "--format 'pdf' must be one of" in refused("run", "--format", "pdf")
    assert "CARD.md exists already" in refused("run", "--out", (tmp_path / "CARD.md").write_text("x") and "CARD.md")
    summary = run / "summary.json"
    summary.write_text(summary.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    assert "is not a summary: Input data was truncated" in refused("run")
    assert (run / "report.html").stat().st_size > 1000
    shutil.copy(run / "limits.lock", summary)
    assert "is not a summary: Object missing required field" in refused("run")


def test_notes_have_the_order_of_the_columns_not_of_the_rows():
    """Streamed rows come in blocks, so the first unseen value may be in any column."""
    columns = [SimpleNamespace(name=name, other=True) for name in ("job", "city")]
    classifier = SimpleNamespace(encoder_=SimpleNamespace(columns_=columns))
    blocks = {"city": Counter(["Rome", "Bern"]), "job": Counter(["poet"])}
    first, second = _unseen(classifier, blocks)
    assert "'job'" in first
    assert "'Bern', 'Rome'" in second
