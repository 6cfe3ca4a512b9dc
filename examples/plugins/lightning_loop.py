"""The paper's stochastic SQP in a loop of Lightning: the loss on each batch, the limit on a fixed part of the rows.

It needs `pip install lightning`.
"""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fairbound import StochasticSQP, TrainingProblem, load_dataset
from fairbound.fairness import Cells
from fairbound.training import Batch, tighten


class UnderLimits(lightning.LightningModule):
    """Any network; SQP needs the whole problem, so optimisation is manual."""

    def __init__(self, network: nn.Module, problem: TrainingProblem, fixed: object) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network, self.problem, self.fixed = network, problem, fixed

    def configure_optimizers(self) -> StochasticSQP:
        """Return the solver of the paper."""
        return StochasticSQP.from_paper(self.network.parameters(), lr=0.5)

    def training_step(self, batch: list[torch.Tensor], index: int) -> None:
        """Take one step, with the limits on the fixed part."""
        rows = Batch(self.problem.batch(*batch), self.fixed)
        record = self.optimizers().optimizer.step(lambda: self.problem.evaluate(rows))
        self.log("violation", record.violation, prog_bar=True)


def main() -> None:
    """Train by Lightning, then reach the limit exactly."""
    law = load_dataset("law")
    race = torch.as_tensor((law.groups("race") == "White").astype(int))
    X, y = torch.as_tensor(law.X, dtype=torch.float32), torch.as_tensor(law.y)
    network = nn.Sequential(nn.Linear(X.shape[1], 8), nn.Tanh(), nn.Linear(8, 1))
    problem = TrainingProblem(network, "cross_entropy", "disparate_impact >= 0.9", Cells.build(y, race))
    module = UnderLimits(network, problem, problem.batch(X[:6000], y[:6000], race[:6000]))
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(module, DataLoader(TensorDataset(X, y, race), batch_size=1024, shuffle=True))
    result = tighten(problem, X)
    print(result.status.value, f"{result.assessment.accuracy:.4f}", result.assessment.measured)


if __name__ == "__main__":
    main()
