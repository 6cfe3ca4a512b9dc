"""The journal of a run: the results of its passes over the rows, from which a killed run continues.

A fit is a deterministic sequence of passes over the rows, and the result of each pass is small: sums, counts,
gradients. The journal stores these results in order.  A resumed run starts from the beginning, but reads results from
the journal as long as there are any, instead of passing over the rows.  All other state (the iterate, the BFGS pairs,
multipliers, candidates, random generators) follows from these results bit for bit, so it is never written.

The file begins with a line of JSON: the versions, threads and processes, on which the last bits depend.  Then come
the records:

    length of the content (8 bytes), key (16), checksum of key and content (16), content

The key is a digest of everything that the result depends on: parameters, rows, and the terms that were summed.  If the
key of the next record differs from the expected one, the journal belongs to another run, which is an error.  Records
are appended every few seconds.  A kill can leave an incomplete record at the end, which is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import struct
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from fairbound._errors import InputError, JournalWarning

try:
    import fcntl
except ImportError:  # Windows: two runs with one journal are not noticed there
    fcntl = None  # type: ignore[assignment]

SECONDS = 5.0
"""Seconds between two writes, and before the first one: a shorter run leaves no file."""

LARGEST = 2**32
"""Largest size of a journal in bytes.  Later results are not stored, so a resumed run computes them again."""

PENDING = 2**26
"""Largest number of bytes that wait for the next write; with more, the journal is written at once."""

MARK, VERSION = "fairbound journal", 1
_HEAD = struct.Struct("<Q16s16s")


def digest(*parts: bytes | memoryview) -> bytes:
    """Return 16 bytes that identify the parts, in their order and with their lengths."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(struct.pack("<Q", memoryview(part).nbytes))
        found.update(part)
    return found.digest()


class Journal:
    """The results of passes: first those that the file has, then new ones, which are appended to it.

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
    taken : int
        The number of results that were taken from the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], facts: Mapping[str, Any], *, resume: bool = True, seconds: float = SECONDS
    ) -> None:
        self.path, self.seconds, self.taken = Path(path), seconds, 0
        self._header = json.dumps({MARK: VERSION, **facts}).encode() + b"\n"
        self._pending: list[bytes] = []
        self._waiting = 0
        self._written = time.monotonic()
        self._file: BinaryIO | None = None
        self._end = 0  # the length of the file up to the last whole record that was read or written
        self._reading, self._adding = False, True
        self._refuse_others()
        if resume and self.path.exists():
            try:
                self._open()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.remove()
        else:
            self.close()

    @property
    def found(self) -> bool:
        """Whether a file was found to continue from."""
        return self.taken > 0 or self._reading

    def recall(self, key: bytes) -> bytes | None:
        """Return the next result in the file, or None after the last one; raise an error if its key differs."""
        if not self._reading:
            return None
        record = self._next()
        if record is None:
            self._reading = False
            return None
        if record[0] != key:
            raise InputError(
                "The journal {path} belongs to another run: its pass {number:,} has other rows, settings or "
                "parameters.",
                "Use the rows and settings of the run that was killed, or delete the file to start again.",
                path=str(self.path),
                number=self.taken + 1,
            )
        self.taken += 1
        return record[1]

    def add(self, key: bytes, content: bytes) -> None:
        """Add a result; it is written to the file within a few seconds, together with others."""
        if not self._adding:
            return
        self._reading = False
        self._pending.append(_HEAD.pack(len(content), key, digest(key, content)) + content)
        self._waiting += len(self._pending[-1])
        if self._waiting >= PENDING or time.monotonic() - self._written >= self.seconds:
            self.write()

    def write(self) -> None:
        """Write the added results; if that fails, for example on a full disk, warn and store no more results."""
        if not self._pending:
            return
        size = self._end + self._waiting
        reason = f"it would have more than {LARGEST / 2**30:g} GB" if size > LARGEST else ""
        if not reason:
            try:
                self._write()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                self._drop_incomplete()
        if reason:
            self._adding = False
            warnings.warn(
                f"The journal {self.path} ends here: {reason}. The run goes on; if it is killed, it can be resumed "
                "from here only.",
                JournalWarning,
                stacklevel=2,
            )
        self._pending, self._waiting, self._written = [], 0, time.monotonic()

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
        self._pending, self._waiting, self._adding = [], 0, False
        there = self._file is not None
        self.close()
        if there:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _refuse_others(self) -> None:
        """Raise an error if the path has a file that is not a journal; writing would replace it."""
        if self.path.is_dir() or (self.path.exists() and not _is_journal(self.path)):
            raise InputError(
                "{path} is not a journal of fairbound.", "Name another file, or move it away.", path=str(self.path)
            )

    def _open(self) -> None:
        self._file = self.path.open("r+b")
        self._lock()
        header = self._file.readline(2**16)
        if not header.endswith(b"\n"):  # the run was killed during its first write
            self._end = 0
            return
        known = _facts(header) or {}
        asked = json.loads(self._header)
        if known != asked:
            name = next(name for name in (*asked, *known) if asked.get(name) != known.get(name))
            raise InputError(
                "The journal {path} cannot be continued: {name} was {before}, and is {now}.",
                "Make both the same, or delete the file to start again.",
                path=str(self.path),
                name=name,
                before=known.get(name),
                now=asked.get(name),
            )
        self._end, self._reading = self._file.tell(), True

    def _next(self) -> tuple[bytes, bytes] | None:
        """Return key and content of the next whole record; None at the end of the file."""
        assert self._file is not None
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, key, checksum = _HEAD.unpack(head)
        if length > os.fstat(self._file.fileno()).st_size - self._end:
            return None
        content = self._file.read(length)
        if digest(key, content) != checksum:
            return None
        self._end += _HEAD.size + length
        return key, content

    def _write(self) -> None:
        if self._file is None:
            if self.path.exists() and not _is_journal(self.path):  # it has appeared since the run began
                raise FileExistsError(errno.EEXIST, "another file is there", str(self.path))
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
            self._lock()
            self._file.truncate(0)
        if self._end == 0:
            self._file.truncate(0)
            self._pending.insert(0, self._header)
        self._file.seek(self._end)
        self._file.truncate()  # drop an incomplete record, which a kill may have left
        written = b"".join(self._pending)
        self._file.write(written)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end += len(written)

    def _drop_incomplete(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.truncate(self.path, self._end)

    def _lock(self) -> None:
        """Lock the journal; raise an error if another process uses it.  The lock is released when a process ends."""
        assert self._file is not None
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                "Another process is using the journal {path}.",
                "Wait for its end, or name another file.",
                path=str(self.path),
            ) from error
        except OSError:  # some file systems have no locks
            return


def _is_journal(path: Path) -> bool:
    """Return whether a file is a journal, or the incomplete first line of one, left by a kill."""
    start = json.dumps({MARK: VERSION}).encode()[:-1]
    with path.open("rb") as file:
        header = file.readline(2**16)
    if not header.endswith(b"\n"):
        return start.startswith(header[: len(start)]) and len(header) < 2**16
    return _facts(header) is not None


def _facts(header: bytes) -> dict[str, Any] | None:
    """Return the facts in the first line of a journal; None if the file is not a journal."""
    try:
        facts = json.loads(header)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and MARK in facts else None
