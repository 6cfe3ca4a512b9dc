"""Sequential quadratic programming for smooth nonlinear programs with two-sided constraints.

    min f(w)   subject to   lower ≤ c(w) ≤ upper

A problem returns an `Evaluation`; a solver consumes it.  `StochasticSQP` is the paper's method as a torch optimiser,
and works with batches; torch is imported when it is first used.  `QuasiNewtonSQP` evaluates the whole problem in every
iteration, and is faster.  Nothing here depends on fairness.
"""

from typing import TYPE_CHECKING, Any

from fairbound._errors import need_torch
from fairbound.sqp.core import Metric
from fairbound.sqp.dense import DenseHessian
from fairbound.sqp.diagonal import Adagrad, ExponentialAverage, Hessian, Identity
from fairbound.sqp.lbfgs import LimitedMemoryBFGS
from fairbound.sqp.learning_rate import LearningRateCut
from fairbound.sqp.optimality import KKTResiduals, kkt_residuals
from fairbound.sqp.problem import Evaluation, Jacobian, Problem, violation, violations
from fairbound.sqp.qp import QPSolution, solve_qp
from fairbound.sqp.quasi_newton import QuasiNewtonSQP
from fairbound.sqp.solution import IterationRecord, Solution, Status, StepRecord
from fairbound.sqp.step_length import AdaptiveStep, FixedStep

if TYPE_CHECKING:
    from fairbound.sqp.stochastic import StochasticSQP

__all__ = [
    "Adagrad",
    "AdaptiveStep",
    "DenseHessian",
    "Evaluation",
    "ExponentialAverage",
    "FixedStep",
    "Hessian",
    "Identity",
    "IterationRecord",
    "Jacobian",
    "KKTResiduals",
    "LearningRateCut",
    "LimitedMemoryBFGS",
    "Metric",
    "Problem",
    "QPSolution",
    "QuasiNewtonSQP",
    "Solution",
    "Status",
    "StepRecord",
    "StochasticSQP",
    "kkt_residuals",
    "solve_qp",
    "violation",
    "violations",
]


def __getattr__(name: str) -> Any:
    if name == "StochasticSQP":
        need_torch("StochasticSQP needs")
        from fairbound.sqp.stochastic import StochasticSQP

        return StochasticSQP
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
