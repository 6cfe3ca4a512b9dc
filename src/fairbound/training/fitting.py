"""Fit a model under limits, by whole passes over the rows (`continuation`) or by mini-batches first.

The result is the best candidate of all phases, including constants, judged by its decisions in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import DTypeLike

from fairbound._errors import need_torch
from fairbound._model_settings import Effort
from fairbound._words import lookup
from fairbound.fairness import Cells
from fairbound.training.archive import Objective
from fairbound.training.assessment import Assessment
from fairbound.training.chunks import Floats
from fairbound.training.continuation import Continuation
from fairbound.training.model import LinearModel
from fairbound.training.problem import TrainingProblem
from fairbound.training.result import TrainingResult

if TYPE_CHECKING:
    from fairbound.training.mini_batches import MiniBatches

Solver = Literal["quasi-newton", "stochastic"]

ONE_THREAD_UP_TO = 3e7
"""Rows times parameters up to which a pass takes milliseconds on one thread, so that more threads gain little."""


def suitable_threads(problem: TrainingProblem) -> AbstractContextManager[None]:
    """Use one thread for small problems, and restore the global numbers of threads afterwards.

    The rounding of sums over rows depends on the number of threads, and so can the model that a fit finds.
    """
    small = problem.n_rows * problem.n_parameters <= ONE_THREAD_UP_TO
    return problem.model.one_thread() if small else nullcontext()


def by_mini_batches(
    problem: TrainingProblem, solver: Solver, generator: Any
) -> Callable[[Continuation], MiniBatches] | None:
    """Return the function that draws mini-batches for a fit; None if the solver makes whole passes only.

    Everything but their steps is done in evaluation mode, so a network is set to that.
    """
    if solver != "stochastic":
        return None
    need_torch("Mini-batches need")
    from fairbound.training.mini_batches import MiniBatches
    from fairbound.training.modules import LayerModes

    modes = None if isinstance(problem.model, LinearModel) else LayerModes(problem.module)
    problem.model.set_evaluation_mode()
    return lambda state: MiniBatches(state, modes, generator)


def on_rows(problem: TrainingProblem, cells: Cells, start: Floats, dtype: DTypeLike) -> TrainingProblem:
    """Return the same problem for the rows of other cells, with a copy of the model that starts at `start`."""
    found = TrainingProblem(
        problem.model.copied(dtype),
        problem.loss,
        problem.system.constraints,
        cells,
        regularizers=problem.regularizers,
        threshold=problem.threshold,
        passes=problem.passes,
    )
    found.assign(start)
    return found


WHOLE_PASS_LIMIT = 2e10
"""Rows times parameters up to which whole passes are the default."""


def fit(
    problem: TrainingProblem,
    X: Any,
    *,
    objective: Objective = "accuracy",
    effort: Effort | None = None,
    generator: Any = None,
    **options: Any,
) -> TrainingResult:
    """Minimise the problem's objective under its limits, and leave the best model in it.

    Parameters
    ----------
    problem : TrainingProblem
    X : array of shape (n, ...), or Rows
        Inputs, in the row order of the problem's cells; or all rows, with their weights.
    objective : {"accuracy", "loss"}
        What is best under the limits: the most accurate decisions, or the least loss.
    effort : Effort, optional
        By its `epochs` it says whether mini-batches come first (`mini_batches`); they leave the module in evaluation
        mode.
    generator : torch.Generator, optional
        Random generator of the mini-batches; by default one with seed 0.
    loss_weights : array of shape (n,), optional
    precision : numpy dtype, optional
        The precision in which the decisions must keep the limits, and which the model has afterwards; by default its
        present one.
    callback : function of one history row, optional
        Called at every iteration; return True to stop early with the best model found.
    judge : function of flat parameters, optional
        Returns a number, such as the loss on validation rows.  Of the models that keep the limits, the one with the
        least number is then returned.
    """
    effort = effort or Effort()
    solver = choose_solver(problem.n_rows, problem.n_parameters) if effort.solver == "auto" else effort.solver
    batches = by_mini_batches(problem, solver, generator)

    def begin(state: Continuation) -> list[Floats]:
        if batches is not None:
            return batches(state).run(problem)
        state.find_free_model()
        return []

    return _run(problem, X, begin, solver, objective, effort=effort, **options)


def tighten(
    problem: TrainingProblem,
    X: Any,
    *,
    objective: Objective = "accuracy",
    free: Assessment | None = None,
    **options: Any,
) -> TrainingResult:
    """Reach the limits exactly, starting from the present parameters of the model.

    Use it after your own training loop.  It runs the last phases of `fit`, by whole passes in evaluation mode, and
    leaves a module in that mode.  `free` is the assessment of the model without limits, if it is known.  The other
    parameters are as for `fit`.
    """

    def begin(state: Continuation) -> list[Floats]:
        state.free = free
        return [state.w]

    problem.model.set_evaluation_mode()
    return _run(problem, X, begin, "quasi-newton", objective, **options)


def _run(
    problem: TrainingProblem,
    X: Any,
    begin: Callable[[Continuation], list[Floats]],
    solver: str,
    objective: Objective,
    **options: Any,
) -> TrainingResult:
    """Run `begin`, which trains the first phases and returns points near the limits; then keep the limits."""
    lookup({"accuracy": None, "loss": None}, objective, "objective")
    with suitable_threads(problem):
        state = Continuation(problem, X, **options)
        with state.leaving_the_best(problem):
            state.keep_limits(problem, objective, points=begin(state), all_layers=trains_all_layers(problem, solver))
        return state.result(problem, solver=solver)


def choose_solver(n_rows: int, n_parameters: int) -> Solver:
    """Return "quasi-newton" if a pass over all rows takes at most about a minute on one core, else "stochastic"."""
    return "quasi-newton" if n_rows * n_parameters <= WHOLE_PASS_LIMIT else "stochastic"


def trains_all_layers(problem: TrainingProblem, solver: str) -> bool:
    """Return whether whole passes train all layers under the limits: after mini-batches, if passes are quick."""
    return "quasi-newton" in (solver, choose_solver(problem.n_rows, problem.n_parameters))
