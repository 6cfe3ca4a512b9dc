"""Train your own network under a limit, and monitor it on validation rows."""

import torch
from torch import nn

from fairbound import ConstrainedClassifier, load_dataset


class Residual(nn.Module):
    """Two residual blocks and a linear layer; one logit per row."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(n_inputs, n_inputs) for _ in range(2))
        self.last = nn.Linear(n_inputs, n_outputs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        for block in self.blocks:
            rows = rows + torch.tanh(block(rows))
        return self.last(rows)


def main() -> None:
    """Train with validation rows, and print how the limit changes there during training."""
    train, test = load_dataset("law").split(test_size=0.2, random_state=0)
    clf = ConstrainedClassifier("disparate_impact >= 0.9", hidden=Residual, random_state=0)
    clf.fit(
        train.frame(),
        train.y,
        sensitive_features={"race": train.groups("race")},
        eval_set=(test.frame(), test.y, {"race": test.groups("race")}),
    )
    print("phase     iteration  objective  ratio on the validation rows")
    for row in clf.result_.iterations[::10]:
        print(f"{row['phase']:9} {row['iteration']:9}  {row['f']:9.4f}  {row['eval disparate_impact >= 0.9']:.3f}")
    print()
    print(clf.result_)


if __name__ == "__main__":
    main()
