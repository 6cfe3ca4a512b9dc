"""The section "What the numbers do not say", and remarks on rows and groups that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairbound._words import count, group_text
from fairbound.report import numbers
from fairbound.report.words import sentence

FEW_ROWS = 30
MOST_REMARKS = 5
"""The number of notes that a page shows; the others are folded."""

LABELS = (
    "They compare groups by recorded labels. A label can itself be the outcome of unequal treatment, and no measure "
    "here can tell why two groups differ."
)
OTHERS = (
    "A limit on one measure says nothing about the others, nor about groups that were not looked at: combinations of "
    "columns, or people who are in no column."
)
FITTED = (
    "The model was fitted to the training rows, so what holds there holds by construction. Intervals are given for "
    "held-out rows only."
)
NOT_HELD_OUT = "No rows were held out: nothing here tells what the model does on rows that it has not seen."
POPULATION = (
    "Intervals and verdicts speak of the population that the held-out rows were drawn from, at the time when they were "
    "drawn; not of another year, another place, or other applicants. They assume that rows are independent of each "
    "other. Each interval holds by itself: of a hundred of them about {} may miss."
)
LOOKED_AT = (
    "The certificate counts only if the held-out rows had no part in choosing the model, the limit or the threshold. A "
    "second look at the same rows after a change is no longer held out."
)
PICKED = (
    "Whoever picks a point of the trade-off by its held-out numbers has used these rows up: certify the choice on new "
    "ones."
)
JUDGED = (
    "That a number lies within a limit does not make a decision right, or lawful. This report measures disparities; it "
    "does not judge them."
)


def caveats(summary: Mapping[str, Any]) -> list[str]:
    """Return the caveats that apply to a summary."""
    found = [LABELS, OTHERS, FITTED]
    if summary["parts"]["held_out"] is None:
        found.append(NOT_HELD_OUT)
    else:
        found.append(POPULATION.format(f"{100.0 * (1.0 - summary['confidence']):.3g}"))
        found += [LOOKED_AT] if summary["limits"] else []
        found += [PICKED] if summary["frontier"] is not None else []
    return [*found, JUDGED]


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """Return remarks on rows without a group, undefined rates, small groups, and the given notes."""
    found = [str(note) for note in summary["notes"] if str(note).strip()]
    for name, part in summary["parts"].items():
        if part is not None:
            found += _remarks(name.replace("_", "-"), part["after"])
    return list(dict.fromkeys(found))


def _remarks(rows: str, audit: Mapping[str, Any]) -> Iterator[str]:
    if audit["weighted"]:
        yield f"{sentence(rows)} rows are weighted: counts are sums of weights."
    for grouping, missing in audit["missing"].items():
        if missing:
            yield (
                f"{count(missing)} {rows} rows have no known {grouping}: they count in the accuracy, and in no "
                f"rate of {grouping}."
            )
    nothing: dict[tuple[str, str], list[str]] = {}
    for each in audit["undefined"]:
        rate = numbers.words(each["rate"]) + (f" of class {each['label']}" if each["label"] is not None else "")
        nothing.setdefault((each["grouping"], rate), []).append(group_text(each["group"]))
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (grouping, rate), groups in nothing.items():
        alike.setdefault((grouping, tuple(groups)), []).append(rate)
    for (grouping, names), rates in alike.items():
        yield (
            f"No {rows} row to count for {', '.join(rates)} in {len(names)} group{'s' if len(names) > 1 else ''} of "
            f"{grouping}, which the measures of these leave out: {', '.join(names)}."
        )
    few = [
        f"{group_text(each['group'])} ({count(each['rows'])})"
        for each in audit["groups"]
        if not each["everyone"] and each["rows"] < FEW_ROWS
    ]
    if few:
        yield f"Fewer than {FEW_ROWS} {rows} rows: {', '.join(few)}. Read the intervals there, not the values."
