"""A sweep is one pass over rows in chunks.  It computes the loss, decisions, sums of surrogates, and gradients.

Values of single rows are not kept.  All totals are one flat vector of sums over rows (`SweepTotals.flat`).

Values of single rows have the precision of the module; sums over rows are float64.

Conventions
-----------
P surrogates, Q segments, O outcomes; J = 1 + P·O cotangents, that of the loss first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairbound.fairness import Cells, DecisionSurrogate, LimitValues, ReadOutputs, outcome_indicators, read_outputs
from fairbound.training.losses import RowLoss
from fairbound.training.passes import Chunk, Slices
from fairbound.training.rows import Rows

GRID = 2.0**-28
"""Step of the grid to which the totals of several processes are rounded, relative to their size."""

Cotangents = Callable[[Tensor], Tensor]
"""Maps outputs (n, D) of a chunk to cotangents (J, n, D)."""


@dataclass(frozen=True)
class Sweep:
    """Result of one pass over some rows, by segment.

    Attributes
    ----------
    loss : float
    accuracy : float
        Share of the rows decided correctly, by the weights in the loss.
    sums : Tensor of shape (P, Q, O)
    counts : Tensor of shape (Q, 2·O)
        Sums of the cell weights of the rows selected for each outcome, and of those not selected.  They are exact, so
        they do not depend on the size of chunks.
    loss_gradient : Tensor of shape (n_parameters,), or None
    sum_gradients : Tensor of shape (P, Q, O, n_parameters), or None
    judged : LimitValues, or None
        The values of the problem's limits, if they are known.
    """

    loss: float
    accuracy: float
    sums: Tensor
    counts: Tensor
    loss_gradient: Tensor | None = None
    sum_gradients: Tensor | None = None
    judged: LimitValues | None = None


class SweepTotals:
    """The totals of a sweep, accumulated chunk by chunk; with `n_parameters=0` there are no gradients.

    `flat` holds all of them, and the other tensors are views of it.  They are sums over rows, so the totals of all rows
    are the sum of the totals of any parts of the rows.  Counts of decisions are exact: no order of adding changes them.

    Conventions: L loss parts and C cell parts (`WeightParts`); flat = [loss, right (L), sums (P, Q, O),
    selected (C, Q, O), all rows (C, Q), gradients (J, Q, n_parameters)].
    """

    def __init__(
        self,
        loss: RowLoss,
        surrogates: Sequence[DecisionSurrogate],
        outcomes: tuple[int, ...],
        rows: Rows,
        *,
        threshold: float,
        n_parameters: int,
    ) -> None:
        self.loss_function, self.surrogates, self.outcomes = loss, surrogates, outcomes
        self.n_labels, self.threshold = max(2, len(outcomes)), threshold
        self.loss_parts, self.cell_parts = rows.loss_parts, rows.cell_parts
        P, Q, C = len(surrogates), rows.n_segments, len(self.cell_parts)
        by_outcome = (Q, len(outcomes))
        cotangents = 1 + P * len(outcomes)
        shapes = [
            (1,),
            (len(self.loss_parts),),
            (P, *by_outcome),
            (C, *by_outcome),
            (C, Q),
            (cotangents, Q, n_parameters),
        ]
        self.flat = torch.zeros(sum(math.prod(shape) for shape in shapes), dtype=torch.float64)
        views = [
            part.view(shape)
            for part, shape in zip(self.flat.split([math.prod(shape) for shape in shapes]), shapes, strict=True)
        ]
        self.loss, self.right, self.sums, self.selected, self.all, self.gradients = views

    def add(self, chunk: Chunk, output: Tensor) -> None:
        """Add the loss, the sums and the decisions of a chunk, from the outputs of the module."""
        self._add(chunk, read_outputs(output, self.outcomes, self.threshold, self.surrogates))

    def add_with_cotangents(self, chunk: Chunk, output: Tensor) -> Tensor:
        """Add a chunk as `add` does, and return the cotangents of the loss and of each surrogate, (J, n, D)."""
        found = read_outputs(output, self.outcomes, self.threshold, self.surrogates, derivatives=True)
        self._add(chunk, found)
        z = found.logits
        of_loss = self.loss_function.derivatives(z, chunk.labels)[None]
        weighted = [self.loss_parts.scale(of_loss, chunk.loss_weights)]
        weighted += [self.cell_parts.scale(each, chunk.cell_weights) for each in found.derivatives]
        stacked = torch.cat(weighted)
        # A module with two outputs for two classes has the logit z = output_1 − output_0.
        two_outputs = self.n_labels == 2 and output.reshape(len(z), -1).shape[1] == 2
        return torch.cat([-stacked, stacked], dim=2) if two_outputs else stacked

    def _add(self, chunk: Chunk, found: ReadOutputs) -> None:
        # Values of rows have the precision of the module; the sum over them is float64.
        losses = self.loss_function.values(found.logits, chunk.labels).to(torch.float64)[:, None]
        self.loss += self.loss_parts.scale(losses, chunk.loss_weights).sum()
        self._add_decisions(chunk, found.decisions, found.selected)
        for p, values in enumerate(found.surrogates):
            weighted = self.cell_parts.scale(values.to(torch.float64), chunk.cell_weights)
            add_by_segment(self.sums[p], segment_sums(weighted, chunk.slices), chunk.slices)

    def add_decisions(self, chunk: Chunk, decisions: Tensor) -> None:
        """Add the decisions of a chunk, as class indices."""
        self._add_decisions(chunk, decisions, outcome_indicators(decisions, self.outcomes))

    def _add_decisions(self, chunk: Chunk, decisions: Tensor, selected: Tensor) -> None:
        right = decisions == chunk.labels
        if self.loss_parts.steps:
            for place, part in enumerate(self.loss_parts.split(chunk.loss_weights)):
                self.right[place] += part @ right.to(torch.float64)
        else:
            self.right += right.count_nonzero()
        if not self.cell_parts.steps:
            add_by_segment(self.selected[0], segment_sums(selected, chunk.slices), chunk.slices)
            sizes = torch.tensor([stop - start for _, start, stop in chunk.slices], dtype=torch.float64)
            add_by_segment(self.all[0], sizes, chunk.slices)
            return
        for c, part in enumerate(self.cell_parts.split(chunk.cell_weights)):
            add_by_segment(self.selected[c], segment_sums(selected * part[:, None], chunk.slices), chunk.slices)
            add_by_segment(self.all[c], segment_sums(part, chunk.slices), chunk.slices)

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
        selected = self.selected.sum(dim=0)  # the parts of the weights, added last: this is the only rounding
        unselected = (self.all[:, :, None] - self.selected).sum(dim=0)
        found = Sweep(
            loss=float(self.loss),
            accuracy=float(self.right.sum()) / self.loss_parts.total,
            sums=self.sums,
            counts=self.cell_parts.unit * torch.cat([selected, unselected], dim=1),
        )
        if not gradients:
            return found
        by_surrogate = self.gradients[1:].unflatten(0, (len(self.surrogates), len(self.outcomes))).movedim(1, 2)
        return replace(found, loss_gradient=self.gradients[0].sum(dim=0), sum_gradients=by_surrogate)


def round_off(values: Tensor, step: float = GRID) -> Tensor:
    """Round values to a grid, in place."""
    return values.div_(step).round_().mul_(step)


def segment_sums(values: Tensor, slices: Slices) -> Tensor:
    """Return the sums of values (n, ...) over slices, (number of slices, ...)."""
    return torch.stack([values[start:stop].sum(dim=0) for _, start, stop in slices])


def add_by_segment(totals: Tensor, parts: Tensor, slices: Slices) -> None:
    """Add `parts`, which have one entry for each slice, to the segments of `totals`; both along the first dimension."""
    if len(slices) == len(totals):
        totals += parts  # the chunk touches every segment
    else:
        totals.index_add_(0, torch.tensor([segment for segment, _, _ in slices]), parts)


def cell_sums(sums: Tensor, rows: Rows, n_cells: int) -> Tensor:
    """Add sums over segments (P, Q, O) up to sums over cells (P, K, O)."""
    S = torch.zeros(sums.shape[0], n_cells, sums.shape[2], dtype=torch.float64)
    return S.index_add_(1, rows.cell_of_segment, sums)


def sampling_variance(rows: Rows, cells: Cells) -> tuple[Tensor, Tensor]:
    """Return (n'n''/n)(1/n − 1/N) of the C sampled cells, (C,), and the matrix from sums of segments to Δ, (Q, C)."""
    if not rows.halves:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(rows.n_segments, 0, dtype=torch.float64)
    halves = torch.tensor(rows.sizes).reshape(-1, 2).to(torch.float64)
    drawn = halves.sum(dim=1)
    sizes = cells.sizes[rows.cell_of_segment[::2]].to(torch.float64)
    share = halves.prod(dim=1) / drawn * (1 / drawn - 1 / sizes)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    # Sums of a sample carry weights N/n, so the sum of a half, times n/n', is scaled to the cell.  If a half is empty,
    # n'n'' = 0 and its Δ does not count.
    scaled = torch.where(halves > 0, drawn[:, None] / halves.clamp(min=1) * signs, 0.0)
    return share, torch.block_diag(*scaled[:, :, None])
