"""The result of an audit: values by group, as text, HTML, JSON and data frames."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from fairbound._json import as_json
from fairbound._text_tables import Page, TextTable, data_frame
from fairbound._words import lookup
from fairbound.evaluation.audit_page import audit_notes, audit_page
from fairbound.evaluation.audit_plot import plot_ranking, plot_rate
from fairbound.evaluation.audit_records import GroupAudit, MeasureAudit, Undefined, find_group
from fairbound.evaluation.ll144 import LL144Tables, RateKind, ll144_tables
from fairbound.evaluation.score_records import ScoreAudit
from fairbound.evaluation.significance import INTERVALS, SelectionTest, Significance, compare_selections, notes_on
from fairbound.fairness import OTHER_NAMES


@dataclass(frozen=True)
class Audit(Page):
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
        return find_group(self.groups, group, grouping)

    def measure(self, name: str, grouping: str | None = None, label: Hashable | None = None) -> MeasureAudit:
        """Return a measure by name; `grouping` and `label` are needed if there are several."""
        name = OTHER_NAMES.get(name, name)
        lookup({each.measure: each for each in self.measures}, name, "measure")
        named = [each for each in self.measures if each.measure == name]
        found = [each for each in named if grouping in (None, each.grouping) and label in (None, each.label)]
        if len(found) != 1:
            classes = ("" if each.label is None else f" and class {each.label!r}" for each in named)
            known = ", ".join(f"{each.grouping!r}{label}" for each, label in zip(named, classes, strict=True))
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
        selections = self.selections()
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

    def to_ll144(self, *, rate: RateKind | None = None, **facts: str | date | None) -> LL144Tables:
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
        return ll144_tables(self, rate or ("selection" if self.scores is None else "scoring"), **facts)

    @property
    def countable(self) -> bool:
        """Whether selections can be counted: two classes, and rows of equal weight."""
        return len(self.classes) == 2 and not self.weighted

    def selections(self) -> dict[str, list[tuple[Hashable, int, int]]]:
        """Return each group with its rows and the number of the selected, for each grouping."""
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
        values = {name: value for name, value in vars(self).items() if name != "min_group_size"}
        return as_json({**values, "significance": self.significance(reference).to_dict() if self.countable else None})

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

    def plot(self, rate: str = "selection_rate", *, label: Hashable | None = None, ax: Any = None) -> Any:
        """Draw a rate of every group with its interval, with matplotlib; return the axes."""
        return plot_rate(self.groups, rate, label, ax)

    def plot_ranking(self, grouping: str | None = None, *, ax: Any = None) -> Any:
        """Draw selection rates and their smallest ratio at every number of the selected; needs `score=`."""
        if self.scores is None:
            raise ValueError("plot_ranking() needs the scores of the rows: give audit(..., score=).")
        curves = [each for each in self.scores.curves if grouping in (None, each.grouping)]
        return plot_ranking(curves[0], self.rows, ax)

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        return audit_page(self)
