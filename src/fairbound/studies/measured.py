"""The numbers of a summary: audits, accuracy and values of limits on each part of the rows, history, and the frontier.

The value of a limit is computed over the groups in which its measure is defined.  `Constraint.keeps` decides whether it
is kept.  Each point of a frontier has the plain numbers of `FrontierPoint.as_dict()`.  From the decisions of its model
it also has the limited measure, the accuracy, and the rates of each group, with intervals on held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairbound._words import EVERYONE, as_text
from fairbound.evaluation import (
    Audit,
    Certificate,
    GroupAudit,
    Repeats,
    Scores,
    Tally,
    audit_tally,
    audited_measures,
    certify_tally,
    check_scores,
    overall_accuracy,
    rate_name,
)
from fairbound.fairness import Cells, Combine, Constraint, ConstraintSystem, is_divided, resolve_measure


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Rows, and the decisions of one or two models about them.

    Parameters
    ----------
    y : sequence of n labels
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
    after : sequence of n labels
        The decisions of the model that the summary is about.
    before : sequence of n labels, optional
        The decisions of the model trained without limits.
    sample_weight : sequence of n numbers, optional
    largest_weight : float, optional
        The largest weight that a row can have by design; the certificate of weighted rows needs it.
    repeats : Repeats, optional
        How many rows each of these rows stands for.
    scores : sequence of n numbers, optional
        The scores of the model that the summary is about, such as probabilities of the positive class.  Only for two
        classes, and rows of equal weight.
    """

    y: Any
    sensitive_features: Any
    after: Any
    before: Any = None
    sample_weight: Any = None
    largest_weight: float | None = None
    repeats: Repeats | None = None
    scores: Any = None


@dataclass(frozen=True)
class Reading:
    """Options for counting decisions, the same for both parts and for every point of a frontier.

    Parameters
    ----------
    groups, pos_label, confidence
        As for `audit`.
    classes : tuple of labels
        The classes of the training rows; other rows need not have all of them.
    settle : function of Cells, optional
        Returns the cells with the groups of the limits, if small groups were merged or left out.
    """

    groups: Combine = "each"
    pos_label: Hashable | None = None
    confidence: float = 0.95
    classes: tuple[Hashable, ...] = ()
    settle: Callable[[Cells], Cells] | None = None

    def tally(self, rows: Decisions, prediction: Any) -> Tally:
        """Count one model's decisions."""
        found = self._count(rows, prediction, rows.sensitive_features)
        if self.settle is None:
            return found
        return replace(found, powers=tuple((self.settle(cells), sums) for cells, sums in found.powers))

    def _count(self, rows: Decisions, prediction: Any, columns: Any) -> Tally:
        further = [label for label in self.classes if label not in set(np.asarray(rows.y).tolist())]
        y, weight, n, repeats = rows.y, rows.sample_weight, len(rows.y), rows.repeats
        if further:
            # Add a row of weight 0 for each label that these rows lack, because the model may decide for it.
            y, prediction = ([*np.asarray(values).tolist(), *further] for values in (y, prediction))
            weight = np.concatenate([np.ones(n) if weight is None else weight, np.zeros(len(further))])
            repeats = None if repeats is None else repeats.extended(len(further))
            columns = {name: _repeat_first(values, len(further)) for name, values in _listed(columns).items()}
        found = Tally.build(
            y,
            prediction,
            columns,
            sample_weight=weight,
            largest_weight=rows.largest_weight,
            groups=self.groups,
            pos_label=self.pos_label,
            repeats=repeats,
        )
        return (
            found if not further else replace(found, powers=tuple((_first(cells, n), S) for cells, S in found.powers))
        )


def _repeat_first(values: Any, times: int) -> Any:
    """Return the values of a column with the first one repeated at the end."""
    if isinstance(values, np.ndarray):  # probabilities of groups
        return np.concatenate([values, values[[0] * times]])
    return [*values, *[values[0]] * times]


def _listed(columns: Any) -> dict[str, Any]:
    """Return group columns of any form as lists by name; probabilities stay arrays."""
    if isinstance(columns, Mapping) and any(map(is_divided, columns.values())):
        return {str(name): values if is_divided(values) else list(values) for name, values in columns.items()}
    if isinstance(columns, Mapping) or hasattr(columns, "columns"):
        names = list(columns) if isinstance(columns, Mapping) else getattr(columns, "column_names", columns.columns)
        return {str(name): np.asarray(columns[name], dtype=object).tolist() for name in names}
    array = np.asarray(columns, dtype=object)
    if array.ndim == 1:
        return {str(getattr(columns, "name", None) or "sensitive_feature"): array.tolist()}
    return {f"sensitive_feature_{place}": array[:, place].tolist() for place in range(array.shape[1])}


def _first(cells: Cells, n: int) -> Cells:
    """Return the cells of the first n rows; the others have no weight."""
    counts = None if cells.counts is None else cells.counts[:n]
    division = cells.division
    if division is not None:  # the entries are in the order of the rows
        entries = int(np.searchsorted(division.rows, n))
        division, n = replace(division, rows=division.rows[:entries], shares=division.shares[:entries]), entries
    first = replace(cells, index=cells.index[:n], labels=cells.labels[:n], weights=cells.weights[:n])
    return replace(first, counts=counts, division=division)


def worst_pair(system: ConstraintSystem, tally: Tally) -> dict[str, Any] | None:
    """Return the groups that determine the value of a limit, with their rates; None if the value is undefined."""
    (found,) = tally.worst(system)
    if found is None:
        return None
    measure, block = resolve_measure(system.constraints[0].measure), found.block
    groups = (*block.grouping.groups, EVERYONE)
    alone = measure.comparison == "value"
    several = tally.cells.n_labels > 2 and measure.per_class
    return {
        "grouping": block.grouping.name,
        "label": as_text(tally.cells.classes[block.outcome]) if several else None,
        "rate": rate_name(block.rate, measure.name),
        "groups": [
            {"group": as_text(groups[place]), "everyone": place == len(groups) - 1, "value": rate}
            for place, rate in zip(found.places[: 1 if alone else 2], found.rates, strict=False)
        ],
    }


