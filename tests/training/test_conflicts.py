"""The reported outcome of conflicting limits, of limits with an empty interior, and of trivial models."""

import numpy as np
import pytest
import torch

from fairbound.data import load_dataset, make_disparate_data
from fairbound.fairness import Cells
from fairbound.sqp import Status
from fairbound.training import L2, TrainingProblem, TrainingResult, fit, frontier, make_model


def run(limits: list[str], objective: str = "loss") -> TrainingResult:
    data = make_disparate_data(3000, base_rates={"a": 0.6, "b": 0.3}, seed=0).dataset
    module = make_model(data.X.shape[1], generator=torch.Generator().manual_seed(0))
    problem = TrainingProblem(
        module, "binary_cross_entropy", limits, Cells.build(data.y, data.groups()), regularizers=[L2(1e-5)]
    )
    return fit(problem, data.X, objective=objective)


def test_a_floor_above_a_ceiling_is_infeasible_and_names_both() -> None:
    result = run(["selection_rate[a] >= 0.8", "selection_rate <= 0.4"])
    assert result.status is Status.INFEASIBLE
    assert not result.assessment.kept
    assert "selection_rate[a] >= 0.8" in result.message
    assert "selection_rate <= 0.4" in result.message
    # Quickly: a fit that succeeds takes about as many.
    assert result.passes + result.value_passes < 400
    # The least violation possible is 0.4, shared out between the two rows in whatever way.
    assert result.assessment.exact_violation == pytest.approx(0.4, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["disparate_impact >= 1", "demographic_parity <= 0"])
def test_a_limit_without_an_inside_is_kept_to_the_row_or_reported(limit: str) -> None:
    result = run([limit])
    if result.assessment.kept:
        (by_group,) = result.assessment.rates.values()
        rates = list(by_group.values())
        assert rates[0] == pytest.approx(rates[1], abs=1e-12)
    else:
        assert result.status is Status.INFEASIBLE
        # What the resolution allows: a few rows of the smaller group.
        assert result.assessment.exact_violation < 5e-3


@pytest.mark.slow
def test_nothing_is_violated_in_silence() -> None:
    for limits in (["predictive_parity <= 0.01", "disparate_impact >= 0.95"], ["equalized_odds <= 0.001"]):
        result = run(limits)
        assert result.assessment.kept == (result.status in (Status.CONVERGED, Status.FEASIBLE, Status.DEGENERATE))


@pytest.mark.slow
def test_accuracy_as_the_objective_is_no_less_accurate() -> None:
    by_loss, by_accuracy = (run(["disparate_impact >= 0.9"], objective) for objective in ("loss", "accuracy"))
    assert by_loss.assessment.kept
    assert by_accuracy.assessment.kept
    # Both are local; a point of accuracy lower would mean that the last phase does not work.
    assert by_accuracy.assessment.accuracy >= by_loss.assessment.accuracy - 0.002


def test_every_point_of_a_frontier_keeps_its_bound_and_has_its_price() -> None:
    data = load_dataset("law", protocol="paper").train
    module = make_model(data.X.shape[1], generator=torch.Generator().manual_seed(1))
    cells = Cells.build(data.y, data.sensitive)
    problem = TrainingProblem(module, "binary_cross_entropy", "disparate_impact >= 0.8", cells, regularizers=[L2(1e-5)])
    points = frontier(problem, data.X, [0.95, 0.5, 0.8, 0.85, 0.9])
    assert [point.bound for point in points] == [0.5, 0.8, 0.85, 0.9, 0.95]
    assert all(point.result.assessment.kept for point in points)
    assert points.points[0].loss_price == 0.0  # the free optimum keeps 0.5
    assert points.points[-1].loss_price > 0.0
    points.use(points.points[0])
    assert np.array_equal(problem.current(), points.points[0].result.parameters)
