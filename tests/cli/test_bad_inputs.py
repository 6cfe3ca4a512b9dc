"""Each bad input gets one sentence and exit code 2, no traceback, and nothing half-written.

The commands run with progress on, as a user has it: the sentence is the last line of standard error, and the lines
before it are those of the stages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, loan_rows, ordinary_user, read_only_folder, write_csv
from tests.refusals import says

COMMANDS = {
    "train": ["train", "FILE", *LOANS, "--require", LIMIT, "--out", "run"],
    "frontier": ["frontier", "FILE", *LOANS, "--bounds", "0.8", "--out", "run"],
    "describe": ["data", "describe", "FILE", *LOANS],
    "audit": ["audit", "FILE", "--target", "approved", "--prediction", "decision", "--sensitive", "sex"],
}
COMMANDS["certify"] = ["certify", *COMMANDS["audit"][1:], "--require", LIMIT]
WRITING = ("train", "frontier")


@pytest.fixture(params=list(COMMANDS))
def refused(request, fairbound, tmp_path) -> Callable[..., str]:
    """Return a function that runs a command on a file and gives the sentence with which it was refused."""

    def call(file: str, **changes: str) -> str:
        before = snapshot(tmp_path)
        found = fairbound(*(file if word == "FILE" else changes.get(word, word) for word in COMMANDS[request.param]))
        assert (found.code, found.stdout) == (2, "")
        *stages, last = found.stderr.splitlines()
        assert all(stage.endswith(" ...") for stage in stages)
        assert last.startswith("fairbound: ")
        assert last.endswith((".", "?"))
        assert "Traceback" not in found.stderr
        assert snapshot(tmp_path) == before
        return last

    call.command = request.param
    return call


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in sorted(folder.rglob("*"))}


def with_decisions(rows: list[tuple]) -> tuple[tuple, list[tuple]]:
    """Decisions that are the labels, so that the same file serves every command."""
    return (*LOAN_COLUMNS, "decision"), [(*row, row[-1]) for row in rows]


def test_a_missing_file(refused, tmp_path):
    write_csv(tmp_path / "loans.csv", *with_decisions(loan_rows(50)))
    assert says(refused("loan.csv"), "no file loan.csv", "'loans.csv'?")


def test_a_folder_in_place_of_a_file(refused, tmp_path):
    (tmp_path / "loans.csv").mkdir()
    assert "loans.csv is a folder" in refused("loans.csv")


def test_a_wrong_column_with_the_nearest_name(refused, tmp_path):
    write_csv(tmp_path / "loans.csv", *with_decisions(loan_rows(50)))
    assert says(refused("loans.csv", approved="aproved"), "loans.csv", "'aproved' (--target)", "'approved'?")
    assert says(refused("loans.csv", sex="Sexe"), "loans.csv", "'Sexe' (--sensitive)", "'sex'?")


def test_a_label_of_two_words_without_the_favourable_one(refused, tmp_path):
    rows = [(*row[:-1], ("bad", "good")[row[-1]]) for row in loan_rows(50)]
    write_csv(tmp_path / "loans.csv", *with_decisions(rows))
    sentence = refused("loans.csv")
    counts = [sum(row[-1] == word for row in rows) for word in ("bad", "good")]
    values = [f"'bad' ({counts[0]} rows)", f"'good' ({counts[1]} rows)"]
    assert says(sentence, "'approved' (--target)", *values, "--positive")


def test_a_label_that_is_not_binary_without_the_favourable_one(refused, tmp_path):
    rows = [(*row[:-1], ("bad", "fair", "good")[number % 3]) for number, row in enumerate(loan_rows(60))]
    write_csv(tmp_path / "loans.csv", *with_decisions(rows))
    sentence = refused("loans.csv")
    assert says(sentence, "'approved' (--target)", "3", "'bad', 'fair', 'good'", "--positive", "--multiclass")


def test_a_label_with_many_values(refused, tmp_path):
    rows = [(*row[:-1], number) for number, row in enumerate(loan_rows(60))]
    write_csv(tmp_path / "loans.csv", *with_decisions(rows))
    assert "60 different values" in refused("loans.csv")


def test_an_unparsable_requirement(fairbound, tmp_path):
    write_csv(tmp_path / "loans.csv", *with_decisions(loan_rows(50)))
    for name in ("train", "certify"):
        given = ["loans.csv" if word == "FILE" else "be fair" if word == LIMIT else word for word in COMMANDS[name]]
        found = fairbound(*given)
        assert found.code == 2
        # Before anything is read: there is no stage yet.
        assert says(found.sentence, "limit 'be fair'", '"disparate_impact >= 0.8"')
        assert len(found.stderr.splitlines()) == 1
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv"}


def test_a_truncated_parquet_file(refused, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names, rows = with_decisions(loan_rows(200))
    whole = tmp_path / "loans.parquet"
    parquet.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), whole)
    whole.write_bytes(whole.read_bytes()[:-100])
    assert says(refused("loans.parquet"), "loans.parquet", "not a Parquet file")


def test_a_file_of_one_row(refused, tmp_path):
    write_csv(tmp_path / "loans.csv", *with_decisions([(0, 2100, "cook", "female", 1)]))
    assert "Column 'approved' (--target) has only the value" in refused("loans.csv")


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_file_of_a_few_rows(fairbound, tmp_path, rows):
    labelled = [(*row[:3], "fm"[number % 2], number % 2) for number, row in enumerate(loan_rows(rows))]
    write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, labelled)
    found = fairbound("train", "loans.csv", *LOANS, "--require", LIMIT, "--out", "run")
    assert found.code == 2
    assert "Traceback" not in found.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv"}


def test_a_file_without_rows_and_an_empty_file(refused, tmp_path):
    write_csv(tmp_path / "loans.csv", *with_decisions([]))
    assert says(refused("loans.csv"), "loans.csv", "no row")
    (tmp_path / "empty.csv").touch()
    assert "empty.csv is empty" in refused("empty.csv")


def test_a_group_with_one_row(fairbound, tmp_path):
    rows = [(*row[:3], "other" if number == 0 else row[3], row[4]) for number, row in enumerate(loan_rows(400))]
    write_csv(tmp_path / "loans.csv", *with_decisions(rows))
    for name in WRITING:
        found = fairbound(*("loans.csv" if word == "FILE" else word for word in COMMANDS[name]))
        assert found.code == 2
        last = found.stderr.splitlines()[-1]
        assert "'sex' has groups with fewer than --min-group-size 10 rows: 'other' (1)." in last
        assert "--small-groups" in last
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv"}
    # To look at such a group is no mistake: its interval says how little is known.
    audited = fairbound(*("loans.csv" if word == "FILE" else word for word in COMMANDS["audit"]))
    assert audited.code == 0
    assert "other" in audited.stdout


def test_an_existing_output_folder(fairbound, loans, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine", encoding="utf-8")
    for name in WRITING:
        found = fairbound(*("loans.csv" if word == "FILE" else word for word in COMMANDS[name]))
        assert found.code == 2
        assert says(found.sentence, "run exists already (--out)", "remove it")
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_an_output_below_a_file(fairbound, loans):
    found = fairbound("train", loans, *LOANS, "--out", "loans.csv/run")
    assert found.code == 2
    assert says(found.sentence, "is a file", "loans.csv/run (--out)")


def test_a_read_only_folder(fairbound):
    with read_only_folder() as locked:
        path = write_csv(locked.parent / "loans.csv", LOAN_COLUMNS, loan_rows(100))
        out = locked.parent / "run"
        fairbound("train", path, "--target", "nothing", "--sensitive", "sex", "--out", out)  # imports it all
        with ordinary_user():
            found = fairbound("train", path, *LOANS, "--require", LIMIT, "--out", locked / "run")
        assert found.code == 2
        assert found.sentence == f"Cannot write {locked / 'run'} (--out): permission denied in {locked}."
        assert list(locked.iterdir()) == []


def test_a_failure_while_writing_leaves_nothing(fairbound, loans, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "report.html")

    monkeypatch.setattr("fairbound.report.write_report", full)
    found = fairbound("train", loans, *LOANS, "--out", "run")
    assert found.code == 2
    assert says(found.stderr.splitlines()[-1], "fairbound: Cannot write report.html", "no space left")
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv"}


def test_strange_names_are_printed_as_they_are(fairbound, tmp_path):
    names = ("id", "income", "job", "[red]<script>", "approved")
    write_csv(tmp_path / "loans.csv", names, [(*row[:3], f"[bold]{row[3]}", row[4]) for row in loan_rows(300)])
    given = ["--target", "approved", "--sensitive", "[red]<script>", "--ignore", "id"]
    found = fairbound("train", "loans.csv", *given, "--out", "run")
    assert found.code == 0
    assert "Groups: [red]<script>." in found.stdout
    assert "\n  [bold]female " in found.stdout
    assert "<script>." not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [["train"], ["frontier", "--measure", "disparate_impact"]])
def test_a_limit_on_a_column_that_is_not_sensitive(fairbound, loans, command):
    found = fairbound(
        command[0], loans, *LOANS, *command[1:], "--require", "disparate_impact(job) >= 0.8", "--out", "run"
    )  # fmt: skip
    assert found.code == 2
    assert says(found.stderr, "'disparate_impact(job) >= 0.8'", "'job'", "not among")
    assert "Training" not in found.stderr


def test_a_group_named_where_a_column_belongs(fairbound, tmp_path):
    write_csv(tmp_path / "loans.csv", *with_decisions(loan_rows(400)))
    group = loan_rows(400)[0][3]
    given = ["--target", "approved", "--sensitive", "sex", "--require", f"selection_rate({group}) >= 0.3", "--out", "m"]
    found = fairbound("train", "loans.csv", *given)
    assert found.code == 2
    assert f"[{group}]" in found.stderr


def test_an_error_of_the_base_names_the_option_of_the_model(fairbound, tmp_path):
    write_csv(
        tmp_path / "same.csv", ("id", "income", "sex", "approved"), [(i, 1, "mf"[i % 2], i % 3 % 2) for i in range(120)]
    )
    found = fairbound("train", "same.csv", *LOANS, "--require", LIMIT, "--model", "boosted", "--out", "run", "--quiet")
    assert found.code == 2
    for part in ("HistGradientBoostingClassifier (--model)", "the same score"):
        assert part in found.stderr
    assert "base=" not in found.stderr


@pytest.mark.parametrize(
    ("out", "said"), [("", "--out is empty; give a name"), ("a\0b", "has a zero character, which no name can have")]
)
def test_an_output_without_a_name(out, said, fairbound, loans):
    found = fairbound("train", loans, *LOANS, "--out", out)
    assert (found.code, said in found.sentence) == (2, True), found.sentence


def test_a_device_is_named_as_one(fairbound):
    sentence = fairbound("data", "describe", "/dev/null", *LOANS).sentence
    assert says(sentence, "/dev/null is not a regular file", "give the path of a file")
    assert "Did you mean" not in sentence
