"""The first two phases of a fit by mini-batches, and the batches themselves.

    free      minimise the loss without limits, by Adam
    sample    approach the limits by `StochasticSQP`, with the constraints on a fixed subset of the rows

The later phases use whole passes (`continuation`), so the limits are kept exactly.  Steps are taken in the mode that
the user has set for the module: in training mode Dropout drops units, and BatchNorm learns its statistics.  Constraints
and assessments use evaluation mode.  After these two phases the module stays in evaluation mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from fairbound._errors import InputError
from fairbound._journal import digest
from fairbound.sqp import StochasticSQP
from fairbound.training.assessment import history_columns
from fairbound.training.models import LayerModes
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.smoothed import bandwidths, smoothed_step

if TYPE_CHECKING:  # the state of a fit uses batches itself
    from fairbound.training.continuation import Continuation

CONSTRAINT_ROWS = 50_000
"""Most rows in the fixed subset for the constraints.  A rate from half of them has a standard error of 0.3 points."""

STEPS_PER_EPOCH = 50
"""By default, the batch size is chosen so that an epoch has about this many steps; at least `LEAST_BATCH` rows."""

LEAST_BATCH = 64


class MiniBatches:
    """The mini-batches of a fit.

    Parameters
    ----------
    state : Continuation
        Built in evaluation mode.
    modes : LayerModes
        The mode of every layer during steps.
    generator : torch.Generator, optional
        Random generator of all draws, including those of layers such as Dropout; by default one with seed 0.
    """

    def __init__(self, state: Continuation, modes: LayerModes, generator: torch.Generator | None) -> None:
        self.state, self.modes = state, modes
        self.multipliers: Tensor | None = None  # those of the last step under limits
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        self.processes, n_rows = state.base.passes.processes, sum(state.rows.sizes)
        if self.processes is not None:
            refuse_batch_statistics(modes)
        self.batches = StratifiedBatches(
            state.rows,
            choose_batch_size(state.effort.batch_size, n_rows),
            constraints="subset",
            subset=min(state.effort.constraint_share, CONSTRAINT_ROWS / n_rows),
            generator=self.generator,
        )

    def find_free_model(self, epochs: int) -> None:
        """Minimise the loss without limits by Adam, whose learning rate falls to zero along a cosine."""
        state, problem = self.state, self.state.base
        problem.assign(state.w)
        optimizer = torch.optim.Adam(problem.parameters, lr=state.effort.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * self.batches.steps_per_epoch)

        def step(batch: Batch) -> None:
            write_gradient(problem, torch.from_numpy(problem.evaluate(Batch(batch.loss, batch.loss)).g))
            optimizer.step()
            schedule.step()

        points = self._run_epochs("free", problem, epochs, step, {"optimizer": optimizer, "schedule": schedule})
        state.free_points = points if state.judge is not None else []
        optimizer.zero_grad()
        state.assess_free()

    def approach(self, problem: TrainingProblem, epochs: int) -> list[Tensor]:
        """Approach the limits from the free model, which stays in `state.w`; return the point of each epoch's end."""
        free = self.state.w
        problem.assign(free)
        # At the narrowest bandwidth only few rows of the subset have a slope.  Their gradients are noisy.
        surrogate = smoothed_step(problem, bandwidths(problem, self.state.rows)[0])
        wide = problem.with_system(problem.system.smoothed(surrogate))
        optimizer = StochasticSQP.from_paper(problem.parameters)

        def step(batch: Batch) -> None:
            self.multipliers = torch.from_numpy(optimizer.step(lambda: wide.evaluate(batch)).multipliers)

        points = self._run_epochs("sample", problem, epochs, step, {"optimizer": optimizer})
        self.state.w = free
        return points

    def _run_epochs(
        self,
        phase: str,
        problem: TrainingProblem,
        epochs: int,
        step: Callable[[Batch], None],
        stateful: dict[str, Any],
    ) -> list[Tensor]:
        """Take a step for every batch, and record the module after every epoch; return its parameters then.

        `stateful` are the objects that change with the steps.  A journal has their states after every epoch.
        """
        state, points = self.state, list[Tensor]()
        stateful = {"module": problem.module, **stateful}

        def run() -> None:
            self.modes.restore()
            if self.processes is not None:  # each process needs its own random numbers, for example in Dropout
                torch.manual_seed(int(torch.randint(2**31, (1,), generator=self.generator)) + self.processes.rank)
            try:
                for batch in self.batches:
                    step(batch)
            finally:
                problem.module.eval()
                state.w = problem.current()  # also on an interrupt

        def save() -> dict[str, Any]:
            found = {name: each.state_dict() for name, each in stateful.items()}
            draws = {"own": self.generator.get_state(), "global": torch.get_rng_state()}
            return {**found, "draws": draws, "multipliers": self.multipliers}

        def restore(saved: dict[str, Any]) -> None:
            for name, each in stateful.items():
                each.load_state_dict(saved[name])
            self.generator.set_state(saved["draws"]["own"])
            torch.set_rng_state(saved["draws"]["global"])
            self.multipliers, state.w = saved["multipliers"], problem.current()

        # Layers such as Dropout draw from the global generator, which is seeded and restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=self.generator)))
            for epoch in range(epochs):
                problem.passes.advance(partial(self._key, phase, epoch, problem), run, save, restore)
                state.evaluations += 1
                points.append(state.w)
                found = state.assess(problem, state.w)
                numbers = {"epoch": epoch, "f": found.objective, "violation": found.surrogate_violation}
                if state.log(phase, numbers | history_columns(found, self.multipliers)):
                    break
        return points

    def _key(self, phase: str, epoch: int, problem: TrainingProblem) -> bytes:
        """Return a digest of everything that an epoch depends on: its starting point, rows, draws and settings."""
        rows, draws = self.state.rows, self.generator.get_state().numpy().tobytes()
        settings = phase, epoch, self.batches.counts.tolist(), problem.system.constraints, problem.regularizers
        return digest(problem.point(rows), rows.digest, draws, f"{settings} {self.state.effort}".encode())


