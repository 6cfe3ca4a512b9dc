"""The QP of one step: residuals on wide random families, and agreement with independent solvers."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sqp.oracles import DenseQP, conic_step

from fairbound.sqp.diagonal import Identity
from fairbound.sqp.problem import Jacobian
from fairbound.sqp.qp import solve_qp

CERTIFIED = 1e-8  # what every solution must certify
CONIC = 1e-5  # Clarabel stops at a relative gap of 1e-10, so its steps are right to about the root of that

FAMILIES = ("random", "low rank", "dependent", "badly scaled", "integers", "nearly parallel")


def random_qp(seed: int, family: str, m: int, penalty: float) -> DenseQP:
    """Two-sided rows of one family; all kinds of sides: both, one, none, equal."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    J = rng.normal(size=(m, n))
    c = rng.normal(size=m)
    g = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2)
    width = np.abs(rng.normal(size=m)) * (rng.random(m) > 0.2)  # a fifth are equations or bounds at 0
    if family == "low rank":
        rank = int(rng.integers(1, 4))
        J = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    elif family == "dependent":
        J[m // 2 :] = -J[: m - m // 2]
        J[m // 3] = 0.0
    elif family == "badly scaled":
        units = 10.0 ** rng.uniform(-8, 8, size=m)
        J, c, width = J * units[:, None], c * units, width * units
    elif family == "integers":  # many exact ties
        J, c, g = (rng.integers(-2, 3, size=a.shape).astype(float) for a in (J, c, g))
        width = np.round(width)
    elif family == "nearly parallel":
        J = rng.normal(size=(1, n)) + 10.0 ** rng.uniform(-7, -1) * J
    kind = rng.random(m)
    return DenseQP(
        g=g,
        h=10.0 ** rng.uniform(-2, 2, size=n) if seed % 2 else np.ones(n),
        c=c,
        J=J,
        lower=np.where(kind < 0.5, -width, -math.inf),
        upper=np.where((kind < 0.3) | (kind > 0.55), width, math.inf),
        penalty=penalty,
    )


def pairwise_qp(seed: int, groups: int, ratio: float, penalty: float) -> tuple[DenseQP, Jacobian]:
    """All rows ratio·r_a − r_b ≤ 0 of ordered pairs of groups: groups·(groups − 1) rows of rank `groups` at most."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((groups * (groups - 1), groups))
    for row, (a, b) in enumerate(itertools.permutations(range(groups), 2)):
        rows[row, a], rows[row, b] = ratio, -1.0
    n = int(rng.integers(2, 60))
    basis = rng.normal(size=(groups, n)) * 10.0 ** rng.uniform(-3, 1, size=(groups, 1))
    qp = DenseQP(
        g=rng.normal(size=n),
        h=10.0 ** rng.uniform(-1, 1, size=n),
        c=rows @ rng.uniform(0.0, 1.0, size=groups),
        J=rows @ basis,
        lower=np.full(len(rows), -math.inf),
        upper=np.zeros(len(rows)),
        penalty=penalty,
    )
    return qp, Jacobian(rows=rows, basis=basis)


def assert_as_good_as_the_conic_solver(qp: DenseQP, solution) -> None:
    status, d = conic_step(qp)
    if math.isinf(qp.penalty) and solution.elastic:
        assert status == "PrimalInfeasible"
        return
    assert status in {"Solved", "AlmostSolved"}
    ours = solution.d
    size = max(abs(qp.objective(d)), float(np.abs(qp.g) @ np.abs(d)), 1e-4)  # its gap is also absolute, 1e-10
    assert qp.objective(ours) <= qp.objective(d) + CONIC * size
    # H is positive definite, so the solution is unique: ½‖d − d*‖² in the norm of H is at most the gap.
    assert (qp.h * (ours - d) ** 2).sum() <= CONIC * max(size, (qp.h * d**2).sum())


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from(FAMILIES),
    m=st.integers(1, 40),
    penalty=st.sampled_from([math.inf, 1e-2, 1.0, 1e2, 1e5]),
)
def test_random_qps_certify_themselves(seed, family, m, penalty):
    solution = random_qp(seed, family, m, penalty).solve()
    assert solution.kkt_residual <= CERTIFIED
    assert solution.is_optimal(CERTIFIED)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from(["random", "low rank", "dependent", "integers"]),
    m=st.integers(1, 40),
    penalty=st.sampled_from([math.inf, 1e-2, 1.0, 1e2]),
)
def test_random_qps_agree_with_a_conic_solver(seed, family, m, penalty):
    qp = random_qp(seed, family, m, penalty)
    assert_as_good_as_the_conic_solver(qp, qp.solve())


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(2, 25),
    ratio=st.sampled_from([0.8, 0.9, 1.0]),
    penalty=st.sampled_from([math.inf, 1e-1, 1e3]),
)
@example(seed=3, groups=25, ratio=0.8, penalty=math.inf)
@example(seed=3, groups=25, ratio=1.0, penalty=math.inf)
@example(seed=3, groups=25, ratio=0.8, penalty=0.1)
def test_pairwise_rows_of_many_groups_certify_themselves(seed, groups, ratio, penalty):
    qp, jacobian = pairwise_qp(seed, groups, ratio, penalty)
    assert qp.solve(jacobian).kkt_residual <= CERTIFIED


@pytest.mark.parametrize("groups", [3, 8])
@pytest.mark.parametrize("penalty", [math.inf, 0.1])
def test_pairwise_rows_agree_with_a_conic_solver_and_with_the_dense_form(groups, penalty):
    qp, jacobian = pairwise_qp(groups, groups, 0.9, penalty)
    factored = qp.solve(jacobian)
    assert_as_good_as_the_conic_solver(qp, factored)
    np.testing.assert_allclose(factored.d, qp.solve().d, rtol=1e-8, atol=1e-10)  # one step, two ways to its core


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from(FAMILIES),
    m=st.integers(1, 12),
    penalty=st.sampled_from([1e-2, 1.0, 1e2]),
)
def test_identity_of_slope_curvature_and_multipliers(seed, family, m, penalty):
    """gᵀd + dᵀHd = Σ y⁺(c − upper) + y⁻(lower − c) − ρ·v(c + Jd); for rows c ≤ 0 the sum is yᵀc."""
    qp = random_qp(seed, family, m, penalty)
    solution = qp.solve()
    y = solution.y
    with np.errstate(invalid="ignore"):
        upper = np.where(y > 0, y * (qp.c - qp.upper), 0.0)
        lower = np.where(y < 0, -y * (qp.lower - qp.c), 0.0)
    d = solution.d
    right = float((upper + lower).sum()) - penalty * solution.violation
    # Rounding: of the terms that are summed, and of the violations, which are known to the last digits of the largest
    # term of c + Jd only (the scale s of the certificate).
    norms = np.sqrt((qp.J**2 / qp.h).sum(axis=1))
    size = np.abs(qp.c) + norms * max(np.sqrt((qp.g**2 / qp.h).sum()), (norms * np.abs(y)).max())
    terms = np.abs(qp.g) @ np.abs(d) + np.abs(upper).sum() + np.abs(lower).sum() + penalty * solution.violation
    rounding = 1e-9 * terms
    rounding += 1e-14 * penalty * size.sum()
    assert solution.slope + solution.curvature == pytest.approx(right, abs=rounding)
    # Hence, with |y| ≤ ρ, the increase of the objective's model is paid by the reduction of the violation.
    reduction = qp.violations(np.zeros_like(d)).sum() - solution.violation
    assert solution.slope + solution.curvature <= penalty * reduction + rounding + 1e-9 * penalty * abs(reduction)


def test_one_sided_identity_in_closed_form():
    # min −d + ½d² + ρ·max(d, 0) at ρ = ¼: d = ¾, y = ρ, and gᵀd + dᵀHd = −¾ + 9/16 = yᵀc − ρ·v = −¼·¾.
    solution = DenseQP(*map(np.array, ([-1.0], [1.0], [0.0], [[1.0]], [-math.inf], [0.0])), penalty=0.25).solve()
    assert solution.d.item() == pytest.approx(0.75, abs=1e-14)
    assert solution.y.item() == 0.25
    assert solution.elastic
    assert solution.slope + solution.curvature == pytest.approx(-0.25 * 0.75, abs=1e-14)


def test_no_rows_is_the_newton_step():
    g, empty = np.array([1.0, -2.0]), np.zeros(0)
    solution = solve_qp(g, Identity(), empty, Jacobian.dense(np.zeros((0, 2))), empty, empty)
    np.testing.assert_array_equal(solution.d, -g)
    assert solution.y.shape == (0,)
    assert solution.kkt_residual == 0.0


def test_rows_without_a_finite_side_do_nothing():
    qp = DenseQP(*map(np.array, ([1.0, 1.0], [1.0, 2.0], [5.0], [[1.0, 0.0]], [-math.inf], [math.inf])))
    np.testing.assert_array_equal(qp.solve().d, [-1.0, -0.5])


def test_equal_bounds_are_an_equation():
    # min ½‖d‖² subject to d₁ + d₂ = 2
    qp = DenseQP(*map(np.array, ([0.0, 0.0], [1.0, 1.0], [0.0], [[1.0, 1.0]], [2.0], [2.0])))
    solution = qp.solve()
    np.testing.assert_allclose(solution.d, [1.0, 1.0], atol=1e-14)
    np.testing.assert_allclose(solution.y, [-1.0], atol=1e-14)  # pushes on the lower side


def test_opposite_rows_of_a_ratio_of_one_meet_in_one_point():
    rows = np.array([[1.0, -1.0], [-1.0, 1.0]])
    qp = DenseQP(np.array([-1.0, 0.5]), np.ones(2), rows @ [0.3, 0.7], rows, np.full(2, -math.inf), np.zeros(2))
    solution = qp.solve()
    assert not solution.elastic
    np.testing.assert_allclose(rows @ (np.array([0.3, 0.7]) + solution.d), 0.0, atol=1e-14)


@pytest.mark.parametrize("penalty", [math.inf, 2.0])
def test_inconsistent_rows_settle_between_each_other(penalty):
    # d ≤ −1 and d ≥ 1: every d in between violates by 2 in all, so the objective decides, d = ½
    rows = np.array([[1.0], [1.0]])
    qp = DenseQP(
        np.array([-0.5]), np.ones(1), np.zeros(2), rows, np.array([-math.inf, 1.0]), np.array([-1.0, math.inf])
    )
    solution = DenseQP(**{**qp.__dict__, "penalty": penalty}).solve()
    assert solution.elastic
    assert math.isfinite(solution.penalty)
    assert solution.d.item() == pytest.approx(0.5, abs=1e-9)
    assert solution.violation == pytest.approx(2.0, abs=1e-12)
    assert solution.kkt_residual <= CERTIFIED


@pytest.mark.parametrize("penalty", [math.inf, 3.0])
def test_a_violated_row_without_gradient_pays_its_price_and_leaves_the_step_alone(penalty):
    qp = DenseQP(
        np.array([1.0]), np.ones(1), np.array([2.0]), np.zeros((1, 1)), np.array([-1.0]), np.array([1.0]), penalty
    )
    solution = qp.solve()
    assert solution.d.item() == -1.0
    assert solution.elastic
    assert solution.violation == 1.0
    assert solution.y.item() == solution.penalty
    assert solution.kkt_residual <= CERTIFIED


@pytest.mark.parametrize("penalty", [math.inf, 1e-3, 1e8])
@pytest.mark.parametrize("length", [1e-320, 1e-200, 1e-160, 1e-120, 1e-99, 1e-60, 1e-20])
def test_a_gradient_however_short_gives_a_finite_step(length, penalty):
    """Where every margin is saturated, the gradient of a constraint underflows; the other rows still get their step."""
    J = np.array([[length, 0.0], [0.0, 1.0], [-length, length]])
    c = np.array([0.3, 0.5, 0.2])
    none, zero = np.full(3, -math.inf), np.zeros(3)
    g = np.array([1e-3, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solve_qp(g, Identity(), c, Jacobian.dense(J), none, zero, penalty=penalty)
    for value in (found.d, found.y):
        assert np.isfinite(value).all()
    assert math.isfinite(found.kkt_residual)
    if length < 1e-99:
        assert float(found.d[1]) == pytest.approx(-min(0.5, penalty))


@pytest.mark.parametrize("size", [1e-3, 1e3, 1e9, 1e15, 1e18])
def test_a_row_that_cancels_does_not_overflow_its_residual(size):
    """Nobody is selected: c and its bound are 0, the gradient is the difference of equal rows, and the step is long."""
    basis = np.array([[1.0, 1.0], [1.0 + 1e-14, 1.0]])
    rows = np.array([[1.0, -1.0], [1.0, 1.0]])
    zero, none = np.zeros(2), np.full(2, -math.inf)
    g = size * np.array([1.0, -3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solve_qp(g, Identity(), zero, Jacobian(rows, basis), none, zero)
    assert found.kkt_residual <= CERTIFIED
    assert found.d.tolist() == pytest.approx([-2 * size, 2 * size])


def test_row_scaling_leaves_the_step_unchanged():
    qp = random_qp(7, "random", 6, math.inf)
    units = 10.0 ** np.array([-9.0, 9.0, 0.0, -4.0, 5.0, 2.0])
    scaled = DenseQP(qp.g, qp.h, qp.c * units, qp.J * units[:, None], qp.lower * units, qp.upper * units)
    np.testing.assert_allclose(scaled.solve().d, qp.solve().d, rtol=1e-9, atol=1e-11)


def test_a_tiny_violation_is_not_lost_in_the_tolerance():
    # The last iterations of a solver: everything is nearly kept, and the step must be right to its own size.
    qp = DenseQP(*map(np.array, ([0.0, 0.0], [1.0, 1.0], [1e-13], [[1.0, 1.0]], [-math.inf], [0.0])))
    np.testing.assert_allclose(qp.solve().d, [-5e-14, -5e-14], rtol=1e-9)


def test_more_basis_gradients_than_rows():
    rng = np.random.default_rng(0)
    rows, basis = rng.normal(size=(2, 7)), rng.normal(size=(7, 4))
    qp = DenseQP(rng.normal(size=4), np.ones(4), np.ones(2), rows @ basis, np.full(2, -math.inf), np.zeros(2))
    jacobian = Jacobian(rows, basis)
    np.testing.assert_allclose(qp.solve(jacobian).d, qp.solve().d, atol=1e-12)


def test_multipliers_never_exceed_the_penalty():
    for seed in range(30):
        solution = random_qp(seed, "dependent", 20, 0.3).solve()
        assert float(np.abs(solution.y).max()) <= 0.3


def test_misuse_is_refused_with_a_sentence():
    one = np.ones(1)
    J = Jacobian.dense(one[None])
    with pytest.raises(ValueError, match=r"solve_qp\(penalty=0\).*above 0.*inf"):
        solve_qp(one, Identity(), one, J, one, one, penalty=0)
    with pytest.raises(ValueError, match=r"solve_qp: shapes do not fit: g \(1,\), c \(2,\)"):
        solve_qp(one, Identity(), np.ones(2), J, one, one)
