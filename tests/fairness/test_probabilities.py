"""Groups that are known with probabilities: reading them, and dividing rows among groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairbound.fairness import (
    Cells,
    ConstraintSystem,
    as_constraints,
    decision_indicators,
    rate_limit,
    read_probabilities,
)

RACE = {"a": [0.7, 0.0, 0.5], "b": [0.2, 1.0, 0.5]}


@pytest.mark.parametrize(
    "table",
    [
        RACE,
        pd.DataFrame(RACE),
        pl.DataFrame(RACE),
        np.array([(0.7, 0.2), (0.0, 1.0), (0.5, 0.5)], dtype=[("a", float), ("b", float)]),
    ],
)
def test_tables_of_any_kind_are_read_alike(table):
    found = read_probabilities("race", table)
    assert found.dtype.names == ("a", "b")
    assert {group: found[group].tolist() for group in "ab"} == RACE


def test_an_array_has_numbered_groups():
    assert read_probabilities("race", np.array([[0.5, 0.5], [1, 0]])).dtype.names == ("0", "1")


def test_a_single_column_has_a_complement():
    found = read_probabilities("age", {"old": [0.25, np.nan]})
    assert found.dtype.names == ("old", "not old")
    assert found.tolist()[0] == (0.25, 0.75)
    assert np.isnan(found["not old"][1])


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ({"a": [0.5, 1.2]}, ("'race'", "row 2", "a: 1.2", "from 0 to 1")),
        ({"a": [0.5, -0.1]}, ("row 2", "-0.1", "from 0 to 1")),
        ({"a": [0.5, 0.7], "b": [0.5, 0.6]}, ("row 2", "a: 0.7, b: 0.6", "add up to at most 1", "divide")),
        ({"a": [0.5, None], "b": [0.5, 0.6]}, ("row 2", "all groups, or for none")),
        ({"a": ["likely", 1]}, ("'a'", "'likely'", "numbers")),
        ({"a": [[0.5], [0.5]]}, ("shape",)),
        ({"a": [0.5, 0.5], "b": [0.1]}, ("different numbers of rows",)),
        ({"a": [None, None]}, ("no known value",)),
        ({}, ("no group",)),
        ({"": [0.5, 0.5], "b": [0.5, 0.5]}, ("a group without a name", "named column")),
        (pd.DataFrame({1: [0.5, 0.5], "1": [0.5, 0.5]}), ("1 and '1'", "a name of its own")),
    ],
)
def test_bad_probabilities_are_named(table, parts):
    with pytest.raises(ValueError) as caught:
        read_probabilities("race", table)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_a_wrong_number_of_rows():
    with pytest.raises(ValueError, match="3 rows"):
        Cells.build([0, 1, 1], {"race": {"a": [0.5, 0.5]}})


def test_probabilities_that_exceed_1_by_rounding_are_divided_by_their_sum():
    found = read_probabilities("race", {"a": [0.7000001], "b": [0.3000001]})
    assert found["a"][0] + found["b"][0] == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ValueError, match="must add up to at most 1"):
        read_probabilities("race", {"a": [0.700002], "b": [0.3]})


def test_an_array_of_one_column_has_groups_and_of_two_columns_probabilities():
    y, column = [0, 1, 0, 1], np.array([[0.0], [0.0], [1.0], [1.0]])
    assert Cells.build(y, {"race": np.hstack([column, 1.0 - column])}).groupings[0].groups == ("0", "1")
    with pytest.raises(ValueError, match=r"shape \(4, 1\) in 'race'"):
        Cells.build(y, {"race": column})


def test_sums_are_weighted_counts_by_hand():
    y, weights = [1, 0, 1], [1.0, 2.0, 4.0]
    cells = Cells.build(y, {"race": RACE}, weights=weights)
    assert cells.n_rows == 3
    counts = cells.group_counts()["race"]
    assert counts["a"] == {0: 0.0, 1: pytest.approx(0.7 + 4 * 0.5)}
    assert counts["b"] == {0: 2.0, 1: pytest.approx(0.2 + 4 * 0.5)}
    assert cells.totals.sum() == pytest.approx(7.0)  # what is unknown of a row counts, too, in no group
    assert cells.missing_rows(cells.groupings[0]) == 0
    assert cells.group_sizes(cells.groupings[0]) == [1, 2]  # 1.2 and 1.7 rows


def test_rates_and_covariance_with_a_number_between_0_and_1():
    rng = np.random.default_rng(0)
    age, y, decided = rng.random(200), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    cells = Cells.build(y, {"age": {"old": age}})
    limits = ["disparate_impact >= 0.8", rate_limit("true_positive_rate", group="old", lower=0.2), "covariance <= 0.1"]
    for limit, expected in zip(
        limits,
        [
            np.divide(*sorted([np.average(decided, weights=age), np.average(decided, weights=1 - age)])),
            np.average(decided[y == 1], weights=age[y == 1]),
            abs(np.mean(age * decided) - age.mean() * decided.mean()),
        ],
        strict=True,
    ):
        system = ConstraintSystem.compare(as_constraints(limit), cells)
        indicators = np.stack([decided == 1, decided == 0], axis=1)
        sums = cells.sums(cells.of_entries(indicators))
        value = system.measured(np.broadcast_to(sums, (len(system.surrogates), *sums.shape)))
        assert value == [pytest.approx(expected)]


def test_several_columns_multiply_and_each_has_its_own_sums():
    sex = ["f", "m", "f"]
    cells = Cells.build([0, 1, 1], {"sex": sex, "race": RACE}, groups="both")
    sums = {
        name: {group: sum(by.values()) for group, by in found.items()} for name, found in cells.group_counts().items()
    }
    assert sums["sex"] == {"f": pytest.approx(2.0), "m": pytest.approx(1.0)}
    assert sums["race"] == {"a": pytest.approx(1.2), "b": pytest.approx(1.7)}
    assert sums["sex & race"][("f", "a")] == pytest.approx(1.2)


def test_probabilities_of_0_and_1_are_plain_groups():
    rng = np.random.default_rng(1)
    y, group = rng.integers(0, 3, 60), rng.choice(["a", "b", "c"], 60)
    plain = Cells.build(y, {"g": group})
    divided = Cells.build(y, {"g": {each: (group == each).astype(float) for each in "abc"}})
    for name in ("index", "labels", "weights", "totals"):
        assert getattr(plain, name).tolist() == getattr(divided, name).tolist()
    assert plain.group_counts() == divided.group_counts()


def test_parts_of_divided_rows_keep_their_division():
    cells = Cells.build([0, 1, 1], {"race": RACE})
    some = cells.take(np.asarray(cells.division.rows) != 1)
    assert some.n_rows == 2
    indicators = decision_indicators(some.labels, some.outcomes)
    assert some.sums(indicators).sum() == pytest.approx(2.0)
