"""The diagonal Hessians: each against its formula, and the properties that all of them share."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound.sqp.diagonal import Adagrad, ExponentialAverage, Identity


def gradients(count: int = 4, n: int = 5) -> list[np.ndarray]:
    return list(np.random.default_rng(0).normal(size=(count, n)))


@pytest.fixture(params=[Identity, Adagrad, ExponentialAverage])
def hessian(request):
    return request.param()


def test_solve_inverts_product_for_one_vector_and_for_many(hessian):
    for g in gradients():
        hessian.update(g)
    d, *others = gradients()
    np.testing.assert_allclose(hessian.solve(hessian.product(d)), d, rtol=1e-12)
    stack = np.stack(others)
    np.testing.assert_allclose(hessian.solve(stack), np.stack([hessian.solve(v) for v in others]), rtol=1e-12)


def test_positive_definite_even_without_gradient(hessian):
    hessian.update(np.zeros(5))
    for d in gradients():
        assert float(d @ hessian.product(d)) > 0


def test_adagrad_is_the_damped_root_of_the_sum_of_squares():
    hessian = Adagrad(damping=0.5)
    a, b, *_ = gradients()
    hessian.update(a)
    hessian.update(b)
    squares = a**2 + b**2
    np.testing.assert_allclose(hessian.product(np.ones_like(a)), np.sqrt(squares + 0.5 * squares.mean()), rtol=1e-12)


def test_adagrad_scales_with_the_objective():
    small, large = Adagrad(), Adagrad()
    for g in gradients():
        small.update(g)
        large.update(1000 * g)
    np.testing.assert_allclose(1000 * small.product(np.ones(5)), large.product(np.ones(5)), rtol=1e-12)


def test_exponential_average_starts_at_zero_without_correction():
    hessian = ExponentialAverage(decay=0.9, damping=2.0)
    a, b, *_ = gradients()
    hessian.update(a)
    hessian.update(b)
    average = 0.9 * 0.1 * a**2 + 0.1 * b**2
    np.testing.assert_allclose(hessian.product(np.ones_like(a)), np.sqrt(average + 2.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Adagrad(damping=0.0), r"Adagrad\(damping=0.0\): must be a finite number above 0"),
        (lambda: ExponentialAverage(decay=1.0), r"ExponentialAverage\(decay=1.0\).*below 1"),
        (lambda: ExponentialAverage(damping=-1.0), r"ExponentialAverage\(damping=-1.0\)"),
        (lambda: Adagrad().product(np.ones(2)), r"Adagrad: call update\(g\) once before"),
    ],
)
def test_misuse_is_refused_with_a_sentence(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_a_gradient_of_another_size_is_refused():
    hessian = Adagrad()
    hessian.update(np.ones(3))
    with pytest.raises(ValueError, match="the gradient has 2 entries, earlier ones had 3"):
        hessian.update(np.ones(2))
