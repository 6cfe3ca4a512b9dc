"""The programs of docs/large_data.md that a launcher starts: torchrun, and Ray Train, which is no extra."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.processes import environment
from tests.estimator.shared import in_processes

from fairbound import ConstrainedClassifier, load, load_dataset

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")

PAGE = Path(__file__).parents[1] / "docs" / "large_data.md"
PROGRAM = re.compile(r"^```py\n(# (\w+\.py), started by:  .*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def programs(tmp_path) -> dict[str, Path]:
    """Return the programs of the page, written to their files."""
    found = {name: text for text, name in PROGRAM.findall(PAGE.read_text(encoding="utf-8"))}
    for name, text in found.items():
        compile(text, name, "exec")
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in found}


def fitted_by_one(_rank: int) -> np.ndarray:
    law = load_dataset("law")
    clf = ConstrainedClassifier("disparate_impact >= 0.9")
    return clf.fit(law.frame(), law.y, sensitive_features=law.sensitive["race"]).predict(law.frame())


def check(model: Path) -> None:
    """The limit is kept on the rows of all processes, and the decisions are those of one process."""
    law, found = load_dataset("law"), load(model)
    decided = found.predict(law.frame())
    groups, selected = np.asarray(law.groups("race")), decided == found.pos_label_
    rates = [selected[groups == group].mean() for group in np.unique(groups)]
    assert min(rates) / max(rates) >= 0.9 - 1e-12
    (expected,) = in_processes(1, fitted_by_one)
    assert np.array_equal(decided, expected)


def run(command: list[str], place: Path) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=place,
        env=environment(HOME=str(place)),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_page_has_a_program_for_each_launcher(programs):
    assert sorted(programs) == ["train.py", "train_ray.py", "train_spark.py"]


@pytest.mark.slow
def test_torchrun_starts_the_program_of_the_page(programs, tmp_path):
    run(["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(programs["train.py"])], tmp_path)
    check(tmp_path / "model")
    assert not (tmp_path / "model.journal").exists()


@pytest.mark.slow
def test_two_workers_of_ray_train_share_the_fit_of_the_page(programs, tmp_path):
    pytest.importorskip("ray.train.torch")
    run([str(programs["train_ray.py"])], tmp_path)
    check(tmp_path / "model")
