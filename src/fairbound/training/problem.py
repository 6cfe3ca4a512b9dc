"""The training problem: a loss with regularisers under fairness constraints (paper, section "Training Problem ...").

    min_w  Σ_i loss_weight_i · ℓ(z_i(w), y_i) + Σ r(w)     subject to   lower ≤ c(w) ≤ upper,   c(w) = A · r(S(w))

One sweep over the rows gives the loss, its gradient, all cell sums S and their gradients ∇S.  Everything else is small.
The Jacobian J = (∂c/∂S) · ∇S is kept as these two factors.  Everything is a sum over rows, so a sweep runs in chunks,
which bounds the memory.  The size of the chunks changes results by rounding errors only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairbound._errors import InputError
from fairbound.fairness import (
    Cells,
    Constraint,
    ConstraintSystem,
    DecisionSurrogate,
    ExactStep,
    LimitValues,
    RowFunction,
    as_constraints,
    as_logits,
)
from fairbound.sqp import Evaluation, Jacobian
from fairbound.training.chunks import Chunk, Floats
from fairbound.training.losses import LossFunction, RowLoss, resolve_loss
from fairbound.training.model import Model, as_model
from fairbound.training.passes import Passes
from fairbound.training.regularizers import LinearTerm, Regularizer, SquaredMeasure
from fairbound.training.rows import Rows, as_matrix, as_numbers
from fairbound.training.sweep import Sweep, SweepTotals, cell_sums, sampling_variance

CHUNK_NUMBERS = 2**21
"""Activations of a layer in one chunk, by default: few enough for a cache, enough to make call overhead negligible."""


@dataclass(frozen=True)
class Batch:
    """Rows for the loss and rows for the constraints: the same, or a mini-batch and a fixed subset."""

    loss: Rows
    constraints: Rows


class TrainingProblem:
    """A model, a loss, constraints and regularisers on given cells.

    Parameters
    ----------
    model : LinearModel, or torch.nn.Module
        Emits logits: one (or two) per row for two classes, one per class for more.
    loss : str or function of (logits, labels)
        Name in `LOSSES`, or a function with one value per row, such as `torch.nn.BCEWithLogitsLoss(reduction="none")`.
    constraints : Constraint, str, or several
    cells : Cells
    regularizers : iterable of L2, SmoothedL1, SquaredMeasure
    threshold : float
        Decisions are 1{p > threshold}.
    chunk_rows : int, optional
        Rows per chunk of a sweep.  By default as many as keep a layer's activations in a cache.
    passes : Passes, optional
        Where the totals of passes over all rows come from; by default from the rows.

    Examples
    --------
    >>> from fairbound.training import LinearModel
    >>> X, y, group = np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> cells = Cells.build(y, group)
    >>> problem = TrainingProblem(LinearModel(4), "binary_cross_entropy", "disparate_impact >= 0.8", cells)
    >>> problem.evaluate(problem.rows(X)).J.shape
    (2, 5)
    """

    def __init__(
        self,
        model: Any,
        loss: str | RowLoss | LossFunction,
        constraints: Constraint | str | Iterable[Constraint | str],
        cells: Cells,
        *,
        regularizers: Iterable[Regularizer] = (),
        threshold: float = 0.5,
        chunk_rows: int | None = None,
        passes: Passes | None = None,
    ) -> None:
        if chunk_rows is not None and chunk_rows < 1:
            raise ValueError(f"chunk_rows={chunk_rows!r}: must be at least 1.")
        self.model, self.passes = as_model(model), Passes(rounded=False) if passes is None else passes
        self.chunk_rows = chunk_rows or max(1024, CHUNK_NUMBERS // self.model.width)
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
        self.surrogates = self._all_surrogates()
        self.error: tuple[DecisionSurrogate, float] | None = None
        self.n_rows = int(cells.sizes.sum())

    def _all_surrogates(self) -> list[RowFunction]:
        """Return the surrogates of the constraints, and those of the penalties."""
        systems = (self.system, *(system for _, system in self.penalties))
        found = [each for system in systems for each in system.functions(self.loss)]
        if any(isinstance(each, DecisionSurrogate) and isinstance(each.surrogate, ExactStep) for each in found):
            raise InputError(
                "{surrogate='exact'} has a derivative of zero, so no model can be trained with it.",
                "Choose another, such as 'smoothed_step'.",
            )
        return found

    @property
    def n_parameters(self) -> int:
        """Return the number of parameters."""
        return self.model.n_parameters

    @property
    def module(self) -> Any:
        """Return the torch module; only a problem of a network has one."""
        return self._of_network("module")

    @property
    def parameters(self) -> Any:
        """Return the parameters of the torch module that are trained, for an optimiser such as `StochasticSQP`."""
        return self._of_network("parameters")

    def _of_network(self, name: str) -> Any:
        if not hasattr(self.model, name):
            raise AttributeError(
                f"The problem of a {type(self.model).__name__} has no {name}: give TrainingProblem a torch.nn.Module."
            )
        return getattr(self.model, name)

    @property
    def threshold(self) -> float:
        """Decisions are 1{p > threshold}."""
        return self.system.threshold

    def inputs(self, X: Any, dtype: DTypeLike | None = None) -> Any:
        """Return X with a row for each row of the cells, in the precision of the model by default.

        Whole numbers stay integers if the model accepts nothing else, as `nn.Embedding` does.
        """
        given = as_numbers(X)
        return self.model.inputs(given, as_matrix(given, len(self.cells), dtype or self.model.dtype))

    def rows(self, X: Any, *, loss_weights: Any = None, batches: bool = False) -> Rows:
        """Return all rows of the data in cell order, checked, in the precision of the model.

        With `batches`, the rows are for mini-batches.  Then layers such as Dropout and BatchNorm are allowed, since
        constraints are evaluated in evaluation mode.
        """
        given = as_numbers(X)
        rows = Rows.build(self.inputs(given), self.cells, loss_weights=loss_weights, dtype=None, given=given)
        self.check_rows(rows, batches=batches)
        return rows

    def check_rows(self, rows: Rows, *, batches: bool = False) -> None:
        """Raise an error unless the model accepts these rows, and its output for a row depends on that row only."""
        with self.model.evaluating() if batches else nullcontext():
            self.model.check(rows.probe())
            as_logits(self.model.outputs(rows.probe(1)), self.cells.n_labels)

    def batch(self, inputs: Any, labels: Any, groups: Any) -> Rows:
        """Return rows of your own batch, such as one of a `torch.utils.data.DataLoader`.

        Parameters
        ----------
        inputs : array of shape (n, ...)
            Given to the model as they are.
        labels : sequence of n labels
        groups : sequence of n groups or, with several sensitive columns, a mapping from names to such sequences
        """
        return Rows.from_batch(as_numbers(inputs), labels, groups, self.cells)

    def with_constraints(self, constraints: Constraint | str | Iterable[Constraint | str]) -> TrainingProblem:
        """Return the same problem under other constraints; both problems share the model."""
        stated, system = as_constraints(constraints), self.system
        if stated != system.constraints:
            system = ConstraintSystem.build(stated, self.cells, threshold=self.threshold)
        return self.with_system(system)

    def with_system(
        self, system: ConstraintSystem, error: tuple[DecisionSurrogate, float] | None = None
    ) -> TrainingProblem:
        """Return the same problem under constraints that are compiled for its cells.

        `error` is a smoothed decision and m: the objective is then (1 − m)·loss + m·(share of wrong decisions).
        """
        other = copy.copy(self)
        other.system, other.error = system, error
        other.surrogates = other._all_surrogates()
        return other

    def with_model(self, model: Model, regularizers: Sequence[Regularizer] | None = None) -> TrainingProblem:
        """Return the same problem for another model."""
        other = copy.copy(self)
        other.model = model
        other.regularizers = self.regularizers if regularizers is None else tuple(regularizers)
        return other

    def evaluate(self, batch: Rows | Batch) -> Evaluation:
        """Return f, g, c, J and the bounds at the model's current parameters."""
        return self.evaluate_with_sweep(batch)[0]

    def evaluate_with_sweep(self, batch: Rows | Batch) -> tuple[Evaluation, Sweep]:
        """Return the evaluation and the sweep over the rows of the loss, whose decisions give the exact measures.

        For a `Batch`, the loss is that of the module in its present mode, by one pass over the rows of the loss.  So
        Dropout drops units and BatchNorm learns its statistics.  The constraints are evaluated in evaluation mode.
        """
        loss_rows, rate_rows = _parts(batch)
        with self.model.evaluating() if isinstance(batch, Batch) else nullcontext():
            sweep = self.sweep(loss_rows)
            rate_sweep = sweep if rate_rows is loss_rows else self.sweep(rate_rows)
        if isinstance(batch, Batch) and self.model.has_modes:
            loss, gradient = self._loss_in_present_mode(loss_rows)
            sweep = replace(sweep, loss=loss, objective=loss, loss_gradient=gradient)
        assert sweep.loss_gradient is not None
        value, gradient = self.regularize(loss_rows, sweep)
        c, J, judged = self._constraints_and_jacobian(rate_rows, rate_sweep)
        lower, upper = self.system.lower, self.system.upper
        g = sweep.loss_gradient + gradient
        evaluation = Evaluation(sweep.objective + value, g, c, J, lower, upper)
        return evaluation, replace(sweep, judged=judged) if rate_sweep is sweep else sweep

    def values(self, batch: Rows | Batch) -> tuple[float, NDArray[np.float64]]:
        """Return f and c, without gradients."""
        loss_rows, rate_rows = _parts(batch)
        with self.model.evaluating() if isinstance(batch, Batch) else nullcontext():
            sweep = self.sweep(loss_rows, gradients=False)
            rate_sweep = sweep if rate_rows is loss_rows else self.sweep(rate_rows, gradients=False)
        value, _ = self.regularize(loss_rows, sweep)
        return sweep.objective + value, self.constraint_values(rate_rows, rate_sweep)

    def constraint_values(self, rows: Rows, sweep: Sweep) -> Floats:
        """Return c from a sweep."""
        if not self.system.surrogates:
            return np.zeros(0)
        return self.system.values(cell_sums(sweep.sums[: len(self.system.surrogates)], rows, self.cells.n_cells))

    def sweep(self, rows: Rows, *, gradients: bool = True) -> Sweep:
        """Pass over the rows once, in chunks."""
        totals = self._totals(rows, self.surrogates, gradients=gradients)

        for chunk in rows.chunks(self.chunk_rows):
            if gradients:
                add = partial(totals.add_with_cotangents, chunk)
                self.model.accumulate(chunk.X, chunk.slices, add, totals.gradients)
            else:
                totals.add(chunk, self.model.outputs(chunk.X))
        totals.flat[:] = self.passes.sum(totals.flat)
        if self.passes.rounded:
            totals.round_off()
        return totals.sweep(gradients=gradients)

    def logits(self, rows: Rows) -> Iterator[tuple[Chunk, NDArray[Any]]]:
        """Pass over the rows once, and yield each chunk with its logits."""
        for chunk in rows.chunks(self.chunk_rows):
            yield chunk, as_logits(self.model.outputs(chunk.X), self.cells.n_labels)

    def _totals(self, rows: Rows, surrogates: Sequence[RowFunction], *, gradients: bool) -> SweepTotals:
        return SweepTotals(
            self.loss,
            surrogates,
            self.cells.outcomes,
            rows,
            threshold=self.threshold,
            n_parameters=self.n_parameters if gradients else 0,
            error=self.error,
        )

    def _loss_in_present_mode(self, rows: Rows) -> tuple[float, Floats]:
        """Return loss and gradient by one forward pass over all rows, in the present mode of the model."""
        totals = self._totals(rows, (), gradients=True)
        for chunk in rows.chunks(max(1, len(rows))):  # one chunk; none if this process has no row of the batch
            whole = replace(chunk, slices=[(0, 0, len(chunk.labels))])
            cotangents = partial(totals.add_with_cotangents, whole)
            self.model.accumulate_in_present_mode(chunk.X, whole.slices, cotangents, totals.gradients)
        found = self.passes.sum(np.concatenate([totals.loss, totals.gradients[0, 0]]))
        return float(found[0]), found[len(totals.loss) :]

    def exact(self, rows: Rows, sweep: Sweep) -> Floats:
        """Return sums of decisions over cells, (K, 2·O), from a sweep."""
        return cell_sums(sweep.counts[None], rows, self.cells.n_cells)[0]

    def exact_sums(self, rows: Rows, sweep: Sweep) -> Floats:
        """Return the sums by which the limits are judged: of decisions or, if there are other functions, of each."""
        if sweep.exact is None:
            return self.exact(rows, sweep)
        return cell_sums(sweep.exact[: len(self.system.surrogates)], rows, self.cells.n_cells)

    def constant_accuracies(self, rows: Rows) -> list[float]:
        """Return the accuracy of each constant decision; of a regression, minus the loss of the prediction 0."""
        if self.cells.n_labels > 1:
            # Some rows, such as those of a fold, lack the last classes.
            return [*rows.class_weights.tolist(), *[0.0] * (self.cells.n_labels - len(rows.class_weights))]
        parts = (
            self.loss.values(np.zeros((len(chunk.labels), 1)), chunk.labels) @ chunk.loss_weights
            for chunk in rows.chunks(self.chunk_rows)
        )
        return [-float(sum(parts))]

    def current(self) -> Floats:
        """Return the parameters as one flat float64 vector."""
        return self.model.current()

    def assign(self, w: Floats) -> None:
        """Write a flat vector into the model."""
        self.model.assign(np.asarray(w, dtype=np.float64))

    def _constraints_and_jacobian(self, rows: Rows, sweep: Sweep) -> tuple[Floats, Jacobian, LimitValues | None]:
        """Return c, J as (∂c/∂S, ∇S) by segment, and the values of all limits; None if there are no limits."""
        assert sweep.sum_gradients is not None
        P = len(self.system.surrogates)
        gradients = sweep.sum_gradients[:P]
        gradients = gradients.reshape(math.prod(gradients.shape[:3]), self.n_parameters)
        if not P:
            return np.zeros(0), Jacobian(np.zeros((0, 0)), gradients), None
        lacking = int((self.cells.totals > 0).sum()) - len(np.unique(rows.cell_of_segment))
        if lacking > 0:
            raise ValueError(
                f"{lacking} of the (group, label) cells have no row among those of the constraints, so their rates are "
                "unknown. Evaluate the constraints on more rows: Batch(loss_rows, constraint_rows)."
            )
        S = cell_sums(sweep.sums[:P], rows, self.cells.n_cells)
        if rows.halves:  # a sample: its exact values are not needed
            judged = None
            c, derivative = self.system.values_and_derivative(S)
        else:
            judged, derivative = self.system.evaluate(S, self.exact_sums(rows, sweep))
            c = judged.surrogate
        by_segment = derivative[:, :, rows.cell_of_segment]  # S_k is the sum over the segments of cell k
        return c, Jacobian(by_segment.reshape(len(c), len(gradients)), gradients), judged

    def regularize(self, rows: Rows, sweep: Sweep) -> tuple[float, Floats]:
        """Return the value of all regularisers and, if the sweep has gradients, its gradient."""
        value, gradient = 0.0, np.zeros(self.n_parameters)
        w, of_loss = self.current(), 1.0 if self.error is None else 1.0 - self.error[1]
        for regularizer in self.regularizers:
            if not isinstance(regularizer, SquaredMeasure):
                share = of_loss if isinstance(regularizer, LinearTerm) else 1.0
                value += share * regularizer.value(w)
                if sweep.loss_gradient is not None:
                    gradient += share * regularizer.gradient(w)
        start = len(self.system.surrogates)
        for penalty, system in self.penalties:
            part = slice(start, start + len(system.surrogates))
            start = part.stop
            square, square_gradient = self._square(system, rows, sweep.sums[part], sweep.sum_gradients, part)
            value += penalty.weight * square
            gradient += penalty.weight * square_gradient
        return value, gradient

    def _square(
        self, system: ConstraintSystem, rows: Rows, sums: Floats, gradients: Floats | None, part: slice
    ) -> tuple[float, Floats]:
        """Return Σ_j q_j² and its gradient; from a sample, both are unbiased if q is affine in the sums.

        E[q̂²] exceeds q² by Var(q̂) = Σ_k a_k² Var(Ŝ_k), with a = ∂q/∂S.  An unbiased estimate of it is subtracted.  The
        estimate Ŝ_k from n of the cell's N rows has the variance N²σ²(1/n − 1/N), with σ² the variance of a row.  Let
        Δ_k be the difference of the two halves of the sample (n' and n'' rows), each scaled to the cell.  It has the
        expected square E[Δ_k²] = N²σ²(1/n' + 1/n'') = N²σ² n/(n'n'').  So Δ_k² (n'n''/n)(1/n − 1/N) estimates Var(Ŝ_k).
        """
        q, derivative = system.values_and_derivative(cell_sums(sums, rows, self.cells.n_cells))
        a = derivative[:, :, rows.cell_of_segment]  # (m, P, Q, O)
        share, contrast = sampling_variance(rows, self.cells)
        gap = np.einsum("mpqo,pqo,qk->mk", a, sums, contrast)  # a_k Δ_k
        value = float(q @ q - (gap * gap).sum(axis=0) @ share)
        if gradients is None:
            return value, np.zeros(self.n_parameters)
        weights = np.einsum("m,mpqo->pqo", q, a) - np.einsum("mk,k,mpqo,qk->pqo", gap, share, a, contrast)
        return value, 2.0 * np.einsum("pqo,pqon->n", weights, gradients[part])


def _parts(batch: Rows | Batch) -> tuple[Rows, Rows]:
    return (batch, batch) if isinstance(batch, Rows) else (batch.loss, batch.constraints)
