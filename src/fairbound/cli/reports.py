"""`fairbound report`: write the report or the model card of a run again, from its summary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairbound._files import as_utf8
from fairbound.cli import options
from fairbound.cli.options import examples
from fairbound.cli.output import Output

RunFolder = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A folder that train or frontier has written.", show_default=False),
]
OutFile = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FILE", help="The file to write; by default RUN/report.html is replaced."),
]
Form = Annotated[str, typer.Option("--format", metavar="html|markdown", help="A web page, or a model card.")]

FORMATS = {"html": "report.html", "markdown": "model-card.md"}


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    app.command(
        "report",
        cls=command,
        epilog=examples(
            ("Write the report of a run again", "fairbound report model"),
            ("One page to hand on", "fairbound report model --out review.html"),
            ("The model card", "fairbound report model --format markdown --out CARD.md"),
        ),
    )(report_command)


def report_command(
    run: RunFolder,
    out: OutFile = None,
    form: Form = "html",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the report of a run from its summary.

    The page is one self-contained file. --json prints the summary.
    """
    from fairbound._words import did_you_mean
    from fairbound.cli.files import fresh_file
    from fairbound.cli.inputs import check_choice

    check_choice(form, list(FORMATS), "--format")
    output = Output(json, quiet)
    folder = Path(run)
    path = folder if folder.is_file() else folder / "summary.json"
    if not path.is_file():
        if folder.is_dir():
            raise FileNotFoundError(f"{run} has no summary.json; give a folder that train or frontier has written.")
        beside = [each.name for each in folder.parent.iterdir()] if folder.parent.is_dir() else []
        raise FileNotFoundError(f"There is no folder {run}.{did_you_mean(folder.name, beside)}")
    from fairbound.report import NAMES, read_summary, to_html, to_markdown

    summary = read_summary(path)
    try:
        page = to_html(summary) if form == "html" else to_markdown(summary)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged, so no report can be made of it ({error}); run train again.") from error
    place = Path(out) if out is not None else path.parent / FORMATS[form]
    # The run's own pages are made from its summary, so they may be replaced.  Any other existing file may not.
    with fresh_file(place, replace=out is None and path.name == NAMES["json"]) as file:
        file.write_bytes(as_utf8(page))
    output.text(f"Written to {place}.")
    output.result({"command": "report", "out": str(place), "summary": summary})
