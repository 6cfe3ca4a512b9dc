"""The program, its commands and their common behaviour; errors and exit codes.

* An option with several values takes them in a row, `--sensitive sex race`, or is repeated.
* Every error ends in one sentence and a stable exit code.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import FrameType, TracebackType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from fairbound._errors import Message, is_reported, message_of, render
from fairbound._words import visible

# typer depends on click or contains a copy of it, depending on its version.  This finds the base class of errors about
# arguments in both cases.
UsageProblem: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


@dataclass(frozen=True)
class Word:
    """A word of a command line that is neither an option nor its first value.  It may be a further value."""

    text: str
    option: str | None  # the option with several values that directly precedes it


def spread(arguments: Sequence[str], params: Sequence[Any]) -> list[str]:
    """Repeat an option before each of its values: `--sensitive sex race` becomes `--sensitive sex --sensitive race`.

    The words after such an option are its values.  If positional arguments are missing elsewhere, the last words are
    these: in `--bands age 25,40 FILE` the last word is the file.
    """
    read, rest = _read(arguments, {name: each for each in params if _is_option(each) for name in each.opts})
    certain = sum(isinstance(each, Word) and each.option is None for each in read) + len(rest[1:])
    awaited = sum(not _is_option(each) for each in params) - certain
    found: list[str] = []
    for values, run in groupby(read, key=lambda each: isinstance(each, Word) and each.option is not None):
        several = list(run)
        taken = len(several) - min(max(awaited, 0), len(several)) if values else 0
        for place, each in enumerate(several):
            if isinstance(each, str):
                found.append(each)
            elif place < taken and each.option is not None:
                found += [each.option, each.text]
            else:
                found.append(each.text)
        awaited -= len(several) - taken if values else 0
    return [*found, *rest]


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _read(arguments: Sequence[str], options: Mapping[str, Any]) -> tuple[list[str | Word], list[str]]:
    """Return the options with their first values and the other words, and then the words after `--`."""
    found: list[str | Word] = []
    several: str | None = None
    rest = list(arguments)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        if not word.startswith("-") or len(word) == 1:
            found.append(Word(word, several))
            continue
        found.append(word)
        name, inline, _ = word.partition("=")
        param = options.get(name)
        several = name if param is not None and param.multiple else None
        if param is not None and not param.is_flag and not inline and rest:
            found.append(rest.pop(0))
    return found, rest


class Command(TyperCommand):
    """A command that accepts several values in a row, and whose errors are one sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        ctx.meta["arguments"] = list(args)  # as given, for the record of a run
        zero = next((each for each in args if "\0" in each), None)
        if zero is not None:
            raise typer.BadParameter(f"{visible(zero)} has a zero character, which no name can have; leave it out.")
        left = super().parse_args(ctx, spread(args, self.params))
        if ctx.params.get("out") == "":
            raise typer.BadParameter("--out is empty; give a name.")
        return left

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with Guard():
            return super().invoke(ctx)


class Program(TyperGroup):
    """The group of all commands."""

    def main(self, *arguments: Any, **options: Any) -> NoReturn:
        """Run, and exit with the code of the command.  Errors about arguments are one sentence, too."""
        from fairbound.cli.output import guarded_streams

        with Guard(), guarded_streams():
            sys.exit(self._run(*arguments, **options))

    def _run(self, *arguments: Any, **options: Any) -> int:
        options["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                code = super().main(*arguments, **options)
        except UsageProblem as problem:
            context = getattr(problem, "ctx", None)
            path = context.command_path if context is not None else "fairbound"
            sentence = " ".join(problem.format_message().split())
            if os.environ.get("RANK", "0") == "0":  # all processes have the same arguments: only the first complains
                asks = sentence.endswith("?")
                complain(f"{sentence} See {path} --help." if asks else f"{sentence.rstrip('.')}; see {path} --help.")
            return BAD_INPUT
        except typer.Abort as abort:  # click raises this for Ctrl-C before a command has begun
            return exit_code(abort.__cause__) if isinstance(abort.__cause__, KeyboardInterrupt) else INTERRUPTED
        return code if isinstance(code, int) else KEPT


def _version(wanted: bool) -> None:
    if wanted:
        from fairbound import __version__

        typer.echo(f"fairbound {__version__}")
        raise typer.Exit


def make_program() -> typer.Typer:
    """Return the program with all its commands."""
    from fairbound.cli import alternatives, data, decisions, monitor, predict, reproduce, train

    app = typer.Typer(
        name="fairbound",
        cls=Program,
        help="Train classifiers under stated limits on measured group disparities, and check decisions against them.",
        epilog="Exit codes: "
        + "; ".join(f"{code} {EXIT_CODES[code]}" for code in (KEPT, NOT_KEPT, BAD_INPUT))
        + ". docs/command_line.md has the others.",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help pages open faster, and their commands can be copied
    )

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: Annotated[  # noqa: ARG001  # handled by its callback
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for module in (train, alternatives, predict, decisions, monitor, data, reproduce):
        module.register(app, Command)
    return app


# --- errors ----------------------------------------------------------------------------------------------------------

# Errors as one sentence on standard error, and exit codes that programs rely on.
#
# The library raises `ValueError`, `OSError` or `ImportError` with a message that keeps its arguments as parts.  This
# module shows them as options.  Any other error, except a lack of memory, is a defect of fairbound.  Its traceback is
# printed, and it has its own exit code, so that it is never mistaken for a limit that is not kept.
#
# SIGTERM ends training as Ctrl-C does.  At other times SIGTERM and SIGHUP end a command at once, like a second Ctrl-C,
# and unfinished output is removed.


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
    CLOSED_PIPE: "the reader of the output has closed it, as in `| head -1`",
    TERMINATED: "terminated (SIGTERM), as by `timeout` or `docker stop`",
}
"""The exit codes; docs/command_line.md has the same table."""
TRACEBACK_VARIABLE = "FAIRBOUND_TRACEBACK"

_ALIKE = (
    "audit_date bands baseline baseline_prediction baseline_score batch_size bounds categorical class_weight "
    "confidence constraint_share data_dir decimal delimiter distribution_date encoding epochs groups ignore "
    "largest_weight loss margin max_categories memory min_group_size missing model models negative no_group_worse "
    "positive positive_decision prediction resume score sensitive small_groups solver state surrogate target "
    "threshold weight within year"
)
OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _ALIKE.split()} | {
    "base": "--model",
    "by": "--sensitive",
    "choosing_size": "--choosing",
    "constraints": "--require",
    "final_size": "--final",
    "limits": "--require",
    "measures": "--measure",
    "pos_label": "--positive",
    "regularizers": "--regularizer",
    "sample_weight": "--weight",
    "sensitive_columns": "--sensitive",
    "sensitive_features": "--sensitive",
    "surrogates": "--surrogate",
    "test_size": "--test",
    "y": "--target",
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
