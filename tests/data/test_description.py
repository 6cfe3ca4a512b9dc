"""The statistics of a data set, against hand-made counts; the paper's table is in test_loading."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fairbound.data import Dataset


def counted(cells: dict[tuple[object, int], int], labels: tuple[str, ...] = ("no", "yes")) -> Dataset:
    """A data set with the given numbers of rows by group and label."""
    rows = [cell for cell, count in cells.items() for _ in range(count)]
    groups = np.array([group for group, _ in rows], dtype=object)
    y = np.array([label for _, label in rows])
    return Dataset("d", np.zeros((len(rows), 1)), y, {"g": groups}, ["x"], labels)


def test_two_groups_by_hand():
    found = counted({("a", 1): 6, ("a", 0): 2, ("b", 1): 3, ("b", 0): 9}).describe()
    assert found.n == 20
    assert found.groups == ("a", "b")
    assert found.counts.tolist() == [[2, 6], [9, 3]]
    assert found.base_rates == {"a": 0.75, "b": 0.25}
    assert found.representation == {"a": 2 / 3, "b": 1 / 3}
    assert found.dpvrl == 0.5
    assert found.drivrl == pytest.approx(1 / 3, rel=1e-15)
    assert found.dirl == pytest.approx(1 / 3, rel=1e-15)
    assert found.constant_accuracies == {"no": 0.55, "yes": 0.45}
    assert found.n_missing_group == 0


def test_the_other_label_may_be_the_positive_one():
    found = counted({("a", 1): 6, ("a", 0): 2, ("b", 1): 3, ("b", 0): 9}).describe(positive=0)
    assert found.base_rates == {"a": 0.25, "b": 0.75}
    assert found.to_dict()["positive"] == "no"


def test_with_more_groups_the_two_furthest_apart_count():
    found = counted({("a", 1): 1, ("a", 0): 9, ("b", 1): 5, ("b", 0): 5, ("c", 1): 4, ("c", 0): 16}).describe()
    assert found.dpvrl == pytest.approx(0.4, rel=1e-15)
    assert found.dirl == pytest.approx(0.2, rel=1e-15)
    assert found.drivrl == pytest.approx(0.4, rel=1e-15)


def test_three_classes():
    found = counted({("a", 0): 1, ("a", 1): 2, ("a", 2): 1, ("b", 2): 4}, ("low", "mid", "high")).describe(positive=2)
    assert found.base_rates == {"a": 0.25, "b": 1.0}
    assert found.constant_accuracies == {"low": 0.125, "mid": 0.25, "high": 0.625}


def test_rows_without_a_group_count_in_the_labels_only():
    found = counted({("a", 1): 1, ("b", 0): 1, (None, 1): 2}).describe()
    assert found.n == 4
    assert found.n_missing_group == 2
    assert found.groups == ("a", "b")
    assert found.constant_accuracies["yes"] == 0.75
    assert found.representation == {"a": 1.0, "b": 0.0}
    assert "without a group: 2 rows" in repr(found)


def test_no_sensitive_column_at_all():
    found = Dataset("d", np.zeros((2, 1)), [0, 1], {}, ["x"]).describe()
    assert found.groups == ()
    assert math.isnan(found.dpvrl)
    assert math.isnan(found.drivrl)
    assert math.isnan(found.dirl)
    assert "DPVRL" not in repr(found)


def test_nobody_has_the_positive_label():
    found = counted({("a", 0): 3, ("b", 0): 2}).describe()
    assert found.dpvrl == 0
    assert found.dirl == 1  # 0 ≤ δ·0 for every δ
    assert math.isnan(found.drivrl)
    assert found.to_dict()["drivrl"] is None
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert counted({("a", 0): 3, ("b", 1): 2}).describe().dirl == 0


def test_it_prints_as_a_table():
    text = repr(counted({("a", 1): 6, ("a", 0): 2000, ("b", 1): 3, ("b", 0): 9}).describe())
    assert text.splitlines() == [
        "Data set 'd': 2,018 rows, S = g",
        "                 a       b     all",
        "Y = 0: no    2,000       9   2,009",
        "Y = 1: yes       6       3       9",
        "rows         2,006      12   2,018",
        "P(Y=1 | S)  0.0030  0.2500  0.0045",
        "P(S | Y=1)  0.6667  0.3333",
        "DPVRL 0.2470   DRIVRL 0.3333   DIRL 0.0120",
        "accuracy of a constant: no: 0.9955   yes: 0.0045",
    ]


def test_it_goes_to_json():
    found = counted({(1, 1): 6, (1, 0): 2, (2, 1): 3, (2, 0): 9}).describe()
    back = json.loads(json.dumps(found.to_dict()))
    assert back["groups"]["2"] == {"n": 12, "labels": {"no": 9, "yes": 3}, "base_rate": 0.25, "representation": 1 / 3}
    assert back["labels"] == {"no": 11, "yes": 9}


@pytest.mark.parametrize("positive", [-1, 2])
def test_positive_out_of_range(positive):
    with pytest.raises(ValueError, match=f"positive={positive} must be .* from 0 to 1"):
        counted({("a", 1): 1, ("b", 0): 1}).describe(positive=positive)


def test_unknown_column():
    with pytest.raises(ValueError, match="no sensitive column 'h'"):
        counted({("a", 1): 1, ("b", 0): 1}).describe("h")


@given(counts=hnp.arrays(np.int64, st.tuples(st.integers(1, 5), st.just(2)), elements=st.integers(0, 30)))
def test_it_agrees_with_the_definitions(counts):
    cells = {(f"g{group}", label): int(counts[group, label]) for group in range(len(counts)) for label in (0, 1)}
    if not counts.sum():
        return
    data = counted(cells)
    found, groups = data.describe(), data.groups()
    for group, rate in found.base_rates.items():
        assert rate == data.y[groups == group].mean()
    rates = list(found.base_rates.values())
    assert found.dpvrl == max(abs(a - b) for a in rates for b in rates)
    if min(rates) > 0:
        assert found.dirl == min(a / b for a in rates for b in rates)
    assert sum(found.constant_accuracies.values()) == pytest.approx(1, rel=1e-15)
