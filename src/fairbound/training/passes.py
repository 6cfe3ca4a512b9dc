"""Passes over all rows, in chunks; their totals are computed, or read from the journal of a killed run.

Everything that a solver computes from all rows goes through `Passes.recorded`, as a flat vector of sums.  So a fit that
reads these vectors from a journal reaches the same iterates, bit for bit, as the fit that wrote them.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairbound._errors import InputError
from fairbound._files import check_name
from fairbound._journal import SECONDS, Journal, digest
from fairbound._version import __version__

if TYPE_CHECKING:
    from fairbound.training.processes import Processes


class Passes:
    """The source of the totals of passes over all rows.

    Parameters
    ----------
    journal : Journal, optional
        Results are read from it as long as it has any; later ones are added to it.
    processes : Processes, optional
        The processes that share the fit, each with its own rows.  The first one has the journal.
    rounded : bool
        Whether totals are rounded to a grid (`SweepTotals.round_off`), so that they do not depend on the order of the
        rows, or on how processes share them.  Inputs must be scaled to about 1, as those of an estimator are.

    Attributes
    ----------
    stopped : bool
        Whether a callback has ended a fit early, in any process.
    """

    def __init__(
        self, journal: Journal | None = None, processes: Processes | None = None, *, rounded: bool = True
    ) -> None:
        self.journal, self.processes, self.rounded, self.stopped = journal, processes, rounded, False
        self._recorded, self._taking = journal is not None, journal is not None and journal.found
        if processes is not None:
            self._recorded, self._taking = processes.first(lambda: (self._recorded, self._taking))

    def sum(self, totals: Tensor) -> Tensor:
        """Return the sum of the totals of all processes."""
        return totals if self.processes is None else self.processes.sum(totals)

    def any(self, asked: bool) -> bool:
        """Return whether `asked` is true in any process."""
        return asked if self.processes is None else bool(self.processes.sum(torch.tensor([int(asked)])))

    def join(self, values: Tensor) -> Tensor:
        """Return the values of the rows of all processes, those of the first process first."""
        return values if self.processes is None else torch.cat(self.processes.gather(values))

    def recorded(self, key: Callable[[], bytes], compute: Callable[[], Tensor]) -> Tensor:
        """Return the totals of a pass, a flat float64 vector: from the journal, or computed and added to it.

        Parameters
        ----------
        key : function
            Returns a digest of all that the result depends on.
        compute : function
            Passes over the rows, and adds up the totals of all processes.
        """
        name = key() if self._recorded else b""
        found = self._recall(name)
        if found is not None:
            return torch.frombuffer(bytearray(found), dtype=torch.float64) if found else torch.empty(0)
        result = compute()
        if self.journal is not None:
            self.journal.add(name, result.numpy().tobytes())
        return result

    def advance(
        self,
        key: Callable[[], bytes],
        run: Callable[[], None],
        save: Callable[[], dict[str, Any]],
        restore: Callable[[dict[str, Any]], None],
    ) -> None:
        """Run a step that changes a state, such as an epoch of mini-batches; or restore the state that it left.

        Parameters
        ----------
        key : function
            Returns a digest of all that the new state depends on.
        run : function
        save, restore : functions
            `save` returns the state, a dictionary of tensors, numbers and dictionaries; `restore` sets it.
        """
        name = key() if self._recorded else b""
        found = self._recall(name)
        if found is not None:
            restore(torch.load(io.BytesIO(found), weights_only=True))
            return
        run()
        if self.journal is not None:
            written = io.BytesIO()
            torch.save(save(), written)
            self.journal.add(name, written.getvalue())

    def _recall(self, name: bytes) -> bytes | None:
        """Return the next result of the journal, in all processes; None if it has no more."""
        if not self._taking:
            return None
        journal = self.journal
        if self.processes is None:
            assert journal is not None
            found = journal.recall(name)
        else:
            found = self.processes.first(lambda: None if journal is None else journal.recall(name))
        self._taking = found is not None
        return found

    def stop(self) -> None:
        """Add no more results to the journal.  A stopped fit ends early; a resumed one must not end there again."""
        self.stopped = True
        if self.journal is not None:
            self.journal.stop()


def run_facts(processes: int = 1) -> dict[str, str | int]:
    """Return versions and numbers of threads and processes; the last bits of a fit depend on them."""
    return {
        "fairbound": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "processes": processes,
    }


def open_journal(
    path: str | os.PathLike[str], *, resume: bool = True, seconds: float | None = None, processes: int = 1
) -> Journal:
    """Return the journal at a path, which is written every few seconds; with `resume`, an existing one is continued."""
    check_name(path)
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait for its other end
        raise InputError(
            "{path} is not a journal of fairbound.", "Name another file, or move it away.", path=os.fspath(path)
        )
    return Journal(path, run_facts(processes), resume=resume, seconds=SECONDS if seconds is None else seconds)


@contextmanager
def resumed(source: str | os.PathLike[str] | Passes | None, processes: Processes | None = None) -> Iterator[Passes]:
    """Yield passes with the journal at a path, which is removed if the block ends without an error.

    Given `Passes` are yielded unchanged.  If several processes share a fit, only the first has the journal.
    """
    if isinstance(source, Passes):
        yield source
    elif source is None or (processes is not None and processes.rank):
        yield Passes(None, processes)
    else:
        with open_journal(source, processes=1 if processes is None else processes.count) as journal:
            yield Passes(journal, processes)


def tensor_digest(*tensors: Tensor) -> bytes:
    """Return a digest of the values, shapes and types of tensors."""
    parts: list[bytes | memoryview] = []
    for tensor in tensors:
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        parts += [f"{array.dtype}{array.shape}".encode(), array.reshape(-1).view(np.uint8).data]
    return digest(*parts)


# --- chunks ----------------------------------------------------------------------------------------------------------

# A chunk of rows, and weights whose sums over all chunks are exact.
#
# Sums of decisions determine whether a limit is kept.  So they must not depend on the size of chunks, or on the number
# of processes that share the rows.  If all weights are equal, rows are counted.  Otherwise each weight is split into
# two parts, and each part is rounded to a grid on which float64 adds without rounding.


Slices = Sequence[tuple[int, int, int]]
"""(segment, start, stop) within a chunk of rows."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows; the slices are relative to the first of them, one for each segment that they touch."""

    X: Tensor
    labels: Tensor
    loss_weights: Tensor
    cell_weights: Tensor
    slices: Slices


