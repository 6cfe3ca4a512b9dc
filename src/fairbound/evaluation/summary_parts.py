"""One part of the rows (training, held-out) in a summary: audits before and after, accuracy, and the limits' values.

The value of a limit is taken over the groups where its measure is defined; `Constraint.keeps` decides whether it is
kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.evaluation.audit import audit
from fairbound.evaluation.audited import Audit
from fairbound.evaluation.certificate import Certificate, certify
from fairbound.evaluation.tally import Tally
from fairbound.fairness import Constraint, Measure
from fairbound.fairness.cells import Combine


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Rows and what two models decide about them.

    Parameters
    ----------
    y : sequence of n labels
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
    after : sequence of n labels
        The decisions of the model that the summary is about.
    before : sequence of n labels, optional
        Those of the model trained without limits.
    sample_weight : sequence of n numbers, optional
    largest_weight : float, optional
        The largest weight that a row can have by design; the certificate of weighted rows needs it.
    """

    y: Any
    sensitive_features: Any
    after: Any
    before: Any = None
    sample_weight: Any = None
    largest_weight: float | None = None


@dataclass(frozen=True)
class Reading:
    """How rows are read: the same for both parts and for every point of a frontier."""

    groups: Combine = "each"
    pos_label: Hashable | None = None
    confidence: float = 0.95

    def audit(self, rows: Decisions, prediction: Any, measures: Sequence[str | Measure] | None = None) -> Audit:
        """Audit one model's decisions, by all measures or by some."""
        return audit(
            rows.y,
            prediction,
            rows.sensitive_features,
            sample_weight=rows.sample_weight,
            groups=self.groups,
            pos_label=self.pos_label,
            confidence=self.confidence,
            measures=measures,
        )

    def certify(self, rows: Decisions, limits: tuple[Constraint, ...]) -> Certificate:
        """Test limits on rows that had no part in training."""
        return certify(
            rows.y,
            rows.after,
            rows.sensitive_features,
            limits,
            self.confidence,
            sample_weight=rows.sample_weight,
            largest_weight=rows.largest_weight,
            groups=self.groups,
            pos_label=self.pos_label,
        )

    def tally(self, rows: Decisions, prediction: Any) -> Tally:
        """Count one model's decisions."""
        return Tally.build(
            rows.y,
            prediction,
            rows.sensitive_features,
            sample_weight=rows.sample_weight,
            groups=self.groups,
            pos_label=self.pos_label,
        )

    def accuracy(self, rows: Decisions, prediction: Any) -> tuple[dict[str, Any], float]:
        """Return the accuracy over all rows with its interval, and that of the best constant prediction."""
        # All rows are one group here, so that those without a known group count, too.
        everyone = audit(
            rows.y,
            prediction,
            {"all rows": np.zeros(len(rows.y), dtype=np.int64)},
            sample_weight=rows.sample_weight,
            pos_label=self.pos_label,
            confidence=self.confidence,
            measures=(),
        ).groups[-1]
        estimate = next(iter(everyone.rates.values()))["accuracy"]
        return dict(vars(estimate)), max(everyone.labels.values()) / sum(everyone.labels.values())


def measured(limit: Constraint, tally: Tally) -> dict[str, Any]:
    """Return the value of a limit's measure and whether the limit is kept; both None where nothing is defined."""
    value = tally.measured(tally.compile(limit))
    if value is None:
        return {"value": None, "kept": None}
    return {"value": value, "kept": limit.keeps(value)}


class Part:
    """One part of the rows, measured before and after."""

    def __init__(self, name: str, rows: Decisions, limits: tuple[Constraint, ...], reading: Reading) -> None:
        if rows.after is None:
            raise ValueError(f"{name}: after is None; give the decisions of the model that the summary is about.")
        self.name, self.rows, self.reading = name, rows, reading
        self.models: dict[str, Any] = {"before": rows.before, "after": rows.after}
        self.audits = {
            model: None if prediction is None else reading.audit(rows, prediction)
            for model, prediction in self.models.items()
        }
        tallies = {
            model: None if prediction is None else reading.tally(rows, prediction)
            for model, prediction in self.models.items()
        }
        self.limits = [
            {model: None if tally is None else measured(limit, tally) for model, tally in tallies.items()}
            for limit in limits
        ]
        assert tallies["after"] is not None
        systems = [tallies["after"].compile(limit) for limit in limits]
        self.groupings = [list(dict.fromkeys(block.grouping.name for block in system.blocks)) for system in systems]

    @property
    def after(self) -> Audit:
        """The audit of the model that the summary is about."""
        found = self.audits["after"]
        assert found is not None
        return found

    def accuracy(self) -> dict[str, Any]:
        """Return the accuracies before and after, what the limits cost, and the gain over a constant prediction."""
        after, constant = self.reading.accuracy(self.rows, self.rows.after)
        found = {"before": None, "after": after, "constant": constant, "cost": None, "gain": after["value"] - constant}
        if self.rows.before is not None:
            before, _ = self.reading.accuracy(self.rows, self.rows.before)
            found |= {"before": before, "cost": before["value"] - after["value"]}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return rows, accuracy and audits."""
        audits = {model: None if found is None else found.to_dict() for model, found in self.audits.items()}
        return {"rows": self.after.rows, "accuracy": self.accuracy(), **audits}
