"""Every loss of the registry against finite differences and torch's losses, and a user-defined loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fairbound.training.losses import LOSSES, resolve_loss


def draw(n_columns: int, n: int = 60, scale: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels; the logits differ by far more than the step of a finite difference, so no kink is near."""
    rng = np.random.default_rng(n_columns)
    return scale * rng.normal(size=(n, n_columns)), rng.integers(0, max(n_columns, 2), n)


def finite_differences(loss, z: np.ndarray, labels: np.ndarray, step: float = 1e-6) -> np.ndarray:
    columns = []
    for unit in step * np.eye(z.shape[1]):
        columns.append((loss.values(z + unit, labels) - loss.values(z - unit, labels)) / (2 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("name", LOSSES)
class TestEveryLoss:
    @pytest.mark.parametrize("n_columns", [1, 3], ids=["binary", "three classes"])
    def test_derivative_agrees_with_finite_differences(self, name, n_columns):
        loss = resolve_loss(name)
        z, labels = draw(n_columns)
        expected = finite_differences(loss, z, labels)
        # Central differences: step² · third derivative (≤ 0.1) and rounding 1e-16 · 10 / 1e-6, so 1e-9 with room.
        np.testing.assert_allclose(loss.derivatives(z, labels), expected, rtol=0, atol=1e-8)
        assert loss.derivatives(z, labels).shape == z.shape

    @pytest.mark.parametrize("n_columns", [1, 3], ids=["binary", "three classes"])
    def test_values_are_one_finite_number_per_row_at_any_logit(self, name, n_columns):
        loss = resolve_loss(name)
        z, labels = draw(n_columns)
        z = 1000.0 * np.sign(z)
        for result in (loss.values(z, labels), loss.derivatives(z, labels)):
            assert result.dtype == np.float64
            assert np.isfinite(result).all()
        assert loss.values(z, labels).shape == (len(z),)
        assert (loss.values(z, labels) >= 0).all()
        assert loss.values(z, labels).max() >= 1000.0

    @pytest.mark.parametrize("n_columns", [1, 3], ids=["binary", "three classes"])
    def test_rows_do_not_know_each_other(self, name, n_columns):
        loss = resolve_loss(name)
        z, labels = draw(n_columns)
        assert np.array_equal(loss.values(z, labels)[7:9], loss.values(z[7:9], labels[7:9]))
        assert np.array_equal(loss.derivatives(z, labels)[7:9], loss.derivatives(z[7:9], labels[7:9]))

    def test_two_classes_reduce_to_the_binary_loss(self, name):
        loss = resolve_loss(name)
        z, labels = draw(1)
        two = np.hstack([np.zeros_like(z), z])
        # logsumexp(0, z) and softplus(z) agree to the last bits of numbers of size 10.
        np.testing.assert_allclose(loss.values(two, labels), loss.values(z, labels), rtol=0, atol=1e-13)
        np.testing.assert_allclose(
            loss.derivatives(two, labels)[:, 1:], loss.derivatives(z, labels), rtol=0, atol=1e-13
        )


class TestAgreementWithTorch:
    @pytest.mark.parametrize("name", ["binary_cross_entropy", "cross_entropy"])
    @pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
    def test_cross_entropy(self, name, scale):
        z, labels = draw(1, scale=scale)
        expected = functional.binary_cross_entropy_with_logits(
            torch.from_numpy(z[:, 0]), torch.from_numpy(labels).double(), reduction="none"
        )
        # torch's own takes (1 − y) z − log σ(z), and loses the last bits of z where that is small.
        np.testing.assert_allclose(
            resolve_loss(name).values(z, labels), expected, rtol=1e-13, atol=1e-15 * np.abs(z).max()
        )
        z, labels = draw(3, scale=scale)
        expected = functional.cross_entropy(torch.from_numpy(z), torch.from_numpy(labels), reduction="none")
        np.testing.assert_allclose(resolve_loss(name).values(z, labels), expected, rtol=1e-13, atol=0)

    @pytest.mark.parametrize("size", [19.0, 21.0, 40.0, 600.0])
    @pytest.mark.parametrize("label", [0, 1])
    def test_the_tail_of_the_cross_entropy_is_exact(self, size, label):
        # softplus of torch is cut off at 20, and σ(z) − 1 cancels to 0 beyond 36: both would flatten this tail.
        z, labels = np.array([[size if label else -size]]), np.array([label])
        tail = np.array([math.log1p(math.exp(-size))])
        np.testing.assert_allclose(resolve_loss("cross_entropy").values(z, labels), tail, rtol=1e-13, atol=0)
        slope = resolve_loss("cross_entropy").derivatives(z, labels)
        expected = np.array([[math.exp(-size) / (1 + math.exp(-size))]])
        np.testing.assert_allclose(slope, -expected if label else expected, rtol=1e-13, atol=0)

    def test_hinge(self):
        z, labels = draw(3)
        slack = 1 - z[np.arange(len(z)), labels][:, None] + z
        slack[np.arange(len(z)), labels] = 0.0  # max over rivals, and 0
        np.testing.assert_allclose(resolve_loss("hinge").values(z, labels), slack.max(axis=1), rtol=1e-13, atol=1e-13)
        z, labels = draw(1)
        signed = torch.from_numpy((2 * labels - 1) * z[:, 0])
        expected = functional.hinge_embedding_loss(signed, -torch.ones_like(signed), margin=1.0, reduction="none")
        np.testing.assert_allclose(resolve_loss("hinge").values(z, labels), expected, rtol=1e-13, atol=0)

    @given(
        z=st.floats(-1e6, 1e6),
        label=st.sampled_from([0, 1]),
        name=st.sampled_from(["binary_cross_entropy", "cross_entropy", "hinge"]),
    )
    def test_binary_losses_only_see_the_signed_margin(self, z, label, name):
        loss, own = resolve_loss(name), np.array([[z]])
        mirrored = loss.values(-own, np.array([1 - label]))
        assert np.array_equal(loss.values(own, np.array([label])), mirrored)
        assert np.array_equal(loss.derivatives(own, np.array([label])), -loss.derivatives(-own, np.array([1 - label])))


class TestOfTheUser:
    def test_binary_cross_entropy_of_torch(self):
        loss, z, labels = resolve_loss(nn.BCEWithLogitsLoss(reduction="none")), *draw(1)
        known = LOSSES["binary_cross_entropy"]
        np.testing.assert_allclose(loss.values(z, labels), known.values(z, labels), rtol=1e-13, atol=1e-14)
        # Autograd takes σ(z) − y, with rounding of one unit at 1.
        np.testing.assert_allclose(loss.derivatives(z, labels), known.derivatives(z, labels), rtol=0, atol=1e-15)

    def test_cross_entropy_of_torch(self):
        loss, z, labels = resolve_loss(nn.CrossEntropyLoss(reduction="none")), *draw(3)
        known = LOSSES["cross_entropy"]
        np.testing.assert_allclose(loss.values(z, labels), known.values(z, labels), rtol=1e-13, atol=0)
        np.testing.assert_allclose(loss.derivatives(z, labels), known.derivatives(z, labels), rtol=0, atol=1e-15)

    def test_derivative_is_taken_inside_no_grad_too(self):
        loss, z, labels = resolve_loss(lambda z, y: (z - y) ** 2), *draw(1)
        with torch.no_grad():
            slope = loss.derivatives(z, labels)
        np.testing.assert_allclose(slope, 2 * (z - labels[:, None]), rtol=1e-13, atol=0)

    def test_an_instance_with_its_own_derivative_is_used_as_it_is(self):
        assert resolve_loss(LOSSES["hinge"]) is LOSSES["hinge"]

    @pytest.mark.parametrize(
        "function",
        [nn.BCEWithLogitsLoss(), nn.BCEWithLogitsLoss(reduction="sum"), lambda z, y: (z - y)[:, None] ** 2],
        ids=["mean", "sum", "a column"],
    )
    def test_a_loss_that_is_not_per_row_is_refused(self, function):
        loss, z, labels = resolve_loss(function), *draw(1)
        for method in (loss.values, loss.derivatives):
            with pytest.raises(ValueError, match=r'60 rows.*one value per row.*reduction="none"'):
                method(z, labels)

    def test_the_refusal_says_what_the_loss_was_given(self):
        loss, z, labels = resolve_loss(nn.CrossEntropyLoss(reduction="none")), *draw(1)
        with pytest.raises(ValueError, match=r"logits of shape \(n,\).*floats"):
            loss.values(z, labels)
        loss, z, labels = resolve_loss(nn.CrossEntropyLoss()), *draw(3)
        with pytest.raises(ValueError, match=r"logits of shape \(n, 3\).*class indices"):
            loss.values(z, labels)

    def test_a_loss_that_returns_no_tensor_is_refused(self):
        loss, z, labels = resolve_loss(lambda z, y: z.tolist()), *draw(1)
        with pytest.raises(TypeError, match=r"returned list.*tensor.*per row"):
            loss.values(z, labels)

    def test_a_loss_without_a_gradient_is_refused(self):
        loss, z, labels = resolve_loss(lambda z, y: (z.detach() - y) ** 2), *draw(1)
        with pytest.raises(ValueError, match=r"no gradient.*logits.*torch operations"):
            loss.derivatives(z, labels)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"loss 'hinged'.*'hinge'\? Known: binary_cross_entropy,"):
        resolve_loss("hinged")


@pytest.mark.parametrize("loss", [None, 3, torch.zeros(2)])
def test_what_is_no_loss_is_refused(loss):
    with pytest.raises((TypeError, ValueError), match=r"must be a name \(binary_cross_entropy, .*\) or a function"):
        resolve_loss(loss)
