"""Batches: all rows, or stratified mini-batches with a fixed number of rows from every cell (Theorem 3).

The constraints are evaluated on the batch, on a fixed subset, or on all rows.  The theory of the stochastic method
assumes deterministic constraints, so it covers only a fixed subset and all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fairbound.training.problem import Batch
from fairbound.training.rows import Rows


class FullBatch:
    """One batch per epoch: all rows, for the loss and for the constraints."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Rows]:
        yield self.rows


class StratifiedBatches:
    """Mini-batches with a fixed number n_k of the N_k rows of each cell, reweighted by N_k/n_k.

    Parameters
    ----------
    rows : Rows
        All rows, or those of this process.  Then every process draws its share of each batch, with the same generator.
    batch_size : int
        Rows per batch, distributed over the cells in proportion to their size.  Each cell gets at least
        `least_per_cell` rows, or all of its rows if it has fewer.
    constraints : {"batch", "subset", "all"}
        The rows on which the constraints are evaluated.
    subset : float
        Share of the rows in the fixed subset (a third in the paper's experiments).
    generator : torch.Generator, optional
        Random generator of all draws; by default a new one with seed 0.  The global generator is not used.
    least_per_cell : int
        Least number of rows per cell.  Two or more allow unbiased estimates of squared measures.
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
        n_rows = sum(rows.sizes)
        if not 1 <= batch_size <= n_rows:
            raise ValueError(f"batch_size={batch_size!r}: must lie between 1 and the number of rows, {n_rows}.")
        if constraints not in ("batch", "subset", "all"):
            raise ValueError(f'constraints={constraints!r}: must be "batch", "subset" or "all".')
        if least_per_cell < 1:
            raise ValueError(
                f"least_per_cell={least_per_cell!r}: must be at least 1, so that each batch has rows of every cell."
            )
        if not 0 < subset <= 1:
            raise ValueError(f"subset={subset!r}: must be a share above 0 and at most 1.")
        self.rows = rows
        self.counts = _allocate(rows, batch_size / n_rows, least_per_cell)
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        # Counted by the rows drawn, which exceed `batch_size` if many small cells need `least_per_cell`.
        self.steps_per_epoch = max(1, round(n_rows / int(self.counts.sum())))
        self.constraint_rows: Rows | None = None
        if constraints == "all":
            self.constraint_rows = rows
        elif constraints == "subset":
            self.constraint_rows = rows.sample(_allocate(rows, subset, least_per_cell), self._permutation)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch, which together have about as many rows as the data."""
        for _ in range(self.steps_per_epoch):
            drawn = self.rows.sample(self.counts, self._permutation)
            yield Batch(drawn, drawn if self.constraint_rows is None else self.constraint_rows)

    def _permutation(self, n: int) -> NDArray[np.int64]:
        return torch.randperm(n, generator=self.generator).numpy()


def _allocate(rows: Rows, share: float, least: int) -> NDArray[np.int64]:
    """Return the number of rows to draw from each cell: in proportion, at least `least`, at most the whole cell."""
    sizes = np.array(rows.sizes)
    return np.minimum(sizes, np.maximum(np.round(sizes * share).astype(np.int64), least))
