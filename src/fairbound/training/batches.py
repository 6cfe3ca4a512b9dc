"""Batches: all rows, or stratified mini-batches with a fixed number of rows from every cell (Theorem 3).

The constraints are taken on the batch itself, on a fixed subset, or on all rows; the theory of the stochastic method
has them deterministic, so that is a fixed subset or all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from fairbound.training.problem import Batch
from fairbound.training.rows import Rows


class FullBatch:
    """One batch an epoch: all rows, for the loss and for the constraints."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Rows]:
        yield self.rows


class StratifiedBatches:
    """Mini-batches with fixed numbers of rows per cell, loss and sums reweighted by N_k/n_k.

    Parameters
    ----------
    rows : Rows
        All rows.
    batch_size : int
        Rows per batch, shared among the cells in proportion, at least `least_per_cell` from each (all of a smaller
        cell).
    constraints : {"batch", "subset", "all"}
        The rows that the constraints are taken on.
    subset : float
        The share of the rows in the fixed subset (the paper's experiments: a third).
    generator : torch.Generator, optional
        Source of all draws; without one, a new generator with seed 0, so that no global one is touched.
    least_per_cell : int
        Two or more (or all rows of the cell) let squared measures be estimated without bias.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        *,
        constraints: Literal["batch", "subset", "all"] = "subset",
        subset: float = 1 / 3,
        generator: torch.Generator | None = None,
        least_per_cell: int = 2,
    ) -> None:
        if not 1 <= batch_size <= len(rows):
            raise ValueError(f"batch_size={batch_size!r}: must lie between 1 and the number of rows, {len(rows)}.")
        if constraints not in ("batch", "subset", "all"):
            raise ValueError(f'constraints={constraints!r}: must be "batch", "subset" or "all".')
        if least_per_cell < 1:
            raise ValueError(
                f"least_per_cell={least_per_cell!r}: must be at least 1, or a batch says nothing of a cell."
            )
        if not 0 < subset <= 1:
            raise ValueError(f"subset={subset!r}: must be a share above 0 and at most 1.")
        self.rows = rows
        self.counts = _allocate(rows, batch_size / len(rows), least_per_cell)
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        # By what is drawn, which is more than `batch_size` where many small cells need their least.
        self.steps_per_epoch = max(1, round(len(rows) / int(self.counts.sum())))
        self.constraint_rows: Rows | None = None
        if constraints == "all":
            self.constraint_rows = rows
        elif constraints == "subset":
            self.constraint_rows = rows.sample(_allocate(rows, subset, least_per_cell), self.generator)

    def __iter__(self) -> Iterator[Batch]:
        """One epoch: about as many rows as there are."""
        for _ in range(self.steps_per_epoch):
            drawn = self.rows.sample(self.counts, self.generator)
            yield Batch(drawn, drawn if self.constraint_rows is None else self.constraint_rows)


def _allocate(rows: Rows, share: float, least: int) -> Tensor:
    """Rows to draw from each cell: in proportion, at least `least`, at most what there is."""
    sizes = torch.tensor(rows.offsets).diff()
    return torch.minimum(sizes, torch.clamp((sizes.to(torch.float64) * share).round().long(), min=least))
