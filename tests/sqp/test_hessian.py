"""The Hessians: each against its formula, and the properties that all of them share."""

from __future__ import annotations

import pytest
import torch

from fairbound.sqp.hessian import HESSIANS, Adagrad, ExponentialAverage, Identity, resolve_hessian

GENERATOR_SEED = 0


def gradients(count: int = 4, n: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(GENERATOR_SEED)
    return [torch.randn(n, generator=generator, dtype=torch.float64) for _ in range(count)]


@pytest.fixture(params=sorted(HESSIANS))
def hessian(request):
    return resolve_hessian(request.param)


def test_solve_inverts_product_for_one_vector_and_for_many(hessian):
    for g in gradients():
        hessian.update(g)
    d, *others = gradients()
    torch.testing.assert_close(hessian.solve(hessian.product(d)), d)
    stack = torch.stack(others)
    torch.testing.assert_close(hessian.solve(stack), torch.stack([hessian.solve(v) for v in others]))


def test_positive_definite_even_without_gradient(hessian):
    hessian.update(torch.zeros(5, dtype=torch.float64))
    for d in gradients():
        assert float(d @ hessian.product(d)) > 0


def test_a_restored_state_continues_bit_by_bit(hessian):
    first, *later = gradients()
    hessian.update(first)
    saved = hessian.state_dict()
    twin = resolve_hessian(hessian.name)
    twin.load_state_dict(saved)
    for g in later:  # also: the saved state must not move with the original
        hessian.update(g)
    for g in later:
        twin.update(g)
    assert torch.equal(hessian.product(first), twin.product(first))


def test_state_of_another_kind_is_refused(hessian):
    with pytest.raises(ValueError, match=r"load_state_dict: expected the keys .*another kind of Hessian"):
        hessian.load_state_dict({"nonsense": 1})


def test_adagrad_is_the_damped_root_of_the_sum_of_squares():
    hessian = Adagrad(damping=0.5)
    a, b, *_ = gradients()
    hessian.update(a)
    hessian.update(b)
    squares = a**2 + b**2
    torch.testing.assert_close(hessian.product(torch.ones_like(a)), (squares + 0.5 * squares.mean()).sqrt())


def test_adagrad_scales_with_the_objective():
    small, large = Adagrad(), Adagrad()
    for g in gradients():
        small.update(g)
        large.update(1000 * g)
    d = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(1000 * small.product(d), large.product(d))


def test_exponential_average_starts_at_zero_without_correction():
    hessian = ExponentialAverage(decay=0.9, damping=2.0)
    a, b, *_ = gradients()
    hessian.update(a)
    hessian.update(b)
    average = 0.9 * 0.1 * a**2 + 0.1 * b**2
    torch.testing.assert_close(hessian.product(torch.ones_like(a)), (average + 2.0).sqrt())


def test_instances_pass_through_and_unknown_names_are_refused():
    hessian = Identity()
    assert resolve_hessian(hessian) is hessian
    with pytest.raises(ValueError, match=r"Unknown Hessian 'adagard'. Did you mean 'adagrad'\?"):
        resolve_hessian("adagard")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Adagrad(damping=0.0), r"Adagrad\(damping=0.0\): must be a finite number above 0"),
        (lambda: ExponentialAverage(decay=1.0), r"ExponentialAverage\(decay=1.0\).*below 1"),
        (lambda: ExponentialAverage(damping=-1.0), r"ExponentialAverage\(damping=-1.0\)"),
        (lambda: Adagrad().product(torch.ones(2)), r"Adagrad: call update\(g\) once before"),
    ],
)
def test_misuse_is_refused_with_a_sentence(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_a_gradient_of_another_size_is_refused():
    hessian = Adagrad()
    hessian.update(torch.ones(3))
    with pytest.raises(ValueError, match="the gradient has 2 entries, earlier ones had 3"):
        hessian.update(torch.ones(2))
