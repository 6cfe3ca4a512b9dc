"""A sweep is one pass over rows in chunks.  It computes the loss, decisions, sums of surrogates, and gradients.

Values of single rows are not kept.  All totals are one flat vector of sums over rows (`SweepTotals.flat`).

Values of single rows have the precision of the model; sums over rows are float64.

Conventions
-----------
P surrogates, Q segments, O outcomes; J = 1 + P·O cotangents, that of the loss first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness import (
    Cells,
    DecisionSurrogate,
    LimitValues,
    RowFunction,
    as_logits,
    decide,
    outcome_indicators,
)
from fairbound.training.chunks import Chunk, Floats
from fairbound.training.losses import RowLoss
from fairbound.training.rows import Rows

GRID = 2.0**-28
"""Step of the grid to which the totals of several processes are rounded, relative to their size."""

Cotangents = Callable[[NDArray[Any]], NDArray[Any]]
"""Maps outputs (n, D) of a chunk to cotangents (J, n, D)."""


@dataclass(frozen=True)
class Sweep:
    """Result of one pass over some rows, by segment.

    Attributes
    ----------
    loss : float
    error : float
        Share of wrong decisions, smoothed; 0 if the problem has no `error`.
    objective : float
        (1 − m)·loss + m·error.
    accuracy : float
        Share of the rows decided correctly, by the weights in the loss; of a regression, minus the loss.
    sums : array of shape (P, Q, O)
    counts : array of shape (Q, 2·O)
        Sums of the cell weights of the rows selected for each outcome, and of those not selected.  They are exact, so
        they do not depend on the size of chunks.
    exact : array of shape (P, Q, 2·O), or None
        The same of the exact values of each surrogate; None if all are the decisions of the model.
    loss_gradient : array of shape (n_parameters,), or None
        That of `objective`.
    sum_gradients : array of shape (P, Q, O, n_parameters), or None
    judged : LimitValues, or None
        The values of the problem's limits, if they are known.
    """

    loss: float
    error: float
    objective: float
    accuracy: float
    sums: Floats
    counts: Floats
    exact: Floats | None = None
    loss_gradient: Floats | None = None
    sum_gradients: Floats | None = None
    judged: LimitValues | None = None


class SweepTotals:
    """The totals of a sweep, accumulated chunk by chunk; with `n_parameters=0` there are no gradients.

    `flat` holds all of them, and the other arrays are views of it.  They are sums over rows, so the totals of all rows
    are the sum of the totals of any parts of the rows.  Counts of decisions are exact: no order of adding changes them.

    Conventions: L loss parts and C cell parts (`WeightParts`); flat = [loss and smoothed error, right (L),
    sums (Q, P, O), selected (Q, C, O), all rows (Q, C), gradients (J, Q, n_parameters)].  If a surrogate is not one of
    the decision of the model, `selected` has O further columns for the exact values of each.
    """

    def __init__(
        self,
        loss: RowLoss,
        surrogates: Sequence[RowFunction],
        outcomes: tuple[int, ...],
        rows: Rows,
        *,
        threshold: float,
        n_parameters: int,
        error: tuple[DecisionSurrogate, float] | None = None,
    ) -> None:
        self.loss_function, self.surrogates, self.outcomes = loss, list(surrogates), outcomes
        self.step = None if error is None else error[0]
        self.mixture = 0.0 if error is None else error[1]
        self.n_labels, self.threshold = 2 if outcomes == (1,) else len(outcomes), threshold
        self.loss_parts, self.cell_parts = rows.loss_parts, rows.cell_parts
        self._place = self.surrogates.index(self.step) if self.step in self.surrogates else None
        P, Q, C, n = len(surrogates), rows.n_segments, len(self.cell_parts), len(outcomes)
        plain = all(isinstance(each, DecisionSurrogate) and each.threshold == threshold for each in surrogates)
        self.counted = [] if plain else self.surrogates
        wide = n * (1 + len(self.counted))
        shapes = [(2,), (len(self.loss_parts),), (Q, P, n), (Q, C, wide), (Q, C), (1 + P * n, Q, n_parameters)]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        self.flat = np.zeros(ends[-1])
        self.loss, self.right, self.sums, self.selected, self.all, self.gradients = (
            part.reshape(shape) for part, shape in zip(np.split(self.flat, ends[:-1]), shapes, strict=True)
        )

    def add(self, chunk: Chunk, output: NDArray[Any]) -> None:
        """Add the loss, the sums and the decisions of a chunk, from the outputs of the model."""
        z = as_logits(output, self.n_labels)
        values = [each.values(z, chunk.labels) for each in self.surrogates]
        if self.step is not None:
            self._add_error(chunk, values[self._place] if self._place is not None else self.step.values(z))
        self._add(chunk, z, values)

    def add_with_cotangents(self, chunk: Chunk, output: NDArray[Any]) -> NDArray[Any]:
        """Add a chunk as `add` does, and return the cotangents of the loss and of each surrogate, (J, n, D)."""
        z = as_logits(output, self.n_labels)
        found = [each.values_and_derivatives(z, chunk.labels) for each in self.surrogates]
        self._add(chunk, z, [values for values, _ in found])
        of_loss = self.loss_function.derivatives(z, chunk.labels)
        if self.step is not None:
            values, slopes = found[self._place] if self._place is not None else self.step.values_and_derivatives(z)
            wrong = self._add_error(chunk, values)
            of_error = np.einsum("no,ond->nd", wrong.astype(slopes.dtype, copy=False), slopes)
            of_loss = (1.0 - self.mixture) * of_loss + self.mixture * of_error
        weighted = [self.loss_parts.scale(of_loss[None], chunk.loss_weights)]
        weighted += [self.cell_parts.scale(each, chunk.cell_weights) for _, each in found]
        stacked = np.concatenate(weighted)
        # A model with two outputs for two classes has the logit z = output_1 − output_0.
        two_outputs = self.n_labels == 2 and output.reshape(len(z), -1).shape[1] == 2
        return np.concatenate([-stacked, stacked], axis=2) if two_outputs else stacked

    def _add_error(self, chunk: Chunk, values: NDArray[Any]) -> Floats:
        """Add the smoothed share of wrong decisions; return its derivative by the surrogate of each outcome, (n, O)."""
        wrong = error_slopes(chunk.labels, len(self.outcomes))
        right_already = chunk.labels if len(self.outcomes) == 1 else 1.0
        errors = right_already + (wrong * values.astype(np.float64, copy=False)).sum(axis=1)
        self.loss[1] += self.loss_parts.scale(errors[:, None], chunk.loss_weights).sum()
        return wrong

    def _add(self, chunk: Chunk, z: NDArray[Any], values: Sequence[NDArray[Any]]) -> None:
        # Values of rows have the precision of the model; the sum over them is float64.
        losses = self.loss_function.values(z, chunk.labels).astype(np.float64, copy=False)[:, None]
        self.loss[0] += self.loss_parts.scale(losses, chunk.loss_weights).sum()
        self._add_decisions(chunk, decide(z, self.threshold), z)
        if values:
            stacked = np.stack(values, axis=1).astype(np.float64, copy=False)  # (n, P, O)
            flat = self.cell_parts.scale(stacked.reshape(len(z), -1), chunk.cell_weights)
            chunk.add_sums(self.sums, flat.reshape(stacked.shape))

    def _add_decisions(self, chunk: Chunk, decisions: NDArray[np.int64], z: NDArray[Any]) -> None:
        """Add the decisions of a chunk, as class indices, and the exact values of other functions of its rows."""
        right, selected = decisions == chunk.labels, outcome_indicators(decisions, self.outcomes)
        if self.counted:
            selected = np.hstack([selected, *(each.exact(z, chunk.labels) for each in self.counted)])
        if self.loss_parts.steps:
            self.right += [part @ right for part in self.loss_parts.split(chunk.loss_weights)]
        else:
            self.right += np.count_nonzero(right)
        parts = np.stack(self.cell_parts.split(chunk.cell_weights), axis=1)  # (n, C)
        chunk.add_sums(self.selected, parts[:, :, None] * selected[:, None, :])
        chunk.add_sums(self.all, parts)

    def round_off(self) -> None:
        """Round the totals to a grid that is far coarser than rounding errors, and far finer than any tolerance.

        Sums of the same rows in another order, or in other processes, differ in the last digits.  A fit magnifies such
        differences: in the exact phase, a row may change its decision.  After rounding, the sums are the same.  Counts
        need no rounding, because they are exact.
        """
        # Sums over cells are as large as the total weight; the loss and its gradient are means, of size 1.
        size = float(self.all.sum()) * self.cell_parts.unit
        for values, step in (
            (self.loss, GRID),
            (self.sums, GRID * size),
            (self.gradients[:1], GRID),
            (self.gradients[1:], GRID * size),
        ):
            round_off(values, step)

    def sweep(self, *, gradients: bool) -> Sweep:
        """Return the totals."""
        selected = self.selected.sum(axis=1)  # the parts of the weights, added last: this is the only rounding
        unselected = (self.all[:, :, None] - self.selected).sum(axis=1)
        tables = [
            self.cell_parts.unit * np.hstack([selected[:, part], unselected[:, part]])
            for start in range(0, selected.shape[1], len(self.outcomes))
            for part in [slice(start, start + len(self.outcomes))]
        ]
        found = Sweep(
            loss=float(self.loss[0]),
            error=float(self.loss[1]),
            objective=float((1.0 - self.mixture) * self.loss[0] + self.mixture * self.loss[1]),
            accuracy=float(self.right.sum()) / self.loss_parts.total if self.n_labels > 1 else -float(self.loss[0]),
            sums=self.sums.transpose(1, 0, 2),
            counts=tables[0],
            exact=np.stack(tables[1:]) if self.counted else None,
        )
        if not gradients:
            return found
        shape = (len(self.surrogates), len(self.outcomes), *self.gradients.shape[1:])
        by_surrogate = self.gradients[1:].reshape(shape).swapaxes(1, 2)
        return replace(found, loss_gradient=self.gradients[0].sum(axis=0), sum_gradients=by_surrogate)


def error_slopes(labels: NDArray[np.int64], n_outcomes: int) -> Floats:
    """Return the derivative of each row's error with respect to the smoothed decision for each outcome, (n, O).

    With two classes a row of label 0 is wrong if it is decided positive, φ, one of label 1 if it is not, 1 − φ.  With
    more, a row is wrong if it is not decided for its class, 1 − φ of that class.
    """
    return np.asarray(1.0 - 2.0 * labels[:, None] if n_outcomes == 1 else -np.eye(n_outcomes)[labels], dtype=np.float64)


def round_off(values: Floats, step: float = GRID) -> Floats:
    """Round values to a grid, in place."""
    values /= step
    np.round(values, out=values)
    values *= step
    return values


def cell_sums(sums: Floats, rows: Rows, n_cells: int) -> Floats:
    """Add sums over segments (P, Q, O) up to sums over cells (P, K, O)."""
    S = np.zeros((sums.shape[0], n_cells, sums.shape[2]))
    np.add.at(S.swapaxes(0, 1), rows.cell_of_segment, sums.swapaxes(0, 1))
    return S


def sampling_variance(rows: Rows, cells: Cells) -> tuple[Floats, Floats]:
    """Return (n'n''/n)(1/n − 1/N) of the C sampled cells, (C,), and the matrix from sums of segments to Δ, (Q, C)."""
    if not rows.halves:
        return np.zeros(0), np.zeros((rows.n_segments, 0))
    halves = np.array(rows.sizes, dtype=np.float64).reshape(-1, 2)
    drawn = halves.sum(axis=1)
    sizes = cells.sizes[rows.cell_of_segment[::2]]
    share = halves.prod(axis=1) / drawn * (1 / drawn - 1 / sizes)
    # Sums of a sample carry weights N/n, so the sum of a half, times n/n', is scaled to the cell.  If a half is empty,
    # n'n'' = 0 and its Δ does not count.
    scaled = np.where(halves > 0, drawn[:, None] / np.maximum(halves, 1.0), 0.0) * (1.0, -1.0)
    contrast = np.zeros((2 * len(drawn), len(drawn)))
    contrast[np.arange(2 * len(drawn)), np.arange(2 * len(drawn)) // 2] = scaled.reshape(-1)
    return share, contrast
