"""The QP of one SQP step, for any number of two-sided rows, hard or elastic.

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

from fairbound.sqp.core import EPS, Core, Metric
from fairbound.sqp.problem import Array, Jacobian, violations
from fairbound.sqp.reduced_qp import hard_multipliers, priced_multipliers

# `is_optimal` asks for 1e-8.  A solution with larger residuals than this stricter number is polished.
_POLISH = 1e-10
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class QPSolution:
    """A step, its multipliers, and the residuals of its optimality conditions.

    Attributes
    ----------
    d : ndarray of shape (n,)
        Step.
    y : ndarray of shape (m,)
        Multipliers, positive on the upper side, negative on the lower side.
    violation : float
        v(c + Jd).
    slope, curvature : float
        gᵀd and dᵀHd.
    elastic : bool
        Whether some multiplier is at its bound ρ, so that a row may be violated.
    penalty : float
        The ρ of the solution.  If hard rows (ρ = inf) are inconsistent, a large finite number.
    kkt_residual : float
        The largest residual of the optimality conditions, each relative to the largest term of the sum that should
        vanish.  Let n_i = ‖J_i‖ in the norm of H⁻¹, and p_i = n_i|y_i|.  By Cauchy-Schwarz, the terms of
        c_i + J_i d = c_i − J_i H⁻¹g − Σ_j J_i H⁻¹J_jᵀ y_j are at most
        s_i = max(|c_i|, |finite bounds_i|, n_i‖g‖, n_i max_j p_j).  The residuals are

        - ‖Hd + g + Jᵀy‖∞ / max(‖g‖∞, largest term of Jᵀy = basisᵀ(rowsᵀy));
        - violation_i / s_i.  In the elastic QP a row may be violated if |y_i| = ρ, so there it is the smaller of this
          and (ρ − |y_i|)/ρ;
        - min(p_i / max_j p_j, slack_i / s_i), slack_i the distance to the bound that the sign of y_i refers to;
        - p_i / max_j p_j of a multiplier whose bound is infinite, and (|y_i| − ρ)/ρ.
    """

    d: Array
    y: Array
    violation: float
    slope: float
    curvature: float
    elastic: bool
    penalty: float
    kkt_residual: float

    def is_optimal(self, tol: float = 1e-8) -> bool:
        """Return whether all optimality conditions hold to `tol`."""
        return self.kkt_residual <= tol


def solve_qp(
    g: Array,
    hessian: Metric,
    c: Array,
    J: Jacobian,
    lower: Array,
    upper: Array,
    *,
    penalty: float = math.inf,
) -> QPSolution:
    """Solve the QP of one SQP step.

    Parameters
    ----------
    g : ndarray of shape (n,)
        Gradient of the objective.
    hessian : Metric
        H through `solve` and `product`, positive definite.
    c, lower, upper : ndarray of shape (m,)
        Constraint values and bounds; m may be 0.
    J : Jacobian of shape (m, n)
        Constraint gradients.
    penalty : float
        ρ, above 0.  With inf the rows are hard.  If hard rows are inconsistent, the solution for a large ρ is returned;
        its `elastic` is then True, and its `penalty` is that ρ.

    Examples
    --------
    Minimise −d + ½d² subject to 0 + d ≤ ½: the step is ½ and the multiplier ½.

    >>> from fairbound.sqp.diagonal import Identity
    >>> one = np.ones(1)
    >>> solution = solve_qp(-one, Identity(), 0 * one, Jacobian.dense(one[None]), -one * math.inf, one / 2)
    >>> solution.d.item(), solution.y.item(), solution.is_optimal()
    (0.5, 0.5, True)
    """
    return solve_with_core(Core(hessian, J), g, c, lower, upper, penalty=penalty)


def solve_with_core(
    core: Core, g: Array, c: Array, lower: Array, upper: Array, *, penalty: float = math.inf
) -> QPSolution:
    """Solve the QP as `solve_qp` does, with the H and J of `core`; several QPs may share one core."""
    m, n = core.J.shape
    if not penalty > 0.0:
        raise ValueError(f"solve_qp(penalty={penalty!r}): must be above 0; use inf for hard rows.")
    if not (c.shape == lower.shape == upper.shape == (m,) and g.shape == (n,)):
        raise ValueError(
            f"solve_qp: shapes do not fit: g {g.shape}, c {c.shape}, J {(m, n)}, lower {lower.shape}, "
            f"upper {upper.shape}."
        )
    return _QP(core, g, c, lower, upper).solve(penalty)


class _QP:
    """One QP: solve the reduced problem for the multipliers, then compute the step and its residuals in full space."""

    def __init__(self, core: Core, g: Array, c: Array, lower: Array, upper: Array) -> None:
        self.core, self.g, self.c, self.lower, self.upper = core, g, c, lower, upper
        self.newton = core.hessian.solve(g)  # H⁻¹g
        self.gradient_norm = math.sqrt(max(float(g.dot(self.newton)), 0.0))
        self.q = c - core.J.product(self.newton)
        self.has_lower, self.has_upper = lower > -math.inf, upper < math.inf
        size = np.maximum(np.abs(c), core.norms * self.gradient_norm)
        for bound, exists in ((lower, self.has_lower), (upper, self.has_upper)):
            np.maximum(size, np.abs(bound), out=size, where=exists)
        self.size = size  # of the terms of c + Jd that do not depend on the multipliers

    def solve(self, penalty: float) -> QPSolution:
        y, penalty = self._multipliers(self.q, penalty, start=None)
        best = self._solution(y, penalty)
        for _ in range(3):
            if best.is_optimal(_POLISH) or not self.core.live.any():
                break
            # Polish.  The reduced problem says c + Jd = q − W Wᵀy, up to the rounding errors of the factor.  Choose q
            # so that this is exact at the current y, and solve again from there.
            y = best.y
            reached = self.c + self.core.J.product(best.d)
            y, penalty = self._multipliers(reached + self.core.response(y), penalty, start=y)
            candidate = self._solution(y, penalty)
            if candidate.kkt_residual >= best.kkt_residual:
                break
            best = candidate
        return best

    def _multipliers(self, q: Array, penalty: float, start: Array | None) -> tuple[Array, float]:
        """Return the multipliers of the reduced problem with the constant q, and their penalty."""
        y = np.zeros_like(q)
        violation = violations(q, self.lower, self.upper)
        if not violation.any():
            return y, penalty
        live, norms = self.core.live, self.core.norms[self.core.live]
        distance = _largest(violation[live] / norms)
        # No step changes a row without gradient.  If such a row is violated, hard rows are inconsistent, and the
        # multiplier of the elastic QP is at its bound.
        unattainable = ~live & (violation > 8.0 * EPS * np.maximum(np.abs(self.c), np.abs(q)))
        if unattainable.any():
            if math.isinf(penalty):
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
        if start is not None or scaled is None or (np.abs(scaled) > price).any():
            size = np.maximum(np.abs(self.c), np.abs(q))[live] + norms * self.gradient_norm
            noise = 4.0 * EPS * size / unit
            scaled, bounded = priced_multipliers(self.core.W, lower, upper, price, noise, scaled)
            if not bounded:
                penalty = self._fallback_penalty(distance)
                price = penalty * norms / distance
                scaled, _ = priced_multipliers(self.core.W, lower, upper, price, noise)
        # A multiplier at its bound must equal ±ρ exactly, also after scaling back.
        y[live] = np.where(np.abs(scaled) >= price, np.copysign(penalty, scaled), scaled * distance / norms)
        return y, penalty

    def _fallback_penalty(self, distance: float) -> float:
        """Return a penalty for inconsistent hard rows.

        Multipliers are about as large as distance / norm or ‖g‖ / norm.  The penalty is 10⁴ times that.
        """
        largest = _largest(self.core.norms)
        return 1e4 * max(distance, self.gradient_norm) / largest if largest > 0.0 and distance > 0.0 else 1.0

    def _solution(self, y: Array, penalty: float) -> QPSolution:
        """Return the step that belongs to the multipliers, with its residuals."""
        core = self.core
        weights, sizes = y @ core.J.rows, np.abs(y)
        J_y = weights @ core.J.basis  # Jᵀy
        d = -self.newton - weights @ core.solved_basis
        product = core.hessian.product(d)
        curvature = float(d.dot(product))
        largest = max(_largest(np.abs(self.g)), _largest((sizes @ core.row_sizes) * core.basis_sizes))
        stationarity = _largest(np.abs(product + self.g + J_y)) / largest if largest > 0.0 else 0.0
        reached = self.c + core.J.product(d)
        violation = violations(reached, self.lower, self.upper)
        p = core.norms * sizes
        largest_p = _largest(p)
        # If the gradient of row i counts as zero, J_i d is a rounding error.  By Cauchy-Schwarz it is at most the bound
        # `unknown` on ‖J_i‖ in the norm of H⁻¹, times ‖d‖ in the norm of H.
        terms = np.maximum(core.norms * largest_p, core.unknown * math.sqrt(max(curvature, 0.0)))
        scale = np.maximum(np.maximum(self.size, terms), _TINY)
        p = p / largest_p if largest_p > 0.0 else p
        up = y > 0.0
        missing = ~np.where(up, self.has_upper, self.has_lower)
        slack = np.where(up, self.upper - reached, reached - self.lower)
        slack[missing] = 0.0
        primal, elastic, excess = violation / scale, False, 0.0
        if math.isfinite(penalty):
            primal = np.minimum(primal, np.maximum(penalty - sizes, 0.0) / penalty)
            largest_y = _largest(sizes)
            elastic, excess = largest_y >= penalty, max(largest_y - penalty, 0.0) / penalty
        complementarity = _largest(np.minimum(p, np.maximum(slack, 0.0) / scale))
        return QPSolution(
            d=d,
            y=y,
            violation=float(violation.sum()),
            slope=float(self.g.dot(d)),
            curvature=curvature,
            elastic=elastic,
            penalty=penalty,
            kkt_residual=max(stationarity, _largest(primal), complementarity, _largest(p[missing]), excess),
        )


def _largest(value: Array) -> float:
    """Return the largest of some numbers that are not negative; 0 if there are none."""
    return float(np.maximum.reduce(value, initial=0.0))
