"""`StochasticSQP`: against steps by hand, in limiting cases, as a torch optimiser, and its errors."""

from __future__ import annotations

import copy
import io
import json
import math

import numpy as np
import pytest
import torch
from tests.sqp.textbook import TEXTBOOK
from torch import Tensor

from fairbound.sqp import (
    Adagrad,
    AdaptiveStep,
    Evaluation,
    ExponentialAverage,
    FixedStep,
    Identity,
    LearningRateCut,
    StochasticSQP,
)

PROBLEMS = {problem.name: problem for problem in TEXTBOOK}


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def unconstrained(w: Tensor) -> Evaluation:
    """f = Σ cosh(w − 1) over the entries of w."""
    flat = w.reshape(-1).double()
    nothing = flat.new_zeros(0)
    gradient = torch.sinh(flat - 1)
    return Evaluation(
        float(torch.cosh(flat - 1).sum()), gradient, nothing, flat.new_zeros(0, flat.numel()), nothing, nothing
    )


def half_plane(w: Tensor) -> Evaluation:
    """f = ½‖w − (2, 1)‖² subject to w₁ + w₂² ≤ 1."""
    target = tensor(2.0, 1.0)
    c = (w[0] + w[1] ** 2).reshape(1)
    J = torch.stack([torch.ones_like(w[0]), 2 * w[1]])[None]
    return Evaluation(float(0.5 * (w - target).square().sum()), w - target, c, J, tensor(-math.inf), tensor(1.0))


def test_without_constraints_identity_and_fixed_step_are_gradient_descent():
    w, shadow = torch.full((2, 3), 3.0, dtype=torch.float64), torch.full((2, 3), 3.0, dtype=torch.float64)
    optimizer = StochasticSQP([w], lr=0.1, hessian=Identity(), step_length=FixedStep())
    for _ in range(20):
        record = optimizer.step(lambda: unconstrained(w))
        shadow = shadow - 0.1 * torch.sinh(shadow - 1)
        assert torch.equal(w, shadow)
    assert record.multipliers.shape == (0,)
    assert record.violation == 0.0


def test_manual_shadow_of_two_steps():
    """Two iterations by hand: half_plane from (0, 2) with H = I, ρ = 1, τ = 1, σ = 0.1 and β = 1."""
    w = tensor(0.0, 2.0)
    optimizer = StochasticSQP([w], hessian=Identity(), step_length=AdaptiveStep(every=1))
    shadow, tau, ratio, rho = np.array([0.0, 2.0]), 1.0, 1.0, 1.0
    for k in range(2):
        here = half_plane(torch.from_numpy(shadow))
        g, c, row = here.g, here.c.item() - 1.0, here.J.matrix()[0]
        # One row c ≤ 0 with H = I: y solves c − rowᵀg − y‖row‖² = 0, cut off at 0 and ρ.
        wanted = max((c - float(row @ g)) / float(row @ row), 0.0)
        y = min(wanted, rho)
        d = -(g + y * row)
        left = max(c + float(row @ d), 0.0)
        assert left <= 0.9 * max(c, 0.0) or wanted <= rho  # so steering leaves ρ alone
        slope, curvature, reduction = float(g @ d), float(d @ d), max(c, 0.0) - left
        if slope + curvature > 0:
            trial = 0.9 * reduction / (slope + curvature)
            tau = tau if tau <= trial else min(0.99 * tau, trial)
        decrease = -tau * (slope + 0.5 * curvature) + reduction
        trial = decrease / (tau * float(d @ d))
        ratio = ratio if ratio <= trial else min(0.99 * ratio, trial)
        # f is quadratic with the unit matrix, so L = 1; along u the Jacobian (1, 2 w₂) changes by 2 u₂².
        lipschitz, gamma = 1.0, 2 * float(d[1]) ** 2 / float(d @ d)
        curved = tau * lipschitz + gamma
        alpha = min(1.0, max(ratio * tau / curved, decrease / (curved * float(d @ d))))
        shadow = shadow + alpha * d

        record = optimizer.step(lambda: half_plane(w))
        assert record.iteration == k
        assert record.f == pytest.approx(here.f)
        assert record.violation == pytest.approx(max(c, 0.0))
        assert record.multipliers.item() == pytest.approx(y)
        assert record.merit_parameter == pytest.approx(tau)
        assert record.ratio_parameter == pytest.approx(ratio)
        assert record.penalty == rho
        assert record.step_length == pytest.approx(alpha, rel=1e-6)  # Γ by a difference quotient
        assert record.step_norm == pytest.approx(math.sqrt(float(d @ d)))
        np.testing.assert_allclose(w, shadow, rtol=1e-6, atol=1e-8)


