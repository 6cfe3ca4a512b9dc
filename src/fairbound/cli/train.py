"""`fairbound train`: from a file to a model, its numbers and its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.errors import INTERRUPTED, KEPT, NOT_KEPT, complain
from fairbound.cli.options import examples
from fairbound.cli.output import Output, finishing

if TYPE_CHECKING:
    from fairbound.studies import Study

LOANS = "fairbound train loans.csv --target approved --sensitive sex"

Confidence = Annotated[
    float | None,
    typer.Option(
        "--confidence", help="Keep the limits on unseen rows with this probability: holds a calibration part back."
    ),
]


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    app.command(
        "train",
        cls=command,
        epilog=examples(
            ("Look first: what a model without limits does", f"{LOANS} --out look"),
            ("Keep the four-fifths rule", f'{LOANS} --require "disparate_impact >= 0.8" --out model'),
            (
                "On unseen rows, too, with 95% confidence, by a network",
                f'{LOANS} --require "disparate_impact >= 0.8" --confidence 0.95 --model mlp:32 --out model',
            ),
            (
                "Two limits",
                f'{LOANS} --require "disparate_impact >= 0.8" "equal_opportunity <= 0.1" --out model',
            ),
            ("The shipped data", 'fairbound train law --require "disparate_impact >= 0.9" --out law'),
        ),
    )(train_command)


def train_command(
    context: typer.Context,
    source: options.TableOrName,
    out: options.Out,
    target: options.TargetUnlessKnown = None,
    sensitive: options.SensitiveUnlessKnown = None,
    require: options.RequireIfAny = None,
    model: options.Model = "linear",
    confidence: Confidence = None,
    test: options.Test = None,
    test_file: options.TestFile = None,
    seed: options.Seed = 0,
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
    """Train a classifier under limits, and evaluate it on held-out rows.

    Writes a folder with the model, its numbers (metrics.json, summary.json), the report (report.html) and a model card.
    Without --require it trains without limits, shows what that model does, and suggests limits. The exit code is 1 if a
    limit is not kept on the training rows, not certified where --confidence asks for it, or refuted by the held-out
    rows.
    """
    from fairbound.cli.files import check_source, fresh_folder, refuse_existing
    from fairbound.cli.first_look import show_columns, show_label
    from fairbound.cli.inputs import load_parts
    from fairbound.cli.options import check_held_out, parse_bands
    from fairbound.cli.studying import run_study

    refuse_existing(Path(out))
    check_source(source)
    from fairbound.studies import Study, StudySettings, write_files

    settings = StudySettings.build(
        require or (),
        model=model,
        test_size=check_held_out(test, test_file),
        confidence=confidence,
        seed=seed,
        groups=groups,
        small_groups=small_groups,
        min_group_size=min_group_size,
        max_categories=max_categories,
    )
    cuts = parse_bands(bands)
    if confidence is not None and weight is not None:
        raise ValueError("--confidence is for rows that count alike: it does not go with --weight.")
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
        with finishing(output):
            found = write_files(study, folder, Path(out))
    _show(output, study, out)
    output.result({"command": "train", "out": out, **found})
    if study.interrupted:
        complain(f"Interrupted: {out} has {study.interruption}")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(KEPT if found["kept"] else NOT_KEPT)


def _show(output: Output, study: Study, out: str) -> None:
    from fairbound.cli.first_look import suggest
    from fairbound.cli.studying import show_notes, show_summary

    if output.silent:
        return
    summary = study.summary
    output.text()
    show_summary(output, summary)
    output.text()
    if summary["limits"]:
        output.text(f"{summary['run']['status']}: {summary['run']['message']}")
    if study.result.certified:
        output.text(study.result.claim)  # if no model passed, the message says so
    show_notes(output, summary)
    if not study.settings.limits:
        suggest(output, summary)
    output.text(f"Written to {out}: model, metrics.json, summary.json, report.html, model-card.md.")
