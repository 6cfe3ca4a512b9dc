"""What the numbers do not say, and remarks on rows and groups that were left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairbound._words import count, group_text
from fairbound.evaluation import Audit
from fairbound.report import numbers
from fairbound.report.words import sentence

if TYPE_CHECKING:
    from fairbound.studies import Summary

FEW_ROWS = 30

LABELS = (
    "The measures compare groups by recorded labels. A label can itself be the outcome of unequal treatment, and no "
    "measure here can show why two groups differ."
)
OTHERS = (
    "A limit on one measure says nothing about other measures, nor about groups without a limit, such as combinations "
    "of columns, or groups that no column records."
)
FITTED = (
    "The model was fitted to the training rows, so limits are kept there by construction. Intervals are given for "
    "held-out rows only."
)
NOT_HELD_OUT = "No rows were held out: nothing here is about rows that the model has not seen."
POPULATION = (
    "Intervals and verdicts are about the population that the held-out rows were drawn from, at the time when they "
    "were drawn. They are not about another year, another place, or other applicants. They assume independent rows. "
    "Intervals are not simultaneous: of a hundred intervals, about {} may not contain the true value."
)
LOOKED_AT = (
    "The certificate is valid only if the held-out rows were not used to choose the model, the limit or the threshold. "
    "If you change the model after a look at these rows, they are no longer held out."
)
PICKED = (
    "If you choose a point of the trade-off by its held-out numbers, these rows are no longer held out: certify the "
    "choice on new ones."
)
JUDGED = (
    "A number within a limit does not make a decision right or lawful. This report measures disparities; it does not "
    "judge them."
)


def caveats(summary: Summary) -> list[str]:
    """Return the caveats that apply to a summary."""
    found = [LABELS, OTHERS, FITTED]
    if summary.held_out is None:
        found.append(NOT_HELD_OUT)
    else:
        found.append(POPULATION.format(f"{100.0 * (1.0 - summary.confidence):.3g}"))
        found += [LOOKED_AT] if summary.limits else []
        found += [PICKED] if summary.frontier else []
    return [*found, JUDGED]


def remarks(summary: Summary) -> list[str]:
    """Return the notes, and remarks on rows without a group, undefined rates and small groups."""
    found = [*(note for note in summary.notes if note.strip()), *summary.rows_without_group()]
    for rows, part in summary.parts.items():
        found += _remarks(rows, part.after)
    return list(dict.fromkeys(found))


def _remarks(rows: str, audit: Audit) -> Iterator[str]:
    if audit.probable:
        yield f"{sentence(rows)} rows count in each group with their probability; counts are sums of probabilities."
    elif audit.weighted:
        yield f"{sentence(rows)} rows are weighted: counts are sums of weights."
    nothing: dict[tuple[str, str], list[str]] = {}
    for each in audit.undefined:
        rate = numbers.words(each.rate) + (f" of class {each.label}" if each.label is not None else "")
        nothing.setdefault((each.grouping, rate), []).append(group_text(each.group))
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (grouping, rate), groups in nothing.items():
        alike.setdefault((grouping, tuple(groups)), []).append(rate)
    for (grouping, names), rates in alike.items():
        yield (
            f"{sentence(', '.join(rates))}: undefined on the {rows} rows for {len(names)} "
            f"group{'s' if len(names) > 1 else ''} of {grouping}, so measures of these rates leave them out: "
            f"{', '.join(names)}."
        )
    few = [f"{each.name} ({count(each.rows)})" for each in audit.groups if not each.everyone and each.rows < FEW_ROWS]
    if few:
        yield f"Fewer than {FEW_ROWS} {rows} rows: {', '.join(few)}. Read the intervals there, not the values."
