"""`fairbound train`: from a file to a model, its numbers and its report."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound._files import as_utf8
from fairbound.cli import options
from fairbound.cli.errors import INTERRUPTED, KEPT, NOT_KEPT, complain
from fairbound.cli.interrupts import finishing
from fairbound.cli.options import examples
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.cli.outcome import Models
    from fairbound.cli.study import Study
    from fairbound.evaluation import Certificate
    from fairbound.fairness import Constraint

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
    from fairbound.cli.files import check_source
    from fairbound.cli.first_look import columns_taken, label_values, show_columns, show_label
    from fairbound.cli.folders import fresh_folder, refuse_existing
    from fairbound.cli.inputs import load_parts
    from fairbound.cli.settings import check_held_out, check_settings, parse_bands

    refuse_existing(Path(out))
    check_source(source)
    limits, settings = check_settings(
        require, model, seed, groups, small_groups, min_group_size, confidence, max_categories=max_categories
    )
    share, cuts = check_held_out(test, test_file), parse_bands(bands)
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
        from fairbound.cli.study import Study, check_limited_columns

        check_limited_columns(limits, data, groups)
        study = Study.open(data, share, confidence, settings, limited=bool(limits), held_out=held_out)
        output.text(study.described())
        show_label(output, data)
        show_columns(output, data)
        trained = Training(study, limits, confidence, output)
        models = trained.run()
        with finishing(output):
            from fairbound.cli.outcome import summary_of

            summary = summary_of(
                study,
                trained.kept_to,
                models,
                context,
                source=source,
                confidence=confidence,
                interrupted=trained.interruption(models.after.result_.kept),
            )
            read = {"label": label_values(data), "taken": columns_taken(data)}
            found = write_run(folder, Path(out), summary, models, read)
    _say(output, summary, trained, require, out)
    output.result({"command": "train", "out": out, **found})
    if trained.interrupted:
        complain(f"Interrupted: {out} has {summary['run']['interrupted']}")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(KEPT if found["kept"] else NOT_KEPT)


class Training:
    """The models of a study, one after the other; an interrupt leaves what is finished."""

    def __init__(self, study: Study, limits: Sequence[Constraint], confidence: float | None, output: Output) -> None:
        self.study, self.limits, self.confidence, self.output = study, limits, confidence, output
        self.interrupted = False
        self.calibration: Certificate | None = None
        self.claim = ""
        self.kept_to: Sequence[Constraint] = limits

    def run(self) -> Models:
        """Train without limits, and with them; where a confidence is asked for, for that."""
        from fairbound.cli.interrupts import Interruptible
        from fairbound.cli.outcome import Models
        from fairbound.cli.study import progress

        with Interruptible() as interrupt:

            def callback(name: str) -> Any:
                shown = progress(self.output, name)
                return lambda row: (shown(row), interrupt.asked(row))[1]

            with self.output.stage("Training without limits"):
                before, notes = self.study.fit([], callback("Training without limits"))
            if not self.limits or interrupt.happened:
                self.interrupted, self.kept_to = interrupt.happened, []
                return Models(None, before, tuple(notes))
            name = "Training under the limits" if self.confidence is None else "Training for the confidence"
            with self.output.stage(name):
                after, notes = self.study.fit(self.limits, callback(name), self.confidence)
            self.calibration, self.claim = after.certificate_, after.result_.claim
            self.interrupted = interrupt.happened
            return Models(before, after, tuple(notes))

    def interruption(self, kept: bool) -> str:
        """Return what an interrupt left; nothing where there was none."""
        if not self.interrupted:
            return ""
        if not self.kept_to and self.limits:
            return "the model without limits, as far as it was trained; the limits were not tried."
        if not self.limits:
            return "the model as far as it was trained."
        state = "keeps every limit" if kept else "does not keep every limit"
        uncertified = " and is not certified" if self.calibration is not None and not self.calibration.passed else ""
        return f"the best model found so far, which {state} on the training rows{uncertified}."


def write_run(
    folder: Path, place: Path, summary: Mapping[str, Any], models: Models, read: Mapping[str, Any]
) -> dict[str, Any]:
    """Write everything of a run; return its numbers in short, and how the file was `read`."""
    from fairbound.cli.models import MODEL_FOLDER, save_model
    from fairbound.cli.outcome import in_short
    from fairbound.report import write_report

    save_model(models.after, folder / MODEL_FOLDER)
    write_report(summary, folder)
    names = sorted(each.name for each in folder.iterdir())
    found = {**in_short(summary), **read}
    found["files"] = [str(place / name) for name in sorted([*names, "metrics.json"])]
    (folder / "metrics.json").write_bytes(
        as_utf8(json_format.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    )
    return found


def _say(
    output: Output, summary: Mapping[str, Any], trained: Training, require: Sequence[str] | None, out: str
) -> None:
    from fairbound.cli.shown import show
    from fairbound.cli.suggestions import suggest

    if output.silent:
        return
    output.text()
    show(output, summary)
    output.text()
    if summary["limits"]:
        output.text(f"{summary['run']['status']}: {summary['run']['message']}")
    if trained.calibration is not None and trained.calibration.passed:
        output.text(trained.claim)  # where none passed, the message says so
    for note in summary["notes"][:-1]:  # the last one says where the rows come from
        output.text(f"Note: {note}")
    if not require:
        suggest(output, summary)
    output.text(f"Written to {out}: model, metrics.json, summary.json, report.html, model-card.md.")
