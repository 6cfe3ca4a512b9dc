"""Cells: rows are assigned by group and label, for every form in which groups can be given."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from fairbound import audit, certify
from fairbound.fairness import Cells

Y = [0, 1, 1, 0, 1, 0]
AB = ["a", "b", "a", None, "b", "b"]


def counts(cells):
    return cells.group_counts()


def only_grouping(cells):
    (grouping,) = cells.groupings
    return grouping


AS_GIVEN = {
    "strings": (["b", "a", "b", "a", "b", "a"], ("a", "b")),
    "an array of strings": (np.array(["b", "a", "b", "a", "b", "a"]), ("a", "b")),
    "integers": ([2, 1, 2, 1, 2, 1], (1, 2)),
    "negative integers": (np.array([0, -1, 0, -1, 0, -1]), (-1, 0)),
    "floats": ([0.5, 0.25, 0.5, 0.25, 0.5, 0.25], (0.25, 0.5)),
    "booleans": ([True, False, True, False, True, False], (False, True)),
    "an array of booleans": (np.array([True, False, True, False, True, False]), (False, True)),
    "a tensor": (torch.tensor([1, 0, 1, 0, 1, 0]), (0, 1)),
    "a column of objects": (np.array(["b", "a", "b", "a", "b", "a"], dtype=object), ("a", "b")),
    "a pandas series": (pd.Series(["b", "a", "b", "a", "b", "a"]), ("a", "b")),
    "a series with another index": (pd.Series(["b", "a", "b", "a", "b", "a"], index=range(10, 16)), ("a", "b")),
    "a categorical": (pd.Categorical(["b", "a", "b", "a", "b", "a"], categories=["b", "a", "never"]), ("a", "b")),
    "a categorical of integers": (pd.Series(pd.Categorical([2, 1, 2, 1, 2, 1])), (1, 2)),
    "nullable integers": (pd.Series([2, 1, 2, 1, 2, 1], dtype="Int64"), (1, 2)),
    "nullable booleans": (pd.Series([True, False, True, False, True, False], dtype="boolean"), (False, True)),
    "nullable strings": (pd.Series(["b", "a", "b", "a", "b", "a"], dtype="string"), ("a", "b")),
}


@pytest.mark.parametrize(("column", "groups"), AS_GIVEN.values(), ids=AS_GIVEN.keys())
def test_groups_keep_their_values(column, groups):
    grouping = only_grouping(Cells.build(Y, column))
    assert grouping.groups == groups
    assert [type(group) for group in grouping.groups] == [type(group) for group in groups]
    # Rows 0, 2, 4 are of the larger group, with labels 0, 1, 1.
    assert counts(Cells.build(Y, column))[grouping.name] == {groups[0]: {0: 2, 1: 1}, groups[1]: {0: 1, 1: 2}}


MISSING = {
    "None among strings": (["a", None, "a", "b", "b", None], ("a", "b")),
    "NaN among strings": (["a", math.nan, "a", "b", "b", math.nan], ("a", "b")),
    "None and NaN": (["a", None, "a", "b", "b", math.nan], ("a", "b")),
    "pandas.NA among objects": (np.array(["a", pd.NA, "a", "b", "b", pd.NA], dtype=object), ("a", "b")),
    "NaN among floats": (np.array([1.5, np.nan, 1.5, 2.5, 2.5, np.nan]), (1.5, 2.5)),
    "NaN in a list of integers": ([1, math.nan, 1, 2, 2, math.nan], (1, 2)),
    "None among integers": ([1, None, 1, 2, 2, None], (1, 2)),
    "None among booleans": ([False, None, False, True, True, None], (False, True)),
    "nullable integers": (pd.Series([1, None, 1, 2, 2, None], dtype="Int64"), (1, 2)),
    "nullable booleans": (pd.Series([False, None, False, True, True, None], dtype="boolean"), (False, True)),
    "nullable strings": (pd.Series(["a", None, "a", "b", "b", None], dtype="string"), ("a", "b")),
    "a categorical": (pd.Series(["a", None, "a", "b", "b", None], dtype="category"), ("a", "b")),
    "a categorical of integers, of which pandas makes floats": (pd.Categorical([1, None, 1, 2, 2, None]), (1.0, 2.0)),
    "dates": (pd.Series(pd.to_datetime(["2001", None, "2001", "2002", "2002", None], format="%Y")), None),
}


@pytest.mark.parametrize(("column", "groups"), MISSING.values(), ids=MISSING.keys())
def test_rows_with_a_missing_group_are_in_no_group(column, groups):
    cells = Cells.build(Y, column)
    grouping = only_grouping(cells)
    if groups is not None:
        assert grouping.groups == groups
        assert [type(group) for group in grouping.groups] == [type(group) for group in groups]
    assert list(counts(cells)[grouping.name].values()) == [{0: 1, 1: 1}, {0: 1, 1: 1}]
    # Every row has a cell all the same, and everyone means everyone whose group is known.
    assert cells.totals.sum() == len(Y)
    everyone = grouping.membership[-1] @ cells.totals.reshape(-1, 2).sum(axis=1)
    assert everyone == 4


def test_mixed_kinds_of_groups_are_told_apart():
    grouping = only_grouping(Cells.build(Y, [1, "1", "x", 1, "1", "x"]))
    assert grouping.groups == (1, "1", "x")
    assert [grouping.position(group) for group in grouping.groups] == [0, 1, 2]


def test_a_group_is_found_by_its_value_or_by_its_text():
    grouping = only_grouping(Cells.build(Y, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]))
    assert grouping.position(2) == grouping.position(2.0) == grouping.position("2.0") == grouping.position("2") == 1
    assert grouping.find(3) is None
    booleans = only_grouping(Cells.build(Y, [True, False] * 3))
    assert booleans.position("True") == booleans.position(True) == booleans.position(np.True_) == 1


def test_an_unknown_group_is_named_beside_the_known_ones():
    with pytest.raises(ValueError, match=r"Unknown group 'c' in 'sensitive_feature'\. Known groups: 'a', 'b'\."):
        only_grouping(Cells.build(Y, AB)).position("c")


def test_one_group_of_a_grouping():
    cells = Cells.build(Y, AB)
    grouping, part = only_grouping(cells), only_grouping(cells).only("b")
    assert part.groups == ("b",)
    assert np.array_equal(part.membership, grouping.membership[1:])


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, 1, 1, 0], (0, 1)),
        ([True, False, True, False], (False, True)),
        (["no", "yes", "no", "yes"], ("no", "yes")),
        ([-1.0, 1.0, 1.0, -1.0], (-1.0, 1.0)),
        (np.array([[0], [2], [1], [0]]), (0, 1, 2)),
        (pd.Series([0, 1, 1, 0], dtype="Int64"), (0, 1)),
        (pd.Categorical(["x", "y", "z", "x"]), ("x", "y", "z")),
        (torch.tensor([0, 1, 1, 0]), (0, 1)),
    ],
)
def test_labels_are_kept_as_given(y, classes):
    cells = Cells.build(y)
    assert cells.classes == classes
    assert cells.groupings == ()
    assert [cells.classes[label] for label in cells.labels] == list(np.asarray(y).ravel())


def test_pos_label_is_the_second_class():
    cells = Cells.build(["good", "bad", "bad"], ["a", "a", "b"], pos_label="bad")
    assert cells.classes == ("good", "bad")
    swapped = Cells.build(["good", "bad", "bad"], ["a", "a", "b"], pos_label="good")
    assert swapped.classes == ("bad", "good")
    assert np.array_equal(swapped.labels, 1 - cells.labels)


SEX = ["f", "m", "f", "m", None, "f"]
AGE = [1, 1, 2, 2, 2, None]


@pytest.mark.parametrize(
    "columns",
    [
        {"sex": SEX, "age": AGE},
        pd.DataFrame({"sex": SEX, "age": pd.array(AGE, dtype="Int64")}),
    ],
    ids=["mapping", "data frame"],
)
def test_each_column_intersection_or_both(columns):
    by_sex = {"f": {0: 2, 1: 1}, "m": {0: 1, 1: 1}}
    by_age = {1: {0: 1, 1: 1}, 2: {0: 1, 1: 2}}
    crossed = {("f", 1): {0: 1, 1: 0}, ("f", 2): {0: 0, 1: 1}, ("m", 1): {0: 0, 1: 1}, ("m", 2): {0: 1, 1: 0}}
    assert counts(Cells.build(Y, columns)) == {"sex": by_sex, "age": by_age}
    assert counts(Cells.build(Y, columns, groups="intersection")) == {"sex & age": crossed}
    both = Cells.build(Y, columns, groups="both")
    assert counts(both) == {"sex": by_sex, "age": by_age, "sex & age": crossed}
    assert [grouping.name for grouping in both.groupings] == ["sex", "age", "sex & age"]
    assert both.grouping("sex & age").position(("m", 2)) == 3
    assert both.grouping("sex & age").position("('m', 2)") == 3


def test_columns_of_an_array_are_numbered():
    cells = Cells.build(Y, np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]]))
    assert [grouping.name for grouping in cells.groupings] == ["sensitive_feature_0", "sensitive_feature_1"]
    mixed = Cells.build([0, 1, 1], [["a", math.nan], ["b", 1], ["a", 2]])
    assert [grouping.groups for grouping in mixed.groupings] == [("a", "b"), (1, 2)]


def test_one_column_is_its_own_intersection():
    assert [grouping.name for grouping in Cells.build(Y, {"sex": SEX}, groups="intersection").groupings] == ["sex"]


def test_a_series_brings_its_name():
    assert only_grouping(Cells.build(Y, pd.Series(SEX, name="sex"))).name == "sex"
    assert only_grouping(Cells.build(Y, pd.Series(SEX))).name == "sensitive_feature"


def test_pyarrow_tables_and_masked_values():
    expected = Cells.build([0, 1, 1, 0], {"sex": ["f", "m", None, "f"]})
    for table in (
        pa.table({"sex": ["f", "m", None, "f"]}),
        {"sex": np.ma.masked_array(["f", "m", "m", "f"], mask=[False, False, True, False])},
    ):
        cells = Cells.build([0, 1, 1, 0], table)
        assert cells.index.tolist() == expected.index.tolist()
        assert [each.groups for each in cells.groupings] == [("f", "m")]


def test_polars_columns():
    table = pl.DataFrame({"sex": SEX, "age": AGE})
    assert counts(Cells.build(Y, table)) == counts(Cells.build(Y, {"sex": SEX, "age": AGE}))


values = st.floats(-10, 10)
row = st.tuples(
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([1, 2, None]),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.25, 1.0, 3.0]),
    values,
    values,
)
tables = st.lists(row, min_size=1, max_size=40).map(
    # Labels 0 and 1 and a known value of each column always occur, with weight.
    lambda rows: [("a", 1, 0, 1.0, 0.0, 0.0), ("b", 2, 1, 1.0, 0.0, 0.0), *rows]
)


@given(tables, st.sampled_from(["each", "intersection", "both"]))
def test_sums_over_cells_make_up_the_sums_over_groups(rows, groups):
    first, second, y, weights, u, v = zip(*rows, strict=True)
    cells = Cells.build(y, {"first": first, "second": second}, weights=weights, groups=groups)
    S = cells.sums(np.array([u, v], dtype=np.float64).T)
    assert S.shape == (cells.n_cells, 2)
    by_atom = S.reshape(-1, cells.n_labels, 2)
    totals = cells.totals.reshape(-1, cells.n_labels)
    for grouping in cells.groupings:
        for position, group in enumerate(grouping.groups):
            for label, name in enumerate(cells.classes):
                expected, weight = np.zeros(2), 0.0
                for a, b, y_row, w, u_row, v_row in rows:
                    value = {"first": a, "second": b, "first & second": (a, b)}[grouping.name]
                    if value == group and y_row == name:
                        expected += [w * u_row, w * v_row]
                        weight += w
                found = grouping.membership[position] @ by_atom[:, label]
                np.testing.assert_allclose(found, expected, atol=1e-12)
                assert grouping.membership[position] @ totals[:, label] == weight
                assert cells.group_counts()[grouping.name][group][name] == weight
        # The groups of one grouping share no row, and together they are everyone whose group is known.
        assert np.array_equal(grouping.membership[:-1].sum(axis=0), grouping.membership[-1])


def test_weights_and_their_smallest():
    cells = Cells.build([0, 1, 1], ["a", "a", "b"], weights=[0.5, 2, 0])
    assert counts(cells)["sensitive_feature"] == {"a": {0: 0.5, 1: 2.0}, "b": {0: 0.0, 1: 0.0}}
    assert cells.smallest_weight == 0.5
    assert Cells.build([0, 1]).weights.tolist() == [1, 1]


def test_entries_that_stand_for_several_rows_count_as_often():
    cells = Cells.build([0, 1, 1, 0], ["a", "a", "b", "b"], weights=[1.0, 2.0, 1.0, 1.0])
    counted, listed = cells.standing_for([3, 1, 2, 1]), np.repeat(np.arange(4), [3, 1, 2, 1])
    whole = cells.take(listed)
    assert (len(cells), len(counted), counted.n_rows) == (4, 7, 7)
    assert counted.totals.tolist() == whole.totals.tolist()
    assert counted.sizes.tolist() == whole.sizes.tolist()
    assert counted.group_sizes(counted.groupings[0]) == whole.group_sizes(whole.groupings[0]) == [4, 3]
    values = np.array([[0.5], [1.0], [0.25], [0.0]])
    assert counted.sums(values).tolist() == whole.sums(values[listed]).tolist()


def test_sums_take_one_row_of_values_per_row():
    cells = Cells.build(Y, AB)
    for wrong in (np.ones((5, 1)), np.ones((1, 1)), np.ones(6)):
        with pytest.raises(ValueError, match=r"values .*\(6, outcomes\), .* shape"):
            cells.sums(wrong)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([], "y is empty.*each class"),
        ([[0, 1], [1, 0]], r"y must .*\(n,\).*\(2, 2\)"),
        ([1, 1, 1], r"y has one class only, 1\b.*two"),
        ([0.0, 1.0, math.nan], "y .*missing labels, NaN or infinity.*drop"),
        (np.array([0, 1, np.nan]), r"y contains missing labels, NaN or infinity"),
        (np.array([0, 1, np.inf]), r"y contains missing labels, NaN or infinity"),
        ([0, 1, -math.inf], r"y contains missing labels, NaN or infinity"),
        (["yes", "no", None], r"y contains missing labels"),
        (["yes", "no", math.nan], r"y contains missing labels"),
        (pd.Series([0, 1, None], dtype="Int64"), r"y contains missing labels"),
        ([0, "1", 1], "y mixes text .*one kind"),
        (np.linspace(0, 1, 1001), "y .*1,001 .*1,000 classes"),
    ],
)
def test_labels_that_are_refused(y, sentence):
    with pytest.raises(ValueError, match=sentence):
        Cells.build(y)


def test_pos_label_that_is_refused():
    with refused("pos_label=2", "Labels: 0, 1."):
        Cells.build([0, 1], pos_label=2)
    with refused("pos_label=1", "two classes", "there are 3", "with classes="):
        Cells.build([0, 1, 2], pos_label=1)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["a", "b"], r"2 rows in 'sensitive_feature', .* 6 rows.*one value"),
        ({"sex": ["a"] * 7}, r"7 rows in 'sex', .* 6 rows"),
        ({"sex": [["a", "b"]] * 6}, r"\(6, 2\) in 'sex', .* 6 rows"),
        ("sex", r"sensitive_features .*\(n, columns\), not \(\)"),
        (np.zeros((6, 1, 1)), r"sensitive_features .*\(n, columns\), not \(6, 1, 1\)"),
        ({"sex": [None] * 6}, "'sex' has no known value"),
        ({"sex": [math.nan] * 6}, r"Sensitive column 'sex' has no known value"),
        ({"x": [1.0, 2.0, math.inf] * 2}, "'x' contains infinity.*NaN"),
        ({"x": np.array([1, 2, -np.inf] * 2)}, r"Sensitive column 'x' contains infinity"),
    ],
)
def test_columns_that_are_refused(columns, sentence):
    with pytest.raises(ValueError, match=sentence):
        Cells.build(Y, columns)


def test_a_measurement_is_not_a_group():
    y = [0, 1] * 501
    with refused("'income'", "1,002 distinct values", "1,000 groups"):
        Cells.build(y, {"income": np.arange(1002)})
    with refused("intersection of a, b", "1,002 groups", "1 to 1,000"):
        Cells.build(y, {"a": np.arange(1002) // 2, "b": np.arange(1002) % 2}, groups="both")


def test_an_intersection_that_nobody_is_in_is_refused():
    columns = {"a": ["x", None] * 3, "b": [None, "y"] * 3}
    assert len(Cells.build(Y, columns).groupings) == 2
    with refused("intersection of a, b", "0 groups", "groups='each'"):
        Cells.build(Y, columns, groups="intersection")


def test_an_unknown_way_to_combine_columns_is_refused():
    with refused("groups='all'", "'each', 'intersection' or 'both'"):
        Cells.build(Y, AB, groups="all")


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1, 1], ["weights", "(6,)", "(2,)"]),
        ([1, 1, 1, 1, 1, -1], ["weights is -1 in row 6", "at least 0"]),
        ([1, 1, 1, 1, 1, math.nan], ["weights", "no value in 1 of 6 rows", "row 6"]),
        ([1, 1, 1, 1, 1, math.inf], ["weights is inf in row 6", "finite"]),
        ([0] * 6, ["weights is zero in every row"]),
        ([1e-300] * 5 + [1], ["weights ranges from 1e-300 to 1", "Set the smallest weights to 0"]),
        ([1e200] * 6, ["weights", "1e+200", "1e-100 and 1e+100", "same factor"]),
    ],
)
def test_weights_that_are_refused(weights, sentence):
    with refused(*sentence):
        Cells.build(Y, AB, weights=weights)


def test_an_unknown_column_is_named_beside_the_known_ones():
    with pytest.raises(ValueError, match=r"Unknown sensitive column 'race'\. Known: 'sex', 'age'\."):
        Cells.build(Y, {"sex": SEX, "age": AGE}).grouping("race")
    with pytest.raises(ValueError, match=r"Unknown sensitive column 'race'\. Known: none\."):
        Cells.build(Y).grouping("race")


TWICE = [
    ({1: ["a", "b"], "1": ["a", "b"]}, r"sensitive_features has the columns 1 and '1': give each column a name"),
    (pd.DataFrame([["a", "x"], ["b", "y"]], columns=["sex", "sex"]), r"has the columns 'sex' twice"),
    (pd.DataFrame([["a", "x"], ["b", "y"]], columns=[1, "1"]), r"has the columns 1 and '1'"),
]


@pytest.mark.parametrize(("groups", "words"), TWICE)
def test_a_name_that_is_there_twice_is_refused(groups, words):
    with pytest.raises(ValueError, match=words):
        Cells.build([0, 1], groups)


@pytest.mark.parametrize(("groups", "words"), TWICE)
def test_an_audit_and_a_certificate_refuse_it_too(groups, words):
    with pytest.raises(ValueError, match=words):
        audit([0, 1], [0, 1], groups)
    with pytest.raises(ValueError, match=words):
        certify([0, 1], [0, 1], groups, "disparate_impact >= 0.8")


def test_weights_that_are_no_numbers_are_named():
    for function in (audit, partial(certify, limits="disparate_impact >= 0.8", largest_weight=2.0)):
        with refused("weight", "numbers", "'cook'"):
            function([0, 1], [0, 1], ["a", "b"], sample_weight=[1, "cook"])
