"""The label on the command line: values are listed, spellings are asked about, leaks and protected inputs are named."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, loan_rows, write_csv
from tests.refusals import says

COMMANDS = {"train": ["train"], "frontier": ["frontier", "--bounds", "0.8"], "describe": ["data", "describe"]}
WORDS = (("no", "No."), ("yes", "Yes"))


def spelt(row: tuple) -> tuple:
    """Return a row whose label is a word, in one of two spellings."""
    return (*row[:-1], WORDS[row[-1]][row[0] % 3 == 0])


@pytest.fixture
def loans(tmp_path):
    """Applicants whose label is yes, Yes, no or No."""
    return write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, map(spelt, loan_rows(600)))


def call(fairbound, command: str, path, *arguments):
    out = [] if command == "describe" else ["--out", "run"]
    name, *rest = COMMANDS[command][: 2 if command == "describe" else 1]
    return fairbound(name, *rest, path, *COMMANDS[command][len(rest) + 1 :], *LOANS, *arguments, *out)


@pytest.mark.parametrize("command", COMMANDS)
def test_spellings_stop_every_command_and_the_sentence_can_be_typed(fairbound, loans, tmp_path, command):
    refused = call(fairbound, command, loans, "--positive", "yes")
    assert refused.code == 2
    sentence = refused.stderr.splitlines()[-1]
    assert re.search(r"'Yes' \(\d+ rows, negative\), 'yes' \(\d+ rows, positive\)", sentence)
    assert not (tmp_path / "run").exists()
    advised = re.search(r"give (--positive '\w+' --positive '\w+')", sentence)
    assert advised
    found = call(fairbound, command, loans, *advised[1].replace("'", "").split())
    assert found.code == 0, found.stderr


def test_every_value_is_listed_with_its_rows_and_side(fairbound, loans):
    found = fairbound("train", loans, *LOANS, "--positive", "yes", "Yes", "--out", "run")
    rows = [spelt(row)[-1] for row in loan_rows(600)]
    for value, side in {"yes": "positive", "Yes": "positive", "no": "negative", "No.": "negative"}.items():
        assert re.search(rf"^  {re.escape(value)} +{side} +{rows.count(value)}$", found.stdout, re.MULTILINE)
    machine = json.loads(fairbound("train", loans, *LOANS, "--positive", "yes", "Yes", "--out", "b", "--json").stdout)
    assert {"value": "No.", "rows": rows.count("No."), "counts_as": "negative"} in machine["label"]


def test_yes_needs_no_option_and_the_choice_is_shown(fairbound, tmp_path):
    """The command line asked for --positive where the estimator knew it."""
    rows = [(*row[:-1], ("no", "yes")[row[-1]]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    found = fairbound("train", path, *LOANS, "--out", "run")
    assert found.code == 0, found.stderr
    assert "Label: approved (positive: yes)" in found.stdout
    assert re.search(r"^  yes +positive +\d+$", found.stdout, re.MULTILINE)
    decided = write_csv(tmp_path / "decided.csv", ("approved", "decision", "sex"), [(r[-1], r[-1], r[3]) for r in rows])
    audited = fairbound("audit", decided, "--target", "approved", "--prediction", "decision", "--sensitive", "sex")
    assert audited.code == 0, audited.stderr
    assert "positive label 'yes'" in audited.stdout
    told = fairbound("train", path, *LOANS, "--positive", "no", "--out", "other")
    assert "Label: approved (positive: no)" in told.stdout


def test_the_label_of_a_known_data_set_is_listed_too(fairbound):
    found = fairbound("train", "law", "--out", "run")
    assert re.search(r"^  did not pass the bar +negative +2,293$", found.stdout, re.MULTILINE)


def test_many_values_are_listed_in_short(fairbound, tmp_path):
    rows = [(*row[:-1], "granted" if row[-1] else f"refused: {row[0] % 40}") for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    found = fairbound("train", path, *LOANS, "--positive", "granted", "--out", "run")
    assert re.search(r"^  granted +positive", found.stdout, re.MULTILINE)
    assert re.search(r"^  \(\d+ other values\) +negative +\d+$", found.stdout, re.MULTILINE)


def test_classes_are_listed_by_their_names(fairbound, tmp_path):
    rows = [(*row[:-1], ("low", "mid", "top")[row[-1] + row[0] % 2]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    found = fairbound("train", path, *LOANS, "--multiclass", "--out", "run")
    assert re.search(r"^  top +top +\d+$", found.stdout, re.MULTILINE)


def test_a_value_on_neither_side_is_refused(fairbound, loans):
    refused = fairbound("train", loans, *LOANS, "--positive", "yes", "Yes", "--negative", "no", "--out", "run", "-q")
    assert refused.code == 2
    assert "neither --positive nor --negative names: 'No.'" in refused.sentence


def test_rows_without_a_label(fairbound, tmp_path):
    rows = [(*row[:-1], "" if row[0] % 50 == 7 else row[-1]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    refused = fairbound("train", path, *LOANS, "--out", "run", "--quiet")
    assert refused.code == 2
    assert "no value in 12 of 600 rows" in refused.sentence
    assert "--drop-unlabelled" in refused.sentence
    found = fairbound("train", path, *LOANS, "--drop-unlabelled", "--out", "run")
    assert found.code == 0
    assert says(found.stdout, "Note: 12 of 600 rows", "'approved'", "dropped")
    assert "588 rows" in found.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_column_that_gives_the_label_away_is_named(fairbound, tmp_path, command):
    rows = [(*row, row[-1] if row[0] % 45 else 1 - row[-1]) for row in loan_rows(900)]
    path = write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "is_repaid"), rows)
    found = call(fairbound, command, path)
    assert "Note: Suspected leak: column 'is_repaid' alone predicts 97.8% of the labels" in found.stdout
    assert "--ignore 'is_repaid'" in found.stdout
    if command != "describe":
        summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
        assert any("is_repaid" in note for note in summary["notes"])
        assert "Suspected leak" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_nothing_is_named_where_nothing_leaks(fairbound, tmp_path):
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(600))
    assert "leak" not in fairbound("train", path, *LOANS, "--require", LIMIT, "--out", "run").stdout


@pytest.mark.parametrize("command", [*COMMANDS, "streamed"])
def test_an_input_with_the_name_of_a_protected_attribute_is_named(fairbound, tmp_path, command):
    """A race that was not named as sensitive became an input without a word."""
    rows = [(*row, ("north", "south")[row[0] % 2], 20 + row[0] % 40) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "race", "car_age"), rows)
    streamed = ["--memory", "1KB"] if command == "streamed" else []
    command = "train" if streamed else command
    found = call(fairbound, command, path, *streamed)
    note = next(line for line in found.stdout.splitlines() if "protected" in line)
    assert says(
        note, "Note: Column 'race' is an input", "neither limited nor measured", "--sensitive", "--ignore 'race'"
    )
    assert "car_age" not in note
    if command != "describe":
        summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
        assert note.removeprefix("Note: ") in summary["notes"]
        shutil.rmtree(tmp_path / "run")
    assert "protected" not in call(fairbound, command, path, *streamed, "--ignore", "race").stdout
    if command == "describe":
        assert "protected" not in call(fairbound, command, path, "--sensitive", "race").stdout


def test_what_is_for_files_is_refused_for_a_known_data_set(fairbound):
    refused = fairbound("train", "law", "--negative", "no", "--out", "run", "--quiet")
    assert refused.code == 2
    assert "--negative is for files" in refused.sentence
