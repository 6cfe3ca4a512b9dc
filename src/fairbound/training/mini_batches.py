"""The first two phases of a fit by mini-batches.

    free      minimise the loss without limits, by Adam
    sample    approach the limits by `StochasticSQP`, with the constraints on a fixed subset of the rows

The later phases use whole passes (`continuation`), so the limits are kept exactly.  Steps are taken in the mode that
the user has set for the module: in training mode Dropout drops units, and BatchNorm learns its statistics.  Constraints
and assessments use evaluation mode.  After these two phases the module stays in evaluation mode.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fairbound._errors import InputError
from fairbound._journal import digest
from fairbound.sqp import StochasticSQP
from fairbound.training.assessment import history_columns
from fairbound.training.batches import StratifiedBatches
from fairbound.training.chunks import Floats
from fairbound.training.model import LinearModel
from fairbound.training.modules import LayerModes, make_model
from fairbound.training.network import NetworkModel
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.smoothed import bandwidths

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
    modes : LayerModes, or None for a linear model
        The mode of every layer during steps.
    generator : torch.Generator, optional
        Random generator of all draws, including those of layers such as Dropout; by default one with seed 0.
    """

    def __init__(self, state: Continuation, modes: LayerModes | None, generator: torch.Generator | None) -> None:
        self.state = state
        self.network = _as_network(state.base)
        self.modes = LayerModes(self.network.module) if modes is None else modes
        self.multipliers: Floats | None = None  # those of the last step under limits
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        self.processes, n_rows = state.base.passes.processes, sum(state.rows.sizes)
        if self.processes is not None:
            refuse_batch_statistics(self.modes)
        self.batches = StratifiedBatches(
            state.rows,
            choose_batch_size(state.effort.batch_size, n_rows),
            constraints="subset",
            subset=min(state.effort.constraint_share, CONSTRAINT_ROWS / n_rows),
            generator=self.generator,
        )

    def run(self, problem: TrainingProblem) -> list[Floats]:
        """Run both phases from `state.w`, and leave the free model there; return the points that approach the limits.

        Half of the epochs are without limits, half with them.
        """
        state, problem = self.state, self.state.own(problem)
        limited = problem.system.n_rows > 0
        epochs = math.ceil(state.effort.passes / 2) if limited else state.effort.passes
        self.find_free_model(epochs)
        if not limited or state.stopped:
            return []
        free = state.assess(problem, state.w)
        if free.kept and not free.degenerate:  # a model near a constant keeps almost every limit; then go on
            return []
        return self.approach(problem, max(1, state.effort.passes - epochs))

    def find_free_model(self, epochs: int) -> None:
        """Minimise the loss without limits by Adam, whose learning rate falls to zero along a cosine."""
        state, problem = self.state, self.state.base.with_model(self.network)
        problem.assign(state.w)
        optimizer = torch.optim.Adam(problem.parameters, lr=state.effort.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * self.batches.steps_per_epoch)

        def step(batch: Batch) -> None:
            write_gradient(self.network, torch.from_numpy(problem.evaluate(Batch(batch.loss, batch.loss)).g))
            optimizer.step()
            schedule.step()

        points = self._run_epochs("free", problem, epochs, step, {"optimizer": optimizer, "schedule": schedule})
        state.free_points = points if state.judge is not None else []
        optimizer.zero_grad()
        state.assess_free()

    def approach(self, problem: TrainingProblem, epochs: int) -> list[Floats]:
        """Approach the limits from the free model, which stays in `state.w`; return the point of each epoch's end."""
        free, problem = self.state.w, problem.with_model(self.network)
        problem.assign(free)
        # At the narrowest bandwidth only few rows of the subset have a slope.  Their gradients are noisy.
        wide = problem.with_system(problem.system.smoothed(bandwidths(problem, self.state.rows)[0]))
        optimizer = StochasticSQP.from_paper(problem.parameters)

        def step(batch: Batch) -> None:
            self.multipliers = optimizer.step(lambda: wide.evaluate(batch)).multipliers

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
    ) -> list[Floats]:
        """Take a step for every batch, and record the module after every epoch; return its parameters then.

        `stateful` are the objects that change with the steps.  A journal has their states after every epoch.
        """
        state, points = self.state, list[Floats]()
        stateful = {"module": problem.module, **stateful}

        def run() -> bytes:
            self.modes.restore()
            if self.processes is not None:  # each process needs its own random numbers, for example in Dropout
                torch.manual_seed(int(torch.randint(2**31, (1,), generator=self.generator)) + self.processes.rank)
            try:
                for batch in self.batches:
                    step(batch)
            finally:
                problem.module.eval()
                state.w = problem.current()  # also on an interrupt
            if not problem.passes.recorded:
                return b""
            found = {name: each.state_dict() for name, each in stateful.items()}
            draws = {"own": self.generator.get_state(), "global": torch.get_rng_state()}
            multipliers = None if self.multipliers is None else torch.from_numpy(self.multipliers)
            written = io.BytesIO()
            torch.save({**found, "draws": draws, "multipliers": multipliers}, written)
            return written.getvalue()

        def restore(written: bytes) -> None:
            saved = torch.load(io.BytesIO(written), weights_only=True)
            for name, each in stateful.items():
                each.load_state_dict(saved[name])
            self.generator.set_state(saved["draws"]["own"])
            torch.set_rng_state(saved["draws"]["global"])
            held = saved["multipliers"]
            self.multipliers, state.w = None if held is None else held.numpy(), problem.current()

        # Layers such as Dropout draw from the global generator, which is seeded and restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=self.generator)))
            for epoch in range(epochs):
                problem.passes.remember(partial(self._key, phase, epoch, problem), run, restore)
                state.evaluations += 1
                points.append(state.w)
                found = state.assess(problem, state.w)
                numbers = {"epoch": epoch, "f": found.objective, "violation": found.surrogate_violation}
                if state.log(phase, numbers | history_columns(found, self.multipliers)):
                    break
        return points

    def _key(self, phase: str, epoch: int, problem: TrainingProblem) -> bytes:
        """Return a digest of everything that an epoch depends on: its starting point, rows, draws and settings."""
        draws = self.generator.get_state().numpy()
        settings = phase, epoch, self.batches.counts.tolist(), problem.system.constraints
        return digest(self.state.identity, problem.model.digest(), draws, settings)


