"""Ctrl-C: the first ends training at the next step with the best found, and leaves writing alone; the second leaves."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fairbound.cli.output import Output


class Interruptible:
    """A context in which the first interrupt is only noted, with a word; a callback of training asks for it.

    >>> with Interruptible() as interrupt:
    ...     interrupt.asked({"phase": "free"})
    False
    """

    def __init__(self, said: str = "Stopping at the next step") -> None:
        self.happened, self.said = False, said
        self._before: Any = None

    def __enter__(self) -> Interruptible:
        # Only the main thread may take signals; elsewhere an interrupt stays what it was.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def asked(self, row: dict[str, Any]) -> bool:  # noqa: ARG002  # the form of a callback of training
        """Tell whether training shall end."""
        return self.happened

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the form of a handler
        if self.happened:
            raise KeyboardInterrupt
        self.happened = True
        sys.stderr.write(f"\nfairbound: {self.said}; press Ctrl-C again to leave at once.\n")
        sys.stderr.flush()


@contextmanager
def finishing(output: Output) -> Iterator[None]:
    """Show that a run is evaluated and written, which an interrupt does not throw away."""
    with output.stage("Evaluating and writing the report"), Interruptible("Writing what is finished"):
        yield
