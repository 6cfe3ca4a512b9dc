"""Model files that claim far more than they hold, or are no files: refused at once, with little memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.estimator.helpers import quick, toy
from tests.persistence.mutations import Mutations, seal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, devices and memory as Linux has them")

LOAD = """
import resource, sys
from fairbound import ModelFileError, load
load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        load(path)
    except ModelFileError as error:
        pass
    else:
        sys.exit(f"{path} was read")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{path.rpartition('/')[2]} {grown:.0f}")
"""


def test_bombs_are_refused_in_little_memory(tmp_path):
    X, y, _ = toy(100)
    quick().fit(X, y).save(tmp_path / "good")
    good = Mutations(tmp_path / "good")

    def folder(name, text=good.text, weights=good.weights):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.json").write_bytes(text)
        (tmp_path / name / "weights.safetensors").write_bytes(weights)
        return tmp_path / name

    words = {**good.document, "model": {**good.document["model"], "classes": {"dtype": "U500000000", "values": [0, 1]}}}
    long = {
        **good.document,
        "model": {
            **good.document["model"],
            "classes": {"dtype": "U", "values": ["a", "b" * 10**6, *map(str, range(9))]},
        },
    }
    bombs = [
        folder("words", seal(words, good.weights)),
        folder("long", seal(long, good.weights)),
        folder("lists", b"[" + b"[]," * 3_000_000 + b"[]]"),
        folder("large"),
        folder("weights"),
        folder("pipe"),
        folder("device"),
    ]
    os.truncate(tmp_path / "large" / "model.json", 2**28)
    os.truncate(tmp_path / "weights" / "weights.safetensors", 2**40)
    for name, make in (("pipe", os.mkfifo), ("device", lambda path: os.symlink("/dev/zero", path))):
        for file in ("model.json", "weights.safetensors")[name == "pipe" :]:
            (tmp_path / name / file).unlink()
            make(tmp_path / name / file)
    command = [sys.executable, "-c", LOAD, tmp_path / "good", *bombs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = dict(line.split() for line in done.stdout.splitlines())
    assert list(grown) == [bomb.name for bomb in bombs]
    assert float(grown["device"]) < 120, grown  # megabytes; the largest file that is read has 9
