"""The frontier in a summary: the value and accuracy of each bound on both parts, and the price of the next step.

Each point has the plain numbers of `FrontierPoint.as_dict()`.  From the decisions of its model it also has the limited
measure, the accuracy, and the rates of each group, with intervals on held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairbound._words import EVERYONE, as_text
from fairbound.evaluation import GroupAudit, audit_tally, overall_accuracy
from fairbound.fairness import Constraint, resolve_measure
from fairbound.studies.measured import MeasuredPart

RATES_SHOWN = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")
"""The rates that each point of a frontier has for each group; the audits of the run itself have all."""


@dataclass(frozen=True, kw_only=True)
class SweptPoint:
    """One point of a frontier: its numbers, and the decisions of its model on each part.

    Parameters
    ----------
    point : mapping
        `FrontierPoint.as_dict()`.
    training, held_out : sequences of labels
        In the order of the rows of the summary's parts; held_out only if there is such a part.
    """

    point: Mapping[str, Any]
    training: Any
    held_out: Any = None


def summarize_frontier(
    limits: tuple[Constraint, ...],
    points: Sequence[SweptPoint],
    parts: Mapping[str, MeasuredPart],
) -> dict[str, Any]:
    """Return the first limit, whose bounds vary, and its points.  The limit itself has the requested bound."""
    if not limits:
        raise ValueError("frontier needs the limit whose bound was swept; give it as the first of the limits.")
    limit = limits[0]
    if limit.bound is None or isinstance(limit.bound, tuple):
        raise ValueError(f"{limit}: a frontier varies a single bound; give a limit with one bound, the requested one.")
    if not points:
        raise ValueError("frontier has no points; leave it out, or give at least one.")
    measure = resolve_measure(limit.measure)
    return {
        "limit": str(limit),
        "measure": measure.name,
        "description": measure.description,
        "larger_is_stricter": measure.larger_is_stricter,
        "bound": limit.bound,
        "points": [_point(position, each, limit, parts) for position, each in enumerate(points)],
    }


def _point(position: int, swept: SweptPoint, limit: Constraint, parts: Mapping[str, MeasuredPart]) -> dict[str, Any]:
    missing = [key for key in ("bound", "status") if key not in swept.point]
    if missing:
        raise ValueError(
            f"frontier point {position} lacks {', '.join(missing)}; give FrontierPoint.as_dict() as its point."
        )
    if (swept.held_out is None) != ("held_out" not in parts):
        raise ValueError(
            f"frontier point {position}: give held_out decisions if, and only if, the summary has held-out rows."
        )
    here = limit.with_bound(float(swept.point["bound"]))
    return {
        "bound": float(swept.point["bound"]),
        "text": str(here),
        "status": swept.point["status"],
        "loss": swept.point.get("loss"),
        "loss_price": swept.point.get("loss_price"),
        "accuracy_price": swept.point.get("accuracy_price"),
        "training": _reached(here, parts["training"], swept.training),
        "held_out": _reached(here, parts["held_out"], swept.held_out) if "held_out" in parts else None,
    }


def _reached(limit: Constraint, part: MeasuredPart, prediction: Any) -> dict[str, Any]:
    """Return measure, accuracy and rates by group of one model on one part."""
    tally, confidence = part.tally.with_decisions(prediction), part.reading.confidence
    system = replace(part.systems[0], constraints=(limit,))  # a bound has no part in which groups are compared
    accuracy, constant = overall_accuracy(tally, confidence)
    assert accuracy.value is not None
    measure = resolve_measure(limit.measure)
    known = [each for each in part.measures if resolve_measure(each.constraints[0].measure) is measure]
    audited = audit_tally(tally, confidence, [] if measure.comparison == "value" else [measure], systems=known or None)
    intervals = [(found.lower, found.upper) for found in audited.measures if found.grouping in part.groupings[0]]
    # The audit compares all pairs of groups.  If the limit does so, too, it has the same interval.
    whole = len(intervals) == 1 and limit.against == "pairwise" and limit.reference is None and limit.classes is None
    lower, upper = intervals[0] if whole else (None, None)
    return {
        **tally.checked(system),
        "lower": lower,
        "upper": upper,
        "accuracy": dict(vars(accuracy)),
        "gain": accuracy.value - constant,
        "groups": [_group(each) for each in audited.groups],
    }


def _group(group: GroupAudit) -> dict[str, Any]:
    return {
        "grouping": group.grouping,
        "group": EVERYONE if group.everyone else as_text(group.group),
        "everyone": group.everyone,
        "rows": group.rows,
        "rates": {
            as_text(label): {name: dict(vars(rates[name])) for name in RATES_SHOWN}
            for label, rates in group.rates.items()
        },
    }


def is_finished(point: Any) -> bool:
    """Tell whether a bound of an interrupted frontier was reached; a constant keeps any bound without training."""
    return point.result.kept and point.result.status.value != "degenerate"
