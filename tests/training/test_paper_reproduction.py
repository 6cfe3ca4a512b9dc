"""The paper's setting on real data, with the constants of its experiments."""

import pytest
import torch

from fairbound.data import load_dataset
from fairbound.fairness import Cells, DisparateImpact
from fairbound.sqp import StochasticSQP
from fairbound.training import FullBatch, TrainingProblem, TrainingResult, make_model, train


def run_as_in_the_paper(name: str, hidden: tuple[int, ...], ratio: float, seed: int) -> TrainingResult:
    rows = load_dataset(name, protocol="paper").train
    cells = Cells.build(rows.y, rows.sensitive)
    module = make_model(rows.X.shape[1], hidden=hidden, generator=torch.Generator().manual_seed(seed))
    problem = TrainingProblem(module, "binary_cross_entropy", DisparateImpact(ratio), cells)
    return train(problem, FullBatch(problem.rows(rows.X)), StochasticSQP.from_paper(module.parameters()), epochs=500)


@pytest.mark.parametrize(("ratio", "printed", "binds"), [(0.8, 90.095, False), (0.9, 89.8786, True)])
def test_law_reproduces_the_printed_accuracy(ratio: float, printed: float, binds: bool) -> None:
    """Tables of the paper, Law, only DI: printed with four digits; 0.05 points are 8 rows of 16,638."""
    result = run_as_in_the_paper("law", (), ratio, seed=1)
    assert 100 * result.final.accuracy == pytest.approx(printed, abs=0.05)
    assert 100 * result.assessment.accuracy == pytest.approx(printed, abs=0.05)
    (reached,) = result.assessment.measured
    if binds:
        assert reached == pytest.approx(ratio, abs=0.002)
    assert result.assessment.kept
    assert reached >= ratio


@pytest.mark.slow
@pytest.mark.usefixtures("dutch_file")
@pytest.mark.parametrize("seed", [1, 42, 123])
def test_dutch_lies_within_the_spread_of_seeds(seed: int) -> None:
    """The printed 78.004 is one seed; other seeds of the paper's own program gave up to 79.19."""
    result = run_as_in_the_paper("dutch", (32,), 0.8, seed)
    assert 77.7 <= 100 * result.final.accuracy <= 79.5
    assert result.final.measured[0] == pytest.approx(0.8, abs=0.005)
    assert result.assessment.kept
