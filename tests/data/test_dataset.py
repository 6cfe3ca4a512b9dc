from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from fairbound.data import Dataset, Split, Table, load_dataset
from fairbound.data.schema import Categorical, Numeric


def toy(rows: int = 40, groups: tuple[str, ...] = ("a", "b")) -> Dataset:
    """Rows whose x₀ is their number, with every (label, group) cell equally large."""
    index = np.arange(rows)
    return Dataset(
        "toy",
        X=np.column_stack([index, index % 3, np.ones(rows)]),
        y=index % 2,
        sensitive={"group": np.array(groups)[(index // 2) % len(groups)], "other": index % 4 // 2},
        feature_names=["number", "remainder", "constant"],
    )


def test_repr_is_short_and_len_counts_rows():
    assert repr(toy()) == "Dataset 'toy': 40 rows, 3 features, sensitive: group, other"
    assert len(toy()) == 40


def test_fields_are_normalised():
    data = Dataset("d", X=[[1], [2]], y=np.array([True, False]), sensitive={"g": ["m", "f"]}, feature_names=["x"])
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert data.sensitive["g"].tolist() == ["m", "f"]
    assert data.feature_names == ("x",)


def test_groups_are_as_given():
    assert toy().groups()[:4].tolist() == ["a", "a", "b", "b"]
    assert toy().groups("other")[:4].tolist() == [0, 0, 1, 1]


def test_counts_by_group_and_label():
    assert toy(8).counts() == {("a", 0): 2, ("a", 1): 2, ("b", 0): 2, ("b", 1): 2}


def test_take_keeps_rows_together():
    part = toy().take([5, 2])
    assert part.X[:, 0].tolist() == [5, 2]
    assert part.y.tolist() == [1, 0]
    assert part.groups().tolist() == ["a", "b"]


@given(rows=st.integers(16, 200), test_size=st.floats(0.3, 0.7), seed=st.integers(0, 2**32 - 1))
def test_split_is_a_partition_that_keeps_the_shares_of_the_cells(rows, test_size, seed):
    data = toy(rows)
    train, test = data.split(test_size, random_state=seed, scale=False, by=["group"])
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(rows))
    for cell, count in data.counts().items():
        # Stratification rounds: a cell's part is within one row of its share, and the total is rounded, too.
        assert abs(test.counts().get(cell, 0) - test_size * count) < 2


def test_a_column_to_split_by_needs_no_list():
    data = load_dataset("law")
    one, listed = data.split(by="race"), data.split(by=["race"])
    assert (one.test.y == listed.test.y).all()


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_three_tables_of_the_same_rows(backend):
    data = load_dataset("law").take(np.arange(50))
    X, y, sensitive = data.frames(backend=backend)
    names = [list(getattr(each, "column_names", None) or each.columns) for each in (X, y, sensitive)]
    assert names == [list(data.schema), ["pass_bar"], ["race", "sex"]]
    assert np.asarray(y["pass_bar"]).tolist() == data.y.tolist()
    assert [str(group) for group in np.asarray(sensitive["race"])] == data.groups("race").tolist()
    assert list(Dataset("toy", [[0.0]], [1], {}, ["x"]).frames().sensitive) == []


def test_split_repeats_with_its_seed_and_changes_with_another():
    rows = [tuple(toy().split(random_state=seed, scale=False).test.X[:, 0]) for seed in (3, 3, 4)]
    assert rows[0] == rows[1] != rows[2]


def test_split_does_not_touch_the_global_seed():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is tested
    toy().split()
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_scaling_is_fitted_on_the_training_part_only():
    plain, scaled = toy().split(scale=False), toy().split()
    mean, deviation = plain.train.X.mean(axis=0), plain.train.X.std(axis=0)
    deviation[2] = 1.0  # the constant column is centred, not divided by zero
    for before, after in zip(plain, scaled, strict=True):
        # Two orders of summation differ by a few units in the last place of numbers up to 40.
        np.testing.assert_allclose(after.X, (before.X - mean) / deviation, rtol=0, atol=1e-13)
    assert isinstance(scaled, Split)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_split_takes_rows_without_a_group(missing):
    values = np.array(["a", "b", missing, "a"] * 20, dtype=object)
    data = Dataset("d", X=np.zeros((80, 1)), y=np.arange(80) // 4 % 2, sensitive={"g": values}, feature_names=["x"])
    train, test = data.split(0.5)
    for part in (train, test):
        assert sum(value is None or value != value for value in part.groups()) == 10  # half of 10 in each of two strata


def test_split_of_a_cell_with_one_row_says_which():
    data = Dataset(
        "d", np.zeros((5, 1)), [0, 0, 1, 1, 1], sensitive={"g": ["a", "a", "a", "a", "b"]}, feature_names=["x"]
    )
    with refused("label 1 and group (b)", "by="):
        data.split(by=["g"])
    assert len(data.split(0.4, by=[]).test) == 2
    assert len(data.split(0.4).test) == 2  # by default such a row joins the largest group of its label


def test_split_of_a_label_with_one_row():
    data = Dataset("d", np.zeros((5, 1)), [0, 0, 0, 0, 1], sensitive={"g": list("aabba")}, feature_names=["x"])
    for by in (None, ["g"], []):
        with refused("Only one row has label 1"):
            data.split(0.4, by=by)


def test_split_by_default_keeps_the_shares_of_the_groups_that_are_large_enough():
    groups = np.array(["a"] * 100 + ["b"] * 50 + ["c", "d"])
    data = Dataset("d", np.arange(152.0)[:, None], np.arange(152) % 2, sensitive={"g": groups}, feature_names=["x"])
    train, test = data.split(0.5, scale=False)
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(152))
    for group in "ab":
        # Two of the rows in these strata are strangers, and stratification rounds.
        assert abs((test.groups() == group).sum() - 0.5 * (groups == group).sum()) <= 2


def test_split_with_too_few_rows_for_the_strata():
    with refused("test_size=0.05", "2 of 40 rows", "4 strata", "by="):
        toy().split(0.05)


@pytest.mark.parametrize("test_size", [0.0, 1.0, -0.5, 7, float("nan")])
def test_split_size_out_of_range(test_size):
    with refused(f"test_size={test_size!r}", "above 0 and below 1"):
        toy().split(test_size)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"X": [1.0, 2.0]}, ValueError, r"X has shape \(2,\); give a matrix"),
        ({"X": np.zeros((0, 1))}, ValueError, "there is no row"),
        ({"X": [[1.0], [np.inf]]}, ValueError, r"X\[1, 0\] is inf"),
        ({"X": [[np.nan], [-np.inf]]}, ValueError, r"X\[1, 0\] is -inf; give finite numbers, or NaN"),
        ({"feature_names": ["x", "z"]}, ValueError, "X has 1 columns, but feature_names has 2"),
        ({"y": [0, 1, 1]}, ValueError, r"y has shape \(3,\), but X has 2 rows"),
        ({"y": [0, 2]}, ValueError, "y contains 2; give label codes from 0 to 1"),
        ({"y": [0.0, 1.0]}, TypeError, "y has dtype float64; give integer label codes"),
        ({"y": ["no", "yes"]}, TypeError, "give integer label codes"),
        ({"sensitive": {"g": ["a"]}}, ValueError, r"sensitive\['g'\] has shape \(1,\)"),
    ],
)
def test_bad_fields_raise_one_sentence(change, error, words):
    fields = {"X": [[1.0], [2.0]], "y": [0, 1], "sensitive": {"g": ["a", "b"]}, "feature_names": ["x"]}
    with pytest.raises(error, match=words):
        Dataset("d", **(fields | change))


