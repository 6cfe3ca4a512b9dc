"""Batches: fixed numbers per cell, the rows of the constraints, and repeatability."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbound.fairness import Cells
from fairbound.training import Batch, FullBatch, Rows, StratifiedBatches


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_rows(counts: dict[tuple[str, int], int]) -> tuple[Rows, Cells]:
    """Rows in random order, with so many of each (group, label)."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    order = np.random.default_rng(0).permutation(len(pairs))
    groups, labels = [pairs[i][0] for i in order], [pairs[i][1] for i in order]
    cells = Cells.build(labels, groups)
    return Rows.build(np.arange(len(pairs))[:, None].astype(float), cells), cells


COUNTS = {("a", 0): 40, ("a", 1): 30, ("b", 0): 20, ("b", 1): 10}


def counts_of(batch: Rows, cells: Cells) -> list[int]:
    return np.bincount(cells.index[batch.positions], minlength=cells.n_cells).tolist()


class TestFullBatch:
    def test_is_all_rows_once(self):
        rows, _ = make_rows(COUNTS)
        batches = FullBatch(rows)
        assert batches.rows is rows
        assert [batch is rows for batch in batches] == [True]
        assert [batch is rows for batch in batches] == [True]


class TestNumbers:
    def test_every_batch_has_the_same_numbers_in_proportion(self):
        rows, cells = make_rows(COUNTS)
        batches = StratifiedBatches(rows, 20, generator=generator())
        drawn = [counts_of(batch.loss, cells) for batch in batches]
        assert drawn == [[8, 6, 4, 2]] * 5

    def test_small_cells_give_their_least(self):
        rows, cells = make_rows({**COUNTS, ("b", 1): 3, ("c", 0): 1, ("c", 1): 2})
        batch = next(iter(StratifiedBatches(rows, 10, generator=generator(), least_per_cell=3)))
        assert counts_of(batch.loss, cells)[3:] == [3, 1, 2]

    @given(batch_size=st.integers(1, 106), least=st.integers(1, 5))
    def test_numbers_stay_between_the_least_and_all(self, batch_size, least):
        rows, _ = make_rows({**COUNTS, ("c", 0): 4, ("c", 1): 2})
        counts = StratifiedBatches(rows, batch_size, constraints="batch", least_per_cell=least).counts
        sizes = np.diff(rows.offsets)
        assert (counts >= np.minimum(sizes, least)).all()
        assert (counts <= sizes).all()
        # In proportion, up to rounding and the least.
        assert (np.abs(counts - sizes * batch_size / 106) <= max(0.5, least)).all()

    def test_a_batch_of_all_rows_is_all_rows(self):
        rows, _ = make_rows(COUNTS)
        (batch,) = StratifiedBatches(rows, 100, constraints="batch", generator=generator())
        assert sorted(batch.loss.positions.tolist()) == list(range(100))
        assert np.array_equal(batch.loss.loss_weights, np.full(100, 0.01))

    @pytest.mark.parametrize(
        ("batch_size", "steps"),
        [(100, 1), (50, 2), (30, 3), (10, 9)],  # at 10: 4 + 3 + 2 + 2 rows are drawn
    )
    def test_an_epoch_is_about_as_many_rows_as_there_are(self, batch_size, steps):
        rows, _ = make_rows(COUNTS)
        batches = StratifiedBatches(rows, batch_size, generator=generator())
        assert len(list(batches)) == batches.steps_per_epoch == steps

    def test_an_epoch_counts_what_is_drawn_and_not_what_was_asked_for(self):
        rows, _ = make_rows({(group, label): 10 for group in "abcdefghij" for label in (0, 1)})
        batches = StratifiedBatches(rows, 5, generator=generator())
        assert batches.counts.tolist() == [2] * 20
        assert batches.steps_per_epoch == 200 // 40


