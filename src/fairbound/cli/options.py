"""The options that several commands share, with one wording of their help.

Options that belong together are the fields of a dataclass, such as `ReadingOptions`.  A command takes the dataclass as
one parameter, and `with_options` makes an option of each field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from fairbound._files import existing_file

if TYPE_CHECKING:
    from fairbound.fairness import Constraint
    from fairbound.studies import StudySettings


def examples(*lines: tuple[str, str]) -> str:
    """Return examples for the end of a help page: a description and a command, which stays on one line."""
    keep = "\b"  # marks a paragraph whose lines stay as they are
    return "\n\n".join(["Examples:", *(f"{keep}\n{what}:\n  $ {command}" for what, command in lines)])


def _option(*names: str, help: str, **settings: Any) -> Any:  # noqa: A002  # typer's own name for it
    return typer.Option(*names, help=help, **settings)


Json = Annotated[bool, _option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, _option("--quiet", "-q", help="Print neither tables nor progress.")]
Exact = Annotated[
    bool, _option("--exact", help="Write text to CSV unchanged, even if a spreadsheet would read it as a formula.")
]

Table = Annotated[str, typer.Argument(metavar="FILE", help="A CSV or Parquet file.", show_default=False)]
TableOrName = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DATASET",
        help="A CSV or Parquet file, or the name of a known data set (fairbound data list).",
        show_default=False,
    ),
]
TargetIfAny = Annotated[
    str | None,
    _option("--target", metavar="COLUMN", help="The column of the label; not needed for measures of decisions alone."),
]
TargetUnlessKnown = Annotated[
    str | None,
    _option("--target", metavar="COLUMN", help="The column of the label; not needed for a known data set."),
]
Prediction = Annotated[
    str, _option("--prediction", metavar="COLUMN", help="The column of the decisions.", show_default=False)
]
PROBABILITIES = "; race=white,black for columns of probabilities of the groups"
Sensitive = Annotated[
    list[str],
    _option(
        "--sensitive",
        metavar="COLUMN...",
        help=f"The sensitive columns, one or several{PROBABILITIES}.",
        show_default=False,
    ),
]
SensitiveUnlessKnown = Annotated[
    list[str] | None,
    _option(
        "--sensitive",
        metavar="COLUMN...",
        help=f"The sensitive columns{PROBABILITIES}; by default the first one of a known data set.",
    ),
]
Positive = Annotated[
    list[str] | None,
    _option(
        "--positive",
        metavar="VALUE...",
        help="The favourable values of the label; not needed for 0 and 1, or no and yes.",
    ),
]
Negative = Annotated[
    list[str] | None,
    _option(
        "--negative", metavar="VALUE...", help="All other values of the label; any value not named is then an error."
    ),
]
DropUnlabelled = Annotated[
    bool, _option("--drop-unlabelled", help="Drop rows without a label; otherwise they are an error.")
]
PositiveDecision = Annotated[
    str | None,
    _option(
        "--positive-decision",
        metavar="VALUE",
        help="The decision that counts as --positive, if decisions and labels have different values.",
    ),
]
Multiclass = Annotated[
    bool, _option("--multiclass", help="Treat each value of a label with more than two values as a class.")
]
Require = Annotated[
    list[str],
    _option("--require", metavar="LIMIT...", help='A limit, such as "disparate_impact >= 0.8".', show_default=False),
]
RequireIfAny = Annotated[
    list[str] | None,
    _option("--require", metavar="LIMIT...", help='A limit, such as "disparate_impact >= 0.8".'),
]
Groups = Annotated[
    str,
    _option(
        "--groups",
        metavar="each|intersection|both",
        help="With several sensitive columns: the groups of each column, their intersections, or both.",
    ),
]
Weight = Annotated[str | None, _option("--weight", metavar="COLUMN", help="The column with the weights of the rows.")]
Delimiter = Annotated[
    str | None, _option("--delimiter", metavar="CHARACTER", help="The character between the values of a text file.")
]
Encoding = Annotated[str, _option("--encoding", metavar="NAME", help="The encoding of a text file.")]
Categorical = Annotated[
    list[str] | None,
    _option("--categorical", metavar="COLUMN...", help="Columns of numbers that are categories, such as codes."),
]
Ignore = Annotated[
    list[str] | None, _option("--ignore", metavar="COLUMN...", help="Columns to leave out, such as identifiers.")
]
Out = Annotated[str, _option("--out", "-o", metavar="FOLDER", help="A folder to create.", show_default=False)]
DataFolder = Annotated[
    str | None,
    _option(
        "--data-dir",
        metavar="FOLDER",
        help="The folder in which known data sets are looked for first.",
        envvar="FAIRBOUND_DATA",
    ),
]
Seed = Annotated[
    int, _option("--seed", min=0, help="Seed of all random draws: the parts of the data, the initial parameters.")
]
Test = Annotated[
    float | None,
    _option("--test", metavar="SHARE", help="The share of the rows to hold out; 0 for none. [default: 0.2]"),
]
TestFile = Annotated[
    str | None,
    _option("--test-file", metavar="FILE", help="A file of held-out rows, instead of a share of the first file."),
]
Missing = Annotated[
    list[str] | None,
    _option("--missing", metavar="WORD...", help="Further words for a missing value, besides NA and the like."),
]
Decimal = Annotated[
    str | None,
    _option("--decimal", metavar=".|,", help="The decimal mark of numbers in a text file; detected by default."),
]
Bands = Annotated[
    list[str] | None,
    _option(
        "--bands", metavar="COLUMN CUTS", help="Turn a sensitive column of numbers into groups: --bands age 25,40,60."
    ),
]
MaxCategories = Annotated[
    int, _option("--max-categories", min=2, help="The most categories of one column; the rarest are merged.")
]
Model = Annotated[
    str,
    _option(
        "--model",
        metavar="auto|linear|mlp:32|boosted|lightgbm|forest",
        help="A linear model, a network with these hidden layers (mlp:64,32), or trees with a linear correction; auto "
        "chooses between linear and boosted by cross-validated loss.",
    ),
]
SmallGroups = Annotated[
    str,
    _option(
        "--small-groups",
        metavar="error|warn|merge",
        help="Groups of few rows: raise an error, leave them out of the limits, or merge them.",
    ),
]
NoGroupWorse = Annotated[
    bool,
    _option(
        "--no-group-worse",
        help="Keep the limits by raising rates only: no group's selection rate falls below that without limits.",
    ),
]
MinGroupSize = Annotated[int, _option("--min-group-size", min=1, help="Groups with fewer rows count as small.")]

Loss = Annotated[str, _option("--loss", metavar="cross_entropy|hinge", help="The loss that training minimises.")]
ClassWeight = Annotated[
    str | None,
    _option("--class-weight", metavar="balanced", help="Give all classes the same weight in the loss; not in limits."),
]
Regularizer = Annotated[
    list[str] | None,
    _option(
        "--regularizer",
        metavar="TERM...",
        help='A term added to the loss: "demographic_parity * 2" (a squared measure), "l1 * 0.001" or "l2 * 0.01".',
    ),
]
Resume = Annotated[
    bool,
    _option(
        "--resume", help="Continue a run that was killed or interrupted, from its journal; begin if there is none."
    ),
]
Checkpoint = Annotated[
    float,
    _option(
        "--checkpoint",
        min=0.0,
        metavar="SECONDS",
        help="Time between writes of the journal, a file beside --out that is removed at the end; 0 writes none.",
    ),
]
Surrogates = Annotated[
    list[str] | None,
    _option(
        "--surrogate",
        metavar="NAME:SCALE...",
        help='The surrogate of all limits, or of each in order, such as "sigmoid:20"; by default that of the measure.',
    ),
]
SolverName = Annotated[
    str,
    _option(
        "--solver",
        metavar="auto|quasi-newton|stochastic",
        help="Train by whole passes over the rows, or by mini-batches first; auto decides by the size.",
    ),
]
BatchSize = Annotated[int | None, _option("--batch-size", min=1, help="Rows of a mini-batch.")]
Epochs = Annotated[int | None, _option("--epochs", min=1, help="Passes over the rows by mini-batches.")]
ConstraintShare = Annotated[
    float | None,
    _option(
        "--constraint-share",
        metavar="SHARE",
        help="The share of the rows on which mini-batches evaluate the limits. [default: 1/3]",
    ),
]


# --- options that belong together ------------------------------------------------------------------------------------

HELD_OUT = 0.2  # the default share of the rows


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a file, or a known data set, becomes a `Dataset`."""

    target: TargetUnlessKnown = None
    sensitive: SensitiveUnlessKnown = None
    positive: Positive = None
    negative: Negative = None
    multiclass: Multiclass = False
    drop_unlabelled: DropUnlabelled = False
    weight: Weight = None
    bands: Bands = None
    missing: Missing = None
    decimal: Decimal = None
    categorical: Categorical = None
    max_categories: MaxCategories = 50
    ignore: Ignore = None
    delimiter: Delimiter = None
    encoding: Encoding = "utf-8"
    data_dir: DataFolder = None


