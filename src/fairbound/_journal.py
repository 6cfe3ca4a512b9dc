"""The journal of a run: the results of its solves, from which a killed run continues.

A fit is a deterministic sequence of solves, and what each leaves for the next is small.  The journal has these results
in order.  A resumed run takes them from the journal as long as there are any, and goes on from there.

The file begins with a line of JSON: the versions, threads and processes, on which the last bits depend.  Then come
the records:

    length of the content (8 bytes), key (16), checksum of key and content (16), content

The key is a digest of everything that the result depends on.  If it differs from the expected one, the journal belongs
to another run, which is an error.  A kill can leave an incomplete record at the end, which is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import time
import warnings
from collections.abc import Mapping
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Any, Self

import numpy as np

from fairbound._errors import InputError, JournalWarning

try:
    import fcntl
except ImportError:  # Windows: two runs with one journal are not noticed there
    fcntl = None  # type: ignore[assignment]

SECONDS = 5.0
"""Seconds between two writes, and before the first one: a shorter run leaves no file."""

MARK, VERSION = "fairbound journal", 2
_HEAD = struct.Struct("<Q16s16s")


def digest(*parts: Any) -> bytes:
    """Return 16 bytes that identify bytes, arrays and other values, in their order; a value by how it is printed."""
    found = blake2b(digest_size=16)
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
    """The results of solves: first those that the file has, then new ones, which are appended to it.

    Use it in a `with` statement.  If the block ends without an error, the run is finished, and the file is removed.

    Parameters
    ----------
    path : path
    facts : mapping of names to texts or numbers
        A run continues only with the same facts, such as versions and the number of threads.
    resume : bool
        Whether to continue from the file, if there is one.  Otherwise a file that is there is replaced.
    seconds : float
        Time between two writes.

    Attributes
    ----------
    found : bool
        Whether a file was found to continue from.
    """

    def __init__(
        self, path: str | os.PathLike[str], facts: Mapping[str, Any], *, resume: bool = True, seconds: float = SECONDS
    ) -> None:
        self.path, self.seconds, self.found = Path(path), seconds, False
        self._facts = {MARK: VERSION, **facts}
        self._pending: list[bytes] = []
        self._written = time.monotonic()
        self._file: FileIO | None = None
        self._taken = self._end = 0  # the records and the length of the file that were read or written
        self._adding = True
        header = self._header()
        if resume and self.path.exists():
            self._open()
            if header.endswith(b"\n"):  # else the run was killed during its first write
                self._continue(header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close() if kind else self.remove()

    def recall(self, key: bytes) -> bytes | None:
        """Return the next result in the file, or None after the last one; raise an error if its key differs."""
        if self._file is None:
            return None
        self._file.seek(self._end)
        length, found, checksum = _HEAD.unpack(self._file.read(_HEAD.size).ljust(_HEAD.size))
        whole = self._end + _HEAD.size + length <= os.fstat(self._file.fileno()).st_size
        content = self._file.read(length) if whole else b""
        if not whole or digest(found, content) != checksum:
            return None
        self._taken += 1
        if found != key:
            raise InputError(
                "The journal {path} belongs to another run: its step {number:,} has other rows, settings or "
                "parameters.",
                "Use the rows and settings of the run that was killed, or delete the file to start again.",
                path=str(self.path),
                number=self._taken,
            )
        self._end += _HEAD.size + length
        return content

    def add(self, key: bytes, content: bytes) -> None:
        """Add a result; it is written to the file within a few seconds, together with others."""
        if self._adding:
            self._pending += [_HEAD.pack(len(content), key, digest(key, content)), content]
            if time.monotonic() - self._written >= self.seconds:
                self.write()

    def write(self) -> None:
        """Write the added results; if that fails, for example on a full disk, warn and store no more results."""
        if not self._pending:
            return
        try:
            if self._file is None:
                self._header()  # refuses a file that has appeared since the run began
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._open()
            written = b"".join([b"" if self._end else json.dumps(self._facts).encode() + b"\n", *self._pending])
            assert self._file is not None
            self._file.truncate(self._end)  # drop an incomplete record, which a kill may have left
            self._file.seek(self._end)
            if self._file.write(written) < len(written):
                raise OSError("there is no space left for it")
            os.fsync(self._file.fileno())
            self._end += len(written)
        except (OSError, InputError) as error:
            self.stop()
            warnings.warn(
                f"The journal {self.path} ends here: {getattr(error, 'strerror', '') or error}. The run goes on; if it "
                "is killed, it can be resumed from here only.",
                JournalWarning,
                stacklevel=2,
            )
        self._pending, self._written = [], time.monotonic()

    def stop(self) -> None:
        """Store no more results.  After an interrupt the run ends early; a resumed run must not end there again."""
        self._adding = False

    def close(self) -> None:
        """Write the added results, and keep the file for a run that resumes."""
        if self._file is not None:
            self.write()
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Remove the file: the run is finished."""
        self._pending = []
        self.stop()
        if self._file is not None:
            self.close()
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _header(self) -> bytes:
        """Return the first line of the file, empty if there is none; refuse a file that is not a journal."""
        if not os.path.lexists(self.path):
            return b""
        start, header = json.dumps({MARK: VERSION}).encode()[:-2], b" "
        if self.path.is_file():
            with self.path.open("rb") as file:
                header = file.readline(2**16)
        if not header.startswith(start[: len(header)]):  # a kill may have left a part of the first line
            raise InputError(
                "{path} is not a journal of fairbound.", "Name another file, or move it away.", path=str(self.path)
            )
        return header

    def _open(self) -> None:
        """Open and lock the file; raise an error if another process uses it.  A lock ends with its process."""
        self.path.touch()
        self._file = self.path.open("r+b", buffering=0)
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise InputError(
                "Another process is using the journal {path}.",
                "Wait for its end, or name another file.",
                path=str(self.path),
            ) from error
        except OSError:  # some file systems have no locks
            return

    def _continue(self, header: bytes) -> None:
        """Read on after the header, unless its facts differ."""
        known = json.loads(header)
        for name, now in self._facts.items():
            if known.get(name) != now:
                self.close()
                raise InputError(
                    "The journal {path} cannot be continued: {name} was {before}, and is {now}.",
                    "Make both the same, or delete the file to start again.",
                    path=str(self.path),
                    name=name,
                    before=known.get(name),
                    now=now,
                )
        self._end, self.found = len(header), True