class TestWeights:
    def test_rows_stand_for_their_cell(self):
        rows, cells = make_rows(COUNTS)
        batch = next(iter(StratifiedBatches(rows, 7, generator=generator())))
        for each in (batch.loss, batch.constraints):
            by_cell = np.bincount(cells.index[each.positions], each.cell_weights, 4)
            np.testing.assert_allclose(by_cell, cells.totals, rtol=1e-14, atol=0)
            assert float(each.loss_weights.sum()) == pytest.approx(1.0, abs=1e-14)


class TestRowsOfTheConstraints:
    def test_on_the_batch(self):
        rows, _ = make_rows(COUNTS)
        batches = list(StratifiedBatches(rows, 20, constraints="batch", generator=generator()))
        assert all(isinstance(batch, Batch) and batch.constraints is batch.loss for batch in batches)

    def test_on_all_rows(self):
        rows, _ = make_rows(COUNTS)
        assert all(
            batch.constraints is rows for batch in StratifiedBatches(rows, 20, constraints="all", generator=generator())
        )

    def test_on_a_subset_that_stays_the_same_over_batches_and_epochs(self):
        rows, cells = make_rows(COUNTS)
        batches = StratifiedBatches(rows, 20, generator=generator())  # the default
        subsets = [batch.constraints for _ in range(3) for batch in batches]
        assert all(subset is subsets[0] for subset in subsets)
        assert counts_of(subsets[0], cells) == [13, 10, 7, 3]  # a third

    @pytest.mark.parametrize(("share", "counts"), [(1.0, [40, 30, 20, 10]), (0.5, [20, 15, 10, 5]), (1e-6, [2] * 4)])
    def test_the_share_of_the_subset(self, share, counts):
        rows, cells = make_rows(COUNTS)
        batches = StratifiedBatches(rows, 20, subset=share, generator=generator())
        assert counts_of(batches.constraint_rows, cells) == counts


class TestChance:
    def test_a_generator_makes_it_repeatable(self):
        rows, _ = make_rows(COUNTS)

        def draws(seed: int) -> list[list[int]]:
            batches = StratifiedBatches(rows, 20, generator=generator(seed))
            return [part.positions.tolist() for batch in batches for part in (batch.loss, batch.constraints)]

        assert draws(1) == draws(1)
        assert draws(1) != draws(2)

    def test_without_a_generator_it_is_repeatable_too_and_touches_no_global_one(self):
        rows, _ = make_rows(COUNTS)
        before = torch.get_rng_state()
        first = [batch.loss.positions.tolist() for batch in StratifiedBatches(rows, 20)]
        assert np.array_equal(torch.get_rng_state(), before)
        torch.rand(3)
        assert [batch.loss.positions.tolist() for batch in StratifiedBatches(rows, 20)] == first

    def test_batches_and_epochs_differ(self):
        rows, _ = make_rows(COUNTS)
        batches = StratifiedBatches(rows, 20, generator=generator())
        drawn = [tuple(batch.loss.positions.tolist()) for _ in range(2) for batch in batches]
        assert len(set(drawn)) == 10


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"batch_size": 0}, r"batch_size=0\b.* 1 .* 100"),
            ({"batch_size": 101}, r"batch_size=101\b.* 1 .* 100"),
            ({"batch_size": 10, "constraints": "some"}, r"constraints='some'.*\"batch\", \"subset\" or \"all\""),
            ({"batch_size": 10, "subset": 0.0}, r"subset=0\.0\b.*above 0"),
            ({"batch_size": 10, "subset": 1.5}, r"subset=1\.5\b.*at most 1"),
            ({"batch_size": 10, "subset": float("nan")}, "subset=nan"),
            ({"batch_size": 10, "least_per_cell": 0}, "least_per_cell=0: must be at least 1"),
        ],
    )
    def test_misuse_is_named(self, arguments, message):
        rows, _ = make_rows(COUNTS)
        with pytest.raises(ValueError, match=message):
            StratifiedBatches(rows, **arguments)
