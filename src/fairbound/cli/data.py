"""`fairbound data list | describe | fetch`: the known data sets, and the labels of a table by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import Source

Name = Annotated[str, typer.Argument(metavar="DATASET", help="See fairbound data list.", show_default=False)]
State = Annotated[
    list[str] | None, typer.Option("--state", metavar="LETTERS...", help="For acsincome: states, such as CA NY.")
]
Year = Annotated[int | None, typer.Option("--year", help="For acsincome: the year of the survey, from 2014 on.")]
NoDownload = Annotated[bool, typer.Option("--no-download", help="Raise an error if the file is not on this machine.")]


def register(app: typer.Typer, command: Any) -> None:
    """Add the commands."""
    group = typer.Typer(rich_markup_mode=None)

    @group.callback(invoke_without_command=True)
    def data(context: typer.Context) -> None:
        """Known data sets, and the labels of a table by group."""
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    group.command("list", cls=command, epilog=examples(("All of them", "fairbound data list")))(list_command)
    group.command(
        "describe",
        cls=command,
        epilog=examples(
            ("The shipped data by race", "fairbound data describe law --sensitive race"),
            (
                "Your own file",
                "fairbound data describe loans.csv --target approved --sensitive sex --positive yes",
            ),
        ),
    )(describe_command)
    group.command(
        "fetch",
        cls=command,
        epilog=examples(
            ("Into the cache of your account", "fairbound data fetch adult"),
            ("Two states of a year", "fairbound data fetch acsincome --state NY NJ --year 2022"),
        ),
    )(fetch_command)
    app.add_typer(group, name="data")


def list_command(data_dir: options.DataFolder = None, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List the known data sets, and where to get each."""
    from fairbound.data import DATASETS

    output = Output(json, quiet)
    listed = {name: _facts(source, data_dir) for name, source in DATASETS.items()}
    output.table(
        "Data sets",
        ("name", "label", "groups", "where", "what"),
        [
            (name, facts["target"], ", ".join(facts["sensitive"]), facts["where"], facts["description"])
            for name, facts in listed.items()
        ],
        left=5,
    )
    output.result({"command": "data list", "datasets": listed})


@with_options
def describe_command(
    source: options.TableOrName,
    reading: options.DescribingOptions,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the labels of a table by group, before any model.

    Prints counts by group and label, and the measures of a perfect and of a constant prediction.
    """
    from fairbound._errors import render
    from fairbound.cli.errors import option_name
    from fairbound.cli.files import check_source
    from fairbound.cli.inputs import load
    from fairbound.cli.studying import show_columns, show_label

    check_source(source)
    from fairbound.studies import columns_taken, label_values, remarks

    output = Output(json, quiet)
    data = load(source, reading, quiet=output.silent)
    described = [data.describe(name) for name in data.sensitive]
    gaps = data.table.missing()
    notes = [render(note, option_name) for note in remarks(data)]
    output.text("\n\n".join(map(repr, described)))
    if data.label_values:  # only files have them: the table of a known data set already shows the values
        output.text()
        show_label(output, data)
        show_columns(output, data)
    if gaps:
        output.text("missing values: " + ", ".join(f"{name} {count:,}" for name, count in gaps.items()))
    for note in notes:
        output.text(f"Note: {note}")
    output.result(
        {
            "command": "data describe",
            "name": data.name,
            "description": data.description,
            "target": data.target,
            "features": list(data.feature_names),
            "label": label_values(data),
            "taken": columns_taken(data, option_name),
            "missing": gaps,
            "notes": notes,
            "by": [facts.to_dict() for facts in described],
        }
    )


def fetch_command(
    name: Name,
    state: State = None,
    year: Year = None,
    no_download: NoDownload = False,
    data_dir: options.DataFolder = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Download a known data set, once, and check its content."""
    from fairbound.data import load_dataset

    output = Output(json, quiet)
    data = load_dataset(
        name,
        state=None if not state else state[0] if len(state) == 1 else state,
        year=year,
        data_dir=data_dir,
        download=not no_download,
        progress=False if quiet else None,
    )
    output.text(f"{data!r}. Use it by its name, {name}.")
    output.result({"command": "data fetch", "name": data.name, "rows": len(data), "sensitive": list(data.sensitive)})


def _facts(source: Source, data_dir: str | None) -> dict[str, Any]:
    return {
        "target": source.target,
        "sensitive": [column.name for column in source.sensitive],
        "where": _where(source, data_dir),
        "description": source.description,
        "origin": source.file.origin,
    }


def _where(source: Source, data_dir: str | None) -> str:
    """Return where the file is, without using the network."""
    from fairbound.data import ACSINCOME_CA_SAMPLE, STATE, YEAR, Place, cache_folder, census_source

    if source.file.shipped:
        return "shipped"
    if Place(data_dir).has(source.file):
        return "data folder"
    # If the sample of California is missing, all rows come from the Census.
    file = census_source(STATE, YEAR).file if source is ACSINCOME_CA_SAMPLE else source.file
    if file.url is None:
        return "only from a data folder"
    try:
        cached = (cache_folder() / file.filename).is_file()
    except ImportError:
        return "to download, with pooch"
    return "cache" if cached else "to download"
