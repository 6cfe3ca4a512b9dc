"""Several processes that train one model, each on its own rows (`torch.distributed`).

Everything that a fit learns from the rows is a sum.  Each process sums over its own rows.  For each pass, one
all-reduce adds the sums of all processes, and then all processes take the identical step.  Counts of decisions are
whole numbers below 2⁵³, or exact parts of weights (`WeightParts`).  So they do not depend on how the rows are divided.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fairbound._errors import InputError, as_reported, message_of


class Processes:
    """The default process group of torch.distributed; all processes call the same methods in the same order.

    Attributes
    ----------
    rank, count : int
        The number of this process, from 0, and the number of all.
    """

    def __init__(self) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        nccl = dist.get_backend() == "nccl"  # it exchanges tensors on the GPU only
        self._device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    @classmethod
    def present(cls) -> Processes | None:
        """Return the process group that this process belongs to; None if there is none."""
        return cls() if dist.is_available() and dist.is_initialized() else None

    def sum(self, totals: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the arrays of all processes, which have the same shape."""
        found = torch.from_numpy(np.ascontiguousarray(totals)).to(self._device, copy=True)
        with _explained_errors():
            dist.all_reduce(found)
        return found.cpu().numpy()

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, in the order of their ranks."""
        found: list[Any] = [None] * self.count
        with _explained_errors():
            dist.all_gather_object(found, value)
        return found

    def first(self, compute: Callable[[], Any]) -> Any:
        """Compute a value in the first process, and return it in all; an error is raised in all, too."""
        found: list[Any] = [None]
        if self.rank == 0:
            try:
                found = [compute()]
            except (ValueError, OSError) as error:
                found = [error]
        with _explained_errors():
            dist.broadcast_object_list(found, src=0, device=self._device)
        if isinstance(found[0], Exception):
            raise found[0] if self.rank == 0 else as_reported(found[0])
        return found[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raise an error of one process in all of them, so that none waits for it."""
        error: Exception | None = None
        try:
            yield
        except (ValueError, TypeError, OSError) as raised:
            error = raised
        found = self.gather(None if error is None else _as_sent(message_of(error)))
        failed = [(rank, message) for rank, message in enumerate(found) if message is not None]
        if error is None and failed:
            rank, message = failed[0]
            error = InputError("Process {rank} of {count}: {message}", rank=rank, count=self.count, message=message)
        if error is not None:
            raise error if self.rank == 0 else as_reported(error)


def _as_sent(message: str) -> str:
    """Return a message with its arguments as parts, or as plain text if it has facts that cannot be sent."""
    try:
        pickle.dumps(message)
    except (pickle.PicklingError, TypeError, AttributeError):
        return str(message)
    return message


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Explain errors of torch.distributed: another process has ended, or does not answer in time."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ConnectionError(
            f"Another process of this run has ended, or does not answer in time ({reason}). Look at its output; the "
            "time-out is that of torch.distributed.init_process_group."
        ) from error
