"""Runs that are killed at any moment and continued: nothing is lost, and they end as an undisturbed run does."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import pytest
import torch
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, interrupt_when, loan_rows, write_csv
from tests.cli.processes import call, start, stopped, wait_for

from fairbound import load

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

TRAIN = ["train", "loans.csv", *LOANS, "--require", LIMIT, "--quiet"]
FRONTIER = ["frontier", "loans.csv", *LOANS, "--bounds", "0.7", "0.9", "--quiet"]
REPRODUCE = [
    "reproduce",
    "table-2",
    "--dataset",
    "law",
    "--solver",
    "fast",
    "--rows",
    "300",
    "--epochs",
    "20",
    "--quiet",
]
COMMANDS = {"train": TRAIN, "frontier": FRONTIER}
SAVING = ["--resume", "--checkpoint", "0.05"]


def parameters(folder: Path) -> torch.Tensor:
    return torch.cat([each.detach().reshape(-1) for each in load(folder).module_.parameters()])


def models(out: Path) -> list[Path]:
    return [out / "model", *sorted((out / "models").glob("*"))]


def assert_same(out: Path, expected: Path) -> None:
    """Both have the same models bit for bit, and so the same decisions and numbers."""
    for found, other in zip(models(out), models(expected), strict=True):
        assert torch.equal(parameters(found), parameters(other))
    name = "metrics.json" if (expected / "metrics.json").exists() else "frontier.json"
    ours, theirs = (json.loads((each / name).read_text()) for each in (out, expected))
    for each in (ours, theirs):
        for key in ("files", "seconds", "reproduction"):
            each.pop(key, None)
    assert ours == theirs


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("resumed")
    write_csv(folder / "loans.csv", LOAN_COLUMNS, loan_rows(200))
    return folder


@pytest.fixture(scope="module")
def undisturbed(place):
    """Return the folder of a run without kills, made on first use."""

    def of(name: str) -> Path:
        if not (place / name).exists():
            done = call([*COMMANDS[name], "--out", name], place)
            assert done.returncode in (0, 1), done.stderr
        return place / name

    return of


def left_by_kills(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir() if each.name.startswith(".fairbound-"))


def test_a_killed_run_is_continued(place, undisturbed):
    """The journal is there before the end; the killed run has left no folder, and the next one takes it from there."""
    arguments = [*TRAIN, "--out", "killed", *SAVING]
    with start(arguments, place) as process:
        wait_for(place, "killed.journal", process)
        process.kill()
        process.communicate()
    assert process.returncode == -9
    assert not (place / "killed").exists()
    done = call([each for each in arguments if each != "--quiet"], place)
    assert "Continuing from killed.journal." in done.stdout.decode()
    assert not (place / "killed.journal").exists()
    assert left_by_kills(place) == []
    assert_same(place / "killed", undisturbed("train"))


@pytest.mark.slow
def test_a_terminated_run_ends_with_what_was_finished_and_can_be_continued(place, undisturbed):
    arguments = [*TRAIN, "--out", "ended", *SAVING]
    with start(arguments, place) as process:
        wait_for(place, "ended.journal", process)
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1].decode()
    assert process.returncode == 143
    assert "Stopping at the next step; a second signal ends it at once." in said
    assert "Terminated: ended has " in said
    assert "The same command with --resume continues the run." in said
    assert json.loads((place / "ended" / "metrics.json").read_text())["interrupted"]
    assert (place / "ended.journal").exists()
    assert call(arguments, place).returncode in (0, 1)
    assert not (place / "ended.journal").exists()
    assert_same(place / "ended", undisturbed("train"))


def survive(arguments: list[str], place: Path, kills: int, longest: float, draw: random.Random) -> int:
    """Start a command again and again, kill it, and let it end at last; return how often it was killed."""
    killed = 0
    while killed < kills:
        code = stopped(arguments, place, signal.SIGKILL, draw.uniform(0.1, longest))
        if code != -9:
            assert code in (0, 1), code
            return killed
        killed += 1
    done = call(arguments, place)
    assert done.returncode in (0, 1), done.stderr.decode()
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", ["train", "frontier"])
def test_many_kills(name, part, place, undisturbed):
    """Eight kills in each part, of one run or of several that follow each other."""
    draw, killed, turn = random.Random(f"{name} {part}"), 0, 0
    expected = undisturbed(name)
    while killed < 8:
        out = f"{name}-{part}-{turn}"
        killed += survive([*COMMANDS[name], "--out", out, *SAVING], place, 8 - killed, 8.0, draw)
        turn += 1
        assert_same(place / out, expected)
        assert not (place / f"{out}.journal").exists()
        assert left_by_kills(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_kills_of_a_reproduction(part, place):
    """The same command continues; every run has the same outcome as in an undisturbed reproduction."""

    def outcomes(out: str) -> dict[str, object]:
        lines = [json.loads(line) for line in (place / out / "results.jsonl").read_text().splitlines()]
        times = ("seconds", "processor_seconds", "peak_megabytes")
        return {line["key"]: {name: value for name, value in line.items() if name not in times} for line in lines}

    draw = random.Random(part)
    if not (place / "whole").exists():
        assert call([*REPRODUCE, "--out", "whole"], place).returncode == 0
    killed = turn = 0
    while killed < 10:
        out = f"reproduction-{part}-{turn}"
        killed += survive([*REPRODUCE, "--out", out], place, 10 - killed, 8.0, draw)
        turn += 1
        assert outcomes(out) == outcomes("whole")


def test_a_run_without_kills_leaves_no_journal(fairbound, loans, tmp_path):
    found = fairbound("train", loans, *LOANS, "--checkpoint", 0.01, "--out", "run")
    assert found.code == 0
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv", "run"}


def test_an_interrupted_run_is_replaced_by_the_one_that_continues_it(fairbound, loans, monkeypatch, tmp_path):
    arguments = ["train", loans, *LOANS, "--checkpoint", 0.0001, "--out", "run"]
    with monkeypatch.context() as patched:
        interrupt_when(patched, "Training without limits: free, step 3")
        found = fairbound(*arguments)
    assert found.code == 130
    assert found.stderr.rstrip().endswith("The same command with --resume continues the run.")
    again = fairbound(*arguments)
    assert "run exists already (--out)" in again.sentence  # not without --resume
    assert fairbound(*arguments, "--resume").code == 0
    assert not json.loads((tmp_path / "run" / "metrics.json").read_text())["interrupted"]
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv", "run"}
    assert "run exists already (--out)" in fairbound(*arguments, "--resume").sentence


def test_a_journal_of_other_rows_is_refused(fairbound, loans, monkeypatch, tmp_path):
    arguments = ["train", loans, *LOANS, "--checkpoint", 0.0001, "--out", "run"]
    with monkeypatch.context() as patched:
        interrupt_when(patched, "Training without limits: free, step 3")
        fairbound(*arguments)
    lines = loans.read_text().splitlines(keepends=True)
    loans.write_text("".join(lines[:-1]))
    found = fairbound(*arguments, "--resume", "--quiet")
    assert found.code == 2
    assert "run.journal is that of another run" in found.stderr


def test_resume_without_checkpoints_is_refused(fairbound, loans):
    found = fairbound("train", loans, *LOANS, "--checkpoint", 0, "--resume", "--out", "run")
    assert (found.code, "--checkpoint 0 writes none" in found.sentence) == (2, True)
