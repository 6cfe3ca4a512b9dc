"""The program and the common behaviour of its commands.

An option with several values takes them in a row, `--sensitive sex race`, or is repeated.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import partial
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from fairbound._escapes import visible
from fairbound.cli.endings import BAD_INPUT, EXIT_CODES, INTERRUPTED, KEPT, NOT_KEPT, Guard, complain, show_warning
from fairbound.cli.options import COMMANDS
from fairbound.cli.output import settled_streams

# typer depends on click or contains a copy of it, depending on its version.  This finds the base class of errors about
# arguments in both cases.
UsageProblem: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Command(TyperCommand):
    """A command that accepts several values in a row, and whose errors are one sentence."""

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser whose options with several values take all words up to the next option."""
        parser: Any = super().make_parser(ctx)
        awaited = len(parser._args)

        def take_row(take_one: Any, value: Any, state: Any) -> None:
            nonlocal awaited
            take_one(value, state)
            row = len(list(takewhile(lambda word: not word.startswith("-") or len(word) == 1, state.rargs)))
            missing = awaited - len(state.largs)
            if row and missing > 0:  # if no later word is a positional argument, the last ones of the row are
                later = type(state)(state.rargs[row:])
                awaited, before = 0, awaited
                parser._process_args_for_options(later)
                awaited = before
                row -= min(row, max(0, missing - len(later.largs) - len(later.rargs)))
            for _ in range(row):
                take_one(state.rargs.pop(0), state)

        for option in set(parser._long_opt.values()):
            if option.action == "append":
                option.process = partial(take_row, option.process)
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        ctx.meta["arguments"] = list(args)  # as given, for the record of a run
        zero = next((each for each in args if "\0" in each), None)
        if zero is not None:
            raise typer.BadParameter(f"{visible(zero)} has a zero character, which no name can have; leave it out.")
        left = super().parse_args(ctx, args)
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
        with Guard(), settled_streams():
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
        except typer.Abort:  # click raises this for Ctrl-C before a command has begun
            return INTERRUPTED
        return code if isinstance(code, int) else KEPT


def _version(wanted: bool) -> None:
    if wanted:
        from fairbound import __version__

        typer.echo(f"fairbound {__version__}")
        raise typer.Exit


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def make_program() -> typer.Typer:
    """Return the program with all its commands."""
    for name in ("train", "predict", "alternatives", "decisions", "monitor", "data", "demo", "reproduce"):
        import_module(f"fairbound.cli.{name}")  # enters its commands
    app = typer.Typer(
        name="fairbound",
        cls=Program,
        help="Train classifiers under stated limits on measured group disparities, and check decisions against them.",
        epilog="Exit codes: "
        + "; ".join(f"{code} {EXIT_CODES[code]}" for code in (KEPT, NOT_KEPT, BAD_INPUT))
        + ". docs/reference/command_line.md has the others.",
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
        _show_help(context)

    tables = typer.Typer(rich_markup_mode=None)

    @tables.callback(invoke_without_command=True)
    def data_root(context: typer.Context) -> None:
        """Known data sets, and the labels of a table by group."""
        _show_help(context)

    for path, made in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        (tables if group else app).command(name, cls=Command, epilog=made["epilog"])(made["command"])
    app.add_typer(tables, name="data")
    return app
