"""The QP of one SQP step, for any number of two-sided rows, hard or elastic, and the rule for its penalty.

    hard      min gᵀd + ½ dᵀHd                      subject to  lower ≤ c + Jd ≤ upper
    elastic   min gᵀd + ½ dᵀHd + ρ · v(c + Jd)      v(c) the ℓ1 distance of c from [lower, upper]

(paper, equation "feasibility" of the appendix and Algorithm 1, which enumerates active sets for two rows).

Reduction.  The QP is never solved in parameter space.  Stationarity Hd + g + Jᵀy = 0 gives d = −H⁻¹(g + Jᵀy), hence

    c + Jd = q − J H⁻¹Jᵀ y      with  q = c − J H⁻¹g.

With J = rows · basis and the pivoted Cholesky factorisation basis H⁻¹ basisᵀ = L Lᵀ of rank r, J H⁻¹Jᵀ = W Wᵀ with
W = rows · L.  So with z = −Wᵀy the QP becomes a least-distance problem in r variables with the same multipliers:

    min ½‖z‖²   subject to   lower − q ≤ W z ≤ upper − q.

The rank is small: pairwise rows over K groups have rank at most K, however many rows there are.  Rows are scaled to
norm 1 and the bounds to a largest distance of 1, so the units of the constraints do not matter.

The elastic QP has the same dual with the additional bounds |y| ≤ ρ, so it always has a solution.  It is solved only if
the hard rows are inconsistent or some |y| exceeds ρ; otherwise the hard solution is also the elastic one.

Identity.  gᵀd + dᵀHd = Σ y⁺(c − upper) + y⁻(lower − c) − ρ·v(c + Jd), where y = y⁺ − y⁻.  Proof: multiply stationarity
by d to get gᵀd + dᵀHd = −yᵀJd.  In a satisfied row with y⁺ > 0, c + Jd = upper, so −y⁺Jd = y⁺(c − upper).  In a row
that violates its upper bound by v_i, y⁺ = ρ and c + Jd = upper + v_i, so −y⁺Jd = y⁺(c − upper) − ρ·v_i.  The same holds
for lower bounds.  Since c − upper and lower − c are at most the violation of the row and |y| ≤ ρ,

    gᵀd + dᵀHd ≤ ρ · (v(c) − v(c + Jd)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairbound.sqp.hessian import Metric
from fairbound.sqp.problem import Evaluation, Jacobian
from fairbound.sqp.reduced_qp import EPS, Array, Core, hard_multipliers, priced_multipliers, to_numpy

# `is_optimal` asks for 1e-8.  A solution with larger residuals than this stricter number is polished.
_POLISH = 1e-10


@dataclass(frozen=True)
class QPSolution:
    """A step, its multipliers, and the residuals of its optimality conditions.

    All residuals are relative to the largest term of the sum that should vanish.  Let n_i = ‖J_i‖ in the norm of H⁻¹,
    and p_i = n_i|y_i|.  By Cauchy-Schwarz, the terms of c_i + J_i d = c_i − J_i H⁻¹g − Σ_j J_i H⁻¹J_jᵀ y_j are at most
    s_i = max(|c_i|, |finite bounds_i|, n_i‖g‖, n_i max_j p_j).

    Attributes
    ----------
    d : Tensor of shape (n,)
        Step.
    y : Tensor of shape (m,)
        Multipliers, positive on the upper side, negative on the lower side.
    violation : float
        v(c + Jd).
    slope, curvature : float
        gᵀd and dᵀHd.
    elastic : bool
        Whether some multiplier is at its bound ρ, so that a row may be violated.
    penalty : float
        The ρ of the solution.  If hard rows (ρ = inf) are inconsistent, a large finite number.
    stationarity : float
        ‖Hd + g + Jᵀy‖∞ / max(‖g‖∞, largest term of Jᵀy = basisᵀ(rowsᵀy)).
    primal_residual : float
        Largest violation_i / s_i.  In the elastic QP a row may be violated if |y_i| = ρ, so there the residual of a row
        is the smaller of violation_i / s_i and (ρ − |y_i|)/ρ.
    complementarity : float
        Largest min(p_i / max_j p_j, slack_i / s_i), slack_i the distance to the bound that the sign of y_i refers to.
    dual_bound_residual : float
        Largest p_i / max_j p_j of a multiplier whose bound is infinite, or (|y_i| − ρ)/ρ.
    """

    d: Tensor
    y: Tensor
    violation: float
    slope: float
    curvature: float
    elastic: bool
    penalty: float
    stationarity: float
    primal_residual: float
    complementarity: float
    dual_bound_residual: float

    @property
    def kkt_residual(self) -> float:
        """Return the largest of the four residuals."""
        return max(self.stationarity, self.primal_residual, self.complementarity, self.dual_bound_residual)

    def is_optimal(self, tol: float = 1e-8) -> bool:
        """Return whether all optimality conditions hold to `tol`."""
        return self.kkt_residual <= tol


def solve_qp(
    g: Tensor,
    hessian: Metric,
    c: Tensor,
    J: Jacobian,
    lower: Tensor,
    upper: Tensor,
    *,
    penalty: float = math.inf,
) -> QPSolution:
    """Solve the QP of one SQP step.

    Parameters
    ----------
    g : Tensor of shape (n,)
        Gradient of the objective.
    hessian : Metric
        H through `solve` and `product`, positive definite.
    c, lower, upper : Tensor of shape (m,)
        Constraint values and bounds; m may be 0.
    J : Jacobian of shape (m, n)
        Constraint gradients.
    penalty : float
        ρ, above 0.  With inf the rows are hard.  If hard rows are inconsistent, the solution for a large ρ is returned;
        its `elastic` is then True, and its `penalty` is that ρ.

    Examples
    --------
    Minimise −d + ½d² subject to 0 + d ≤ ½: the step is ½ and the multiplier ½.

    >>> from fairbound.sqp.hessian import Identity
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> solution = solve_qp(-one, Identity(), 0 * one, Jacobian.dense(one[None]), -one * math.inf, one / 2)
    >>> float(solution.d), float(solution.y), solution.is_optimal()
    (0.5, 0.5, True)
    """
    return solve_with_core(Core(hessian, J), g, c, lower, upper, penalty=penalty)


def solve_with_core(
    core: Core, g: Tensor, c: Tensor, lower: Tensor, upper: Tensor, *, penalty: float = math.inf
) -> QPSolution:
    """Solve the QP as `solve_qp` does, with the H and J of `core`; several QPs may share one core."""
    m, n = core.J.shape
    if not penalty > 0.0:
        raise ValueError(f"solve_qp(penalty={penalty!r}): must be above 0; use inf for hard rows.")
    if not (c.shape == lower.shape == upper.shape == (m,) and g.shape == (n,)):
        raise ValueError(
            f"solve_qp: shapes do not fit: g {tuple(g.shape)}, c {tuple(c.shape)}, J {(m, n)}, "
            f"lower {tuple(lower.shape)}, upper {tuple(upper.shape)}."
        )
    return _QP(core, g, to_numpy(c), to_numpy(lower), to_numpy(upper)).solve(penalty)


class _QP:
    """One QP: solve the reduced problem for the multipliers, then compute the step and its residuals in full space."""

    def __init__(self, core: Core, g: Tensor, c: Array, lower: Array, upper: Array) -> None:
        self.core, self.g, self.c, self.lower, self.upper = core, g, c, lower, upper
        self.newton = core.hessian.solve(g)  # H⁻¹g
        self.gradient_norm = math.sqrt(max(float(g @ self.newton), 0.0))
        self.q = c - core.rows @ to_numpy(core.J.basis @ self.newton)

    def solve(self, penalty: float) -> QPSolution:
        y, penalty = self._multipliers(self.q, penalty, start=None)
        best = self._solution(y, penalty)
        for _ in range(3):
            if best.is_optimal(_POLISH) or not self.core.live.any():
                break
            # Polish.  The reduced problem says c + Jd = q − W Wᵀy, up to the rounding errors of the factor.  Choose q
            # so that this is exact at the current y, and solve again from there.
            y = to_numpy(best.y)
            reached = self.c + to_numpy(self.core.J.product(best.d))
            y, penalty = self._multipliers(reached + self.core.response(y), penalty, start=y)
            candidate = self._solution(y, penalty)
            if candidate.kkt_residual >= best.kkt_residual:
                break
            best = candidate
        return best

    def _multipliers(self, q: Array, penalty: float, start: Array | None) -> tuple[Array, float]:
        """Return the multipliers of the reduced problem with the constant q, and their penalty."""
        violation = np.maximum(q - self.upper, 0.0) + np.maximum(self.lower - q, 0.0)
        live, norms = self.core.live, self.core.norms[self.core.live]
        y = np.zeros_like(q)
        distance = float((violation[live] / norms).max()) if norms.size else 0.0
        # No step changes a row without gradient.  If such a row is violated, hard rows are inconsistent, and the
        # multiplier of the elastic QP is at its bound.
        unattainable = ~live & (violation > 8.0 * EPS * np.maximum(np.abs(self.c), np.abs(q)))
        if math.isinf(penalty) and bool(unattainable.any()):
            penalty = self._fallback_penalty(distance)
        y[unattainable] = np.where(q > self.upper, penalty, -penalty)[unattainable]
        if distance == 0.0:
            return y, penalty
        # The core holds unit rows W_i, and z = −Σ norms_i y_i W_i.  With z = distance · z', row i reads
        # W_i z' ∈ [lower_i − q_i, upper_i − q_i] / (distance · norms_i).  Its multiplier is norms_i y_i / distance, and
        # |y_i| ≤ ρ becomes a price of ρ · norms_i / distance.
        unit = distance * norms
        lower, upper = (self.lower - q)[live] / unit, (self.upper - q)[live] / unit
        price = penalty * norms / distance
        scaled = hard_multipliers(self.core.W, lower, upper) if start is None else start[live] * norms / distance
        if start is not None or scaled is None or bool((np.abs(scaled) > price).any()):
            size = np.maximum(np.abs(self.c), np.abs(q))[live] + norms * self.gradient_norm
            noise = 4.0 * EPS * size / unit
            dual = priced_multipliers(self.core.W, lower, upper, price, noise, scaled)
            if not dual.bounded:
                penalty = self._fallback_penalty(distance)
                price = penalty * norms / distance
                dual = priced_multipliers(self.core.W, lower, upper, price, noise)
            scaled = dual.y
        # A multiplier at its bound must equal ±ρ exactly, also after scaling back.
        y[live] = np.where(np.abs(scaled) >= price, np.copysign(penalty, scaled), scaled * distance / norms)
        return y, penalty

    def _fallback_penalty(self, distance: float) -> float:
        """Return a penalty for inconsistent hard rows.

        Multipliers are about as large as distance / norm or ‖g‖ / norm.  The penalty is 10⁴ times that.
        """
        largest = _max(self.core.norms)
        return 1e4 * max(distance, self.gradient_norm) / largest if largest > 0.0 and distance > 0.0 else 1.0

    def _solution(self, y: Array, penalty: float) -> QPSolution:
        """Return the step that belongs to the multipliers, with its residuals."""
        multipliers = torch.from_numpy(y).to(self.g)
        weights = self.core.J.rows.T @ multipliers
        J_y = weights @ self.core.J.basis  # Jᵀy
        d = -self.newton - weights @ self.core.solved_basis
        product = self.core.hessian.product(d)
        terms = (self.core.J.rows.abs().T @ multipliers.abs()) * self.core.basis_sizes
        largest = max(_max_abs(self.g), _max_abs(terms))
        stationarity = _max_abs(product + self.g + J_y) / largest if largest > 0.0 else 0.0
        reached = self.c + to_numpy(self.core.J.product(d))
        violation = np.maximum(reached - self.upper, 0.0) + np.maximum(self.lower - reached, 0.0)
        p = self.core.norms * np.abs(y)
        largest_p = _max(p)
        scale = np.maximum(np.abs(self.c), self.core.norms * max(self.gradient_norm, largest_p))
        # If the gradient of row i counts as zero, J_i d is a rounding error.  By Cauchy-Schwarz it is at most the bound
        # `unknown` on ‖J_i‖ in the norm of H⁻¹, times ‖d‖ in the norm of H.
        scale = np.maximum(scale, self.core.unknown * math.sqrt(max(float(d @ product), 0.0)))
        for bound in (self.lower, self.upper):
            scale = np.maximum(scale, np.where(np.isfinite(bound), np.abs(bound), 0.0))
        scale = np.maximum(scale, np.finfo(np.float64).tiny)
        p = p / largest_p if largest_p > 0.0 else p
        bound = np.where(y > 0.0, self.upper, self.lower)
        missing = ~np.isfinite(bound)
        slack = np.where(missing, 0.0, np.where(y > 0.0, bound - reached, reached - bound))
        elastic = math.isfinite(penalty) and bool((np.abs(y) >= penalty).any())
        primal = violation / scale
        excess = np.zeros_like(y)
        if math.isfinite(penalty):
            primal = np.minimum(primal, np.maximum(penalty - np.abs(y), 0.0) / penalty)
            excess = np.maximum(np.abs(y) - penalty, 0.0) / penalty
        return QPSolution(
            d=d,
            y=multipliers,
            violation=float(violation.sum()),
            slope=float(self.g @ d),
            curvature=float(d @ product),
            elastic=elastic,
            penalty=penalty,
            stationarity=stationarity,
            primal_residual=_max(primal),
            complementarity=_max(np.minimum(p, np.maximum(slack, 0.0) / scale)),
            dual_bound_residual=max(_max(np.where(missing, p, 0.0)), _max(excess)),
        )


def _max_abs(value: Tensor) -> float:
    return float(value.abs().max()) if value.numel() else 0.0


def _max(value: Array) -> float:
    return float(value.max()) if value.size else 0.0


# --- steering --------------------------------------------------------------------------------------------------------

# The rule for the penalty ρ of the elastic QP.
#
# If ρ is below the optimal multiplier, f + ρ·v(c) has its minimum at a point that violates the constraints. The method
# would converge to that point, and the merit function would not show the mistake. So ρ is raised, tenfold at a time,
# until the step reduces the violation of the linearised constraints by at least a tenth of what is possible there:
#
#     v(c) − v(c + Jd) ≥ fraction · (v(c) − v(c + Jd⁰)).
#
# Here d⁰ is the pure feasibility step, which solves the same QP with g = 0 at the largest penalty. The point is
# *locally infeasible* if v(c) > 0 and even d⁰ reduces nothing: no direction reduces the violation to first order. It
# also counts as locally infeasible if the rule fails at the largest ρ. (The idea is that of Byrd, Nocedal and Waltz,
# Optim. Methods Softw. 23(2), 2008; the constants are ours.)


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

    def step(g: Tensor, rho: float) -> QPSolution:
        return solve_with_core(core, g, evaluation.c, evaluation.lower, evaluation.upper, penalty=rho)

    solution = step(evaluation.g, penalty)
    before = evaluation.violation
    if not solution.elastic or solution.violation <= (1.0 - steering.fraction) * before:
        # Either no multiplier is at its bound ρ, so a larger ρ gives the same step.  Or the step removes `fraction` of
        # the whole violation, hence at least `fraction` of what d⁰ can remove; then d⁰ need not be computed.
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
    missed = solution.elastic and solution.violation > target
    return SteeredStep(solution, penalty, locally_infeasible=missed, core=core)
