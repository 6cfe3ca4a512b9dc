"""The program: any command line on any file ends with a documented exit code, one sentence, and right numbers.

The calls run in this process, with captured streams; a few run as processes of their own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz import files, oracle
from tests.fuzz import generators as draw
from tests.fuzz.harness import cases, check_refusal, expect, expect_close
from typer.testing import CliRunner

from fairbound.cli.program import make_program

CODES = (0, 1, 2)
"""What a command may end with, where nobody interrupts it: done, a limit not kept, bad input."""

LIMITS = (
    "disparate_impact >= 0.8", "demographic_parity(sex) <= 0.2", "equalized_odds <= 0.3",
    "selection_rate[female] >= 0.1",
    "0.1 <= selection_rate <= 0.9", "disparate_impact >= 0.5 against male", "demographic_parity <= 0.2 against overall",
    "covariance <= 0.1", "accuracy >= 0.5", "representation <= 0.9", "sufficiency <= 0.5",
)  # fmt: skip
WRONG_LIMITS = (
    "", "x", "disparate_impact", "disparate_impact => 0.8", "disparate_impact <= 0.8",
    "demographic_parity <= 1e999", "0.8", "nosuch >= 1",
    "disparate_impact(nosuch) >= 0.8", "selection_rate[nobody] >= 0.1", "disparate_impact >= 0.8 against nobody",
    "covariance <= 3",
    "demographic_parity <= 0.1 for class 7", "\x1b[2J >= 0.8", "disparate_impact >= " + "9" * 400,
)  # fmt: skip
ODD = (
    "",
    " ",
    "nosuch",
    "-1",
    "0",
    "1",
    "2",
    "0.5",
    "nan",
    "inf",
    "1e308",
    "x" * 500,
    "\x1b[31m",
    "ä",
    "--",
    "sex",
    "approved",
    "each",
)

OPTIONS: dict[str, tuple[str, ...]] = {
    "--target": ("approved", "approved", "approved", "job", "region", "aproved"),
    "--prediction": ("decision", "decision", "decision", "approved", "job", "decisoin"),
    "--sensitive": ("sex", "region", "job", "sexx", "income"),
    "--require": (*LIMITS, *LIMITS, *WRONG_LIMITS),
    "--positive": ("1", "1", "0", "yes", "cook", "1.0"),
    "--weight": ("income", "id", "job", "share"),
    "--groups": ("each", "intersection", "both", "all"),
    "--confidence": ("0.9", "0.95", "1", "0", "nan", "95"),
    "--largest-weight": ("1e4", "1", "0", "nan"),
    "--delimiter": (",", ";", "\t", ",,"),
    "--encoding": ("utf-8", "utf-16", "latin-1", "nosuch"),
    "--ignore": ("id", "job", "share", "nosuch"),
    "--categorical": ("income", "job", "nosuch"),
    "--test": ("0.2", "0", "1", "-1", "nan"),
    "--seed": ("0", "1", "-1", "x"),
    "--model": ("linear", "mlp:2", "mlp:", "mlp:-1", "mlp:99999999999", "tree"),
    "--small-groups": ("error", "warn", "merge", "drop"),
    "--min-group-size": ("1", "5", "0", "x"),
    "--out": ("out", ".", "loans.csv", "a/b/c", "", "\x00"),
    "--measure": ("disparate_impact", "equal_opportunity", "selection_rate", "nosuch"),
    "--bounds": ("0.8", "0.9", "0.5", "2", "nan", "x"),
    "--column": ("decided", "sex", ""),
}
FLAGS = ("--json", "--quiet", "--multiclass", "--probability", "--no-models", "--help", "--nosuch", "-q")

COMMANDS: dict[str, tuple[str, ...]] = {
    "audit": ("--target", "--prediction", "--sensitive"),
    "certify": ("--target", "--prediction", "--sensitive", "--require"),
    "data describe": ("--target", "--sensitive"),
    "train": ("--target", "--sensitive", "--out"),
    "frontier": ("--target", "--sensitive", "--out"),
}


@dataclass(frozen=True)
class Outcome:
    """What a call of the program left behind."""

    arguments: list[str]
    code: int
    stdout: str
    stderr: str


def call(arguments: list[str]) -> Outcome:
    """Run the program here; whatever it was refused with must be an error of ours."""
    apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}  # of click before 8.2
    result = CliRunner(**apart).invoke(make_program(), arguments, prog_name="fairbound")
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise error
    if error is not None and error.__cause__ is not None:
        check_refusal(error.__cause__)
    return Outcome(arguments, result.exit_code, result.stdout, result.stderr)


def check(found: Outcome, before: dict[str, int], folder: Path) -> None:
    """Check what holds for every call."""
    said = (" ".join(map(ascii, found.arguments)), "->", found.code, ascii(found.stderr[-500:]))
    expect(found.code in CODES, *said)
    expect("Traceback" not in found.stderr, *said)
    for text in (found.stdout, found.stderr):
        shown = {each for each in text if unicodedata.category(each) == "Cc" and each not in "\n"}
        expect(not shown, "control characters", shown, *said)
    if found.code == 2:
        last = found.stderr.splitlines()[-1]
        expect(last.startswith("fairbound: ") and last.endswith((".", "?", "!")), *said)
        expect(len(last) < 3000, "a sentence of", len(last), "letters", *said[:1])
        expect(snapshot(folder) == before, "something was written", *said)
    elif "--json" in found.arguments and "--help" not in found.arguments:
        json.loads(found.stdout)


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in sorted(folder.rglob("*"))}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FAIRBOUND_TRACEBACK", raising=False)
    return tmp_path


def draw_line(rng: np.random.Generator, command: str, file: str, *, wrong: float) -> list[str]:
    """Return a command line: what the command needs, and some of all options, each with a right or a wrong value."""
    chosen = [name for name in COMMANDS[command] if not draw.chance(rng, 0.1 * wrong)]
    chosen += [name for name in OPTIONS if name not in chosen and draw.chance(rng, 0.12)]
    rng.shuffle(chosen)
    words = [] if draw.chance(rng, 0.05 * wrong) else [file]
    for name in chosen:
        values = OPTIONS[name]
        right = values[: max(1, len(values) // 2)]
        value = draw.pick(
            rng, ODD if draw.chance(rng, 0.2 * wrong) else values if draw.chance(rng, 0.3 * wrong) else right
        )
        words += [name, value]
        if name in ("--sensitive", "--require", "--ignore", "--bounds") and draw.chance(rng, 0.2):
            words.append(draw.pick(rng, values))
    words += [flag for flag in FLAGS if draw.chance(rng, 0.1 if flag.startswith(("--j", "--q", "-q")) else 0.02)]
    return [*command.split(), *words]


@cases("command-line", few=60, many=2_500)
def test_any_command_line_ends_in_a_documented_way(cases, folder):
    cases.run(lambda rng: one_command_line(rng, folder))


def one_command_line(rng: np.random.Generator, folder: Path) -> None:
    clear(folder)
    table = files.draw_table(rng, int(rng.integers(20, 60)), decided=True)
    write: Callable[..., files.Written] = draw.pick(rng, [files.write_csv, files.write_csv, files.write_parquet])
    written = write(rng, table, folder)
    if draw.chance(rng, 0.3):
        written = files.damage(rng, written)
    command = draw.pick(rng, ["audit", "audit", "certify", "certify", "data describe", "train", "frontier"])
    arguments = draw_line(rng, command, written.path.name, wrong=4.0 if command in ("train", "frontier") else 1.0)
    if draw.chance(rng, 0.5):
        told = {"--delimiter": written.delimiter, "--encoding": written.encoding}
        arguments += [word for name, value in told.items() if value is not None for word in (name, value)]
    before = snapshot(folder)
    check(call(arguments), before, folder)


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@cases("command-audit", few=40, many=1_500)
def test_an_audit_of_a_file_agrees_with_the_recomputation(cases, folder):
    cases.run(lambda rng: one_audit_of_a_file(rng, folder))


def one_audit_of_a_file(rng: np.random.Generator, folder: Path) -> None:
    clear(folder)
    table = files.draw_table(rng, int(rng.integers(6, 80)), decided=True)
    label, decided = np.array(table.columns["approved"]), np.array(table.columns["decision"])
    positive = []
    if draw.chance(rng, 0.5):  # labels and decisions as words, and which of them is the favourable one
        words = draw.pick(rng, [("denied", "approved"), ("no", "yes"), ("<=50K", ">50K"), ("0", "2"), ("B", "A")])
        table = files.Table(
            {
                **table.columns,
                "approved": [words[each] for each in label],
                "decision": [words[each] for each in decided],
            }
        )
        positive = ["--positive", words[1]]
    write = draw.pick(rng, [files.write_csv, files.write_csv, files.write_parquet])
    written = write(rng, table, folder)
    arguments = [
        "audit",
        written.path.name,
        "--target",
        "approved",
        "--prediction",
        "decision",
        "--sensitive",
        "sex",
        *positive,
    ]
    arguments += ["--json", "--require", "disparate_impact >= 0.8"]
    arguments += [] if written.delimiter is None else ["--delimiter", written.delimiter]
    arguments += [] if written.encoding == "utf-8" else ["--encoding", written.encoding]
    found = call(arguments)
    groups = {group: np.array(table.columns["sex"]) == group for group in sorted(set(table.columns["sex"]))}
    grouping = oracle.Grouping("sex", groups)
    counted = oracle.Counted(label, decided, 2, [grouping], None)
    if len(groups) < 2:
        expect(found.code == 2, "one group only:", found)
        return
    expect(found.code in (0, 1), found)
    result = json.loads(found.stdout)
    for entry in result["measures"]:
        kind, _ = oracle.comparison_of(entry["measure"])
        values = [
            oracle.compare(kind, a, b) for _, a, b in oracle.measure_values(counted, entry["measure"], grouping, 1)
        ]
        if kind == "covariance":
            values = [abs(each) for each in oracle.covariances(counted, grouping, 1)]
        expect_close(entry["value"], (min if kind == "ratio" else max)(values, default=None), entry["measure"], written)
    ratio = next(entry["value"] for entry in result["measures"] if entry["measure"] == "disparate_impact")
    expect(found.code == (0 if ratio >= 0.8 - 1e-12 else 1), "exit code", found.code, "for", ratio)


def test_some_command_lines_as_processes(folder):
    for number in range(3):
        rng = np.random.default_rng(number)
        clear(folder)
        written = files.write_csv(rng, files.draw_table(rng, 30, decided=True), folder)
        command = draw.pick(rng, ["audit", "certify", "data describe"])
        arguments = draw_line(rng, command, written.path.name, wrong=1.0)
        arguments = [word.replace("\x00", "") for word in arguments]  # no system passes it on
        before = snapshot(folder)
        run: Any = subprocess.run(
            [sys.executable, "-m", "fairbound", *arguments], capture_output=True, cwd=folder, timeout=300, check=False
        )
        check(Outcome(arguments, run.returncode, run.stdout.decode(), run.stderr.decode()), before, folder)
