"""What can go wrong, in one sentence on standard error, and the exit code that programs rely on.

The library raises `ValueError`, `OSError` or `ImportError` with a sentence; here the names of Python arguments in it
become those of options.  Anything else is a defect of this program, and keeps its traceback: with an exit code of its
own, so that it is never taken for a limit that is not kept.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import traceback
from types import TracebackType

from fairbound._text import visible

KEPT, NOT_KEPT, BAD_INPUT = 0, 1, 2
DEFECT, INTERRUPTED, CLOSED_PIPE = 70, 130, 141  # as sysexits.h and shells have them
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
        text = f"Cannot use{named}: {error.strerror.lower()}"
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    text = as_options(text)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def complain(sentence: str) -> None:
    """Write a sentence to standard error, after the name of the program."""
    sys.stderr.write(f"fairbound: {visible(sentence)}\n")
    sys.stderr.flush()


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a warning as a sentence to standard error, in place of the line of code that gave it."""
    complain(f"Warning: {' '.join(str(message).split())}")


def _print_traceback(error: BaseException) -> None:
    sys.stderr.write(visible("".join(traceback.format_exception(error)), keep="\n"))


class Guard:
    """Ends the program with a sentence and its exit code when what it surrounds raises."""

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, SystemExit) or type(error).__module__.split(".")[0] in ("typer", "click"):
            return
        if isinstance(error, KeyboardInterrupt):
            complain("Interrupted; nothing was written.")
            raise SystemExit(INTERRUPTED) from error
        if isinstance(error, BrokenPipeError):
            # Whoever read our output has seen enough; the interpreter must not try to flush the rest at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(CLOSED_PIPE) from error
        if os.environ.get(TRACEBACK_VARIABLE):
            _print_traceback(error)
        if isinstance(error, ValueError | OSError | ImportError):
            complain(sentence_of(error))
            raise SystemExit(BAD_INPUT) from error
        if not os.environ.get(TRACEBACK_VARIABLE):
            _print_traceback(error)
        complain("This is a defect of fairbound; please report it with the lines above.")
        raise SystemExit(DEFECT) from error
