"""Options: the parameters of a command, and the fields of dataclasses that several commands share.

`command` makes an argument of each positional parameter, and an option of each other one that has an entry in the
docstring.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, is_dataclass, replace
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from fairbound._errors import bad_value
from fairbound._files import existing_file
from fairbound._settings import Declared, Range, Settings, settings_of
from fairbound.cli.names import OPTIONS, names_of

COMMANDS: dict[str, dict[str, Any]] = {}
"""The name of each command, with what typer needs of it."""

Run = Callable[..., None]


def command(name: str) -> Callable[[Run], Run]:
    """Return a decorator that makes a function a command; its help page is the docstring."""

    def register(function: Run) -> Run:
        stated = list(settings_of(function))
        options = [each for one in stated for each in _options_of(one)]
        positional = function.__code__.co_varnames[: function.__code__.co_argcount]

        def run(context: typer.Context, **given: Any) -> None:
            for each in options:
                value = each.read(given[_key(each)])
                if each.shell.kind in _PLAIN:
                    each.check(value)
                elif get_origin(each.shell.kind) is Literal:
                    replace(each, kind=each.shell.kind).check(value)
                given[_key(each)] = value
            made = {each.name: _made(each, given) for each in stated}
            made["output"].command = shlex.join([*context.command_path.split(), *context.meta["arguments"]])
            function(**made)

        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        parameters += [_parameter(each, each.name in positional) for each in options]
        run.__doc__, _, sections = (inspect.getdoc(function) or "").partition("\n\nParameters\n")
        examples = sections.partition("Examples\n--------\n")[2]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads these
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        joined = re.sub(r"\n {4,}", " ", examples)
        # \b marks a paragraph whose lines stay as they are.
        epilog = "Examples:\n\n" + re.sub(r"^(?=\S)", "\n\b\n", joined, flags=re.MULTILINE)
        COMMANDS[name] = {"command": run, "epilog": epilog}
        return function

    return register


_PLAIN = (bool, float, int, str)


def _key(declared: Declared) -> str:
    """Return the name of the Python parameter behind an option, such as groups__small."""
    return declared.name.replace(".", "__")


def _options_of(declared: Declared) -> Iterator[Declared]:
    """Yield the settings behind the options of a parameter: itself, or those of its record."""
    if is_dataclass(declared.kind):
        for each in _fields(declared.kind):
            yield from _options_of(each)
    elif declared.shell.kind is not None:
        yield declared


def _fields(kind: Any) -> list[Declared]:
    """Return the settings of a record, by their names in messages; those without help are not for this command."""
    if issubclass(kind, Settings):
        return [replace(each, name=kind.full_name(each)) for each in settings_of(kind)]
    return [each for each in settings_of(kind) if each.help]


def _made(declared: Declared, given: dict[str, Any]) -> Any:
    """Return the value of a parameter: that of its option, or the record of several."""
    if not is_dataclass(declared.kind):
        return given.get(_key(declared))
    kind: Any = declared.kind
    names = [each.name for each in settings_of(kind) if each.help or issubclass(kind, Settings)]
    values = zip(names, (_made(each, given) for each in _fields(kind)), strict=True)
    return kind(**{name: value for name, value in values if value is not None})


def _metavar(shown: str) -> str:
    """Return what a docstring says of the values of an option, unless it names a type of Python."""
    return "" if re.match("(bool|float|int|str|sequence|function)\\b", shown) or '"' in shown[:1] else shown


def _parameter(declared: Declared, positional: bool) -> inspect.Parameter:
    """Return the parameter that typer makes an argument or an option of."""
    shell = declared.shell
    known: dict[str, Any] = {"help": declared.help}
    if shell.kind in (int, float):
        known["min"] = declared.range.least
    words = declared.choices if shell.kind is str else get_args(shell.kind) if get_origin(shell.kind) is Literal else ()
    shown = shell.shown or "|".join(map(str, words)) or _metavar(declared.shown)
    if shown:
        known["metavar"] = shown
    required = declared.default is MISSING
    if required:
        known["show_default"] = False
    if declared.name == "data_dir":
        known["envvar"] = "FAIRBOUND_DATA"
    default = declared.default or None if get_origin(shell.kind) is list else declared.default
    kind = shell.kind if not words else str
    kind = kind if required or default is not None else kind | None
    names = names_of(declared.name)
    if not positional:
        OPTIONS[declared.name] = names[0]
    return inspect.Parameter(
        _key(declared),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else default,
        annotation=Annotated[kind, typer.Argument(**known) if positional else typer.Option(*names, **known)],
    )


@dataclass(frozen=True, kw_only=True)
class DescribingOptions:
    """How a file, or a known data set, becomes a `Dataset`, as far as nothing is trained.

    Parameters
    ----------
    target : COLUMN
        The column of the label; not needed for a known data set.
    sensitive : COLUMN...
        The sensitive columns; race=white,black for columns of probabilities of the groups; by default the first one of
        a known data set.
    positive : VALUE...
        The favourable values of the label; not needed for 0 and 1, or no and yes.
    negative : VALUE...
        All other values of the label; any value not named is then an error.
    multiclass : bool
        Treat each value of a label with more than two values as a class.
    drop_unlabelled : bool
        Drop rows without a label; otherwise they are an error.
    bands : COLUMN CUTS
        Turn a sensitive column of numbers into groups: --bands age 25,40,60.
    missing : WORD...
        Further words for a missing value, besides NA and the like.
    decimal : .|,
        The decimal mark of numbers in a text file; detected by default.
    categorical : COLUMN...
        Columns of numbers that are categories, such as codes.
    ignore : COLUMN...
        Columns to leave out, such as identifiers.
    inputs : COLUMN...
        Use these columns as inputs, and no others.
    dates : COLUMN...
        Columns of dates to read as numbers: days since 1970.
    delimiter : CHARACTER
        The character between the values of a text file.
    encoding : NAME
        The encoding of a text file.
    data_dir : FOLDER
        The folder in which known data sets are looked for first.
    """

    target: str | None = None
    sensitive: list[str] | None = None
    positive: list[str] | None = None
    negative: list[str] | None = None
    multiclass: bool = False
    drop_unlabelled: bool = False
    weight: str | None = None
    bands: list[str] | None = None
    missing: list[str] | None = None
    decimal: str | None = None
    categorical: list[str] | None = None
    max_categories: Annotated[int, Range(least=2)] = 50
    ignore: list[str] | None = None
    inputs: list[str] | None = None
    dates: list[str] | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    data_dir: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(DescribingOptions):
    """How a file, or a known data set, becomes a `Dataset`.

    Parameters
    ----------
    weight : COLUMN
        The column with the weights of the rows.
    max_categories : int
        The most categories of one column; the rarest are merged.
    """


TEST = "0.2"
"""What `--test` is by default."""


def held_out(stated: str) -> tuple[float, str | None]:
    """Return the share of the rows to hold out and the file of held-out rows, one of which `--test` says.

    >>> held_out("0.3")
    (0.3, None)
    """
    try:
        share = float(stated)
    except ValueError:
        existing_file(stated)
        return 0.0, stated
    if not 0 <= share < 1:
        raise bad_value("test", share, "a share of the rows, from 0 (hold none out) to below 1, or a file")
    return share, None


@dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """Options of the journal, with which a run can continue after a kill.

    Parameters
    ----------
    resume : bool
        Continue a run that was killed or interrupted, from its journal; begin if there is none.
    checkpoint : SECONDS
        Least time between writes of the journal, a folder beside --out that is removed at the end.
    """

    resume: bool = False
    checkpoint: Annotated[float, Range(above=0)] = 5.0
