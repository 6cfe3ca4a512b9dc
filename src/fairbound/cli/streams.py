r"""Standard output and standard error, as shells and terminals expect them.

* If the reader of a pipe leaves (`fairbound ... | head -1`), the program ends with the exit code for that, whichever
  library wrote, and at whatever moment.  rich and click would end with 1, which means that a limit is not kept.
* A character that the encoding lacks is shown by its number, as in \xe9: it never fails a command that has done its
  work.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairbound.cli.errors import CLOSED_PIPE


class _Descriptor(io.FileIO):
    """The lowest layer of a stream: every byte of the process passes here."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._said, self._gone = name, False

    def write(self, data: Any, /) -> int:
        """Write, or end the program; what comes after that is dropped."""
        if self._gone:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            self._gone = True
            raise SystemExit(CLOSED_PIPE) from None
        except OSError as error:
            self._gone = True
            raise OSError(error.errno, error.strerror, self._said) from None


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Replace the two streams for a while; at the end nothing is left to be written."""
    before = sys.stdout, sys.stderr
    sys.stdout = _guarded(sys.stdout, "standard output")
    sys.stderr = _guarded(sys.stderr, "standard error")
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            sys.stdout, sys.stderr = before


def _guarded(stream: Any, name: str) -> Any:
    if stream is None:  # the process was started with it closed
        return open(os.devnull, "w", encoding="utf-8")  # it lives as long as the process
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream  # a notebook or a test has put something else there
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(descriptor, name)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )
