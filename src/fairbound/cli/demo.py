"""`fairbound demo`: all steps on the shipped data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import typer

from fairbound._settings import Seed
from fairbound.cli.endings import KEPT, NOT_KEPT, complain, exit_code
from fairbound.cli.names import option_name
from fairbound.cli.options import ReadingOptions, command
from fairbound.cli.output import Output, finishing, out_folder

DATA, GROUPS = "law", "race"

LIMIT = "disparate_impact >= 0.9"
BOUNDS = (0.8, 0.85, 0.95)
HELD_OUT, CONFIDENCE, PROBABILITY = 0.3, 0.95, 0.9


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
    from fairbound.report import in_short
    from fairbound.studies import Study, StudySettings, summary_tables, write_files

    def head(text: str) -> None:
        output.text(f"\n{text}", style="bold cyan")

    place = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="fairbound-demo-")) / DATA
    with out_folder(place) as folder:
        data = load(DATA, ReadingOptions(sensitive=[GROUPS]))
        head("1. The labels by race, before any model")
        output.text(repr(data.describe(GROUPS)))
        chosen: dict[str, Any] = {"test_size": HELD_OUT, "seed": seed, "model": "linear"}
        # With a confidence, calibration rows are held out to test the models, so fewer rows are left for training.
        kinds: dict[str, dict[str, Any]] = {"margin": {"margin": PROBABILITY}, "confident": {"confidence": CONFIDENCE}}
        study = Study(data, StudySettings.build(LIMIT, BOUNDS, **chosen), name_of=option_name, command=output.command)
        interrupts = [run_study(study, output)]
        if study.interrupted and not study.frontier:
            raise interrupts[0].exception
        others = {name: Study(data, StudySettings.build(LIMIT, **chosen, **kind)) for name, kind in kinds.items()}
        interrupts += [run_study(each, output) for each in others.values()]
        with finishing(output):
            write_files(study, folder)
    summary = study.summary
    head(f"2. A model without limits, and one with {summary.limits[0].text}")
    output.text("\n".join([*in_short(summary), ""]))
    output.tables(*summary_tables(summary))
    head("3. The cost of other bounds")
    show_frontier(output, summary)
    head("4. The limit on new rows, tested on the held-out rows with 95% confidence")
    for found in summary.certificates["held-out"].limits:
        output.text(f"{found.verdict.value}: {found.limit} is {found.value:.4f} there; {found.reason}")
    head("5. The forecast for new rows, from the training rows alone")
    for title, each in (
        ("The model of step 2:", study),
        ("A model trained with a margin, to hold there with 90%:", others["margin"]),
    ):
        output.text("\n".join([title, *each.result.about_new_rows]))
    head(f"6. A model trained to keep {summary.limits[0].text} also on unseen rows, with 95% confidence")
    certain = others["confident"]
    if certain.result.certificate is not None:  # else the interrupt came before the limits were tried
        output.text("\n".join([*in_short(certain.summary), certain.result.message, *certain.about_new_rows]))
    head("7. The report of steps 2 to 4, to open in a browser")
    output.text(f"{place / 'report.html'}\n")
    output.text(
        "The same on your own file: fairbound train FILE --target ... --sensitive ... --require ... --out FOLDER"
    )
    fits = {name: each.result for name, each in others.items()}
    output.result({"command": "demo", "out": str(place), **plain(summary), **plain(fits)})
    if any(each.interrupted for each in (study, *others.values())):
        left = study.interruption or "every bound; the model for the confidence is not finished."
        came = next(each for each in interrupts if each.number is not None)
        complain(f"{came.word}: {place} has {left}")
        raise typer.Exit(exit_code(came.exception))
    raise typer.Exit(KEPT if study.kept else NOT_KEPT)
