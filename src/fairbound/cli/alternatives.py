"""`fairbound alternatives`: search for less discriminatory alternatives to a model or to decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fairbound._study_settings import SearchChoices
from fairbound.cli.endings import complain, exit_code
from fairbound.cli.options import ReadingOptions, command
from fairbound.cli.output import Interruptible, Output, finishing

if TYPE_CHECKING:
    from fairbound.studies import Baseline


@command("alternatives")
def alternatives(
    source: str,
    *,
    out: str,
    reading: ReadingOptions,
    measures: list[str] | None = None,
    bounds: list[float] | None = None,
    baseline: str | None = None,
    baseline_prediction: str | None = None,
    baseline_score: str | None = None,
    threshold: float = 0.5,
    lower_is_better: bool = False,
    choices: SearchChoices,
    output: Output,
) -> None:
    """Search for less discriminatory alternatives.

    Trains models under a grid of bounds, compares them with a baseline on held-out rows, and evaluates the chosen one
    on rows that were not used before. Writes a folder with the complete log (search.json), the table
    (alternatives.csv), a report (report.html), the plan as it was before training (limits.lock) and the chosen model.

    Parameters
    ----------
    source : FILE|DATASET
        A CSV or Parquet file, or the name of a known data set (fairbound data list).
    out : FOLDER
        A folder to create.
    measures : NAME...
        The measures to limit; by default disparate_impact.
    bounds : NUMBER...
        The bounds of the first measure; by default four.
    baseline : FOLDER
        The model to compare with, in a folder that train has written.
    baseline_prediction : COLUMN
        A column of decisions to compare with.
    baseline_score : COLUMN
        A column of scores to compare with.
    threshold : float
        For --baseline-score alone: the least score that is selected (with --lower-is-better, the largest).
    lower_is_better : bool
        A smaller --baseline-score is more favourable, as for scores of risk.

    Examples
    --------
    Compared with the most accurate model without limits:
      $ fairbound alternatives loans.csv --target approved --sensitive sex --out search
    Compared with your own model, within half a point:
      $ fairbound alternatives loans.csv --target approved --sensitive sex --baseline model --within "accuracy 0.5"
          --out search
    Compared with decisions in the file:
      $ fairbound alternatives loans.csv --target approved --sensitive sex --baseline-prediction decision --out search
    The shipped data:
      $ fairbound alternatives law --out search
    """
    from fairbound.cli.inputs import load
    from fairbound.cli.output import check_source, out_folder, refuse_existing

    refuse_existing(Path(out))
    check_source(source)
    if baseline is not None and (baseline_prediction or baseline_score):
        raise ValueError(
            "--baseline names a model, but --baseline-prediction and --baseline-score name columns; give one kind."
        )
    from fairbound.studies import AlternativeSearch, SearchPlan, compared_measures, grids, write_lock

    resolved = compared_measures(measures or "disparate_impact")
    plan = SearchPlan(
        measures=resolved,
        bounds=grids(resolved, None if bounds is None else {resolved[0].name: bounds}),
        **choices.get_params(deep=False),
    )
    with out_folder(out) as folder:
        with output.stage(f"Reading {source}"):
            columns = [name for name in (baseline_prediction, baseline_score) if name is not None]
            sign = -1.0 if lower_is_better else 1.0
            given = _baseline(source, reading, baseline, baseline_prediction, baseline_score, threshold, sign)
            data = load(
                source, replace(reading, ignore=[*(reading.ignore or ()), *columns] or None), quiet=output.silent
            )
        search = AlternativeSearch(data, plan, given)
        search.command = output.command
        write_lock(search.lock, folder)
        with Interruptible() as interrupt:
            found = search.run(interrupt.asked, stage=output.stage)
        with finishing(output):
            found.write_files(folder)
    output.tables(*found.tables())
    output.text()
    for sentence in (found.sentence, found.verdict, found.note):
        output.text(sentence)
    model = ", model." if found.chosen else "."
    output.text(f"Written to {out}: search.json, alternatives.csv, report.html, limits.lock{model}")
    output.result({"command": "alternatives", "out": out, **found.to_dict()})
    if search.interrupted:
        complain(f"{interrupt.word}: {out} has the {len(found.candidates)} models that were finished.")
        raise typer.Exit(exit_code(interrupt.exception))


def _baseline(
    source: str,
    reading: ReadingOptions,
    model: str | None,
    prediction: str | None,
    score: str | None,
    threshold: float,
    sign: float,
) -> Baseline | None:
    """Return the model or the columns to compare with; None if the baseline is one of the trained models."""
    from fairbound.studies import as_baseline, trained_rows

    if model is not None:
        from fairbound.cli.output import load_model

        trained = load_model(model)
        return as_baseline(trained, None, threshold, name=f"the model in {model}", trained_on=trained_rows(Path(model)))
    if prediction is None and score is None:
        return None
    from fairbound._errors import argument
    from fairbound.cli.inputs import is_known_dataset
    from fairbound.data import open_batches, store

    if is_known_dataset(source):
        raise ValueError(f"{source!r} is a known data set, and a baseline column is for files; leave it out.")
    if reading.drop_unlabelled:
        raise ValueError(
            "--drop-unlabelled drops rows, but a baseline column has a value for each row; use one of them."
        )
    table = open_batches(source, delimiter=reading.delimiter, encoding=reading.encoding)
    named = {"baseline_prediction": prediction, "baseline_score": score}
    table.check({name: argument(role) for role, name in named.items() if name is not None})
    held = table.hold([name for name in named.values() if name is not None])
    columns = store(held.learn(words=set() if prediction is None else {prediction})).columns
    return as_baseline(
        None if prediction is None else columns[prediction],
        None if score is None else sign * columns[score],
        sign * threshold,
        name=f"the column {prediction!r}"
        if prediction is not None
        else f"the column {score!r}, {'from' if sign > 0 else 'up to'} {threshold:g}{' on' * (sign > 0)}",
    )
