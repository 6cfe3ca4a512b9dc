"""The training problem: where fairness and optimisation meet (paper, section "Training Problem ...").

    min_w  Σ_i loss_weight_i · ℓ(z_i(w), y_i) + Σ r(w)     subject to   lower ≤ c(w) ≤ upper,   c(w) = A · r(S(w))

One sweep over the rows gives the loss, its gradient, all cell sums S and all of ∇S; everything else is small:
J = (∂c/∂S) · ∇S is handed on in these two factors.  Everything is a sum over rows, so sweeps run in chunks that bound
the memory, and the results do not depend on them beyond rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairbound.fairness import (
    Cells,
    Constraint,
    ConstraintSystem,
    ExactStep,
    Step,
    as_logits,
    decide,
    decision_indicators,
)
from fairbound.sqp import Evaluation, Jacobian
from fairbound.training.gradients import GradientEngine, choose_engine
from fairbound.training.losses import Loss, LossFunction, resolve_loss
from fairbound.training.models import assign, check_rows_are_independent, flatten, trainable
from fairbound.training.regularizers import Regularizer, SquaredMeasure
from fairbound.training.rows import Rows
from fairbound.training.sweep import Chunk, Sweep, Tally, chunks, segment_sums

CHUNK_NUMBERS = 2**21
"""Activations of a layer held at once, by default: small enough for a cache, large enough that calls cost little."""


@dataclass(frozen=True)
class Batch:
    """Rows for the loss and rows for the constraints: the same, or a mini-batch and a fixed subset."""

    loss: Rows
    constraints: Rows


class TrainingProblem:
    """A module, a loss, constraints and regularisers on given cells.

    Parameters
    ----------
    module : torch.nn.Module
        One output per row for two classes (or two), one per class for more: logits.
    loss : str or function of (logits, labels)
        Per row: a name of `LOSSES`, or a function such as `torch.nn.BCEWithLogitsLoss(reduction="none")`.
    constraints : Constraint, str, or several
    cells : Cells
    regularizers : iterable of L2, SmoothedL1, SquaredMeasure
    threshold : float
        Decisions are 1{p > threshold}.
    chunk_rows : int, optional
        Rows per chunk of a sweep; bounds the memory.  By default as many as keep a layer's activations in a cache.
    further_steps : sequence of Step
        Steps whose sums a sweep shall give beside those of the constraints and regularisers.

    Examples
    --------
    >>> from fairbound.training.models import make_model
    >>> X, y, group = torch.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> cells = Cells.build(y, group)
    >>> problem = TrainingProblem(make_model(4), "binary_cross_entropy", "disparate_impact >= 0.8", cells)
    >>> problem.evaluate(problem.rows(X)).J.shape
    (2, 5)
    """

    def __init__(
        self,
        module: nn.Module,
        loss: str | Loss | LossFunction,
        constraints: Constraint | str | Iterable[Constraint | str],
        cells: Cells,
        *,
        regularizers: Iterable[Regularizer] = (),
        threshold: float = 0.5,
        chunk_rows: int | None = None,
        further_steps: Sequence[Step] = (),
    ) -> None:
        if chunk_rows is not None and chunk_rows < 1:
            raise ValueError(f"chunk_rows={chunk_rows!r}: must be at least 1.")
        self.module = module
        self.parameters = trainable(module)
        widest = max(max(parameter.shape, default=1) for parameter in self.parameters)
        self.chunk_rows = chunk_rows or max(1024, CHUNK_NUMBERS // widest)
        self.loss = resolve_loss(loss)
        self.cells = cells
        self.regularizers = tuple(regularizers)
        for regularizer in self.regularizers:
            if not isinstance(regularizer, Regularizer):
                raise TypeError(
                    f"{regularizer!r} is not a regulariser: give L2(...), SmoothedL1(...) or SquaredMeasure(...)."
                )
        squared = [regularizer for regularizer in self.regularizers if isinstance(regularizer, SquaredMeasure)]
        self.system = ConstraintSystem.build(constraints, cells, threshold=threshold)
        self.penalties = [
            (penalty, ConstraintSystem.build(penalty.as_constraint(), cells, threshold=threshold))
            for penalty in squared
        ]
        own = [step for system in (self.system, *(system for _, system in self.penalties)) for step in system.steps]
        self.steps = [*own, *(step for step in further_steps if step not in own)]
        for step in self.steps:
            if isinstance(step.surrogate, ExactStep):
                raise ValueError('surrogate="exact" has no slope to train on: choose another, such as "smoothed_step".')
        self._engine: GradientEngine | None = None

    @property
    def threshold(self) -> float:
        """Decisions are 1{p > threshold}."""
        return self.system.threshold

    @property
    def n_parameters(self) -> int:
        """How many numbers training moves."""
        return sum(parameter.numel() for parameter in self.parameters)

    def rows(self, X: Any, *, loss_weights: Any = None) -> Rows:
        """All rows of the data in cell order, checked, in the module's own precision."""
        rows = Rows.build(X, self.cells, loss_weights=loss_weights, dtype=self.parameters[0].dtype)
        check_rows_are_independent(self.module, rows.X)
        as_logits(self.module(rows.X[:1]).detach(), self.cells.n_labels)
        return rows

    def with_constraints(
        self, constraints: Constraint | str | Iterable[Constraint | str], further_steps: Sequence[Step] = ()
    ) -> TrainingProblem:
        """Return the same problem under other constraints: the same module, moved by whichever problem is solved."""
        other = TrainingProblem(
            self.module,
            self.loss,
            constraints,
            self.cells,
            regularizers=self.regularizers,
            threshold=self.threshold,
            chunk_rows=self.chunk_rows,
            further_steps=further_steps,
        )
        other._engine = self._engine
        return other

    def evaluate(self, batch: Rows | Batch) -> Evaluation:
        """f, g, c, J and the bounds at the module's current parameters."""
        return self.evaluate_with_sweep(batch)[0]

    def evaluate_with_sweep(self, batch: Rows | Batch) -> tuple[Evaluation, Sweep]:
        """Evaluate, and keep the sweep over the rows of the loss: its logits tell the exact measures for free."""
        loss_rows, rate_rows = _parts(batch)
        sweep = self.sweep(loss_rows)
        rate_sweep = sweep if rate_rows is loss_rows else self.sweep(rate_rows)
        assert sweep.loss_gradient is not None
        value, gradient = self.regularize(loss_rows, sweep)
        c, rows, basis = self._constrain(rate_rows, rate_sweep)
        evaluation = Evaluation(
            f=sweep.loss + value,
            g=sweep.loss_gradient + gradient,
            c=c,
            J=Jacobian(rows, basis),
            lower=self.system.lower,
            upper=self.system.upper,
        )
        return evaluation, sweep

    def values(self, batch: Rows | Batch) -> tuple[float, Tensor]:
        """f and c only: forward passes without gradients."""
        loss_rows, rate_rows = _parts(batch)
        sweep = self.sweep(loss_rows, gradients=False)
        rate_sweep = sweep if rate_rows is loss_rows else self.sweep(rate_rows, gradients=False)
        value, _ = self.regularize(loss_rows, sweep)
        first = rate_sweep.sums[: len(self.system.steps)]
        return sweep.loss + value, self.system.values(cell_sums(first, rate_rows, self.cells.n_cells))

    def sweep(self, rows: Rows, *, gradients: bool = True) -> Sweep:
        """One pass over rows, in chunks."""
        if self._engine is None:
            self._engine = choose_engine(self.module, rows.X)
        size = self.n_parameters if gradients else 0
        tally = Tally(self.loss, self.steps, self.cells.n_labels, rows.n_segments, size)
        for start, stop, slices in chunks(rows, self.chunk_rows):
            chunk = Chunk(rows.labels[start:stop], rows.loss_weights[start:stop], rows.cell_weights[start:stop], slices)
            if gradients:
                cotangents = partial(tally.cotangents, chunk)
                self._engine.accumulate(rows.X[start:stop], slices, cotangents, tally.gradients)
            else:
                tally.look(chunk, self._engine.outputs(rows.X[start:stop]))
        return tally.sweep(gradients=gradients)

    def count(self, rows: Rows, decisions: Tensor) -> Tensor:
        """Sums of decisions (class indices in the order of `rows`) over cells, (K, 2·O), whatever the chunks were."""
        indicators = decision_indicators(decisions, self.cells.outcomes)
        slices = [(q, rows.offsets[q], rows.offsets[q + 1]) for q in range(rows.n_segments)]
        by_segment = segment_sums(indicators.mul_(rows.cell_weights[:, None]), slices)
        return cell_sums(by_segment[None], rows, self.cells.n_cells)[0]

    def exact(self, rows: Rows, sweep: Sweep) -> Tensor:
        """Sums of decisions over cells, (K, 2·O), from the logits of a sweep."""
        return self.count(rows, decide(sweep.logits, self.threshold))

    def current(self) -> Tensor:
        """The parameters as one float64 vector."""
        return flatten(self.parameters)

    def assign(self, w: Tensor) -> None:
        """Write a flat vector into the module."""
        assign(self.parameters, w)

    def _constrain(self, rows: Rows, sweep: Sweep) -> tuple[Tensor, Tensor, Tensor]:
        """c, and J as (∂c/∂S, ∇S)."""
        assert sweep.sum_gradients is not None
        P = len(self.system.steps)
        S = cell_sums(sweep.sums[:P], rows, self.cells.n_cells)
        c, derivative = self.system.values_and_derivative(S)
        by_segment = derivative[:, :, rows.cell_of_segment]  # a segment's sum adds to its cell's
        return c, by_segment.flatten(1), sweep.sum_gradients[:P].flatten(0, 2)

    def regularize(self, rows: Rows, sweep: Sweep) -> tuple[float, Tensor]:
        """Values of all regularisers and, where the sweep has gradients, their gradients."""
        value, gradient = 0.0, torch.zeros(self.n_parameters, dtype=torch.float64)
        w = self.current()
        for regularizer in self.regularizers:
            if not isinstance(regularizer, SquaredMeasure):
                value += regularizer.value(w)
                gradient += regularizer.gradient(w)
        start = len(self.system.steps)
        for penalty, system in self.penalties:
            part = slice(start, start + len(system.steps))
            start = part.stop
            square, pull = self._square(system, rows, sweep.sums[part], sweep.sum_gradients, part)
            value += penalty.weight * square
            gradient += penalty.weight * pull
        return value, gradient

    def _square(
        self, system: ConstraintSystem, rows: Rows, sums: Tensor, gradients: Tensor | None, part: slice
    ) -> tuple[float, Tensor]:
        """Σ_j q_j² and its gradient, without bias from a sample where q is affine in the sums.

        E[q̂²] exceeds q² by the variance of q̂.  The difference Δ_k of the two halves of cell k's n_k drawn rows, each
        scaled to the cell, tells that variance: Σ_k (a_k Δ_k)² (n'n''/n)(1/n − 1/N), with a = ∂q/∂S; it is taken off.
        """
        q, derivative = system.values_and_derivative(cell_sums(sums, rows, self.cells.n_cells))
        a = derivative[:, :, rows.cell_of_segment]  # (m, P, Q, O)
        share, contrast = _spread(rows, self.cells)
        gap = torch.einsum("mpqo,pqo,qk->mk", a, sums, contrast)  # a_k Δ_k
        value = float(q @ q - (gap * gap).sum(dim=0) @ share)
        if gradients is None:
            return value, torch.zeros(self.n_parameters, dtype=torch.float64)
        weights = torch.einsum("m,mpqo->pqo", q, a) - torch.einsum("mk,k,mpqo,qk->pqo", gap, share, a, contrast)
        return value, 2.0 * torch.einsum("pqo,pqon->n", weights, gradients[part])


