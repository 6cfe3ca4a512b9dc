"""`fairbound demo`: all steps on the shipped data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairbound._settings import Seed
from fairbound.cli.endings import KEPT, NOT_KEPT, complain, exit_code
from fairbound.cli.options import ReadingOptions, command
from fairbound.cli.output import Output, finishing, fresh_folder

if TYPE_CHECKING:
    from fairbound.studies import Study

DATA, GROUPS = "law", "race"

LIMIT = "disparate_impact >= 0.9"
BOUNDS = (0.8, 0.85, 0.95)
HELD_OUT, CONFIDENCE = 0.3, 0.95


@command("demo")
def demo(*, out: str | None = None, seed: Seed = 0, output: Output) -> None:
    """Show all steps on the shipped Law School data.

    The steps: the labels by race; a model without limits, and one with a ratio of selection rates of at least 0.9; the
    cost of other bounds; a test of the limit on held-out rows, with 95% confidence; the forecast for new rows, without
    and with a margin; a model trained for that confidence; and the report.

    Parameters
    ----------
    out : FOLDER
        A folder to create; by default a temporary one.
    seed : int
        Seed of all random draws: the parts of the data, the initial parameters.

    Examples
    --------
    Under a minute:
      $ fairbound demo
    Keep the results:
      $ fairbound demo --out demo
    """
    from fairbound._json import plain
    from fairbound.cli.inputs import load
    from fairbound.cli.studying import run_study, show_frontier
    from fairbound.studies import Study, StudySettings, summary_tables, write_files

    place = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="fairbound-demo-")) / DATA
    with fresh_folder(place) as folder:
        data = load(DATA, ReadingOptions(sensitive=[GROUPS]))
        _head(output, "1. The labels by race, before any model")
        output.text(repr(data.describe(GROUPS)))
        chosen: dict[str, Any] = {"test_size": HELD_OUT, "seed": seed, "model": "linear"}
        study = Study(data, StudySettings.build(LIMIT, BOUNDS, **chosen))
        interrupts = [run_study(study, output)]
        if study.interrupted and not study.frontier:
            raise interrupts[0].exception
        roomy = Study(data, StudySettings.build(LIMIT, margin="auto", **chosen))
        interrupts.append(run_study(roomy, output))
        # Calibration rows are held out to test the models, so fewer rows are left for training.
        certain = Study(data, StudySettings.build(LIMIT, confidence=CONFIDENCE, **chosen))
        interrupts.append(run_study(certain, output))
        with finishing(output):
            write_files(study, folder)
    summary = study.summary
    limit = summary.limits[0].text
    _head(output, f"2. A model without limits, and one with {limit}")
    output.tables(*summary_tables(summary))
    _head(output, "3. The cost of other bounds")
    show_frontier(output, summary)
    _head(output, "4. The limit on new rows, tested on the held-out rows with 95% confidence")
    for found in summary.certificates["held-out"].limits:
        output.text(f"{found.verdict.value}: {found.limit} is {found.value:.4f} there; {found.reason}")
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
    fits = {"margin": roomy.result, "confident": certain.result}
    output.result({"command": "demo", "out": str(place), **plain(summary), **plain(fits)})
    if any(each.interrupted for each in (study, roomy, certain)):
        left = study.interruption or "every bound; the model for the confidence is not finished."
        came = next(each for each in interrupts if each.number is not None)
        complain(f"{came.word}: {place} has {left}")
        raise typer.Exit(exit_code(came.exception))
    raise typer.Exit(KEPT if study.kept else NOT_KEPT)


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
