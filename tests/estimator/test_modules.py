"""Networks of the user's own: copied or made, of one output or two, checked, and on another device."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import torch
from tests.estimator.helpers import quick, toy
from torch import nn

from fairbound import ConstrainedClassifier, Training, audit
from fairbound.estimator import networks


class Residual(nn.Module):
    """A network that is no plain sequence of layers."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.first, self.last = nn.Linear(n_inputs, n_inputs), nn.Linear(n_inputs, n_outputs)
        self.norm = nn.LayerNorm(n_inputs)

    def forward(self, x):
        return self.last(self.norm(x + torch.tanh(self.first(x))))


@pytest.mark.parametrize("n_outputs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_module_is_copied_and_its_decisions_keep_the_limit(n_outputs):
    X, y, group = toy()
    torch.manual_seed(0)
    own = Residual(3, n_outputs)
    before = copy.deepcopy(own.state_dict())
    clf = ConstrainedClassifier("disparate_impact >= 0.7", hidden=own).fit(X, y, sensitive_features=group)
    assert all(torch.equal(before[name], tensor) for name, tensor in own.state_dict().items())
    assert clf.model_ is not own
    assert next(clf.model_.parameters()).dtype is torch.float64
    assert clf.result_.limits[0].reached == audit(y, clf.predict(X), group).measure("disparate_impact").value
    assert clf.result_.kept
    assert clf.score(X, y) > 0.7


def test_a_function_makes_a_module_that_fits():
    X, y, _ = toy()
    seen = []

    def make(n_inputs, n_outputs):
        seen.append((n_inputs, n_outputs))
        return Residual(n_inputs, n_outputs)

    table = np.column_stack([X.astype(object), np.where(X[:, 0] > 0, "yes", "no")])
    first = ConstrainedClassifier(hidden=make, random_state=1).fit(table, y)
    again = ConstrainedClassifier(hidden=make, random_state=1).fit(table, y)
    assert seen == [(5, 1), (5, 1)]
    assert (first.predict_proba(table) == again.predict_proba(table)).all()
    ConstrainedClassifier(hidden=make).fit(X, np.arange(len(y)) % 3)
    assert seen[-1] == (3, 3)


def test_a_linear_module_has_coefficients():
    X, y, _ = toy()
    clf = ConstrainedClassifier(hidden=nn.Linear(3, 1)).fit(X, y)
    assert np.allclose(
        clf.encoder_.transform(X) @ clf.coef_[0] + clf.intercept_, clf.decision_function(X), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Linear(7, 1), "cannot take rows of 3 inputs"),
        (
            nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)),
            "normalises over the batch|cannot take rows",
        ),
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), "layer '1' \\(BatchNorm1d\\)"),
        (nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 1)), "drops units at random"),
        (nn.Linear(3, 4), "4 outputs.* 2 classes need 1"),
        (nn.Identity(), "no parameter that requires a gradient"),
    ],
)
def test_modules_that_cannot_be_trained(module, words):
    X, y, _ = toy()
    with pytest.raises(ValueError, match=words):
        ConstrainedClassifier(hidden=module).fit(X, y)


def test_a_function_that_takes_too_little():
    X, y, _ = toy(50)
    with pytest.raises(TypeError, match=r"\(n_inputs, n_outputs\).*too many positional argum"):
        quick(hidden=lambda n_inputs: nn.Linear(n_inputs, 1)).fit(X, y)


def test_a_linear_module_without_a_bias_has_coefficients():
    X, y, _ = toy(100)
    clf = quick(hidden=nn.Linear(3, 1, bias=False), encoder=None).fit(X, y)
    assert clf.intercept_.tolist() == [0.0]
    np.testing.assert_allclose(X @ clf.coef_[0], clf.decision_function(X), rtol=1e-10)


@pytest.mark.parametrize(
    "device", ["gpu", "cuda", "cuda:99", "mps", "xpu", "meta", "", "cpu:x", 7, 1.5, ["cpu"], "mps:3"]
)
def test_a_device_that_is_not_there(device):
    if device in networks.available_devices() or (device == "cuda" and torch.cuda.is_available()):
        pytest.skip("there is such a device here")
    X, y, _ = toy(50)
    with pytest.raises(ValueError, match=re.escape(f"device={device!r} ") + ".*available: 'cpu'"):
        quick(hidden=(2,), training__device=device).fit(X, y)


@pytest.mark.slow
def test_the_way_to_a_device_and_back_trains_alike(monkeypatch):
    # The processor stands for the device: what is tested is the wrapper, and that nothing relies on its parts.
    X, y, group = toy()
    plain = ConstrainedClassifier("disparate_impact >= 0.7", hidden=(4,), training=Training(device="cpu"))
    expected = plain.fit(X, y, sensitive_features=group).predict_proba(X)

    def always(module, device):
        return networks.OnDevice(module, torch.device(device))

    monkeypatch.setattr("fairbound.estimator.fitting.on_device", always)
    clf = ConstrainedClassifier("disparate_impact >= 0.7", hidden=(4,), training=Training(device="cpu"))
    clf.fit(X, y, sensitive_features=group)
    assert type(clf.model_) is nn.Sequential
    assert clf.result_.kept
    # Another engine adds up the gradients in another order; the ways part a little, the optimum is the same.
    assert np.abs(clf.predict_proba(X) - expected).mean() < 0.05
