"""Runs that are killed at any moment and continued: nothing is lost, and they end as an undisturbed run does."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, interrupt_when, loan_rows, write_csv
from tests.cli.processes import call, killed, start, wait_for
from tests.refusals import says

from fairbound import load
from fairbound.training import as_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processor time of other processes is in /proc")

TRAIN = ["train", "loans.csv", *LOANS, "--require", LIMIT, "--quiet"]
FRONTIER = ["frontier", "loans.csv", *LOANS, "--bounds", "0.7", "0.9", "--quiet"]
SAVING = ["--resume", "--checkpoint", "0.05"]
FEW = ["few.csv", *LOANS, "--model", "linear", "--test", "0", "--quiet"]
COMMANDS = {
    "train": ["train", *FEW, "--require", LIMIT],
    "frontier": ["frontier", *FEW, "--bounds", "0.5", "0.7"],
    "reproduce": ["reproduce", "table-1", "--dataset", "law", "--rows", "100", "--epochs", "3", "--quiet"],
}
"""Short runs, so that they can be killed often."""

LASTS = {"train": 2.5, "frontier": 0.7, "reproduce": 0.4}
"""About their seconds of processor time."""


def parameters(folder: Path) -> np.ndarray:
    return as_model(load(folder).model_).current()


def models(out: Path) -> list[Path]:
    return [out / "model", *sorted((out / "models").glob("*"))]


def assert_same(out: Path, expected: Path) -> None:
    """Both have the same models bit for bit, and so the same decisions and numbers."""
    for found, other in zip(models(out), models(expected), strict=True):
        assert np.array_equal(parameters(found), parameters(other))
    ours, theirs = (json.loads((each / "summary.json").read_text()) for each in (out, expected))
    for each in (ours, theirs):
        del each["reproduction"], each["fit"]["seconds"]
    assert ours == theirs


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("resumed")
    write_csv(folder / "loans.csv", LOAN_COLUMNS, loan_rows(200))
    write_csv(folder / "few.csv", LOAN_COLUMNS, loan_rows(60))
    return folder


@pytest.fixture(scope="module")
def undisturbed(place):
    """Return the folder of a run without kills, made on first use."""

    def of(name: str) -> Path:
        if not (place / name).exists():
            assert killed([*COMMANDS[name], "--out", name], place) in (0, 1)
        return place / name

    return of


def outcomes(out: Path) -> dict[str, object]:
    """Return what each run of a reproduction has found."""
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    times = ("seconds", "processor_seconds", "peak_megabytes")
    return {line["key"]: {name: value for name, value in line.items() if name not in times} for line in lines}


def survive_kills(name: str, part: str, kills: int, place: Path, expected: Path) -> None:
    """Kill runs at random moments, one or several that follow each other; all end as an undisturbed one does."""
    draw, done, turn = random.Random(f"{name} {part}"), 0, 0
    saving = [] if name == "reproduce" else ["--resume", "--checkpoint", "0.01"]
    while done < kills:
        out = f"{name}-{part}-{turn}"
        command, code = [*COMMANDS[name], "--out", out, *saving], -9
        while code == -9:
            moment = draw.uniform(0.0, LASTS[name]) if done < kills else float("inf")
            code = killed(command, place, moment)
            done += code == -9
            assert not (place / out / "summary.json").exists() or code != -9  # a folder appears when it is complete
        assert code in (0, 1)
        turn += 1
        if name == "reproduce":
            assert outcomes(place / out) == outcomes(expected)
        else:
            assert_same(place / out, expected)
            assert not (place / f"{out}.journal").exists()


@pytest.mark.parametrize(("name", "kills"), [("train", 1), ("frontier", 3), ("reproduce", 2)])
def test_a_few_kills(name, kills, place, undisturbed):
    survive_kills(name, "few", kills, place, undisturbed(name))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize(("name", "kills"), [("train", 16), ("frontier", 16), ("reproduce", 8)])
def test_many_kills(name, kills, part, place, undisturbed):
    """Two hundred in all parts."""
    survive_kills(name, str(part), kills, place, undisturbed(name))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [TRAIN, FRONTIER], ids=["train", "frontier"])
def test_a_killed_run_is_continued(arguments, place):
    """The journal is there before the end; the killed run has left no output, and the next one takes it from there."""
    arguments = [*arguments, "--out", f"killed-{arguments[0]}", *SAVING]
    out = place / arguments[arguments.index("--out") + 1]
    with start(arguments, place) as process:
        wait_for(place, f"{out.name}.journal", process)
        process.kill()
        process.communicate()
    assert process.returncode == -9
    assert not out.exists()
    done = call([each for each in arguments if each != "--quiet"], place)
    assert f"Continuing from {out.name}.journal." in done.stdout.decode()
    assert not out.with_name(f"{out.name}.journal").exists()
    whole = [*arguments[: arguments.index("--out")], "--out", f"whole-{arguments[0]}"]
    assert call(whole, place).returncode in (0, 1)
    assert_same(out, place / f"whole-{arguments[0]}")


@pytest.mark.slow
def test_a_terminated_run_ends_with_what_was_finished_and_can_be_continued(place):
    arguments = [*TRAIN, "--out", "ended", *SAVING]
    with start(arguments, place) as process:
        wait_for(place, "ended.journal", process)
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1].decode()
    assert process.returncode == 143
    assert says(said, "next step", "second signal")
    assert "Terminated: ended has " in said
    assert "--resume continues" in said
    assert json.loads((place / "ended" / "summary.json").read_text())["interrupted"]
    assert (place / "ended.journal").exists()
    assert call(arguments, place).returncode in (0, 1)
    assert not (place / "ended.journal").exists()
    assert call([*TRAIN, "--out", "whole"], place).returncode in (0, 1)
    assert_same(place / "ended", place / "whole")


def test_a_run_without_kills_leaves_no_journal(fairbound, loans, tmp_path):
    found = fairbound("train", loans, *LOANS, "--checkpoint", 0.01, "--out", "run")
    assert found.code == 0
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv", "run"}


def test_an_interrupted_run_is_replaced_by_the_one_that_continues_it(fairbound, loans, monkeypatch, tmp_path):
    arguments = ["train", loans, *LOANS, "--require", LIMIT, "--checkpoint", 0.0001, "--out", "run"]
    with monkeypatch.context() as patched:
        interrupt_when(patched, "Training under the limits: limits")
        found = fairbound(*arguments)
    assert found.code == 130
    assert found.stderr.rstrip().endswith("The same command with --resume continues the run.")
    again = fairbound(*arguments)
    assert "run exists already (--out)" in again.sentence  # not without --resume
    for name in ("notes.txt", "model/notes.txt"):  # version 0.2 removed them
        (tmp_path / "run" / name).write_text("mine")
    assert fairbound(*arguments, "--resume").code in (0, 1)
    assert {(tmp_path / "run" / name).read_text() for name in ("notes.txt", "model/notes.txt")} == {"mine"}
    assert not json.loads((tmp_path / "run" / "summary.json").read_text())["interrupted"]
    assert {each.name for each in tmp_path.iterdir()} == {"loans.csv", "run"}
    assert "run exists already (--out)" in fairbound(*arguments, "--resume").sentence


def test_a_run_that_was_interrupted_in_its_first_solve_is_replaced_too(fairbound, loans, monkeypatch, tmp_path):
    """There is no journal yet, so the same command begins again."""
    arguments = ["train", loans, *LOANS, "--checkpoint", 0.0001, "--out", "run"]
    with monkeypatch.context() as patched:
        interrupt_when(patched, "Training without limits: free, step 3")
        found = fairbound(*arguments)
    assert found.code == 130
    assert "--resume" not in found.stderr
    assert not (tmp_path / "run.journal").exists()
    assert fairbound(*arguments, "--resume").code == 0
    assert not json.loads((tmp_path / "run" / "summary.json").read_text())["interrupted"]


def test_a_journal_of_other_rows_is_refused(fairbound, loans, monkeypatch, tmp_path):
    arguments = ["train", loans, *LOANS, "--require", LIMIT, "--checkpoint", 0.0001, "--out", "run"]
    with monkeypatch.context() as patched:
        interrupt_when(patched, "Training under the limits: limits")
        fairbound(*arguments)
    lines = loans.read_text().splitlines(keepends=True)
    loans.write_text("".join(lines[:-1]))
    found = fairbound(*arguments, "--resume", "--quiet")
    assert found.code == 2
    assert "run.journal belongs to another run" in found.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_the_journal_is_refused(fairbound, loans, tmp_path):
    """Version 0.2 waited for its other end for ever."""
    os.mkfifo(tmp_path / "run.journal")
    found = fairbound("train", loans, *LOANS, "--model", "linear", "--out", "run")
    assert (found.code, "run.journal is not a journal of fairbound" in found.stderr) == (2, True)
