"""`Source`: rows for `fit` that need not be in memory, and how they are read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals as nw

from fairbound.data.batches import Batches
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.opening import open_batches
from fairbound.data.parquet import is_stream, spooled
from fairbound.data.roles import Roles

Tell = Callable[[str, int, int], None]
"""Called with the name of a pass, the number of rows read so far, and the number of all rows."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """Rows that are read in batches, for `ConstrainedClassifier.fit(source, y=..., sensitive_features=...)`.

    Parameters
    ----------
    data : path, or Arrow stream
        A Parquet file, a folder of Parquet files, a CSV file, or any object with `__arrow_c_stream__`, such as a DuckDB
        relation.  A stream is first written to the scratch folder, because it may be readable once only.
    positive, negative, bands, categorical, ignore, drop_unlabelled, missing, decimal, delimiter, \
encoding
        As for `read_table`.
    scratch : path, optional
        Where the scratch folder of encoded rows is made; by default the system's folder for temporary files.  It needs
        12 bytes for each number of each row, and is removed at the end.
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

    @classmethod
    def of(cls, given: Any) -> Source | None:
        """Return the source that is given as X; None for a table or an array in memory.

        Tables of pandas, polars and pyarrow are streams, too, but they are in memory already.
        """
        if isinstance(given, Source):
            return given
        if isinstance(given, str | os.PathLike) or (is_stream(given) and not nw.dependencies.is_into_dataframe(given)):
            return cls(given)
        return None

    @property
    def folder(self) -> Path:
        """Return where scratch folders are made."""
        return Path(tempfile.gettempdir() if self.scratch is None else self.scratch)

    def roles(self, target: Any, sensitive: Any, weight: Any, **further: Any) -> Roles:
        """Return the roles of the columns."""
        return Roles.build(
            target=target,
            sensitive=() if sensitive is None else sensitive,
            weight=weight,
            **further,
            positive=self.positive,
            negative=self.negative,
            bands=self.bands,
            categorical=self.categorical,
            ignore=self.ignore,
            drop_unlabelled=self.drop_unlabelled,
        )

    @contextmanager
    def opened(
        self, roles: Roles, tell: Tell | None = None, formats: Mapping[str, ColumnFormat] | None = None
    ) -> Iterator[Batches]:
        """Open the rows, and learn the formats of their columns; known formats are those of the training rows."""

        def progress(rows: int) -> None:
            if tell is not None:
                tell("Reading the file", rows, 0)

        def learnt(found: Batches) -> Batches:
            return found.learn(
                words={*roles.keys, *roles.categorical},
                ignore=roles.ignore,
                missing=tuple(self.missing),
                decimal=self.decimal,
                formats=None if found.is_typed else formats,
                progress=progress,
            )

        if is_stream(self.data):
            with spooled(self.data, self.folder) as found:
                yield learnt(found)
            return
        yield learnt(open_batches(self.data, delimiter=self.delimiter, encoding=self.encoding))
