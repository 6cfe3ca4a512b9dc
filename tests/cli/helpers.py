"""Small files to call the program on, a folder that nobody may write to, and a Ctrl-C at a chosen moment."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbound.cli.output import Output

Row = Sequence[Any]

LOAN_COLUMNS = ("id", "income", "job", "sex", "approved")
LOANS = ["--target", "approved", "--sensitive", "sex", "--ignore", "id"]
LIMIT = "disparate_impact >= 0.8"


def write_csv(path: Path, header: Row, rows: Iterable[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def loan_rows(n: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Applicants whose approval depends on income, which depends on sex; some jobs, some gaps."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], n)
    income = rng.normal(np.where(sex == "male", 2600.0, 2200.0), 500.0).round()
    job = rng.choice(["cook", "nurse", "smith"], n)
    approved = rng.random(n) < 1.0 / (1.0 + np.exp(-(income - 2400.0) / 200.0))
    shown = ["" if gap else f"{value:.0f}" for value, gap in zip(income, rng.random(n) < 0.02, strict=True)]
    return list(zip(range(n), shown, job.tolist(), sex.tolist(), approved.astype(int).tolist(), strict=True))


def interrupt_when(monkeypatch: pytest.MonkeyPatch, words: str, times: int = 1) -> None:
    """Press Ctrl-C when the progress says so."""
    left = [times]

    def update(self: Output, text: str) -> None:
        if words in text and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Output, "update", update)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up the rights of root for a while: to root no folder is read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def read_only_folder() -> Iterator[Path]:
    """Make a folder that nobody but root may write to, in one that all may enter: pytest's own are their owner's."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs the permissions of a POSIX system")
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    locked = place / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    try:
        yield locked
    finally:
        locked.chmod(0o755)
        shutil.rmtree(place)
