"""The result of an audit: values by group, as text, HTML, JSON and data frames."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from fairbound._records import as_json
from fairbound._text import TextTable, page_as_html, page_as_text
from fairbound._words import EVERYONE, as_text, count, group_text, lookup, number, percent
from fairbound.evaluation.tally import MERGED


@dataclass(frozen=True)
class Estimate:
    """A measured rate and its interval; all None if the rate is undefined."""

    value: float | None
    lower: float | None
    upper: float | None

    def __str__(self) -> str:
        if self.value is None:
            return "undefined"
        return number(self.value) + ("" if self.lower is None else f" [{number(self.lower)}, {number(self.upper)}]")


@dataclass(frozen=True)
class GroupAudit:
    """One group, or everyone whose group is known.

    Attributes
    ----------
    grouping : str
        The sensitive column, or columns.
    group : group or None
        The value as given, a tuple for an intersection; None for everyone.
    everyone : bool
    rows : int
    labels : dict
        Number of rows of each label; with weights, their total weight.
    confusion : tuple of tuples
        Number of rows (or total weight) by label and prediction, in the order of `Audit.classes`.
    rates : dict
        `Estimate` of each rate, for each class whose selection is counted (of two, the positive one).
    """

    grouping: str
    group: Hashable
    everyone: bool
    rows: int
    labels: dict[Hashable, float]
    confusion: tuple[tuple[float, ...], ...]
    rates: dict[Hashable, dict[str, Estimate]] = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name of the group as text."""
        return group_text(self.group)

    def rate(self, name: str, label: Hashable | None = None) -> Estimate:
        """Return a rate by name; with several classes, `label` is needed."""
        if label is None and len(self.rates) > 1:
            raise ValueError(f"There is a {name} for each class: name one of {', '.join(map(repr, self.rates))}.")
        chosen = next(iter(self.rates)) if label is None else label
        if chosen not in self.rates:
            raise ValueError(f"Unknown class {label!r}. Known: {', '.join(map(repr, self.rates))}.")
        return lookup(self.rates[chosen], name, "rate")


@dataclass(frozen=True)
class MeasureAudit:
    """A measure over the groups of one grouping, for one class or for all.

    Attributes
    ----------
    measure, description, grouping : str
    label : label or None
        The class, if there are several and the measure has a value for each.
    value : float or None
        The measure over all pairs of groups where it is defined; None if there is no such pair.
    lower, upper : float or None
        Its interval; None if there is none (covariance).
    pair : tuple or None
        The two groups that are furthest apart, and the rate in which they are.
    left_out : tuple
        Groups for which the measure is undefined.
    """

    measure: str
    description: str
    grouping: str
    label: Hashable | None
    value: float | None
    lower: float | None
    upper: float | None
    pair: tuple[Hashable, Hashable, str] | None
    left_out: tuple[Hashable, ...]


@dataclass(frozen=True)
class Undefined:
    """A rate that divides by zero in a group."""

    grouping: str
    group: Hashable
    rate: str
    label: Hashable | None
    rows: int


@dataclass(frozen=True)
class Audit:
    """The result of `audit`: decisions measured by group.

    Use it through `print`, `to_dict()`, `to_json()`, `to_frame()`, or as HTML in a notebook.

    Attributes
    ----------
    rows : int
    weighted : bool
    confidence : float
        Confidence level of each interval by itself.
    classes : tuple
        The labels; of two labels the second is the positive one.
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
            raise ValueError(f"{name} is there for {known}: name one of them with grouping= and label=.")
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json(
            {
                "rows": self.rows,
                "weighted": self.weighted,
                "confidence": self.confidence,
                "classes": self.classes,
                "groups": [
                    {
                        **{
                            name: getattr(group, name)
                            for name in ("grouping", "everyone", "rows", "labels", "confusion")
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
            }
        )

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_frame(self, what: Literal["rates", "measures"] = "rates") -> Any:
        """Return a pandas data frame with one row for each rate of each group, or for each measure."""
        if what not in ("rates", "measures"):
            raise ValueError(f'what={what!r} must be "rates" or "measures".')
        try:
            DataFrame = import_module("pandas").DataFrame
        except ImportError:
            raise ImportError("to_frame needs pandas, which is not installed: pip install pandas") from None
        if what == "measures":
            return DataFrame([dict(vars(measure)) for measure in self.measures])
        return DataFrame(
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


# --- tables ----------------------------------------------------------------------------------------------------------

# Render an audit as tables: for each grouping the counts, the rates with intervals, and the measures.


SHOWN = (  # three rates per table, so that a line fits a terminal
    ("selection_rate", "true_positive_rate", "false_positive_rate"),
    ("precision", "negative_predictive_value", "accuracy"),
)
FEW_ROWS = 30


def audit_page(audit: Audit) -> tuple[str, list[TextTable], list[str]]:
    """Return heading, tables and notes."""
    positive = (
        f", positive label {audit.classes[1]!r}" if len(audit.classes) == 2 else f", {len(audit.classes)} classes"
    )
    heading = f"Audit of {count(audit.rows)} rows{positive}, {percent(audit.confidence)} intervals"
    tables = []
    for grouping in audit.missing:
        groups = [group for group in audit.groups if group.grouping == grouping]
        tables.append(_counts(audit, grouping, groups))
        for label in groups[0].rates:
            tables += _rates(audit, grouping, groups, label)
        tables.append(_measures(audit, grouping))
    return heading, tables, list(audit.notes)


def _counts(audit: Audit, grouping: str, groups: list[GroupAudit]) -> TextTable:
    two = len(audit.classes) == 2
    labels = tuple(f"label {label}" for label in audit.classes)
    cells = ("true pos.", "false pos.", "false neg.", "true neg.") if two else ("right", "wrong")
    rows = []
    for group in groups:
        if two:
            (true_negatives, false_positives), (false_negatives, true_positives) = group.confusion
            counted = [true_positives, false_positives, false_negatives, true_negatives]
        else:
            right = sum(line[position] for position, line in enumerate(group.confusion))
            counted = [right, sum(group.labels.values()) - right]
        numbers = [group.rows, *group.labels.values(), *counted]
        rows.append((group.name, *(count(each) for each in numbers)))
    return TextTable(f"{grouping}: counts", ("group", "rows", *labels, *cells), tuple(rows))


def _rates(audit: Audit, grouping: str, groups: list[GroupAudit], label: Hashable) -> Iterator[TextTable]:
    where = f", class {label}" if len(audit.classes) > 2 else ""
    for names in SHOWN:
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
    if audit.weighted:
        yield (
            "Rows are weighted: counts are sums of weights. Intervals are empirical Bernstein bounds, which take the "
            "largest weight seen for the largest there is."
        )
    else:
        yield "Intervals of rates are exact binomial (Clopper-Pearson), each by itself at the stated confidence."
    yield "Intervals of measures hold whenever all their rates lie in intervals that hold together (Bonferroni)."
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
            f"{grouping}: group {group_text(group)} (rows: {count(rows)}) is left out where a rate has no row to count "
            f"and is undefined: {', '.join(names)}."
        )
    few_rows = max(FEW_ROWS, audit.min_group_size)
    for grouping in audit.missing:
        few = [group for group in audit.groups if group.grouping == grouping and group.rows < few_rows]
        if few:
            listed = ", ".join(f"{group.name} {count(group.rows)}" for group in few)
            yield f"{grouping}: fewer than {few_rows} rows ({listed}); read the intervals there, not the values."
