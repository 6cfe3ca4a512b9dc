"""The options of `train` and `frontier` about rows: weights, an own test file, bands, missing values, categories."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields

import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, interrupt_when, loan_rows, write_csv
from tests.refusals import says
from typer.main import get_command

from fairbound import load
from fairbound.cli.options import ReadingOptions
from fairbound.cli.program import make_program
from fairbound.fairness import parse_constraint


def metrics(tmp_path, out="run"):
    return json.loads((tmp_path / out / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture
def weighted(tmp_path):
    """Each row has a weight of 1 to 3; the same rows repeated as often stand beside."""
    rows = loan_rows(300)
    write_csv(tmp_path / "weighted.csv", (*LOAN_COLUMNS, "w"), [(*row, 1 + row[0] % 3) for row in rows])
    write_csv(tmp_path / "repeated.csv", LOAN_COLUMNS, [row for row in rows for _ in range(1 + row[0] % 3)])
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["train", "--require", LIMIT], ["frontier", "--bounds", "0.8"]], ids=lambda c: c[0]
)
def test_a_weight_counts_like_rows_repeated(fairbound, weighted, command):
    name, *options = command
    shared = [*LOANS, *options, "--test", 0, "--json"]
    found = fairbound(name, "weighted.csv", *shared, "--weight", "w", "--out", "a")
    again = fairbound(name, "repeated.csv", *shared, "--out", "b")
    assert (found.code, again.code) == (0, 0), found.stderr
    a, b = (json.loads((weighted / out / "summary.json").read_text(encoding="utf-8")) for out in "ab")
    assert "w" not in a["reproduction"]["columns"]
    for part in (a, b):
        assert part["training"]["limits"][0]["after"]["value"] >= 0.8 - 1e-12
    # Without limits the problem is convex, so both files have one and the same model; under limits it is not.
    accuracy = [part["training"]["accuracy"]["before"]["value"] for part in (a, b)]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=1e-9)
    constant = [part["training"]["accuracy"]["constant"] for part in (a, b)]
    assert constant[0] == pytest.approx(constant[1], abs=1e-12)  # the weights are in the evaluation


def test_held_out_rows_with_weights_have_no_certificate(fairbound, weighted):
    found = fairbound("train", "weighted.csv", *LOANS, "--weight", "w", "--require", LIMIT, "--out", "run")
    assert found.code in (0, 1), found.stderr  # by what the held-out rows measure
    assert "NOT CERTIFIABLE" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--weight", "job"], "Column 'job' (--weight) must hold numbers"),
        (["--weight", "wage"], "no column 'wage' (--weight)"),
        (["--weight", "sex"], "--target, --sensitive, --ignore and --weight"),
        (["--weight", "income"], "Column 'income' (--weight) has no value in"),
        (
            ["--weight", "w", "--confidence", "0.9", "--require", LIMIT],
            "--confidence tests on rows of equal weight",
        ),
    ],
)
def test_weights_that_cannot_be_used(fairbound, weighted, arguments, words):
    refused = fairbound("train", "weighted.csv", *LOANS, *arguments, "--out", "run", "--quiet")
    assert refused.code == 2
    assert words in refused.sentence


def test_a_test_file_is_held_out(fairbound, loans, tmp_path):
    # Other columns, another order, a job that training has not seen, and only some of the spellings.
    rows = [
        (sex, approved, "pilot" if row % 9 == 0 else job, income, row, 1)
        for row, income, job, sex, approved in loan_rows(200, 5)
    ]
    write_csv(tmp_path / "test.csv", ("sex", "approved", "job", "income", "id", "branch"), rows)
    found = fairbound("train", loans, *LOANS, "--test", "test.csv", "--require", LIMIT, "--out", "run")
    assert found.code == (0 if metrics(tmp_path)["kept"] else 1), found.stderr
    assert "1,500 for training, 200 held out" in found.stdout
    assert [metrics(tmp_path)[part]["after"]["rows"] for part in ("training", "held_out")] == [1500, 200]


def test_the_label_of_a_test_file_is_coded_as_in_training(fairbound, tmp_path):
    words = (("no", "No."), ("yes", "Yes"))
    spelt = [(*row[:-1], words[row[-1]][row[0] % 4 == 0]) for row in loan_rows(400)]
    write_csv(tmp_path / "train.csv", LOAN_COLUMNS, spelt)
    write_csv(tmp_path / "test.csv", LOAN_COLUMNS, [(*row[:-1], words[row[-1]][0]) for row in loan_rows(200, 1)])
    given = [*LOANS, "--positive", "yes", "Yes", "--test", "test.csv"]
    assert fairbound("train", "train.csv", *given, "--out", "run", "--quiet").code == 0
    write_csv(
        tmp_path / "test.csv", LOAN_COLUMNS, [(*row[:-1], words[row[-1]][0].upper()) for row in loan_rows(200, 1)]
    )
    refused = fairbound("train", "train.csv", *given, "--out", "again", "--quiet")
    assert refused.code == 2
    assert re.search("has the value '(YES|NO)' in .* the label of 'train' has only", refused.sentence)


def test_a_test_file_is_read_by_what_training_learnt_of_its_columns(fairbound, tmp_path):
    codes = ("01", "02", "A1")
    rows = [(*row[:2], codes[row[-1] if row[0] % 5 else 2], *row[3:]) for row in loan_rows(600)]
    write_csv(tmp_path / "train.csv", LOAN_COLUMNS, rows)
    plain = [(*row[:2], codes[row[-1]], *row[3:]) for row in loan_rows(200, 1)]  # 01 and 02 alone look like numbers
    write_csv(tmp_path / "test.csv", LOAN_COLUMNS, plain)
    assert fairbound("train", "train.csv", *LOANS, "--test", "test.csv", "--out", "run", "--quiet").code == 0
    assert metrics(tmp_path)["held_out"]["accuracy"]["after"]["value"] == 1.0  # the code says it all, if it is read


@pytest.mark.parametrize(
    ("header", "arguments", "words"),
    [
        (
            ("id", "incomes", "job", "sex", "approved"),
            [],
            "test.csv has no column 'income'",
        ),
    ],
)
def test_test_files_that_cannot_be_used(fairbound, loans, tmp_path, header, arguments, words):
    write_csv(tmp_path / "test.csv", header, loan_rows(100, 1))
    refused = fairbound("train", loans, *LOANS, "--test", "test.csv", *arguments, "--out", "run", "--quiet")
    assert refused.code == 2
    assert words in refused.sentence


def test_a_test_file_that_is_not_there_is_said_at_once(fairbound, loans, tmp_path):
    refused = fairbound("train", loans, *LOANS, "--test", "loan.csv", "--out", "run", "--quiet")
    assert says(refused.sentence, "no file loan.csv", "'loans.csv'?")
    constant = write_csv(tmp_path / "test.csv", LOAN_COLUMNS, [(*row[:-1], 1) for row in loan_rows(50)])
    refused = fairbound("train", loans, *LOANS, "--test", constant, "--out", "run", "--quiet")
    assert "same label" in refused.sentence


@pytest.fixture
def aged(tmp_path):
    rows = [(*row, 20 + row[0] % 50) for row in loan_rows(600)]
    return write_csv(tmp_path / "aged.csv", (*LOAN_COLUMNS, "age"), rows)


@pytest.mark.parametrize("words", [["age", "30,50"], ["age=30,50"]], ids=["two words", "one word"])
def test_bands_of_a_numeric_group(fairbound, aged, tmp_path, words):
    given = ["--target", "approved", "--sensitive", "age", "--ignore", "id", "--require", "disparate_impact >= 0.7"]
    found = fairbound("train", aged, *given, "--bands", *words, "--out", "run")
    assert found.code == (0 if metrics(tmp_path)["kept"] else 1), found.stderr
    groups = {group["group"] for group in metrics(tmp_path)["training"]["after"]["groups"]}
    assert groups == {"below 30", "30 to below 50", "50 and above", None}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["age"], "--bands has '' for the column 'age'"),
        (["age", "young,old"], "'young,old' for the column 'age'"),
        (["age", "50,30"], "give finite numbers in ascending order"),
        (["income", "2000"], "--bands names 'income'"),
        (["job=3"], "--bands names 'job'"),
    ],
)
def test_bands_that_cannot_be_used(fairbound, aged, words, sentence):
    given = ["--target", "approved", "--sensitive", "age", "--ignore", "id"]
    refused = fairbound("train", aged, *given, "--bands", *words, "--out", "run", "--quiet")
    assert refused.code == 2
    assert sentence in refused.sentence


def test_many_small_groups_of_numbers_lead_to_bands(fairbound, tmp_path):
    rows = [(*row, row[0]) for row in loan_rows(300)]
    path = write_csv(tmp_path / "aged.csv", (*LOAN_COLUMNS, "age"), rows)
    given = ["--target", "approved", "--sensitive", "age", "--ignore", "id", "--require", LIMIT]
    sentence = fairbound("train", path, *given, "--out", "run", "--quiet").sentence
    assert re.search(r"--bands .*\bage \d+,\d+", sentence)


@pytest.mark.parametrize("groups", ["intersection", "both"])
def test_small_intersections_are_refused_before_training_and_the_advice_works(fairbound, tmp_path, groups):
    # 40 rows or more of each column's groups, but 8 women in the north.
    rows = [
        (*row, "north" if row[0] % 9 == 0 and (row[3] == "male" or row[0] < 150) else "south") for row in loan_rows(600)
    ]
    path = write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "region"), rows)
    given = [
        *LOANS,
        "--sensitive",
        "region",
        "--groups",
        groups,
        "--require",
        "disparate_impact >= 0.5",
        "--out",
        "run",
    ]
    refused = fairbound("train", path, *given)
    assert refused.code == 2
    assert re.search(r"female\W+north\W+\(\d\)", refused.stderr)
    assert "Training" not in refused.stderr
    advised = re.search("--small-groups 'merge'", refused.stderr)
    assert advised
    found = fairbound("train", path, *given, *shlex.split(advised[0]))
    assert found.code in (0, 1), found.stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_words_for_missing_values(fairbound, tmp_path):
    rows = [(row[0], "unknown" if row[0] % 10 == 0 else row[1], *row[2:]) for row in loan_rows(400)]
    path = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, rows)
    found = fairbound("data", "describe", path, *LOANS, "--missing", "unknown", "--json")
    assert json.loads(found.stdout)["missing"]["income"] >= 40
    assert fairbound("train", path, *LOANS, "--missing", "unknown", "--out", "run", "--quiet").code == 0
    kinds = {column.name: hasattr(column, "words") for column in load(tmp_path / "run" / "model").encoder_.columns_}
    assert kinds == {"income": False, "job": True}


def test_words_for_missing_values_in_a_parquet_file(fairbound, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = loan_rows(200)
    columns = {
        "job": ["unknown" if row[0] % 10 == 0 else row[2] for row in rows],
        "sex": [row[3] for row in rows],
        "approved": [row[-1] for row in rows],
    }
    parquet.write_table(pa.table(columns), tmp_path / "loans.parquet")
    given = ["--target", "approved", "--sensitive", "sex", "--missing", "unknown", "--json"]
    found = fairbound("data", "describe", "loans.parquet", *given)
    assert json.loads(found.stdout)["missing"] == {"job": 20}


def test_the_most_categories_of_a_column(fairbound, loans, tmp_path):
    assert fairbound("train", loans, *LOANS, "--max-categories", 2, "--out", "run", "--quiet").code == 0
    job = next(column for column in load(tmp_path / "run" / "model").encoder_.columns_ if column.name == "job")
    assert len(job.words) + job.other <= 2


@pytest.fixture
def commas(tmp_path):
    """Incomes such as 2,345: thousands, unless the decimal mark is named."""
    rows = [(row[0], f"{row[1][:1]},{row[1][1:]}", *row[2:]) for row in loan_rows(400) if len(row[1]) == 4]
    return write_csv(tmp_path / "commas.csv", LOAN_COLUMNS, rows)


@pytest.mark.parametrize("command", [["train"], ["frontier", "--bounds", "0.5"]], ids=lambda command: command[0])
@pytest.mark.parametrize(("given", "mean"), [([], 2400), (["--decimal", "."], 2400), (["--decimal", ","], 2.4)])
def test_the_decimal_mark_is_named(fairbound, commas, tmp_path, command, given, mean):
    found = fairbound(command[0], commas, *LOANS, *given, *command[1:], "--out", "run", "--quiet")
    assert found.code == 0, found.stderr
    income = next(column for column in load(tmp_path / "run" / "model").encoder_.columns_ if column.name == "income")
    assert income.mean == pytest.approx(mean, rel=0.1)


def test_the_decimal_mark_in_a_description(fairbound, commas):
    assert "a decimal comma" in fairbound("data", "describe", commas, *LOANS, "--decimal", ",").stdout
    assert "commas between thousands" in fairbound("data", "describe", commas, *LOANS).stdout


@pytest.mark.parametrize(
    "command",
    [["train", "--out", "run"], ["frontier", "--bounds", "0.5", "--out", "run"], ["data", "describe"]],
    ids=lambda command: command[0],
)
def test_the_table_of_columns_is_in_the_json(fairbound, commas, command, tmp_path):
    found = fairbound(*command, commas, "--target", "approved", "--sensitive", "sex", "--json")
    assert found.code == 0, found.stderr
    identifier, income = taken = json.loads(found.stdout)["taken"]
    for written in tmp_path.glob("run/*.json"):
        assert json.loads(written.read_text(encoding="utf-8"))["taken"] == taken
    assert (identifier["column"], identifier["option"]) == ("id", "--ignore 'id'")
    assert (income["column"], income["kind"], income["option"]) == ("income", "number", "--categorical 'income'")
    assert "commas between thousands" in income["remark"]
    assert re.fullmatch(r"'(\d),(\d{3})' is \1\2", income["example"])


@pytest.mark.parametrize(
    ("source", "decimal", "words"),
    [("commas.csv", ";", "--decimal ';' must be '.' or ','"), ("law", ",", "--decimal is for files")],
)
def test_a_decimal_mark_that_cannot_be(fairbound, commas, source, decimal, words):
    given = LOANS if source != "law" else []
    refused = fairbound("data", "describe", source, *given, "--decimal", decimal)
    assert refused.code == 2
    assert words in refused.sentence


def test_limits_to_try_name_their_column_where_there_are_several(fairbound, tmp_path):
    rows = [(*row, ("a", "b")[row[0] % 2]) for row in loan_rows(600)]
    path = write_csv(tmp_path / "loans.csv", (*LOAN_COLUMNS, "my race"), rows)
    given = ["--target", "approved", "--sensitive", "sex", "my race", "--ignore", "id", "--groups", "both"]
    found = fairbound("train", path, *given, "--out", "run")
    advised = re.findall(r"\S+\(.*?\) [<>]= [\d.]+", found.stdout.split("Limits to try")[1])
    assert any(line.startswith("disparate_impact(sex) >=") for line in advised)
    for line in advised:
        assert parse_constraint(line).columns  # what is printed can be typed


def test_an_interrupt_does_not_advise_more_iterations(fairbound, loans, monkeypatch):
    interrupt_when(monkeypatch, "Training under the limits: limits")
    found = fairbound("train", loans, *LOANS, "--require", "disparate_impact >= 0.99", "--out", "run")
    assert found.code == 130
    assert "allow more iterations" not in found.stdout + found.stderr


def test_a_column_to_ignore_must_be_there(fairbound, loans):
    refused = fairbound("train", loans, *LOANS, "nosuch", "--out", "run", "--quiet")
    assert refused.code == 2
    assert "no column 'nosuch' (--ignore)" in refused.sentence


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--out", "run"],
        ["data", "describe"],
        ["audit", "--prediction", "approved"],
        ["certify", "--prediction", "approved", "--require", LIMIT],
    ],
    ids=lambda command: command[0],
)
def test_columns_with_commas_between_them_are_pointed_out(fairbound, loans, command):
    refused = fairbound(*command, loans, "--target", "approved", "--sensitive", "sex,job", "--quiet")
    assert refused.code == 2
    assert "separately: --sensitive 'sex' --sensitive 'job'." in refused.sentence


def test_commands_that_read_rows_take_the_same_options():
    program = get_command(make_program())
    train, frontier = ([each.name for each in program.commands[name].params] for name in ("train", "frontier"))
    reading = [each.name for each in fields(ReadingOptions)]
    training = [
        "model",
        "test",
        "seed",
        "groups",
        "groups__small",
        "groups__min_size",
        "loss",
        "training",
        "surrogates",
    ]
    for found in (train, frontier):
        assert {*reading, *training} <= set(found)
        assert len(found) == len(set(found))
        assert [name for name in found if name != "help"][-2:] == ["json", "quiet"]
    describe = {each.name for each in program.commands["data"].commands["describe"].params}
    assert set(reading) - describe == {"weight", "max_categories"}
    assert describe.isdisjoint(training)