@dataclass(frozen=True)
class WeightParts:
    """Weights split into parts whose sums over all rows are exact, so that the order of addition does not matter.

    Equal weights are counted: one part, 1 for every row.  Others have two parts.  Each part is a multiple of its step,
    and all rows together have less than 2⁵³ steps, so float64 adds them without rounding.  The remainder beyond the
    second part is less than 2⁻⁵² of the largest weight, for up to 100 million rows.

    Attributes
    ----------
    unit : float
        Factor on all sums: the weight of a row if all weights are equal, else 1.
    steps : tuple of float
        The step of each part; empty if all weights are equal.
    total : float
        The sum of all weights, divided by `unit`.
    """

    unit: float
    steps: tuple[float, ...]
    total: float

    @classmethod
    def build(cls, weights: Tensor) -> WeightParts:
        """Return the parts of the weights of all rows."""
        if not len(weights) or bool((weights == weights[0]).all()):
            return cls(float(weights[0]) if len(weights) else 1.0, (), float(len(weights)))
        blank = cls.of_size(float(weights.max()), len(weights), 0.0)
        return replace(blank, total=sum(float(part.sum()) for part in blank.split(weights)))

    @classmethod
    def of_size(cls, largest: float, count: int, total: float) -> WeightParts:
        """Return the parts of `count` weights of which the largest is known."""
        # Adding `count` numbers needs log2(count) more bits than one number.  The sum must fit in 53 bits.
        bits = 52 - math.ceil(math.log2(max(count, 2)))
        first = 2.0 ** (math.frexp(largest)[1] - bits)
        return cls(1.0, (first, first * 2.0**-bits), total)

    @property
    def ceiling(self) -> float:
        """Return a number that no weight exceeds."""
        # By `of_size`, first · first / second = first · 2^bits, a power of two of at least the largest weight.
        return self.steps[0] ** 2 / self.steps[1] if self.steps else self.unit

    def __len__(self) -> int:
        return max(len(self.steps), 1)

    def scale(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return values (..., n, D) times the weights of their rows."""
        return values * (weights.to(values.dtype)[:, None] if self.steps else self.unit)

    def split(self, weights: Tensor) -> list[Tensor]:
        """Return the parts of some weights."""
        parts, rest = [], weights
        for step in self.steps:
            parts.append(torch.round(rest / step) * step)
            rest = rest - parts[-1]
        return parts or [torch.ones_like(weights)]
