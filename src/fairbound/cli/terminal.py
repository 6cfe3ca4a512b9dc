r"""The terminal: standard output and standard error as shells expect them, and Ctrl-C.

* If the reader of a pipe leaves (`fairbound ... | head -1`), the program ends with the exit code for that, whichever
  library wrote, and at whatever moment.  rich and click would end with 1, which means that a limit is not kept.
* A character that the encoding lacks is shown by its number, as in \xe9, so that printing never fails.
* The first Ctrl-C ends training at the next step with the best model found, and does not stop writing; the second
  leaves at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fairbound.cli.errors import CLOSED_PIPE
from fairbound.cli.output import Output


class _Descriptor(io.FileIO):
    """The lowest layer of a stream, through which every byte of the process passes."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._said, self._gone = name, False

    def write(self, data: Any, /) -> int:
        """Write, or end the program; further output is dropped."""
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
    """Replace the two streams within the context; flush them at its end."""
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


class Interruptible:
    """A context in which the first Ctrl-C is only recorded; a callback of training asks for it.

    >>> with Interruptible() as interrupt:
    ...     interrupt.asked({"phase": "free"})
    False
    """

    def __init__(self, said: str = "Stopping at the next step") -> None:
        self.happened, self.said = False, said
        self._before: Any = None

    def __enter__(self) -> Interruptible:
        # Only the main thread can handle signals; elsewhere an interrupt works as usual.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def asked(self, row: dict[str, Any]) -> bool:  # noqa: ARG002  # the form of a callback of training
        """Return whether training shall end."""
        return self.happened

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the form of a handler
        if self.happened:
            raise KeyboardInterrupt
        self.happened = True
        sys.stderr.write(f"\nfairbound: {self.said}; press Ctrl-C again to leave at once.\n")
        sys.stderr.flush()


@contextmanager
def finishing(output: Output) -> Iterator[None]:
    """Show that a run is being evaluated and written; the first Ctrl-C does not stop that."""
    with output.stage("Evaluating and writing the report"), Interruptible("Writing what is finished"):
        yield