@dataclass(frozen=True, kw_only=True)
class DescribingOptions(ReadingOptions):
    """Reading options of commands that train nothing: without the options that concern models."""

    weight: str | None = None
    max_categories: int = 50


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How the models of a study are trained and tested."""

    model: Model = "auto"
    test: Test = None
    test_file: TestFile = None
    seed: Seed = 0
    groups: Groups = "each"
    small_groups: SmallGroups = "error"
    min_group_size: MinGroupSize = 10
    no_group_worse: NoGroupWorse = False
    loss: Loss = "cross_entropy"
    class_weight: ClassWeight = None
    regularizer: Regularizer = None
    surrogate: Surrogates = None
    solver: SolverName = "auto"
    batch_size: BatchSize = None
    epochs: Epochs = None
    constraint_share: ConstraintShare = None

    def settings(
        self, limits: str | Iterable[Constraint | str], bounds: Sequence[float] | None = None, **further: Any
    ) -> StudySettings:
        """Return these options as the settings of a study; `further` are settings that other options have."""
        from fairbound.studies import StudySettings

        other = ("test", "test_file", "regularizer", "surrogate")
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in other}
        own |= {"regularizers": self.regularizer or (), "surrogates": self.surrogate or ()}
        return StudySettings.build(limits, bounds, test_size=self._test_size(), **own, **further)

    def _test_size(self) -> float:
        """Return the share of the rows to hold out; 0 if a file has the held-out rows."""
        if self.test_file is None:
            return HELD_OUT if self.test is None else self.test
        if self.test is not None:
            raise ValueError("--test holds out a share of the rows, but --test-file names other rows; use one of them.")
        existing_file(self.test_file)
        return 0.0


@dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """Options of the journal, with which a run can continue after a kill."""

    resume: Resume = False
    checkpoint: Checkpoint = 5.0


SELDOM = (
    *(each.name for each in fields(ReadingOptions) if each.name not in ("target", "sensitive")),
    "groups",
    "small_groups",
    "min_group_size",
    "no_group_worse",
    "loss",
    "class_weight",
    "regularizer",
    "checkpoint",
    "surrogate",
    "solver",
    "batch_size",
    "epochs",
    "constraint_share",
    "json",
    "quiet",
)
"""Options at the end of a help page, in this order."""


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for each field of its parameters that are dataclasses.

    Only fields that are declared as options become options; others keep their defaults.
    """
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, list[str]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        declared = get_type_hints(kind, include_extras=True)
        options = [each for each in fields(kind) if get_origin(declared[each.name]) is Annotated]
        bundles[parameter.name] = [each.name for each in options]
        parameters += [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if each.default is MISSING else each.default,
                annotation=declared[each.name],
            )
            for each in options
        ]
    parameters.sort(key=lambda each: SELDOM.index(each.name) + 1 if each.name in SELDOM else 0)

    def run(**given: Any) -> None:
        made = {
            name: hints[name](**{option: given.pop(option) for option in options}) for name, options in bundles.items()
        }
        command(**given, **made)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads these two
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
