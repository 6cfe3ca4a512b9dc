"""Tables by group: rates of each group before and after, on axes that the groups share, and counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairbound._words import as_text, count
from fairbound.evaluation import Audit, Estimate, GroupAudit

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")
OUTCOMES = ("true positives", "false positives", "false negatives", "true negatives")
NEAR = 0.05  # axes end on multiples of this

Models = Mapping[str, Sequence[GroupAudit]]
"""The groups of an audit by model: "before", if there is one, and "after"."""


@dataclass(frozen=True)
class Axis:
    """The range of a strip; positions on it are percentages."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float | None]) -> Axis:
        """Return the shortest range between multiples of 0.05 that contains all values.

        >>> Axis.around([0.81, None, 0.97])
        Axis(low=0.8, high=1.0)
        """
        known = [value for value in values if value is not None]
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        low, high = NEAR * math.floor(low / NEAR + 1e-9), NEAR * math.ceil(high / NEAR - 1e-9)
        if high - low < NEAR:
            low, high = max(0.0, low - NEAR), low + NEAR
        return cls(round(low, 2), round(high, 2))

    def place(self, value: float | None) -> float | None:
        """Return the position of a value, in percent."""
        return None if value is None else round(100.0 * (value - self.low) / (self.high - self.low), 2)


class RateTable(NamedTuple):
    """The rates of the groups of one grouping; with several classes, for one of them.

    A line is a group and, for each rate, the estimate of each model.
    """

    grouping: str
    label: str | None
    axes: dict[str, Axis]
    lines: list[tuple[GroupAudit, list[dict[str, Estimate]]]]


def rate_tables(
    models: Models, names: Mapping[str, str], *, ends: bool, shared: Iterable[Sequence[GroupAudit]] = ()
) -> Iterator[RateTable]:
    """Yield the tables of one part; `ends` says whether intervals are shown.

    The axes cover the estimates of the models and of `shared`: the groups of other models, in the same order.
    """
    *_, last = models.values()
    together = [*models.values(), *shared]

    def shown(group: GroupAudit, label: Any, rate: str) -> Estimate:
        found = group.rates[label][rate]
        return found if ends else Estimate(found.value)

    for grouping in dict.fromkeys(group.grouping for group in last):
        places = [place for place, group in enumerate(last) if group.grouping == grouping]
        for label, known in last[0].rates.items():
            rates = [rate for rate in RATES if rate in known]
            axes = {}
            for rate in rates:
                found = [shown(groups[place], label, rate) for groups in together for place in places]
                axes[rate] = Axis.around(end for each in found for end in (each.value, each.lower, each.upper))
            yield RateTable(
                grouping,
                names.get(as_text(label), as_text(label)) if len(last[0].rates) > 1 else None,
                axes,
                [
                    (
                        last[place],
                        [{m: shown(groups[place], label, rate) for m, groups in models.items()} for rate in rates],
                    )
                    for place in places
                ],
            )


class CountTable(NamedTuple):
    """Labels and decisions of one grouping; a line is a group and its counts before (if there is a model) and after."""

    grouping: str
    header: list[str]
    lines: list[tuple[GroupAudit, list[list[str]]]]


def count_tables(audits: Mapping[str, Audit], names: Mapping[str, str]) -> Iterator[CountTable]:
    """Yield the counts of one part: labels, and the decisions right and wrong; without labels, the decisions."""
    *_, after = audits.values()
    two = len(after.classes) == 2
    words = [names.get(as_text(label), as_text(label)) for label in after.classes]
    header = [f"decision: {word}" for word in words]
    if after.labelled:
        header = [*(f"label: {word}" for word in words), *(OUTCOMES if two else ("right", "wrong"))]
    for grouping in after.missing:
        lines = []
        for groups in zip(*(audit.groups for audit in audits.values()), strict=True):
            group = groups[-1]
            if group.grouping == grouping:
                fixed = group.labels if after.labelled else group.decisions
                cells = [[count(each)] for each in fixed.values()]
                moved = [_outcomes(each, two) for each in groups] if after.labelled else []
                lines.append((group, [*cells, *(list(map(count, each)) for each in zip(*moved, strict=True))]))
        yield CountTable(grouping, header, lines)


def _outcomes(group: GroupAudit, two: bool) -> list[float]:
    if two:
        (true_negatives, false_positives), (false_negatives, true_positives) = group.confusion
        return [true_positives, false_positives, false_negatives, true_negatives]
    right = sum(line[place] for place, line in enumerate(group.confusion))
    return [right, sum(map(sum, group.confusion)) - right]
