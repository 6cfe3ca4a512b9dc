"""How the program ends: exit codes that programs rely on, errors as one sentence, and signals.

The library raises `ValueError`, `OSError` or `ImportError` with a message that keeps its arguments as parts.  They are
shown as options.  Any other error, except a lack of memory, is a defect of fairbound.  Its traceback is printed, and it
has its own exit code, so that it is never mistaken for a limit that is not kept.

SIGTERM ends training as Ctrl-C does.  At other times SIGTERM and SIGHUP end a command at once, like a second Ctrl-C,
and unfinished output is removed.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from fairbound._errors import Message, is_reported, message_of, render
from fairbound._escapes import visible
from fairbound.cli.names import option_name

# 70 and 71 are those of sysexits.h.  After a signal, the code is 128 plus its number, as in shells.
KEPT, NOT_KEPT, BAD_INPUT, DEFECT, NO_MEMORY = 0, 1, 2, 70, 71
HUNG_UP, INTERRUPTED, CLOSED_PIPE, TERMINATED = 129, 130, 141, 143
EXIT_CODES = {
    KEPT: "done, and every limit asked for is kept",
    NOT_KEPT: "a limit is not kept, is not certified, or has raised an alarm, or the model is of no use",
    BAD_INPUT: "bad input, or output that cannot be written: one sentence on standard error",
    DEFECT: "a defect of fairbound, with its traceback",
    NO_MEMORY: "not enough memory",
    HUNG_UP: "the terminal was closed (SIGHUP)",
    INTERRUPTED: "interrupted (Ctrl-C)",
    CLOSED_PIPE: "the reader of the output has closed it, as in `| head -1`",
    TERMINATED: "terminated (SIGTERM), as by `timeout` or `docker stop`",
}
"""The exit codes; docs/reference/command_line.md has the same table."""


def sentence_of(error: BaseException) -> str:
    """Return an expected error as one line that ends with a full stop."""
    if isinstance(error, OSError) and error.strerror:
        named = f" {error.filename}" if error.filename else ""
        verb = "write" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS) else "use"
        text = f"Cannot {verb}{named}: {error.strerror.lower()}"
    else:
        message = message_of(error)
        # Our own messages are sentences.  Those of other libraries may have several lines.
        text = render(message, option_name) if isinstance(message, Message) else " ".join(message.split())
        text = text or type(error).__name__
    return text if text.endswith((".", "?", "!")) else f"{text}."


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error is a lack of memory; torch and the system raise different ones."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "out of memory" in str(error)))
        or type(error).__name__ in ("OutOfMemoryError", "TerminatedWorkerError")  # of torch; of joblib
    )


def complain(sentence: str) -> None:
    """Write a sentence to standard error, after the name of the program."""
    sys.stderr.write(f"fairbound: {visible(sentence)}\n")
    sys.stderr.flush()


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a warning as a sentence to standard error, without the line of code that raised it."""
    complain(f"Warning: {' '.join(render(message, option_name).split())}")


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM); everything cleans up as after Ctrl-C."""

    code, word = TERMINATED, "Terminated"


class HungUp(Terminated):
    """The terminal of the process was closed."""

    code, word = HUNG_UP, "Hung up"


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupt."""
    return interrupt.code if isinstance(interrupt, Terminated) else INTERRUPTED


_SIGNALS = {
    getattr(signal, name): kind for name, kind in (("SIGTERM", Terminated), ("SIGHUP", HungUp)) if hasattr(signal, name)
}


class Guard:
    """A context that turns an exception or a signal into a sentence and an exit code."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._told: KeyboardInterrupt | None = None

    def __enter__(self) -> Guard:
        if threading.current_thread() is threading.main_thread():  # only the main thread can handle signals
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:  # under `nohup` SIGHUP stays ignored
                    self._before[number] = signal.signal(number, self._end)
        return self

    def _end(self, number: int, _: object) -> None:
        for each in self._before:
            signal.signal(each, signal.SIG_IGN)  # a second signal must not disturb the cleanup
        self._told = _SIGNALS[signal.Signals(number)]()
        raise self._told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, SystemExit):
            if self._told is not None:  # typer exits with 130 for every interrupt before a command has begun
                raise SystemExit(exit_code(self._told)) from error
            if isinstance(error.__context__, BrokenPipeError):  # typer and rich exit with 1 then
                raise SystemExit(CLOSED_PIPE) from error
        if error is None or isinstance(error, SystemExit) or type(error).__module__.split(".")[0] in ("typer", "click"):
            return
        raise SystemExit(self._report(error)) from error

    def _report(self, error: BaseException) -> int:
        """Print what went wrong; return the exit code."""
        if isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        if isinstance(error, KeyboardInterrupt):
            complain(f"{getattr(error, 'word', 'Interrupted')}; unfinished output was removed.")
            return exit_code(error)
        is_input = isinstance(error, ValueError | OSError | ImportError)
        if os.environ.get("FAIRBOUND_TRACEBACK") or not (is_input or lacks_memory(error)):
            sys.stderr.write(visible("".join(traceback.format_exception(error)), keep="\n"))
        if lacks_memory(error):
            complain(
                "There is not enough memory: use fewer rows or columns, a smaller --model, fewer --jobs, or a machine "
                "with more memory."
            )
            return NO_MEMORY
        if is_input:
            if not is_reported(error):
                complain(sentence_of(error))
            return BAD_INPUT
        complain("This is a defect of fairbound; please report it with the lines above.")
        return DEFECT
