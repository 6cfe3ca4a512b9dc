"""Solutions are optimal: against a conic solver if the problem is convex, and against SLSQP otherwise."""

import clarabel
import numpy as np
import pytest
import torch
from scipy import optimize, sparse

from fairbound.data import make_disparate_data
from fairbound.fairness import Cells, Covariance, DisparateImpact, Linear, SmoothedStep
from fairbound.sqp import Evaluation, QuasiNewtonSQP, Status
from fairbound.training import L2, TrainingProblem, make_model

WEIGHT = 1e-3


def conic_logistic_regression(X: np.ndarray, y: np.ndarray, row: np.ndarray, bound: float) -> float:
    """min (1/n) Σ t_i + ½ WEIGHT ‖w‖² subject to t_i ≥ log(1 + exp(−s_i z_i)), z = [X 1] w, |row · z| ≤ bound.

    With s = 2y − 1 the loss is u_i + v_i ≤ 1, u_i ≥ exp(−s_i z_i − t_i), v_i ≥ exp(−t_i): two exponential cones a row.
    Variables (w, t, u, v); a cone (a, b, c) means b exp(a/b) ≤ c.
    """
    A = np.hstack([X, np.ones((len(X), 1))])
    n, p = A.shape
    size = p + 3 * n
    P = sparse.diags([WEIGHT] * p + [0.0] * (3 * n)).tocsc()
    q = np.concatenate([np.zeros(p), np.full(n, 1 / n), np.zeros(2 * n)])
    sums = sparse.hstack([sparse.csr_matrix((n, p + n)), sparse.eye(n), sparse.eye(n)])
    limit = sparse.csr_matrix(np.concatenate([row @ A, np.zeros(3 * n)]))
    blocks, right, cones = [sums, limit, -limit], [np.ones(n), [bound], [bound]], [clarabel.NonnegativeConeT(n + 2)]
    signs = 2 * y - 1
    for i in range(n):
        for weights, value in ((signs[i] * A[i], p + n + i), (np.zeros(p), p + 2 * n + i)):
            block = sparse.lil_matrix((3, size))
            block[0, :p], block[0, p + i] = weights, 1.0  # −(−s z − t)
            block[2, value] = -1.0
            blocks.append(block)
            right.append([0.0, 1.0, 0.0])
            cones.append(clarabel.ExponentialConeT())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    matrix = sparse.vstack(blocks).tocsc()
    solution = clarabel.DefaultSolver(P, q, matrix, np.concatenate(right), cones, settings).solve()
    assert str(solution.status) == "Solved"
    return solution.obj_val


class AllRows:
    """A training problem on all rows, as the solver's program."""

    def __init__(self, problem: TrainingProblem, X: np.ndarray) -> None:
        self.problem, self.rows = problem, problem.rows(X)

    def initial_point(self) -> np.ndarray:
        return self.problem.current()

    def evaluate(self, w: np.ndarray) -> Evaluation:
        self.problem.assign(w)
        return self.problem.evaluate(self.rows)

    def values(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        self.problem.assign(w)
        return self.problem.values(self.rows)


def solve(problem: TrainingProblem, X: np.ndarray) -> tuple[float, Status]:
    """The optimum of the smooth problem itself, surrogate values and all, to tight tolerances."""
    solver = QuasiNewtonSQP(tolerance=1e-7, max_iterations=2000)
    solution = solver.solve(AllRows(problem, X))
    return solution.f, solution.status


@pytest.mark.parametrize("bound", [1.0, 0.05, 0.005])
def test_convex_covariance_on_the_logit_agrees_with_a_conic_solver(bound: float) -> None:
    data = make_disparate_data(150, base_rates={"a": 0.6, "b": 0.3}, seed=3).dataset
    groups = data.groups()
    cells = Cells.build(data.y, groups)
    module = make_model(data.X.shape[1], dtype=torch.float64)
    # Beyond a quarter a covariance of decisions means nothing, but one of logits does: no limit at all stands for 1.
    limits = [Covariance(bound, surrogate=Linear(), margin="logit")] if bound < 0.25 else []
    problem = TrainingProblem(module, "binary_cross_entropy", limits, cells, regularizers=[L2(WEIGHT)])
    member = (groups == sorted(set(groups.tolist()))[1]).astype(float)
    row = (member - member.mean()) / len(member)
    expected = conic_logistic_regression(data.X, data.y, row, bound if bound < 0.25 else 1e3)
    found, status = solve(problem, data.X)
    assert status is Status.CONVERGED
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("hidden", "ratio"), [((), 0.8), ((), 0.95), ((3,), 0.8)])
def test_small_nonconvex_cases_are_no_worse_than_slsqp(hidden: tuple[int, ...], ratio: float) -> None:
    data = make_disparate_data(200, base_rates={"a": 0.6, "b": 0.3}, seed=1).dataset
    cells = Cells.build(data.y, data.groups())
    module = make_model(data.X.shape[1], hidden=hidden, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    limit = DisparateImpact(ratio, surrogate=SmoothedStep(5.0, smoothing=1e-2))
    problem = TrainingProblem(module, "binary_cross_entropy", [limit], cells, regularizers=[L2(1e-2)])
    whole = AllRows(problem, data.X)
    start = problem.current()

    other = optimize.minimize(
        lambda w: whole.evaluate(w).f,
        start,
        jac=lambda w: whole.evaluate(w).g,
        constraints={
            "type": "ineq",
            "fun": lambda w: -whole.evaluate(w).c,
            "jac": lambda w: -whole.evaluate(w).J.matrix(),
        },
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert other.success
    problem.assign(start)
    found, status = solve(problem, data.X)
    # A leaky ReLU has kinks, where no multipliers balance the gradient to the last digit; linear models have none.
    assert status is Status.CONVERGED or (hidden and status is Status.FEASIBLE)
    assert found <= other.fun + 1e-5
