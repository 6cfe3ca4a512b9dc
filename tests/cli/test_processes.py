"""`torchrun ... -m fairbound train`: several processes share a file, one of them is killed, and all go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.processes import environment

from fairbound import load
from fairbound.training import as_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc"),
]

TRAIN = ["train", "rows.parquet", "--target", "y", "--sensitive", "group", "--require", "disparate_impact >= 0.5"]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder, draw, n = tmp_path_factory.mktemp("processes"), np.random.default_rng(0), 4000
    group = np.sort(draw.choice(["a", "b"], n, p=[0.6, 0.4]))  # groups unevenly spread over the row groups
    X = draw.normal(size=(n, 4)) - 0.4 * (group == "b")[:, None]
    y = (X.sum(axis=1) + 2.0 * draw.logistic(size=n) > 0.3).astype(int)
    columns = {f"x{place}": X[:, place] for place in range(4)}
    table = pa.table({**columns, "job": draw.choice(["u", "v", "w"], n), "group": group, "y": y})
    parquet.write_table(table, folder / "rows.parquet", row_group_size=500)
    return folder


def launch(count: int, arguments: list[str], place: Path, restarts: int = 0) -> subprocess.Popen[bytes]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "--max-restarts", str(restarts)]
    command = [sys.executable, *launcher, "--master-port", "0", "--standalone", "-m", "fairbound", *arguments]
    return subprocess.Popen(
        command, cwd=place, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def parameters(out: Path) -> np.ndarray:
    return as_model(load(out / "model").model_).current()


@pytest.fixture(scope="module")
def of_two(place) -> Path:
    process = launch(2, [*TRAIN, "--out", "two"], place)
    said = process.communicate()[1].decode()
    assert process.returncode == 0, said
    return place / "two"


def test_two_processes_have_the_model_of_one(place, of_two):
    process = launch(1, [*TRAIN, "--out", "one"], place)
    process.communicate()
    assert process.returncode == 0
    assert np.abs(parameters(place / "one") - parameters(of_two)).max() <= 1e-10
    ours, theirs = (json.loads((out / "summary.json").read_text()) for out in (place / "one", of_two))
    for name in ("kept", "limits", "label", "taken"):
        assert ours[name] == theirs[name]
    for name in ("training", "held_out"):
        assert ours[name] == theirs[name]
    assert sorted(each.name for each in place.iterdir()) == ["one", "rows.parquet", "two"]


def workers(launcher: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


@pytest.mark.parametrize("who", ["one", "all"])
def test_killed_processes_are_started_again_and_continue(who, place, of_two):
    """torchrun starts all processes again, and they go on from the journal; or all are killed and started anew."""
    draw, out = random.Random(who), f"killed-{who}"
    arguments = [*TRAIN, "--out", out, "--resume", "--checkpoint", "0.05"]
    process = launch(2, arguments, place, restarts=5)
    while process.poll() is None and not (place / f"{out}.journal").exists():
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[1].decode()
    if who == "one":
        os.kill(draw.choice(workers(process.pid)), signal.SIGKILL)
    else:
        for each in [*workers(process.pid), process.pid]:
            os.kill(each, signal.SIGKILL)
        process.communicate()
        process = launch(2, arguments, place)
    said = process.communicate()[1].decode()
    assert process.returncode == 0, said
    assert np.array_equal(parameters(place / out), parameters(of_two))
    assert not (place / f"{out}.journal").exists()


def test_an_error_ends_all_processes_with_a_sentence(place):
    process = launch(2, [*TRAIN[:3], "nothing", *TRAIN[4:], "--out", "wrong"], place)
    said = process.communicate()[1].decode()
    assert process.returncode != 0
    assert said.count("rows.parquet has no column 'nothing' (--target)") == 1  # the first process says it
    assert not (place / "wrong").exists()


def test_an_error_of_one_process_names_it_and_the_option(place):
    from pyarrow import parquet

    table = parquet.read_table(place / "rows.parquet")
    weights = np.ones(len(table))
    weights[600] = -1.0  # of the second row group, which the second process reads
    parquet.write_table(table.append_column("w", [weights]), place / "bad.parquet", row_group_size=500)
    parquet.write_table(table.slice(0, 1), place / "one.parquet")
    cases = {
        "bad.parquet": ["fairbound: Column 'w' (--weight) is -1 in row 601.", "--weight", "w"],
        "one.parquet": ["one.parquet has no row to train on for process 0 of 2"],
    }
    for name, (sentence, *further) in cases.items():
        process = launch(2, ["train", name, *TRAIN[2:], *further, "--out", "wrong"], place)
        said = process.communicate()[1].decode()
        (place / name).unlink()
        assert process.returncode != 0
        assert said.count(sentence) == 1
        assert not (place / "wrong").exists()
