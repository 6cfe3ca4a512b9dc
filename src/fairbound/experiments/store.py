"""The results file: one line of JSON for each finished run, looked up by what defines the run.

Lines are only ever added, each in one write, so that an interrupt or a full disk costs at most the run under way; a
last line that was cut short is dropped when the file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import fairbound
from fairbound._files import UnfitFileError, parse_json, read_bytes
from fairbound.experiments.outcomes import Outcome
from fairbound.experiments.runs import Run

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LARGEST = 2**30
"""Bytes of the file; a run takes about 40,000."""
START = b'{"key":'
"""How every line begins."""


class Results:
    """Outcomes by run, and the file that they are kept in.

    Parameters
    ----------
    path : path, optional
        The file, read when there is one; without a path, outcomes live in memory only.

    Attributes
    ----------
    outdated : int
        How many of the file's results are left alone because another version of the package made them.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.outdated = 0
        self._outcomes: dict[str, Outcome] = {}
        if path is not None:
            with _locked(path):
                self._read(path)

    def _read(self, path: Path) -> None:
        try:
            whole, _, rest = read_bytes(path, LARGEST).rpartition(b"\n")
        except UnfitFileError as error:
            raise ValueError(
                f"{path} is not the results of `fairbound reproduce`: {error}. Give another --out."
            ) from error
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                values = parse_json(line)
                # Before anything else: another version's results may have other fields.
                if values["version"] != fairbound.__version__:
                    self.outdated += 1
                    continue
                outcome = Outcome.from_dict(values)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(_foreign(path, number)) from error
            self._outcomes[outcome.run.key] = outcome
        if rest:
            # Cut short by an interrupt, what was under way is run again; but only what we have written is dropped.
            if rest[: len(START)] != START[: len(rest)]:
                raise ValueError(_foreign(path, len(whole.splitlines()) + 1))
            os.truncate(path, len(whole) + 1 if whole else 0)

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome, on disk first."""
        if self.path is not None:
            line = json.dumps(outcome.as_dict(), separators=(",", ":")).encode() + b"\n"
            with _locked(self.path) as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:  # a full disk leaves no half of a line
                    os.truncate(self.path, end)
                    raise
        self._outcomes[outcome.run.key] = outcome

    def __getitem__(self, run: Run) -> Outcome:
        return self._outcomes[run.key]

    def __contains__(self, run: Run) -> bool:
        return run.key in self._outcomes

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._outcomes.values())

    def __len__(self) -> int:
        return len(self._outcomes)

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those of the runs that have no outcome yet, each once, in their order."""
        return [run for run in dict.fromkeys(runs) if run not in self]


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file, made if there is none, while no other run reads or writes it."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; give another --out.")
    with path.open("ab") as file:
        if fcntl is not None:
            with suppress(OSError):  # a disk without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _foreign(path: Path, number: int) -> str:
    return (
        f"{path}, line {number}, is not a result of `fairbound reproduce`. Give another --out, or delete the file to "
        "begin anew."
    )
