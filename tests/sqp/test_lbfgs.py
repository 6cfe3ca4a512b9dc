"""Limited-memory BFGS: its compact forms against the textbook recursion, and what keeps it positive definite."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbound.sqp import LimitedMemoryBFGS, Metric


def curved_pairs(seed: int, n: int, count: int, spread: float = 2.0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs (s, As) of a random positive definite A with condition number 10^spread."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
    A = basis @ np.diag(np.logspace(0, spread, n)) @ basis.T
    return [(s, A @ s) for s in rng.normal(size=(count, n))]


def recursion(pairs: list[tuple[np.ndarray, np.ndarray]], scale: float) -> np.ndarray:
    """Return the dense matrix of the BFGS recursion from scale · I."""
    H = scale * np.eye(len(pairs[0][0]))
    for s, r in pairs:
        Hs = H @ s
        H = H - np.outer(Hs, Hs) / (s @ Hs) + np.outer(r, r) / (s @ r)
    return H


def undamped(
    pairs: list[tuple[np.ndarray, np.ndarray]], memory: int
) -> tuple[LimitedMemoryBFGS, list[tuple[np.ndarray, np.ndarray]]]:
    """A matrix of those pairs that it takes unchanged, and the pairs it holds."""
    hessian, held = LimitedMemoryBFGS(memory=memory), []
    for s, r in pairs:
        if hessian.pairs == 0 or float(s @ r) >= 0.2 * float(s @ hessian.product(s)):
            hessian.update(s, r)
            held.append((s, r))
    return hessian, held[-memory:]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), count=st.integers(1, 12), memory=st.sampled_from([1, 3, 20]))
def test_compact_forms_are_the_bfgs_recursion(seed, n, count, memory):
    hessian, held = undamped(curved_pairs(seed, n, count), memory)
    assert isinstance(hessian, Metric)
    assert hessian.pairs == len(held)
    dense = recursion(held, hessian.scale)
    vectors = np.random.default_rng(seed + 1).normal(size=(4, n))
    size = np.linalg.norm(dense, 2)
    for v in vectors:
        np.testing.assert_allclose(hessian.product(v), dense @ v, rtol=1e-8, atol=1e-9 * size)
    np.testing.assert_allclose(hessian.solve(vectors) @ dense, vectors, rtol=1e-7, atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30))
def test_the_last_pair_is_reproduced(seed, n):
    hessian, held = undamped(curved_pairs(seed, n, 6), 20)
    s, r = held[-1]
    np.testing.assert_allclose(hessian.product(s), r, rtol=1e-8, atol=1e-8 * np.abs(r).max())
    np.testing.assert_allclose(hessian.solve(r), s, rtol=1e-8, atol=1e-8 * np.abs(s).max())


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), count=st.integers(1, 25))
def test_positive_definite_and_consistent_whatever_the_pairs(seed, n, count):
    """Changes without any relation to the steps: curvature of both signs and of all sizes."""
    rng = np.random.default_rng(seed)
    hessian = LimitedMemoryBFGS(memory=8)
    for _ in range(count):
        s, r = rng.normal(size=(2, n))
        hessian.update(s, 10.0 ** rng.uniform(-3, 3) * r)
    assert hessian.pairs <= 8
    for v in rng.normal(size=(5, n)):
        Hv, solved = hessian.product(v), hessian.solve(v)
        assert float(v @ Hv) > 0
        assert float(v @ solved) > 0


def test_little_curvature_is_damped_to_a_fifth():
    hessian = LimitedMemoryBFGS()
    s = np.array([1.0, 0.0])
    hessian.update(s, np.array([10.0, 0.0]))
    hessian.update(s, np.array([0.5, 1.0]))  # 0.5 is less than a fifth of sᵀHs = 10
    assert float(s @ hessian.product(s)) == pytest.approx(2.0)


@pytest.mark.parametrize("change", [(-1.0, 0.0), (0.0, 1.0), (math.nan, 0.0), (math.inf, 0.0)])
def test_pairs_without_curvature_are_left_out(change):
    hessian = LimitedMemoryBFGS(scale=3.0)
    hessian.update(np.array([1.0, 0.0]), np.array(change))
    hessian.update(np.zeros(2), np.ones(2))
    assert hessian.pairs == 0
    assert hessian.scale == 3.0


def test_the_first_pair_sets_the_unit():
    hessian = LimitedMemoryBFGS(scale=1.0)  # a matrix of the wrong unit must not damp the first pair
    s = np.array([1.0, 2.0])
    hessian.update(s, 1e-6 * s)
    np.testing.assert_allclose(hessian.product(s), 1e-6 * s, rtol=1e-12)


def test_misuse_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"LimitedMemoryBFGS\(memory=0\).*at least 1"):
        LimitedMemoryBFGS(memory=0)
    with pytest.raises(ValueError, match=r"LimitedMemoryBFGS\(scale=-1.0\): must be a finite number above 0"):
        LimitedMemoryBFGS(scale=-1.0)
