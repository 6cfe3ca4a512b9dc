"""Evaluate models on held-out rows: accuracy, AUC, log loss, measures, decisions that change.

A baseline and every candidate are evaluated on the same rows, so that their accuracies can be compared row by row
(McNemar's exact test).  A measure over several sensitive columns has the value of the worst column.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._words import listed
from fairbound.evaluation import (
    Estimate,
    PairedTest,
    Tally,
    auc_estimate,
    audit_tally,
    match_decisions,
    overall_accuracy,
    paired_test,
)
from fairbound.fairness import Measure
from fairbound.studies.parts import Part

Scores = NDArray[np.float64]
SMALLEST = 1e-12  # smallest probability in the log loss
CODES = {"0": 0, "0.0": 0, "False": 0, "1": 1, "1.0": 1, "True": 1}
"""Codes of a label of two words, as text."""


@dataclass(frozen=True)
class ChangedGroup:
    """The decisions of a group that differ from the baseline: rows newly selected, and rows no longer selected."""

    grouping: str
    group: Hashable
    rows: int
    gained: int
    lost: int


@dataclass(frozen=True)
class Judgement:
    """The evaluation of a model on rows that it was not trained on.

    Attributes
    ----------
    rows : int
    accuracy : Estimate
    auc : Estimate or None
        None for a baseline without scores.
    log_loss : float or None
        None without probabilities.
    measures : dict
        `Estimate` of each measure.
    changed : int
        Decisions that differ from those of the baseline.
    groups : tuple of ChangedGroup
    paired : PairedTest
        Comparison of the accuracy with that of the baseline; "first" is the baseline, "second" this model.
    """

    rows: int
    accuracy: Estimate
    auc: Estimate | None
    log_loss: float | None
    measures: dict[str, Estimate]
    changed: int
    groups: tuple[ChangedGroup, ...] = field(repr=False)
    paired: PairedTest


@dataclass(frozen=True)
class Decided:
    """The decisions of a model as class indices, and its scores of the positive class."""

    decisions: NDArray[np.int64]
    scores: Scores | None
    probabilities: bool = True


class Baseline:
    """The model, decisions or scores that candidates are compared with.

    Parameters
    ----------
    name : str
    model : object with `predict`, optional
    decisions, scores : array of shape (n,), optional
        For all rows of the data.
    threshold : float
        The least score that is selected, if there are scores but no decisions.
    trained_on : str, optional
        The hash of the rows that the model was trained on, if it is known.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Any = None,
        decisions: Any = None,
        scores: Any = None,
        threshold: float = 0.5,
        trained_on: str | None = None,
    ) -> None:
        self.name, self.model, self.threshold, self.trained_on = name, model, threshold, trained_on
        self.decisions = None if decisions is None else np.asarray(decisions)
        self.scores = None if scores is None else _numbers(scores)

    def check(self, rows: int) -> None:
        """Raise an error if a column does not have one value for each row."""
        for values in (self.decisions, self.scores):
            if values is not None and len(values) != rows:
                raise InputError(
                    "{baseline=} has {found:,} values, but the data have {rows:,} rows.", found=len(values), rows=rows
                )

    def decide(self, part: Part, rows: NDArray[np.int64]) -> Decided:
        """Return the decisions about a part, whose rows are `rows` of the data."""
        if self.model is not None:
            return decided_by(self.model, part)
        scores = None if self.scores is None else self.scores[rows]
        if self.decisions is not None:
            found = _class_indices(self.decisions[rows], len(rows), part)
        else:
            assert scores is not None
            found = (scores >= self.threshold).astype(np.int64)
        unit = scores is not None and bool(scores.min() >= 0 and scores.max() <= 1)
        return Decided(found, scores, unit)


def _numbers(values: Any) -> Scores:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("{baseline_score=} must hold numbers only.") from None
    if not np.isfinite(found).all():
        raise InputError("{baseline_score=} has values that are missing or infinite.", "Give a number for each row.")
    return found


def decided_by(model: Any, part: Part) -> Decided:
    """Return the decisions and, if it has them, the probabilities of a model."""
    decisions = _class_indices(model.predict(_inputs_of(model, part)), len(part), part)
    return Decided(decisions, scores_by(model, part))


def scores_by(model: Any, part: Part) -> Scores | None:
    """Return a model's probabilities of the positive class; None without `predict_proba` or with several classes."""
    if not hasattr(model, "predict_proba") or len(part.data.target_names) != 2:
        return None
    place = _class_indices([str(label) for label in model.classes_], 2, part).tolist().index(1)
    return np.asarray(model.predict_proba(_inputs_of(model, part)), dtype=np.float64)[:, place]


