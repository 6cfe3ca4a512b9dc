"""One rule draws rows: by their places in the source, and not by how they are read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import copy
from threading import Barrier

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairbound.data import draw_parts


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 2, n), draw.choice(["a", "b", "c", "d"], n, p=[0.6, 0.3, 0.09, 0.01])


class Threads:
    """Processes that are threads, in the same order."""

    def __init__(self, count):
        self.count, self.found, self.barrier = count, {}, Barrier(count)

    def of_rank(self, rank):
        own = copy(self)
        own.rank = rank
        return own

    def gather(self, value):
        self.found[self.rank] = value
        self.barrier.wait()
        return [self.found[rank] for rank in range(self.count)]

    def together(self):
        return nullcontext()


@given(
    n=st.integers(60, 500),
    share=st.floats(0.2, 0.8),
    seed=st.integers(0, 2**40),
    size=st.integers(1, 200),
    count=st.integers(1, 3),
)
@settings(deadline=None)
def test_processes_draw_the_rows_that_one_draws(n, share, seed, size, count):
    y, group = rows(n, seed % 7)
    _, drawn = draw_parts(y, [group], share, seed, np.arange(n))
    processes = Threads(count)

    def draw(rank):
        own = np.flatnonzero(np.arange(n) // size % count == rank)
        return own[draw_parts(y[own], [group[own]], share, seed, own, processes=processes.of_rank(rank))[1]]

    assume(len(np.unique(np.arange(n) // size % count)) == count)
    with ThreadPoolExecutor(count) as pool:
        found = np.concatenate(list(pool.map(draw, range(count))))
    assert sorted(found.tolist()) == drawn.tolist()


def test_the_names_of_groups_do_not_matter():
    y, group = rows(300)
    renamed = np.array([{"a": "z", "b": "y", "c": "x", "d": "w"}[word] for word in group])
    first, second = (draw_parts(y, [words], 0.3, 0, np.arange(300))[1] for words in (group, renamed))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("share", [0.1, 0.2, 0.35, 0.5])
def test_every_stratum_has_its_share_to_one_row_and_all_of_them_together_to_rounding(share):
    y, group = rows(2000)
    kept, drawn = draw_parts(y, [group], share, 1, np.arange(2000))
    assert len(drawn) == round(share * 2000)
    assert sorted([*kept, *drawn]) == list(range(2000))
    for label in (0, 1):
        for word in "abcd":
            own = (y == label) & (group == word)
            assert abs(own[drawn].sum() - share * own.sum()) <= 1


def test_each_row_is_drawn_with_the_same_probability():
    y, group = rows(40)
    y[:4], group[:4] = [0, 0, 1, 1], "a"
    times = np.zeros(40)
    for seed in range(2000):
        times[draw_parts(y, [], 0.25, seed, np.arange(40))[1]] += 1
    expected = 2000 * 0.25
    # 40 binomial counts with deviation 19.4; 5 deviations are exceeded by chance once in 40,000 tests.  The numbers
    # drawn of each label are fixed, and need not be exactly a quarter of it.
    for label in (0, 1):
        own = times[y == label]
        assert abs(own - own.mean()).max() < 5 * np.sqrt(expected * 0.75)
