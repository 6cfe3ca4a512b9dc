"""The journal of a run: the results of its solves, from which a killed run continues.

A fit is a deterministic sequence of solves, and what each leaves for the next is small.  The journal has these results
in order.  A resumed run takes them from the journal as long as there are any, and goes on from there.

It is a folder.  `journal.json` has the versions, threads and processes, on which the last bits depend.  The files 1, 2
and so on each have a key of 16 bytes and a result.  A file is written as a whole, so a kill leaves no incomplete one.

The key is a digest of everything that the result depends on.  If it differs from the expected one, the journal belongs
to another run, which is an error.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np

from fairbound._errors import InputError, JournalWarning
from fairbound._files import fresh_folder, write_file

SECONDS = 5.0
"""Seconds between two writes, and before the first one: a shorter run leaves no folder."""

MARK, VERSION = "fairbound journal", 3
FACTS = "journal.json"
KEY = 16  # bytes


def digest(*parts: Any) -> bytes:
    """Return 16 bytes that identify bytes, arrays and other values, in their order; a value by how it is printed."""
    found = blake2b(digest_size=KEY)
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        for part in parts:
            if isinstance(part, np.ndarray):
                found.update(f"{part.dtype}{part.shape}".encode())
                found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
            else:
                stated = part if isinstance(part, bytes) else str(part).encode()
                found.update(f"{len(stated)} ".encode() + stated)
    return found.digest()


class Journal:
    """The results of solves: first those that the folder has, then new ones, which are added to it.

    Use it in a `with` statement.  If the block ends without an error, the run is finished, and the folder is removed.

    Parameters
    ----------
    path : path
    facts : mapping of names to texts or numbers
        A run continues only with the same facts, such as versions and the number of threads.
    resume : bool
        Whether to continue from the folder, if there is one.  Otherwise a journal that is there is replaced.
    seconds : float
        Time between two writes.

    Attributes
    ----------
    found : bool
        Whether there was a journal to continue from.
    """

    def __init__(
        self, path: str | os.PathLike[str], facts: Mapping[str, Any], *, resume: bool = True, seconds: float = SECONDS
    ) -> None:
        self.path, self.seconds = Path(path), seconds
        self._facts = {MARK: VERSION, **facts}
        self._pending: list[bytes] = []
        self._written = time.monotonic()
        self._taken = 0  # the results that were read or written
        self._adding = True
        known = self._known()
        self.found = self._begun = resume and known is not None
        for name, now in self._facts.items():
            if self.found and known is not None and known.get(name) != now:
                raise InputError(
                    "The journal {path} cannot be continued: {name} was {before}, and is {now}.",
                    "Make both the same, or delete the folder to start again.",
                    path=str(self.path),
                    name=name,
                    before=known.get(name),
                    now=now,
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close() if kind else self.remove()

    def recall(self, key: bytes) -> bytes | None:
        """Return the next result in the folder, or None after the last one; raise an error if its key differs."""
        file = self.path / str(self._taken + 1)
        if not self.found or not file.is_file():
            return None
        content = file.read_bytes()
        self._taken += 1
        if content[:KEY] != key:
            raise InputError(
                "The journal {path} belongs to another run: its step {number:,} has other rows, settings or "
                "parameters.",
                "Use the rows and settings of the run that was killed, or delete the folder to start again.",
                path=str(self.path),
                number=self._taken,
            )
        return content[KEY:]

    def add(self, key: bytes, content: bytes) -> None:
        """Add a result; it is written to the folder within a few seconds, together with others."""
        if self._adding:
            self._pending.append(key + content)
            if time.monotonic() - self._written >= self.seconds:
                self._write()

    def stop(self) -> None:
        """Store no more results.  After an interrupt the run ends early; a resumed run must not end there again."""
        self._adding = False

    def close(self) -> None:
        """Write the added results, and keep the folder, if there is one, for a run that resumes."""
        if self._begun:
            self._write()

    def _write(self) -> None:
        """Write the added results; if that fails, for example on a full disk, warn and store no more results."""
        try:
            if self._pending and not self._begun:
                self._begin()
            for content in self._pending:
                write_file(self.path / str(self._taken + 1), content)
                self._taken += 1
        except (OSError, InputError) as error:
            self.stop()
            warnings.warn(
                f"The journal {self.path} ends here: {getattr(error, 'strerror', '') or error}. The run goes on; if it "
                "is killed, it can be resumed from here only.",
                JournalWarning,
                stacklevel=2,
            )
        self._pending, self._written = [], time.monotonic()

    def remove(self) -> None:
        """Remove the folder: the run is finished."""
        self._pending = []
        self.stop()
        if self._begun:
            shutil.rmtree(self.path, ignore_errors=True)

    def _begin(self) -> None:
        """Make the folder, in place of the journal of an earlier run."""
        if self._known() is not None:
            shutil.rmtree(self.path)
        with fresh_folder(self.path) as folder:
            (folder / FACTS).write_text(json.dumps(self._facts), encoding="utf-8")
        self._begun = True

    def _known(self) -> dict[str, Any] | None:
        """Return the facts of the journal at the path, None if nothing is there; refuse anything else."""
        if not os.path.lexists(self.path):
            return None
        try:
            known = json.loads((self.path / FACTS).read_bytes())
        except (OSError, ValueError):
            known = None
        if not isinstance(known, dict) or MARK not in known:
            raise InputError(
                "{path} is not a journal of fairbound.", "Name another place, or move it away.", path=str(self.path)
            )
        return known
