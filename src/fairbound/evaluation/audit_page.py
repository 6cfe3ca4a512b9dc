"""An audit as text: for each grouping counts, rates with intervals, and measures; and notes on how to read them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from fairbound._text_tables import TextTable
from fairbound._words import as_level, count, group_text, number
from fairbound.evaluation.audit_records import GroupAudit, MeasureAudit
from fairbound.evaluation.tally import MERGED

if TYPE_CHECKING:
    from fairbound.evaluation.audit_result import Audit

SHOWN = (  # three rates per table, so that a line fits a terminal
    ("selection_rate", "true_positive_rate", "false_positive_rate"),
    ("precision", "negative_predictive_value", "accuracy"),
)
FEW_ROWS = 30


def audit_page(audit: Audit) -> tuple[str, list[TextTable], list[str]]:
    """Return heading, tables and notes."""
    two = f", positive {'label' if audit.labelled else 'decision'} {audit.classes[1]!r}"
    positive = two if len(audit.classes) == 2 else f", {len(audit.classes)} classes"
    heading = f"Audit of {count(audit.rows)} rows{positive}, {as_level(audit.confidence)} intervals"
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
    cells = ("true pos.", "false pos.", "false neg.", "true neg.") if two else ("right", "wrong")
    rows = []
    for group in groups:
        if two:
            (true_negatives, false_positives), (false_negatives, true_positives) = group.confusion
            kinds = [true_positives, false_positives, false_negatives, true_negatives]
        else:
            right = sum(line[position] for position, line in enumerate(group.confusion))
            kinds = [right, sum(group.labels.values()) - right]
        rows.append((group.name, *map(count, (group.rows, *group.labels.values(), *kinds))))
    labels = (f"label {label}" for label in audit.classes)
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
    several = len(audit.classes) > 2

    def line(measure: MeasureAudit) -> tuple[str, ...]:
        label = ("all" if measure.label is None else str(measure.label),) if several else ()
        apart = "" if measure.pair is None else f"{group_text(measure.pair[0])}, {group_text(measure.pair[1])}"
        value = "undefined" if measure.value is None else number(measure.value)
        interval = "-" if measure.lower is None else f"{number(measure.lower)} to {number(measure.upper)}"
        return measure.measure, *label, apart, value, interval

    rows = tuple(line(measure) for measure in audit.measures if measure.grouping == grouping)
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
