"""Parquet into columns, of the same kinds as those of text: int64, float64 with NaN, or text with None."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairbound._names import did_you_mean
from fairbound.data.labels import listed
from fairbound.data.table import Columns

MAGIC = b"PAR1"  # the first bytes of every such file


def read_parquet(stream: BinaryIO, *, place: str, ignore: Collection[str] = ()) -> Columns:
    """Read the columns of a Parquet file, all but those to ignore.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If the file is damaged, has no row, two columns of the same name, or a column that is neither numbers nor text.
    """
    try:
        import pyarrow as pa  # an extra, and needed for this format only
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError('Reading Parquet files needs pyarrow: pip install "fairbound[data]".') from error
    try:
        with ParquetFile(stream) as file:
            names = file.schema_arrow.names
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise ValueError(f"Two columns of {place} are named {twice[0]!r}; give each its own name.")
            unknown = [name for name in ignore if name not in names]
            if unknown:
                raise ValueError(
                    f"{place} has no column {unknown[0]!r} (ignore=).{did_you_mean(unknown[0], names)} "
                    f"It has {listed(names)}."
                )
            table = file.read([name for name in names if name not in ignore])
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{place} is not a Parquet file that can be read ({reason}); write it anew.") from error
    if not table.num_rows:
        raise ValueError(f"{place} has no row; give at least one.")
    return {name: _values(table.column(name), name, place, pa) for name in table.column_names}


def _values(column: Any, name: str, place: str, pa: Any) -> NDArray[Any]:
    types = pa.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind) or types.is_decimal(kind):
        if types.is_integer(kind) and not column.null_count and not types.is_uint64(kind):
            return np.asarray(column.to_numpy(), dtype=np.int64)
        # Not "safe": integers beyond 53 bits are rounded, as those of a text file are.
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if types.is_boolean(kind) or str(kind) in ("string", "large_string", "string_view"):
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return np.array(texts, dtype=object if column.null_count else np.str_)
    raise ValueError(
        f"Column {name!r} of {place} has the type {kind}; give numbers or text, or leave it out with ignore=."
    )
