"""The result of an audit: values by group, as text, HTML, JSON and data frames."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from fairbound._records import as_json
from fairbound._registry import lookup
from fairbound._tables import page_as_html, page_as_text
from fairbound._words import EVERYONE, as_text, group_text, number
from fairbound.evaluation.audit_page import audit_notes, audit_page


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
