"""The options that several commands share, with one wording of their help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli.files import existing_file

if TYPE_CHECKING:
    from fairbound.fairness import Constraint


def examples(*lines: tuple[str, str]) -> str:
    """Return examples for the end of a help page: a description and a command, which stays on one line."""
    keep = "\b"  # marks a paragraph whose lines stay as they are
    return "\n\n".join(["Examples:", *(f"{keep}\n{what}:\n  $ {command}" for what, command in lines)])


def _option(*names: str, help: str, **settings: Any) -> Any:  # noqa: A002  # typer's own name for it
    return typer.Option(*names, help=help, **settings)


Json = Annotated[bool, _option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, _option("--quiet", "-q", help="Print neither tables nor progress.")]

Table = Annotated[str, typer.Argument(metavar="FILE", help="A CSV or Parquet file.", show_default=False)]
TableOrName = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DATASET",
        help="A CSV or Parquet file, or the name of a known data set (fairbound data list).",
        show_default=False,
    ),
]
Target = Annotated[str, _option("--target", metavar="COLUMN", help="The column of the label.", show_default=False)]
TargetUnlessKnown = Annotated[
    str | None,
    _option("--target", metavar="COLUMN", help="The column of the label; not needed for a known data set."),
]
Prediction = Annotated[
    str, _option("--prediction", metavar="COLUMN", help="The column of the decisions.", show_default=False)
]
Sensitive = Annotated[
    list[str],
    _option("--sensitive", metavar="COLUMN...", help="The sensitive columns, one or several.", show_default=False),
]
SensitiveUnlessKnown = Annotated[
    list[str] | None,
    _option(
        "--sensitive", metavar="COLUMN...", help="The sensitive columns; by default the first one of a known data set."
    ),
]
Positive = Annotated[
    list[str] | None,
    _option("--positive", metavar="VALUE...", help="The favourable values of the label; not needed for 0 and 1."),
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
        metavar="linear|mlp:32|boosted|lightgbm|forest",
        help="A linear model, a network with these hidden layers (mlp:64,32), or trees with a linear correction.",
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
MinGroupSize = Annotated[int, _option("--min-group-size", min=1, help="Groups with fewer rows count as small.")]


# --- settings --------------------------------------------------------------------------------------------------------

# Convert options into the arguments of a study.


HELD_OUT = 0.2  # the default share of the rows


def check_held_out(share: float | None, file: str | None) -> float:
    """Return the share of the rows to hold out; 0 if a file has the held-out rows."""
    if file is None:
        return HELD_OUT if share is None else share
    if share is not None:
        raise ValueError("--test holds a share of the rows out, and --test-file brings others; give one of both.")
    existing_file(file)
    return 0.0


def swept_limit(measure: str, bounds: Sequence[float] | None, choose: float | None) -> tuple[Constraint, list[float]]:
    """Return the limit with the chosen bound, by default the middle one, and all bounds of a frontier.

    >>> swept_limit("disparate_impact", [0.9, 0.7, 0.8], None)
    (DisparateImpact(0.8), [0.7, 0.8, 0.9])
    """
    from fairbound._words import lookup
    from fairbound.fairness import MEASURES, parse_constraint
    from fairbound.studies import usual_bounds

    known = lookup(MEASURES, measure, "measure")
    given = {*(bounds or usual_bounds(measure)), *([] if choose is None else [choose])}
    grid = sorted(given, reverse=not known.larger_is_stricter)
    chosen = grid[len(grid) // 2] if choose is None else choose
    return parse_constraint(f"{measure} {'>=' if known.larger_is_stricter else '<='} {chosen!r}"), grid


def parse_bands(words: Sequence[str] | None) -> dict[str, list[float]]:
    """Parse bands of groups, `age 25,40,60` or `age=25,40,60`.

    >>> parse_bands(["age", "25,40", "income=2000"])
    {'age': [25.0, 40.0], 'income': [2000.0]}
    """
    found: dict[str, list[float]] = {}
    rest = list(words or ())
    while rest:
        word = rest.pop(0)
        name, sign, cuts = word.rpartition("=")
        if not sign:
            name, cuts = word, rest.pop(0) if rest else ""
        try:
            found[name] = [float(cut) for cut in cuts.split(",")]
        except ValueError as error:
            raise ValueError(
                f"--bands has {cuts!r} for the column {name!r}; give a column and where to cut it, as in "
                "--bands age 25,40,60."
            ) from error
    return found