def refuse_batch_statistics(modes: LayerModes) -> None:
    """Raise an error if a layer learns statistics of a batch: each process has only a part of the batch."""
    for part, training in modes.modes:
        if training and isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise InputError(
                "{layer} learns statistics of each batch, but several processes share the batches of this fit.",
                "Use another layer such as LayerNorm, or fit in one process with {distributed='off'}.",
                layer=type(part).__name__,
            )


def choose_batch_size(stated: int | None, n_rows: int) -> int:
    """Return the stated size or, if it is None, one that suits the number of rows; never more than all rows.

    >>> choose_batch_size(None, 20_000), choose_batch_size(None, 10**7), choose_batch_size(512, 100)
    (400, 8192, 100)
    """
    suitable = min(max(n_rows // STEPS_PER_EPOCH, LEAST_BATCH), 8192)
    return min(suitable if stated is None else stated, n_rows)


def write_gradient(network: NetworkModel, flat: torch.Tensor) -> None:
    """Write a flat gradient into the parameters, for an optimiser of torch."""
    sizes = [parameter.numel() for parameter in network.parameters]
    for parameter, part in zip(network.parameters, flat.split(sizes), strict=True):
        parameter.grad = part.reshape(parameter.shape).to(parameter)


def _as_network(problem: TrainingProblem) -> NetworkModel:
    """Return the network of a problem; a linear model as a network with the same parameters."""
    model = problem.model
    if not isinstance(model, LinearModel):
        assert isinstance(model, NetworkModel)
        return model
    found = NetworkModel(make_model(model.n_inputs, problem.cells.n_labels))
    found.set_precision(model.dtype)
    found.assign(model.current())
    return found
