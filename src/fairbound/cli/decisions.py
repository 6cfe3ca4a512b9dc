"""`fairbound audit` and `fairbound certify`: measure and test the decisions of any system."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from fairbound._files import as_utf8, write_file
from fairbound._settings import Count
from fairbound._text_tables import TextTable
from fairbound._words import number
from fairbound.cli.endings import KEPT, NOT_KEPT
from fairbound.cli.names import option_name
from fairbound.cli.options import command
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.evaluation import Audit
    from fairbound.fairness import Constraint


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """How a file of the decisions of any system is read.

    Parameters
    ----------
    target : COLUMN
        The column of the label; not needed for measures of decisions alone.
    prediction : COLUMN
        The column of the decisions.
    sensitive : COLUMN...
        The sensitive columns, one or several; race=white,black for columns of probabilities of the groups.
    positive : VALUE...
        The favourable values of the label; not needed for 0 and 1, or no and yes.
    positive_decision : VALUE
        The decision that counts as --positive, if decisions and labels have different values.
    weight : COLUMN
        The column with the weights of the rows.
    groups : str
        With several sensitive columns: the groups of each column, their intersections, or both.
    missing : WORD...
        Further words for a missing value, besides NA and the like.
    delimiter : CHARACTER
        The character between the values of a text file.
    encoding : NAME
        The encoding of a text file.
    """

    target: str | None = None
    prediction: str
    sensitive: list[str]
    positive: list[str] | None = None
    positive_decision: str | None = None
    weight: str | None = None
    groups: Literal["each", "intersection", "both"] = "each"
    missing: list[str] | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True, kw_only=True)
class JudgedOptions(DecisionOptions):
    """Reading options of commands that allow labels of several classes.

    Parameters
    ----------
    multiclass : bool
        Treat each value of a label with more than two values as a class.
    """

    multiclass: bool = False


@dataclass(frozen=True, kw_only=True)
class ScoredOptions(JudgedOptions):
    """Reading options of commands that can compute decisions from scores.

    Parameters
    ----------
    prediction : COLUMN
        The column of the decisions; not needed with --score.
    score : COLUMN
        The column of the scores; a larger score is more favourable.
    lower_is_better : bool
        A smaller score is more favourable, as for scores of risk; scores are shown with the other sign.
    threshold : float
        For --score without --prediction: the least score selected (with --lower-is-better, the largest); by default
        above the median.
    groups : str
        With several sensitive columns: the groups of each column (the default), their intersections, or both (the
        default of --format ll144).
    """

    prediction: str | None = None  # type: ignore[assignment]  # a score may stand in for it
    score: str | None = None
    lower_is_better: bool = False
    threshold: float | None = None
    groups: Literal["each", "intersection", "both"] | None = None  # type: ignore[assignment]  # depends on --format


@dataclass(frozen=True, kw_only=True)
class PublishedFacts:
    """The facts that New York City's Local Law 144 requires to be published with the tables.

    Parameters
    ----------
    audit_date : DAY
        For ll144: the day of the audit.
    distribution_date : DAY
        For ll144: the day on which use of the tool began.
    source : TEXT
        For ll144: where the data come from.
    explanation : TEXT
        For ll144: what the data are.
    small_category_note : TEXT
        For ll144: why categories under 2% of the data are left out of the ratios; without it none is.
    """

    audit_date: str | None = None
    distribution_date: str | None = None
    source: str | None = None
    explanation: str | None = None
    small_category_note: str | None = None


@command("audit")
def audit(
    file: str,
    *,
    reading: ScoredOptions,
    require: list[str] | None = None,
    significance: bool = False,
    reference: list[str] | None = None,
    min_group_size: Count = 1,
    confidence: float = 0.95,
    form: Literal["tables", "ll144"] = "tables",
    out: str | None = None,
    memory: str | None = None,
    facts: PublishedFacts,
    output: Output,
) -> None:
    """Measure the decisions of any system by group.

    Prints counts, rates with intervals, and every measure of disparity. Without --target it prints only those that do
    not use the label, such as selection rates and their ratio. With --require the exit code is 1 if these rows do not
    keep a limit. To test a limit for the population, use certify.

    Parameters
    ----------
    file : FILE
        A CSV or Parquet file.
    require : LIMIT...
        A limit, such as "disparate_impact >= 0.8".
    significance : bool
        Also test each group's selection rate against that of the most selected group (of at least 2%).
    reference : [COLUMN=]GROUP...
        For --significance: compare with this group instead; without COLUMN, a group of the first column.
    min_group_size : int
        Groups with fewer rows are merged into one.
    confidence : float
        The confidence level of intervals and verdicts, below 1.
    form : str
        Everything, or the tables of New York City's Local Law 144 only.
    out : FILE
        Also write the audit as an HTML page; with --format ll144 as .csv or .html.
    memory : SIZE
        Keep rows that would take more memory than this in files, such as 2GB. [default: half of all memory]

    Examples
    --------
    By sex and by race:
      $ fairbound audit decisions.csv --target approved --prediction decision --sensitive sex race
    As a page to hand on:
      $ fairbound audit decisions.csv --target approved --prediction decision --sensitive sex --out audit.html
    Selections without labels:
      $ fairbound audit hired.csv --prediction hired --sensitive sex --significance
    Tests against a named group:
      $ fairbound audit hired.csv --prediction hired --sensitive race --reference White
    Tables for Local Law 144:
      $ fairbound audit hired.csv --prediction hired --sensitive sex race --format ll144 --out ll144.csv
    Exit code 1 unless kept:
      $ fairbound audit decisions.csv --target approved --prediction decision --sensitive sex
          --require "disparate_impact >= 0.8"
    """
    from fairbound.cli.inputs import read_decisions
    from fairbound.cli.output import existing_rows
    from fairbound.fairness import as_constraints

    if reading.lower_is_better and reading.score is None:
        raise ValueError("--lower-is-better is about scores; name their column with --score.")
    groups = reading.groups if reading.groups is not None else "both" if form == "ll144" else "each"
    _check_facts(form, facts)
    existing_rows(file)
    limits = as_constraints(require)
    if out is not None:
        _check_page(Path(out), form)
    from fairbound.evaluation import audit_tally, tally_decisions

    rows = read_decisions(file, reading, score=reading.score, memory=memory)
    sign = -1.0 if reading.lower_is_better else 1.0
    tally, scores = tally_decisions(
        *rows.rows,
        score=None if rows.score is None else sign * rows.score,
        threshold=None if reading.threshold is None else sign * reading.threshold,
        groups=groups,
        min_group_size=min_group_size,
        **rows.known,
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
        if tables is None:
            page = _audit_page(
                found, named, checked, f"Decisions in {Path(file).name}, by {' and '.join(found.missing)}"
            )
        else:
            from fairbound.report import ll144_to_html

            page = tables.to_csv() if Path(out).suffix.lower() == ".csv" else ll144_to_html(tables)
        write_file(out, as_utf8(page), replace=False)
    _show_reading(output, rows.read_as)
    if reading.lower_is_better:
        output.text("A smaller score is more favourable, so scores are shown with the other sign.\n")
    output.text(str(found if tables is None else tables).rstrip())
    if tests is not None:
        output.text()
        output.tables(*tests.tables())
        output.text("\n" + "\n".join(tests.notes))
    if checked:
        lines = [
            (str(limit), "kept" if state["kept"] else "NOT KEPT", number(state["value"], 4)) for limit, state in checked
        ]
        output.text()
        output.tables(TextTable("Limits, on these rows", ("limit", "", "measured"), tuple(lines), left=2))
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
    tests = found.significance(references) if found.countable else None
    return audit_to_html(found, title=title, limits=shown, tests=tests)


@command("certify")
def certify(
    file: str,
    *,
    reading: JudgedOptions,
    require: list[str],
    confidence: float = 0.95,
    largest_weight: float | None = None,
    memory: str | None = None,
    output: Output,
) -> None:
    """Test limits on held-out rows, at a stated confidence.

    Each limit gets PASS, FAIL or INCONCLUSIVE. The rows must be independent draws, and must not have been used to make
    the rule behind the decisions. An inconclusive verdict states how many rows would decide. The exit code is 0 if
    every limit passes, else 1.

    Parameters
    ----------
    file : FILE
        A CSV or Parquet file.
    require : LIMIT...
        A limit, such as "disparate_impact >= 0.8".
    confidence : float
        The confidence level of intervals and verdicts, below 1.
    largest_weight : float
        For --weight: the largest weight that any row can have.
    memory : SIZE
        Keep rows that would take more memory than this in files, such as 2GB. [default: half of all memory]

    Examples
    --------
    The four-fifths rule:
      $ fairbound certify decisions.csv --target approved --prediction decision --sensitive sex
          --require "disparate_impact >= 0.8"
    Two limits, for machines:
      $ fairbound certify decisions.csv --target approved --prediction decision --sensitive sex
          --require "disparate_impact >= 0.8" "equalized_odds <= 0.1" --json
    """
    from fairbound.cli.inputs import read_decisions
    from fairbound.cli.output import existing_rows
    from fairbound.fairness import as_constraints

    existing_rows(file)
    limits = as_constraints(require)
    from fairbound import evaluation

    rows = read_decisions(file, reading, memory=memory)
    found = evaluation.certify(
        *rows.rows,
        limits,
        confidence,
        largest_weight=largest_weight,
        groups=reading.groups,
        **rows.known,
    )
    _show_reading(output, rows.read_as)
    output.text(found.to_text(option_name).rstrip())
    output.result({"command": "certify", **found.to_dict()})
    raise typer.Exit(KEPT if found.passed else NOT_KEPT)


def _check_page(place: Path, form: str) -> None:
    from fairbound.cli.output import refuse_existing

    endings = (".csv", ".html", ".htm") if form == "ll144" else (".html", ".htm")
    if place.suffix.lower() not in endings:
        raise ValueError(
            f"{place} (--out) must end in .html: an audit is written as a page."
            if form == "tables"
            else f"{place} (--out) must end in .csv or .html: the ending names the form of the tables."
        )
    refuse_existing(place)


def _check_facts(form: str, facts: PublishedFacts) -> None:
    """Raise an error for options that have an effect only with --format ll144."""
    given = [name for name, value in vars(facts).items() if value is not None]
    if given and form != "ll144":
        raise ValueError(f"--{given[0].replace('_', '-')} is for --format ll144; give both, or neither.")


def _show_reading(output: Output, read_as: Sequence[tuple[str, str, int, str]]) -> None:
    """Print the label that each value counts as, if it is not the value itself."""
    if read_as:
        lines = tuple((what, value, word, f"{rows:,}") for what, value, rows, word in read_as)
        output.tables(TextTable("Labels and decisions", ("column", "value", "counts as", "rows"), lines, left=3))
        output.text()
