"""Tables of impact ratios as New York City's Local Law 144 asks for them (6 RCNY 5-300 to 5-304).

    selection rate   selected in the category / all in the category
    scoring rate     those in the category with a score above the median of the full sample / all in the category
    impact ratio     rate of the category / rate of the most selected (highest scoring) category

There is a table for each of the two columns (sex, and race or ethnicity) and one for their intersections.  People whose
category is unknown count in no rate of that table; their number is stated below it.  They are part of the full sample,
whose median splits the scores.  A score equal to the median is not above it.

A category under 2% of all people audited may be left out of the impact ratios (5-301 (d)).  That needs a justification.
The table then shows the category with its size and rate but no impact ratio, and other ratios are not divided by its
rate.

The tables hold numbers.  An independent auditor decides whether an audit meets the law.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from fairbound._errors import InputError, bad_value
from fairbound._escapes import for_spreadsheet, visible
from fairbound._json import as_json
from fairbound._text_tables import TextTable
from fairbound._words import beside, count, group_text, listed, lookup, number
from fairbound.evaluation.significance import FOUR_FIFTHS, SMALL_SHARE

if TYPE_CHECKING:
    from fairbound.evaluation.audit_result import Audit

UNKNOWN = "(unknown)"
NOT_STATED = "not stated"
STATED = {
    "audit_date": "Date of the audit",
    "distribution_date": "Distribution date of the tool",
    "source": "Source of the data",
    "explanation": "Explanation of the data",
}
"""The facts that the user states, and their names in the tables."""

RateKind = Literal["selection", "scoring"]


@dataclass(frozen=True)
class Category:
    """One line of a table.

    Attributes
    ----------
    group : group
    applicants : int
        Number of people in the category.
    selected : int
        Number selected, or with a score above the median.
    impact_ratio : float or None
        None if the category is left out, or if nobody is selected in any category.
    left_out : bool
        Whether the category is under 2% and left out of the impact ratios.
    """

    group: Hashable
    applicants: int
    selected: int
    impact_ratio: float | None
    left_out: bool

    @property
    def name(self) -> str:
        """The group as text."""
        return group_text(self.group)

    @property
    def rate(self) -> float:
        """The selection rate or the scoring rate."""
        return self.selected / self.applicants

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json({**vars(self), "group": self.name, "rate": self.rate})


@dataclass(frozen=True)
class CategoryTable:
    """The categories of one column, or of an intersection, and the number of people whose category is unknown."""

    grouping: str
    categories: tuple[Category, ...]
    unknown: int

    def category(self, group: Hashable) -> Category:
        """Return a category by its value or its text."""
        return lookup({each.name: each for each in self.categories}, group_text(group), "category")


@dataclass(frozen=True)
class LL144Tables:
    """Selection or scoring rates and impact ratios by category, with the facts that are published with them.

    `Audit.to_ll144` makes it.  Use `to_csv` or `to_html`, or `tables`.

    Attributes
    ----------
    kind : {"selection", "scoring"}
    people : int
        Number of people audited, including those whose category is unknown.
    median : float or None
        Of all scores, for scoring rates.
    tables : tuple of CategoryTable
    audit_date, distribution_date, source, explanation, small_category_note : str or None
        As stated by the user; None if not stated.
    """

    kind: RateKind
    people: int
    median: float | None
    tables: tuple[CategoryTable, ...]
    audit_date: str | None = None
    distribution_date: str | None = None
    source: str | None = None
    explanation: str | None = None
    small_category_note: str | None = None

    @property
    def facts(self) -> dict[str, str]:
        """The facts that are published with the tables, by their names."""
        found = {name: getattr(self, field) or NOT_STATED for field, name in STATED.items()}
        found["Number of people audited"] = count(self.people)
        if self.median is not None:
            found["Median score of the full sample"] = f"{self.median:g}"
        if self._leaves_out:
            found["Categories under 2% left out"] = self.small_category_note or NOT_STATED
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the tables."""
        chosen = "that was selected" if self.kind == "selection" else "with a score above the median of the full sample"
        found = [
            f"The {self.kind} rate is the share of a category {chosen}.",
            f"The impact ratio is the {self.kind} rate of a category over the highest one in the table.",
        ]
        if any(table.unknown for table in self.tables):
            several = " For intersections, one of the two is not known." if len(self.tables) > 1 else ""
            found.append(f"(unknown): people whose category is not known; they are in none of the rates.{several}")
        for table in self.tables:
            if all(each.left_out for each in table.categories):
                found.append(f"{table.grouping}: every category is under 2% of the data, so there is no impact ratio.")
            elif all(each.impact_ratio is None for each in table.categories):
                found.append(f"{table.grouping}: the highest {self.kind} rate is 0, so there is no impact ratio.")
            small = [each for each in table.categories if each.applicants < SMALL_SHARE * self.people]
            if small and not self._leaves_out:
                listed = ", ".join(f"{each.name} {count(each.applicants)}" for each in small)
                found.append(
                    f"{table.grouping}: categories under 2% of the data ({listed}) are in the ratios. They may be left "
                    "out, with a justification."
                )
        return tuple(found)

    @property
    def _leaves_out(self) -> bool:
        return any(each.left_out for table in self.tables for each in table.categories)

    @property
    def _columns(self) -> tuple[str, str]:
        return ("selected", "selection rate") if self.kind == "selection" else ("above median", "scoring rate")

    def table(self, grouping: str) -> CategoryTable:
        """Return the table of a column, or of an intersection."""
        return lookup({each.grouping: each for each in self.tables}, grouping, "table")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json(vars(self))

    def to_csv(self) -> str:
        """Return all tables as one CSV text, with full digits; the facts are lines of the table "about"."""
        amount, rate = (name.replace(" ", "_") for name in self._columns)
        lines: list[tuple[Any, ...]] = [("table", "category", "applicants", amount, rate, "impact_ratio", "note")]
        for table in self.tables:
            for each in table.categories:
                note = "left out, under 2% of the data" if each.left_out else ""
                counts = each.applicants, each.selected, each.rate, each.impact_ratio
                lines.append((table.grouping, each.name, *counts, note))
            lines.append((table.grouping, UNKNOWN, table.unknown, "", "", "", "not in the rates"))
        lines += [("about", name, "", "", "", "", text) for name, text in self.facts.items()]
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows(tuple(map(for_spreadsheet, line)) for line in lines)
        return written.getvalue()

    def text_tables(self) -> list[TextTable]:
        """Return the tables as text, rates with three digits, and a ratio with as many as show its side of four fifths.

        The last table, without a header, has the facts.
        """

        def line(each: Category) -> tuple[str, ...]:
            ratio = "left out (under 2%)" if each.left_out else number(each.impact_ratio)
            if each.impact_ratio is not None:
                ratio = beside(each.impact_ratio, [FOUR_FIFTHS], 3)
            return each.name, count(each.applicants), count(each.selected), number(each.rate), ratio

        header = ("category", "applicants", *self._columns, "impact ratio")
        found = [
            TextTable(
                table.grouping, header, (*map(line, table.categories), (UNKNOWN, count(table.unknown), "-", "-", "-"))
            )
            for table in self.tables
        ]
        return [*found, TextTable("About", (), tuple(self.facts.items()), left=2)]

    def to_html(self) -> str:
        """Return tables, facts and notes as a fragment of HTML for a web page, without style or script."""
        parts = [table.as_html(plain=True) for table in self.text_tables()]
        notes = [f"<p>{html.escape(visible(note))}</p>" for note in self.notes]
        return "\n".join(['<section class="ll144">', *parts, *notes, "</section>"]) + "\n"

    def __str__(self) -> str:
        return "\n\n".join([*(table.as_text() for table in self.text_tables()), "\n".join(self.notes)])


