"""What can go wrong, in one sentence on standard error, and the exit code that programs rely on.

The library raises `ValueError`, `OSError` or `ImportError` with a sentence; here the names of Python arguments in it
become those of options.  Anything else but a lack of memory is a defect of this program, and keeps its traceback: with
an exit code of its own, so that it is never taken for a limit that is not kept.

SIGTERM and SIGHUP end a command as a second Ctrl-C does: at once, and without its unfinished output.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any

from fairbound._text import visible

# As sysexits.h and shells have them: 128 and the number of the signal.
KEPT, NOT_KEPT, BAD_INPUT, DEFECT, NO_MEMORY = 0, 1, 2, 70, 71
HUNG_UP, INTERRUPTED, CLOSED_PIPE, TERMINATED = 129, 130, 141, 143
EXIT_CODES = {
    KEPT: "done, and every limit asked for is kept",
    NOT_KEPT: "a limit is not kept, or not certified",
    BAD_INPUT: "bad input, or output that cannot be written: one sentence on standard error",
    DEFECT: "a defect of fairbound, with its traceback",
    NO_MEMORY: "not enough memory",
    HUNG_UP: "the terminal was closed (SIGHUP)",
    INTERRUPTED: "interrupted (Ctrl-C)",
    CLOSED_PIPE: "the reader of the output has left, as in `| head -1`",
    TERMINATED: "terminated (SIGTERM), as by `timeout` or `docker stop`",
}
"""All that a command may end with; docs/command_line.md has the same table."""
TRACEBACK_VARIABLE = "FAIRBOUND_TRACEBACK"

_OPTIONS = {
    "target": "--target",
    "sensitive": "--sensitive",
    "positive": "--positive",
    "negative": "--negative",
    "pos_label": "--positive",
    "positive_decision": "--positive-decision",
    "categorical": "--categorical",
    "ignore": "--ignore",
    "missing": "--missing",
    "bands": "--bands",
    "max_categories": "--max-categories",
    "test_size": "--test",
    "data_dir": "--data-dir",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "encoding": "--encoding",
    "confidence": "--confidence",
    "largest_weight": "--largest-weight",
    "sample_weight": "--weight",
    "weight": "--weight",
    "small_groups": "--small-groups",
    "min_group_size": "--min-group-size",
    "state": "--state",
    "year": "--year",
}
# `name=` where a sentence names an argument, `name='x'` where it shows its value, but not `name=` in the user's text.
_ARGUMENT = re.compile(rf"(?<![\w'\"=-])({'|'.join(_OPTIONS)})=(?=[\s.,;:)]|$|['\"\[\d])")
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
# `name=['a', 'b']`: an option takes its values one by one.
_SEVERAL = re.compile(rf"(?<![\w'\"=-])({'|'.join(_OPTIONS)})=(\[(?:{_LITERAL})(?:, (?:{_LITERAL}))*\])")
_FLAGS = {"download=False": "--no-download", "drop_unlabelled=True": "--drop-unlabelled"}
_SUBJECT = re.compile(rf"^({'|'.join(_OPTIONS)})(?= (?:is|must|has)\b)")  # "test_size is 2; give …"


def as_options(sentence: str) -> str:
    """Return a sentence of the library with options in place of Python arguments.

    >>> as_options("Column 'y' (target=) has the values 'a', 'b'; say which one is favourable with positive=.")
    "Column 'y' (--target) has the values 'a', 'b'; say which one is favourable with --positive."
    >>> as_options("Give positive=['yes', 'Yes.'].")
    "Give --positive 'yes' --positive 'Yes.'."
    """
    for argument, flag in _FLAGS.items():
        sentence = sentence.replace(argument, flag)
    sentence = _SEVERAL.sub(_each_value, sentence)
    sentence = _SUBJECT.sub(lambda match: _OPTIONS[match[1]], sentence)
    return _ARGUMENT.sub(
        lambda match: _OPTIONS[match[1]] + (" " if sentence[match.end() : match.end() + 1] not in " .,;:)" else ""),
        sentence,
    )


def _each_value(match: re.Match[str]) -> str:
    # In quotes even where a shell needs none: a full stop may follow, and may be part of the value.
    quoted = {value: shlex.quote(value) for value in ast.literal_eval(match[2])}
    shown = (f"'{value}'" if value == safe else safe for value, safe in quoted.items())
    return " ".join(f"{_OPTIONS[match[1]]} {value}" for value in shown)


def sentence_of(error: BaseException) -> str:
    """Return an expected error as one line that ends with a full stop."""
    if isinstance(error, OSError) and error.strerror:
        named = f" {error.filename}" if error.filename else ""
        verb = "write" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS) else "use"
        text = f"Cannot {verb}{named}: {error.strerror.lower()}"
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    text = as_options(text)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def lacks_memory(error: BaseException) -> bool:
    """Tell whether an error is a lack of memory: torch and the system have their own ways to say so."""
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
    """Write a warning as a sentence to standard error, in place of the line of code that gave it."""
    complain(f"Warning: {' '.join(str(message).split())}")


def _print_traceback(error: BaseException) -> None:
    sys.stderr.write(visible("".join(traceback.format_exception(error)), keep="\n"))


class Terminated(KeyboardInterrupt):
    """The process was asked to end: everything cleans up as after Ctrl-C."""

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


class Guard:
    """Ends the program with a sentence and its exit code when what it surrounds raises, or when it is told to end."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._told: KeyboardInterrupt | None = None

    def __enter__(self) -> Guard:
        if threading.current_thread() is threading.main_thread():  # only there signals can be taken
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored, and it stays so
                    self._before[number] = signal.signal(number, self._end)
        return self

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the form of a handler
        for each in self._before:
            signal.signal(each, signal.SIG_IGN)  # a second one must not disturb the cleaning up
        self._told = _SIGNALS[signal.Signals(number)]()
        raise self._told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._told is not None and isinstance(error, SystemExit):
            # typer makes 130 of every interrupt that comes before a command has begun.
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
            complain(sentence_of(error))
            raise SystemExit(BAD_INPUT) from error
        if not os.environ.get(TRACEBACK_VARIABLE):
            _print_traceback(error)
        complain("This is a defect of fairbound; please report it with the lines above.")
        raise SystemExit(DEFECT) from error
