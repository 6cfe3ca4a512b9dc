"""Several processes that train one model, each on its own rows (`torch.distributed`).

Everything that a fit learns from the rows is a sum.  Each process sums over its own rows.  For each pass, one
all-reduce adds the sums of all processes, and then all processes take the identical step.  Counts of decisions are
whole numbers below 2⁵³, or exact parts of weights (`WeightParts`).  So they do not depend on how the rows are divided.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fairbound._errors import InputError, as_reported, message_of
from fairbound.training.chunks import Chunk, Floats, WeightParts
from fairbound.training.rows import MatrixRows, Permutation, Rows


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


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Facts about the rows of all processes: their number in each segment, and their weights."""

    sizes: tuple[int, ...]
    class_weights: Floats
    loss_parts: WeightParts
    cell_parts: WeightParts


@dataclass(frozen=True, eq=False)
class SharedRows(Rows):
    """The rows of this process, in a fit that several processes share; all have the same segments.

    Attributes
    ----------
    own : Rows
        The rows of this process, with loss weights that sum to 1.
    share : float
        The weight of this process's rows, divided by that of all rows.  It multiplies the weights of `own`, so that the
        weights of all processes sum to 1.
    everywhere : RowFacts
        Facts about the rows of all processes.
    """

    own: Rows
    share: float
    offsets: tuple[int, ...]
    cell_of_segment: NDArray[np.int64]
    everywhere: RowFacts = field(repr=False)
    processes: Processes = field(repr=False)
    earlier: tuple[int, ...] = ()
    halves: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of rows of each segment in all processes."""
        return self.everywhere.sizes

    @property
    def class_weights(self) -> Floats:
        """Return the weight of each class in the loss, of the rows of all processes."""
        return self.everywhere.class_weights

    @property
    def loss_parts(self) -> WeightParts:
        """Return the parts of the weights in the loss, for exact sums."""
        return self.everywhere.loss_parts

    @property
    def cell_parts(self) -> WeightParts:
        """Return the parts of the weights in the cells, for exact sums."""
        return self.everywhere.cell_parts

    @classmethod
    def build(
        cls, own: Rows, weight: float, sizes: NDArray[np.int64], n_labels: int, processes: Processes
    ) -> SharedRows:
        """Return the rows of this process.

        Parameters
        ----------
        own : Rows
        weight : float
            The total weight of these rows in the loss, before it was scaled to 1.
        sizes : array of shape (K,)
            The number of rows of each cell in all processes.
        n_labels : int
        processes : Processes
        """
        present = np.flatnonzero(sizes)
        here = np.zeros_like(sizes)
        here[own.cell_of_segment] = np.diff(own.offsets)
        everywhere = processes.gather((weight, *(_weight_range(own, each, weight) for each in ("loss", "cell")), here))
        total = sum(each[0] for each in everywhere)
        n_rows = int(sizes.sum())
        found = cls(
            own=own,
            share=weight / total,
            offsets=(0, *np.cumsum(here[present]).tolist()),
            cell_of_segment=present,
            everywhere=RowFacts(
                sizes=tuple(sizes[present].tolist()),
                class_weights=processes.sum(_by_class(own, n_labels) * (weight / total)),
                loss_parts=_parts([each[1] for each in everywhere], n_rows, 1.0 / total),
                cell_parts=_parts([each[2] for each in everywhere], n_rows, 1.0),
            ),
            processes=processes,
            earlier=tuple(sum((each[3] for each in everywhere[: processes.rank]), 0 * here)[present].tolist()),
        )
        return found._with_totals()

    def sample(self, counts: NDArray[np.int64], permutation: Permutation) -> SharedRows:
        """Draw a fixed number of rows from each cell over all processes; all draw the same permutations."""
        drawn, largest = self.draw(counts, permutation), float((np.array(self.sizes) / counts).max())
        n_rows = int(counts.sum())
        everywhere = replace(
            self.everywhere,
            sizes=tuple(np.stack([counts // 2, counts - counts // 2], axis=1).reshape(-1).tolist()),
            loss_parts=WeightParts.of_size(self.loss_parts.ceiling * largest, n_rows, 0.0),
            cell_parts=WeightParts.of_size(self.cell_parts.ceiling * largest, n_rows, 0.0),
        )
        shared = replace(
            self,
            own=drawn,
            share=1.0,
            offsets=drawn.offsets,
            cell_of_segment=drawn.cell_of_segment,
            everywhere=everywhere,
            halves=True,
        )
        return shared._with_totals()

    def _with_totals(self) -> SharedRows:
        """Return these rows with the sums of the parts of all weights."""
        sums = np.zeros(2)
        for chunk in self.chunks(2**20):
            for place, (parts, weights) in enumerate(
                ((self.loss_parts, chunk.loss_weights), (self.cell_parts, chunk.cell_weights))
            ):
                sums[place] += sum(float(part.sum()) for part in parts.split(weights))
        totals = self.processes.sum(sums).tolist()
        everywhere = replace(
            self.everywhere,
            loss_parts=replace(self.loss_parts, total=totals[0]),
            cell_parts=replace(self.cell_parts, total=totals[1]),
        )
        return replace(self, everywhere=everywhere)

    def chunks(self, chunk_rows: int) -> Iterable[Chunk]:
        """Yield the rows of this process in consecutive chunks of at most `chunk_rows`."""
        place = {cell: segment for segment, cell in enumerate(self.cell_of_segment.tolist())}
        segments = [place[cell] for cell in self.own.cell_of_segment.tolist()]
        if self.halves:  # a sample has the segments of all processes
            segments = list(range(self.n_segments))
        for chunk in self.own.chunks(chunk_rows):
            slices = [(segments[segment], start, stop) for segment, start, stop in chunk.slices]
            yield replace(chunk, loss_weights=self._loss_weights(chunk.loss_weights), slices=slices)

    def take(self, chosen: NDArray[np.int64]) -> MatrixRows:
        """Return some rows of this process, by their position in segment order, as one segment of cell 0."""
        drawn = self.own.take(chosen)
        return replace(drawn, loss_weights=self._loss_weights(drawn.loss_weights))

    def in_double(self) -> SharedRows:
        """Return the rows with inputs in double precision."""
        return replace(self, own=self.own.in_double())

    def _loss_weights(self, weights: Floats) -> Floats:
        if self.loss_parts.steps:
            return weights * self.share
        return np.full_like(weights, self.loss_parts.unit)


def _by_class(rows: Rows, n_labels: int) -> Floats:
    """Return the class weights of some rows; 0 for a class that they do not have."""
    return np.pad(rows.class_weights, (0, n_labels - len(rows.class_weights)))


def _weight_range(rows: Rows, kind: str, weight: float) -> tuple[float, float]:
    """Return the least and the largest weight of some rows, before they were scaled."""
    if not len(rows):
        return float("inf"), 0.0
    parts, factor = (rows.loss_parts, weight) if kind == "loss" else (rows.cell_parts, 1.0)
    if not parts.steps:
        return parts.unit * factor, parts.unit * factor
    least, largest = float("inf"), 0.0
    for chunk in rows.chunks(2**20):
        weights = chunk.loss_weights if kind == "loss" else chunk.cell_weights
        least, largest = min(least, float(weights.min())), max(largest, float(weights.max()))
    return least * factor, largest * factor


def _parts(extents: list[tuple[float, float]], n_rows: int, scale: float) -> WeightParts:
    """Return the parts of the weights of all processes."""
    least, largest = min(each[0] for each in extents), max(each[1] for each in extents)
    if largest - least <= 1e-12 * largest:  # equal, up to the scaling of each process
        return WeightParts(largest * scale, (), float(n_rows))
    return WeightParts.of_size(largest * scale, n_rows, 0.0)