def _parts(batch: Rows | Batch) -> tuple[Rows, Rows]:
    return (batch, batch) if isinstance(batch, Rows) else (batch.loss, batch.constraints)


def cell_sums(sums: Tensor, rows: Rows, n_cells: int) -> Tensor:
    """Sums of segments (P, Q, O) added up to cells (P, K, O)."""
    S = torch.zeros(sums.shape[0], n_cells, sums.shape[2], dtype=torch.float64)
    return S.index_add_(1, rows.cell_of_segment, sums)


def _spread(rows: Rows, cells: Cells) -> tuple[Tensor, Tensor]:
    """(n'n''/n)(1/n − 1/N) of each sampled cell, and what takes sums of segments to Δ: shapes (C,) and (Q, C)."""
    if not rows.halves:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(rows.n_segments, 0, dtype=torch.float64)
    halves = torch.tensor(rows.offsets).diff().reshape(-1, 2).to(torch.float64)
    drawn = halves.sum(dim=1)
    sizes = torch.bincount(cells.index, minlength=cells.n_cells)[rows.cell_of_segment[::2]].to(torch.float64)
    share = halves.prod(dim=1) / drawn * (1 / drawn - 1 / sizes)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    scaled = torch.where(halves > 0, drawn[:, None] / halves.clamp(min=1) * signs, 0.0)  # an empty half has share 0
    return share, torch.block_diag(*scaled[:, :, None])
