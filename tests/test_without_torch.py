"""Everything but networks works where torch is not installed; what needs it says which extra brings it."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.helpers import LOAN_COLUMNS, LOANS, loan_rows, write_csv

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else super().find_spec(name, path, target)

sys.meta_path[:] = [WithoutTorch if each is PathFinder else each for each in sys.meta_path]
import numpy as np
import pytest
import fairbound
from fairbound import *

rng = np.random.default_rng(0)
group = rng.choice(["a", "b"], 400)
X = rng.normal(size=(400, 3)) + 0.6 * (group == "a")[:, None]
y = (X[:, 0] + rng.normal(size=400) > 0.5).astype(int)
"""

WORK = """
from sklearn.ensemble import HistGradientBoostingClassifier

for options in ({}, {"base": HistGradientBoostingClassifier(max_iter=5)}):
    clf = ConstrainedClassifier("demographic_parity <= 0.2", **options).fit(X, y, sensitive_features=group)
    assert clf.result_.kept
    clf.save(sys.argv[1], overwrite=True)
    read = load(sys.argv[1])
    assert (read.predict_proba(X) == clf.predict_proba(X)).all()
decided = clf.predict(X)
assert audit(y, decided, group).rows == 400
assert certify(y, decided, group, "demographic_parity <= 0.9").passed
three = ConstrainedClassifier("demographic_parity <= 0.2")
three.fit(X, np.digitize(X[:, 0], [0.0, 1.0]), sensitive_features=group)
assert three.coef_.shape == (3, 3)
assert len(three.frontier(X, y, [0.3, 0.1], sensitive_features=group)) == 2
"""

SENTENCES = """
for needs_it in (
    lambda: ConstrainedClassifier(hidden=(8,)).fit(X, y),
    lambda: ConstrainedClassifier(training=fairbound.Training(2)).fit(X, y),
    lambda: ConstrainedClassifier(loss=lambda z, y: (z - y) ** 2).fit(X, y),
    lambda: fairbound.StochasticSQP,
    lambda: fairbound.StratifiedBatches,
):
    with pytest.raises(ImportError, match=r'needs? torch: run pip install "\\.\\[torch\\]"'):
        needs_it()
"""


def run(program: str, *arguments: str) -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", WITHOUT + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_linear_and_boosted_models_are_fitted_audited_saved_and_read(tmp_path):
    run(WORK, str(tmp_path / "model"))


def test_what_needs_torch_names_its_extra():
    run(SENTENCES)


def test_the_command_line_trains(tmp_path):
    write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(200))
    arguments = ["train", str(tmp_path / "loans.csv"), *LOANS, "--out", str(tmp_path / "run"), "--quiet"]
    run("from fairbound.cli import main\nmain()", *arguments)
    assert (tmp_path / "run" / "report.html").is_file()
