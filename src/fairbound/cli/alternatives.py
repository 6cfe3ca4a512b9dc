"""`fairbound alternatives`: search for less discriminatory alternatives to a model or to decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Interruptible, Output, finishing
from fairbound.cli.program import complain, exit_code

if TYPE_CHECKING:
    from fairbound.studies import Baseline

Measures = Annotated[
    list[str] | None,
    typer.Option("--measure", metavar="NAME...", help="The measures to limit; by default disparate_impact."),
]
Bounds = Annotated[
    list[float] | None,
    typer.Option("--bounds", metavar="NUMBER...", help="The bounds of the first measure; by default four."),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--models", metavar="KIND...", help="Kinds of candidates; by default linear, mlp:16 and boosted."),
]
Within = Annotated[
    str,
    typer.Option(
        "--within",
        metavar='"METRIC AMOUNT"',
        help="How much worse than the baseline an alternative may be: points of accuracy or auc, or log_loss.",
    ),
]
BaselineModel = Annotated[
    str | None,
    typer.Option("--baseline", metavar="FOLDER", help="The model to compare with, in a folder that train has written."),
]
BaselinePrediction = Annotated[
    str | None,
    typer.Option("--baseline-prediction", metavar="COLUMN", help="A column of decisions to compare with."),
]
BaselineScore = Annotated[
    str | None, typer.Option("--baseline-score", metavar="COLUMN", help="A column of scores to compare with.")
]
Threshold = Annotated[
    float, typer.Option("--threshold", help="For --baseline-score alone: the least score that is selected.")
]
Choosing = Annotated[
    float, typer.Option("--choosing", metavar="SHARE", help="The share of the rows for choosing a candidate.")
]
Final = Annotated[
    float, typer.Option("--final", metavar="SHARE", help="The share of the rows that evaluate the chosen one.")
]
Confidence = Annotated[float, typer.Option("--confidence", help="The confidence level of the intervals, below 1.")]


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    loans = "fairbound alternatives loans.csv --target approved --sensitive sex"
    app.command(
        "alternatives",
        cls=command,
        epilog=examples(
            ("Compared with the most accurate model without limits", f"{loans} --out search"),
            (
                "Compared with your own model, within half a point",
                f'{loans} --baseline model --within "accuracy 0.5" --out search',
            ),
            ("Compared with decisions in the file", f"{loans} --baseline-prediction decision --out search"),
            ("The shipped data", "fairbound alternatives law --out search"),
        ),
    )(alternatives_command)


@with_options
def alternatives_command(
    *,
    context: typer.Context,
    source: options.TableOrName,
    out: options.Out,
    reading: options.ReadingOptions,
    measure: Measures = None,
    bounds: Bounds = None,
    models: Models = None,
    within: Within = "accuracy 0.5",
    baseline: BaselineModel = None,
    baseline_prediction: BaselinePrediction = None,
    baseline_score: BaselineScore = None,
    threshold: Threshold = 0.5,
    choosing: Choosing = 0.2,
    final: Final = 0.2,
    confidence: Confidence = 0.95,
    seed: options.Seed = 0,
    groups: options.Groups = "each",
    small_groups: options.SmallGroups = "error",
    min_group_size: options.MinGroupSize = 10,
    no_group_worse: options.NoGroupWorse = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for less discriminatory alternatives.

    Trains models under a grid of bounds, compares them with a baseline on held-out rows, and evaluates the chosen one
    on rows that were not used before. Writes a folder with the complete log (search.json), the table
    (alternatives.csv), a report (report.html), the plan as it was before training (limits.lock) and the chosen model.
    """
    from fairbound.cli.inputs import load
    from fairbound.cli.output import check_source, fresh_folder, refuse_existing
    from fairbound.cli.studying import command_of, show_table

    refuse_existing(Path(out))
    check_source(source)
    if baseline is not None and (baseline_prediction or baseline_score):
        raise ValueError(
            "--baseline names a model, but --baseline-prediction and --baseline-score name columns; give one kind."
        )
    from fairbound.studies import KINDS, AlternativeSearch, SearchPlan, Tolerance, compared_measures, grids, write_lock

    resolved = compared_measures(measure or "disparate_impact")
    plan = SearchPlan(
        measures=resolved,
        bounds=grids(resolved, None if bounds is None else {resolved[0].name: bounds}),
        models=tuple(models or KINDS),
        tolerance=Tolerance.parse(within),
        choosing_size=choosing,
        final_size=final,
        confidence=confidence,
        seed=seed,
        groups=groups,
        small_groups=small_groups,
        min_group_size=min_group_size,
        max_categories=reading.max_categories,
        no_group_worse=no_group_worse,
    )
    output = Output(json, quiet)
    with fresh_folder(out) as folder:
        with output.stage(f"Reading {source}"):
            columns = [name for name in (baseline_prediction, baseline_score) if name is not None]
            given = _baseline(source, reading, baseline, baseline_prediction, baseline_score, threshold)
            data = load(source, replace(reading, ignore=[*(reading.ignore or ()), *columns]), quiet=output.silent)
        search = AlternativeSearch(data, plan, given)
        search.command = command_of(context)
        write_lock(search.lock, folder)
        with Interruptible() as interrupt:
            found = search.run(interrupt.asked, stage=output.stage)
        with finishing(output):
            found.write_files(folder)
    for table in found.tables():
        show_table(output, table)
        output.text()
    output.text(found.sentence)
    output.text(found.verdict)
    output.text(found.note)
    output.text(
        f"Written to {out}: search.json, alternatives.csv, report.html, limits.lock"
        + (", model." if found.chosen else ".")
    )
    output.result({"command": "alternatives", "out": out, **found.to_dict()})
    if search.interrupted:
        complain(f"{interrupt.word}: {out} has the {len(found.candidates)} models that were finished.")
        raise typer.Exit(exit_code(interrupt.exception))


def _baseline(
    source: str,
    reading: options.ReadingOptions,
    model: str | None,
    prediction: str | None,
    score: str | None,
    threshold: float,
) -> Baseline | None:
    """Return the model or the columns to compare with; None if the baseline is one of the trained models."""
    from fairbound.studies import as_baseline

    if model is not None:
        from fairbound.cli.output import load_model
        from fairbound.studies import trained_rows

        given = load_model(model), None, threshold
        return as_baseline(*given, name=f"the model in {model}", trained_on=trained_rows(Path(model)))
    if prediction is None and score is None:
        return None
    from fairbound._errors import argument
    from fairbound.cli.inputs import is_known_dataset
    from fairbound.data import open_batches

    if is_known_dataset(source):
        raise ValueError(f"{source!r} is a known data set, and a baseline column is for files; leave it out.")
    if reading.drop_unlabelled:
        raise ValueError(
            "--drop-unlabelled drops rows, but a baseline column has a value for each row; use one of them."
        )
    table = open_batches(source, delimiter=reading.delimiter, encoding=reading.encoding)
    asked = [(prediction, "baseline_prediction"), (score, "baseline_score")]
    names = [(name, role) for name, role in asked if name is not None]
    for name, role in names:
        table.check({name: argument(role)})
    words = {prediction} if prediction is not None else set()
    columns = table.hold([name for name, _ in names]).learn(words=words).columns()
    return as_baseline(
        None if prediction is None else columns[prediction],
        None if score is None else columns[score],
        threshold,
        name=f"the column {prediction!r}" if prediction is not None else f"the column {score!r}, from {threshold:g} on",
    )
