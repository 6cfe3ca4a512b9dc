"""Files that are read: that they are there, their columns, and the nearest name where one is wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._names import did_you_mean

if TYPE_CHECKING:
    from fairbound.data.table import Columns


def read_columns(
    path: str, *, needed: Collection[str] | None = None, delimiter: str | None = None, encoding: str = "utf-8"
) -> Columns:
    """Return the raw columns of a CSV or Parquet file; columns of dates and the like only if they are needed."""
    from fairbound.data.delimited import read_delimited
    from fairbound.data.parquet import read_parquet

    file = existing_file(path)
    if delimiter is None:
        delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"--delimiter is {delimiter!r}; give one character, for example ',' or ';'.")
    with file.open("rb") as stream:
        if is_parquet(path):
            left_out = [] if needed is None else [name for name in other_columns(path) if name not in needed]
            return read_parquet(stream, place=file.name, ignore=left_out)
        return read_delimited(stream, place=file.name, delimiter=delimiter, encoding=encoding)


def is_parquet(path: str) -> bool:
    """Tell by the first bytes."""
    from fairbound.data.parquet import MAGIC

    with Path(path).open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def other_columns(path: str) -> list[str]:
    """Name the columns of a Parquet file that are neither numbers nor text; none where it cannot be read at all."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return []  # the reader says what is missing
    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowInvalid, OSError):
        return []  # the reader says what is wrong
    kinds = {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema
    }
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_null, types.is_decimal, types.is_boolean)
    texts = ("string", "large_string", "string_view")
    return [name for name, kind in kinds.items() if str(kind) not in texts and not any(test(kind) for test in tests)]


def existing_file(path: str) -> Path:
    """Return the path of a file, or say that there is none."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    if not file.is_file():
        near = did_you_mean(file.name, [each.name for each in file.parent.iterdir()]) if file.parent.is_dir() else ""
        raise FileNotFoundError(f"There is no file {path}.{near}")
    return file


def check_source(source: str) -> None:
    """Refuse a file that is not there, before anything is imported to read it; a bare word may name a data set."""
    path = Path(source)
    if path.exists() or path.suffix or len(path.parts) > 1:
        existing_file(source)


def column(columns: Mapping[str, Any], name: str, option: str, path: str) -> Any:
    """Return one column, or name the nearest."""
    if name not in columns:
        from fairbound.data.labels import listed

        place = Path(path).name
        raise ValueError(
            f"{place} has no column {name!r} ({option}).{did_you_mean(name, columns)} It has {listed(columns)}."
        )
    return columns[name]