def ll144_tables(audit: Audit, kind: RateKind, **facts: str | date | None) -> LL144Tables:
    """Return the tables of an audit; `Audit.to_ll144` documents the facts."""
    _check(audit, kind)
    median, counts = None, audit.selections()
    if kind == "scoring" and audit.scores is not None:
        median = audit.scores.median
        counts = {grouping: [] for grouping in audit.missing}
        for each in audit.scores.groups:
            if not each.everyone:
                counts[each.grouping].append((each.group, each.rows, each.above_median))
    stated = {name: _stated(fact, name) for name, fact in facts.items()}
    few = SMALL_SHARE * audit.rows if stated.get("small_category_note") else 0.0
    tables = []
    for grouping, categories in counts.items():
        known = [(group, n, x, x / n, n < few) for group, n, x in categories if n > 0]
        highest = max((rate for *_, rate, out in known if not out), default=0.0)
        found = (
            Category(group, n, x, None if out or highest == 0 else rate / highest, out)
            for group, n, x, rate, out in known
        )
        tables.append(CategoryTable(grouping, tuple(found), audit.missing[grouping]))
    return LL144Tables(kind=kind, people=audit.rows, median=median, tables=tuple(tables), **stated)


def _check(audit: Audit, kind: RateKind) -> None:
    """Raise an error if the tables cannot be made from an audit."""
    if kind not in ("selection", "scoring"):
        raise bad_value("rate", kind, '"selection" or "scoring"')
    if kind == "scoring" and audit.scores is None:
        raise InputError("Scoring rates need scores.", "Give them with {score=}.")
    if audit.weighted:
        raise InputError("The tables count people, so rows cannot have weights.", "Leave out {sample_weight=}.")
    if not audit.countable:
        raise InputError(
            "The tables need decisions of two values, selected and not selected, but there are {count}: {values}.",
            "Write every decision as one of two values, and leave out rows that are not decided yet.",
            count=len(audit.classes),
            values=listed(audit.classes, 10),
        )
    if audit.merged:
        raise InputError("{min_group_size=} merged categories, but the tables need each of them.", "Leave it out.")
    names = list(audit.missing)
    single = len(names) == 1 and not isinstance(audit.groups[0].group, tuple)
    if not single and not (len(names) == 3 and names[2] == f"{names[0]} & {names[1]}"):
        raise InputError(
            "The tables need sex, race or ethnicity, and their intersections, but the audit has {names}.",
            "Give one or two sensitive columns; two with {groups='both'}.",
            names=", ".join(names),
        )


def _stated(fact: str | date | None, name: str) -> str | None:
    """Return a fact as text, a day in the form of ISO 8601; None if it is not stated."""
    if fact is None or not (name.endswith("_date") or str(fact).strip()):
        return None
    if not name.endswith("_date"):
        return str(fact)
    try:
        return (fact if isinstance(fact, date) else date.fromisoformat(fact)).isoformat()[:10]
    except (TypeError, ValueError):
        raise bad_value(name, fact, "a day such as 2026-03-31") from None
