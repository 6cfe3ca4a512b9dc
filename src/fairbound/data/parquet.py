"""Read Parquet files into columns of the same types as text files: int64, float64 with NaN, or text with None."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, argument
from fairbound._extras import missing_extra
from fairbound._values import as_array
from fairbound.data.table import Columns, no_column

MAGIC = b"PAR1"  # the first bytes of every such file
_TEXTS = ("string", "large_string", "string_view")


def read_parquet(stream: BinaryIO, *, place: str, ignore: Collection[str] = ()) -> Columns:
    """Read the columns of a Parquet file, except those in `ignore`.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If the file is damaged, has no row, two columns of the same name, or a column that is neither numbers nor text.
    """
    table = read_arrow(stream, place=place, ignore=ignore)
    return {name: column_values(table.column(name), name, place) for name in table.column_names}


def read_arrow(stream: BinaryIO, *, place: str, ignore: Collection[str] = ()) -> Any:
    """Read a Parquet file as a pyarrow table, with its types and metadata."""
    try:
        import pyarrow as pa  # an optional dependency, needed for this format only
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise missing_extra("Reading Parquet files needs", "pyarrow", "data") from error
    try:
        with ParquetFile(stream) as file:
            names = file.schema_arrow.names
            twice = [name for name in names if names.count(name) > 1]
            unknown = [name for name in ignore if name not in names]
            kept = [name for name in names if name not in ignore]
            table: Any = None if twice or unknown else file.read(kept)
            if table is not None and table.column_names != kept:  # pyarrow also selects "a.b" for the name "a"
                table = file.read().select(kept)
        if table is not None:
            table.validate(full=True)  # damaged pages may contain invalid text, or codes outside their dictionary
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{place} is not a Parquet file that can be read ({reason}); write it anew.") from error
    if twice:
        raise ValueError(f"Two columns of {place} are named {twice[0]!r}; give each its own name.")
    if unknown:
        raise no_column(place, unknown[0], names, argument("ignore"))
    if not table.num_rows:
        raise ValueError(f"{place} has no row; give at least one.")
    return table


def column_values(column: Any, name: str, place: str) -> NDArray[Any]:
    """Return a pyarrow column as numbers or text."""
    import pyarrow as pa

    types = pa.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if not is_supported(kind):
        raise InputError(
            "Column {column!r} of {place} has the type {kind}.",
            "Give numbers or text, or leave it out with {ignore=}.",
            column=name,
            place=place,
            kind=kind,
        )
    if types.is_boolean(kind) or str(kind) in _TEXTS:
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return np.array(texts, dtype=object) if column.null_count else as_array(texts)
    if types.is_integer(kind) and not column.null_count and not types.is_uint64(kind):
        return np.asarray(column.to_numpy(), dtype=np.int64)
    # `safe=False`: integers beyond 53 bits are rounded, as in text files.
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def is_supported(kind: Any) -> bool:
    """Return whether a pyarrow type is numbers or text."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_null, types.is_decimal, types.is_boolean)
    return str(kind) in _TEXTS or any(test(kind) for test in tests)