class MeasuredPart:
    """One part of the rows, measured before and after.

    The rows are sorted into cells once, and measures and limits are compiled once; each model's decisions are counted
    in them.
    """

    def __init__(self, name: str, rows: Decisions, limits: tuple[Constraint, ...], reading: Reading) -> None:
        if rows.after is None:
            raise ValueError(f"{name}: after is None; give the decisions of the model that the summary is about.")
        self.name, self.rows, self.reading = name, rows, reading
        self.tally = reading.tally(rows, rows.after)
        measures = audited_measures(self.tally)
        together = self.tally.compile_together([*measures, *limits])
        self.measures = together.select(range(len(measures)))
        self.systems = [together.select([len(measures) + position]) for position in range(len(limits))]
        self.tallies = {
            "before": None if rows.before is None else self.tally.with_decisions(rows.before),
            "after": self.tally,
        }
        weighted = self.tally.weighted  # as with probabilities of groups
        scores = None if rows.scores is None or weighted else Scores(check_scores(rows.scores), "")
        self.audits = {
            "before": None if self.tallies["before"] is None else self._audit(self.tallies["before"]),
            "after": self._audit(self.tally, scores),
        }
        self.limits = [
            {
                **{model: None if tally is None else tally.checked(system) for model, tally in self.tallies.items()},
                "worst": worst_pair(system, self.tally),
            }
            for system in self.systems
        ]
        self.groupings = [
            list(dict.fromkeys(block.grouping.name for block in system.blocks)) for system in self.systems
        ]

    def _audit(self, tally: Tally, scores: Scores | None = None) -> Audit:
        return audit_tally(tally, self.reading.confidence, system=self.measures, scores=scores)

    @property
    def after(self) -> Audit:
        """The audit of the model that the summary is about."""
        found = self.audits["after"]
        assert found is not None
        return found

    def certificate(self) -> Certificate:
        """Test the limits by the decisions of the model that the summary is about."""
        return certify_tally(
            self.tally,
            [system.constraints[0] for system in self.systems],
            self.reading.confidence,
            weights_bounded=self.rows.largest_weight is not None,
            systems=self.systems,
        )

    def accuracy(self) -> dict[str, Any]:
        """Return the accuracies before and after, what the limits cost, and the gain over a constant prediction."""
        after, constant = overall_accuracy(self.tally, self.reading.confidence)
        assert after.value is not None
        found = {
            "before": None,
            "after": dict(vars(after)),
            "constant": constant,
            "cost": None,
            "gain": after.value - constant,
        }
        if self.tallies["before"] is not None:
            before, _ = overall_accuracy(self.tallies["before"], self.reading.confidence)
            assert before.value is not None
            found |= {"before": dict(vars(before)), "cost": before.value - after.value}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return rows, accuracy and audits."""
        audits = {model: None if found is None else found.to_dict() for model, found in self.audits.items()}
        return {"rows": self.after.rows, "accuracy": self.accuracy(), **audits}


# --- history ---------------------------------------------------------------------------------------------------------

# The histories of both solvers with the same columns.
#
# A row of `TrainingResult.history` describes the point before a step: loss, accuracy, and both violations (none in a
# phase without limits).  If the smoothed share of wrong decisions is minimised, the row contains it, too.


FLAGS = ("elastic", "locally_infeasible", "corrected")
"""The flags of a step."""


def uniform_history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per iteration, all with the same keys; a value that a solver does not record is None.

    >>> row = {"phase": "coarse", "loss": 0.4, "surrogate_violation": 0.02, "step_length": 1.0, "elastic": True}
    >>> uniform_history([row])[0]
    {'step': 0, 'phase': 'coarse', 'loss': 0.4, 'error': None, 'accuracy': None, 'surrogate_violation': 0.02,
     'exact_violation': None, 'step_length': 1.0, 'optimality': None, 'kept': None, 'flags': ['elastic']}
    """
    return [_uniform(step, row) for step, row in enumerate(history)]


def _uniform(step: int, row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(f"history[{step}] is {row!r}; give a list of dictionaries, as TrainingResult.history is.")
    return {
        "step": step,
        "phase": row.get("phase"),
        "loss": row.get("loss"),
        "error": row.get("error"),
        "accuracy": row.get("accuracy"),
        "surrogate_violation": row.get("surrogate_violation"),
        "exact_violation": row.get("exact_violation"),
        "step_length": row.get("step_length"),
        "optimality": row.get("kkt_stationarity"),
        "kept": row.get("kept"),
        "flags": [flag for flag in FLAGS if row.get(flag)],
    }


# --- the frontier -----------------------------------------------------------------------------------------------------

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
        raise ValueError("frontier needs the limit whose bound varies; give it as the first of the limits.")
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
    system = replace(part.systems[0], constraints=(limit,))  # the compared groups do not depend on the bound
    accuracy, constant = overall_accuracy(tally, confidence)
    assert accuracy.value is not None
    measure = resolve_measure(limit.measure)
    known = [i for i, each in enumerate(part.measures.constraints) if resolve_measure(each.measure) is measure]
    compiled = part.measures.select(known) if known else None
    audited = audit_tally(tally, confidence, [] if measure.comparison == "value" else [measure], system=compiled)
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
    """Return whether a bound was reached before an interrupt; a degenerate model does not count, as it needs no fit."""
    return point.result.kept and point.result.status.value != "degenerate"
