"""What all passes over the rows of a run share: the processes, the rounding of sums, and the journal of the solves."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from fairbound._files import check_name
from fairbound._journal import SECONDS, Journal
from fairbound._version import __version__

if TYPE_CHECKING:
    from fairbound.training.processes import Processes

T = TypeVar("T")


class Passes:
    """What the passes over all rows have in common.

    Parameters
    ----------
    journal : Journal, optional
        Results are taken from it as long as it has any; later ones are added to it.
    processes : Processes, optional
        The processes that share the fit, each with its own rows.  The first one has the journal.
    rounded : bool
        Whether totals are rounded to a grid (`SweepTotals.round_off`), so that they do not depend on the order of the
        rows, or on how processes share them.  Inputs must be scaled to about 1, as those of an estimator are.

    Attributes
    ----------
    recorded : bool
        Whether there is a journal, in any process.
    others : bytes
        A digest of rows that are not trained on, but decide on the model or appear in the history.
    stopped : bool
        Whether a callback has ended a fit early, in any process.
    """

    def __init__(
        self, journal: Journal | None = None, processes: Processes | None = None, *, rounded: bool = True
    ) -> None:
        self.journal, self.processes, self.rounded, self.stopped = journal, processes, rounded, False
        self.others = b""
        self.recorded, self._taking = journal is not None, journal is not None and journal.found
        if processes is not None:
            self.recorded, self._taking = processes.first(lambda: (self.recorded, self._taking))

    def sum(self, totals: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the totals of all processes."""
        return totals if self.processes is None else self.processes.sum(totals)

    def any(self, asked: bool) -> bool:
        """Return whether `asked` is true in any process."""
        return asked if self.processes is None else bool(self.processes.sum(np.array([int(asked)]))[0])

    def remember(
        self, key: Callable[[], bytes], compute: Callable[[], T], restore: Callable[[T], None] | None = None
    ) -> T:
        """Return a result, the same in all processes: from the journal, or computed and added to it.

        Parameters
        ----------
        key : function
            Returns a digest of all that the result depends on.
        compute : function
            Returns plain values (`packed`).
        restore : function, optional
            Called with a result from the journal; it does what else `compute` would have done.
        """
        if not self.recorded:
            return compute()
        name, journal = key(), self.journal

        def recall() -> bytes | None:
            return None if journal is None else journal.recall(name)

        if self._taking:
            written = recall() if self.processes is None else self.processes.first(recall)
            self._taking = written is not None
            if written is not None:
                found: T = unpacked(written)
                if restore is not None:
                    restore(found)
                return found
        result = compute()
        if journal is not None:
            journal.add(name, packed(result))
        return result

    def stop(self) -> None:
        """Add no more results to the journal.  A stopped fit ends early; a resumed one must not end there again."""
        self.stopped = True
        if self.journal is not None:
            self.journal.stop()


def packed(value: Any) -> bytes:
    """Return numbers, texts, lists, dictionaries and arrays as MessagePack."""
    return msgspec.msgpack.encode(value, enc_hook=_plain)


def unpacked(content: bytes) -> Any:
    """Return the values that were packed."""
    return msgspec.msgpack.decode(content, ext_hook=lambda _, data: np.load(io.BytesIO(data), allow_pickle=False))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    written = io.BytesIO()
    np.save(written, value, allow_pickle=False)
    return msgspec.msgpack.Ext(1, written.getvalue())


def present_processes() -> Processes | None:
    """Return the process group of torch.distributed that this process belongs to; None if there is none."""
    if "torch.distributed" not in sys.modules:  # whoever has made a group has imported it
        return None
    from fairbound.training.processes import Processes

    return Processes.present()


def open_journal(
    path: str | os.PathLike[str], *, resume: bool = True, seconds: float = SECONDS, processes: int = 1
) -> Journal:
    """Return the journal at a path, which is written every few seconds; with `resume`, an existing one is continued.

    Its facts are versions and the numbers of threads and processes; the last bits of a fit depend on them.
    """
    check_name(path)
    facts = {
        "fairbound": __version__,
        **{name: metadata.version(name) for name in ("numpy", "scipy")},
        "threads": max((each["num_threads"] for each in threadpool_info()), default=1),
        "processes": processes,
    }
    return Journal(path, facts, resume=resume, seconds=seconds)


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
