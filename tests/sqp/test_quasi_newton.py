"""`QuasiNewtonSQP` and its line search: textbook programs to 1e-8, and every status of a solve."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.sqp.textbook import INF, TEXTBOOK, Textbook

from fairbound.sqp import Evaluation, Identity, QuasiNewtonSQP, Status, StochasticSQP, kkt_residuals, violation
from fairbound.sqp.line_search import search
from fairbound.sqp.steering import steered_step

PROBLEMS = {problem.name: problem for problem in TEXTBOOK}


def program(name, f, c, lower, upper, start) -> Textbook:
    return Textbook(name, f, c, lower, upper, start, math.nan, None)


class Counted:
    """A problem that counts how often it is evaluated."""

    def __init__(self, problem):
        self.problem, self.evaluations, self.value_evaluations = problem, 0, 0

    def initial_point(self):
        return self.problem.initial_point()

    def evaluate(self, w):
        self.evaluations += 1
        return self.problem.evaluate(w)

    def values(self, w):
        self.value_evaluations += 1
        return self.problem.values(w)


@pytest.mark.parametrize("problem", TEXTBOOK, ids=lambda problem: problem.name)
def test_textbook_programs_to_1e8(problem):
    counted = Counted(problem)
    solution = QuasiNewtonSQP().solve(counted)
    assert solution.status is Status.CONVERGED
    # The certificate is recomputed from the problem, not taken from the solver.
    residuals = kkt_residuals(problem.evaluate(solution.w), solution.multipliers)
    assert residuals.largest <= 1e-8
    assert solution.kkt == residuals
    assert problem.knows(solution.f, 1e-7)  # seven to ten digits are printed
    if problem.optimum is not None and abs(solution.f - problem.value) <= 1e-6 * max(1.0, abs(problem.value)):
        printed = np.abs(problem.optimum)
        np.testing.assert_allclose(np.abs(solution.w), printed, rtol=1e-4, atol=1e-4)  # up to symmetric signs
    assert solution.evaluations == counted.evaluations
    assert solution.value_evaluations == counted.value_evaluations
    assert solution.iterations <= 60


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 8), m=st.integers(1, 5))
def test_random_nonconvex_programs_agree_with_slsqp(seed, n, m):
    """A bounded, nonconvex objective within balls and outside one: same start, a value at least as good as SLSQP's."""
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(n, n, generator=generator, dtype=torch.float64)
    b = torch.randn(n, generator=generator, dtype=torch.float64)
    centres = 0.3 * torch.randn(m, n, generator=generator, dtype=torch.float64)
    start = 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    problem = program(
        "balls",
        lambda x: torch.sin(A @ x).sum() + b @ x,
        lambda x: [((x - centre) ** 2).sum() for centre in centres],
        (0.01, *[-INF] * (m - 1)),
        (4.0,) * m,
        tuple(start.tolist()),
    )
    solution = QuasiNewtonSQP().solve(problem)
    assert solution.status is Status.CONVERGED

    def rows(x):
        c = problem.values(x)[1]
        return np.concatenate([4.0 - c, c[:1] - 0.01])

    def row_gradients(x):
        J = problem.evaluate(x).J.matrix()
        return np.concatenate([-J, J[:1]])

    # From our solution SLSQP finds nothing better: it is a local minimiser to its tolerance.
    reference = minimize(
        lambda x: problem.values(x)[0],
        solution.w,
        jac=lambda x: problem.evaluate(x).g,
        constraints={"type": "ineq", "fun": rows, "jac": row_gradients},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 200},
    )
    nearby = np.linalg.norm(reference.x - solution.w) <= 1e-2
    assert not nearby or solution.f <= reference.fun + 1e-6


@pytest.mark.parametrize("angle", [0.1, 0.01, 0.001])
def test_the_second_order_correction_defeats_the_maratos_effect(angle):
    """On the circle, with the exact Hessian I of the Lagrangian, the full step squares the distance to the solution.

    Still the merit function refuses it, however near the solution is; the corrected step it takes.
    """
    problem = PROBLEMS["Maratos"]
    w = np.array([math.cos(angle), math.sin(angle)])
    here = problem.evaluate(w)
    steered = steered_step(here, Identity(), 10.0)
    optimum = np.array([1.0, 0.0])
    assert np.linalg.norm(w + steered.solution.d - optimum) < angle**2
    f, c = problem.values(w + steered.solution.d)
    assert f + 10.0 * violation(c, here.lower, here.upper) > here.f + 10.0 * here.violation
    trials = []
    values = lambda point: trials.append(point) or problem.values(point)  # noqa: E731
    corrected = search(values, w, here, steered.core, steered.solution)
    assert corrected.corrected
    assert corrected.length == 1.0
    assert not corrected.is_full_step
    assert len(trials) == 2
    assert np.linalg.norm(w + corrected.change - optimum) < angle**2


