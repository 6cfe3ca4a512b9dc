"""Processes that are killed at any moment: nothing half-written is taken for whole."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, loan_rows, write_csv
from tests.cli.processes import call, start, stopped, wait_for

from fairbound import load
from fairbound.studies import read_summary

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
ENDS = {signal.SIGTERM: {143, -15}, signal.SIGKILL: {-9}, signal.SIGINT: {130, -2}}
# A signal that comes while Python itself starts or ends has its default effect.

ROWS = 700


def whole_run(path: Path) -> None:
    """A folder of train or frontier has all its files, and each can be read."""
    load(path / "model")
    read_summary(path / "summary.json")
    assert (path / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert (path / "model-card.md").is_file()
    for each in (path / "models").glob("*"):
        load(each)


def whole_file(path: Path) -> None:
    assert len(path.read_text().splitlines()) == ROWS + 1


def whole_reproduction(path: Path) -> None:
    """Every line but the last is whole, and so is every other file."""
    for line in (path / "results.jsonl").read_bytes().split(b"\n")[:-1]:
        json.loads(line)
    for each in path.rglob("*.json"):
        json.loads(each.read_text())
    for each in path.rglob("*.html"):
        assert each.read_text(encoding="utf-8").rstrip().endswith("</html>")
    for each in path.rglob("*.svg"):
        assert each.read_text(encoding="utf-8").rstrip().endswith("</svg>")


TRAIN = ["train", "loans.csv", *LOANS, "--require", LIMIT]
FRONTIER = ["frontier", "loans.csv", *LOANS, "--bounds", "0.7", "0.8", "0.9"]
REPRODUCE = ["reproduce", "table-2", "--dataset", "law", "--solver", "fast", "--rows", "300", "--epochs", "20"]
COMMANDS: dict[str, tuple[list[str], Callable[[Path], None]]] = {
    "train": (TRAIN, whole_run),
    "frontier": (FRONTIER, whole_run),
    "predict": (["predict", "trained", "loans.csv"], whole_file),
    "reproduce": (REPRODUCE, whole_reproduction),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Return a folder with rows and a model."""
    folder = tmp_path_factory.mktemp("kills")
    write_csv(folder / "loans.csv", LOAN_COLUMNS, loan_rows(ROWS))
    header, *rows = (folder / "loans.csv").read_text().splitlines(keepends=True)
    (folder / "many.csv").write_text(header + "".join(rows) * 60)
    assert call([*TRAIN, "--out", "trained"], folder).returncode in (0, 1)
    return folder


def drafts(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".fairbound-*"))


def attack(place: Path, name: str, number: signal.Signals, seconds: float, out: str) -> tuple[int, bool, int]:
    """Stop a command; return how it ended, whether its output is there, and how many drafts it left."""
    arguments, whole = COMMANDS[name]
    code = stopped([*arguments, "--out", out], place, number, seconds)
    there = (place / out).exists()
    if there and (name != "reproduce" or (place / out / "results.jsonl").exists()):
        whole(place / out)
    return code, there, len(drafts(place))


def remove_drafts(place: Path) -> None:
    for each in drafts(place):
        shutil.rmtree(each)


FAST = [
    ("train", signal.SIGTERM),
    ("frontier", signal.SIGKILL),
    ("predict", signal.SIGTERM),
    ("reproduce", signal.SIGTERM),
]


@pytest.mark.parametrize(("name", "number"), FAST, ids=lambda value: getattr(value, "name", value))
def test_a_command_that_is_stopped_while_it_writes_its_draft(name, number, place, tmp_path):
    arguments, whole = COMMANDS[name]
    if name == "predict":
        arguments = ["predict", "trained", "many.csv"]  # the draft of a few rows is gone before anybody sees it
    pattern = f"stopped-{name}/results.jsonl" if name == "reproduce" else ".fairbound-*"
    with start([*arguments, "--out", f"stopped-{name}"], place) as process:
        wait_for(place, pattern, process)
        process.send_signal(number)
        stderr = process.communicate()[1].decode()
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    out = place / f"stopped-{name}"
    if name == "reproduce":
        whole(out)
        assert "the same command continues from there" in stderr
    elif number is signal.SIGKILL:
        assert not out.exists()
        assert len(drafts(place)) == 1
        remove_drafts(place)
    elif name == "train" and out.exists():  # on a busy machine the signal may come when training has begun
        whole(out)
        assert f"Terminated: stopped-{name} has " in stderr
    else:
        assert not out.exists()
        assert "Terminated; unfinished output was removed." in stderr
    assert drafts(place) == []


@pytest.mark.slow
def test_a_closed_terminal_ends_a_command_unless_nohup_says_otherwise(place):
    with start([*TRAIN, "--out", "hung"], place) as process:
        wait_for(place, ".fairbound-*", process)
        process.send_signal(signal.SIGHUP)
        process.communicate()
    assert process.returncode == 129
    assert drafts(place) == []

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with start(["predict", "trained", "loans.csv", "--out", "kept.csv"], place, preexec_fn=ignore) as process:
        wait_for(place, ".fairbound-*", process)
        process.send_signal(signal.SIGHUP)
        process.communicate()
    assert process.returncode == 0
    whole_file(place / "kept.csv")


@pytest.mark.slow
def test_sixty_kills_and_terminations(place):
    draw = random.Random(20)
    longest = {"train": 9.0, "frontier": 12.0, "predict": 4.0, "reproduce": 10.0}
    stopped_ones = finished = left = 0
    for turn, (name, number) in enumerate(itertools.islice(itertools.cycle(itertools.product(COMMANDS, SIGNALS)), 60)):
        out = f"out-{turn}" if name != "reproduce" else "reproduction"  # the same folder: it goes on from there
        code, there, found = attack(place, name, number, draw.uniform(0.2, longest[name]), out)
        left += found
        sys.stderr.write(f"{turn} {name} {number.name} {code} {there} {found}\n")
        if code in (0, 1):
            finished += 1
            assert there
        else:
            stopped_ones += 1
            assert code in ENDS[number], (name, number, code)
            assert found == 0 or number is signal.SIGKILL
        remove_drafts(place)
    done = call([*REPRODUCE, "--out", "reproduction"], place)
    assert done.returncode == 0, done.stderr
    assert drafts(place) == []
    sys.stderr.write(f"{stopped_ones} stopped, {finished} finished before, {left} drafts left\n")
    assert stopped_ones >= 30
