"""Decisions on rows beside the training rows: the limits on a validation set, and measures for scorers.

Rows that training has not seen may lack a label or a group.  A label that is missing there gets a row of weight 0, so
that the classes are those of the model; a group without the rows that a rate needs is left out of that rate, as in an
audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fairbound.estimator.groups import SmallGroup, treat_alike
from fairbound.evaluation import Tally
from fairbound.fairness import Combine, Constraint, ConstraintSystem, resolve_measure


@dataclass(frozen=True)
class Watched:
    """Rows with labels, groups and weights on which decisions are measured.  Build it with `Watched.build`."""

    tally: Tally
    systems: tuple[ConstraintSystem | None, ...]
    n_rows: int

    @classmethod
    def build(
        cls,
        limits: Sequence[Constraint],
        y: NDArray[Any],
        groups: Mapping[str, NDArray[Any]] | None,
        *,
        classes: NDArray[Any],
        weights: NDArray[np.float64],
        combine: Combine = "each",
        pos_label: Any = None,
        small: Sequence[SmallGroup] = (),
    ) -> Watched:
        """Prepare to measure limits (bounds are not needed) on given rows.

        Parameters
        ----------
        limits : sequence of Constraint
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
        """
        unknown = np.setdiff1d(y, classes)
        if len(unknown):
            raise ValueError(
                f"y has the label {unknown.tolist()[0]!r}, which the model was not trained on. Labels: "
                f"{', '.join(map(repr, classes.tolist()))}."
            )
        further = len(classes)
        labels = np.concatenate([y, classes.astype(y.dtype) if y.dtype.kind != classes.dtype.kind else classes])
        columns = None
        if groups is not None:
            columns = {name: np.concatenate([values, values[[0] * further]]) for name, values in groups.items()}
        tally = Tally.build(
            labels,
            labels,
            columns,
            sample_weight=np.concatenate([weights, np.zeros(further)]),
            groups=combine,
            pos_label=pos_label,
        )
        if small:
            tally = replace(tally, powers=tuple((treat_alike(cells, small), S) for cells, S in tally.powers))
        comparable = [_comparable(limit, tally) for limit in limits]
        compiled = iter(tally.compile_all(limit for limit, fits in zip(limits, comparable, strict=True) if fits))
        return cls(tally, tuple(next(compiled) if fits else None for fits in comparable), len(y))

    def measured(self, decisions: Tensor) -> list[float | None]:
        """Return one number per limit for class indices in the order of the model; None where it is undefined."""
        tally = self._with(decisions)
        return [None if system is None else tally.measured(system) for system in self.systems]

    def accuracy(self, decisions: Tensor) -> float:
        """Share of the rows decided right, by weight."""
        cells = self.tally.cells
        weights, right = cells.weights[: self.n_rows], decisions.numpy() == cells.labels[: self.n_rows]
        return float((weights * right).sum() / weights.sum())

    def _with(self, decisions: Tensor) -> Tally:
        return self.tally.recount(np.concatenate([decisions.numpy(), self.tally.cells.labels[self.n_rows :]]))


def _comparable(limit: Constraint, tally: Tally) -> bool:
    """Tell whether these rows have the groups that a limit speaks of."""
    concerned = [each for each in tally.cells.groupings if limit.columns is None or each.name in limit.columns]
    wanted = limit.reference if limit.reference is not None else limit.group
    if wanted is not None:
        concerned = [each for each in concerned if each.find(wanted) is not None]
    alone = resolve_measure(limit.measure).comparison == "value"
    return bool(concerned) and (alone or all(len(each.groups) > 1 for each in concerned))