# Exact gradients, default constants.
@pytest.mark.parametrize("problem", TEXTBOOK, ids=lambda problem: problem.name)
def test_textbook_programs_with_default_constants(problem):
    w = torch.from_numpy(problem.initial_point())
    optimizer = StochasticSQP([w])
    for _ in range(3000 if problem.name == "HS6" else 1000):
        record = optimizer.step(lambda: problem.evaluate(w))
        if record.kkt.largest <= 1e-4:
            break
    assert record.kkt.largest <= 1e-4
    assert problem.knows(record.f, 1e-3)
    assert not record.locally_infeasible


@pytest.mark.parametrize(("lr", "step_length"), [(0.2, FixedStep), (1.0, AdaptiveStep)])
@pytest.mark.parametrize("hessian", [Identity, Adagrad, ExponentialAverage])
def test_every_strategy_solves_a_convex_program(hessian, lr, step_length):
    w = tensor(0.0, 0.0)
    problem = PROBLEMS["HS12"]
    optimizer = StochasticSQP([w], lr=lr, hessian=hessian(), step_length=step_length())
    for _ in range(2000):
        record = optimizer.step(lambda: problem.evaluate(w))
        if record.kkt.largest <= 1e-4:
            break
    torch.testing.assert_close(w, tensor(2.0, 3.0), rtol=1e-3, atol=1e-3)


def test_an_infeasible_program_is_reported_and_its_violation_is_least():
    # w₁² + 1 ≤ 0 cannot hold; it is violated least at w₁ = 0, where its gradient vanishes.
    def closure() -> Evaluation:
        c = (w[0] ** 2 + 1).reshape(1)
        J = torch.stack([2 * w[0], torch.zeros_like(w[0])])[None]
        return Evaluation(float((w - 1).square().sum()), 2 * (w - 1), c, J, tensor(-math.inf), tensor(0.0))

    w = tensor(2.0, 0.0)
    optimizer = StochasticSQP([w])
    records = [optimizer.step(closure) for _ in range(100)]
    assert not records[0].locally_infeasible
    assert records[-1].locally_infeasible
    assert records[-1].violation == pytest.approx(1.0, abs=1e-4)


def test_contradictory_limits_are_reported_at_once():
    def closure() -> Evaluation:
        bounds = tensor(-math.inf, 1.0), tensor(-1.0, math.inf)
        return Evaluation(float(w), tensor(1.0), w.repeat(2), torch.ones(2, 1), *bounds)

    w = tensor(0.5)
    assert StochasticSQP([w]).step(closure).locally_infeasible


def test_float32_and_several_tensors_take_the_step_of_one_float64_vector():
    problem = PROBLEMS["HS43"]
    whole = torch.from_numpy(problem.initial_point())
    parts = [torch.zeros(1, 3), torch.zeros(())]
    one = StochasticSQP([whole], step_length=FixedStep(), lr=0.1)
    many = StochasticSQP(parts, step_length=FixedStep(), lr=0.1)
    for _ in range(5):
        one.step(lambda: problem.evaluate(whole))
        many.step(lambda: problem.evaluate(torch.cat([p.reshape(-1) for p in parts]).double()))
    assert parts[0].dtype == torch.float32
    torch.testing.assert_close(torch.cat([p.reshape(-1) for p in parts]).double(), whole, rtol=1e-5, atol=1e-5)


def test_the_second_evaluation_leaves_the_parameters_as_they_were():
    seen = []

    def closure() -> Evaluation:
        seen.append(w.clone())
        if len(seen) == 2:
            raise RuntimeError("the displaced point cannot be evaluated")
        return problem.evaluate(w)

    problem = PROBLEMS["HS43"]
    w = torch.from_numpy(problem.initial_point())
    with pytest.raises(RuntimeError, match="displaced"):
        StochasticSQP([w]).step(closure)
    assert torch.equal(w, seen[0])
    assert float(torch.linalg.vector_norm(seen[1] - seen[0])) == pytest.approx(0.1)


def full_optimizer(w: Tensor) -> StochasticSQP:
    return StochasticSQP(
        [w],
        lr=0.8,
        hessian=ExponentialAverage(decay=0.9, damping=1.0),
        step_length=AdaptiveStep(every=4),
        learning_rate_cut=LearningRateCut(warmup=3, interval=1, factor=2.0),
    )


@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_resumed_run_is_the_same_run_bit_by_bit(through_a_file):
    problem = PROBLEMS["HS100"]
    w = torch.from_numpy(problem.initial_point())
    optimizer = full_optimizer(w)
    for _ in range(10):
        optimizer.step(lambda: problem.evaluate(w))
    state, copied = optimizer.state_dict(), w.clone()
    if through_a_file:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        buffer.seek(0)
        state = torch.load(buffer, weights_only=True)
    straight = [optimizer.step(lambda: problem.evaluate(w)).as_dict() for _ in range(10)]
    resumed = full_optimizer(copied)
    resumed.load_state_dict(state)
    again = [resumed.step(lambda: problem.evaluate(copied)).as_dict() for _ in range(10)]
    assert straight == again
    assert torch.equal(w, copied)
    assert straight[0]["iteration"] == 10


