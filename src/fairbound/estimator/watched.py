"""Measures of decisions on other rows than the training rows, such as validation rows.

Such rows may lack a label or a group of the model.  A group without the rows that a rate needs is left out of that
rate, as in an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.small_groups import SmallGroup, treat_alike
from fairbound.evaluation import Tally
from fairbound.fairness import (
    Cells,
    Combine,
    Constraint,
    ConstraintSystem,
    as_logits,
    decide,
    distinct_texts,
    resolve_measure,
)
from fairbound.training import TrainingProblem


@dataclass(frozen=True)
class Watched:
    """Rows with labels, groups and weights on which decisions are measured.  Build it with `Watched.build`."""

    tally: Tally
    systems: tuple[ConstraintSystem | None, ...]
    inputs: Any

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.tally.cells.n_rows

    @classmethod
    def build(cls, limits: Sequence[Constraint], tally: Tally, inputs: Any = None) -> Watched:
        """Prepare to measure limits (bounds are not needed) on the rows of a tally; `inputs` are those of the model."""
        comparable = [_comparable(limit, tally) for limit in limits]
        compiled = iter(tally.compile_all(limit for limit, fits in zip(limits, comparable, strict=True) if fits))
        systems = tuple(next(compiled) if fits else None for fits in comparable)
        return cls(tally, systems, inputs)

    def measured(self, decisions: NDArray[np.int64]) -> list[float | None]:
        """Return one value per limit for decisions, which are class indices of the model; None if undefined."""
        tally = self.tally.recount(decisions)
        return [None if system is None else tally.measured(system) for system in self.systems]

    def accuracy(self, decisions: NDArray[np.int64]) -> float:
        """Share of the rows decided right, by weight."""
        cells = self.tally.cells
        return cells.share(cells.of_entries(decisions) == cells.labels)


def count_labels(
    y: NDArray[Any],
    groups: Mapping[str, NDArray[Any]] | None,
    *,
    classes: NDArray[Any],
    weights: NDArray[np.float64],
    combine: Combine = "each",
    pos_label: Any = None,
    small: Sequence[SmallGroup] = (),
    processes: Any = None,
) -> Tally:
    """Return a tally of rows that are not trained on, with their labels in place of decisions.

    Parameters
    ----------
    y : array of shape (n,)
        Labels among `classes`.
    groups : mapping of str to array of shape (n,), or None
    classes : array
        All labels of the model.
    weights : array of shape (n,)
    combine : {"each", "intersection", "both"}
    pos_label : label, optional
    small : sequence of SmallGroup
        Groups that the training rows left out of the limits or merged.
    processes : Processes, optional
        Those that share the rows.
    """
    named: dict[str, Any] = {"groups": combine, "pos_label": pos_label, "classes": classes}
    cells = Cells.build(y, groups, weights=weights, processes=processes, **named)
    return Tally.of(treat_alike(cells, small), cells.of_rows(cells.labels))


def _comparable(limit: Constraint, tally: Tally) -> bool:
    """Return whether these rows have the groups that a limit compares."""
    if limit.concerns_everyone(grouped=bool(tally.cells.groupings)):
        return True
    concerned = [each for each in tally.cells.groupings if limit.covers(each)]
    wanted = limit.reference if limit.reference is not None else limit.group
    if wanted is not None:
        concerned = [each for each in concerned if each.has(wanted)]
    alone = resolve_measure(limit.measure).comparison == "value"
    return bool(concerned) and (alone or all(len(each.groups) > 1 for each in concerned))


def validation_loss(
    problem: TrainingProblem,
    inputs: NDArray[np.float64],
    targets: NDArray[np.int64],
    weights: NDArray[np.float64],
    total: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    w: NDArray[np.float64],
) -> float:
    """Return the mean loss on validation rows at a point; `total` adds the sums of all processes."""
    problem.assign(w)
    losses = problem.loss.values(present_logits(problem, inputs), targets).astype(np.float64)
    loss, weight = total(np.array([weights @ losses, weights.sum()])).tolist()
    return float(loss / weight)


def present_logits(problem: TrainingProblem, inputs: NDArray[np.float64]) -> NDArray[Any]:
    """Return the logits of the model that is being trained, in its precision."""
    rows = inputs.astype(problem.model.dtype, copy=False) if inputs.dtype.kind == "f" else inputs  # or embedded
    parts = [problem.model.outputs(rows[start : start + 2**14]) for start in range(0, len(rows), 2**14)]
    return np.concatenate([as_logits(part, problem.cells.n_labels) for part in parts])


def watched_columns(problem: TrainingProblem, watched: Watched) -> dict[str, float]:
    """Return accuracy and limits of the present model on the validation rows, as columns of the history."""
    decisions = decide(present_logits(problem, watched.inputs), problem.threshold)
    measured = {
        f"eval {limit}": float("nan") if value is None else value
        for limit, value in zip(distinct_texts(problem.system.constraints), watched.measured(decisions), strict=True)
    }
    return {"eval accuracy": watched.accuracy(decisions), **measured}
