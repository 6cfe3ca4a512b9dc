"""Pipes that are closed, terminals that lack characters, names that are not UTF-8: exit codes keep their meaning."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from tests.cli.helpers import LOAN_COLUMNS, LOANS, loan_rows, write_csv
from tests.cli.processes import call, environment

from fairbound.cli.endings import EXIT_CODES, Guard

DECIDED = ["--target", "approved", "--prediction", "decision", "--positive", "yes", "--sensitive", "sex"]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command_line.md"

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes and file names of POSIX")


def test_the_page_has_the_table_of_exit_codes():
    table = dict(re.findall(r"^\| (\d+) \| (.*?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {int(code): text for code, text in table.items()} == EXIT_CODES


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_a_lack_of_memory_is_no_defect(error, capsys):
    with pytest.raises(SystemExit) as ended, Guard():
        raise error
    assert ended.value.code == 71
    said = capsys.readouterr().err
    assert said.startswith("fairbound: There is not enough memory: use fewer rows")
    assert len(said.splitlines()) == 1


@posix
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["train", "--help"], ["data", "list"], ["audit"], ["audit", "--json"]],
    ids=" ".join,
)
def test_a_reader_that_has_left_is_not_a_limit_that_is_broken(arguments, decisions, tmp_path):
    if arguments[0] == "audit":
        arguments = ["audit", decisions, *DECIDED, *arguments[1:]]
    reading, writing = os.pipe()
    os.close(reading)
    ended = call(arguments, tmp_path, stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@posix
def test_a_message_that_nobody_reads(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    ended = call(["audit", "nosuch.csv", *DECIDED], tmp_path, stderr=writing)
    os.close(writing)
    assert ended.returncode == 141


@posix
def test_output_that_cannot_be_written_is_said(decisions, tmp_path):
    with open("/dev/full", "wb") as full:
        ended = call(["audit", decisions, *DECIDED], tmp_path, stdout=full)
    assert ended.returncode == 2
    assert ended.stderr == b"fairbound: Cannot write standard output: no space left on device.\n"


@posix
def test_a_full_disk_names_the_output_and_leaves_nothing(decisions, tmp_path):
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "from fairbound.cli import main; main()"
    )
    rows = write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(400))
    before = sorted(tmp_path.iterdir())
    ended = call(["train", rows, *LOANS, "--out", "out"], tmp_path, program=program)
    assert ended.returncode == 2
    assert b"fairbound: Cannot write out: file too large." in ended.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_characters_that_the_terminal_lacks(tmp_path):
    rows = [(("yes", "no")[k % 2], ("yes", "no")[k // 2 % 2], ("Zoë", "Ünal")[k % 3 % 2]) for k in range(60)]
    file = write_csv(tmp_path / "rows.csv", ("approved", "decision", "sex"), rows)
    ascii_only = environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    shown = call(["audit", file, *DECIDED], tmp_path, env=ascii_only)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert rb"Zo\xeb" in shown.stdout
    printed = call(["audit", file, *DECIDED, "--json"], tmp_path, env=ascii_only)
    assert printed.returncode == 0
    assert "Zoë" in json.dumps(json.loads(printed.stdout), ensure_ascii=False)


@pytest.mark.slow
@posix
def test_file_names_that_are_not_utf8(tmp_path):
    if sys.platform == "darwin":
        pytest.skip("its file names are UTF-8")
    rows = write_csv(tmp_path / os.fsdecode(b"l\xff.csv"), LOAN_COLUMNS, loan_rows(400))
    out, decided, page = (tmp_path / os.fsdecode(name) for name in (b"o\xff", b"d\xff.parquet", b"r\xff.html"))
    trained = call(["train", rows, *LOANS, "--require", "disparate_impact >= 0.5", "--out", out], tmp_path)
    assert trained.returncode == 0, trained.stderr
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert rows.name in summary["reproduction"]["command"]
    for arguments in (
        ["predict", out, rows, "--out", decided],
        ["audit", decided, "--target", "approved", "--prediction", "prediction", "--sensitive", "sex", "--json"],
        ["report", out, "--out", page],
        ["report", out],
    ):
        ended = call(arguments, tmp_path)
        assert (arguments[0], ended.returncode) == (arguments[0], 0), ended.stderr
    assert rb"l\udcff.csv" in page.read_bytes()
    assert not list(tmp_path.glob(".fairbound-*"))
