"""The programs and lines of docs/data.md, run as they stand: torchrun, Ray Train, Spark and Slurm.

`make test-engines` installs what they need.  Elsewhere, the lines of engines that are absent are skipped.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.cli.processes import environment
from tests.conftest import absent
from tests.estimator.shared import in_processes

from fairbound import ConstrainedClassifier, load
from fairbound.data import read_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")

PAGE = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8").split("## Engines")[1]
PROGRAMS = {name: text for text, name in re.findall(r"^```py\n(# (\w+\.py)\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)}
LINES = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
NEEDS = {
    "torchrun": (),
    "python train_ray.py": ("ray",),
    "spark-submit": ("pyspark", "java"),
    "srun": ("munged", "slurmd"),
}
"""The modules and programs that lines need, by their beginnings."""

SLURM = """
ClusterName=one
SlurmctldHost={host}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=main Nodes={host} Default=YES
"""


def run(line: str, place: Path, **settings: str) -> None:
    """Run a line in a shell, with the programs of this environment first."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place,
        env=environment(HOME=str(place), PATH=path, **settings),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.fixture
def place(tmp_path) -> Path:
    """Write the programs of the page and the rows."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    run("python rows.py", tmp_path)
    return tmp_path


@pytest.fixture
def slurm(tmp_path) -> Iterator[Path]:
    """Start Slurm on this machine; return its configuration."""
    folder, host = tmp_path / "slurm", socket.gethostname().partition(".")[0]
    for each in ("state", "spool"):
        (folder / each).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {"socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "munge.seed"}
    given = [f"--{name}={folder / file}" for name, file in files.items()]
    started = ["munged"]
    ports = [_free_port(), _free_port()]
    config = folder / "slurm.conf"
    config.write_text(SLURM.format(host=host, user=getpass.getuser(), folder=folder, ports=ports))
    try:
        subprocess.run(["munged", "--force", f"--key-file={key}", *given], check=True)
        for daemon in ("slurmctld", "slurmd"):
            subprocess.run(
                [daemon, "-L", folder / f"{daemon}.log"], env=environment(SLURM_CONF=str(config)), check=True
            )
            started.insert(0, daemon)
        until = time.monotonic() + 60
        while "idle" not in _states(config):
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.5)
        yield config
    finally:
        for daemon in started:
            if (file := folder / f"{daemon}.pid").exists():
                os.kill(int(file.read_text()), signal.SIGTERM)


def _states(config: Path) -> str:
    command = ["sinfo", "--noheader", "--format", "%T"]
    return subprocess.run(
        command, env=environment(SLURM_CONF=str(config)), capture_output=True, text=True, check=False
    ).stdout


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def decide(model: ConstrainedClassifier, rows: Path) -> np.ndarray:
    return model.predict(read_table(rows, target="passed", sensitive="race").frame())


def by_one(rows: Path) -> np.ndarray:
    """Fit in one process; return the decisions."""
    clf = ConstrainedClassifier("disparate_impact >= 0.9")
    return decide(clf.fit(rows, "passed", sensitive_features="race"), rows)


def test_the_page_has_a_line_for_each_engine():
    assert sorted(PROGRAMS) == ["rows.py", "train.py", "train_ray.py", "train_spark.py"]
    begun = [next(each for each in NEEDS if line.startswith(each)) for line in LINES]
    assert set(begun) == set(NEEDS)
    for name, text in PROGRAMS.items():
        compile(text, name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in LINES if "fairbound train" not in line], ids=lambda line: line[:32])
def test_the_lines_of_the_page_run(line, place, request):
    needs = next(each for beginning, each in NEEDS.items() if line.startswith(beginning))
    lacking = [name for name in needs if not (shutil.which(name) or find_spec(name))]
    if lacking:
        absent(f"needs {', '.join(lacking)}: make test-engines")
    settings = {"SLURM_CONF": str(request.getfixturevalue("slurm"))} if line.startswith("srun") else {}
    run(line, place, **settings)
    rows = place / ("spark_rows" if "spark" in line else "rows.parquet")
    (expected,) = in_processes(1, lambda _: by_one(rows))
    decided = decide(load(place / "model"), rows)
    assert len(expected) == (20_798 if "spark" not in line else 20_707)
    assert np.array_equal(decided, expected)
    assert not (place / "model.journal").exists()


@pytest.mark.slow
def test_the_command_in_two_processes_is_that_in_one(place):
    (line,) = [line for line in LINES if "fairbound train" in line]
    run(line, place)
    run(line.replace("torchrun --nproc-per-node 2", "python").replace("--out run", "--out one"), place)
    rows = place / "rows.parquet"
    assert np.array_equal(*(decide(load(place / name / "model"), rows) for name in ("run", "one")))
