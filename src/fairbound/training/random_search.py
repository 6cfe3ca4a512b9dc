"""Random search among models of few parameters, on few rows.

With few rows every decision makes the exact measures jump.  A solve that follows derivatives then ends in one of many
local minima, and rounding errors can decide in which.  But a small model is evaluated in microseconds, so thousands of
models can be tried.  From each starting point:

1. Covariance matrix adaptation (CMA-ES) draws models from a normal distribution, and moves it towards the best half of
   them.  N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772, figure 6.
2. Further models are drawn around the best one that keeps the limits, at smaller and smaller distances.

The starting points are the model without limits, and the same model with its output shifted so that it decides for
each class more often.  Shifts are needed because there are two ways to keep a ratio of rates: select more rows, or
change the weights of the inputs.  Small steps do not lead from one to the other.  The starting points are rounded, so
that rounding errors do not change what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from fairbound.fairness import as_logits, decide, logit
from fairbound.sqp import violations
from fairbound.training.assessment import ROUNDING, history_columns
from fairbound.training.candidates import output_layer
from fairbound.training.effort import is_small
from fairbound.training.layers import FeedForwardGradients
from fairbound.training.losses import SquaredMeasure
from fairbound.training.passes import Chunk, tensor_digest
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.state import FitState
from fairbound.training.sweep import GRID

FEW_PARAMETERS = 20
"""Most parameters for a random search: in more dimensions it needs too many draws."""

POPULATION = 40
GENERATIONS = 40
"""Generations of covariance matrix adaptation; the same number is added for every four parameters."""

MOST_GENERATIONS = 120

FIRST_DISTANCE = 0.5
"""First standard deviation of the draws, relative to the root mean square of the starting point."""

NEGLIGIBLE = 1e-4
"""The adaptation ends when the draws lie this close together, relative to the first ones."""

NEARBY_ROUNDS = 30
NEARBY_DRAWS = 128
NEARER = 0.8
"""Factor on the distance after a round that found no better model."""

IN_VAIN = 2
"""If no model keeps the limits after this many starts, they probably exclude each other, and the search ends."""

LITTLE_GAIN = 1e-3
"""A possible relative gain in the objective below this is not worth a search."""

FEW_ROWS = 0.01
"""Small random changes of a model are tried if it violates the limits by at most this."""

KEPT_DRAWS = 16

SHIFTED_SHARES = (0.8, 0.95)
"""Shares of the rows for which a shifted starting point decides for a class."""

PENALTY = 10.0
"""Penalty of the violation, relative to the objective without limits.  It is raised tenfold if it proves too small."""

SIGNIFICANT = 2.0**13
"""Starting points are rounded to multiples of their size divided by this."""


@dataclass(frozen=True)
class ManyPoints:
    """The parameters of several models, shown by their digest."""

    W: Tensor

    def __str__(self) -> str:
        return tensor_digest(self.W).hex()

    __repr__ = __str__


@dataclass(frozen=True)
class ManyModels:
    """Objectives, errors and violations of several models on all rows; each field has one entry per model."""

    W: Tensor
    objective: Tensor
    error: Tensor
    violation: Tensor


Merit = Callable[[ManyModels, float], Tensor]


class ManyModelsProblem:
    """The training problem as a function of many parameter vectors at once, without derivatives.

    Conventions: B models, n rows, D outputs, K cells, O outcomes.
    """

    def __init__(self, problem: TrainingProblem, rows: Rows) -> None:
        self.problem, self.rows = problem, rows
        self.calls = 0
        self._only: tuple[Chunk, Tensor] | None = None  # if there is one chunk, it is prepared once
        if len(rows) <= problem.chunk_rows:
            (self._only,) = self._chunks()

    def __call__(self, W: Tensor, *, only_kept: bool = False) -> ManyModels:
        """Evaluate models with parameters W, (B, parameters); with `only_kept`, drop those that violate a limit."""
        self.calls += 1
        evaluate = partial(self._evaluate, W, only_kept=only_kept)
        limits = self.problem.system.constraints
        found = self.problem.recorded(self.rows, evaluate, "models", ManyPoints(W), only_kept, limits)
        violation, (objective, error) = found[: len(W)], found[len(W) :].reshape(2, -1)
        if only_kept:
            W, violation = W[violation <= ROUNDING], violation[violation <= ROUNDING]
        return ManyModels(W, objective, error, violation)

    def _evaluate(self, W: Tensor, *, only_kept: bool) -> Tensor:
        """Return all violations, and objectives and errors of the models that are not dropped, as one vector."""
        system, cells = self.problem.system, self.problem.cells
        sums = torch.zeros(len(W), cells.n_cells, len(cells.outcomes), dtype=torch.float64)
        for chunk, cell_weights in self._chunks():
            z, decisions = self._decide(W, chunk)
            chosen = torch.stack([decisions == each for each in cells.outcomes]).to(torch.float64)
            sums += (chosen @ cell_weights).permute(1, 2, 0)  # (B, K, O)
        sums = self.problem.passes.sum(sums)
        exact = system.values(sums[:, None].expand(-1, len(system.surrogates), -1, -1))
        violation = violations(exact, system.lower, system.upper).sum(dim=1)
        if only_kept:
            kept = violation <= ROUNDING
            W, z, decisions = W[kept], z[kept], decisions[kept]
            if not len(W):
                return violation
        objective, error = torch.zeros(2, len(W), dtype=torch.float64)
        for chunk, _ in self._chunks():
            if self._only is None:
                z, decisions = self._decide(W, chunk)
            labels = chunk.labels.expand(len(W), -1)
            losses = self.problem.loss.values(z.flatten(0, 1), labels.flatten()).to(torch.float64)
            objective += losses.reshape(labels.shape) @ chunk.loss_weights
            error += (decisions != labels).to(torch.float64) @ chunk.loss_weights
        objective, error = self.problem.passes.sum(torch.stack([objective, error]))
        if self.problem.passes.processes is not None:
            objective, error = ((each / GRID).round() * GRID for each in (objective, error))
        for regularizer in self.problem.regularizers:
            assert not isinstance(regularizer, SquaredMeasure)
            objective = objective + regularizer.values(W)
        return torch.cat([violation, objective, error])

    def _chunks(self) -> Iterator[tuple[Chunk, Tensor]]:
        """Yield each chunk, and the weights of its rows in their cells, (n, K)."""
        if self._only is not None:
            yield self._only
            return
        cells = self.rows.cell_of_segment.tolist()
        for chunk in self.rows.chunks(self.problem.chunk_rows):
            weights = torch.zeros(len(chunk.X), self.problem.cells.n_cells, dtype=torch.float64)
            for segment, start, stop in chunk.slices:
                weights[start:stop, cells[segment]] = chunk.cell_weights[start:stop]
            yield chunk, weights

    def _decide(self, W: Tensor, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """Return the logits (B, n, D) and the decisions (B, n) of all models."""
        z = self._logits(W, chunk.X)
        return z, decide(z.flatten(0, 1), self.problem.threshold).reshape(len(W), -1)

    def _logits(self, W: Tensor, X: Tensor) -> Tensor:
        """Return the logits of all models for some rows, (B, n, D)."""
        module = self.problem.module
        if not (FeedForwardGradients.fits(module) and all(each.requires_grad for each in module.parameters())):
            outputs = []
            with torch.no_grad():
                for w in W:
                    self.problem.assign(w)
                    outputs.append(as_logits(module(X), self.problem.cells.n_labels))
            return torch.stack(outputs)
        assert isinstance(module, nn.Sequential)
        values, remaining = X.T, W.to(X.dtype)  # values have a column for each row of X
        for layer in module:
            if isinstance(layer, nn.Linear):
                size, width = layer.weight.numel(), layer.out_features
                weight, bias, remaining = remaining.tensor_split((size, size + width), dim=1)
                if values.ndim == 2:  # the first layer: one product for all models
                    values = (weight.reshape(-1, layer.in_features) @ values).unflatten(0, (-1, width))
                else:
                    values = weight.unflatten(1, layer.weight.shape) @ values
                values = values + bias[:, :, None]
            else:
                values = leaky_relu(values, getattr(layer, "negative_slope", 0.0))
        z = values.transpose(1, 2)
        return as_logits(z.flatten(0, 1), self.problem.cells.n_labels).unflatten(0, (len(W), -1))


def suits_random_search(state: FitState, problem: TrainingProblem) -> bool:
    """Return whether the effort allows several starts, and rows and parameters are few."""
    few = problem.n_parameters <= FEW_PARAMETERS and is_small(problem.n_rows, problem.n_parameters)
    # `ManyModelsProblem` computes no surrogates, so it cannot evaluate penalties (squares of measures by surrogate).
    return state.effort.starts > 1 and few and not problem.penalties


def search_least_objective(state: FitState, problem: TrainingProblem) -> None:
    """Search for the least objective under the limits, from shifted free models and from the best model so far.

    A linear model cannot have a lower objective than the free model.  If the best model so far is almost as good, there
    is no search.
    """
    free = state.candidates.leading().assessment.objective if state.free is None else state.free.objective
    scale = max(abs(free), 1e-6)
    if state.free_is_solved and state.candidates.least_objective <= free + LITTLE_GAIN * scale:
        return

    def merit(found: ManyModels, penalty: float) -> Tensor:
        return found.objective + penalty * scale * found.violation

    for count, start in enumerate((*_free_starts(state, problem), state.candidates.leading().w)):
        if count == IN_VAIN and not state.candidates.kept:
            break
        _search(state, problem, start, merit)


def search_least_error(state: FitState, problem: TrainingProblem, slack: float) -> None:
    """Search for the most accurate model within the limits, and within a slack of the least objective."""
    least = state.candidates.least_objective
    limit = least + slack * abs(least)
    scale = max(abs(least), 1e-6)

    def merit(found: ManyModels, penalty: float) -> Tensor:
        excess = (found.objective - limit).clamp_min(0.0) / scale
        # The objective decides between models of equal accuracy, and gives a direction where no decision changes.
        return found.error + penalty * (found.violation + excess) + 1e-2 * found.objective / scale

    for start in (*_free_starts(state, problem), state.candidates.choice().w):
        _search(state, problem, start, merit)


def search_kept_model(state: FitState, problem: TrainingProblem) -> None:
    """Draw models near the one that violates the limits least, if it misses them by a few rows only.

    No derivative shows which rows must change their decision; small random changes of the parameters find them.
    """
    nearest = state.candidates.nearest
    if nearest is None or nearest.assessment.exact_violation > FEW_ROWS or problem.penalties or state.stopped:
        return
    evaluate = ManyModelsProblem(problem, state.rows)
    w, least = nearest.w, nearest.assessment.exact_violation
    generator = torch.Generator().manual_seed(0)
    for _ in range(NEARBY_ROUNDS):
        noise = torch.randn(KEPT_DRAWS, len(w), generator=generator, dtype=torch.float64)
        # Distances from 1 to a thousandth of the first one, evenly spaced on a logarithmic scale.
        factors = 10.0 ** -torch.linspace(0, 3, KEPT_DRAWS, dtype=torch.float64)
        found = evaluate(w + _distance(w) * factors[:, None] * noise)
        # Take the model with the least violation; among equal ones, the least objective.
        position = min(range(KEPT_DRAWS), key=lambda k: (float(found.violation[k]), float(found.objective[k])))
        if float(found.violation[position]) < least:
            w, least = found.W[position], float(found.violation[position])
            state.candidates.offer(w, state.assess(problem, w))
        if state.candidates.kept:
            break
    state.value_evaluations += evaluate.calls


def _free_starts(state: FitState, problem: TrainingProblem) -> Iterator[Tensor]:
    """Yield the free model, rounded, and the same with its output shifted towards each class."""
    if state.free_w is None:
        return
    free = _rounded(state.free_w)
    yield free
    layer = output_layer(problem, state.rows)
    if layer is None:
        return
    problem.assign(free)
    z = problem.passes.join(torch.cat([logits for _, logits in problem.logits(state.rows)])).to(torch.float64)
    if z.shape[1] == 1:
        # Shift the quantile of a share to the threshold: then this share of the rows gets the negative decision.
        shares = [*(1.0 - share for share in SHIFTED_SHARES), *SHIFTED_SHARES]
        biases = [logit(problem.threshold) - z[:, 0].quantile(share) for share in shares]
    else:
        biases = []
        for each in range(z.shape[1]):
            behind = torch.cat([z[:, :each], z[:, each + 1 :]], dim=1).amax(dim=1) - z[:, each]
            own = torch.eye(z.shape[1], dtype=torch.float64)[each]
            biases += [behind.quantile(share) * own for share in SHIFTED_SHARES]
    for shift in biases:
        problem.assign(free)
        with torch.no_grad():
            layer.bias.add_(shift.to(layer.bias))
        yield _rounded(problem.current())


def _rounded(w: Tensor) -> Tensor:
    """Return w rounded to few digits, relative to its size."""
    size = float(w.square().mean().sqrt())
    grid = 2.0 ** math.floor(math.log2(size)) / SIGNIFICANT if size > 0.0 else 1.0
    return (w / grid).round() * grid


def _search(state: FitState, problem: TrainingProblem, start: Tensor, merit: Merit) -> None:
    """Run both kinds of draws from a starting point, and offer the best models that keep the limits."""
    if state.stopped:
        return
    evaluate = ManyModelsProblem(problem, state.rows)
    best = _Best(state, problem, merit)
    generator = torch.Generator().manual_seed(0)
    _adapt(evaluate, start, _distance(start), merit, best, generator)
    if best.w is not None:
        distance = _distance(best.w)
        for _ in range(NEARBY_ROUNDS):
            noise = torch.randn(NEARBY_DRAWS, len(start), generator=generator, dtype=torch.float64)
            if not best.update(evaluate(best.w + distance * noise, only_kept=True)):
                distance *= NEARER
    state.value_evaluations += evaluate.calls
    found = state.assess(problem, start if best.w is None else best.w)
    state.log("search", {"f": found.objective, "violation": found.exact_violation, **history_columns(found)})


def _distance(w: Tensor) -> float:
    return FIRST_DISTANCE * max(float(w.square().mean().sqrt()), 1e-3)


class _Best:
    """The best model of a search that keeps the limits; every better one is offered to the candidates."""

    def __init__(self, state: FitState, problem: TrainingProblem, merit: Merit) -> None:
        self.state, self.problem, self.merit = state, problem, merit
        self.w: Tensor | None = None
        self.value = math.inf

    def update(self, found: ManyModels) -> bool:
        """Consider several models, and return whether one of them is the best so far."""
        if not len(found.W):
            return False
        values = torch.where(found.violation <= ROUNDING, self.merit(found, PENALTY), torch.inf)
        position = int(values.argmin())
        if not float(values[position]) < self.value:
            return False
        self.w, self.value = found.W[position], float(values[position])
        self.state.candidates.offer(self.w, self.state.assess(self.problem, self.w))
        return True


def _adapt(
    evaluate: ManyModelsProblem, mean: Tensor, size: float, merit: Merit, best: _Best, generator: torch.Generator
) -> None:
    """Run covariance matrix adaptation, with the names and default constants of the tutorial."""
    n, mu = len(mean), POPULATION // 2
    weights = math.log(mu + 0.5) - torch.arange(1, mu + 1, dtype=torch.float64).log()
    weights /= weights.sum()
    effective = 1.0 / float(weights.square().sum())
    c_sigma = (effective + 2) / (n + effective + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (n + 1)) - 1) + c_sigma
    c_c = (4 + effective / n) / (n + 4 + 2 * effective / n)
    c_1 = 2 / ((n + 1.3) ** 2 + effective)
    c_mu = min(1 - c_1, 2 * (effective - 2 + 1 / effective) / ((n + 2) ** 2 + effective))
    expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # about the mean length of N(0, I)
    path_sigma, path_c = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    C = torch.eye(n, dtype=torch.float64)
    penalty, first = PENALTY, size
    generations = min(GENERATIONS + GENERATIONS * n // 4, MOST_GENERATIONS)
    for generation in range(generations):
        eigenvalues, axes = torch.linalg.eigh(C)
        lengths = eigenvalues.clamp_min(1e-20).sqrt()
        noise = torch.randn(POPULATION, n, generator=generator, dtype=torch.float64)
        steps = (noise * lengths) @ axes.T
        found = evaluate(mean + size * steps)
        best.update(found)
        order = merit(found, penalty).argsort()[:mu]
        step = weights @ steps[order]
        mean = mean + size * step
        path_sigma = (1 - c_sigma) * path_sigma + math.sqrt(c_sigma * (2 - c_sigma) * effective) * (
            axes @ ((axes.T @ step) / lengths)
        )
        length = float(torch.linalg.vector_norm(path_sigma))
        is_short = length / math.sqrt(1 - (1 - c_sigma) ** (2 * (generation + 1))) < (1.4 + 2 / (n + 1)) * expected
        path_c = (1 - c_c) * path_c + is_short * math.sqrt(c_c * (2 - c_c) * effective) * step
        spread = (steps[order].T * weights) @ steps[order]
        C = (1 - c_1 - c_mu) * C + c_1 * torch.outer(path_c, path_c) + c_mu * spread
        size *= math.exp(min(1.0, c_sigma / damping * (length / expected - 1)))
        if size * float(lengths.max()) < NEGLIGIBLE * first:
            return
        if best.w is None and generation == generations // 2:
            penalty *= 10.0
