"""`fairbound audit` and `fairbound certify`: measure and test the decisions of any system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fairbound._words import number
from fairbound.cli import options
from fairbound.cli.errors import KEPT, NOT_KEPT, option_name
from fairbound.cli.options import examples
from fairbound.cli.output import Output

GROUPS = ("each", "intersection", "both")

DECISIONS = "decisions.csv --target approved --prediction decision --sensitive sex"

Confidence = Annotated[
    float, typer.Option("--confidence", help="The confidence level of intervals and verdicts, below 1.")
]
Page = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FILE.html", help="Also write the audit as an HTML page.", show_default=False),
]
MinGroupSize = Annotated[
    int, typer.Option("--min-group-size", min=1, help="Groups with fewer rows are merged into one.")
]
LargestWeight = Annotated[
    float | None,
    typer.Option("--largest-weight", help="For --weight: the largest weight that any row can have."),
]


def register(app: typer.Typer, command: Any) -> None:
    """Add the commands."""
    app.command(
        "audit",
        cls=command,
        epilog=examples(
            ("By sex and by race", f"fairbound audit {DECISIONS} race"),
            ("As a page to hand on", f"fairbound audit {DECISIONS} --out audit.html"),
            ("Exit code 1 unless kept", f'fairbound audit {DECISIONS} --require "disparate_impact >= 0.8"'),
        ),
    )(audit_command)
    app.command(
        "certify",
        cls=command,
        epilog=examples(
            ("The four-fifths rule", f'fairbound certify {DECISIONS} --require "disparate_impact >= 0.8"'),
            (
                "Two limits, for machines",
                f'fairbound certify {DECISIONS} --require "disparate_impact >= 0.8" "equalized_odds <= 0.1" --json',
            ),
        ),
    )(certify_command)


def audit_command(
    file: options.Table,
    target: options.Target,
    prediction: options.Prediction,
    sensitive: options.Sensitive,
    require: options.RequireIfAny = None,
    positive: options.Positive = None,
    positive_decision: options.PositiveDecision = None,
    multiclass: options.Multiclass = False,
    weight: options.Weight = None,
    groups: options.Groups = "each",
    min_group_size: MinGroupSize = 1,
    confidence: Confidence = 0.95,
    out: Page = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the decisions of any system by group.

    Prints counts, rates with intervals, and every measure of disparity. With --require the exit code is 1 if these rows
    do not keep a limit. To test a limit for the population, use certify.
    """
    from fairbound.cli.files import existing_file, fresh_file
    from fairbound.cli.inputs import check_choice, parse_limits, read_decisions

    check_choice(groups, GROUPS, "--groups")
    existing_file(file)
    limits = parse_limits(require)
    output = Output(json, quiet)
    if out is not None:
        _check_page(Path(out))
    from fairbound.evaluation import Tally, audit_tally
    from fairbound.report import audit_to_html

    columns = (target, prediction, sensitive)
    rows = read_decisions(file, *columns, positive, positive_decision, multiclass, weight, delimiter, encoding)
    tally = Tally.build(
        rows.y,
        rows.prediction,
        rows.sensitive,
        sample_weight=rows.weight,
        groups=groups,  # type: ignore[arg-type]  # one of the three, as checked
        pos_label=rows.positive,
        min_group_size=min_group_size,
    )
    found = audit_tally(tally, confidence)
    checked = [(limit, tally.check(limit)) for limit in limits]
    content = {
        "command": "audit",
        **found.to_dict(),
        "limits": [{"limit": str(limit), **state} for limit, state in checked],
    }
    if out is not None:
        shown = [
            {"limit": str(limit), **state, "bounds": [bound for bound in limit.limits if math.isfinite(bound)]}
            for limit, state in checked
        ]
        page = audit_to_html(found.to_dict(), title=Path(file).name, limits=shown, notes=found.notes)
        with fresh_file(out) as draft:
            _write(draft, page, out)
    _show_reading(output, rows.read_as)
    output.text(str(found).rstrip())
    if checked:
        output.text()
        output.table(
            "Limits, on these rows",
            ("limit", "", "measured"),
            [
                (str(limit), "kept" if state["kept"] else "NOT KEPT", number(state["value"], 4))
                for limit, state in checked
            ],
            left=2,
        )
    if out is not None:
        output.text(f"\nWritten to {out}.")
    output.result(content)
    raise typer.Exit(KEPT if all(state["kept"] for _, state in checked) else NOT_KEPT)


def certify_command(
    file: options.Table,
    target: options.Target,
    prediction: options.Prediction,
    sensitive: options.Sensitive,
    require: options.Require,
    confidence: Confidence = 0.95,
    positive: options.Positive = None,
    positive_decision: options.PositiveDecision = None,
    multiclass: options.Multiclass = False,
    weight: options.Weight = None,
    largest_weight: LargestWeight = None,
    groups: options.Groups = "each",
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test limits on held-out rows, at a stated confidence.

    Each limit gets PASS, FAIL or INCONCLUSIVE. The rows must be independent draws, and must not have been used to make
    the rule behind the decisions. An inconclusive verdict states how many rows would decide. The exit code is 0 if
    every limit passes, else 1.
    """
    from fairbound.cli.files import existing_file
    from fairbound.cli.inputs import check_choice, parse_limits, read_decisions

    check_choice(groups, GROUPS, "--groups")
    existing_file(file)
    limits = parse_limits(require)
    output = Output(json, quiet)
    from fairbound.evaluation import certify

    columns = (target, prediction, sensitive)
    rows = read_decisions(file, *columns, positive, positive_decision, multiclass, weight, delimiter, encoding)
    found = certify(
        rows.y,
        rows.prediction,
        rows.sensitive,
        limits,
        confidence,
        sample_weight=rows.weight,
        largest_weight=largest_weight,
        groups=groups,  # type: ignore[arg-type]  # one of the three, as checked
        pos_label=rows.positive,
    )
    _show_reading(output, rows.read_as)
    output.text(found.to_text(option_name).rstrip())
    output.result({"command": "certify", **found.to_dict()})
    raise typer.Exit(KEPT if found.passed else NOT_KEPT)


def _check_page(place: Path) -> None:
    from fairbound.cli.files import refuse_existing

    if place.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{place} (--out) must end in .html: an audit is written as a page.")
    refuse_existing(place)


def _write(draft: Path, page: str, out: str) -> None:
    """Write a file; an error of the disk gets the path of the output."""
    try:
        draft.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OSError(error.errno, error.strerror, out) from error


def _show_reading(output: Output, read_as: Sequence[tuple[str, str, int, str]]) -> None:
    """Print the label that each value counts as, if it is not the value itself."""
    if read_as:
        lines = [(what, value, word, f"{rows:,}") for what, value, rows, word in read_as]
        output.table("Labels and decisions", ("column", "value", "counts as", "rows"), lines, left=3)
        output.text()
