"""`fairbound audit` and `fairbound certify`: measure and test the decisions of any system."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound._words import number
from fairbound.cli import options
from fairbound.cli.options import examples, with_options
from fairbound.cli.output import Output
from fairbound.cli.program import KEPT, NOT_KEPT, option_name
from fairbound.cli.streaming import Memory

if TYPE_CHECKING:
    from fairbound.evaluation import Audit, LL144Tables
    from fairbound.fairness import Constraint

GROUPS = ("each", "intersection", "both")

DECISIONS = "decisions.csv --target approved --prediction decision --sensitive sex"

Confidence = Annotated[
    float, typer.Option("--confidence", help="The confidence level of intervals and verdicts, below 1.")
]
Page = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Also write the audit as an HTML page; with --format ll144 as .csv, .md or a fragment of .html.",
        show_default=False,
    ),
]
FORMS = ("tables", "ll144")
Form = Annotated[
    str,
    typer.Option(
        "--format", metavar="tables|ll144", help="Everything, or the tables of New York City's Local Law 144 only."
    ),
]
PredictionUnlessScored = Annotated[
    str | None,
    typer.Option("--prediction", metavar="COLUMN", help="The column of the decisions; not needed with --score."),
]
Score = Annotated[
    str | None,
    typer.Option("--score", metavar="COLUMN", help="The column of the scores; a larger score is more favourable."),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", help="For --score without --prediction: the least score selected; by default above the median."
    ),
]
GroupsIfSeveral = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="each|intersection|both",
        help="With several sensitive columns: the groups of each column (the default), their intersections, or both "
        "(the default of --format ll144).",
    ),
]
SignificanceTests = Annotated[
    bool,
    typer.Option(
        "--significance",
        help="Also test each group's selection rate against that of the most selected group (of at least 2%).",
    ),
]
AuditDate = Annotated[str | None, typer.Option("--audit-date", metavar="DAY", help="For ll144: the day of the audit.")]
DistributionDate = Annotated[
    str | None,
    typer.Option("--distribution-date", metavar="DAY", help="For ll144: the day on which use of the tool began."),
]
Source = Annotated[str | None, typer.Option("--source", metavar="TEXT", help="For ll144: where the data come from.")]
Explanation = Annotated[str | None, typer.Option("--explanation", metavar="TEXT", help="For ll144: what the data are.")]
SmallCategoryNote = Annotated[
    str | None,
    typer.Option(
        "--small-category-note",
        metavar="TEXT",
        help="For ll144: why categories under 2% of the data are left out of the ratios; without it none is.",
    ),
]
Reference = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="[COLUMN=]GROUP...",
        help="For --significance: compare with this group instead; without COLUMN, a group of the first column.",
    ),
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
            (
                "Selections without labels",
                "fairbound audit hired.csv --prediction hired --sensitive sex --significance",
            ),
            (
                "Tests against a named group",
                "fairbound audit hired.csv --prediction hired --sensitive race --reference White",
            ),
            (
                "Tables for Local Law 144",
                "fairbound audit hired.csv --prediction hired --sensitive sex race --format ll144 --out ll144.csv",
            ),
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


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """How a file of the decisions of any system is read."""

    target: options.TargetIfAny = None
    prediction: options.Prediction
    sensitive: options.Sensitive
    positive: options.Positive = None
    positive_decision: options.PositiveDecision = None
    weight: options.Weight = None
    groups: options.Groups = "each"
    missing: options.Missing = None
    delimiter: options.Delimiter = None
    encoding: options.Encoding = "utf-8"


@dataclass(frozen=True, kw_only=True)
class JudgedOptions(DecisionOptions):
    """Reading options of commands that allow labels of several classes."""

    multiclass: options.Multiclass = False


@dataclass(frozen=True, kw_only=True)
class ScoredOptions(JudgedOptions):
    """Reading options of commands that can compute decisions from scores."""

    prediction: PredictionUnlessScored = None  # type: ignore[assignment]  # a score may stand in for it
    score: Score = None
    threshold: Threshold = None
    groups: GroupsIfSeveral = None  # type: ignore[assignment]  # the default depends on the form of the output


@dataclass(frozen=True, kw_only=True)
class PublishedFacts:
    """The facts that New York City's Local Law 144 requires to be published with the tables."""

    audit_date: AuditDate = None
    distribution_date: DistributionDate = None
    source: Source = None
    explanation: Explanation = None
    small_category_note: SmallCategoryNote = None


