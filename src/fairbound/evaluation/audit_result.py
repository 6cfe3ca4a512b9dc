"""The result of an audit: values by group, as text, HTML, JSON and data frames, with its tables and notes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from fairbound._json import as_json
from fairbound._words import (
    EVERYONE,
    TextTable,
    as_text,
    count,
    data_frame,
    group_text,
    lookup,
    number,
    page_as_html,
    page_as_text,
    percent,
)
from fairbound.evaluation.audit_records import GroupAudit, MeasureAudit, ScoreAudit, Undefined
from fairbound.evaluation.ll144 import LL144Tables, RateKind, check_ll144, ll144_tables
from fairbound.evaluation.significance import INTERVALS, SelectionTest, Significance, compare_selections, notes_on
from fairbound.evaluation.tally import MERGED


@dataclass(frozen=True)
class Audit:
    """The result of `audit`: decisions measured by group.

    Use it through `print`, `to_dict()`, `to_json()`, `to_frame()`, or as HTML in a notebook.

    Attributes
    ----------
    rows : int
    weighted : bool
    confidence : float
        Confidence level of each interval; the intervals are not simultaneous.
    classes : tuple
        The labels; if there are two, the second is the positive one.
    groups : tuple of GroupAudit
        For each grouping its groups, then everyone.
    measures : tuple of MeasureAudit
    undefined : tuple of Undefined
    missing : dict
        Number of rows without a known group, for each grouping; they count in none of its rates.
    merged : dict
        For each grouping the small groups that were merged, with their numbers of rows.
    min_group_size : int
        Groups with fewer rows were merged.
    labelled : bool
        Whether the rows have labels; without them there are only rates and measures of decisions.
    scores : ScoreAudit or None
        With `score=`: AUC, calibration, distributions, and the measures at every threshold.
    probable : bool
        Whether groups are known with probabilities; rows are then weighted by them.
    """

    rows: int
    weighted: bool
    confidence: float
    classes: tuple[Hashable, ...]
    groups: tuple[GroupAudit, ...] = field(repr=False)
    measures: tuple[MeasureAudit, ...] = field(repr=False)
    undefined: tuple[Undefined, ...]
    missing: dict[str, int]
    merged: dict[str, dict[Hashable, int]] = field(default_factory=dict)
    min_group_size: int = 1
    labelled: bool = True
    scores: ScoreAudit | None = field(default=None, repr=False)
    probable: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on the intervals, and on groups that are undefined, small or merged."""
        return tuple(audit_notes(self))

    def group(self, group: Hashable, grouping: str | None = None) -> GroupAudit:
        """Return a group by its value or its text; `grouping` is needed if several groupings have such a group."""
        named = [each for each in self.groups if grouping in (None, each.grouping)]
        found = [each for each in named if not each.everyone and each.group == group]
        found = found or [each for each in named if each.name == str(group)]
        if len(found) != 1:
            known = ", ".join(f"{each.name} ({each.grouping})" for each in named)
            problem = "Unknown group" if not found else "Several groupings have the group"
            raise ValueError(f"{problem} {group!r}. Known: {known}.")
        return found[0]

    def measure(self, name: str, grouping: str | None = None, label: Hashable | None = None) -> MeasureAudit:
        """Return a measure by name; `grouping` and `label` are needed if there are several."""
        lookup({each.measure: each for each in self.measures}, name, "measure")
        found = [
            each
            for each in self.measures
            if each.measure == name and grouping in (None, each.grouping) and label in (None, each.label)
        ]
        if len(found) != 1:
            known = ", ".join(
                f"{each.grouping!r}" + (f" and class {each.label!r}" if each.label is not None else "")
                for each in self.measures
                if each.measure == name
            )
            raise ValueError(f"There is a {name} for {known}: name one of them with grouping= and label=.")
        return found[0]

    def significance(self, reference: Hashable | Mapping[str, Hashable] | None = None) -> Significance:
        """Test the selection rate of each group against that of a reference group.

        Parameters
        ----------
        reference : group, or mapping of grouping to group, optional
            The group to compare with, in the first sensitive column; or a mapping with a group for each column.  By
            default, the group of the column with the highest selection rate among those with at least 2% of the rows.
        """
        if not self.countable:
            raise ValueError("Tests of selection rates count people: they need two classes, and no sample_weight.")
        selections = self._selections()
        named = reference if isinstance(reference, Mapping) else dict.fromkeys(list(selections)[:1], reference)
        for grouping in named:
            lookup(selections, grouping, "grouping")
        tests: list[SelectionTest] = []
        notes: list[str] = []
        for grouping, counts in selections.items():
            chosen = named.get(grouping)
            found = compare_selections(grouping, counts, reference=chosen, confidence=self.confidence)
            tests += found
            notes += notes_on(found, grouping, named=chosen is not None, confidence=self.confidence)
        return Significance(tuple(tests), self.confidence, (*notes, *([INTERVALS] if tests else [])))

    def to_ll144(
        self,
        *,
        rate: RateKind | None = None,
        audit_date: str | date | None = None,
        distribution_date: str | date | None = None,
        source: str | None = None,
        explanation: str | None = None,
        small_category_note: str | None = None,
    ) -> LL144Tables:
        """Return the tables of impact ratios that New York City's Local Law 144 asks for.

        The audit needs one or two sensitive columns (sex, and race or ethnicity); two with `groups="both"`.

        Parameters
        ----------
        rate : {"selection", "scoring"}, optional
            By default the scoring rate if the audit has scores, else the selection rate.
        audit_date, distribution_date : date or str, optional
            The day of the audit, and the day on which use of the tool began, as in "2026-03-31".
        source, explanation : str, optional
            Where the data come from, and what they are.
        small_category_note : str, optional
            The justification for leaving categories under 2% of the data out of the impact ratios.  Without it none is
            left out.
        """
        kind = rate if rate is not None else "selection" if self.scores is None else "scoring"
        check_ll144(self, kind)
        counts, median = self._selections(), None
        if kind == "scoring" and self.scores is not None:
            median = self.scores.median
            counts = {
                grouping: [
                    (each.group, each.rows, each.above_median)
                    for each in self.scores.groups
                    if each.grouping == grouping and not each.everyone
                ]
                for grouping in self.missing
            }
        return ll144_tables(
            counts,
            self.missing,
            self.rows,
            kind=kind,
            median=median,
            audit_date=audit_date,
            distribution_date=distribution_date,
            source=source,
            explanation=explanation,
            small_category_note=small_category_note,
        )

    @property
    def countable(self) -> bool:
        """Whether selections can be counted: two classes, and rows of equal weight."""
        return len(self.classes) == 2 and not self.weighted

    def _selections(self) -> dict[str, list[tuple[Hashable, int, int]]]:
        """Return group, rows and number of the selected, for each grouping."""
        return {
            grouping: [
                (each.group, each.rows, round(each.decisions[self.classes[1]]))
                for each in self.groups
                if each.grouping == grouping and not each.everyone
            ]
            for grouping in self.missing
        }

    def to_dict(self, reference: Hashable | Mapping[str, Hashable] | None = None) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values; `reference` as for `significance`."""
        return as_json(
            {
                "rows": self.rows,
                "weighted": self.weighted,
                "probable": self.probable,
                "confidence": self.confidence,
                "classes": self.classes,
                "groups": [
                    {
                        **{
                            name: getattr(group, name)
                            for name in ("grouping", "everyone", "rows", "labels", "decisions", "confusion")
                        },
                        "group": EVERYONE if group.everyone else as_text(group.group),
                        "rates": {
                            label: {name: dict(vars(rate)) for name, rate in rates.items()}
                            for label, rates in group.rates.items()
                        },
                    }
                    for group in self.groups
                ],
                "measures": [dict(vars(measure)) for measure in self.measures],
                "undefined": [dict(vars(undefined)) for undefined in self.undefined],
                "missing": self.missing,
                "merged": self.merged,
                "labelled": self.labelled,
                "scores": None if self.scores is None else self.scores.to_dict(),
                "significance": self.significance(reference).to_dict() if self.countable else None,
            }
        )

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_frame(self, what: Literal["rates", "measures"] = "rates") -> Any:
        """Return a pandas data frame with one row for each rate of each group, or for each measure."""
        if what not in ("rates", "measures"):
            raise ValueError(f'what={what!r} must be "rates" or "measures".')
        if what == "measures":
            return data_frame([dict(vars(measure)) for measure in self.measures])
        return data_frame(
            [
                {
                    "grouping": group.grouping,
                    "group": group.name if group.everyone else group.group,
                    "everyone": group.everyone,
                    "rows": group.rows,
                    "class": label,
                    "rate": name,
                    **vars(estimate),
                }
                for group in self.groups
                for label, rates in group.rates.items()
                for name, estimate in rates.items()
            ]
        )

    def __str__(self) -> str:
        return page_as_text(*audit_page(self))

    def _repr_html_(self) -> str:
        return page_as_html(*audit_page(self))


# --- tables and notes ------------------------------------------------------------------------------------------------

# For each grouping counts, rates with intervals, and measures.


SHOWN = (  # three rates per table, so that a line fits a terminal
    ("selection_rate", "true_positive_rate", "false_positive_rate"),
    ("precision", "negative_predictive_value", "accuracy"),
)
FEW_ROWS = 30


def audit_page(audit: Audit) -> tuple[str, list[TextTable], list[str]]:
    """Return heading, tables and notes."""
    two = f", positive {'label' if audit.labelled else 'decision'} {audit.classes[1]!r}"
    positive = two if len(audit.classes) == 2 else f", {len(audit.classes)} classes"
    heading = f"Audit of {count(audit.rows)} rows{positive}, {percent(audit.confidence)} intervals"
    tables = []
    for grouping in audit.missing:
        groups = [group for group in audit.groups if group.grouping == grouping]
        tables.append(_counts(audit, grouping, groups))
        for label in groups[0].rates:
            tables += _rates(audit, grouping, groups, label)
        tables.append(_measures(audit, grouping))
    if audit.scores is not None:
        tables += audit.scores.tables()
    return heading, tables, list(audit.notes)


def _counts(audit: Audit, grouping: str, groups: list[GroupAudit]) -> TextTable:
    if not audit.labelled:
        header = ("group", "rows", *(f"decision {decision}" for decision in audit.classes))
        counted = [(group.name, count(group.rows), *map(count, group.decisions.values())) for group in groups]
        return TextTable(f"{grouping}: counts", header, tuple(counted))
    two = len(audit.classes) == 2
    labels = tuple(f"label {label}" for label in audit.classes)
    cells = ("true pos.", "false pos.", "false neg.", "true neg.") if two else ("right", "wrong")
    rows = []
    for group in groups:
        if two:
            (true_negatives, false_positives), (false_negatives, true_positives) = group.confusion
            kinds = [true_positives, false_positives, false_negatives, true_negatives]
        else:
            right = sum(line[position] for position, line in enumerate(group.confusion))
            kinds = [right, sum(group.labels.values()) - right]
        numbers = [group.rows, *group.labels.values(), *kinds]
        rows.append((group.name, *(count(each) for each in numbers)))
    return TextTable(f"{grouping}: counts", ("group", "rows", *labels, *cells), tuple(rows))


def _rates(audit: Audit, grouping: str, groups: list[GroupAudit], label: Hashable) -> Iterator[TextTable]:
    where = f", class {label}" if len(audit.classes) > 2 else ""
    for names in SHOWN if audit.labelled else [list(groups[0].rates[label])]:
        yield TextTable(
            f"{grouping}: rates{where}",
            ("group", *(name.replace("_", " ") for name in names)),
            tuple((group.name, *(str(group.rates[label][name]) for name in names)) for group in groups),
        )


def _measures(audit: Audit, grouping: str) -> TextTable:
    def interval(measure: MeasureAudit) -> str:
        return "-" if measure.lower is None else f"{number(measure.lower)} to {number(measure.upper)}"

    def apart(measure: MeasureAudit) -> str:
        return "" if measure.pair is None else f"{group_text(measure.pair[0])}, {group_text(measure.pair[1])}"

    several = len(audit.classes) > 2
    rows = tuple(
        (
            measure.measure,
            *(("all" if measure.label is None else str(measure.label),) if several else ()),
            apart(measure),
            "undefined" if measure.value is None else number(measure.value),
            interval(measure),
        )
        for measure in audit.measures
        if measure.grouping == grouping
    )
    header = ("measure", *(("class",) if several else ()), "furthest apart", "value", "interval")
    return TextTable(f"{grouping}: measures over all pairs of groups", header, rows, left=len(header) - 2)


def audit_notes(audit: Audit) -> Iterator[str]:
    """Yield notes on how to read the numbers."""
    if audit.probable:
        yield (
            "Groups are known with probabilities: a row counts in each group with its probability, and counts are sums "
            "of probabilities. Intervals are empirical Bernstein bounds of these weighted rates."
        )
    elif audit.weighted:
        yield (
            "Rows are weighted: counts are sums of weights. Intervals are empirical Bernstein bounds, with the largest "
            "weight of these rows in place of the largest possible one."
        )
    else:
        yield "Intervals of rates are exact binomial (Clopper-Pearson), each at the stated confidence."
    if not audit.labelled:
        yield "The rows have no labels: only rates and measures of the decisions themselves are shown."
    yield "Intervals of measures follow from simultaneous intervals of all their rates (Bonferroni)."
    for grouping, rows in audit.missing.items():
        if rows:
            yield f"{grouping}: {count(rows)} rows have no known group and count in no rate of {grouping}."
    for grouping, merged in audit.merged.items():
        if merged:
            listed = ", ".join(f"{group_text(group)} {count(rows)}" for group, rows in merged.items())
            yield f"{grouping}: groups of few rows are merged into {MERGED} ({listed})."
    nothing: dict[tuple[str, Hashable, int], list[str]] = {}
    for each in audit.undefined:
        name = each.rate if each.label is None else f"{each.rate} of class {each.label}"
        nothing.setdefault((each.grouping, each.group, each.rows), []).append(name)
    for (grouping, group, rows), names in nothing.items():
        yield (
            f"{grouping}: group {group_text(group)} (rows: {count(rows)}) is left out of measures whose rates are "
            f"undefined there: {', '.join(names)}."
        )
    few_rows = max(FEW_ROWS, audit.min_group_size)
    for grouping in audit.missing:
        few = [group for group in audit.groups if group.grouping == grouping and group.rows < few_rows]
        if few:
            listed = ", ".join(f"{group.name} {count(group.rows)}" for group in few)
            yield f"{grouping}: fewer than {few_rows} rows ({listed}); read the intervals there, not the values."
    if audit.scores is not None:
        yield from audit.scores.notes
