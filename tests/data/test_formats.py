"""Column formats: learnt from one file, and used to read any other, value by value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbound.data.formats import MARKS, MISSING, ColumnFormat, FormatLearner

learn = ColumnFormat.learn


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["$2,174", "$18", "-$5", "$-6.5"], [2174, 18, -5, -6.5]),
        (["18,000", "1,234,567", "12"], [18_000, 1_234_567, 12]),
        (["1,234", "5,678"], [1234, 5678]),  # only groups of three: thousands
        (["1,234", "12,5"], [1.234, 12.5]),  # 12,5 is no group of three: decimal commas
        (["45,5", "3", "-0,25"], [45.5, 3, -0.25]),
        (["1.234,50", "12"], [1234.5, 12]),
        (["1.234.567", "1.234"], [1_234_567, 1234]),
        (["1,234.50", "7.5"], [1234.5, 7.5]),
        (["18 000", "1 234,5"], [18_000, 1234.5]),
        (["18\N{NO-BREAK SPACE}000", "3.5"], [18_000, 3.5]),
        (["1'234.50", "3"], [1234.5, 3]),
        (["12%", "3.5 %"], [12, 3.5]),
        (["5 €", "6,50 €"], [5, 6.5]),
        (["1,000", "2e3"], [1000, 2000]),
    ],
)
def test_numbers_that_are_written_alike(texts, numbers):
    form = learn(texts)
    assert (form.kind, form.is_plain) == ("number", False)
    assert form.read(texts).tolist() == numbers
    for text, number in zip(texts, numbers, strict=True):  # a value alone means what it means beside the others
        assert form.read([text]).tolist() == [number]
    assert form.example in texts


@pytest.mark.parametrize(
    "texts",
    [
        ["12%", "0.5"],
        ["$5", "€6"],
        ["1,2,3", "1"],
        ["01.02.2020", "03.04.2021"],
        ["2020-01-01"],
        ["0,123,456", "1"],
        ["1.5", "1,5"],
        ["12 34", "1"],
        ["45,5", "forty"],
        ["$", "€"],
        ["True", "False"],
        ["1.000.00", "2"],
    ],
)
def test_values_that_are_not_written_alike_are_text(texts):
    form = learn(texts)
    assert form.kind == "text"
    assert form.read(texts).tolist() == texts


def test_the_decimal_mark_can_be_said():
    assert learn(["1,234"], decimal=",").read(["1,234", "2"]).tolist() == [1.234, 2.0]
    assert learn(["1.234"], decimal=",").read(["1.234"]).tolist() == [1234.0]
    assert learn(["1.234"]).read(["1.234"]).tolist() == [1.234]
    assert learn(["12,5"], decimal=".").kind == "text"


@pytest.mark.parametrize("mark", ["n/a", "N/A", "None", "-", "--", "unknown", "#N/A", "."])
def test_marks_are_missing_among_numbers_only(mark):
    form = learn(["2.50", mark, "3"])
    np.testing.assert_array_equal(form.read(["2.50", mark, "3"]), [2.5, np.nan, 3])
    assert form.marks == (() if mark in MISSING else (mark,))
    words = learn(["cook", mark, "3"])
    assert words.read([mark]).tolist() == ([None] if mark in MISSING else [mark])
    assert learn(["-", "none"]).kind == "text"  # no number at all
    codes = learn(["1", "unknown"], codes=True)
    assert codes.read(["1", "unknown"]).tolist() == ["1", "unknown"]


def test_codes_keep_their_zeros():
    form = learn(["01", "02", "A1", "2.50"])
    assert form.read(["01", " 2.50 "]).tolist() == ["01", "2.50"]
    assert learn(["01", "02"]).padded
    assert not learn(["10", "0", "0.5"]).padded
    for texts in (["01", "02"], ["9" * 16], ["$5"], ["1,5"]):
        assert learn(texts, codes=True).read(texts).tolist() == texts
    assert learn(["1", "2"], codes=True).read(["1", "2"]).tolist() == [1, 2]


def test_a_format_can_be_learnt_from_parts():
    """It is that of all values, whatever part they are in."""
    columns = [["1", "2.5"] * 9, ["", "-", "3"] * 6, ["$1,234"] * 9 + ["$5"] * 9, ["07", "x"] * 9, ["n/a"] * 18]
    for values in columns:
        learner, parts = FormatLearner(), [values[:5], values[5:11], values[11:]]
        for part in parts:
            learner.add(set(part))
        for part in parts if learner.undecided else ():
            learner.add_again(set(part))
        assert learner.result() == learn(values)


def test_categories_that_are_numbers_are_written_in_one_way():
    codes = ColumnFormat("number")
    assert codes.words(["1", "01", "1.0", "x", "", None]).tolist() == ["1", "1", "1", "x", None, None]
    assert ColumnFormat("text").words(["1", " 01", "NA", None]).tolist() == ["1", "01", None, None]


def test_a_value_that_is_no_number_is_named_with_its_place():
    form = learn(["$1,000", "$2"])
    with pytest.raises(ValueError, match=r"'pay' .*'forty' in line 3 of x\.csv.*'\$1,000'"):
        form.read(["$19", "forty", "n/a"], "pay", lambda row: f"line {row + 2} of x.csv")
    with pytest.raises(ValueError, match=r"'pay' .*'19' in row 1\b.*numbers"):
        form.read(["19", "$3"], "pay")


def test_long_numbers():
    assert learn(["9" * 5_000]).read(["9" * 5_000]).tolist() == [np.inf]
    assert learn(["1," + ",".join(["000"] * 2_000)]).read(["1,000"]).tolist() == [1000]
    assert learn(["9007199254740993"]).read(["9007199254740993"]).tolist() == [9007199254740993]


CELLS = st.one_of(
    st.sampled_from(["01", "2.50", "2.5", "n/a", "1e3", "True", " x ", "", "2020-01-31", "1,000", "45,5", "$5", "12%"]),
    st.sampled_from(sorted(MARKS)),
    st.from_regex(r"[$]?[0-9]{1,4}([.,][0-9]{1,3}){0,2}%?", fullmatch=True),
    st.text(max_size=4),
)


@given(training=st.lists(CELLS, min_size=1, max_size=6), later=st.lists(CELLS, min_size=1, max_size=6))
def test_each_value_is_read_alone_as_among_others(training, later):
    form = learn(training)
    form.read(training)  # what was learnt fits what it was learnt from
    words = form.words(later).tolist()
    assert words == [form.words([value])[0] for value in later]

    def read_alone(value):
        try:
            return [str(each) for each in form.read([value]).astype(object)]
        except ValueError:
            return None

    alone = [read_alone(value) for value in later]
    if None not in alone:
        together = form.read(later)
        kind = float if form.kind == "number" else str
        assert [str(kind(each)) if each is not None else "None" for each in together] == [
            str(kind(each)) if each != "None" or form.kind == "number" else "None" for (each,) in alone
        ]
    else:
        with pytest.raises(ValueError, match=r"has .* in row"):
            form.read(later)
