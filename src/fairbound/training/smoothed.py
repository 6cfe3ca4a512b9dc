"""The program that the solver sees: decisions smoothed by a bandwidth h, loss and error mixed by m.

    min_w  F(w; h, m) = (1 − m)·loss + m·error + penalties     subject to   lower ≤ c(S) ≤ upper

S are the cell sums of Φ(t / h), with t the margin of a decision in logits: a kernel estimate of the numbers of selected
rows.  The error is the share of wrong decisions, smoothed alike, by the weights of the rows in the loss.

Second derivatives are exact for a linear layer.  With A the inputs and a column of ones,

    ∇²(F + yᵀc) = Aᵀ diag(U) A + penalties
    U_i = (1 − m)·ω_i·loss''(z_i) + m·ω_i·error''(z_i) + λ_k(i)·ω_i·(Φ(t_i / h))''

with λ = Σ_j y_j ∂c_j/∂S.  (The curvature of c as a function of S, which most measures do not have, is
left out.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness import DecisionSurrogate, NormalStep
from fairbound.sqp import Evaluation
from fairbound.training.assessment import Assessment, assess, history_columns
from fairbound.training.model import LinearModel
from fairbound.training.problem import TrainingProblem
from fairbound.training.regularizers import SquaredMeasure
from fairbound.training.rows import Rows
from fairbound.training.sweep import GRID, cell_sums, error_slopes, round_off

Array = NDArray[np.float64]

Watch = Callable[[Array, Assessment], None]

MOST_DENSE = 400
"""Parameters up to which second derivatives are computed; beyond, factoring the matrix takes longer than a pass."""

FIRST_SHARE = 1.5
"""Mean |t| of a cell over the first bandwidth.  Rows at 1.5 bandwidths still have a third of the largest slope."""

SILVERMAN = 1.06
"""(4/3)^(1/5), the factor of Silverman's bandwidth for normal densities (Density Estimation, 1986, section 3.4.2)."""

FACTOR = 3.0
"""Largest factor from one bandwidth to the next."""

NARROWEST = 1e-3
"""Least bandwidth, where all margins are equal."""


def smoothed_step(problem: TrainingProblem, bandwidth: float) -> DecisionSurrogate:
    """Return Φ((z − logit(threshold)) / bandwidth), or the same of each class's lead over its best rival."""
    return DecisionSurrogate(NormalStep(1.0 / bandwidth), "logit", problem.threshold)


