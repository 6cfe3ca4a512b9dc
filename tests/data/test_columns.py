from __future__ import annotations

import numpy as np
import pytest

from fairbound.data.columns import Banded, Categorical, Numeric


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
