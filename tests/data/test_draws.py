"""One rule draws rows: by their places in the source, and not by how they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbound.data import Stratum, by_stratum, draw_parts, find_cuts, numbers
from fairbound.data.draws import MOST_KEPT


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 2, n), draw.choice(["a", "b", "c", "d"], n, p=[0.6, 0.3, 0.09, 0.01])


def in_blocks(y, group, share, seed, size, processes=1):
    """Draw as files are read: entries of raw values, block by block, in one process or several."""
    found: list[dict] = [{} for _ in range(processes)]
    for number, start in enumerate(range(0, len(y), size)):
        places = np.arange(start, min(start + size, len(y)))
        names, entries = np.unique(
            [f"{label}{word}" for label, word in zip(y[places], group[places], strict=True)], return_inverse=True
        )
        own = found[number % processes]
        for entry, part in by_stratum(share, entries, places, numbers(seed, places)):
            own.setdefault(names[entry], Stratum(share)).join(part)
    whole: dict = {}
    for key, part in (item for own in reversed(found) for item in own.items()):
        whole.setdefault(key, Stratum(share)).join(part)
    cuts = find_cuts(
        np.array([int(key[0]) for key in whole]), [np.array([key[1:] for key in whole])], list(whole.values()), share
    )
    cut_of = dict(zip(whole, cuts, strict=True))
    return numbers(seed, np.arange(len(y))) < [cut_of[f"{label}{word}"] for label, word in zip(y, group, strict=True)]


@given(
    n=st.integers(60, 500),
    share=st.floats(0.2, 0.8),
    seed=st.integers(0, 2**40),
    size=st.integers(1, 200),
    processes=st.integers(1, 3),
)
def test_blocks_and_processes_draw_the_rows_that_memory_draws(n, share, seed, size, processes):
    y, group = rows(n, seed % 7)
    _, drawn = draw_parts(y, [group], share, seed, np.arange(n))
    assert np.flatnonzero(in_blocks(y, group, share, seed, size, processes)).tolist() == drawn.tolist()


def test_large_strata_keep_few_numbers_and_draw_the_same_rows():
    n = 12 * MOST_KEPT
    y, group = np.zeros(n, dtype=int), np.full(n, "a")
    u = numbers(3, np.arange(n))
    streamed = Stratum(0.2)
    for start in range(0, n, 40_000):
        places = np.arange(start, min(start + 40_000, n))
        ((_, part),) = by_stratum(0.2, np.zeros(len(places), dtype=int), places, u[places])
        streamed.join(part)
    assert len(streamed.near) <= MOST_KEPT + 40_000 < n / 5
    wanted = round(0.2 * n)
    assert (u < streamed.cut(wanted)).sum() == wanted
    assert len(draw_parts(y, [group], 0.2, 3, np.arange(n))[1]) == wanted


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


def test_neighbouring_places_and_seeds_have_independent_numbers():
    u = np.stack([numbers(seed, np.arange(20_000)) for seed in range(4)])
    assert abs(np.corrcoef(u)[np.triu_indices(4, 1)]).max() < 5 / np.sqrt(20_000)
    assert abs(np.corrcoef(u[0, 1:], u[0, :-1])[0, 1]) < 5 / np.sqrt(20_000)
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)
