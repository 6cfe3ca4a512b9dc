"""The program, its commands, and their common behaviour.

* An option with several values takes them in a row, `--sensitive sex race`, or is repeated.
* Every error ends in one sentence and a stable exit code (`errors`).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from fairbound.cli.errors import (
    BAD_INPUT,
    EXIT_CODES,
    INTERRUPTED,
    KEPT,
    NOT_KEPT,
    Guard,
    complain,
    exit_code,
    show_warning,
)
from fairbound.cli.output import guarded_streams

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
        return super().parse_args(ctx, spread(args, self.params))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with Guard():
            return super().invoke(ctx)


class Program(TyperGroup):
    """The group of all commands."""

    def main(self, *arguments: Any, **options: Any) -> NoReturn:
        """Run, and exit with the code of the command.  Errors about arguments are one sentence, too."""
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
            if os.environ.get("RANK", "0") == "0":  # of processes with the same arguments, the first one says it
                complain(f"{sentence.rstrip('.')}; see {path} --help.")
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
