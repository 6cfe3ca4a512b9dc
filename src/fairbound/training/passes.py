"""Passes over all rows, and where their totals come from: the rows themselves, or the journal of a run that was killed.

Everything that a solver learns from all rows passes through `Passes.recorded`: a flat vector of sums.  So a fit that
takes them from a journal comes to the same point, bit for bit, as the one that has written it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound._journal import SECONDS, Journal, digest
from fairbound._version import __version__


class Passes:
    """The source of the totals of passes.

    Parameters
    ----------
    journal : Journal, optional
        Totals are taken from it as far as it goes, and later ones are added to it.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal

    def recorded(self, key: Callable[[], bytes], compute: Callable[[], Tensor]) -> Tensor:
        """Return what passes over the rows find, a flat float64 vector: from the journal, or computed and added to it.

        Parameters
        ----------
        key : function
            Returns a digest of all that the result depends on.
        compute : function
            Passes over the rows.
        """
        if self.journal is None:
            return compute()
        name = key()
        found = self.journal.recall(name)
        if found is not None:
            return torch.frombuffer(bytearray(found), dtype=torch.float64) if found else torch.empty(0)
        result = compute()
        self.journal.add(name, result.numpy().tobytes())
        return result

    def advance(
        self,
        key: Callable[[], bytes],
        run: Callable[[], None],
        save: Callable[[], dict[str, Any]],
        restore: Callable[[dict[str, Any]], None],
    ) -> None:
        """Run something that changes a state, such as an epoch of mini-batches, or restore the state after it.

        Parameters
        ----------
        key : function
            Returns a digest of all that the new state depends on.
        run : function
        save, restore : functions
            Return the state, a dictionary of tensors, numbers and dictionaries; and set it.
        """
        if self.journal is None:
            run()
            return
        name = key()
        found = self.journal.recall(name)
        if found is not None:
            restore(torch.load(io.BytesIO(found), weights_only=True))
            return
        run()
        written = io.BytesIO()
        torch.save(save(), written)
        self.journal.add(name, written.getvalue())

    def stop_recording(self) -> None:
        """Add nothing more to the journal: the fit was stopped, and ends in another way than it would by itself."""
        if self.journal is not None:
            self.journal.stop()


def run_facts() -> dict[str, str | int]:
    """Return what the last bits of a fit depend on, besides its rows and settings."""
    return {
        "fairbound": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
    }


def open_journal(path: str | os.PathLike[str], *, resume: bool = True, seconds: float | None = None) -> Journal:
    """Return the journal at a path, to be written every few seconds; with `resume`, it is first read if it is there."""
    return Journal(path, run_facts(), resume=resume, seconds=SECONDS if seconds is None else seconds)


@contextmanager
def resumed(source: str | os.PathLike[str] | Passes | None) -> Iterator[Passes]:
    """Yield passes with the journal at a path; it is removed if all goes well.  Passes are yielded as they are."""
    if isinstance(source, Passes):
        yield source
    elif source is None:
        yield Passes()
    else:
        with open_journal(source) as journal:
            yield Passes(journal)


def tensor_digest(*tensors: Tensor) -> bytes:
    """Return a digest of the values, shapes and types of tensors."""
    parts: list[bytes | memoryview] = []
    for tensor in tensors:
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        parts += [f"{array.dtype}{array.shape}".encode(), array.reshape(-1).view(np.uint8).data]
    return digest(*parts)
