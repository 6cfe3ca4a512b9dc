"""The rule for the penalty ρ of the elastic QP.

If ρ is below the optimal multiplier, f + ρ·v(c) has its minimum at a point that violates the constraints. The method
would converge to that point, and the merit function would not show the mistake. So ρ is raised, tenfold at a time,
until the step reduces the violation of the linearised constraints by at least a tenth of what is possible there:

    v(c) − v(c + Jd) ≥ ⅒ · (v(c) − v(c + Jd⁰)).

Here d⁰ is the pure feasibility step, which solves the same QP with g = 0 at the largest penalty. The point is
*locally infeasible* if v(c) > 0 and even d⁰ reduces nothing: no direction reduces the violation to first order. It
also counts as locally infeasible if the rule fails at the largest ρ. (The idea is that of Byrd, Nocedal and Waltz,
Optim. Methods Softw. 23(2), 2008; the constants are ours.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairbound.sqp.core import Core, Metric
from fairbound.sqp.problem import Array, Evaluation
from fairbound.sqp.qp import QPSolution, solve_with_core

LARGEST = 1e8
"""Largest ρ: the root of the accuracy of floating-point numbers, so that f still counts in f + ρ·v."""

NO_GAIN = 1e-6
"""A possible reduction below this fraction of the violation counts as none."""

# A violation below this, relative to Σ|c|, is a rounding error.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class SteeredStep:
    """A QP solution with its penalty, whether the point is locally infeasible, and the core of the QP."""

    solution: QPSolution
    locally_infeasible: bool
    core: Core


def steered_step(evaluation: Evaluation, hessian: Metric, penalty: float) -> SteeredStep:
    """Solve the elastic QP at `evaluation` with the penalty ρ; raise ρ as the rule says."""
    core = Core(hessian, evaluation.J)

    def step(g: Array, rho: float) -> QPSolution:
        return solve_with_core(core, g, evaluation.c, evaluation.lower, evaluation.upper, penalty=min(rho, LARGEST))

    solution = step(evaluation.g, penalty)
    before = evaluation.violation
    if not solution.elastic or solution.violation <= 0.9 * before:
        # Either no multiplier is at its bound ρ, so a larger ρ gives the same step.  Or the step removes a tenth of
        # the whole violation, hence at least a tenth of what d⁰ can remove; then d⁰ need not be computed.
        return SteeredStep(solution, locally_infeasible=False, core=core)
    reference = step(np.zeros_like(evaluation.g), LARGEST)
    rounding = _ROUNDING * float(np.abs(evaluation.c).sum())
    possible = max(before - reference.violation, 0.0)
    if before > rounding and possible <= max(NO_GAIN * before, rounding):
        return SteeredStep(solution, locally_infeasible=True, core=core)
    target = before - 0.1 * possible + rounding
    while solution.elastic and solution.violation > target and solution.penalty < LARGEST:
        solution = step(evaluation.g, 10.0 * solution.penalty)
    return SteeredStep(solution, locally_infeasible=solution.elastic and solution.violation > target, core=core)
