"""The cost of constraints: time of one constrained full-batch step over one plain forward-and-backward step.

The data have the size of the Dutch experiment: 48,336 rows, 11 inputs, 32 hidden units.  There are 2 to 25 groups,
compared with everyone and pairwise (up to 600 constraint rows).  Each ratio is measured within one run that alternates
the kinds of step, because machines differ and are shared.  The aim is a ratio of at most 3 for any number of groups.
The last column is a step of an own loop, whose rows come as a new batch each time (`TrainingProblem.batch`).
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import binary_cross_entropy_with_logits

from fairbound import DisparateImpact, StochasticSQP, TrainingProblem
from fairbound.fairness import Cells
from fairbound.training import make_model

ROWS, INPUTS, HIDDEN, REPEATS = 48_336, 11, 32, 40


def seconds(step: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def compare(groups: int, against: str) -> tuple[int, float, float, float]:
    """Return rows of constraints, least seconds of a plain step, and the ratios of the least times."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, INPUTS))
    y = (X[:, 0] + rng.normal(size=ROWS) > 0).astype(int)
    group = rng.integers(0, groups, ROWS)
    cells = Cells.build(y, group)
    module = make_model(INPUTS, hidden=(HIDDEN,), generator=torch.Generator().manual_seed(0))
    problem = TrainingProblem(module, "binary_cross_entropy", DisparateImpact(0.8, against=against), cells)
    rows = problem.rows(X)
    optimizer = StochasticSQP.from_paper(module.parameters())
    labels, parameters = rows.labels.float(), list(module.parameters())

    def plain() -> None:
        loss = binary_cross_entropy_with_logits(module(rows.X)[:, 0], labels)
        torch.autograd.grad(loss, parameters)

    def constrained() -> None:
        optimizer.step(lambda: problem.evaluate(rows))

    inputs = torch.from_numpy(X).float()

    def own_batch() -> None:
        optimizer.step(lambda: problem.evaluate(problem.batch(inputs, y, group)))

    steps = (plain, constrained, own_batch)
    for step in steps:
        step(), step()
    times = [[seconds(step) for step in steps] for _ in range(REPEATS)]
    # The least of many times is the cost of the work; longer times include other work of the machine.
    least, constrained_least, own_least = (min(column) for column in zip(*times, strict=True))
    return problem.system.n_rows, least, constrained_least / least, own_least / least


def main() -> None:
    """Print the table of ratios."""
    table = Table(
        title=f"Constrained step over plain step ({ROWS:,} rows, {HIDDEN} hidden, {torch.get_num_threads()} threads)"
    )
    for column in ("groups", "compared", "constraint rows", "plain step", "ratio", "own batch"):
        table.add_column(column, justify="right")
    for groups in (2, 5, 10, 25):
        for against in ("overall", "pairwise"):
            n_rows, plain, ratio, own = compare(groups, against)
            table.add_row(str(groups), against, str(n_rows), f"{1000 * plain:.2f} ms", f"{ratio:.2f}", f"{own:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
