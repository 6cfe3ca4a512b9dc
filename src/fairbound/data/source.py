"""`Source`: rows for `fit` that need not be in memory, and how they are read."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals as nw

from fairbound.data.batches import Batches
from fairbound.data.formats import MISSING
from fairbound.data.opening import open_batches
from fairbound.data.parquet import is_stream, spooled

Tell = Callable[[str, int, int], None]
"""Called with the name of a pass, the number of rows read so far, and the number of all rows."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """Rows that are read in batches, for `ConstrainedClassifier.fit(source, y=..., sensitive_features=...)`.

    Parameters
    ----------
    data : path, or Arrow stream
        A Parquet file, a folder of Parquet files, a CSV file, or any object with `__arrow_c_stream__`, such as a DuckDB
        relation.
    positive, negative, bands, categorical, ignore, drop_unlabelled, missing, decimal, delimiter, \
encoding
        As for `read_table`.
    scratch : path, optional
        The folder for files of rows that do not fit in memory; by default the system's folder for temporary files.
        They take 8 bytes for each value of each row, three times, and are gone when nothing needs them any more.
    memory : float, optional
        Bytes of memory that the rows may take; by default half of all memory.
    """

    data: Any = field(kw_only=False)
    positive: Any = None
    negative: Any = None
    bands: Mapping[str, Sequence[float]] | None = None
    categorical: str | Sequence[str] = ()
    ignore: str | Sequence[str] = ()
    drop_unlabelled: bool = False
    missing: Collection[str] = MISSING
    decimal: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    scratch: str | os.PathLike[str] | None = None
    memory: float | None = None

    @classmethod
    def of(cls, given: Any) -> Source | None:
        """Return the source that is given as X; None for a table or an array in memory.

        Tables and columns of pandas, polars and pyarrow are streams, too, but they are in memory already.
        """
        if isinstance(given, Source):
            return given
        known = nw.dependencies.is_into_dataframe(given) or nw.dependencies.is_into_series(given)
        return cls(given) if isinstance(given, str | os.PathLike) or (is_stream(given) and not known) else None

    @property
    def folder(self) -> Path:
        """Return where the files of the rows are made."""
        return Path(tempfile.gettempdir() if self.scratch is None else self.scratch)

    @property
    def budget(self) -> float:
        """Return the bytes of memory that the rows may take."""
        return memory_of_machine() / 2 if self.memory is None else self.memory

    def open(self) -> Batches:
        """Open the rows."""
        if is_stream(self.data):
            return spooled(self.data, self.folder)
        return open_batches(self.data, delimiter=self.delimiter, encoding=self.encoding)


def memory_of_machine() -> float:
    """Return the bytes of memory of this machine, infinite if they are not known."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else math.inf
