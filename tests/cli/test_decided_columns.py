"""`audit` and `certify` read labels, decisions and groups as training reads labels and groups: 01 is not 1."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.helpers import write_csv

from fairbound import read_table
from fairbound.data.schema import is_missing

NAMES = ("label", "decision", "group")
GIVEN = ["--target", "label", "--prediction", "decision", "--sensitive", "group", "--json"]


def write(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(NAMES, zip(*rows, strict=True), strict=True))), path)
        return path
    return write_csv(path, NAMES, rows)


def rows_of(groups, labels=("0", "1"), decisions=("0", "1")):
    """Every group has every label with every decision, ten times."""
    pairs = [(label, decision) for label in labels for decision in decisions]
    return [(*pair, group) for group in groups for pair in pairs for _ in range(10)]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "groups",
    [
        ("01", "02"),
        ("01", "1"),
        ("1", "2"),
        ("1.0", "2"),
        ("1", "2", ""),
        ("01", "A1"),
        ("$5", "7"),
        ("1,5", "2"),
        ("unknown", "1"),
        ("9007199254740993", "9007199254740992", ""),
    ],
)
def test_the_groups_are_those_of_training(fairbound, tmp_path, groups, ending):
    path = write(tmp_path / f"decided.{ending}", rows_of(groups))
    values = read_table(path, target="label", sensitive="group").sensitive["group"]
    known = {str(value) for value in values[~is_missing(values)].tolist()}
    assert len(known) == len(set(groups) - {""})
    found = fairbound("audit", path, *GIVEN)
    assert (found.code, found.stderr) == (0, "")
    assert {each["group"] for each in json.loads(found.stdout)["groups"] if not each["everyone"]} == known


def test_a_limit_names_a_group_with_its_zeros(fairbound, tmp_path):
    path = write(tmp_path / "decided.csv", rows_of(("01", "02")))
    assert fairbound("certify", path, *GIVEN, "--require", "selection_rate[01] >= 0.1").code == 0
    assert "'1'" in fairbound("certify", path, *GIVEN, "--require", "selection_rate[1] >= 0.1").sentence


def test_labels_and_decisions_keep_their_zeros(fairbound, tmp_path):
    path = write(tmp_path / "codes.csv", rows_of("ab", ("01", "02"), ("01", "02")))
    found = fairbound("audit", path, *GIVEN, "--positive", "02")
    assert (found.code, found.stderr) == (0, "")
    assert json.loads(found.stdout)["classes"] == ["01", "02"]
    assert "is never '2'" in fairbound("audit", path, *GIVEN, "--positive", "2").sentence


def test_a_code_with_zeros_is_not_the_number(fairbound, tmp_path):
    path = write(tmp_path / "codes.csv", rows_of("ab", ("0", "1"), ("00", "01")))
    sentence = fairbound("audit", path, *GIVEN).sentence
    assert "contains '00'" in sentence
    assert "--positive-decision" in sentence
    assert fairbound("audit", path, *GIVEN, "--positive-decision", "01").code == 0


@pytest.mark.parametrize("decisions", [("0", "1"), ("0.0", "1.0"), ("False", "True"), ("0", "1.0"), ("false", "1")])
@pytest.mark.parametrize("labels", [("0", "1"), ("0.0", "1.0"), ("False", "True")])
def test_numbers_and_truth_values_are_still_matched(fairbound, tmp_path, labels, decisions):
    found = fairbound("audit", write(tmp_path / "codes.csv", rows_of("ab", labels, decisions)), *GIVEN)
    assert (found.code, found.stderr) == (0, "")
    assert [each["confusion"] for each in json.loads(found.stdout)["groups"]] == [
        [[10, 10], [10, 10]],
        [[10, 10], [10, 10]],
        [[20, 20], [20, 20]],
    ]


def test_scores_of_many_digits_are_named_as_such(fairbound, tmp_path):
    path = write(tmp_path / "scores.csv", rows_of("ab", decisions=("0.12345678901234567", "0.5")))
    assert "not scores" in fairbound("audit", path, *GIVEN).sentence


def test_weights_are_numbers(fairbound, tmp_path):
    rows = [(*row, weight) for row in rows_of("ab") for weight in ("01.5", "2.25")]
    path = write_csv(tmp_path / "weighted.csv", (*NAMES, "weight"), rows)
    found = fairbound("audit", path, *GIVEN, "--weight", "weight")
    assert (found.code, found.stderr) == (0, "")