def test_a_search_that_finds_nothing_says_so():
    problem = PROBLEMS["HS43"]
    w = problem.initial_point()
    here = problem.evaluate(w)
    steered = steered_step(here, Identity(), 10.0)
    found = search(lambda _: (math.nan, here.c), w, here, steered.core, steered.solution)
    assert not found.accepted
    assert found.length == 0.0
    assert not found.change.any()


class Traced:
    """A problem that records which of its points were evaluated, and how."""

    def __init__(self, problem):
        self.problem, self.calls = problem, []

    def initial_point(self):
        return self.problem.initial_point()

    def evaluate(self, w):
        self.calls.append(("evaluate", tuple(w.tolist())))
        return self.problem.evaluate(w)

    def values(self, w):
        self.calls.append(("values", tuple(w.tolist())))
        return self.problem.values(w)


def test_an_accepted_full_step_is_evaluated_once():
    """The minimum of a sphere is one full step away from the start, scaled as it is."""
    sphere = Traced(program("sphere", lambda x: ((x - 1) ** 2).sum() / 2, lambda x: [], (), (), (1.0, 2.0)))
    solution = QuasiNewtonSQP().solve(sphere)
    assert solution.status is Status.CONVERGED
    assert sphere.calls == [("evaluate", (1.0, 2.0)), ("evaluate", (1.0, 1.0))]
    assert (solution.evaluations, solution.value_evaluations) == (2, 0)


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_no_point_is_evaluated_with_derivatives_twice_and_the_counts_are_right(name):
    problem = Traced(PROBLEMS[name])
    solution = QuasiNewtonSQP().solve(problem)
    evaluated = [point for how, point in problem.calls if how == "evaluate"]
    assert len(evaluated) == len(set(evaluated)) == solution.evaluations
    assert len(problem.calls) - len(evaluated) == solution.value_evaluations


def test_after_a_rejected_full_step_the_next_is_tried_without_derivatives():
    """On Rosenbrock's function some full steps are rejected; each iteration accepts exactly one point."""
    rosenbrock = Traced(
        program("r", lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, lambda x: [], (), (), (-1.2, 1.0))
    )
    rejected = 0
    lengths = [record.step_length for record in QuasiNewtonSQP().solve(rosenbrock).history]
    calls = rosenbrock.calls[1:]
    before_full = True
    for length in lengths[:-1]:
        assert calls[0][0] == ("evaluate" if before_full else "values")
        full = length == 1.0
        rejected += not full
        # A full step that was tried without derivatives, or a shorter one, is evaluated after it was accepted.
        if full and before_full:
            del calls[0]
        else:
            last = next(i for i in range(1, len(calls)) if calls[i][0] == "evaluate")
            assert calls[last][1] == calls[last - 1][1]
            del calls[: last + 1]
        before_full = full
    assert rejected > 0
    assert not calls


def test_a_full_step_into_overflow_is_shortened():
    """At −0.1 the slope of exp(800 x) − 700 x is −700, and the first step has length 1, to where exp overflows."""
    steep = program("steep", lambda x: torch.exp(800 * x[0]) - 700 * x[0], lambda x: [], (), (), (-0.1,))
    with pytest.raises(ValueError, match="f is inf"):
        steep.evaluate([0.9])
    solution = QuasiNewtonSQP().solve(steep)
    assert solution.status is Status.CONVERGED
    assert solution.w.item() == pytest.approx(math.log(700 / 800) / 800, abs=1e-8)


def test_no_constraints_is_lbfgs_with_backtracking():
    rosenbrock = program(
        "rosenbrock", lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, lambda x: [], (), (), (-1.2, 1.0)
    )
    solution = QuasiNewtonSQP().solve(rosenbrock)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.w, np.ones(2), rtol=1e-6, atol=1e-6)
    assert solution.multipliers.shape == (0,)


def test_trial_points_outside_the_domain_only_shorten_the_step():
    # −log has no value at negative numbers, where the first steps would lead
    problem = program("barrier", lambda x: 50 * x[0] - torch.log(x[0]), lambda x: [x[0]], (-INF,), (3,), (2.0,))
    solution = QuasiNewtonSQP().solve(problem)
    assert solution.status is Status.CONVERGED
    assert solution.w.item() == pytest.approx(0.02, abs=1e-8)


