"""Model files that claim far more than they hold, or are no files: refused at once, with little memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.estimator.helpers import quick, toy
from tests.persistence.mutations import DOCUMENT, seal, unsealed

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
    text = (tmp_path / "good" / DOCUMENT).read_bytes()
    model, weights = unsealed(tmp_path / "good" / DOCUMENT)

    def sealed(**parts):
        return seal({**model, **parts}, weights)

    bombs = {
        "words": sealed(classes={"dtype": "U500000000", "values": [0, 1]}),
        "long": sealed(classes={"dtype": "U", "values": ["a", "b" * 10**6, *map(str, range(9))]}),
        "arrays": sealed(arrays=[{"name": "x", "dtype": "<f8", "shape": [2**40]}]),
        "lists": b"[" + b"[]," * 3_000_000 + b"[]]",
        "deep": b'{"format":' + b"[" * 10**7,
        "pairs": sealed(params={**model["params"], "x": [[]] * 3_000_000}),
        "text": sealed(params={**model["params"], "callbacks": "[" + "[]," * 3_000_000 + "]"}),
        "sum": sealed(params={**model["params"], "callbacks": "1" + "+1" * 1_000_000}),
        "shape": sealed(arrays=[{"name": "x", "dtype": "<f8", "shape": [10**3999] * 10**3}]),
        "names": text[:-3] + b'","x":[' + b"[]," * 3_000_000 + b"[]]}",
        "large": b"",
        "pipe": b"",
        "device": b"",
    }
    for name, content in bombs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / DOCUMENT).write_bytes(content)
    os.truncate(tmp_path / "large" / DOCUMENT, 2**40)
    for name, make in (("pipe", os.mkfifo), ("device", lambda path: os.symlink("/dev/zero", path))):
        (tmp_path / name / DOCUMENT).unlink()
        make(tmp_path / name / DOCUMENT)
    command = [sys.executable, "-c", LOAD, tmp_path / "good", *(tmp_path / name for name in bombs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    grown = dict(line.split() for line in done.stdout.splitlines())
    assert list(grown) == list(bombs)
    assert float(grown["names"]) < 350, grown  # megabytes; the largest file that is parsed has 9
    assert float(grown["device"]) == float(grown["names"]), grown
