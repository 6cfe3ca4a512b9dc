from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairbound.data.names import is_protected_name
from fairbound.data.schema import Banded, Categorical, Numeric, is_missing


def test_numeric_stands_as_it_is():
    matrix, names = Numeric("age").encode(np.array([3.5, 1.0]))
    assert matrix.tolist() == [[3.5], [1.0]]
    assert names == ["age"]


def test_categorical_has_a_column_for_each_known_value_present_or_not():
    matrix, names = Categorical("c", {1: "one", 2: "two", 3: "three"}).encode(np.array([2.0, 1.0, 2.0]))
    assert names == ["c=one", "c=two", "c=three"]
    assert matrix.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]


def test_two_values_need_one_column():
    matrix, names = Categorical("sex", {"f": "female", "m": "male"}).encode(np.array(["m", "f"]))
    assert names == ["sex=male"]
    assert matrix.tolist() == [[1], [0]]


def test_bands_begin_at_their_code():
    matrix, names = Banded("b", {1: "low", 10: "middle", 20: "high"}).encode(np.array([1, 9, 10, 19, 20, 999]))
    assert names == ["b=low", "b=middle", "b=high"]
    assert matrix.argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2]
    assert (matrix.sum(axis=1) == 1).all()


def test_unknown_codes():
    with pytest.raises(ValueError, match=r"Column 'c' contains 3\.0; known are 1, 2"):
        Categorical("c", {1: "one", 2: "two"}).encode(np.array([1.0, 3.0]))
    with pytest.raises(ValueError, match="Column 'b' contains 0; the first known code is 1"):
        Banded("b", {1: "low", 10: "middle", 20: "high"}).encode(np.array([0, 5]))


def test_missing_values_need_a_label_of_their_own():
    values = np.array(["x", None, "y"], dtype=object)
    with pytest.raises(ValueError, match="Column 'c' contains a missing value; known are 'x', 'y'"):
        Categorical("c", {"x": "x", "y": "y"}).encode(values)
    matrix, names = Categorical("c", {"x": "x", "y": "y", None: "none"}).encode(values)
    assert names == ["c=x", "c=y", "c=none"]
    assert matrix.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    codes = Categorical("c", {1: "one", None: "none"}).encode(np.array([1.0, np.nan]))[0]
    assert codes.tolist() == [[0], [1]]
    with pytest.raises(ValueError, match="Column 'b' contains a missing value"):
        Banded("b", {1: "low", 10: "high"}).encode(np.array([1.0, np.nan]))
    assert np.isnan(Numeric("n").encode(np.array([1.0, np.nan]))[0][1, 0])


def test_unknown_values_may_share_a_column():
    column = Categorical("c", {"x": "x", "y": "y"}, rest="other")
    matrix, names = column.encode(np.array(["x", "z", "w"]))
    assert names == ["c=x", "c=y", "c=other"]
    assert matrix.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert column.show(np.array(["x", "z", "w"])).tolist() == ["x", "z", "w"]


def test_columns_are_shown_as_words():
    assert Categorical("c", {1: "one", 2: "two"}).show(np.array([2, 1])).tolist() == ["two", "one"]
    assert Categorical("c", {1: "one"}).show(np.array([1.0, np.nan])).tolist() == ["one", None]
    assert Banded("b", {1: "low", 10: "high"}).show(np.array([9610, 1])).tolist() == ["9610", "1"]
    assert Numeric("n").show(np.array([1, 2])).tolist() == [1, 2]


def test_what_is_missing():
    assert is_missing(np.array([1, 2])).tolist() == [False, False]
    assert is_missing(np.array(["", "nan"])).tolist() == [False, False]
    assert is_missing(np.array([1.0, np.nan])).tolist() == [False, True]
    assert is_missing(np.array(["a", None, np.nan, pd.NA, 1.5], dtype=object)).tolist() == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_kinds():
    assert [kind.categorical for kind in (Numeric, Categorical, Banded)] == [False, True, True]


PROTECTED = """race|Race|RACE|applicant_race|raceCode|sex|Gender|gender_identity|personal_status_sex|marital-status|
MaritalStatus|religion|nationality|national origin|native-country|disability|age|age_group|Age (years)|date_of_birth|
birth_year|DOB|is_female|ethnicity|ethnic group"""
OTHER = """race_time|car_age|age_of_account|accountAge|average|stage|package|sextant|trace|group|status|code|country|
page|sex_ratio_of_district|years|type|male_share|1|family_size"""


@pytest.mark.parametrize(("names", "protected"), [(PROTECTED, True), (OTHER, False)])
def test_names_of_protected_attributes(names, protected):
    assert [name for name in names.replace("\n", "").split("|") if is_protected_name(name) != protected] == []