def test_a_copied_optimizer_keeps_its_strategies():
    w = tensor(0.0, 2.0)
    optimizer = full_optimizer(w)
    optimizer.step(lambda: half_plane(w))
    twin = copy.deepcopy(optimizer)
    (other,) = twin.param_groups[0]["params"]
    assert optimizer.step(lambda: half_plane(w)).as_dict() == twin.step(lambda: half_plane(other)).as_dict()
    assert torch.equal(w, other)


def test_torch_schedulers_and_the_cut_both_steer_the_learning_rate():
    w = tensor(0.0, 2.0)
    optimizer = StochasticSQP([w], lr=0.5, step_length=FixedStep())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    rates = []
    for _ in range(3):
        rates.append(optimizer.step(lambda: half_plane(w)).step_length)
        scheduler.step()
    assert rates == [0.5, 0.25, 0.125]
    cutting = StochasticSQP(
        [w], lr=0.5, step_length=FixedStep(), learning_rate_cut=LearningRateCut(warmup=0, interval=0)
    )
    cutting.step(lambda: half_plane(w))
    assert cutting.param_groups[0]["lr"] == 0.05


def test_the_constants_of_the_papers_experiments():
    w = tensor(0.0, 2.0)
    optimizer = StochasticSQP.from_paper([w])
    g = half_plane(w).g
    record = optimizer.step(lambda: half_plane(w))
    assert record.step_length == record.learning_rate == 0.5
    np.testing.assert_allclose(optimizer.hessian.product(np.ones_like(g)), np.sqrt(0.001 * g**2 + 100), rtol=1e-14)
    assert optimizer.learning_rate_cut is not None
    assert optimizer.learning_rate_cut.merit_parameter == 0.01
    assert not record.elastic  # hard rows, as there
    assert isinstance(StochasticSQP.from_paper([w], hessian=Identity()).hessian, Identity)


def test_records_are_plain_data():
    w = tensor(0.0, 2.0)
    record = StochasticSQP([w]).step(lambda: half_plane(w))
    row = json.loads(json.dumps(record.as_dict()))
    assert row["kkt_violation"] == record.kkt.violation
    assert row["kkt_stationarity"] == record.kkt.stationarity
    with pytest.raises(AttributeError):
        record.f = 0.0


def test_global_state_is_left_alone():
    before = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    w = tensor(0.0, 2.0)
    optimizer = StochasticSQP([w])
    for _ in range(3):
        optimizer.step(lambda: half_plane(w))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (torch.get_num_threads(), torch.get_default_dtype()) == before[1:]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": 0.0}, r"StochasticSQP\(lr=0.0\): must be a finite number above 0"),
        ({"penalty": math.inf}, r"StochasticSQP\(penalty=inf\).*finite"),
        ({"merit_parameter": -1.0}, r"StochasticSQP\(merit_parameter=-1.0\)"),
        ({"ratio_parameter": math.nan}, r"StochasticSQP\(ratio_parameter=nan\)"),
        ({"sigma": 1.0}, r"StochasticSQP\(sigma=1.0\): must be between 0 and 1"),
        ({"decrease": 0.0}, r"StochasticSQP\(decrease=0.0\): must be between 0 and 1"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        StochasticSQP([tensor(0.0)], **options)


def test_misuse_is_refused_with_a_sentence():
    w = tensor(0.0, 2.0)
    with pytest.raises(ValueError, match="one parameter group"):
        StochasticSQP([{"params": [w]}, {"params": [tensor(1.0)]}])
    with pytest.raises(TypeError, match=r"torch\.float16.*float32 and float64"):
        StochasticSQP([w.half()])
    optimizer = StochasticSQP([w])
    with pytest.raises(TypeError, match="needs a closure that returns the Evaluation"):
        optimizer.step(None)
    with pytest.raises(TypeError, match=r"closure must return an Evaluation.*float"):
        optimizer.step(lambda: 1.0)
    with pytest.raises(ValueError, match="the gradient has 3 entries, the parameters have 2"):
        optimizer.step(lambda: unconstrained(torch.zeros(3)))
    with pytest.raises(ValueError, match="this state was saved by another optimiser"):
        optimizer.load_state_dict(torch.optim.SGD([w], lr=0.1).state_dict())
    with pytest.raises(ValueError, match=r"'LearningRateCut'.*build both with the same options"):
        optimizer.load_state_dict(StochasticSQP([w], learning_rate_cut=LearningRateCut()).state_dict())
    with pytest.raises(ValueError, match=r"'Identity'.*this one has \['ExponentialAverage'"):
        optimizer.load_state_dict(StochasticSQP([w], hessian=Identity()).state_dict())


def test_strategies_are_taken_as_instances():
    rule, hessian = FixedStep(), Adagrad(damping=0.5)
    optimizer = StochasticSQP([tensor(0.0)], hessian=hessian, step_length=rule)
    assert optimizer.hessian is hessian
    assert optimizer.step_length is rule
