"""Rows in cell order, and samples of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbound.fairness import Cells
from fairbound.training.rows import Rows, as_matrix

LABELS = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1]
GROUPS = ["b", "a", "a", "b", "b", "a", None, "a", "b", "a", None, "b"]


def generator(seed: int = 0):
    return np.random.default_rng(seed).permutation


def number_of_rows_as_inputs(n: int) -> np.ndarray:
    """Inputs that tell which row they are."""
    return np.stack([np.arange(n), np.arange(n) ** 2], axis=1).astype(float)


def build(weights=None, loss_weights=None, labels=LABELS, groups=GROUPS) -> tuple[Rows, Cells]:
    cells = Cells.build(labels, groups, weights=weights)
    return Rows.build(number_of_rows_as_inputs(len(labels)), cells, loss_weights=loss_weights), cells


class TestBuild:
    def test_sorts_rows_by_cell_and_keeps_their_order_within(self):
        rows, cells = build()
        assert np.array_equal(cells.index[rows.positions], np.sort(cells.index))
        for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
            assert (np.diff(rows.positions[start:stop]) > 0).all()

    def test_positions_say_where_every_row_stood(self):
        rows, cells = build()
        assert np.array_equal(rows.X[:, 0].astype(np.int64), rows.positions)
        assert np.array_equal(rows.labels, cells.labels[rows.positions])
        assert sorted(rows.positions.tolist()) == list(range(len(rows)))

    def test_segments_are_the_cells_that_occur(self):
        rows, cells = build()
        assert not rows.halves
        assert rows.n_segments == len(rows.offsets) - 1 == len(rows.cell_of_segment)
        for segment, cell in enumerate(rows.cell_of_segment.tolist()):
            inside = rows.positions[rows.offsets[segment] : rows.offsets[segment + 1]]
            assert np.array_equal(inside, np.flatnonzero(cells.index == cell))

    def test_a_cell_without_rows_has_no_segment(self):
        rows, cells = build(labels=[0, 1, 1, 1], groups=["a", "a", "b", "b"])
        assert cells.n_cells == 4
        assert rows.cell_of_segment.tolist() == [0, 1, 3]
        assert rows.offsets == (0, 1, 2, 4)

    def test_rows_without_a_group_are_kept(self):
        rows, _ = build()
        assert len(rows) == len(LABELS)
        assert {6, 10} <= set(rows.positions.tolist())

    def test_loss_weights_make_a_mean(self):
        rows, _ = build()
        assert rows.loss_weights.dtype == np.float64
        np.testing.assert_allclose(rows.loss_weights, np.full(12, 1 / 12))
        given_weights = np.arange(12.0)
        rows, _ = build(loss_weights=given_weights)
        expected = (given_weights / given_weights.sum())[rows.positions]
        np.testing.assert_allclose(rows.loss_weights, expected, rtol=1e-15, atol=0)

    def test_cell_weights_are_those_of_the_cells(self):
        weights = np.arange(1.0, 13.0)
        rows, cells = build(weights=weights)
        assert np.array_equal(rows.cell_weights, weights[rows.positions])
        assert rows.cell_weights.sum() == cells.totals.sum()

    def test_weights_of_the_constraints_leave_the_loss_alone(self):
        assert np.array_equal(build(weights=np.arange(1.0, 13.0))[0].loss_weights, build()[0].loss_weights)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        "convert",
        [
            lambda X: X,
            lambda X: X.tolist(),
            lambda X: X.astype(np.int64),
            lambda X: X.astype(object),
            torch.from_numpy,
            np.asfortranarray,
        ],
        ids=["array", "list", "integers", "objects", "tensor", "fortran order"],
    )
    def test_inputs_of_many_kinds(self, convert, dtype):
        X = number_of_rows_as_inputs(12)
        rows = Rows.build(convert(X), Cells.build(LABELS, GROUPS), dtype=dtype)
        assert rows.X.dtype == dtype
        assert np.array_equal(rows.X, X.astype(dtype)[rows.positions])

    def test_read_only_arrays_give_no_warning(self):
        X, weights = number_of_rows_as_inputs(12), np.ones(12)
        X.flags.writeable = weights.flags.writeable = False
        Rows.build(X, Cells.build(LABELS, GROUPS), loss_weights=weights)

    def test_tables(self):
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({"number": np.arange(12), "flag": np.arange(12) % 2 == 0})
        rows = Rows.build(table, Cells.build(LABELS, GROUPS))
        assert np.array_equal(rows.X[:, 1], (rows.positions % 2 == 0).astype(np.float32))

    def test_images_keep_their_shape(self):
        rows = Rows.build(
            np.broadcast_to(np.arange(12.0).reshape(12, 1, 1, 1), (12, 3, 4, 4)), Cells.build(LABELS, GROUPS)
        )
        assert rows.X.shape == (12, 3, 4, 4)
        assert np.array_equal(rows.X[:, 2, 1, 1].astype(np.int64), rows.positions)


class TestBadInput:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.zeros(12), r"X must have shape \(n, features\), but has shape \(12,\)"),
            (np.zeros((11, 2)), r"11 rows.* 12\b.*per label"),
            (np.zeros((0, 2)), "X has 0 rows, but y has 12"),
            (np.full((12, 2), "x"), "must hold numbers.*<U1.*encode"),
            (np.array([["x", 1.0]] * 12, dtype=object), "must hold numbers.*object"),
            (np.full((12, 2), 1e300), "too large for float32.*scale"),
        ],
        ids=["one dimension", "a row less", "empty", "text", "mixed", "too large"],
    )
    def test_inputs(self, X, message):
        with pytest.raises(ValueError, match=message):
            Rows.build(X, Cells.build(LABELS, GROUPS), dtype=np.float32)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("convert", [lambda X: X, torch.from_numpy, lambda X: X.astype(object)])
    def test_the_place_of_what_is_not_finite_is_named_in_the_rows_as_given(self, value, convert):
        X = number_of_rows_as_inputs(12)
        X[9, 1] = X[11, 0] = value
        with pytest.raises(ValueError, match=r"NaN or infinity.*row 9, column 1"):
            Rows.build(convert(X), Cells.build(LABELS, GROUPS))

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.ones(11), r"loss_weights .*\(12,\), .*\(11,\)"),
            (np.ones((12, 1)), r"loss_weights .*\(12,\), .*\(12, 1\)"),
            (np.zeros(12), "loss_weights is zero in every row"),
            (-np.ones(12), "loss_weights is -1 in row 1"),
            (np.full(12, np.nan), "loss_weights .* 12 of 12 rows"),
            (np.full(12, np.inf), "loss_weights is inf in row 1"),
        ],
    )
    def test_loss_weights(self, weights, message):
        with pytest.raises(ValueError, match=message):
            build(loss_weights=weights)

    def test_inputs_without_labels_are_checked_too(self):
        assert as_matrix([[1, 2]], None, np.float64).dtype == np.float64
        with pytest.raises(ValueError, match="row 0, column 1"):
            as_matrix([[1.0, np.nan]], None, np.float64)


def sizes_of(rows: Rows) -> np.ndarray:
    return np.diff(rows.offsets)


class TestSample:
    def test_has_the_counts_asked_for_in_two_halves(self):
        rows, _ = build(labels=LABELS * 2, groups=GROUPS * 2)
        sample = rows.sample(np.full((rows.n_segments,), 2), generator())
        assert sample.halves
        assert sizes_of(sample).tolist() == [1] * (2 * rows.n_segments)
        assert np.array_equal(sample.cell_of_segment, rows.cell_of_segment.repeat(2))

    def test_rows_belong_to_their_segments_and_are_drawn_once(self):
        rows, cells = build(labels=LABELS * 3, groups=GROUPS * 3)
        counts = np.minimum(sizes_of(rows), np.array(5))
        sample = rows.sample(counts, generator())
        assert len(sample) == int(counts.sum())
        assert len(set(sample.positions.tolist())) == len(sample)
        cell = np.repeat(sample.cell_of_segment, sizes_of(sample))
        assert np.array_equal(cells.index[sample.positions], cell)
        assert np.array_equal(sample.X[:, 0].astype(np.int64), sample.positions)
        assert np.array_equal(sample.labels, cells.labels[sample.positions])

    @pytest.mark.parametrize(("count", "halves"), [(1, [0, 1]), (2, [1, 1]), (3, [1, 2])])
    def test_the_halves_differ_by_at_most_one(self, count, halves):
        rows, _ = build(labels=LABELS * 3, groups=GROUPS * 3)
        sample = rows.sample(np.full((rows.n_segments,), count), generator())
        assert sizes_of(sample).tolist() == halves * rows.n_segments

    def test_a_row_stands_for_as_many_as_its_share(self):
        weights = np.linspace(0.5, 2.0, 36)
        rows, _ = build(weights=weights, loss_weights=weights, labels=LABELS * 3, groups=GROUPS * 3)
        sizes, counts = sizes_of(rows), np.minimum(sizes_of(rows), np.arange(2, 2 + rows.n_segments))
        sample = rows.sample(counts, generator())
        factor = np.repeat(sizes.astype(np.float64) / counts, counts)
        whole = weights
        # One rounding each: in double precision, not in the single precision that torch divides integers in.
        np.testing.assert_allclose(sample.cell_weights, whole[sample.positions] * factor, rtol=4e-16, atol=0)
        expected = whole[sample.positions] / whole.sum() * factor
        np.testing.assert_allclose(sample.loss_weights, expected, rtol=1e-15, atol=0)

    @given(seed=st.integers(0, 2**31), data=st.data())
    def test_equal_weights_add_up_to_what_they_stand_for(self, seed, data):
        rows, cells = build(labels=LABELS * 2, groups=GROUPS * 2)
        counts = np.array([data.draw(st.integers(1, size)) for size in sizes_of(rows).tolist()])
        sample = rows.sample(counts, generator(seed))
        by_cell = np.bincount(cells.index[sample.positions], sample.cell_weights, cells.n_cells)
        np.testing.assert_allclose(by_cell, cells.totals, rtol=1e-14, atol=0)
        assert float(sample.loss_weights.sum()) == pytest.approx(1.0, abs=1e-14)

    def test_all_rows_are_a_sample_of_weight_one(self):
        rows, cells = build()
        sample = rows.sample(sizes_of(rows), generator())
        assert sorted(sample.positions.tolist()) == list(range(12))
        assert np.array_equal(sample.cell_weights, np.ones(12))
        assert np.array_equal(sample.loss_weights, rows.loss_weights)
        assert np.array_equal(np.bincount(cells.index[sample.positions]), np.bincount(cells.index))

    def test_depends_on_the_generator_alone(self):
        rows, _ = build(labels=LABELS * 3, groups=GROUPS * 3)
        counts = np.full((rows.n_segments,), 2)
        first, same, other = (rows.sample(counts, generator(seed)).positions for seed in (1, 1, 2))
        assert np.array_equal(first, same)
        assert not np.array_equal(first, other)

    def test_every_row_is_drawn_in_the_end(self):
        rows, _ = build()
        source = generator()
        seen: set[int] = set()
        for _ in range(60):  # a row is missed with probability at most (2/3)⁶⁰ < 1e-10
            seen |= set(rows.sample(np.ones(rows.n_segments, dtype=np.int64), source).positions.tolist())
        assert seen == set(range(12))

    @pytest.mark.parametrize("counts", [[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 99], [1, 1], [-1, 1, 1, 1, 1, 1]])
    def test_impossible_counts_are_refused(self, counts):
        rows, _ = build()
        with pytest.raises(ValueError, match=r"6 cells .*\[1, 1"):
            rows.sample(np.array(counts), generator())

    def test_a_sample_of_a_sample_is_refused(self):
        rows, _ = build(labels=LABELS * 2, groups=GROUPS * 2)
        sample = rows.sample(np.full((rows.n_segments,), 2), generator())
        with pytest.raises(ValueError, match="not from a sample"):
            sample.sample(np.ones(sample.n_segments, dtype=np.int64), generator())
