"""Distinct values by counting and hashing are those by sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fairbound._distinct import distinct
from fairbound.fairness import Cells

DTYPES = st.sampled_from(["bool", "int8", "int64", "uint8", "uint64", "<U3", "S2", "float64"])


@given(DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, st.integers(0, 12))))
def test_as_by_sorting(array):
    values, codes = distinct(array)
    expected, places = np.unique(array, return_inverse=True)
    assert values.dtype == expected.dtype
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(codes, places)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, 3]), st.booleans()), min_size=2, max_size=20))
def test_combinations_of_columns_as_by_sorting(rows):
    y = np.arange(len(rows)) % 2
    columns = {name: np.array(column) for name, column in zip("pqr", zip(*rows, strict=True), strict=True)}
    cells = Cells.build(y, columns, groups="both")
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.values()], axis=1)
    _, atom = np.unique(codes, axis=0, return_inverse=True)
    np.testing.assert_array_equal(np.asarray(cells.index), atom.reshape(-1) * 2 + y)
