"""Rows that another library hands over: tables in memory, Arrow streams, and lazy frames of Polars."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from fairbound._errors import InputError
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import ArrowTable


def is_table(source: Any) -> bool:
    """Return whether an object is a DataFrame in memory, of pandas, polars or pyarrow."""
    return bool(nw.dependencies.is_into_dataframe(source))


def is_stream(source: Any) -> bool:
    """Return whether an object hands over its rows in batches."""
    held = is_table(source) or nw.dependencies.is_into_series(source)
    kinds = hasattr(source, "__arrow_c_stream__"), nw.dependencies.is_polars_lazyframe(source)
    return not held and (any(kinds) or isinstance(source, Iterator))


def open_table(table: Any) -> ArrowTable:
    """Return the source of a DataFrame; pandas' index is no column."""
    pa = import_pyarrow()
    if not nw.dependencies.is_pandas_dataframe(table):
        return ArrowTable.of(nw.from_native(table, eager_only=True).to_arrow())
    try:
        return ArrowTable.of(pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"The table has values of several types in one column: {'; '.join(map(str, error.args))}."
        ) from error


def open_stream(stream: Any, folder: Path) -> ArrowTable:
    """Write a stream, which may be readable once only, to a file without a name that is mapped into memory."""
    pa = import_pyarrow()
    batches = stream_batches(stream)
    rows = 0
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            first = next(batches, None)
            if first is not None:
                with pa.ipc.new_stream(file, first.schema) as writer:
                    for batch in chain([first], batches):
                        writer.write_batch(batch)
                        rows += batch.num_rows
            file.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise OSError(
                f"The disk of {folder} is full after {rows:,} rows of the stream; name a folder with more room "
                "(scratch= of Source)."
            ) from error
        if not rows:
            raise ValueError("The stream has no row; give at least one.")
        return ArrowTable.of(pa.ipc.open_stream(pa.py_buffer(np.memmap(file, np.uint8, "r"))).read_all(), "the stream")


def stream_batches(stream: Any) -> Iterator[Any]:
    """Yield the Arrow batches of a stream."""
    pa = import_pyarrow()
    if hasattr(stream, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(stream)
        return
    if isinstance(stream, Iterator):
        for part in stream:
            if not hasattr(part, "__arrow_c_array__") and not hasattr(part, "__arrow_c_stream__"):
                raise InputError(
                    "The iterator gives {kind}, but its parts must be Arrow batches or tables.",
                    kind=type(part).__name__,
                )
            yield from pa.table(part).to_batches()
        return
    for part in stream.collect_batches() if hasattr(stream, "collect_batches") else [stream.collect()]:
        yield from part.to_arrow().to_batches()