def test_unknown_sensitive_column():
    with pytest.raises(ValueError, match=r"no sensitive column 'sex'. Known: group, other"):
        toy().groups("sex")
    with pytest.raises(ValueError, match="has no sensitive column"):
        Dataset("d", [[1.0]], [0], sensitive={}, feature_names=["x"]).groups()


def mixed() -> Dataset:
    """Six rows with numbers, codes and words, of each kind one missing."""
    table = Table(
        (
            Numeric("age"),
            Categorical("job", {1: "cook", 2: "nurse", 3: "smith", None: "(missing)"}),
            Categorical("town", {"Bonn": "Bonn", "Köln": "Köln", None: "(missing)"}),
        ),
        {
            "age": np.array([30, np.nan, 41, 52, 28, 33]),
            "job": np.array([1, 2, np.nan, 3, 3, 1]),
            "town": np.array(["Bonn", "Köln", "Bonn", None, "Köln", "Bonn"], dtype=object),
        },
    )
    groups = np.array(["f", "m", "f", None, "m", "f"], dtype=object)
    return Dataset.from_table(
        "mixed", table, [0, 1, 0, 1, 1, 0], {"sex": groups}, target_names=("no", "yes"), target="ok"
    )


def test_from_table_encodes_by_the_schema():
    data = mixed()
    assert data.feature_names == (
        "age", "job=cook", "job=nurse", "job=smith", "job=(missing)", "town=Bonn", "town=Köln", "town=(missing)",
    )  # fmt: skip
    np.testing.assert_array_equal(data.X[1], [np.nan, 0, 1, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(data.X[2], [41, 0, 0, 0, 1, 1, 0, 0])
    assert repr(data) == "Dataset 'mixed': 6 rows, 8 features, 3 values missing, sensitive: sex"
    assert data.categorical == ("job", "town")
    assert data.schema["age"] == Numeric("age")


def test_a_matrix_is_a_table_of_numbers():
    data = toy(6)
    assert data.categorical == ()
    assert list(data.schema) == ["number", "remainder", "constant"]
    np.testing.assert_array_equal(data.frame().to_numpy(), data.X)


def test_the_table_follows_the_rows_and_not_the_scale():
    data = load_dataset("law")
    train, test = data.split(0.3, random_state=4)
    plain = data.split(0.3, random_state=4, scale=False)
    for part, other in zip((train, test), plain, strict=True):
        np.testing.assert_array_equal(part.table.columns["lsat"], other.X[:, data.feature_names.index("lsat")])
    assert train.table.schema == data.table.schema


def test_joined_parts_have_all_rows():
    data = mixed()
    whole = Split(data.take([4, 1]), data.take([0, 2, 3])).joined()
    assert whole.y.tolist() == [1, 1, 0, 0, 1]
    assert whole.sensitive["sex"].tolist() == ["m", "m", "f", "f", None]
    assert whole.table.columns["town"].tolist() == ["Köln", "Köln", "Bonn", "Bonn", None]
    np.testing.assert_array_equal(whole.X, data.X[[4, 1, 0, 2, 3]])


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_counts_has_one_entry_for_all_rows_without_a_group(missing):
    data = Dataset(
        "d", np.zeros((4, 1)), [0, 0, 1, 1], sensitive={"g": ["a", missing, missing, missing]}, feature_names=["x"]
    )
    assert data.counts() == {(None, 0): 1, (None, 1): 2, ("a", 0): 1}


def test_missing_numbers_are_kept_and_scaled_around():
    X = np.array([[1.0], [np.nan], [3.0], [5.0]])
    data = Dataset("d", X, [0, 1, 0, 1], sensitive={}, feature_names=["x"])
    assert np.isnan(data.X).sum() == 1
    train, test = data.split(0.5)
    assert sum(np.isnan(part.X).sum() for part in (train, test)) == 1


def test_a_column_with_the_name_of_the_label():
    data = Dataset("d", [[1.0], [2.0]], [0, 1], sensitive={}, feature_names=["label"])
    assert list(data.frame().columns) == ["label"]
    with refused("'label'", "target=True"):
        data.frame(target=True)
