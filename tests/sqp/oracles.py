"""Independent solvers of the QP of one step: a conic solver, and the enumeration of Algorithm 1 of the paper."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from fairbound.sqp.problem import Jacobian
from fairbound.sqp.qp import QPSolution, solve_qp


class Diagonal:
    """H = diag(h), for tests."""

    def __init__(self, h):
        self.h = np.asarray(h, dtype=float)

    def solve(self, V):
        return V / self.h

    def product(self, d):
        return d * self.h


@dataclass(frozen=True)
class DenseQP:
    """min gᵀd + ½ dᵀ diag(h) d (+ penalty · v(c + Jd)) subject to lower ≤ c + Jd ≤ upper, in numpy."""

    g: np.ndarray
    h: np.ndarray
    c: np.ndarray
    J: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    penalty: float = math.inf

    def solve(self, jacobian: Jacobian | None = None) -> QPSolution:
        """Our solution."""
        J = jacobian if jacobian is not None else Jacobian.dense(self.J)
        return solve_qp(self.g, Diagonal(self.h), self.c, J, self.lower, self.upper, penalty=self.penalty)

    def objective(self, d: np.ndarray) -> float:
        """gᵀd + ½ dᵀHd, plus the price of the violation if that is finite."""
        value = self.g @ d + 0.5 * d @ (self.h * d)
        return float(value + self.penalty * self.violations(d).sum()) if math.isfinite(self.penalty) else float(value)

    def violations(self, d: np.ndarray) -> np.ndarray:
        reached = self.c + self.J @ d
        return np.maximum(reached - self.upper, 0.0) + np.maximum(self.lower - reached, 0.0)

    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows A d ≤ b, one for each finite side: first the upper, then the lower ones."""
        up, low = np.isfinite(self.upper), np.isfinite(self.lower)
        A = np.concatenate([self.J[up], -self.J[low]])
        return A, np.concatenate([(self.upper - self.c)[up], (self.c - self.lower)[low]])


def conic_step(qp: DenseQP) -> tuple[str, np.ndarray]:
    """Status and step of Clarabel, an interior-point solver that works in the full space with explicit slacks."""
    A, b = qp.sides()
    n, sides = qp.g.size, b.size
    if math.isfinite(qp.penalty):
        P = sparse.diags(np.concatenate([qp.h, np.zeros(sides)]), format="csc")
        linear = np.concatenate([qp.g, np.full(sides, qp.penalty)])
        eye = sparse.identity(sides)
        rows = sparse.bmat([[sparse.csc_matrix(A), -eye], [None, -eye]], format="csc")
        bounds = np.concatenate([b, np.zeros(sides)])
    else:
        P, linear, rows, bounds = sparse.diags(qp.h, format="csc"), qp.g, sparse.csc_matrix(A), b
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(P, linear, rows, bounds, [clarabel.NonnegativeConeT(bounds.size)], settings)
    solution = solver.solve()
    return str(solution.status), np.array(solution.x)[:n]


def _active_set_step(qp: DenseQP, A: np.ndarray, b: np.ndarray, active: tuple[int, ...]) -> np.ndarray | None:
    """Minimiser with the rows `active` of A d ≤ b as equations, None where they are inconsistent."""
    root = 1.0 / np.sqrt(qp.h)
    free = -root * qp.g  # the unconstrained minimiser in the variables x = √h · d, where the objective is ½‖x − free‖²
    if not active:
        return root * free
    rows, right = A[list(active)] * root, b[list(active)]
    shift, *_ = np.linalg.lstsq(rows, right - rows @ free, rcond=1e-12)  # the least change that reaches the rows
    x = free + shift
    return root * x if np.allclose(rows @ x, right, atol=1e-9) else None


def enumerated_step(qp: DenseQP, tolerance: float = 1e-9) -> np.ndarray | None:
    """Algorithm 1 made right: of all active sets, the feasible candidate of least objective; None if there is none."""
    A, b = qp.sides()
    candidates = []
    for size in range(min(b.size, qp.g.size) + 1):
        for active in itertools.combinations(range(b.size), size):
            d = _active_set_step(qp, A, b, active)
            if d is not None and (A @ d <= b + tolerance).all():
                candidates.append(d)
    return min(candidates, key=qp.objective) if candidates else None


def printed_order_step(qp: DenseQP, tolerance: float = 1e-9) -> np.ndarray | None:
    """Algorithm 1 as printed, for two rows: the first size of active set with a feasible candidate ends the search."""
    A, b = qp.sides()
    for size in range(3):
        steps = [_active_set_step(qp, A, b, active) for active in itertools.combinations(range(b.size), size)]
        feasible = [d for d in steps if d is not None and (A @ d <= b + tolerance).all()]
        if feasible:
            return min(feasible, key=qp.objective)
    return None
