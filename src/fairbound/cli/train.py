"""`fairbound train`: train a model on a file, and write its numbers and its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Output, finishing

if TYPE_CHECKING:
    from fairbound.studies import Study

LOANS = "fairbound train loans.csv --target approved --sensitive sex"

Confidence = Annotated[
    float | None,
    typer.Option(
        "--confidence", help="Keep the limits on unseen rows with this confidence; holds out calibration rows."
    ),
]


Margin = Annotated[
    str | None,
    typer.Option(
        "--margin",
        metavar="auto|PROBABILITY",
        help="Tighten the limits just enough to hold on new rows with this probability, by the forecast.",
    ),
]


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    app.command(
        "train",
        cls=command,
        epilog=examples(
            ("First a model without limits", f"{LOANS} --out look"),
            ("Keep the four-fifths rule", f'{LOANS} --require "disparate_impact >= 0.8" --out model'),
            (
                "Also on unseen rows, with 95% confidence, by a network",
                f'{LOANS} --require "disparate_impact >= 0.8" --confidence 0.95 --model mlp:32 --out model',
            ),
            (
                "With a margin, so that the limit is likely to hold on new rows",
                f'{LOANS} --require "disparate_impact >= 0.8" --margin auto --out model',
            ),
            (
                "Two limits",
                f'{LOANS} --require "disparate_impact >= 0.8" "equal_opportunity <= 0.1" --out model',
            ),
            ("The shipped data", 'fairbound train law --require "disparate_impact >= 0.9" --out law'),
        ),
    )(train_command)


@with_options
def train_command(
    *,
    context: typer.Context,
    source: options.TableOrName,
    out: options.Out,
    reading: options.ReadingOptions,
    require: options.RequireIfAny = None,
    confidence: Confidence = None,
    margin: Margin = None,
    training: options.StudyOptions,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a classifier under limits, and evaluate it on held-out rows.

    Writes a folder with the model, its numbers (metrics.json, summary.json), the report (report.html) and a model card.
    Without --require it trains a model without limits, shows its rates by group, and suggests limits. The exit code is
    1 if a limit is not kept on the training rows, not certified although --confidence is given, or refuted by the
    held-out rows.
    """
    from fairbound.cli.files import check_source, fresh_folder, refuse_existing
    from fairbound.cli.studying import exit_after, read_study, run_study

    refuse_existing(Path(out))
    check_source(source)
    from fairbound.studies import write_files, write_lock

    settings = training.settings(
        require or (), confidence=confidence, margin=as_margin(margin), max_categories=reading.max_categories
    )
    if confidence is not None and reading.weight is not None:
        raise ValueError("--confidence and --weight do not go together: the confidence holds for unweighted rows only.")
    output = Output(json, quiet)
    with fresh_folder(out) as folder:
        study = read_study(source, training.test_file, reading, settings, output)
        write_lock(study.lock, folder)
        run_study(study, output, context)
        with finishing(output):
            found = write_files(study, folder, Path(out))
    _show(output, study, out)
    output.result({"command": "train", "out": out, **found})
    exit_after(study, out, kept=found["kept"])


def as_margin(stated: str | None) -> float | str | None:
    """Return the margin as a number where it is one; the settings reject other words than "auto"."""
    try:
        return None if stated is None else float(stated)
    except ValueError:
        return stated


def _show(output: Output, study: Study, out: str) -> None:
    from fairbound.cli.studying import show_notes, show_summary, suggest

    if output.silent:
        return
    summary = study.summary
    output.text()
    show_summary(output, summary)
    output.text()
    if summary["limits"]:
        output.text(f"{summary['run']['status']}: {summary['run']['message']}")
    for line in summary["run"]["new_rows"]:
        output.text(line)
    if study.result.certified:
        output.text(study.result.claim)  # if no model passed, the message says so
    show_notes(output, summary)
    if not study.settings.limits:
        suggest(output, summary)
    output.text(f"Written to {out}: model, metrics.json, summary.json, report.html, model-card.md, limits.lock.")
