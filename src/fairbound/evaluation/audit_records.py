"""The records of an audit: rates and measures of groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairbound._json import as_json
from fairbound._words import EVERYONE, as_text, group_text, lookup, number


@dataclass(frozen=True)
class Estimate:
    """A measured rate and its interval; all None if the rate is undefined."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "undefined"
        return number(self.value) + ("" if self.lower is None else f" [{number(self.lower)}, {number(self.upper)}]")


class OfGroup:
    """A record of one group of a grouping; of everyone, if its group is None."""

    grouping: str
    group: Hashable

    @property
    def name(self) -> str:
        """Return the name of the group as text."""
        return group_text(self.group)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json({**vars(self), "group": EVERYONE if self.group is None else as_text(self.group)})


Record = TypeVar("Record", bound=OfGroup)


def find_group(records: Sequence[Record], group: Hashable, grouping: str | None) -> Record:
    """Return the record of a group, named by its value or its text; with several, `grouping` says which one."""
    named = [each for each in records if grouping in (None, each.grouping)]
    found = [each for each in named if each.group is not None and each.group == group]
    found = found or [each for each in named if each.name == str(group)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{each.name} ({each.grouping})" for each in named)
    problem = "Several groupings have the group" if found else "Unknown group"
    raise ValueError(f"{problem} {group!r}. Known: {known}.")


@dataclass(frozen=True)
class GroupAudit(OfGroup):
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
        Number of rows of each label; with weights, their total weight.  Empty without labels.
    decisions : dict
        Number of rows (or total weight) of each decision.
    confusion : tuple of tuples
        Number of rows (or total weight) by label and prediction, in the order of `Audit.classes`;
        empty without labels.
    rates : dict
        `Estimate` of each rate, for each class whose selection is counted (the positive one of two classes).
    """

    grouping: str
    group: Hashable
    everyone: bool
    rows: int
    labels: dict[Hashable, float]
    decisions: dict[Hashable, float]
    confusion: tuple[tuple[float, ...], ...]
    rates: dict[Hashable, dict[str, Estimate]] = field(repr=False)

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
        The two groups that are furthest apart, and the rate in which they differ.
    left_out : tuple
        Groups for which the measure is undefined.
    """

    measure: str
    description: str
    grouping: str
    label: Hashable | None
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    pair: tuple[Hashable, Hashable, str] | None = None
    left_out: tuple[Hashable, ...] = ()

    def __str__(self) -> str:
        where = self.grouping if self.label is None else f"{self.grouping}, class {as_text(self.label)}"
        return f"{self.measure} ({where}): {Estimate(self.value, self.lower, self.upper)}"


@dataclass(frozen=True)
class Undefined:
    """A rate that divides by zero in a group."""

    grouping: str
    group: Hashable
    rate: str
    label: Hashable | None
    rows: int
