"""Limited-memory BFGS: its compact forms against the textbook recursion, and what keeps it positive definite."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbound.sqp.hessian import LimitedMemoryBFGS, Metric


def curved_pairs(seed: int, n: int, count: int, spread: float = 2.0) -> list[tuple[Tensor, Tensor]]:
    """Pairs (s, As) of a random positive definite A with condition number 10^spread."""
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    A = basis @ torch.diag(torch.logspace(0, spread, n, dtype=torch.float64)) @ basis.T
    steps = torch.randn(count, n, generator=generator, dtype=torch.float64)
    return [(s, A @ s) for s in steps]


def recursion(pairs: list[tuple[Tensor, Tensor]], scale: float) -> Tensor:
    """Return the dense matrix of the BFGS recursion from scale · I."""
    n = pairs[0][0].numel()
    H = scale * torch.eye(n, dtype=torch.float64)
    for s, r in pairs:
        Hs = H @ s
        H = H - torch.outer(Hs, Hs) / (s @ Hs) + torch.outer(r, r) / (s @ r)
    return H


def undamped(pairs: list[tuple[Tensor, Tensor]], memory: int) -> tuple[LimitedMemoryBFGS, list[tuple[Tensor, Tensor]]]:
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
    vectors = torch.randn(4, n, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    size = float(torch.linalg.matrix_norm(dense, 2))
    for v in vectors:
        torch.testing.assert_close(hessian.product(v), dense @ v, rtol=1e-8, atol=1e-9 * size)
    torch.testing.assert_close(hessian.solve(vectors) @ dense, vectors, rtol=1e-7, atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30))
def test_the_last_pair_is_reproduced(seed, n):
    hessian, held = undamped(curved_pairs(seed, n, 6), 20)
    s, r = held[-1]
    torch.testing.assert_close(hessian.product(s), r, rtol=1e-8, atol=1e-8 * float(r.abs().max()))
    torch.testing.assert_close(hessian.solve(r), s, rtol=1e-8, atol=1e-8 * float(s.abs().max()))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), count=st.integers(1, 25))
def test_positive_definite_and_consistent_whatever_the_pairs(seed, n, count):
    """Changes without any relation to the steps: curvature of both signs and of all sizes."""
    generator = torch.Generator().manual_seed(seed)
    hessian = LimitedMemoryBFGS(memory=8)
    for _ in range(count):
        size = 10.0 ** float(torch.empty(()).uniform_(-3, 3, generator=generator))
        s, r = torch.randn(2, n, generator=generator, dtype=torch.float64)
        hessian.update(s, size * r)
    assert hessian.pairs <= 8
    for v in torch.randn(5, n, generator=generator, dtype=torch.float64):
        Hv, solved = hessian.product(v), hessian.solve(v)
        assert float(v @ Hv) > 0
        assert float(v @ solved) > 0


def test_little_curvature_is_damped_to_a_fifth():
    hessian = LimitedMemoryBFGS()
    s = torch.tensor([1.0, 0.0], dtype=torch.float64)
    hessian.update(s, torch.tensor([10.0, 0.0], dtype=torch.float64))
    hessian.update(s, torch.tensor([0.5, 1.0], dtype=torch.float64))  # 0.5 is less than a fifth of sᵀHs = 10
    assert float(s @ hessian.product(s)) == pytest.approx(2.0)


@pytest.mark.parametrize("change", [(-1.0, 0.0), (0.0, 1.0), (math.nan, 0.0), (math.inf, 0.0)])
def test_pairs_without_curvature_are_left_out(change):
    hessian = LimitedMemoryBFGS(scale=3.0)
    hessian.update(torch.tensor([1.0, 0.0], dtype=torch.float64), torch.tensor(change, dtype=torch.float64))
    hessian.update(torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    assert hessian.pairs == 0
    assert hessian.scale == 3.0


def test_the_first_pair_sets_the_unit():
    hessian = LimitedMemoryBFGS(scale=1.0)  # a matrix of the wrong unit must not damp the first pair
    s = torch.tensor([1.0, 2.0], dtype=torch.float64)
    hessian.update(s, 1e-6 * s)
    torch.testing.assert_close(hessian.product(s), 1e-6 * s, rtol=1e-12, atol=0)


def test_a_restored_state_is_the_same_matrix():
    hessian, _ = undamped(curved_pairs(0, 7, 6), 4)
    twin = LimitedMemoryBFGS(memory=4)
    twin.load_state_dict(hessian.state_dict())
    v = torch.ones(7, dtype=torch.float64)
    assert torch.equal(hessian.product(v), twin.product(v))
    assert torch.equal(hessian.solve(v), twin.solve(v))
    smaller = LimitedMemoryBFGS(memory=2)
    smaller.load_state_dict(hessian.state_dict())
    assert smaller.pairs == 2
    fresh = LimitedMemoryBFGS(scale=5.0)
    twin.load_state_dict(fresh.state_dict())
    torch.testing.assert_close(twin.product(v), 5 * v)


def test_misuse_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"LimitedMemoryBFGS\(memory=0\).*at least 1"):
        LimitedMemoryBFGS(memory=0)
    with pytest.raises(ValueError, match=r"LimitedMemoryBFGS\(scale=-1.0\): must be a finite number above 0"):
        LimitedMemoryBFGS(scale=-1.0)
