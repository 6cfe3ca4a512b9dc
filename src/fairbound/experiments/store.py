"""The results file: one line of JSON for each finished run, found by the run's key.

Lines are only added, each in one write.  So an interrupt or a full disk loses at most the current run.  An incomplete
last line is dropped when the file is opened again.
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
from fairbound.experiments.runs import Outcome, Run

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LARGEST = 2**30
"""Largest size of the file in bytes.  A run takes about 40,000."""
START = b'{"key":'
"""The first characters of every line."""


class Results:
    """Outcomes by run, and the file that stores them.

    Parameters
    ----------
    path : path, optional
        The file.  An existing file is read.  Without a path, outcomes are only in memory.

    Attributes
    ----------
    outdated : int
        The number of results in the file that are ignored because another version of the package made them.
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
                # The version is checked first: results of another version may have other fields.
                if values["version"] != fairbound.__version__:
                    self.outdated += 1
                    continue
                outcome = Outcome.from_dict(values)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(_foreign(path, number)) from error
            self._outcomes[outcome.run.key] = outcome
        if rest:
            # An interrupt left an incomplete line: its run is repeated.  A line that we did not write is an error.
            if rest[: len(START)] != START[: len(rest)]:
                raise ValueError(_foreign(path, len(whole.splitlines()) + 1))
            os.truncate(path, len(whole) + 1 if whole else 0)

    def add(self, outcome: Outcome) -> None:
        """Store an outcome, on disk first."""
        if self.path is not None:
            line = json.dumps(outcome.as_dict(), separators=(",", ":")).encode() + b"\n"
            with _locked(self.path) as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:  # such as a full disk: remove the incomplete line
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
        """Return the runs that have no outcome yet, each once, in their order."""
        return [run for run in dict.fromkeys(runs) if run not in self]


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file with a lock, and create it if it does not exist."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; give another --out.")
    with path.open("ab") as file:
        if fcntl is not None:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _foreign(path: Path, number: int) -> str:
    return (
        f"{path}, line {number}, is not a result of `fairbound reproduce`. Give another --out, or delete the file to "
        "begin anew."
    )
