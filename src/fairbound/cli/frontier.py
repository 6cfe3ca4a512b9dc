"""`fairbound frontier`: what each bound of a limit costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.errors import INTERRUPTED, KEPT, NOT_KEPT, complain
from fairbound.cli.options import examples
from fairbound.cli.output import Output, finishing

Measure = Annotated[str, typer.Option("--measure", metavar="NAME", help="What is limited, such as disparate_impact.")]
Bounds = Annotated[
    list[float] | None,
    typer.Option("--bounds", metavar="NUMBER...", help="The bounds to try; a grid that suits the measure by default."),
]
Choose = Annotated[
    float | None,
    typer.Option("--choose", metavar="BOUND", help="The bound whose model the report is about; the middle one."),
]
NoModels = Annotated[bool, typer.Option("--no-models", help="Keep the chosen model only, not one for each bound.")]


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
                "With another limit that always holds",
                f'{loans} --measure disparate_impact --require "selection_rate >= 0.2" --out frontier',
            ),
        ),
    )(frontier_command)


def frontier_command(
    context: typer.Context,
    source: options.TableOrName,
    out: options.Out,
    target: options.TargetUnlessKnown = None,
    sensitive: options.SensitiveUnlessKnown = None,
    measure: Measure = "disparate_impact",
    bounds: Bounds = None,
    choose: Choose = None,
    require: options.RequireIfAny = None,
    model: options.Model = "linear",
    test: options.Test = None,
    test_file: options.TestFile = None,
    seed: options.Seed = 0,
    no_models: NoModels = False,
    positive: options.Positive = None,
    negative: options.Negative = None,
    multiclass: options.Multiclass = False,
    drop_unlabelled: options.DropUnlabelled = False,
    weight: options.Weight = None,
    bands: options.Bands = None,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    categorical: options.Categorical = None,
    max_categories: options.MaxCategories = 50,
    ignore: options.Ignore = None,
    groups: options.Groups = "each",
    small_groups: options.SmallGroups = "error",
    min_group_size: options.MinGroupSize = 10,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    data_dir: options.DataFolder = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a model for each of several bounds, and show what each costs.

    Writes a folder with the table (frontier.csv), a model for each bound, and the report with the frontier in it. The
    exit code is 1 if a bound is not kept on the training rows. Ctrl-C leaves the bounds that are finished.
    """
    from fairbound.cli.files import check_source, fresh_folder, refuse_existing
    from fairbound.cli.first_look import show_columns, show_label
    from fairbound.cli.inputs import load_parts
    from fairbound.cli.options import check_held_out, parse_bands, swept_limit
    from fairbound.cli.studying import run_study, show_frontier, show_notes

    refuse_existing(Path(out))
    check_source(source)
    from fairbound.studies import Study, StudySettings, write_files

    limit, grid = swept_limit(measure, bounds, choose)
    settings = StudySettings.build(
        [limit, *(require or ())],
        grid,
        model=model,
        test_size=check_held_out(test, test_file),
        seed=seed,
        groups=groups,
        small_groups=small_groups,
        min_group_size=min_group_size,
        max_categories=max_categories,
    )
    cuts = parse_bands(bands)
    output = Output(json, quiet)
    with fresh_folder(out) as folder:
        with output.stage(f"Reading {source}"):
            data, held_out = load_parts(
                source,
                test_file,
                target=target,
                sensitive=sensitive,
                positive=positive,
                negative=negative,
                multiclass=multiclass,
                drop_unlabelled=drop_unlabelled,
                weight=weight,
                bands=cuts,
                missing=missing,
                decimal=decimal,
                categorical=categorical,
                max_categories=max_categories,
                ignore=ignore,
                delimiter=delimiter,
                encoding=encoding,
                data_dir=data_dir,
                quiet=quiet or json,
            )
        study = Study(data, settings, held_out=held_out)
        output.text(study.describe())
        show_label(output, data)
        show_columns(output, data)
        run_study(study, output, context)
        if study.interrupted and not study.frontier:
            raise KeyboardInterrupt
        with finishing(output):
            found = write_files(study, folder, Path(out), models=not no_models)
    output.text()
    show_frontier(output, study.summary["frontier"])
    show_notes(output, study.summary)
    files = "frontier.csv, frontier.json, model" + ("" if no_models else ", models")
    output.text(f"Written to {out}: {files}, report.html, summary.json, model-card.md.")
    output.result({"command": "frontier", "out": out, **found})
    if study.interrupted:
        complain(f"Interrupted: {out} has {study.interruption}")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(KEPT if found["kept"] else NOT_KEPT)
