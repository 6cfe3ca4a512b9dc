"""The rule for the penalty ρ of the elastic QP.

With ρ below the true multiplier a step settles at a point that violates its constraints, and nothing in the merit
function notices.  So ρ is raised, tenfold at a time, until the step reduces the violation of the linearised constraints
by at least a tenth of what is possible there,

    v(c) − v(c + Jd) ≥ fraction · (v(c) − v(c + Jd⁰)),

where d⁰ is the pure feasibility step: the same QP with g = 0 at the largest penalty allowed.  If even d⁰ gains nothing
though v(c) > 0, or if ρ has reached its largest value in vain, the point is locally infeasible: no direction reduces
the violation to first order.  That is reported as a value.  (Byrd, Nocedal and Waltz, Optim. Methods Softw. 23(2),
2008, for the idea; the constants are ours.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbound.sqp.core import Core
from fairbound.sqp.hessian import Metric
from fairbound.sqp.problem import Evaluation
from fairbound.sqp.qp import QPSolution, solve_with_core

# Relative to the sizes that make up the constraint values; a violation below this is rounding.
_ROUNDING = 1e-13
# A possible reduction of the violation below this fraction of it is none.
_NO_GAIN = 1e-6


@dataclass(frozen=True)
class Steering:
    """Constants of the rule.

    Parameters
    ----------
    fraction : float
        Share of the possible reduction of the violation that a step must reach, in (0, 1).
    factor : float
        Factor of one raise, above 1.
    largest : float
        Cap on the penalty.
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
    """A QP solution, the penalty it was found with, whether the point is locally infeasible, and the core of its QP."""

    solution: QPSolution
    penalty: float
    locally_infeasible: bool
    core: Core


def steered_step(
    evaluation: Evaluation, hessian: Metric, penalty: float, steering: Steering | None = None
) -> SteeredStep:
    """Solve the elastic QP at `evaluation`, raising the penalty as the rule says.

    Parameters
    ----------
    evaluation : Evaluation
        The current point.
    hessian : Metric
        H of the QP.
    penalty : float
        ρ to begin with.
    steering : Steering, optional
        Constants of the rule.
    """
    steering = steering if steering is not None else Steering()
    penalty = min(penalty, steering.largest)
    core = Core(hessian, evaluation.J)

    def step(g: Tensor, rho: float) -> QPSolution:
        return solve_with_core(core, g, evaluation.c, evaluation.lower, evaluation.upper, penalty=rho)

    solution = step(evaluation.g, penalty)
    before = evaluation.violation
    if not solution.elastic or solution.violation <= (1.0 - steering.fraction) * before:
        # Nothing is violated at a price, or the reduction is a tenth of all there is, hence of what is possible.
        return SteeredStep(solution, penalty, locally_infeasible=False, core=core)
    reference = step(torch.zeros_like(evaluation.g), steering.largest)
    rounding = _ROUNDING * float(evaluation.c.abs().sum())
    possible = max(before - reference.violation, 0.0)
    if before > rounding and possible <= max(_NO_GAIN * before, rounding):
        return SteeredStep(solution, penalty, locally_infeasible=True, core=core)
    target = before - steering.fraction * possible + rounding
    while solution.elastic and solution.violation > target and penalty < steering.largest:
        penalty = min(penalty * steering.factor, steering.largest)
        solution = step(evaluation.g, penalty)
    in_vain = solution.elastic and solution.violation > target
    return SteeredStep(solution, penalty, locally_infeasible=in_vain, core=core)
