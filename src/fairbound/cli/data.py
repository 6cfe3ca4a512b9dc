"""`fairbound data list | describe | fetch`: the known data sets, and the labels of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairbound._text_tables import TextTable
from fairbound.cli.names import option_name
from fairbound.cli.options import DescribingOptions, command
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import CatalogueEntry


@command("data list")
def list_all(*, data_dir: str | None = None, output: Output) -> None:
    """List the known data sets, and where to get each.

    Parameters
    ----------
    data_dir : FOLDER
        The folder in which known data sets are looked for first.

    Examples
    --------
    All of them:
      $ fairbound data list
    """
    from fairbound.data import DATASETS

    listed = {name: _facts(source, data_dir) for name, source in DATASETS.items()}
    rows = [
        (name, facts["target"], ", ".join(facts["sensitive"]), facts["where"], facts["description"])
        for name, facts in listed.items()
    ]
    output.tables(TextTable("Data sets", ("name", "label", "groups", "where", "what"), tuple(rows), left=5))
    output.result({"command": "data list", "datasets": listed})


@command("data describe")
def describe(source: str, *, reading: DescribingOptions, output: Output) -> None:
    """Show the labels of a table by group, before any model.

    Prints counts by group and label, the measures of a perfect prediction, and the accuracies of constant predictions.

    Parameters
    ----------
    source : FILE|DATASET
        A CSV or Parquet file, or the name of a known data set (fairbound data list).

    Examples
    --------
    The shipped data by race:
      $ fairbound data describe law --sensitive race
    Your own file:
      $ fairbound data describe loans.csv --target approved --sensitive sex --positive yes
    """
    from fairbound._errors import render
    from fairbound.cli.inputs import load
    from fairbound.cli.output import check_source
    from fairbound.cli.studying import show_columns, show_label

    check_source(source)
    from fairbound._json import plain
    from fairbound.studies import columns_taken, label_values, remarks

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
            "label": plain(label_values(data)),
            "taken": plain(columns_taken(data, option_name)),
            "missing": gaps,
            "notes": notes,
            "by": [facts.to_dict() for facts in described],
        }
    )


@command("data fetch")
def fetch(
    name: str,
    *,
    state: list[str] | None = None,
    year: int | None = None,
    no_download: bool = False,
    data_dir: str | None = None,
    output: Output,
) -> None:
    """Download a known data set, once, and check its content.

    Parameters
    ----------
    name : DATASET
        See fairbound data list.
    state : LETTERS...
        For acsincome: states, such as CA NY.
    year : int
        For acsincome: the year of the survey, from 2014 on.
    no_download : bool
        Raise an error if the file is not on this machine.
    data_dir : FOLDER
        The folder in which known data sets are looked for first.

    Examples
    --------
    Into the cache of your account:
      $ fairbound data fetch adult
    Two states of a year:
      $ fairbound data fetch acsincome --state NY NJ --year 2022
    """
    from fairbound.data import load_dataset

    data = load_dataset(
        name,
        state=None if not state else state[0] if len(state) == 1 else state,
        year=year,
        data_dir=data_dir,
        download=not no_download,
        progress=False if output.quiet else None,
    )
    output.text(f"{data!r}. Use it by its name, {name}.")
    output.result({"command": "data fetch", "name": data.name, "rows": len(data), "sensitive": list(data.sensitive)})


def _facts(source: CatalogueEntry, data_dir: str | None) -> dict[str, Any]:
    return {
        "target": source.target,
        "sensitive": [column.name for column in source.sensitive],
        "where": _where(source, data_dir),
        "description": source.description,
        "origin": source.file.origin,
    }


def _where(source: CatalogueEntry, data_dir: str | None) -> str:
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