@with_options
def audit_command(
    *,
    file: options.Table,
    reading: ScoredOptions,
    require: options.RequireIfAny = None,
    significance: SignificanceTests = False,
    reference: Reference = None,
    min_group_size: MinGroupSize = 1,
    confidence: Confidence = 0.95,
    form: Form = "tables",
    facts: PublishedFacts,
    out: Page = None,
    memory: Memory = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the decisions of any system by group.

    Prints counts, rates with intervals, and every measure of disparity. Without --target it prints only those that do
    not use the label, such as selection rates and their ratio. With --require the exit code is 1 if these rows do not
    keep a limit. To test a limit for the population, use certify.
    """
    from fairbound.cli.inputs import check_choice, parse_limits, read_decisions
    from fairbound.cli.output import existing_rows, fresh_file

    check_choice(form, FORMS, "--format")
    groups = reading.groups if reading.groups is not None else "both" if form == "ll144" else "each"
    check_choice(groups, GROUPS, "--groups")
    _check_facts(form, facts)
    existing_rows(file)
    limits = parse_limits(require)
    output = Output(json, quiet)
    if out is not None:
        _check_page(Path(out), form)
    from fairbound.evaluation import audit_tally, tally_decisions

    rows = read_decisions(file, reading, score=reading.score, memory=memory, output=output)
    tally, scores = tally_decisions(
        rows.y,
        rows.prediction,
        rows.sensitive,
        score=rows.score,
        threshold=reading.threshold,
        sample_weight=rows.weight,
        groups=groups,
        pos_label=rows.positive,
        min_group_size=min_group_size,
        repeats=rows.repeats,
    )
    found = audit_tally(tally, confidence, scores=scores)
    checked = [(limit, tally.checked(*tally.compile_all([limit]))) for limit in limits]
    named = _references(reference, tuple(found.missing))
    tests = found.significance(named) if significance or named else None
    tables = found.to_ll144(**vars(facts)) if form == "ll144" else None
    content = {
        "command": "audit",
        **found.to_dict(named),
        "limits": [{"limit": str(limit), **state} for limit, state in checked],
        **({} if tables is None else {"ll144": tables.to_dict()}),
    }
    if out is not None:
        page = _audit_page(found, named, checked, Path(file).name) if tables is None else _ll144_page(tables, Path(out))
        with fresh_file(out) as draft:
            _write(draft, page, out)
    _show_reading(output, rows.read_as)
    output.text(str(found if tables is None else tables).rstrip())
    for table in () if tests is None else tests.tables():
        output.text()
        output.table(table.title, table.header, table.rows, left=table.left)
    if tests is not None:
        output.text("\n" + "\n".join(tests.notes))
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


def _references(words: Sequence[str] | None, groupings: Sequence[str]) -> dict[str, str]:
    """Return the reference group of each column, from words such as "White" (first column) or "race=White".

    >>> _references(["m", "race=White"], ("sex", "race"))
    {'sex': 'm', 'race': 'White'}
    """
    found: dict[str, str] = {}
    for word in words or ():
        column, _, group = word.partition("=")
        found |= {column: group} if column in groupings else {groupings[0]: word}
    return found


def _audit_page(
    found: Audit, references: Mapping[str, str], checked: Sequence[tuple[Constraint, dict[str, Any]]], title: str
) -> str:
    from fairbound.report import audit_to_html

    shown = [
        {"limit": str(limit), **state, "bounds": [bound for bound in limit.limits if math.isfinite(bound)]}
        for limit, state in checked
    ]
    return audit_to_html(found.to_dict(references), title=title, limits=shown, notes=found.notes)


def _ll144_page(tables: LL144Tables, place: Path) -> str:
    suffix = place.suffix.lower()
    return tables.to_csv() if suffix == ".csv" else tables.to_markdown() if suffix == ".md" else tables.to_html()


@with_options
def certify_command(
    *,
    file: options.Table,
    reading: JudgedOptions,
    require: options.Require,
    confidence: Confidence = 0.95,
    largest_weight: LargestWeight = None,
    memory: Memory = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test limits on held-out rows, at a stated confidence.

    Each limit gets PASS, FAIL or INCONCLUSIVE. The rows must be independent draws, and must not have been used to make
    the rule behind the decisions. An inconclusive verdict states how many rows would decide. The exit code is 0 if
    every limit passes, else 1.
    """
    from fairbound.cli.inputs import check_choice, parse_limits, read_decisions
    from fairbound.cli.output import existing_rows

    check_choice(reading.groups, GROUPS, "--groups")
    existing_rows(file)
    limits = parse_limits(require)
    output = Output(json, quiet)
    from fairbound.evaluation import certify

    rows = read_decisions(file, reading, memory=memory, output=output)
    found = certify(
        rows.y,
        rows.prediction,
        rows.sensitive,
        limits,
        confidence,
        sample_weight=rows.weight,
        largest_weight=largest_weight,
        groups=reading.groups,  # type: ignore[arg-type]  # one of the three, as checked
        pos_label=rows.positive,
        repeats=rows.repeats,
    )
    _show_reading(output, rows.read_as)
    output.text(found.to_text(option_name).rstrip())
    output.result({"command": "certify", **found.to_dict()})
    raise typer.Exit(KEPT if found.passed else NOT_KEPT)


def _check_page(place: Path, form: str) -> None:
    from fairbound.cli.output import refuse_existing

    endings = (".csv", ".md", ".html", ".htm") if form == "ll144" else (".html", ".htm")
    if place.suffix.lower() not in endings:
        raise ValueError(
            f"{place} (--out) must end in .html: an audit is written as a page."
            if form == "tables"
            else f"{place} (--out) must end in .csv, .md or .html: the ending names the form of the tables."
        )
    refuse_existing(place)


def _check_facts(form: str, facts: PublishedFacts) -> None:
    """Raise an error for options that have an effect only with --format ll144."""
    given = [name for name, value in vars(facts).items() if value is not None]
    if given and form != "ll144":
        raise ValueError(f"--{given[0].replace('_', '-')} is for --format ll144; give both, or neither.")


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
