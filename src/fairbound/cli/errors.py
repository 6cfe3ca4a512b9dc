"""Errors as one sentence on standard error, and exit codes that programs rely on.

The library raises `ValueError`, `OSError` or `ImportError` with a message that keeps its arguments as parts.  This
module shows them as options.  Any other error, except a lack of memory, is a defect of fairbound.  Its traceback is
printed, and it has its own exit code, so that it is never mistaken for a limit that is not kept.

SIGTERM ends training as Ctrl-C does.  At other times SIGTERM and SIGHUP end a command at once, like a second Ctrl-C,
and unfinished output is removed.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any

from fairbound._errors import Message, is_reported, message_of, render
from fairbound._words import visible

# 70 and 71 are those of sysexits.h.  After a signal, the code is 128 plus its number, as in shells.
KEPT, NOT_KEPT, BAD_INPUT, DEFECT, NO_MEMORY = 0, 1, 2, 70, 71
HUNG_UP, INTERRUPTED, CLOSED_PIPE, TERMINATED = 129, 130, 141, 143
EXIT_CODES = {
    KEPT: "done, and every limit asked for is kept",
    NOT_KEPT: "a limit is not kept, is not certified, or has raised an alarm",
    BAD_INPUT: "bad input, or output that cannot be written: one sentence on standard error",
    DEFECT: "a defect of fairbound, with its traceback",
    NO_MEMORY: "not enough memory",
    HUNG_UP: "the terminal was closed (SIGHUP)",
    INTERRUPTED: "interrupted (Ctrl-C)",
    CLOSED_PIPE: "the reader of the output has left, as in `| head -1`",
    TERMINATED: "terminated (SIGTERM), as by `timeout` or `docker stop`",
}
"""The exit codes; docs/command_line.md has the same table."""
TRACEBACK_VARIABLE = "FAIRBOUND_TRACEBACK"

OPTIONS = {
    "audit_date": "--audit-date",
    "base": "--model",
    "baseline": "--baseline",
    "baseline_prediction": "--baseline-prediction",
    "baseline_score": "--baseline-score",
    "by": "--sensitive",
    "bands": "--bands",
    "batch_size": "--batch-size",
    "bounds": "--bounds",
    "categorical": "--categorical",
    "choosing_size": "--choosing",
    "confidence": "--confidence",
    "class_weight": "--class-weight",
    "margin": "--margin",
    "constraint_share": "--constraint-share",
    "constraints": "--require",
    "data_dir": "--data-dir",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "distribution_date": "--distribution-date",
    "encoding": "--encoding",
    "epochs": "--epochs",
    "final_size": "--final",
    "groups": "--groups",
    "ignore": "--ignore",
    "largest_weight": "--largest-weight",
    "limits": "--require",
    "loss": "--loss",
    "max_categories": "--max-categories",
    "measures": "--measure",
    "memory": "--memory",
    "min_group_size": "--min-group-size",
    "missing": "--missing",
    "model": "--model",
    "models": "--models",
    "negative": "--negative",
    "no_group_worse": "--no-group-worse",
    "pos_label": "--positive",
    "positive": "--positive",
    "positive_decision": "--positive-decision",
    "prediction": "--prediction",
    "regularizers": "--regularizer",
    "resume": "--resume",
    "sample_weight": "--weight",
    "score": "--score",
    "sensitive": "--sensitive",
    "sensitive_columns": "--sensitive",
    "sensitive_features": "--sensitive",
    "small_groups": "--small-groups",
    "solver": "--solver",
    "state": "--state",
    "surrogate": "--surrogate",
    "surrogates": "--surrogate",
    "target": "--target",
    "test_size": "--test",
    "threshold": "--threshold",
    "weight": "--weight",
    "within": "--within",
    "y": "--target",
    "year": "--year",
}
"""The option for each argument of the library."""

FLAGS = {
    ("download", False): "--no-download",
    ("drop_unlabelled", True): "--drop-unlabelled",
    ("no_group_worse", True): "--no-group-worse",
}
"""The flag for an argument with a value."""


def option_name(argument: str, *value: Any) -> str:
    """Return an argument of the library as the option that a user types.

    >>> option_name("target"), option_name("test_size", 0.9), option_name("positive", ["yes", "Yes."])
    ('--target', '--test 0.9', "--positive 'yes' --positive 'Yes.'")
    >>> option_name("drop_unlabelled", True)
    '--drop-unlabelled'
    """
    if value and isinstance(value[0], bool) and (argument, value[0]) in FLAGS:
        return FLAGS[argument, value[0]]
    if argument not in OPTIONS:  # no option exists: the command sets this argument itself
        return argument.replace("_", " ") + "".join(f" {each}" for each in value)
    option = OPTIONS[argument]
    if not value:
        return option
    several = value[0] if isinstance(value[0], list | tuple) else value
    return " ".join(f"{option} {_typed(each)}" for each in several)


def _typed(value: Any) -> str:
    """Return a value as a user types it.  Text is always quoted, because a full stop may follow it."""
    if isinstance(value, dict):  # bands: the name of a column and its cuts
        return " ".join(f"{name} {','.join(map(str, cuts))}" for name, cuts in value.items())
    if not isinstance(value, str):
        return str(value)
    safe = shlex.quote(value)
    return f"'{value}'" if safe == value else safe


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
    text = render(message, option_name)
    complain(f"Warning: {' '.join(text.split())}")


def _print_traceback(error: BaseException) -> None:
    sys.stderr.write(visible("".join(traceback.format_exception(error)), keep="\n"))


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM); everything cleans up as after Ctrl-C."""

    code = TERMINATED


