"""One call from data and limits to a model that keeps them: by whole passes (`stages`), or by mini-batches first.

The answer is the best of all candidates that the stages have seen, constants included, by its own decisions in double
precision.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch

from fairbound._registry import lookup
from fairbound.sqp import StochasticSQP
from fairbound.training.batches import StratifiedBatches
from fairbound.training.effort import Effort
from fairbound.training.problem import TrainingProblem
from fairbound.training.stages import Objective, confirm, find_free_optimum, reach_limits
from fairbound.training.state import FitState, Progress
from fairbound.training.threads import suitable_threads
from fairbound.training.trainer import TrainingResult, train

Solver = Literal["auto", "quasi-newton", "stochastic"]

WHOLE_PASS_LIMIT = 2e10
"""Rows times parameters up to which whole passes are the default."""


def fit(
    problem: TrainingProblem,
    X: Any,
    *,
    loss_weights: Any = None,
    objective: Objective = "loss",
    solver: Solver = "auto",
    effort: Effort | None = None,
    callback: Progress | None = None,
    generator: torch.Generator | None = None,
) -> TrainingResult:
    """Train the problem's module to the optimum under its limits.

    The module is left in double precision: the answer is checked there, and rounding moves decisions.

    Parameters
    ----------
    problem : TrainingProblem
    X : array of shape (n, ...)
        Inputs, in the order of the problem's cells.
    loss_weights : array of shape (n,), optional
    objective : {"loss", "accuracy"}
        What is best under the limits: the loss, which keeps probabilities meaningful (and accuracy, among models within
        5% of the least loss), or accuracy alone.
    solver : {"auto", "quasi-newton", "stochastic"}
        Whole passes, or mini-batches first; by default whichever suits the size of data and model.
    effort : Effort, optional
    callback : function of one history row, optional
        Called at every iteration; return True to stop early with the best found.
    generator : torch.Generator, optional
        Source of the mini-batches; a fixed one by default.
    """
    lookup({"loss": None, "accuracy": None}, objective, "objective")
    lookup({"auto": None, "quasi-newton": None, "stochastic": None}, solver, "solver")
    with suitable_threads(len(problem.cells), problem.n_parameters):
        state = FitState(problem, X, loss_weights, effort, callback)
        if solver == "auto":
            solver = choose_solver(len(state.rows), problem.n_parameters)
        try:
            if solver == "quasi-newton":
                find_free_optimum(state)
            else:
                sample(state, problem, generator or torch.Generator().manual_seed(0))
            reach_limits(state, problem, objective)
        finally:
            # Also on an interrupt: what was found so far stays in the module.
            state.settle(problem)
        return state.result(problem, confirm(state, problem), by_loss=objective == "loss", solver=solver)


def choose_solver(n_rows: int, n_parameters: int) -> Solver:
    """Whole passes while a pass takes no more than about a minute of one core; mini-batches beyond."""
    return "quasi-newton" if n_rows * n_parameters <= WHOLE_PASS_LIMIT else "stochastic"


def sample(state: FitState, problem: TrainingProblem, generator: torch.Generator) -> None:
    """Go near the limits by mini-batches, with the constraints on a fixed subset."""
    size = min(state.effort.batch_size, len(state.rows))
    batches = StratifiedBatches(state.rows, size, constraints="subset", generator=generator)
    optimizer = StochasticSQP.from_paper(problem.parameters)
    try:
        result = train(problem, batches, optimizer, epochs=state.effort.epochs, callback=partial(state.log, "sample"))
    finally:
        state.w = problem.current()  # also on an interrupt: the best that `train` has found
    state.free = result.assessment