@pytest.mark.parametrize(
    ("problem", "least"),
    [
        (program("never", lambda x: ((x - 1) ** 2).sum(), lambda x: [x[0] ** 2 + 1], (-INF,), (0,), (2.0, 0.0)), 1.0),
        (program("walls", lambda x: (x[0] - 3) ** 2, lambda x: [x[0], x[0]], (-INF, 1), (-1, INF), (5.0,)), 2.0),
        (
            program(
                "circles",  # two disjoint unit discs, four apart: both are violated by 3 half-way
                lambda x: x[0],
                lambda x: [x[0] ** 2 + x[1] ** 2, (x[0] - 4) ** 2 + x[1] ** 2],
                (-INF, -INF),
                (1, 1),
                (1.0, 3.0),
            ),
            6.0,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_infeasible_programs_end_soon_with_the_least_violation(problem, least):
    solution = QuasiNewtonSQP().solve(problem)
    assert solution.status is Status.INFEASIBLE
    assert solution.iterations <= 50
    assert problem.evaluate(solution.w).violation == pytest.approx(least, abs=1e-6)
    assert solution.history[-1].locally_infeasible
    # The rows in conflict carry the largest multipliers allowed or balance each other.
    assert np.abs(solution.multipliers).max() > 1.0


def test_running_out_of_iterations():
    far = QuasiNewtonSQP(max_iterations=2).solve(PROBLEMS["HS10"])
    assert far.status is Status.MAX_ITERATIONS
    assert far.iterations == 2
    near = QuasiNewtonSQP(max_iterations=3).solve(PROBLEMS["HS43"])  # its start is feasible, and so stays the best
    assert near.status is Status.FEASIBLE
    assert near.kkt.violation <= 1e-8


def test_a_stalled_solve_ends_before_its_iterations():
    class Rough:
        """Values that are right to six digits and gradients to three, so that no solver can find eight."""

        def __init__(self, problem):
            self.problem, self.initial_point = problem, problem.initial_point

        def values(self, w):
            f, c = self.problem.values(w)
            return round(f, 6), c

        def evaluate(self, w):
            held = self.problem.evaluate(w)
            noise = 1e-2 * np.sign(np.sin(1e6 * w))  # of full size at every point, whatever the rounding
            return Evaluation(round(held.f, 6), held.g + noise, held.c, held.J, held.lower, held.upper)

    solution = QuasiNewtonSQP(max_iterations=300).solve(Rough(PROBLEMS["HS43"]))
    assert solution.status in {Status.FEASIBLE, Status.INFEASIBLE}
    assert solution.iterations < 300
    assert solution.f == pytest.approx(-44.0, abs=1e-2)


def test_the_callback_sees_every_iteration_and_may_end_the_solve():
    seen = []

    def callback(record, w):
        seen.append((record, w.copy()))
        return record.iteration == 4

    solution = QuasiNewtonSQP().solve(PROBLEMS["HS100"], callback=callback)
    assert [record.iteration for record, _ in seen] == [0, 1, 2, 3, 4]
    assert solution.iterations == 4
    assert solution.status in {Status.FEASIBLE, Status.MAX_ITERATIONS}
    np.testing.assert_array_equal(seen[0][1], PROBLEMS["HS100"].initial_point())
    assert solution.history == [record for record, _ in seen]
    row = solution.history[2].as_dict()
    assert json.loads(json.dumps(row)) == row
    assert row["kkt_stationarity"] == solution.history[2].kkt.stationarity


def test_a_warm_start_needs_fewer_evaluations_than_a_cold_one():
    def tightened(bound):
        plain = PROBLEMS["HS100"]
        return program("HS100 tightened", plain.f, plain.c, (bound, 0, 0, 0), (INF,) * 4, plain.start)

    solver = QuasiNewtonSQP()
    first = solver.solve(PROBLEMS["HS100"])
    cold = solver.solve(tightened(1.0))
    lukewarm = solver.solve(tightened(1.0), first.w)
    warm = solver.solve(tightened(1.0), first.w, warm_start=first)
    assert cold.f == pytest.approx(warm.f, abs=1e-6)
    assert warm.evaluations < lukewarm.evaluations
    assert warm.evaluations < cold.evaluations
    assert warm.penalty >= first.penalty
    again = solver.solve(PROBLEMS["HS100"], first.w, warm_start=first)
    assert again.iterations == 0


def test_both_solvers_find_the_same_point():
    problem = PROBLEMS["HS71"]
    w = torch.from_numpy(problem.initial_point())
    optimizer = StochasticSQP([w])
    for _ in range(200):
        optimizer.step(lambda: problem.evaluate(w))
    np.testing.assert_allclose(w, QuasiNewtonSQP().solve(problem).w, rtol=1e-4, atol=1e-4)


def test_float32_starts_are_taken_and_left_alone():
    start = np.zeros(4, dtype=np.float32)
    solution = QuasiNewtonSQP().solve(PROBLEMS["HS43"], start)
    assert solution.w.dtype == np.float64
    assert not start.any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.0}, r"QuasiNewtonSQP\(tolerance=0.0\): must be a finite number above 0"),
        ({"max_iterations": 0}, r"QuasiNewtonSQP\(max_iterations=0\).*at least 1"),
        ({"memory": 2.5}, r"QuasiNewtonSQP\(memory=2.5\)"),
        ({"patience": 0}, r"QuasiNewtonSQP\(patience=0\)"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        QuasiNewtonSQP(**options)


def test_misuse_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"flat vector.*\(2, 2\)"):
        QuasiNewtonSQP().solve(PROBLEMS["HS43"], np.zeros((2, 2)))
