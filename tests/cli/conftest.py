"""A program to call, and small files to call it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from tests.cli.helpers import LOAN_COLUMNS, loan_rows, write_csv
from typer.testing import CliRunner

from fairbound.cli.program import make_program


@dataclass(frozen=True)
class Outcome:
    """What a call of the program left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def sentence(self) -> str:
        """The one line on standard error of a refused call."""
        (line,) = self.stderr.splitlines()
        assert line.startswith("fairbound: ")
        return line.removeprefix("fairbound: ")


@pytest.fixture
def fairbound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Outcome]:
    """Return a function that calls the program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FAIRBOUND_TRACEBACK", raising=False)

    def call(*arguments: Any) -> Outcome:
        # Before 8.2, click mixed both streams unless told otherwise; since then it always keeps them apart.
        apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
        result = CliRunner(**apart).invoke(make_program(), [str(each) for each in arguments], prog_name="fairbound")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    """Return a file of 800 decisions: women are selected in 160 of 400 cases, men in 280 of 400."""
    rows = [
        (("yes", "no")[place % 2], "yes" if place < selected else "no", sex, ("north", "south")[place // 2 % 2])
        for sex, selected in (("female", 160), ("male", 280))
        for place in range(400)
    ]
    return write_csv(tmp_path / "decisions.csv", ("approved", "decision", "sex", "region"), rows)


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    """Return a file of 1,500 applicants; the label is 0 or 1."""
    return write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(1500))
