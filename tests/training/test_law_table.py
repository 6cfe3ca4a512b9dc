"""Law under the paper's protocol with the quasi-Newton solver: sufficient accuracy, and every limit kept exactly."""

import numpy as np
import pytest
import torch
from fairlearn.metrics import MetricFrame, selection_rate, true_positive_rate

from fairbound.data import load_dataset
from fairbound.fairness import Cells
from fairbound.training import L2, TrainingProblem, fit, make_model


def lowest_ratio(y, decisions, groups, rate) -> float:
    """Ratio of the group rates by an independent program."""
    return MetricFrame(metrics=rate, y_true=y, y_pred=decisions, sensitive_features=groups).ratio()


# Printed: tables of the paper for ratios 0.8 and 0.9, Law; "at least" is what the fast solver is asked for.
@pytest.mark.parametrize(
    ("limits", "at_least"),
    [
        (["disparate_impact >= 0.8"], 90.10),
        (["disparate_impact >= 0.9"], 89.90),
        (["equal_impact >= 0.8"], 90.0829),
        (["equal_impact >= 0.9"], 90.089),
        (["disparate_impact >= 0.8", "equal_impact >= 0.8"], 90.089),
        (["disparate_impact >= 0.9", "equal_impact >= 0.9"], 89.8786),
    ],
    ids=str,
)
def test_law_reaches_the_accuracy_asked_for_with_every_limit_kept(limits: list[str], at_least: float) -> None:
    rows = load_dataset("law", protocol="paper").train
    module = make_model(rows.X.shape[1], generator=torch.Generator().manual_seed(1))
    cells = Cells.build(rows.y, rows.sensitive)
    problem = TrainingProblem(module, "binary_cross_entropy", limits, cells, regularizers=[L2(1e-5)])
    result = fit(problem, rows.X, precision=np.float64)
    with torch.no_grad():
        decisions = (module(torch.from_numpy(rows.X))[:, 0] > 0).long().numpy()
    assert 100 * (decisions == rows.y).mean() >= at_least
    assert 100 * result.assessment.accuracy == pytest.approx(100 * (decisions == rows.y).mean(), abs=1e-9)
    assert result.assessment.kept
    for limit in limits:
        rate = selection_rate if limit.startswith("disparate") else true_positive_rate
        bound = float(limit.split(">=")[1])
        # The ratio is a quotient of counts; 1e-12 is its rounding.
        assert lowest_ratio(rows.y, decisions, rows.groups(), rate) >= bound - 1e-12
    assert result.assessment.gain > 0
    assert result.solver == "quasi-newton"


@pytest.mark.parametrize("name", ["dutch", "acsincome"])
@pytest.mark.parametrize("ratio", [0.8, 0.9])
def test_a_part_of_dutch_and_acsincome_is_kept_exactly(name, ratio, dutch_file, acsincome_file) -> None:
    rows = load_dataset(name, protocol="paper").train.take(range(5000))
    module = make_model(rows.X.shape[1], hidden=(8,), generator=torch.Generator().manual_seed(1))
    problem = TrainingProblem(
        module,
        "binary_cross_entropy",
        f"disparate_impact >= {ratio}",
        Cells.build(rows.y, rows.sensitive),
        regularizers=[L2(1e-5)],
    )
    result = fit(problem, rows.X, precision=np.float64)
    with torch.no_grad():
        decisions = (module(torch.from_numpy(rows.X))[:, 0] > 0).long().numpy()
    reached = lowest_ratio(rows.y, decisions, rows.groups(), selection_rate)
    assert reached >= ratio - 1e-12
    # Not needlessly strict: both limits bind here, and a row is worth about 0.001 of the ratio.
    assert reached <= ratio + 0.02
    assert result.assessment.gain > 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("dutch_file", "acsincome_file")
@pytest.mark.parametrize(
    ("name", "hidden", "objective", "at_least"),
    [
        ("dutch", (32,), "loss", {0.8: 81.40, 0.9: 79.00}),
        ("dutch", (32,), "accuracy", {0.8: 81.65, 0.9: 79.70}),
        ("acsincome", (256,), "loss", {0.8: 80.80, 0.9: 80.60}),
    ],
)
def test_dutch_and_acsincome_reach_the_accuracy_asked_for(name, hidden, objective, at_least) -> None:
    rows = load_dataset(name, protocol="paper").train
    cells = Cells.build(rows.y, rows.sensitive)
    for ratio, accuracy in at_least.items():
        module = make_model(rows.X.shape[1], hidden=hidden, generator=torch.Generator().manual_seed(1))
        problem = TrainingProblem(
            module, "binary_cross_entropy", f"disparate_impact >= {ratio}", cells, regularizers=[L2(1e-5)]
        )
        fit(problem, rows.X, objective=objective, precision=np.float64)
        with torch.no_grad():
            decisions = (module(torch.from_numpy(rows.X))[:, 0] > 0).long().numpy()
        assert 100 * (decisions == rows.y).mean() >= accuracy
        assert lowest_ratio(rows.y, decisions, rows.groups(), selection_rate) >= ratio - 1e-12


@pytest.mark.slow
@pytest.mark.usefixtures("dutch_file")
@pytest.mark.parametrize("ratio", [0.8, 0.9])
def test_five_seeds_agree_on_dutch(ratio: float) -> None:
    rows = load_dataset("dutch", protocol="paper").train
    cells = Cells.build(rows.y, rows.sensitive)
    found = []
    for seed in range(1, 6):
        module = make_model(rows.X.shape[1], hidden=(32,), generator=torch.Generator().manual_seed(seed))
        problem = TrainingProblem(
            module, "binary_cross_entropy", f"disparate_impact >= {ratio}", cells, regularizers=[L2(1e-5)]
        )
        found.append(fit(problem, rows.X, precision=np.float64).assessment)
    assert all(each.kept for each in found)
    assert 100 * torch.tensor([each.accuracy for each in found]).std(correction=0) <= 0.15


@pytest.mark.slow
@pytest.mark.usefixtures("dutch_file")
@pytest.mark.parametrize(("limit", "seed"), [("disparate_impact >= 0.8", 789), ("covariance <= 0.05", 1)])
def test_a_limit_missed_by_a_few_rows_is_not_given_up(limit: str, seed: int) -> None:
    """From these starts version 0.1 ended some rows short of the limit, where the loss pulls out again."""
    rows = load_dataset("dutch", protocol="paper").train
    module = make_model(rows.X.shape[1], hidden=(32,), generator=torch.Generator().manual_seed(seed))
    problem = TrainingProblem(
        module, "binary_cross_entropy", limit, Cells.build(rows.y, rows.sensitive), regularizers=[L2(1e-5)]
    )
    result = fit(problem, rows.X, precision=np.float64)
    assert result.assessment.kept
    assert result.assessment.accuracy > 0.81
