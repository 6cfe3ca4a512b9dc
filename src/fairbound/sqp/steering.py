"""The rule for the penalty ρ of the elastic QP.

If ρ is below the optimal multiplier, f + ρ·v(c) has its minimum at a point that violates the constraints. The method
would converge to that point, and the merit function would not show the mistake. So ρ is raised, tenfold at a time,
until the step reduces the violation of the linearised constraints by at least a tenth of what is possible there:

    v(c) − v(c + Jd) ≥ fraction · (v(c) − v(c + Jd⁰)).

Here d⁰ is the pure feasibility step, which solves the same QP with g = 0 at the largest penalty. The point is
*locally infeasible* if v(c) > 0 and even d⁰ reduces nothing: no direction reduces the violation to first order. It
also counts as locally infeasible if the rule fails at the largest ρ. (The idea is that of Byrd, Nocedal and Waltz,
Optim. Methods Softw. 23(2), 2008; the constants are ours.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairbound.sqp.core import Core, Metric
from fairbound.sqp.problem import Array, Evaluation
from fairbound.sqp.qp import QPSolution, solve_with_core

# A violation below this, relative to Σ|c|, is a rounding error.
_ROUNDING = 1e-13
# A possible reduction below this fraction of the violation counts as none.
_NO_GAIN = 1e-6


@dataclass(frozen=True)
class Steering:
    """Constants of the rule.

    Parameters
    ----------
    fraction : float
        Share of the possible reduction of the violation that a step must reach, in (0, 1).
    factor : float
        Factor by which ρ rises at a time, above 1.
    largest : float
        Largest ρ.
    """

    fraction: float = 0.1
    factor: float = 10.0
    largest: float = 1e8

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction < 1.0:
            raise ValueError(f"Steering(fraction={self.fraction!r}): must be between 0 and 1, for example 0.1.")
        if not self.factor > 1.0:
            raise ValueError(f"Steering(factor={self.factor!r}): must be above 1, for example 10.")
        if not 0.0 < self.largest < math.inf:
            raise ValueError(f"Steering(largest={self.largest!r}): must be a finite number above 0, for example 1e8.")


@dataclass(frozen=True)
class SteeredStep:
    """A QP solution, its penalty, whether the point is locally infeasible, and the core of the QP."""

    solution: QPSolution
    penalty: float
    locally_infeasible: bool
    core: Core


def steered_step(
    evaluation: Evaluation, hessian: Metric, penalty: float, steering: Steering | None = None
) -> SteeredStep:
    """Solve the elastic QP at `evaluation`; raise the penalty as the rule says.

    Parameters
    ----------
    evaluation : Evaluation
        The current point.
    hessian : Metric
        H of the QP.
    penalty : float
        Initial ρ.
    steering : Steering, optional
        Constants of the rule.
    """
    steering = steering if steering is not None else Steering()
    penalty = min(penalty, steering.largest)
    core = Core(hessian, evaluation.J)

    def step(g: Array, rho: float) -> QPSolution:
        return solve_with_core(core, g, evaluation.c, evaluation.lower, evaluation.upper, penalty=rho)

    solution = step(evaluation.g, penalty)
    before = evaluation.violation
    if not solution.elastic or solution.violation <= (1.0 - steering.fraction) * before:
        # Either no multiplier is at its bound ρ, so a larger ρ gives the same step.  Or the step removes `fraction` of
        # the whole violation, hence at least `fraction` of what d⁰ can remove; then d⁰ need not be computed.
        return SteeredStep(solution, penalty, locally_infeasible=False, core=core)
    reference = step(np.zeros_like(evaluation.g), steering.largest)
    rounding = _ROUNDING * float(np.abs(evaluation.c).sum())
    possible = max(before - reference.violation, 0.0)
    if before > rounding and possible <= max(_NO_GAIN * before, rounding):
        return SteeredStep(solution, penalty, locally_infeasible=True, core=core)
    target = before - steering.fraction * possible + rounding
    while solution.elastic and solution.violation > target and penalty < steering.largest:
        penalty = min(penalty * steering.factor, steering.largest)
        solution = step(evaluation.g, penalty)
    missed = solution.elastic and solution.violation > target
    return SteeredStep(solution, penalty, locally_infeasible=missed, core=core)
