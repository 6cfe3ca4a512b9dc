"""A program to call, and small files to call it on."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fairbound.cli.program import program

Row = Sequence[Any]


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
        result = CliRunner().invoke(program(), [str(argument) for argument in arguments], prog_name="fairbound")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return call


def write_csv(path: Path, header: Row, rows: Iterable[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    """Return a file of 800 decisions: women are selected in 160 of 400 cases, men in 280 of 400."""
    rows = [
        (("yes", "no")[place % 2], "yes" if place < selected else "no", sex, ("north", "south")[place // 2 % 2])
        for sex, selected in (("female", 160), ("male", 280))
        for place in range(400)
    ]
    return write_csv(tmp_path / "decisions.csv", ("approved", "decision", "sex", "region"), rows)


def loan_rows(n: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Applicants whose approval depends on income, which depends on sex; some jobs, some gaps."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], n)
    income = rng.normal(np.where(sex == "male", 2600.0, 2200.0), 500.0).round()
    job = rng.choice(["cook", "nurse", "smith"], n)
    approved = rng.random(n) < 1.0 / (1.0 + np.exp(-(income - 2400.0) / 200.0))
    shown = ["" if gap else f"{value:.0f}" for value, gap in zip(income, rng.random(n) < 0.02, strict=True)]
    return list(zip(range(n), shown, job.tolist(), sex.tolist(), approved.astype(int).tolist(), strict=True))


LOAN_COLUMNS = ("id", "income", "job", "sex", "approved")


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    """Return a file of 1,500 applicants; the label is 0 or 1."""
    return write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(1500))
