"""Sequential quadratic programming for smooth nonlinear programs with two-sided constraints.

    min f(w)   subject to   lower ≤ c(w) ≤ upper

A problem returns an `Evaluation`; a solver consumes it.  `StochasticSQP` is the paper's method as a torch optimiser.
`QuasiNewtonSQP` is faster and evaluates the whole problem in every iteration.  Nothing here depends on fairness.
"""

from fairbound.sqp.hessian import HESSIANS, Adagrad, ExponentialAverage, Hessian, Identity
from fairbound.sqp.lbfgs import LimitedMemoryBFGS
from fairbound.sqp.line_search import LineSearch
from fairbound.sqp.problem import Evaluation, Jacobian, Problem, violation, violations
from fairbound.sqp.qp import QPSolution, solve_qp
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
from fairbound.sqp.steering import Steering
from fairbound.sqp.step_length import STEP_LENGTHS, AdaptiveStep, FixedStep, LearningRateCut, StepLength
from fairbound.sqp.stochastic import StochasticSQP

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
