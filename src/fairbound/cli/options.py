"""Options: the parameters of a command, and the fields of dataclasses that several commands share.

`command` makes an argument of each positional parameter, and an option of each other one that has an entry in the
docstring.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairbound._files import existing_file
from fairbound._settings import Declared, at_least, settings_of
from fairbound.cli.names import OPTIONS, names_of

if TYPE_CHECKING:
    from fairbound.fairness import Constraint
    from fairbound.studies import StudySettings

COMMANDS: dict[str, dict[str, Any]] = {}
"""The name of each command, with what typer needs of it."""

Run = Callable[..., None]


def command(name: str) -> Callable[[Run], Run]:
    """Return a decorator that makes a function a command; its help page is the docstring."""

    def register(function: Run) -> Run:
        settings: list[Declared] = []
        bundles: dict[str, tuple[Any, list[str]]] = {}
        for each in settings_of(function):
            own = [each]
            if is_dataclass(each.kind):
                own = [field for field in settings_of(each.kind) if field.help]
                bundles[each.name] = each.kind, [field.name for field in own]
            settings += own
        positional = function.__code__.co_varnames[: function.__code__.co_argcount]

        def run(context: typer.Context, **given: Any) -> None:
            for each in settings:
                each.check(given[each.name])
            made = {one: kind(**{each: given.pop(each) for each in own}) for one, (kind, own) in bundles.items()}
            made["output"].command = shlex.join([*context.command_path.split(), *context.meta["arguments"]])
            function(**given, **made)

        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        parameters += [_parameter(each, each.name in positional) for each in settings]
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


def _parameter(declared: Declared, positional: bool) -> inspect.Parameter:
    """Return the parameter that typer makes an argument or an option of."""
    shown = "|".join(declared.choices) or declared.shown
    known: dict[str, Any] = {"help": declared.help, "min": declared.least}
    if shown not in ("bool", "float", "int", "str"):
        known["metavar"] = shown
    required = declared.default is MISSING
    if required:
        known["show_default"] = False
    if declared.name == "data_dir":
        known["envvar"] = "FAIRBOUND_DATA"
    kind = declared.kind if not declared.choices else str if required or declared.default is not None else str | None
    names = names_of(declared.name)
    if not positional:
        OPTIONS[declared.name] = names[0]
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else declared.default,
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
    max_categories: int = at_least(2, 50)
    ignore: list[str] | None = None
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


HELD_OUT = 0.2  # the default share of the rows


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How the models of a study are trained and tested.

    Parameters
    ----------
    model : auto|linear|mlp:32|boosted|lightgbm|forest
        A linear model, a network with these hidden layers (mlp:64,32), or trees with a linear correction; auto chooses
        between linear and boosted by cross-validated loss.
    test_size : SHARE
        The share of the rows to hold out; 0 for none. [default: 0.2]
    test_file : FILE
        A file of held-out rows, instead of a share of the first file.
    seed : int
        Seed of all random draws: the parts of the data, the initial parameters.
    groups : str
        With several sensitive columns: the groups of each column, their intersections, or both.
    small_groups : str
        Groups of few rows: raise an error, leave them out of the limits, or merge them.
    min_group_size : int
        Groups with fewer rows count as small.
    no_group_worse : bool
        Keep the limits by raising rates only: no group's selection rate falls below that without limits.
    loss : str
        The loss that training minimises.
    class_weight : str
        Give all classes the same weight in the loss; not in limits.
    regularizers : TERM...
        A term added to the loss: "demographic_parity * 2" (a squared measure), "l1 * 0.001" or "l2 * 0.01".
    surrogates : NAME:SCALE...
        The surrogate of all limits, or of each in order, such as "sigmoid:20"; by default that of the measure.
    solver : str
        Train by whole passes over the rows, or by mini-batches first; auto decides by the size.
    batch_size : int
        Rows of a mini-batch.
    epochs : int
        Passes over the rows by mini-batches.
    constraint_share : SHARE
        The share of the rows on which mini-batches evaluate the limits. [default: 1/3]
    """

    model: str = "auto"
    test_size: float | None = None
    test_file: str | None = None
    seed: int = at_least(0, 0)
    groups: Literal["each", "intersection", "both"] = "each"
    small_groups: Literal["error", "warn", "merge"] = "error"
    min_group_size: int = at_least(1, 10)
    no_group_worse: bool = False
    loss: Literal["cross_entropy", "hinge"] = "cross_entropy"
    class_weight: Literal["balanced"] | None = None
    regularizers: list[str] | None = None
    surrogates: list[str] | None = None
    solver: Literal["auto", "quasi-newton", "stochastic"] = "auto"
    batch_size: int | None = at_least(1, None)
    epochs: int | None = at_least(1, None)
    constraint_share: float | None = None

    def settings(
        self, limits: str | Iterable[Constraint | str], bounds: Sequence[float] | None = None, **further: Any
    ) -> StudySettings:
        """Return these options as the settings of a study; `further` are settings that other options have."""
        from fairbound.studies import StudySettings

        own = {**vars(self), "test_size": self._share()}
        del own["test_file"]
        return StudySettings.build(limits, bounds, **own, **further)

    def _share(self) -> float:
        """Return the share of the rows to hold out; 0 if a file has the held-out rows."""
        if self.test_file is None:
            return HELD_OUT if self.test_size is None else self.test_size
        if self.test_size is not None:
            raise ValueError("--test holds out a share of the rows, but --test-file names other rows; use one of them.")
        existing_file(self.test_file)
        return 0.0


@dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """Options of the journal, with which a run can continue after a kill.

    Parameters
    ----------
    resume : bool
        Continue a run that was killed or interrupted, from its journal; begin if there is none.
    checkpoint : SECONDS
        Time between writes of the journal, a file beside --out that is removed at the end; 0 writes none.
    """

    resume: bool = False
    checkpoint: float = at_least(0.0, 5.0)