def refuse_batch_statistics(modes: LayerModes) -> None:
    """Raise an error if a layer learns statistics of a batch: each process has only a part of the batch."""
    for part, training in modes.modes:
        if training and isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise InputError(
                "{layer} learns statistics of each batch, but several processes share the batches of this fit.",
                "Use another layer such as LayerNorm, or fit in one process with {distributed='off'}.",
                layer=type(part).__name__,
            )


def run_mini_batches(state: Continuation, problem: TrainingProblem, batches: MiniBatches) -> list[Tensor]:
    """Run both phases from `state.w`, and leave the free model there; return the points that approach the limits.

    Half of the epochs are without limits, half with them.
    """
    limited = problem.system.n_rows > 0
    epochs = math.ceil(state.effort.passes / 2) if limited else state.effort.passes
    batches.find_free_model(epochs)
    if not limited or state.stopped:
        return []
    free = state.assess(problem, state.w)
    if free.kept and not free.degenerate:  # a model near a constant keeps almost every limit; then go on
        return []
    return batches.approach(problem, max(1, state.effort.passes - epochs))


def choose_batch_size(stated: int | None, n_rows: int) -> int:
    """Return the stated size or, if it is None, one that suits the number of rows; never more than all rows.

    >>> choose_batch_size(None, 20_000), choose_batch_size(None, 10**7), choose_batch_size(512, 100)
    (400, 8192, 100)
    """
    suitable = min(max(n_rows // STEPS_PER_EPOCH, LEAST_BATCH), 8192)
    return min(suitable if stated is None else stated, n_rows)


def write_gradient(problem: TrainingProblem, flat: Tensor) -> None:
    """Write a flat gradient into the parameters, for an optimiser of torch."""
    sizes = [parameter.numel() for parameter in problem.parameters]
    for parameter, part in zip(problem.parameters, flat.split(sizes), strict=True):
        parameter.grad = part.reshape(parameter.shape).to(parameter)


# --- batches ---------------------------------------------------------------------------------------------------------

# Batches: all rows, or stratified mini-batches with a fixed number of rows from every cell (Theorem 3).
#
# The constraints are evaluated on the batch, on a fixed subset, or on all rows.  The theory of the stochastic method
# assumes deterministic constraints, so it covers only a fixed subset and all rows.


class FullBatch:
    """One batch per epoch: all rows, for the loss and for the constraints."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Rows]:
        yield self.rows


class StratifiedBatches:
    """Mini-batches with a fixed number n_k of the N_k rows of each cell, reweighted by N_k/n_k.

    Parameters
    ----------
    rows : Rows
        All rows, or those of this process.  Then every process draws its share of each batch, with the same generator.
    batch_size : int
        Rows per batch, distributed over the cells in proportion to their size.  Each cell gets at least
        `least_per_cell` rows, or all of its rows if it has fewer.
    constraints : {"batch", "subset", "all"}
        The rows on which the constraints are evaluated.
    subset : float
        Share of the rows in the fixed subset (a third in the paper's experiments).
    generator : torch.Generator, optional
        Random generator of all draws; by default a new one with seed 0.  The global generator is not used.
    least_per_cell : int
        Least number of rows per cell.  Two or more allow unbiased estimates of squared measures.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        *,
        constraints: Literal["batch", "subset", "all"] = "subset",
        subset: float = 1 / 3,
        generator: torch.Generator | None = None,
        least_per_cell: int = 2,
    ) -> None:
        n_rows = sum(rows.sizes)
        if not 1 <= batch_size <= n_rows:
            raise ValueError(f"batch_size={batch_size!r}: must lie between 1 and the number of rows, {n_rows}.")
        if constraints not in ("batch", "subset", "all"):
            raise ValueError(f'constraints={constraints!r}: must be "batch", "subset" or "all".')
        if least_per_cell < 1:
            raise ValueError(
                f"least_per_cell={least_per_cell!r}: must be at least 1, so that each batch has rows of every cell."
            )
        if not 0 < subset <= 1:
            raise ValueError(f"subset={subset!r}: must be a share above 0 and at most 1.")
        self.rows = rows
        self.counts = _allocate(rows, batch_size / n_rows, least_per_cell)
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        # Counted by the rows drawn, which exceed `batch_size` if many small cells need `least_per_cell`.
        self.steps_per_epoch = max(1, round(n_rows / int(self.counts.sum())))
        self.constraint_rows: Rows | None = None
        if constraints == "all":
            self.constraint_rows = rows
        elif constraints == "subset":
            self.constraint_rows = rows.sample(_allocate(rows, subset, least_per_cell), self.generator)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch, which together have about as many rows as the data."""
        for _ in range(self.steps_per_epoch):
            drawn = self.rows.sample(self.counts, self.generator)
            yield Batch(drawn, drawn if self.constraint_rows is None else self.constraint_rows)


def _allocate(rows: Rows, share: float, least: int) -> Tensor:
    """Return the number of rows to draw from each cell: in proportion, at least `least`, at most the whole cell."""
    sizes = torch.tensor(rows.sizes)
    return torch.minimum(sizes, torch.clamp((sizes.to(torch.float64) * share).round().long(), min=least))
