"""`audit`: every count, rate, interval and measure of random decisions, in every coding, against the recomputation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Hashable
from typing import Any

import fairlearn.metrics
import numpy as np
from tests.fuzz import generators as draw
from tests.fuzz import oracle
from tests.fuzz.harness import Refused, attempt, cases, expect, expect_close
from tests.fuzz.oracle import Counted, Grouping

from fairbound.evaluation import Audit, audit

CONFIDENCES = (0.95, 0.5, 0.9, 0.99, 0.999999)


def groupings_of(rows: draw.Rows, combine: str) -> list[Grouping]:
    """Return the groupings that a way to combine the columns stands for, with the groups that occur."""
    each = [
        Grouping(name, {rows.groups[name][code]: codes == code for code in np.unique(codes[codes >= 0]).tolist()})
        for name, codes in rows.columns.items()
    ]
    if len(each) == 1:
        return each
    crossed = {
        tuple(group for group, _ in combination): np.all([mask for _, mask in combination], axis=0)
        for combination in itertools.product(*(grouping.groups.items() for grouping in each))
    }
    crossed = {group: mask for group, mask in crossed.items() if mask.any()}
    together = Grouping(" & ".join(rows.columns), crossed)
    return {"each": each, "intersection": [together], "both": [*each, together]}[combine]


def count(rows: draw.Rows, combine: str) -> Counted:
    return Counted(rows.y, rows.decided, rows.n_classes, groupings_of(rows, combine), rows.weights)


@cases("audit", few=40, many=8_000)
def test_audits_agree_with_the_recomputation(cases):
    cases.run(one_audit)


def one_audit(rng: np.random.Generator) -> None:
    rows = draw.draw_rows(rng)
    names = draw.label_names(rng, rows.n_classes)
    combine = draw.pick(rng, ["each", "each", "intersection", "both"])
    confidence = draw.pick(rng, CONFIDENCES)
    counted = count(rows, combine)
    found = attempt(
        audit,
        draw.code_labels(rng, rows.y, rows.n_classes, names).given,
        draw.code_labels(rng, rows.decided, rows.n_classes, names).given,
        draw.sensitive_of(rng, rows),
        sample_weight=rows.weights,
        groups=combine,
        pos_label=draw.pos_label_of(rng, names),
        confidence=confidence,
        measures=some_measures(rng),
    )
    if all(grouping.groups for grouping in counted.groupings):
        expect(not isinstance(found, Refused) or refusable(rows), "refused:", found)
    if isinstance(found, Refused):
        return
    expect(len(found.missing) == len(counted.groupings), "groupings", list(found.missing))
    agree(found, counted, names, 1.0 - confidence)
    expect(json.loads(found.to_json())["rows"] == len(rows.y), "rows in JSON")
    str(found)
    if rng.random() < 0.05:
        agree_with_fairlearn(found, rows, counted)


def some_measures(rng: np.random.Generator) -> list[str] | None:
    """Return a few of the measures, which take most of the time, or all."""
    return None if draw.chance(rng, 0.1) else [draw.pick(rng, list(oracle.MEASURES)) for _ in range(3)]


def refusable(rows: draw.Rows) -> bool:
    """Tell whether weights are so far apart or so large that their sums mean nothing in double precision."""
    if rows.weights is None:
        return False
    known = rows.weights[rows.weights > 0]
    return bool(known.max() > 1e100 or known.min() < 1e-100 or known.max() / known.min() > 1e15)


def agree(found: Audit, counted: Counted, names: tuple[Hashable, ...], alpha: float) -> None:
    largest = float(counted.weights.max()) if counted.weighted else None
    for (name, missing), grouping in zip(found.missing.items(), counted.groupings, strict=True):
        expect(missing == int((~grouping.everyone).sum()), name, "missing", missing)
        groups = [each for each in found.groups if each.grouping == name]
        expect({each.group for each in groups if not each.everyone} == set(grouping.groups), "groups of", name)
        for group in groups:
            agree_group(group, counted, grouping, names, alpha, largest)
        for entry in (each for each in found.measures if each.grouping == name):
            agree_measure(entry, counted, grouping, names, alpha, largest)


def agree_group(
    group: Any, counted: Counted, grouping: Grouping, names: tuple[Hashable, ...], alpha: float, largest: float | None
) -> None:
    said = (grouping.name, group.group)
    member = grouping.everyone if group.everyone else grouping.groups[group.group]
    expect(group.rows == int((member & (counted.weights > 0)).sum()), *said, "rows", group.rows)
    for label, prediction in itertools.product(range(counted.n_classes), repeat=2):
        cell = member & (counted.y == label) & (counted.decided == prediction)
        weight = counted.weights[cell].sum() if counted.weighted else float((cell & (counted.weights > 0)).sum())
        scale = max(1.0, float(counted.weights.max()))
        expect_close(group.confusion[label][prediction] / scale, weight / scale, *said, "confusion", label, prediction)
    expect(set(group.rates) == {names[outcome] for outcome in counted.outcomes}, *said, "classes")
    for outcome in counted.outcomes:
        for rate, estimate in group.rates[names[outcome]].items():
            sample = counted.sample(rate, grouping, None if group.everyone else group.group, outcome)
            expect_close(estimate.value, sample.value, *said, rate)
            low, high = sample.interval(alpha, largest) if sample.value is not None else (None, None)
            expect_close(estimate.lower, low, *said, rate, "lower", tolerance=1e-7)
            expect_close(estimate.upper, high, *said, rate, "upper", tolerance=1e-7)


def agree_measure(
    entry: Any, counted: Counted, grouping: Grouping, names: tuple[Hashable, ...], alpha: float, largest: float | None
) -> None:
    said = (grouping.name, entry.measure, entry.label)
    kind, rates = oracle.comparison_of(entry.measure)
    outcome = counted.outcomes[0] if entry.label is None else names.index(entry.label)
    if len(grouping.groups) < 2:
        expect_close(entry.value, None, *said)
        return
    undefined = {
        group
        for group in grouping.groups
        for rate in rates
        if counted.sample(rate, grouping, group, outcome).value is None
    }
    expect(set(entry.left_out) == undefined, *said, "left out", entry.left_out, "and not", undefined)
    if kind == "covariance" and len(grouping.groups) - len(undefined) < 2:
        return  # nothing to compare: 0 or nothing
    if kind == "covariance":
        covariance = max(map(abs, oracle.covariances(counted, grouping, outcome)))
        expect_close(entry.value, covariance, *said)
        expect(entry.lower is None and entry.upper is None, *said, "has an interval")
        return
    pairs = list(oracle.measure_values(counted, entry.measure, grouping, outcome))
    worst = min if kind == "ratio" else max
    values = {pair: oracle.compare(kind, a, b) for pair, a, b in pairs}
    expect_close(entry.value, worst(values.values(), default=None), *said)
    if not pairs:
        return
    a, b, rate = entry.pair
    there = values.get((a, b, rate), values.get((b, a, rate)))
    expect_close(there, entry.value, *said, "of the pair", entry.pair)
    compared = {(group, rate) for (a, b, rate), _, _ in pairs for group in (a, b)}
    intervals = {
        (group, rate): counted.sample(rate, grouping, group, outcome).interval(alpha / len(compared), largest)
        for group, rate in compared
    }
    ends = [oracle.pair_interval(kind, intervals[a, rate], intervals[b, rate]) for a, b, rate in values]
    expect_close(entry.lower, worst(low for low, _ in ends), *said, "lower", tolerance=1e-6)
    expect_close(entry.upper, worst(high for _, high in ends), *said, "upper", tolerance=1e-6)


def agree_with_fairlearn(found: Audit, rows: draw.Rows, counted: Counted) -> None:
    """Compare with fairlearn's own metrics, where they are defined: one column, two classes, every rate defined."""
    grouping = counted.groupings[0]
    weight = rows.weights
    plain = weight is None or (weight.min() > 0 and 1e-100 < weight.max() < 1e100)
    if rows.n_classes > 2 or len(rows.columns) > 1 or not grouping.everyone.all() or found.undefined or not plain:
        return
    given: dict[str, Any] = {"sensitive_features": next(iter(rows.columns.values())), "sample_weight": weight}
    y, decided = rows.y, rows.decided
    theirs = {
        "demographic_parity": fairlearn.metrics.demographic_parity_difference(y, decided, **given),
        "disparate_impact": fairlearn.metrics.demographic_parity_ratio(y, decided, **given),
        "equalized_odds": fairlearn.metrics.equalized_odds_difference(y, decided, **given),
        "equal_opportunity": fairlearn.metrics.equal_opportunity_difference(y, decided, **given),
        "equal_impact": fairlearn.metrics.equal_opportunity_ratio(y, decided, **given),
    }
    audited = {each.measure for each in found.measures}
    for measure, value in theirs.items():
        if (
            measure in audited and len(grouping.groups) > 1 and value == value
        ):  # fairlearn has NaN for the ratio of two zero rates
            expect_close(
                next(each.value for each in found.measures if each.measure == measure),
                float(value),
                "fairlearn's",
                measure,
            )


@cases("audit-bad", few=150, many=6_100)
def test_bad_arguments_of_an_audit_are_refused(cases):
    cases.run(one_bad_audit)


def one_bad_audit(rng: np.random.Generator) -> None:
    rows = draw.draw_rows(rng, most=40)
    n = len(rows.y)
    arguments: dict[str, Any] = {
        "y": rows.y.tolist(),
        "prediction": rows.decided.tolist(),
        "sensitive_features": draw.sensitive_of(rng, rows),
        "sample_weight": None,
        "groups": "each",
        "pos_label": None,
        "confidence": 0.95,
        "measures": ["demographic_parity"],
    }
    for name in rng.permutation(list(arguments))[: 1 + draw.chance(rng, 0.2)]:
        arguments[name] = draw.wrong_column(rng, n)
    found = attempt(audit, **arguments)
    if not isinstance(found, Refused):
        json.loads(found.to_json())
        str(found)
