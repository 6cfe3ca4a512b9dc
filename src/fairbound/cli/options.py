"""The options that several commands share, with one wording of their help."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def examples(*lines: tuple[str, str]) -> str:
    """Return examples for the end of a help page: what it does, and the command, which is never broken."""
    keep = "\b"  # marks a paragraph whose lines stay as they are
    return "\n\n".join(["Examples:", *(f"{keep}\n{what}:\n  $ {command}" for what, command in lines)])


def _option(*names: str, help: str, **settings: Any) -> Any:  # noqa: A002  # typer's own name for it
    return typer.Option(*names, help=help, **settings)


Json = Annotated[bool, _option("--json", help="Print one JSON object in place of tables.")]
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
    _option("--target", metavar="COLUMN", help="The column of the label; known for a known data set."),
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
    _option("--sensitive", metavar="COLUMN...", help="The sensitive columns; the first one of a known data set."),
]
Positive = Annotated[
    list[str] | None,
    _option("--positive", metavar="VALUE...", help="The favourable values of the label; not needed for 0 and 1."),
]
Negative = Annotated[
    list[str] | None,
    _option("--negative", metavar="VALUE...", help="All other values of the label; any further one is then refused."),
]
DropUnlabelled = Annotated[
    bool, _option("--drop-unlabelled", help="Drop the rows without a label; they are refused otherwise.")
]
PositiveDecision = Annotated[
    str | None,
    _option(
        "--positive-decision",
        metavar="VALUE",
        help="The decision that counts as --positive, where the decisions have two values of their own.",
    ),
]
Multiclass = Annotated[
    bool, _option("--multiclass", help="Keep all values of a label that has more than two, each as a class.")
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
    _option("--groups", metavar="each|intersection|both", help="What the groups of several sensitive columns are."),
]
Weight = Annotated[str | None, _option("--weight", metavar="COLUMN", help="The column of the rows' weights.")]
Delimiter = Annotated[
    str | None, _option("--delimiter", metavar="CHARACTER", help="Between the values of a text file.")
]
Encoding = Annotated[str, _option("--encoding", metavar="NAME", help="Of a text file.")]
Categorical = Annotated[
    list[str] | None,
    _option("--categorical", metavar="COLUMN...", help="Columns of numbers that are codes of categories."),
]
Ignore = Annotated[
    list[str] | None, _option("--ignore", metavar="COLUMN...", help="Columns to leave out, such as identifiers.")
]
Out = Annotated[str, _option("--out", "-o", metavar="FOLDER", help="A folder to create.", show_default=False)]
DataFolder = Annotated[
    str | None,
    _option(
        "--data-dir", metavar="FOLDER", help="Where known data sets are looked for first.", envvar="FAIRBOUND_DATA"
    ),
]
Seed = Annotated[int, _option("--seed", min=0, help="Of all draws: the parts of the data, the first weights.")]
Test = Annotated[
    float | None,
    _option("--test", metavar="SHARE", help="Share of the rows to hold out; 0 holds none out. [default: 0.2]"),
]
TestFile = Annotated[
    str | None,
    _option("--test-file", metavar="FILE", help="Hold these rows out, in place of a share of the first file."),
]
Missing = Annotated[
    list[str] | None,
    _option("--missing", metavar="WORD...", help="Words for a missing value, besides the usual ones such as NA."),
]
Decimal = Annotated[
    str | None,
    _option("--decimal", metavar=".|,", help="The decimal mark of numbers in a text file; found out by default."),
]
Bands = Annotated[
    list[str] | None,
    _option("--bands", metavar="COLUMN CUTS", help="Groups of a sensitive column of numbers: --bands age 25,40,60."),
]
MaxCategories = Annotated[
    int, _option("--max-categories", min=2, help="The most categories of one column; the rarest share one.")
]
Model = Annotated[str, _option("--model", metavar="linear|mlp:32", help="A linear model, or hidden layers, mlp:64,32.")]
SmallGroups = Annotated[
    str,
    _option("--small-groups", metavar="error|warn|merge", help="What to do with groups of few rows."),
]
MinGroupSize = Annotated[int, _option("--min-group-size", min=1, help="Rows below which a group is small.")]
