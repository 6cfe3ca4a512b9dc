"""The room does without torch, which is an extra of the package, until `StochasticSQP` is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fairbound.sqp

PROGRAM = """
import sys
sys.modules["torch"] = None  # makes an import fail as if it were not installed
import numpy as np
from fairbound.sqp import Evaluation, QuasiNewtonSQP

class Parabola:
    def initial_point(self): return np.array([0.5])
    def values(self, w): return float((w[0] - 2) ** 2), w**2
    def evaluate(self, w): return Evaluation((w[0] - 2) ** 2, 2 * (w - 2), w**2, 2 * w[None], [-np.inf], [1.0])

print(QuasiNewtonSQP().solve(Parabola()).w.round(6))
try:
    from fairbound.sqp import StochasticSQP
except ImportError:
    print("torch is missing")
"""


def test_a_solve_without_torch():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["[1.]", "torch is missing"]


def test_every_public_name_exists_and_no_other():
    for name in fairbound.sqp.__all__:
        assert hasattr(fairbound.sqp, name)
    with pytest.raises(AttributeError, match="has no attribute 'Newton'"):
        fairbound.sqp.Newton  # noqa: B018
