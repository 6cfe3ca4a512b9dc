"""`fairbound frontier`: the cost of each bound of a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Output, finishing

Measure = Annotated[
    str, typer.Option("--measure", metavar="NAME", help="The measure to limit, such as disparate_impact.")
]
Bounds = Annotated[
    list[float] | None,
    typer.Option("--bounds", metavar="NUMBER...", help="The bounds to try; by default a grid for the measure."),
]
Choose = Annotated[
    float | None,
    typer.Option("--choose", metavar="BOUND", help="The bound of the reported model; by default the middle one."),
]
NoModels = Annotated[bool, typer.Option("--no-models", help="Write only the chosen model, not one per bound.")]


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    loans = "fairbound frontier loans.csv --target approved --sensitive sex"
    app.command(
        "frontier",
        cls=command,
        epilog=examples(
            ("The ratio of selection rates", f"{loans} --measure disparate_impact --out frontier"),
            ("Three bounds", f"{loans} --measure equal_opportunity --bounds 0.1 0.05 0.02 --out frontier"),
            (
                "With another limit for every model",
                f'{loans} --measure disparate_impact --require "selection_rate >= 0.2" --out frontier',
            ),
        ),
    )(frontier_command)


@with_options
def frontier_command(
    *,
    context: typer.Context,
    source: options.TableOrName,
    out: options.Out,
    reading: options.ReadingOptions,
    measure: Measure = "disparate_impact",
    bounds: Bounds = None,
    choose: Choose = None,
    require: options.RequireIfAny = None,
    training: options.StudyOptions,
    no_models: NoModels = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a model for each of several bounds, and show the cost of each.

    Writes a folder with the table (frontier.csv), a model for each bound, and a report that contains the frontier. The
    exit code is 1 if a bound is not kept on the training rows. After Ctrl-C, finished bounds are kept.
    """
    from fairbound.cli.files import check_source, fresh_folder, refuse_existing
    from fairbound.cli.options import swept_limit
    from fairbound.cli.studying import exit_after, read_study, run_study, show_frontier, show_notes

    refuse_existing(Path(out))
    check_source(source)
    from fairbound.studies import write_files, write_lock

    limit, grid = swept_limit(measure, bounds, choose)
    settings = training.settings([limit, *(require or ())], grid, max_categories=reading.max_categories)
    output = Output(json, quiet)
    with fresh_folder(out) as folder:
        study = read_study(source, training.test_file, reading, settings, output)
        write_lock(study.lock, folder)
        run_study(study, output, context)
        if study.interrupted and not study.frontier:
            raise KeyboardInterrupt
        with finishing(output):
            found = write_files(study, folder, Path(out), models=not no_models)
    output.text()
    show_frontier(output, study.summary["frontier"])
    show_notes(output, study.summary)
    files = "frontier.csv, frontier.json, model" + ("" if no_models else ", models")
    output.text(f"Written to {out}: {files}, report.html, summary.json, model-card.md, limits.lock.")
    output.result({"command": "frontier", "out": out, **found})
    exit_after(study, out, kept=found["kept"])
