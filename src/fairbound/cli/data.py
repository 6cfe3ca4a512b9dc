"""`fairbound data list | describe | fetch`, the known data sets and the labels of a table; and `fairbound demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Output, finishing, fresh_folder
from fairbound.cli.program import KEPT, NOT_KEPT, complain, exit_code

if TYPE_CHECKING:
    from fairbound.data import CatalogueEntry
    from fairbound.studies import Study

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
    app.command(
        "demo",
        cls=command,
        epilog=examples(("Under a minute", "fairbound demo"), ("Keep the results", "fairbound demo --out demo")),
    )(demo_command)


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

    Prints counts by group and label, the measures of a perfect prediction, and the accuracies of constant predictions.
    """
    from fairbound._errors import render
    from fairbound.cli.inputs import load
    from fairbound.cli.output import check_source
    from fairbound.cli.program import option_name
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


# --- the demo --------------------------------------------------------------------------------------------------------

DATA, GROUPS = "law", "race"

LIMIT = "disparate_impact >= 0.9"
BOUNDS = (0.8, 0.85, 0.95)
HELD_OUT, CONFIDENCE = 0.3, 0.95

OutFolder = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="A folder to create; by default a temporary one."),
]


def demo_command(
    context: typer.Context,
    out: OutFolder = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show all steps on the shipped Law School data.

    The steps: the labels by race; a model without limits, and one with a ratio of selection rates of at least 0.9; the
    cost of other bounds; a test of the limit on held-out rows, with 95% confidence; the forecast for new rows, without
    and with a margin; a model trained for that confidence; and the report.
    """
    from fairbound.cli.inputs import load
    from fairbound.cli.studying import run_study, show_frontier, show_summary
    from fairbound.studies import Study, metrics_of, write_files

    output = Output(json, quiet)
    place = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="fairbound-demo-")) / DATA
    with fresh_folder(place) as folder:
        data = load(DATA, options.ReadingOptions(sensitive=[GROUPS]))
        _head(output, "1. The labels by race, before any model")
        output.text(repr(data.describe(GROUPS)))
        training = options.StudyOptions(test=HELD_OUT, seed=seed, model="linear")
        study = Study(data, training.settings(LIMIT, BOUNDS))
        interrupts = [run_study(study, output, context)]
        if study.interrupted and not study.frontier:
            raise interrupts[0].exception
        roomy = Study(data, training.settings(LIMIT, margin="auto"))
        interrupts.append(run_study(roomy, output, context))
        # Calibration rows are held out to test the models, so fewer rows are left for training.
        certain = Study(data, training.settings(LIMIT, confidence=CONFIDENCE))
        interrupts.append(run_study(certain, output, context))
        with finishing(output):
            write_files(study, folder, place)
    summary = study.summary
    found = metrics_of(summary)
    limit = summary["limits"][0]["text"]
    _head(output, f"2. A model without limits, and one with {limit}")
    show_summary(output, summary)
    _head(output, "3. The cost of other bounds")
    show_frontier(output, summary["frontier"])
    _head(output, "4. The limit on new rows, tested on the held-out rows with 95% confidence")
    for verdict in found["certificate"]["limits"]:
        output.text(f"{verdict['verdict']}: {verdict['limit']} is {verdict['value']:.4f} there; {verdict['reason']}")
    _head(output, "5. The forecast for new rows, from the training rows alone")
    for title, each in (("The model of step 2:", study), ("A model trained with a margin:", roomy)):
        output.text(title)
        for line in each.result.about_new_rows:
            output.text(line)
    _head(output, f"6. A model trained to keep {limit} also on unseen rows, with 95% confidence")
    _show_certain(output, certain)
    _head(output, "7. The report of steps 2 to 4, to open in a browser")
    output.text(str(place / "report.html"))
    output.text()
    output.text(
        "The same on your own file: fairbound train FILE --target ... --sensitive ... --require ... --out FOLDER"
    )
    content = {"command": "demo", "out": str(place), **found, "frontier": summary["frontier"]["points"]}
    fits = {"plain": study, "margin": roomy, "confident": certain}
    output.result({**content, **{name: each.result.to_dict() | {"history": []} for name, each in fits.items()}})
    if any(each.interrupted for each in (study, roomy, certain)):
        left = study.interruption or "every bound; the model for the confidence is not finished."
        came = next(each for each in interrupts if each.number is not None)
        complain(f"{came.word}: {place} has {left}")
        raise typer.Exit(exit_code(came.exception))
    raise typer.Exit(KEPT if found["kept"] else NOT_KEPT)


def _show_certain(output: Output, study: Study) -> None:
    from fairbound.evaluation import sides_in_words

    certificate, held_out = study.result.certificate, study.held_out
    if certificate is None:  # the interrupt came before the limits were tried
        return
    assert held_out is not None
    accuracy = float((study.after.predict(held_out.X) == held_out.y).mean())
    for found in certificate.limits:
        output.text(
            f"{found.verdict.value} on {certificate.rows:,} calibration rows: {found.value:.4f} there, so "
            f"{sides_in_words(found)} in the population; accuracy on held-out rows {accuracy:.2%}."
        )
    output.text(study.result.message)
    for line in study.result.about_new_rows:
        output.text(line)


def _head(output: Output, text: str) -> None:
    output.text()
    output.text(text, style="bold cyan")
