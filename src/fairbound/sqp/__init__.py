"""Sequential quadratic programming for smooth nonlinear programs with two-sided constraints.

    min f(w)   subject to   lower ≤ c(w) ≤ upper

A problem returns an `Evaluation`; a solver consumes it.  `StochasticSQP` is the paper's method as a torch optimiser,
and works with batches.  `QuasiNewtonSQP` evaluates the whole problem in every iteration, and is faster.  Nothing here
depends on fairness.
"""

from fairbound.sqp.hessian import HESSIANS, Adagrad, ExponentialAverage, Hessian, Identity, LimitedMemoryBFGS
from fairbound.sqp.problem import Evaluation, Jacobian, Problem, violation, violations
from fairbound.sqp.qp import QPSolution, Steering, solve_qp
from fairbound.sqp.quasi_newton import QuasiNewtonSQP
from fairbound.sqp.solution import (
    IterationRecord,
    KKTResiduals,
    Solution,
    Status,
    StepRecord,
    WarmStart,
    kkt_residuals,
    least_squares_multipliers,
)
from fairbound.sqp.step_length import STEP_LENGTHS, AdaptiveStep, FixedStep, LineSearch, StepLength
from fairbound.sqp.stochastic import LearningRateCut, StochasticSQP

__all__ = [
    "HESSIANS",
    "STEP_LENGTHS",
    "Adagrad",
    "AdaptiveStep",
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
    "LineSearch",
    "Problem",
    "QPSolution",
    "QuasiNewtonSQP",
    "Solution",
    "Status",
    "Steering",
    "StepLength",
    "StepRecord",
    "StochasticSQP",
    "WarmStart",
    "kkt_residuals",
    "least_squares_multipliers",
    "solve_qp",
    "violation",
    "violations",
]
