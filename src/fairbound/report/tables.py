"""The tables by group and of inputs for the template: the text of each cell, and the positions of marks on a strip.

A strip is a short axis; positions are percentages of it.  All groups of a table share the axis of a rate, so that they
can be compared down the column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbound._words import count, group_text
from fairbound.report import numbers

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")
NEAR = 0.05  # axes end on multiples of this


@dataclass(frozen=True)
class Axis:
    """The range of a strip."""

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


@dataclass(frozen=True)
class Mark:
    """The rate of one model in one group: its text, its interval, and their positions on the strip."""

    model: str
    text: str
    interval: str
    at: float | None
    start: float | None
    stop: float | None

    @classmethod
    def of(cls, model: str, found: Mapping[str, Any], axis: Axis, with_interval: bool) -> Mark:
        """Return the mark of an estimate."""
        if found["value"] is None:
            return cls(model, "undefined", "", None, None, None)
        ends = (found["lower"], found["upper"]) if with_interval else (None, None)
        return cls(
            model,
            numbers.rate(found["value"]),
            numbers.interval(found) if with_interval else "",
            axis.place(found["value"]),
            *(axis.place(end) for end in ends),
        )


@dataclass(frozen=True)
class Line:
    """A group: its name, rows, and for each rate the marks of the models."""

    name: str
    everyone: bool
    rows: str
    cells: tuple[tuple[Mark, ...], ...]


@dataclass(frozen=True)
class RateTable:
    """The rates of the groups of one grouping; with several classes, for one of them."""

    grouping: str
    label: str | None
    rates: tuple[tuple[str, Axis], ...]
    lines: tuple[Line, ...]


def rate_tables(
    audits: Mapping[str, Mapping[str, Any] | None], names: Mapping[str, str], *, with_interval: bool
) -> list[RateTable]:
    """Return the tables of one part, from the audits before and after."""
    known = {model: audit["groups"] for model, audit in audits.items() if audit is not None}
    return list(_tables(known, names, with_interval, ranges=list(known.values())))


def frontier_tables(
    groups: Sequence[Mapping[str, Any]], ranges: Sequence[Any], names: Mapping[str, str], *, with_interval: bool
) -> list[RateTable]:
    """Return the tables of one point on one part; the axes cover all points."""
    return list(_tables({"after": groups}, names, with_interval, ranges=ranges))


def _tables(
    models: Mapping[str, Sequence[Mapping[str, Any]]],
    names: Mapping[str, str],
    with_interval: bool,
    ranges: Sequence[Sequence[Mapping[str, Any]]],
) -> Iterator[RateTable]:
    last = list(models.values())[-1]
    labels = list(last[0]["rates"])
    for grouping in dict.fromkeys(group["grouping"] for group in last):
        places = [place for place, group in enumerate(last) if group["grouping"] == grouping]
        for label in labels:
            rates = [rate for rate in RATES if rate in last[0]["rates"][label]]
            axes = {rate: _axis(ranges, places, label, rate, with_interval) for rate in rates}
            yield RateTable(
                grouping,
                names.get(label, label) if len(labels) > 1 else None,
                tuple(axes.items()),
                tuple(
                    Line(
                        group_text(None if last[place]["everyone"] else last[place]["group"]),
                        last[place]["everyone"],
                        count(last[place]["rows"]),
                        tuple(
                            tuple(
                                Mark.of(model, groups[place]["rates"][label][rate], axes[rate], with_interval)
                                for model, groups in models.items()
                            )
                            for rate in rates
                        ),
                    )
                    for place in places
                ),
            )


def _axis(
    ranges: Sequence[Sequence[Mapping[str, Any]]], places: Sequence[int], label: str, rate: str, with_interval: bool
) -> Axis:
    ends = ("value", "lower", "upper") if with_interval else ("value",)
    return Axis.around(
        groups[place]["rates"][label][rate][end] for groups in ranges for place in places for end in ends
    )


@dataclass(frozen=True)
class CountTable:
    """Rows, labels and decisions of the groups of one grouping; each count before and after."""

    grouping: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, bool, str, tuple[tuple[str | None, str], ...]], ...]


def count_tables(audits: Mapping[str, Mapping[str, Any] | None], names: Mapping[str, str]) -> list[CountTable]:
    """Return the counts of one part: labels, and the decisions right and wrong; without labels, the decisions."""
    after, before = audits["after"], audits["before"]
    assert after is not None
    if not after.get("labelled", True):
        return _decision_tables(after, names)
    two = len(after["classes"]) == 2
    labels = tuple(f"label: {names.get(label, label)}" for label in after["groups"][0]["labels"])
    kinds = ("true positives", "false positives", "false negatives", "true negatives") if two else ("right", "wrong")
    tables = []
    for grouping in after["missing"]:
        lines = []
        for place, group in enumerate(after["groups"]):
            if group["grouping"] != grouping:
                continue
            counted: list[tuple[str | None, str]] = [(None, count(each)) for each in group["labels"].values()]
            new, old = _kinds(group, two), None if before is None else _kinds(before["groups"][place], two)
            counted += [(None if old is None else count(old[kind]), count(each)) for kind, each in enumerate(new)]
            name = group_text(None if group["everyone"] else group["group"])
            lines.append((name, group["everyone"], count(group["rows"]), tuple(counted)))
        tables.append(CountTable(grouping, (*labels, *kinds), tuple(lines)))
    return tables


def _decision_tables(audit: Mapping[str, Any], names: Mapping[str, str]) -> list[CountTable]:
    header = tuple(f"decision: {names.get(decision, decision)}" for decision in audit["classes"])
    return [
        CountTable(
            grouping,
            header,
            tuple(
                (
                    group_text(None if group["everyone"] else group["group"]),
                    group["everyone"],
                    count(group["rows"]),
                    tuple((None, count(each)) for each in group["decisions"].values()),
                )
                for group in audit["groups"]
                if group["grouping"] == grouping
            ),
        )
        for grouping in audit["missing"]
    ]


def _kinds(group: Mapping[str, Any], two: bool) -> list[float]:
    if two:
        (true_negatives, false_positives), (false_negatives, true_positives) = group["confusion"]
        return [true_positives, false_positives, false_negatives, true_negatives]
    right = sum(line[place] for place, line in enumerate(group["confusion"]))
    return [right, sum(map(sum, group["confusion"])) - right]


# --- inputs ----------------------------------------------------------------------------------------------------------

# The inputs with the largest coefficients, or with the largest increase of the loss when they are shuffled.


SAYS = {
    "coefficients": (
        "{which}. Each number is the change of the log-odds of {what} if the input rises by one standard deviation "
        "and all others stay the same. A number above zero makes that prediction more likely."
    ),
    "importances": (
        "{which}. Each number is the increase of the loss on {rows} rows if the values of the column are shuffled, so "
        "that they no longer belong to their rows."
    ),
}
HEADINGS = {"coefficients": "Coefficient", "importances": "Rise of the loss"}
CAVEAT = (
    "This describes the model, not the world: it does not say what causes the outcome, nor what would happen if an "
    "input were changed. Inputs with the same information share their weight, so a small number does not mean that an "
    "input is useless. An input can also be a proxy for a group that is not an input."
)


@dataclass(frozen=True)
class InputLine:
    """One input: its name, its class if there are several, its value, and a bar."""

    name: str
    label: str
    value: str
    side: str
    width: float


@dataclass(frozen=True)
class ModelView:
    """The inputs, and sentences before and after them."""

    says: str
    heading: str
    lines: tuple[InputLine, ...]
    several: bool
    caveat: str = CAVEAT


def model_view(model: Mapping[str, Any] | None, names: Mapping[str, str]) -> ModelView | None:
    """Return the view of the model, or None if the summary has none."""
    if not model or not model["inputs"]:
        return None
    inputs = model["inputs"]
    largest = max(abs(each["value"]) for each in inputs) or 1.0
    several = any(each["label"] is not None for each in inputs)
    what = "the class" if several else f"“{list(names.values())[-1]}”"
    return ModelView(
        SAYS[model["kind"]].format(
            which=_which(model["kind"], len(inputs), model["total"]),
            what=what,
            rows=model["rows"],
        ),
        HEADINGS[model["kind"]],
        tuple(
            InputLine(
                str(each["name"]),
                "" if each["label"] is None else names.get(each["label"], each["label"]),
                numbers.signed(each["value"]) if model["kind"] == "coefficients" else numbers.about(each["value"]),
                "above" if each["value"] >= 0 else "below",
                round(100.0 * abs(each["value"]) / largest, 2),
            )
            for each in inputs
        ),
        several,
    )


def _which(kind: str, shown: int, total: int) -> str:
    """Return how many inputs there are, and which of them are shown.

    >>> _which("coefficients", 20, 31), _which("importances", 1, 1)
    ('20 of 31 coefficients, the largest first', 'The only column')
    """
    noun, first = ("coefficient", "largest") if kind == "coefficients" else ("column", "most important")
    if total == 1:
        return f"The only {noun}"
    return f"{'All' if shown == total else f'{shown} of'} {count(total)} {noun}s, the {first} first"