class HungUp(Terminated):
    """The terminal of the process was closed."""

    code = HUNG_UP


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupt."""
    return interrupt.code if isinstance(interrupt, Terminated) else INTERRUPTED


_SIGNALS = {
    getattr(signal, name): kind for name, kind in (("SIGTERM", Terminated), ("SIGHUP", HungUp)) if hasattr(signal, name)
}


IMPORT_PAUSE = 0.05
"""Seconds after which a signal that arrived during an import is handled again."""


def _is_importing(frame: FrameType | None, since: FrameType | None) -> bool:
    """Return whether an import is under way that began after the frame `since`."""
    while frame is not None and frame is not since:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Guard:
    """A context that turns an exception or a signal into a sentence and an exit code."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._told: KeyboardInterrupt | None = None
        self._entered: FrameType | None = None

    def __enter__(self) -> Guard:
        self._entered = sys._getframe(1)  # a program may itself run inside an import
        if threading.current_thread() is threading.main_thread():  # only the main thread can handle signals
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:  # under `nohup` SIGHUP stays ignored
                    self._before[number] = signal.signal(number, self._end)
        return self

    def _end(self, number: int, frame: FrameType | None) -> None:
        if _is_importing(frame, self._entered):
            # An exception inside the initialisation of a library in C++, such as torch, aborts the process.
            again = threading.Timer(IMPORT_PAUSE, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        for each in self._before:
            signal.signal(each, signal.SIG_IGN)  # a second signal must not disturb the cleanup
        self._told = _SIGNALS[signal.Signals(number)]()
        raise self._told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._told is not None and isinstance(error, SystemExit):
            # typer exits with 130 for every interrupt before a command has begun.
            raise SystemExit(exit_code(self._told)) from error
        if error is None or isinstance(error, SystemExit) or type(error).__module__.split(".")[0] in ("typer", "click"):
            return
        if isinstance(error, KeyboardInterrupt):
            word = {INTERRUPTED: "Interrupted", TERMINATED: "Terminated", HUNG_UP: "Hung up"}[exit_code(error)]
            complain(f"{word}; unfinished output was removed.")
            raise SystemExit(exit_code(error)) from error
        if os.environ.get(TRACEBACK_VARIABLE):
            _print_traceback(error)
        if lacks_memory(error):
            complain(
                "There is not enough memory: use fewer rows or columns, a smaller --model, fewer --jobs, or a machine "
                "with more memory."
            )
            raise SystemExit(NO_MEMORY) from error
        if isinstance(error, ValueError | OSError | ImportError):
            if not is_reported(error):
                complain(sentence_of(error))
            raise SystemExit(BAD_INPUT) from error
        if not os.environ.get(TRACEBACK_VARIABLE):
            _print_traceback(error)
        complain("This is a defect of fairbound; please report it with the lines above.")
        raise SystemExit(DEFECT) from error
