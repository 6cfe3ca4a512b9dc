"""The dense Hessian: the matrix itself where it is positive definite, and what replaces it where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sqp.oracles import DenseQP

from fairbound.sqp import DenseHessian, Jacobian, Metric, solve_qp


def symmetric(seed: int, n: int, eigenvalues: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a matrix QΛQᵀ with Λ and Q."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    values = rng.normal(size=n) if eigenvalues is None else eigenvalues
    return (Q * values) @ Q.T, values, Q


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30))
def test_a_positive_definite_matrix_is_taken_as_it_is(seed, n):
    matrix, _, _ = symmetric(seed, n, np.logspace(-2, 2, n))
    hessian = DenseHessian(matrix)
    assert isinstance(hessian, Metric)
    V = np.random.default_rng(seed + 1).normal(size=(3, n))
    np.testing.assert_allclose(hessian.product(V[0]), matrix @ V[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(hessian.solve(V), np.linalg.solve(matrix, V.T).T, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(hessian.solve(V[0]), hessian.solve(V)[0], rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30))
def test_negative_curvature_changes_its_sign(seed, n):
    matrix, values, Q = symmetric(seed, n)
    hessian = DenseHessian(matrix, floor=1e-12)
    dense = (Q * np.abs(values)) @ Q.T
    d = np.random.default_rng(seed + 1).normal(size=n)
    np.testing.assert_allclose(hessian.product(d), dense @ d, atol=1e-12 * n)
    np.testing.assert_allclose(hessian.product(hessian.solve(d)), d, rtol=1e-6, atol=1e-6)
    assert d @ hessian.product(d) > 0.0


def test_flat_and_falling_directions_get_the_floor():
    matrix, _, Q = symmetric(0, 4, np.array([100.0, -7.0, 0.0, 5.0]))
    floor = 0.01 * np.abs(matrix).max()
    expected = Q.T / (np.array([[100.0], [7.0], [0.0], [5.0]]) + floor)
    np.testing.assert_allclose(DenseHessian(matrix, floor=0.01).solve(Q.T), expected, atol=1e-12)


def test_without_any_curvature_it_is_the_identity():
    hessian = DenseHessian(np.zeros((3, 3)))
    d = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(hessian.product(d), d)
    np.testing.assert_array_equal(hessian.solve(d), d)


def test_a_qp_with_it_is_the_qp_in_its_eigenvectors():
    """With H = Q diag(h) Qᵀ and x = Qᵀd, the QP is one with the diagonal h, which a conic solver confirms elsewhere."""
    rng = np.random.default_rng(3)
    matrix, h, Q = symmetric(5, 6, np.logspace(-1, 2, 6))
    g, c, J = rng.normal(size=6), rng.normal(size=3), rng.normal(size=(3, 6))
    none, zero = np.full(3, -math.inf), np.zeros(3)
    found = solve_qp(g, DenseHessian(matrix), c, Jacobian.dense(J), none, zero)
    rotated = DenseQP(Q.T @ g, h, c, J @ Q, none, zero).solve()
    assert found.is_optimal()
    np.testing.assert_allclose(found.d, Q @ rotated.d, atol=1e-9)
    np.testing.assert_allclose(found.y, rotated.y, atol=1e-9)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: DenseHessian(np.eye(2), floor=0.0), r"DenseHessian\(floor=0.0\): must be above 0 and at most 1"),
        (lambda: DenseHessian(np.zeros((2, 3))), r"must be square, got the shape \(2, 3\)"),
        (lambda: DenseHessian([[math.nan]]), "entries that are NaN or infinite"),
    ],
)
def test_misuse_is_refused_with_a_sentence(build, words):
    with pytest.raises(ValueError, match=words):
        build()