def _class_indices(decisions: Any, rows: int, part: Part) -> NDArray[np.int64]:
    """Return decisions, in the words of the label or in its codes 0 and 1, as class indices."""
    given, classes = np.asarray(decisions), part.data.target_names
    words = [str(value) for value in given.tolist()]
    if given.shape == (rows,) and {*words} <= {*CODES} and {*map(str, classes)}.isdisjoint(CODES):
        return np.array([CODES[word] for word in words], dtype=np.int64)
    names = (f"column {part.data.target!r}", "the baseline")
    return match_decisions(given, classes, rows, names=names, nameable=False)


def _inputs_of(model: Any, part: Part) -> Any:
    """Return the rows as inputs of a model, which may have been trained with fewer columns than they have."""
    table = nw.from_native(part.X, eager_only=True)
    names = getattr(model, "feature_names_in_", None)
    if names is None or set(names) == set(table.columns):
        # Models of this package share the encoded rows.
        return part.inputs if hasattr(model, "result_") else part.X
    missing = [str(name) for name in names if name not in table.columns]
    if missing:
        raise InputError(
            "The baseline was trained with the columns {missing}, which these rows do not have as inputs.",
            "Give rows with all of its columns, or its decisions.",
            missing=listed(missing),
        )
    return table.select([str(name) for name in names]).to_native()


class Judge:
    """Evaluates models on one part of the rows, and compares each with the baseline."""

    def __init__(
        self, part: Part, baseline: Decided, measures: Sequence[Measure], *, confidence: float, groups: str
    ) -> None:
        self.part, self.baseline, self.measures, self.confidence = part, baseline, measures, confidence
        names = part.data.target_names
        self.positive = np.asarray(part.data.y) == 1
        self.tally = Tally.build(
            part.y,
            np.asarray(names)[baseline.decisions],
            part.sensitive,
            groups=groups,  # type: ignore[arg-type]  # one of three words, as checked
            pos_label=names[1],
        )

    def judge(self, decided: Decided) -> Judgement:
        """Return the evaluation of a model, from its decisions and scores."""
        tally = self.tally.recount(decided.decisions)
        accuracy, _ = overall_accuracy(tally, self.confidence)
        audit = audit_tally(tally, self.confidence, self.measures)
        worst: dict[str, Estimate] = {}
        for measure in self.measures:
            found = [each for each in audit.measures if each.measure == measure.name and each.value is not None]
            pick = min if measure.larger_is_stricter else max
            at = pick(found, key=lambda each: each.value or 0.0) if found else None
            worst[measure.name] = Estimate(None, None, None) if at is None else Estimate(at.value, at.lower, at.upper)
        scores = decided.scores
        right = decided.decisions == self.part.data.y
        return Judgement(
            rows=len(self.part),
            accuracy=accuracy,
            auc=None if scores is None else auc_estimate(scores, self.positive, self.confidence),
            log_loss=self._log_loss(scores) if scores is not None and decided.probabilities else None,
            measures=worst,
            changed=int((decided.decisions != self.baseline.decisions).sum()),
            groups=tuple(self._changes(decided.decisions)),
            paired=paired_test(self.baseline.decisions == self.part.data.y, right),
        )

    def _log_loss(self, scores: Scores) -> float:
        of_label = np.where(self.positive, scores, 1.0 - scores)
        return float(-np.log(np.clip(of_label, SMALLEST, 1.0)).mean())

    def _changes(self, decisions: NDArray[np.int64]) -> list[ChangedGroup]:
        cells = self.tally.cells
        atoms = cells.index // cells.n_labels
        gained = (decisions == 1) & (self.baseline.decisions != 1)
        lost = (decisions != 1) & (self.baseline.decisions == 1)
        found = []
        for grouping in cells.groupings:
            for group, member in zip(grouping.groups, grouping.membership, strict=False):
                inside = member[atoms] > 0
                found.append(
                    ChangedGroup(
                        grouping.name,
                        group,
                        int(inside.sum()),
                        int((gained & inside).sum()),
                        int((lost & inside).sum()),
                    )
                )
        return found


def better(measure: Measure, one: Estimate, other: Estimate) -> bool:
    """Return whether the first estimate of a measure has the smaller disparity."""
    if one.value is None or other.value is None:
        return False
    return one.value > other.value if measure.larger_is_stricter else one.value < other.value


def dominates(measures: Sequence[Measure], one: Judgement, other: Judgement) -> bool:
    """Return whether one model is at least as good in accuracy and every measure, and better in one of them."""
    pairs: Mapping[Measure, tuple[Estimate, Estimate]] = {
        measure: (one.measures[measure.name], other.measures[measure.name]) for measure in measures
    }
    first, second = one.accuracy.value or 0.0, other.accuracy.value or 0.0
    if first < second or any(better(measure, theirs, ours) for measure, (ours, theirs) in pairs.items()):
        return False
    return first > second or any(better(measure, ours, theirs) for measure, (ours, theirs) in pairs.items())
