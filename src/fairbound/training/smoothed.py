"""The program that the solver sees: decisions smoothed by a bandwidth h, loss and error mixed by m.

    min_w  F(w; h, m) = (1 − m)·loss + m·error(S) + penalties     subject to   lower ≤ c(S) ≤ upper

S are the cell sums of Φ(t / h), with t the margin of a decision in logits: a kernel estimate of the numbers of selected
rows.  The error is linear in S, so one pass over the rows gives everything.

Second derivatives are exact for a linear layer.  With A the inputs and a column of ones,

    ∇²(F + yᵀc) = Aᵀ diag(U) A + penalties        U_i = (1 − m)·ω_i·loss''(z_i) + λ_k(i)·ω_i·(Φ(t_i / h))''

with λ = m·∂error/∂S + Σ_j y_j ∂c_j/∂S.  (The curvature of c as a function of S, which most measures do not have, is
left out.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.fairness import DecisionSurrogate, NormalStep, as_logits
from fairbound.sqp import Evaluation
from fairbound.training.assessment import Assessment, assess, history_columns
from fairbound.training.losses import CrossEntropy, SquaredMeasure
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.sweep import GRID, Sweep, add_by_segment, round_off, segment_sums

Array = NDArray[np.float64]

Watch = Callable[[Tensor, Assessment], None]

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
        self.problem = problem.with_system(problem.system.smoothed(step), (step,) if mixture else ())
        self.rows, self.step, self.mixture, self.watch = rows, step, mixture, watch
        self.lower, self.upper = problem.system.lower.numpy(), problem.system.upper.numpy()
        self.evaluations = self.value_evaluations = 0
        # The last two points: a solver evaluates the next point before it records the present one.
        self._found: deque[tuple[Array, Assessment, float | None, Evaluation]] = deque(maxlen=2)

    def initial_point(self) -> Array:
        """Return the current parameters of the module."""
        return self.problem.current().numpy()

    def evaluate(self, w: Array) -> Evaluation:
        """Return values and derivatives at w."""
        self.evaluations += 1
        self.problem.assign(torch.from_numpy(w))
        plain, sweep = self.problem.evaluate_with_sweep(self.rows)
        found = assess(self.problem, self.rows, sweep, plain.f)
        f, g, error = plain.f, plain.g, None
        if self.mixture:
            error, slope = self._error(sweep)
            assert sweep.loss_gradient is not None
            f += self.mixture * (error - sweep.loss)
            g = g + self.mixture * (slope - sweep.loss_gradient).numpy()
        evaluation = Evaluation(f, g, plain.c, plain.J, self.lower, self.upper)
        self._found.append((w, found, error, evaluation))
        if self.watch is not None:
            self.watch(torch.from_numpy(w), found)
        return evaluation

    def values(self, w: Array) -> tuple[float, Array]:
        """Return f and c at w, without derivatives."""
        f, c, _ = self.assess(w)
        return f, c

    def assess(self, w: Array) -> tuple[float, Array, Assessment]:
        """Return f, c and the assessment of the decisions at w."""
        self.value_evaluations += 1
        self.problem.assign(torch.from_numpy(w))
        sweep = self.problem.sweep(self.rows, gradients=False)
        plain = sweep.loss + self.problem.regularize(self.rows, sweep)[0]
        f = plain + self.mixture * (self._error(sweep)[0] - sweep.loss) if self.mixture else plain
        c = self.problem.constraint_values(self.rows, sweep).numpy()
        return f, c, assess(self.problem, self.rows, sweep, plain)

    def at(self, w: Array) -> tuple[Assessment, float | None, Evaluation]:
        """Return the assessment, the smoothed error and the evaluation at one of the last two points evaluated."""
        return next((a, b, c) for point, a, b, c in self._found if np.array_equal(point, w))

    def history_columns(self, w: Array, multipliers: Array) -> dict[str, Any]:
        """Return the columns of the history at w, which must be one of the last two points evaluated."""
        found, error, _ = self.at(w)
        return {"error": error, **history_columns(found, torch.from_numpy(multipliers))}

    @property
    def hessian(self) -> Callable[[Array, Array], Array] | None:
        """Return the function of (w, y) that gives the second derivatives of F + yᵀc; None if it would be slow."""
        return self._hessian if linear_layer(self.problem) is not None else None

    def _hessian(self, w: Array, multipliers: Array) -> Array:
        _, _, evaluation = self.at(w)
        self.problem.assign(torch.from_numpy(w))
        weights = torch.zeros(self.rows.n_segments, len(self.problem.cells.outcomes), dtype=torch.float64)
        if len(multipliers):
            slopes = torch.from_numpy(multipliers @ evaluation.J.rows)
            weights += slopes.reshape(-1, *weights.shape).sum(dim=0)  # one surrogate, so the sum has one term
        if self.mixture:
            weights += self.mixture * self._error_slopes()
        return curvature(self.problem, self.rows, self.step, 1.0 - self.mixture, weights).numpy()

    def _error(self, sweep: Sweep) -> tuple[float, Tensor]:
        """Return the smoothed share of wrong decisions and its gradient, from the sums over segments.

        It is (offset + Σ wrong · S) / total.  With two classes S_k is the smoothed number of rows decided positive: a
        row of label 0 is wrong if decided positive (+S), one of label 1 if not (N − S).  With more classes, S_ko is the
        number of rows decided for class o, and N − S_k,label rows are wrong.
        """
        cells, position = self.problem.cells, self.problem.surrogates.index(self.step)
        slopes, total = self._error_slopes(), float(cells.totals.sum())
        offset = float(cells.totals[1::2].sum()) / total if cells.n_labels == 2 else 1.0
        value = offset + float((slopes * sweep.sums[position]).sum())
        if sweep.sum_gradients is None:
            return value, torch.zeros(0, dtype=torch.float64)
        return value, torch.einsum("qo,qon->n", slopes, sweep.sum_gradients[position])

    def _error_slopes(self) -> Tensor:
        """Return ∂error/∂S of each segment and outcome, of shape (Q, O)."""
        cells = self.problem.cells
        labels = self.rows.cell_of_segment % cells.n_labels
        wrong = torch.zeros(len(labels), len(cells.outcomes), dtype=torch.float64)
        if cells.n_labels == 2:
            wrong[:, 0] = 1.0 - 2.0 * labels
        else:
            wrong[torch.arange(len(labels)), labels] = -1.0
        return wrong / float(cells.totals.sum())


def tightened(lower: Array, upper: Array, reserve: Array) -> tuple[Array, Array]:
    """Return bounds that are stricter by `reserve`; where that is more than half of the interval, its midpoint."""
    middle = 0.5 * (lower + upper)  # inf or NaN if a side has no bound, and then fmin and fmax ignore it
    return np.fmin(lower + reserve, middle), np.fmax(upper - reserve, middle)


def linear_layer(problem: TrainingProblem) -> nn.Linear | None:
    """Return the layer of a module that is one linear layer of few inputs, if all its derivatives are known."""
    module = problem.module
    layer = module[0] if type(module) is nn.Sequential and len(module) == 1 else module
    plain = isinstance(layer, nn.Linear) and layer.bias is not None and len(problem.parameters) == 2
    known = isinstance(problem.loss, CrossEntropy) and not any(
        isinstance(each, SquaredMeasure) for each in problem.regularizers
    )
    if not (plain and known and problem.n_parameters <= MOST_DENSE):
        return None
    assert isinstance(layer, nn.Linear)
    two_outputs = problem.cells.n_labels == 2 and layer.out_features == 2
    return None if two_outputs else layer


def curvature(
    problem: TrainingProblem, rows: Rows, step: DecisionSurrogate, loss_share: float, weights: Tensor
) -> Tensor:
    """Return ∇²(loss_share · loss + Σ weights · S + penalties) of a linear layer.

    `weights` has shape (Q, O).  Blocks of the matrix belong to pairs of outputs; the biases are its last rows.
    """
    n, outputs = problem.n_parameters, len(problem.cells.outcomes)
    width, loss = n // outputs, problem.loss
    assert isinstance(loss, CrossEntropy)
    blocks = torch.zeros(outputs, outputs, width, width, dtype=torch.float64)
    for chunk in rows.chunks(problem.chunk_rows):
        X = chunk.X.to(torch.float64)
        A = torch.cat([X, X.new_ones(len(X), 1)], dim=1)
        z = as_logits(problem.module(chunk.X).detach(), problem.cells.n_labels).to(torch.float64)
        segment = torch.cat([torch.full((stop - start,), q) for q, start, stop in chunk.slices])
        U = step.second_derivatives(z, weights[segment] * chunk.cell_weights[:, None])
        U += loss_share * chunk.loss_weights[:, None, None] * loss.second_derivatives(z)
        for a in range(outputs):
            for b in range(a + 1):
                blocks[a, b] += (A * U[:, a, b, None]).T @ A
    blocks = problem.passes.sum(blocks)
    if problem.passes.rounded:
        round_off(blocks)  # as `SweepTotals.round_off` does
    for a in range(outputs):
        for b in range(a):
            blocks[b, a] = blocks[a, b].T
    # Rows and columns by output and input, the bias as the last input; the module has all weights, then all biases.
    order = torch.arange(n).reshape(outputs, width)
    order = torch.cat([order[:, :-1].flatten(), order[:, -1]])
    H = blocks.permute(0, 2, 1, 3).reshape(n, n)[order][:, order]
    w = problem.current()
    for each in problem.regularizers:
        assert not isinstance(each, SquaredMeasure)
        H.diagonal().add_(each.curvature(w))
    return H


def bandwidths(problem: TrainingProblem, rows: Rows) -> list[float]:
    """Return the bandwidths of the continuation from the present model, from wide to narrow, by factors of at most 3.

    At the widest, half of the rows of every cell have a slope.  The narrowest is Silverman's bandwidth of a kernel
    estimate, 1.06·σ·n^(−1/5), of the group with the widest one: it balances bias and variance of the smoothed rates.
    """
    cells, n_cells = problem.cells, problem.cells.n_cells
    sums = torch.zeros(rows.n_segments, 4, dtype=torch.float64)  # of ω, ω|t|, ωt and ωt²

    def add_all() -> Tensor:
        for chunk, z in problem.logits(rows):
            t = smoothed_step(problem, 1.0).margins(z).to(torch.float64)
            each = [t.new_ones(len(t)), t.abs().amin(dim=1), t.mean(dim=1), t.square().mean(dim=1)]
            found = torch.stack(each, dim=1) * chunk.cell_weights[:, None]
            add_by_segment(sums, segment_sums(found, chunk.slices), chunk.slices)
        total = problem.passes.sum(sums)
        return round_off(total, GRID * float(cells.totals.sum())) if problem.passes.rounded else total

    found = problem.recorded(rows, add_all, "spread").reshape(sums.shape)
    by_cell = torch.zeros(n_cells, 4, dtype=torch.float64).index_add_(0, rows.cell_of_segment, found)
    by_cell /= cells.row_weight
    distance = by_cell[:, 1] / by_cell[:, 0].clamp_min(1.0)
    by_atom = by_cell.reshape(-1, cells.n_labels, 4).sum(dim=1)
    least = 0.0
    for grouping in dict.fromkeys(block.grouping for block in problem.system.blocks):
        count, _, first, second = (grouping.membership[:-1].to(torch.float64) @ by_atom).T
        count = count.clamp_min(1.0)
        spread = (second / count - (first / count).square()).clamp_min(0.0).sqrt()
        least = max(least, float((SILVERMAN * spread * count**-0.2).max()))
    least = max(least, NARROWEST)
    widest = max(float(distance.max()) / FIRST_SHARE, least)
    steps = math.ceil(math.log(widest / least) / math.log(FACTOR) - 1e-9)
    return [least * (widest / least) ** (1.0 - place / steps) for place in range(steps)] + [least]
