"""The values of a label: each is listed with its code, and different spellings never get different codes unnoticed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused, says

from fairbound import audit
from fairbound._positive_label import CONVENTIONS, conventional_positive
from fairbound.data import read_table
from fairbound.data.labels import LabelValue, code_labels


def column(**counts: int) -> np.ndarray:
    return np.array([value for value, rows in counts.items() for _ in range(rows)])


ADULT = {">50K": 7, ">50K.": 3, "<=50K": 20, "<=50K.": 9}


def test_every_value_is_listed_with_its_rows_and_its_side():
    values = code_labels(column(**ADULT), "income", positive=[">50K", ">50K."]).values
    assert set(values) == {
        LabelValue(">50K", 7, 1),
        LabelValue(">50K.", 3, 1),
        LabelValue("<=50K", 20, 0),
        LabelValue("<=50K.", 9, 0),
    }


def test_two_spellings_of_one_outcome_stop_until_both_are_named():
    with pytest.raises(ValueError, match="income") as refused:
        code_labels(column(**ADULT), "income", positive=">50K")
    sentence = str(refused.value)
    assert "'>50K' (7 rows, positive), '>50K.' (3 rows, negative)" in sentence
    assert "positive=['>50K', '>50K.']" in sentence
    assert "negative=" in sentence
    assert "<=50K" not in sentence  # both of these are on one side, whatever they mean


def test_named_spellings_are_one_class_with_one_name():
    found = code_labels(column(**ADULT), "income", positive=[">50K", ">50K."])
    assert found.names == ("<=50K", ">50K")
    assert found.codes.tolist() == [1] * 10 + [0] * 29


def test_a_value_may_be_told_to_be_on_the_other_side():
    found = code_labels(column(**ADULT), "income", positive=">50K", negative=[">50K.", "<=50K", "<=50K."])
    assert found.codes.sum() == 7
    assert found.names == ("not >50K", ">50K")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("yes", "Yes"),
        ("yes", " yes"),
        ("yes", "yes "),
        ("yes", "yes."),
        ("yes", "'yes'"),
        ("yes", "Ｙｅｓ"),  # full width
        ("granted credit", "granted  credit"),
        ("café", "cafe\u0301"),  # one letter, or a letter and its accent
        ("straße", "STRASSE"),
        ("1", "1.0"),
        ("1", "01"),
        ("-1", "−1"),  # the minus sign of typesetters
    ],
)
def test_spellings(first, second):
    values = np.array([first, second, "other"])
    with pytest.raises(ValueError, match="differ in spelling only"):
        code_labels(values, "t", positive=first)
    with pytest.raises(ValueError, match="differ in spelling only"):
        code_labels(values, "t")  # as classes, too
    found = code_labels(values, "t", positive=[first, second])
    assert found.codes.tolist() == [1, 1, 0]
    assert found.names == ("other", first)


@pytest.mark.parametrize(
    ("first", "second"), [("A", "A+"), ("A+", "A-"), ("-", "+"), ("<5", ">5"), ("1", "10"), ("1", "-1"), ("a", "b")]
)
def test_values_that_differ_in_more_than_spelling(first, second):
    assert code_labels(np.array([first, second]), "t", positive=first).names == (second, first)


def test_naming_all_negatives_makes_everything_else_an_error():
    values = column(good=5, fair=4, bad=3)
    assert code_labels(values, "t", "good", ["fair", "bad"]).names == ("not good", "good")
    with refused("neither positive= nor negative=", "'bad' (3 rows)"):
        code_labels(values, "t", "good", "fair")


def test_several_favourable_values_have_a_name_together():
    found = code_labels(column(good=5, fair=4, bad=3), "t", ["good", "fair"])
    assert found.names == ("bad", "good or fair")
    assert found.codes.tolist() == [1] * 9 + [0] * 3


@pytest.mark.parametrize(
    ("positive", "negative", "words"),
    [
        (["good", "god"], None, ["never 'god' (positive=)", "Did you mean 'good'"]),
        ("good", ["bad", "fiar"], ["never 'fiar' (negative=)", "Did you mean 'fair'"]),
        ("good", ["good", "bad"], ["'good'", "both positive= and negative="]),
        (["good", "fair", "bad"], None, ["positive=", "every value of column 't'"]),
        ([], None, ["positive= names no value", "'t'"]),
        (None, "bad", ["negative=", "without positive="]),
    ],
)
def test_sides_that_cannot_be_used(positive, negative, words):
    with refused(*words):
        code_labels(column(good=5, fair=4, bad=3), "t", positive, negative)


def test_numbers_on_either_side():
    found = code_labels(np.array([1, 2, 3, 3]), "t", positive=[1, 2.0])
    assert found.codes.tolist() == [1, 1, 0, 0]
    assert found.names == ("3", "1 or 2")


@pytest.mark.parametrize("pair", CONVENTIONS)
@pytest.mark.parametrize("spelt", [str, str.upper, str.capitalize])
def test_convention_names_the_favourable_one_of_a_common_pair(pair, spelt):
    """The rule of the estimator: see tests/estimator/test_positive.py."""
    negative, positive = map(spelt, pair)
    found = code_labels(np.array([positive, negative, positive]), "t")
    assert found.names == (negative, positive)
    assert found.codes.tolist() == [1, 0, 1]
    assert conventional_positive([positive, negative]) == positive
    turned = code_labels(np.array([positive, negative, positive]), "t", positive=negative)
    assert turned.names == (positive, negative)


@pytest.mark.parametrize("pair", [("approved", "denied"), ("bad", "good"), ("1", "2"), ("no", "true"), ("0", "-1")])
def test_without_a_convention_the_favourable_one_is_asked_for(pair):
    with refused("'t' (target=)", *(f"{word!r} (1 row)" for word in pair), "positive="):
        code_labels(np.array(pair), "t")


TEXT = "income,sex,approved\n1,f,yes\n2,m,no\n3,f,\n4,m,Yes\n5,m,no\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "loans.csv"
    file.write_text(TEXT)
    return file


def test_a_data_set_carries_the_values_of_its_label(path):
    data = read_table(path, target="approved", sensitive="sex", positive=["yes", "Yes"], drop_unlabelled=True)
    assert data.label_values == (LabelValue("Yes", 1, 1), LabelValue("no", 2, 0), LabelValue("yes", 1, 1))
    assert "1 for 'Yes' (1 row), 'yes' (1 row)" in data.description
    assert data.take([0, 1]).label_values == data.label_values  # they are of the file


def test_rows_without_a_label_are_dropped_when_asked_to(path):
    with refused("no value in 1 of 5 rows", "row 3", "drop_unlabelled=True"):
        read_table(path, target="approved", sensitive="sex", positive=["yes", "Yes"])
    data = read_table(path, target="approved", sensitive="sex", positive=["yes", "Yes"], drop_unlabelled=True)
    assert data.y.tolist() == [1, 0, 1, 0]
    assert data.sensitive["sex"].tolist() == ["f", "m", "m", "m"]
    assert data.X[:, 0].tolist() == [1, 2, 4, 5]
    assert data.notes == ("1 of 5 rows have no label in column 'approved' and were dropped.",)


def test_nothing_is_dropped_where_every_row_has_a_label(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text("income,approved\n1,1\n2,0\n")
    assert read_table(path, target="approved", drop_unlabelled=True).notes == ()


HIDDEN = {"\u200b": "U+200B ZERO WIDTH SPACE", "\u00ad": "U+00AD SOFT HYPHEN", "\u200e": "U+200E LEFT-TO-RIGHT MARK"}


@pytest.mark.parametrize("character", HIDDEN)
def test_labels_that_differ_by_an_invisible_character_are_refused_by_its_name(character):
    strange = f"yes{character}"
    with refused("differ in spelling only", ascii(strange), HIDDEN[character]):
        code_labels(np.array(["no", "yes", strange]), "approved", positive="yes")
    with refused("differ in spelling only", HIDDEN[character]):
        code_labels(np.array(["no", "yes", strange, "maybe"]), "approved")
    found = code_labels(np.array(["no", "yes", strange]), "approved", positive=["yes", strange])
    assert (found.codes.tolist(), found.names) == ([0, 1, 1], ("no", "yes"))


@pytest.mark.parametrize("character", HIDDEN)
def test_classes_that_look_the_same_give_a_warning_in_python(character):
    y, groups = ["no", "yes", f"yes{character}"] * 10, ["f", "m", "m", "f", "f"] * 6
    with pytest.warns(UserWarning, match=rf"look the same.*{HIDDEN[character].replace('+', '.')}") as told:
        audit(y, ["no", "yes", "yes"] * 10, {"sex": groups})
    assert says(str(told[0].message), "'yes'", ascii(f"yes{character}"))
