"""A sweep, which is one pass over rows in chunks: the loss, the sums of surrogates over segments, and their gradients.

Values of single rows have the precision of the module; sums over rows are float64.

Conventions
-----------
P surrogates, Q segments, O outcomes; J = 1 + P·O cotangents, that of the loss first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbound.fairness import DecisionSurrogate, as_logits
from fairbound.training.losses import Loss
from fairbound.training.rows import Rows

Slices = Sequence[tuple[int, int, int]]
"""(segment, start, stop) within a chunk of rows."""

Cotangents = Callable[[Tensor], Tensor]
"""Maps outputs (n, D) of a chunk to cotangents (J, n, D)."""


@dataclass(frozen=True)
class Sweep:
    """Result of one pass over some rows, by segment.

    Attributes
    ----------
    loss : float
    sums : Tensor of shape (P, Q, O)
    logits : Tensor of shape (n, D)
    loss_gradient : Tensor of shape (n_parameters,), or None
    sum_gradients : Tensor of shape (P, Q, O, n_parameters), or None
    """

    loss: float
    sums: Tensor
    logits: Tensor
    loss_gradient: Tensor | None = None
    sum_gradients: Tensor | None = None


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows; the slices are relative to the first of them, one for each segment that they touch."""

    X: Tensor
    labels: Tensor
    loss_weights: Tensor
    cell_weights: Tensor
    slices: Slices


class SweepTotals:
    """The totals of a sweep, accumulated chunk by chunk; with `n_parameters=0` there are no gradients."""

    def __init__(
        self, loss: Loss, surrogates: Sequence[DecisionSurrogate], n_labels: int, n_segments: int, n_parameters: int
    ) -> None:
        self.loss_function, self.surrogates = loss, surrogates
        self.n_labels, self.n_outcomes = n_labels, 1 if n_labels == 2 else n_labels
        self.loss = 0.0
        self.logits: list[Tensor] = []
        self.sums = torch.zeros(len(self.surrogates), n_segments, self.n_outcomes, dtype=torch.float64)
        shape = (1 + len(self.surrogates) * self.n_outcomes, n_segments, n_parameters)
        self.gradients = torch.zeros(shape, dtype=torch.float64)

    def add(self, chunk: Chunk, output: Tensor) -> None:
        """Add the loss and the sums of a chunk, from the outputs of the module."""
        z = self._add_loss(chunk, output)
        for p, surrogate in enumerate(self.surrogates):
            self._add_sums(chunk, p, surrogate.values(z))

    def add_with_cotangents(self, chunk: Chunk, output: Tensor) -> Tensor:
        """Add the loss and the sums of a chunk, and return the cotangents of the loss and each surrogate, (J, n, D)."""
        z = self._add_loss(chunk, output)
        loss_weights, cell_weights = chunk.loss_weights.to(z.dtype)[:, None], chunk.cell_weights.to(z.dtype)[:, None]
        cotangents = [(self.loss_function.derivatives(z, chunk.labels) * loss_weights)[None]]
        for p, surrogate in enumerate(self.surrogates):
            values, derivatives = surrogate.values_and_derivatives(z)
            self._add_sums(chunk, p, values)
            cotangents.append(derivatives * cell_weights)
        stacked = torch.cat(cotangents)
        # A module with two outputs for two classes has the logit z = output_1 − output_0.
        two_outputs = self.n_labels == 2 and output.reshape(len(z), -1).shape[1] == 2
        return torch.cat([-stacked, stacked], dim=2) if two_outputs else stacked

    def _add_loss(self, chunk: Chunk, output: Tensor) -> Tensor:
        z = as_logits(output, self.n_labels)
        self.logits.append(z)
        # Values of rows have the precision of the module; the sum over them is float64.
        self.loss += float(chunk.loss_weights @ self.loss_function.values(z, chunk.labels).to(torch.float64))
        return z

    def _add_sums(self, chunk: Chunk, p: int, values: Tensor) -> None:
        weighted = values.to(torch.float64).mul_(chunk.cell_weights[:, None])
        add_by_segment(self.sums[p], segment_sums(weighted, chunk.slices), chunk.slices)

    def sweep(self, *, gradients: bool) -> Sweep:
        """Return the totals."""
        logits = torch.cat(self.logits)
        if not gradients:
            return Sweep(self.loss, self.sums, logits)
        by_surrogate = self.gradients[1:].unflatten(0, (len(self.surrogates), self.n_outcomes)).movedim(1, 2)
        return Sweep(self.loss, self.sums, logits, self.gradients[0].sum(dim=0), by_surrogate)


def segment_sums(values: Tensor, slices: Slices) -> Tensor:
    """Return the sums of values (n, O) over slices, (number of slices, O)."""
    return torch.stack([values[start:stop].sum(dim=0) for _, start, stop in slices])


def add_by_segment(totals: Tensor, parts: Tensor, slices: Slices) -> None:
    """Add `parts`, which have one entry for each slice, to the segments of `totals`; both along the first dimension."""
    if len(slices) == len(totals):
        totals += parts  # the chunk touches every segment
    else:
        totals.index_add_(0, torch.tensor([segment for segment, _, _ in slices]), parts)


def chunks(rows: Rows, chunk_rows: int) -> Sequence[Chunk]:
    """Return the rows in consecutive chunks of at most `chunk_rows`."""
    if chunk_rows not in rows.chunks:
        rows.chunks[chunk_rows] = [
            Chunk(
                rows.X[start:stop],
                rows.labels[start:stop],
                rows.loss_weights[start:stop],
                rows.cell_weights[start:stop],
                slices,
            )
            for start, stop, slices in _cuts(rows, chunk_rows)
        ]
    found: Sequence[Chunk] = rows.chunks[chunk_rows]
    return found


def _cuts(rows: Rows, chunk_rows: int) -> Iterator[tuple[int, int, Slices]]:
    """Yield (start, stop, slices) of consecutive chunks."""
    segment = 0
    for start in range(0, len(rows), chunk_rows):
        stop = min(start + chunk_rows, len(rows))
        slices = []
        while segment < rows.n_segments and rows.offsets[segment] < stop:
            first, last = max(rows.offsets[segment], start), min(rows.offsets[segment + 1], stop)
            if first < last:
                slices.append((segment, first - start, last - start))
            if rows.offsets[segment + 1] > stop:
                break
            segment += 1
        yield start, stop, slices