class SmoothedProgram:
    """The program on given rows, as a `Problem` for the solver.

    Parameters
    ----------
    problem : TrainingProblem
        Its constraints are the limits; their own surrogates are not used.
    rows : Rows
    bandwidth : float
        h, in logits.
    mixture : float
        m in [0, 1): 0 minimises the loss alone.
    watch : function of (w, assessment), optional
        Called at every evaluation with derivatives.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        rows: Rows,
        bandwidth: float,
        mixture: float = 0.0,
        watch: Watch | None = None,
    ) -> None:
        step = smoothed_step(problem, bandwidth)
        self.problem = problem.with_system(problem.system.smoothed(bandwidth), (step, mixture) if mixture else None)
        self.rows, self.step, self.mixture, self.watch = rows, step, mixture, watch
        self.lower, self.upper = problem.system.lower, problem.system.upper
        self.evaluations = self.value_evaluations = 0
        # The last two points: a solver evaluates the next point before it records the present one.
        self._found: deque[tuple[Array, Assessment, float | None, Evaluation]] = deque(maxlen=2)

    def initial_point(self) -> Array:
        """Return the current parameters of the model."""
        return self.problem.current()

    def evaluate(self, w: Array) -> Evaluation:
        """Return values and derivatives at w."""
        self.evaluations += 1
        self.problem.assign(w)
        evaluation, sweep = self.problem.evaluate_with_sweep(self.rows)
        found = assess(self.problem, self.rows, sweep, evaluation.f + sweep.loss - sweep.objective)
        self._found.append((w, found, sweep.error if self.mixture else None, evaluation))
        if self.watch is not None:
            self.watch(w, found)
        return evaluation

    def values(self, w: Array) -> tuple[float, Array]:
        """Return f and c at w, without derivatives."""
        self.value_evaluations += 1
        self.problem.assign(w)
        return self.problem.values(self.rows)

    def at(self, w: Array) -> tuple[Assessment, float | None, Evaluation]:
        """Return the assessment, the smoothed error and the evaluation at one of the last two points evaluated."""
        return next((a, b, c) for point, a, b, c in self._found if np.array_equal(point, w))

    def history_columns(self, w: Array, multipliers: Array) -> dict[str, Any]:
        """Return the columns of the history at w, which must be one of the last two points evaluated."""
        found, error, _ = self.at(w)
        return {"error": error, **history_columns(found, multipliers)}

    @property
    def hessian(self) -> Callable[[Array, Array], Array] | None:
        """Return the function of (w, y) that gives the second derivatives of F + yᵀc; None if it would be slow."""
        return self._hessian if has_curvature(self.problem) else None

    def _hessian(self, w: Array, multipliers: Array) -> Array:
        _, _, evaluation = self.at(w)
        self.problem.assign(w)
        weights = np.zeros((len(self.problem.surrogates), self.rows.n_segments, len(self.problem.cells.outcomes)))
        if len(multipliers):
            weights += (multipliers @ evaluation.J.rows).reshape(weights.shape)
        return curvature(self.problem, self.rows, self.step, self.mixture, weights)


def tightened(lower: Array, upper: Array, reserve: Array) -> tuple[Array, Array]:
    """Return bounds that are stricter by `reserve`; where that is more than half of the interval, its midpoint."""
    middle = 0.5 * (lower + upper)  # inf or NaN if a side has no bound, and then fmin and fmax ignore it
    return np.fmin(lower + reserve, middle), np.fmax(upper - reserve, middle)


def has_curvature(problem: TrainingProblem) -> bool:
    """Return whether the model is linear in few inputs, and all second derivatives are known."""
    model = problem.model
    if not isinstance(model, LinearModel) or problem.n_parameters > MOST_DENSE:
        return False
    known = hasattr(problem.loss, "second_derivatives") and not any(
        isinstance(each, SquaredMeasure) for each in problem.regularizers
    )
    return known and model.n_outputs == len(problem.cells.outcomes)


def curvature(problem: TrainingProblem, rows: Rows, step: DecisionSurrogate, mixture: float, weights: Array) -> Array:
    """Return ∇²((1 − mixture) · loss + mixture · error + Σ weights · S + penalties) of a linear model.

    `weights` has shape (P, Q, O).  Blocks of the matrix belong to pairs of outputs; the biases are its last rows.
    """
    n, outputs = problem.n_parameters, len(problem.cells.outcomes)
    width, model = n // outputs, problem.model
    loss: Any = problem.loss
    assert isinstance(model, LinearModel)
    blocks = np.zeros((outputs, outputs, width, width))
    for chunk, found in problem.logits(rows):
        z = found.astype(np.float64, copy=False)
        by_row = weights[:, chunk.segment_of_row] * chunk.cell_weights[:, None]
        U = np.zeros((*z.shape, outputs))
        for function, each in zip(problem.surrogates, by_row, strict=True):
            if mixture and function == step:
                each += mixture * chunk.loss_weights[:, None] * error_slopes(chunk.labels, outputs)
            U += function.second_derivatives(z, each, chunk.labels)
        if mixture and step not in problem.surrogates:
            errors = mixture * chunk.loss_weights[:, None] * error_slopes(chunk.labels, outputs)
            U += step.second_derivatives(z, errors)
        U += (1.0 - mixture) * chunk.loss_weights[:, None, None] * loss.second_derivatives(z, chunk.labels)
        model.add_curvature(chunk.X, U, blocks)
    blocks = problem.passes.sum(blocks)
    if problem.passes.rounded:
        round_off(blocks)  # as `SweepTotals.round_off` does
    for a in range(outputs):
        for b in range(a):
            blocks[b, a] = blocks[a, b].T
    # Rows and columns by output and input, the bias as the last input; the model has all weights, then all biases.
    order = np.arange(n).reshape(outputs, width)
    order = np.concatenate([order[:, :-1].reshape(-1), order[:, -1]])
    H = blocks.transpose(0, 2, 1, 3).reshape(n, n)[np.ix_(order, order)]
    w = problem.current()
    for each in problem.regularizers:
        assert not isinstance(each, SquaredMeasure)
        H[np.diag_indices(n)] += each.curvature(w)
    return H


def bandwidths(problem: TrainingProblem, rows: Rows) -> list[float]:
    """Return the bandwidths of the continuation from the present model, from wide to narrow, by factors of at most 3.

    At the widest, half of the rows of every cell have a slope.  The narrowest is Silverman's bandwidth of a kernel
    estimate, 1.06·σ·n^(−1/5), of the largest group: most decisions are about its rows, and the width of a group of
    thirty rows would blur them all.
    """
    cells, n_cells = problem.cells, problem.cells.n_cells
    sums = np.zeros((rows.n_segments, 4))  # of ω, ω|t|, ωt and ωt²

    for chunk, z in problem.logits(rows):
        t = smoothed_step(problem, 1.0).margins(z).astype(np.float64, copy=False)
        each = [np.ones(len(t)), np.abs(t).min(axis=1), t.mean(axis=1), np.square(t).mean(axis=1)]
        chunk.add_sums(sums, np.stack(each, axis=1) * chunk.cell_weights[:, None])
    sums = problem.passes.sum(sums)
    if problem.passes.rounded:
        round_off(sums, GRID * float(cells.totals.sum()))
    by_cell = cell_sums(sums[None], rows, n_cells)[0] / cells.row_weight
    distance = by_cell[:, 1] / np.maximum(by_cell[:, 0], 1.0)
    by_atom = by_cell.reshape(-1, cells.n_labels, 4).sum(axis=1)
    least = 0.0
    for grouping in dict.fromkeys(block.grouping for block in problem.system.blocks):
        count, _, first, second = (grouping.membership[:-1] @ by_atom).T
        count = np.maximum(count, 1.0)
        spread = np.sqrt(np.maximum(second / count - np.square(first / count), 0.0))
        largest = int(count.argmax())
        least = max(least, float(SILVERMAN * spread[largest] * count[largest] ** -0.2))
    least = max(least, NARROWEST)
    widest = max(float(distance.max()) / FIRST_SHARE, least)
    steps = math.ceil(math.log(widest / least) / math.log(FACTOR) - 1e-9)
    return [least * (widest / least) ** (1.0 - place / steps) for place in range(steps)] + [least]
