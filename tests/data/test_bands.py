"""Groups from numbers, weights, and a second file that is read like the first."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from fairbound.data import Dataset, into_bands, read_table

TEXT = "age,income,w,approved\n19,1,1,no\n25,2,2,yes\n39.5,3,0,no\n,4,1,yes\n70,5,3,yes\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "loans.csv"
    file.write_text(TEXT)
    return file


def read(path, **options):
    return read_table(path, **{"target": "approved", "positive": "yes", "sensitive": "age", **options})


def test_a_number_at_a_cut_is_in_the_band_above():
    assert into_bands([24.999, 25, 39, 40], [25, 40]).tolist() == [
        "below 25",
        "25 to below 40",
        "25 to below 40",
        "40 and above",
    ]
    assert into_bands([1.0, np.nan, 3.0], [2]).tolist() == ["below 2", None, "2 and above"]


@pytest.mark.parametrize("cuts", [[], [3, 2], [2, 2], [np.nan], [np.inf], ["x"], 5])
def test_cuts_must_be_ascending_numbers(cuts):
    with pytest.raises(ValueError, match="The bands of 'age' are"):
        into_bands([1, 2], cuts, name="age")


def test_words_have_no_bands():
    with refused("'age'", "'old' in row 2", "not a number"):
        into_bands([1, "old"], [2], name="age")


def test_bands_of_a_sensitive_column(path):
    data = read(path, bands={"age": [25, 40]})
    assert data.groups("age").tolist() == ["below 25", "25 to below 40", "25 to below 40", None, "40 and above"]
    with refused("bands= names 'income'", "with sensitive="):
        read(path, bands={"income": [2]})


def test_weights_are_no_input_and_go_with_their_rows(path):
    data = read(path, weight="w")
    assert data.weight.tolist() == [1, 2, 0, 1, 3]
    assert data.feature_names == ("income",)
    assert data.take([4, 0]).weight.tolist() == [3, 1]
    assert read(path).weight is None


def test_parts_that_are_joined_keep_their_weights():
    y = np.arange(40) % 2
    data = Dataset("toy", np.zeros((40, 1)), y, {}, ["x"], weight=np.arange(40))
    parts = data.split(0.5, scale=False)
    assert sorted(parts.joined().weight.tolist()) == list(range(40))


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, -1], ["weight=", "-1 in row 2", "finite weights of at least 0"]),
        ([np.nan, 1], ["weight=", "no value in 1 of 2 rows", "row 1"]),
        ([0, 0], ["weight=", "zero in every row"]),
        (["a", "b"], ["weight=", "numbers", "'a'"]),
        ([1, 2, 3], ["weight=", "(2,)", "(3,)"]),
    ],
)
def test_weights_that_cannot_be_used(weight, words):
    with refused(*words):
        Dataset("toy", [[0.0], [1.0]], [0, 1], {}, ["x"], weight=weight)


def test_a_second_file_is_read_like_the_first(path, tmp_path):
    first = read(path)
    other = tmp_path / "other.csv"
    other.write_text("w,branch,income,age,approved\n1,north,7,33,yes\n2,south,8,44,yes\n")
    second = read(other, like=first)
    assert second.y.tolist() == [1, 1]
    assert second.target_names == ("no", "yes")
    assert list(second.schema) == list(first.schema) == ["income", "w"]
    other.write_text("w,income,age,approved\n1,7,33,perhaps\n")
    with refused("'approved' (target=)", "'perhaps' in 1 rows", "label of 'loans'"):
        read(other, like=first)
    other.write_text("w,age,approved\n1,33,yes\n")
    with refused("other.csv", "no column 'income'", "input of 'loans'"):
        read(other, like=first)
